"""Reads a page of docs/ as its reader does: files are written, commands run, and what is shown is compared.

- A fence with a ``title`` is a file of that name.
- ``console``: lines that begin with ``$`` are commands; what follows is their standard output.
- ``python`` without a title is run; a ``text`` fence right behind it is its standard output.
- ``toml``, ``yaml``, ``json``: are read; ``toml`` without a title must be settings that kbeval takes.
- ``...`` in an output stands for anything; alone on a line, for any lines.
- ``<!-- not run: why -->`` before a fence, and ``<!-- exit 1 -->`` where that is the last command's code.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import yaml

from kbeval.config import Settings

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = "kbeval.pytest_plugin"
# Each example in a namespace of its own, all of a page in one process: what they import is the slow part.
DRIVER = """
import json, sys, io, contextlib
outputs = []
for body in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(body, "<example>", "exec"), {"__name__": "__main__"})
    outputs.append(out.getvalue())
print(json.dumps(outputs))
"""
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n+)?"
    r"^```(?P<language>[a-z]+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Fence:
    """One example. ``mark`` is the comment before it."""

    language: str
    body: str
    title: str | None = None
    mark: str = ""
    behind: str = ""


def fences(text: str) -> list[Fence]:
    """The examples of a page, in their order; every fence of it, or the page is not as it should be."""
    found = list(FENCE.finditer(text))
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(found), "a fence without a language, or indented"
    starts = [match.start() for match in found[1:]] + [len(text)]
    return [
        Fence(m["language"], m["body"], m["title"], m["mark"] or "", text[m.end() : after].strip())
        for m, after in zip(found, starts, strict=True)
    ]


class Reader:
    """Someone who does what a page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "reader"
        programs = folder / "programs"
        self.folder.mkdir()
        programs.mkdir()
        python = shlex.quote(sys.executable)
        # Installed, the plugin is there by its entry point; from a checkout alone it has to be named.
        installed = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
        pytest = "-m pytest -p no:cacheprovider" + ("" if installed else f" -p {PLUGIN}")
        for name, command in {"kbeval": "-m kbeval", "python": "", "pytest": pytest}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {python} {command} "$@"\n')
            (programs / name).chmod(0o755)
        # As a reader's: pytest says more where CI is set.
        others = ("KBEVAL_", "PYTEST_", "CI", "BUILD_NUMBER")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(others)}
        self.environment = {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "80"}

    def follow(self, text: str) -> int:
        """Does what a page says, and returns how many examples were run or read."""
        done = 0
        page = fences(text)
        bodies = [fence.body for fence in page if is_run(fence)]
        outputs = iter(json.loads(self._run([sys.executable, "-c", DRIVER], 0, json.dumps(bodies))) if bodies else ())
        for fence, following in zip(page, [*page[1:], None], strict=True):
            if fence.mark.startswith("not run: "):
                continue
            if fence.language == "console":
                self._console(fence)
            elif fence.title is not None:
                self._write(fence)
            elif is_run(fence):
                out = next(outputs)
                if following is not None and following.language == "text" and not fence.behind:
                    same(out, following.body)
                else:
                    assert out, f"prints nothing:\n{fence.body}"
            elif fence.language == "toml":
                Settings.model_validate(tomllib.loads(fence.body))
            else:
                assert fence.language == "text", f"no test knows what to do with {fence.language}"
                continue
            done += 1
        return done

    def _write(self, fence: Fence) -> None:
        assert fence.title is not None
        readers = {"toml": tomllib.loads, "yaml": yaml.safe_load, "json": json.loads}
        readers.get(fence.language, lambda text: text)(fence.body)
        file = self.folder / fence.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(fence.body)

    def _console(self, fence: Fence) -> None:
        steps = re.split(r"^\$ ", fence.body, flags=re.MULTILINE)
        assert not steps[0].strip(), "a console begins with $"
        last = int(fence.mark.removeprefix("exit ")) if fence.mark.startswith("exit ") else 0
        for place, step in enumerate(steps[1:], start=1):
            command, _, shown = step.partition("\n")
            out = self._run(["bash", "-c", command], last if place == len(steps) - 1 else 0)
            if shown.strip():
                same(out, shown)

    def _run(self, command: list[str], code: int, given: str = "") -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == code, f"{command[-1]}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def is_run(fence: Fence) -> bool:
    """Whether it is Python that is run as it stands."""
    return fence.language == "python" and fence.title is None and not fence.mark.startswith("not run: ")


def same(found: str, shown: str) -> None:
    """Holds what came out against what a page shows."""
    pattern = []
    for line in shown.strip("\n").splitlines():
        if line.strip() == "...":
            pattern.append(r"(?:[^\n]*\n)*?")
        else:
            pattern.append(r"[^\n]*?".join(re.escape(part) for part in line.rstrip().split("...")) + r" *\n")
    assert re.fullmatch("".join(pattern) + r"\n*", found.lstrip("\n") + "\n"), f"shown:\n{shown}\nfound:\n{found}"
