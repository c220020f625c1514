"""The program in processes of its own that need not import everything anew: forked from one that has.

A run of ``kbeval generate`` takes some seconds for imports and a moment for what it does. Each run here is a real
process with its own working folder, environment, output and exit code, and can be killed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

_PARENT = """
import json, os, signal, sys
import openai, kbeval.cli.app, kbeval.testset.generation.summary, kbeval.testset.generation.work
openai.AsyncOpenAI(api_key="none", base_url="http://127.0.0.1")
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["kbeval", *order["arguments"]]
        code = 70
        try:
            kbeval.cli.app.main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(pid, flush=True)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Running:
    """One run. ``code`` waits for its end; a killed one has the negative number of its signal."""

    def __init__(self, pid: int, parent: subprocess.Popen[str], out: Path, err: Path) -> None:
        self.pid = pid
        self._parent = parent
        self._out, self._err = out, err
        self._code: int | None = None

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def lives(self) -> bool:
        """Whether it has not ended."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    @property
    def code(self) -> int:
        if self._code is None:
            assert self._parent.stdout is not None
            self._code = int(self._parent.stdout.readline())
        return self._code

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()


class Preloaded:
    """Starts runs, one after the other."""

    def __init__(self, parent: subprocess.Popen[str], folder: Path) -> None:
        self._parent = parent
        self._folder = folder
        self._runs = 0

    def start(self, folder: Path, environment: dict[str, str], *arguments: object) -> Running:
        """A run that goes on; its end has to be waited for (``code``) before the next one starts."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._runs += 1
        out, err = (self._folder / f"{self._runs}.{name}" for name in ("out", "err"))
        order = {
            "folder": str(folder),
            "environment": environment,
            "arguments": [str(argument) for argument in arguments],
            "out": str(out),
            "err": str(err),
        }
        self._parent.stdin.write(json.dumps(order) + "\n")
        self._parent.stdin.flush()
        pid = int(self._parent.stdout.readline())
        while not (out.exists() and err.exists()):
            time.sleep(0.001)
        return Running(pid, self._parent, out, err)


@contextmanager
def preloaded() -> Iterator[Preloaded]:
    """Starts the process that the runs are forked from, and ends it."""
    with (
        tempfile.TemporaryDirectory(prefix="kbeval-test-") as folder,
        subprocess.Popen(
            [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as parent,
    ):
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        yield Preloaded(parent, Path(folder))
        assert parent.stdin is not None
        parent.stdin.close()
