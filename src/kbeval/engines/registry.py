"""From a name or a SPEC to an engine that is ready to be built."""

from __future__ import annotations

import difflib
import importlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kbeval.config import explain
from kbeval.engines import plugins
from kbeval.engines.presets import expand
from kbeval.errors import KbevalError
from kbeval.formats.trec import run_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.engines.base import BuildContext, Engine, EngineSettings

# type -> (module, settings class, engine class); imported when one is used, for Haystack alone takes a second.
_TYPES = {
    "hybrid": ("kbeval.engines.hybrid", "HybridSettings", "HybridEngine"),
    "keyword": ("kbeval.engines.keyword", "KeywordSettings", "KeywordEngine"),
    "bm25": ("kbeval.engines.bm25", "Bm25Settings", "Bm25Engine"),
    "python": ("kbeval.engines.python", "PythonSettings", "PythonEngine"),
    "haystack": ("kbeval.engines.haystack_file", "HaystackSettings", "HaystackEngine"),
    "http": ("kbeval.engines.http", "HttpSettings", "HttpEngine"),
    "run": ("kbeval.engines.replay", "ReplaySettings", "ReplayEngine"),
}
# type "python:module:object": the rest is this setting
_PREFIXED = {"python": "object", "haystack": "file", "run": "file"}
_KNOWN = "hybrid, keyword, bm25, python:MODULE:OBJECT, haystack:FILE.yaml, http, run:FILE.trec"

_NAMED_SPEC = re.compile(r"(?P<name>[^=:]+)=(?P<spec>.+)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class CombinationError(KbevalError):
    """Settings of which each is right by itself, and that do not go together."""


@dataclass(frozen=True)
class EnginePlan:
    """An engine that was asked for: its name, its validated settings, and how to build it.

    ``root`` is what relative paths in its settings are relative to: the working folder, where a type on the command
    line names a file; the project's root (None) for what stands in kbeval.toml.
    """

    name: str
    settings: EngineSettings
    engine_class: Any
    root: Path | None = None

    def build(self, context: BuildContext) -> Engine:
        """Builds it: imports, indexes, embeds. May take long; reports to ``context.progress``."""
        if self.root is not None:
            context = replace(context, root=self.root)
        engine: Engine = self.engine_class.build(self.settings, context)
        return engine

    def files(self, root: Path) -> list[Path]:
        """The files that it reads, of which no run may become one."""
        return [(self.root or root) / file for file in self.settings.files()]


def plan_engines(
    specs: Sequence[str],
    tables: Mapping[str, Mapping[str, Any]],
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[EnginePlan]:
    """Resolves ``[NAME=]SPEC`` arguments against the ``[engines.NAME]`` tables.

    Args:
        specs: as given by the user; empty means every configured engine.
        tables: the configured engines.
        overrides: settings by engine name, which replace those of the tables.

    Raises:
        KbevalError: an unknown engine, type, key or value, or the same name twice.
    """
    plans: dict[str, EnginePlan] = {}
    for name, table in named_tables(specs, tables).items():
        configured = any(table is known for known in tables.values())
        root = None if configured else Path.cwd()
        plans[name] = _plan(name, {**table, **(overrides or {}).get(name, {})}, root)
    return list(plans.values())


def named_tables(specs: Sequence[str], tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The settings table of each engine asked for, by its name, in the order asked."""
    for name in tables:
        if not _NAME.fullmatch(name):
            raise KbevalError(f"[engines]: expected names of letters, digits, - and _, found {name!r}")
    if not specs and not tables:
        raise KbevalError("[engines]: expected at least one engine, found none")
    named: dict[str, Mapping[str, Any]] = {}
    for argument in specs or list(tables):
        match = _NAMED_SPEC.fullmatch(argument)
        spec = match["spec"] if match else argument
        if spec in tables:
            name, table = spec, tables[spec]
        else:
            name, table = default_name(spec), {"type": spec}
            _type_of(spec, known=tables)
        if match:
            name = match["name"]
            if not _NAME.fullmatch(name):
                raise KbevalError(f"--engine {argument}: expected a name of letters, digits, - and _, found {name!r}")
        if name in named:
            raise KbevalError(f"--engine {argument}: expected names that differ, found {name!r} twice")
        named[name] = table
    return named


def default_name(spec: str) -> str:
    """The object's, file's or type's own name; anything but letters, digits, ``-`` and ``_`` becomes ``_``."""
    head, _, rest = spec.partition(":")
    if _PREFIXED.get(head) == "file":
        own = re.sub(r"\.ya?ml$", "", Path(rest).name) if head == "haystack" else run_name(rest)
    else:
        own = spec.rpartition(":")[2]
    return re.sub(r"[^A-Za-z0-9_-]", "_", own)


def _type_of(kind: str, known: Mapping[str, Any]) -> tuple[type[EngineSettings], Any]:
    """The settings class and the factory of a type, kbeval's own or one that a package brings."""
    head, _, rest = kind.partition(":")
    if head in _TYPES and bool(rest) == (head in _PREFIXED):
        plugins.refuse_clash(head)
        module_name, settings_name, engine_name = _TYPES[head]
        module = importlib.import_module(module_name)
        return getattr(module, settings_name), getattr(module, engine_name)
    found = plugins.load(kind, built_in=_TYPES)
    if found is not None:
        return found
    brought = plugins.names()
    near = difflib.get_close_matches(kind, [*known, *_TYPES, *brought], n=1)
    hint = f" (nearest: {near[0]!r})" if near else ""
    names = f"{', '.join(known)}, or a type: " if known else ""
    raise KbevalError(
        f"engine {kind!r}: expected one of {names}{', '.join([_KNOWN, *brought])}; found none of that name{hint}"
    )


def _plan(name: str, table: Mapping[str, Any], root: Path | None) -> EnginePlan:
    options = expand(name, table)
    kind = options.pop("type", None)
    if not isinstance(kind, str):
        raise KbevalError(f"[engines.{name}]: expected a type ({_KNOWN}), found {kind!r}")
    settings_class, factory = _type_of(kind, known={})
    head, _, rest = kind.partition(":")
    if head in _PREFIXED:
        options[_PREFIXED[head]] = rest
    try:
        settings = settings_class.model_validate(options)
    except ValidationError as error:
        words = explain(error, settings_class)
        kind_of_error = KbevalError if error.errors(include_url=False)[0]["loc"] else CombinationError
        raise kind_of_error(f"[engines.{name}]: expected {words['expected']}, found {words['found']}") from None
    return EnginePlan(name=name, settings=settings, engine_class=factory, root=root)
