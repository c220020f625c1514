"""Writes the pages of docs/ that are made from the code: commands, settings, and the definitions of metrics.

python tools/write_reference.py          # writes them
python tools/write_reference.py --check  # ends with 1 where a page is not what the code says
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import typer.main
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from kbeval.cli.app import app
from kbeval.config import ENVIRONMENT, Settings
from kbeval.engines import registry
from kbeval.engines.presets import PRESETS
from kbeval.evaluation.metrics.base import Cutoff, Family
from kbeval.evaluation.metrics.parsing import parse_metric
from kbeval.evaluation.metrics.registry import families

if typing.TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
TEMPLATE = ROOT / "src" / "kbeval" / "templates" / "kbeval.toml"
MADE = "<!-- Made by tools/write_reference.py from the code: edits here are lost. -->"


def cell(text: str) -> str:
    """Text for a cell of a Markdown table, outside of code."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def code(text: str) -> str:
    """Text as code, in a cell."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def sentences(docstring: str | None) -> str:
    """A docstring as Markdown, up to its sections."""
    text = inspect.cleandoc(docstring or "")
    return re.split(r"\n\n(?=(?:Attributes|Args|Returns|Raises):)", text)[0].replace("``", "`")


# --- commands ---


def commands_page() -> str:
    """Every command with its arguments and options."""
    group = typer.main.get_command(app)
    parts = [
        "# Commands",
        MADE,
        "Each command says the same with `--help`. Exit codes: 0 done; 1 done, but a target was missed, an engine "
        "failed on a question or a call finally failed; 2 bad usage or input, in one line.",
    ]
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        parts += _command(f"kbeval {name}", command)
    return "\n\n".join(parts) + "\n"


def _command(called: str, command: Any) -> list[str]:
    context = typer.Context(command, info_name=called)
    arguments, options = [], []
    for each in command.params:
        record = each.get_help_record(context)
        if record is None or each.name == "help":
            continue
        name, words = record
        default = re.search(r"\s*\[default: (.*?)\]$", words)
        required = re.search(r"\s*\[required\]$", words)
        words = re.sub(r"\s*\[(?:default: .*?|required|x[<>]=?.*?|\d.*?<=x.*?)\]", "", words)
        given = default[1].split(";")[0] if default else ""
        row = [code(name.replace(" range>", ">")), cell(words), code(given) or ("required" if required else "")]
        (arguments if each.param_type_name == "argument" else options).append(row)
    parts = [f"## {called}", inspect.cleandoc(command.help or "")]
    if arguments or options:
        head = "| argument or option | what it says | default |\n| --- | --- | --- |\n"
        parts.append(head + "\n".join(f"| {' | '.join(row)} |" for row in [*arguments, *options]))
    for name, sub in getattr(command, "commands", {}).items():
        parts += _command(f"{called} {name}", sub)
    return parts


# --- settings ---


def settings_page() -> str:
    """Every table and key of kbeval.toml."""
    said = template_comments()
    parts = [
        "# Settings",
        MADE,
        "`kbeval.toml` stands in the project's folder, and paths in it are relative to it. Every key is optional, and "
        "an unknown one is refused. `kbeval init` writes a commented one.",
    ]
    for name, field in Settings.model_fields.items():
        model = _model(field.annotation)
        if name in _OWN_WORDS:
            parts += [f"## [{name}]", _OWN_WORDS[name]]
        elif name == "prices":
            (model,) = filter(None, map(_model, get_args(field.annotation)))
            parts += ['## [prices."SERVICE"]', sentences(model.__doc__), _keys(model, "prices", said)]
        elif model is not None:
            parts += [f"## [{name}]", sentences(model.__doc__), _keys(model, name, said)]
            for key, inner in model.model_fields.items():
                if (below := _model(inner.annotation)) is not None:
                    parts += [f"### [{name}.{key}]", sentences(below.__doc__), _keys(below, f"{name}.{key}", said)]
        else:
            raise SystemExit(f"[{name}]: expected a table that is described, or words of its own here (_OWN_WORDS)")
    parts.append("## Engines, by type")
    for kind, (module, settings, _) in registry._TYPES.items():
        model = getattr(importlib.import_module(module), settings)
        shown = _SPECS.get(kind, kind)
        hidden = {registry._PREFIXED[kind]} if kind in registry._PREFIXED else set()
        parts += [f'### type = "{shown}"', sentences(model.__doc__), _keys(model, "engines", said, hidden)]
    rows = [f"| {code(name)} | {code(f'[{table}] {key}')} |" for name, (table, key) in ENVIRONMENT.items()]
    parts += [
        "## Variables of the environment",
        "Each overrides a key. Keys of services (`COHERE_API_KEY`, `OPENROUTER_API_KEY`, `OPENAI_API_KEY`) are read "
        "from the environment alone and are written to no file.",
        "| variable | key |\n| --- | --- |\n" + "\n".join(rows),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


_SPECS = {"python": "python:MODULE:OBJECT", "haystack": "haystack:FILE.yaml", "run": "run:FILE.trec"}
_OWN_WORDS = {
    "engines": "A table `[engines.NAME]` an engine, which `kbeval evaluate` puts side by side. `type` says what it is; "
    "its other keys are below. `preset` takes over the keys of "
    + ", ".join(f"`{name}`" for name in PRESETS)
    + "; your own keys win.",
    "targets": 'A floor for the mean of a metric, by its name: `mrr = 0.85`, `"recall@20" = 0.9`. A name that starts '
    "with `latency_` is a ceiling in milliseconds: `latency_p50_ms`, `latency_p95_ms`, `latency_p99_ms`. There is none "
    "by default.",
    "margins": "How much worse than its baseline a run may be, by metric: `mrr = 0.05`. There is none by default.",
}


def _model(annotation: Any) -> type[BaseModel] | None:
    return annotation if inspect.isclass(annotation) and issubclass(annotation, BaseModel) else None


def _keys(model: type[BaseModel], table: str, said: dict[tuple[str, str], str], hidden: Collection[str] = ()) -> str:
    rows = []
    described = attributes(model)
    for key, field in model.model_fields.items():
        if key in hidden or _model(field.annotation) is not None:
            continue
        words = described.get(key) or said.get((table, key), "")
        if not words:
            raise SystemExit(
                f"[{table}] {key} of {model.__name__}: described neither in a docstring nor in the template"
            )
        default = field.get_default(call_default_factory=True)
        shown = "" if default is None or default is PydanticUndefined else _toml(default)
        rows.append(f"| {code(key)} | {cell(words)} | {cell(kind_of(field.annotation))} | {code(shown)} |")
    if not rows:
        return ""
    return "| key | what it says | kind | default |\n| --- | --- | --- | --- |\n" + "\n".join(rows)


def _toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def kind_of(annotation: Any) -> str:
    """A type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(inner[0])
    if origin is Literal:
        return ", ".join(f"`{_toml(value)}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(kind_of(each) for each in inner if each is not type(None)))
    if origin in (list, tuple):
        return "list"
    if origin is dict or annotation is dict:
        return "table"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(annotation, "value")


def attributes(model: type[BaseModel]) -> dict[str, str]:
    """What the ``Attributes:`` of a class and of those it is made from say, by key."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        section = re.search(r"\n\s*Attributes:\n(.*)", inspect.cleandoc(each.__dict__.get("__doc__") or ""), re.DOTALL)
        for entry in re.findall(r"^    (\S.*?)$((?:\n {6,}.*)*)", section[1] if section else "", re.MULTILINE):
            names, _, words = " ".join("".join(entry).split()).partition(": ")
            for name in names.split(", "):
                found[name] = words.replace("``", "`")
    return found


def template_comments() -> dict[tuple[str, str], str]:
    """What the template says behind each key, for a key that its class says nothing about."""
    found: dict[tuple[str, str], str] = {}
    table = ""
    for line in TEMPLATE.read_text(encoding="utf-8").splitlines():
        bare = line.removeprefix("# ")
        if match := re.match(r"\[([a-z_]+(?:\.[a-z_]+)?)[^\]]*\]", bare):
            table = "engines" if match[1].startswith("engines") else match[1]
        elif match := re.match(r"\"?([a-z_0-9@]+)\"? = (.*)", bare):
            _, _, behind = match[2].partition("  #")
            if behind:
                found.setdefault((table, match[1]), behind.strip().replace("``", "`"))
    return found


# --- metrics ---

BLOCK = re.compile(r"<!-- metric: (\S+) -->\n.*?<!-- end -->", re.DOTALL)


def metrics_page(text: str) -> str:
    """The page with each metric's block filled in; what stands between blocks is written by hand."""
    known = {family.name: family for family in families()}
    named = [match[1] for match in BLOCK.finditer(text)]
    if sorted(named) != sorted(known):
        raise SystemExit(f"docs/metrics.md: expected a block for each of {sorted(known)}, found {sorted(named)}")
    return BLOCK.sub(lambda match: f"<!-- metric: {match[1]} -->\n{_family(known[match[1]])}\n<!-- end -->", text)


def _family(family: Family) -> str:
    names = {
        Cutoff.REQUIRED: f"`{family.name}@k`",
        Cutoff.OPTIONAL: f"`{family.name}`, `{family.name}@k`",
        Cutoff.NONE: f"`{family.name}`",
    }[family.cutoff]
    example = f"{family.name}.8" if family.takes_persistence else family.name
    if family.takes_persistence:
        names = f"`{family.name}.P`, as in `{example}`"
    metric = parse_metric(f"{example}@10" if family.cutoff is Cutoff.REQUIRED else example)
    asked = metric.oracle_command()
    aliases = ", ".join(f"`{alias}`" for alias in sorted(family.aliases))
    rows = [
        ("names", names + (f"; also {aliases}" if aliases else "")),
        ("definition", cell(family.definition)),
        ("source", cell(family.source)),
        ("trec_eval", code(asked) if asked else "has none"),
        ("relevance level", "changes it" if family.takes_level else "changes nothing: it takes the grades as they are"),
    ]
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {text} |" for name, text in rows)])


# --- decisions ---


def decisions_page(text: str) -> str:
    """The page with a link to each record below its introduction."""
    introduction = text.split("\n\n<!-- Made by")[0].rstrip()
    records = []
    for path in sorted((DOCS / "decisions").glob("0*.md")):
        number, _, title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").partition(" ")
        records.append(f"- [{number}. {title}]({path.name})")
    return "\n\n".join([introduction, MADE, "\n".join(records)]) + "\n"


def pages() -> dict[Path, str]:
    """What each page should hold."""
    metrics, decisions = DOCS / "metrics.md", DOCS / "decisions" / "README.md"
    return {
        DOCS / "reference" / "commands.md": commands_page(),
        DOCS / "reference" / "settings.md": settings_page(),
        metrics: metrics_page(metrics.read_text(encoding="utf-8")),
        decisions: decisions_page(decisions.read_text(encoding="utf-8")),
    }


def main() -> int:
    """Writes the pages, or says which are not as they should be."""
    check = "--check" in sys.argv[1:]
    stale = 0
    for path, text in pages().items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        print(f"{path.relative_to(ROOT)}: {'is not what the code says' if check else 'written'}")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
