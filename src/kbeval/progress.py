"""Progress of long work, on standard error: a bar on a terminal, plain lines where there is none."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Advance = Callable[[int], None]

PLAIN_INTERVAL_SECONDS = 10.0


class Progress(ABC):
    """Where long work reports to."""

    @abstractmethod
    def task(self, label: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Gives ``advance(n)``, to be called as ``n`` more of ``total`` units are done."""


class Silent(Progress):
    """Reports nothing: the default of the library."""

    @contextmanager
    def task(self, label: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield lambda _: None


class PlainLines(Progress):
    """One line when a task ends, and one every ten seconds while it lasts: for logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def task(self, label: str, total: int | None = None) -> Iterator[Advance]:
        started = spoke = time.monotonic()
        done = 0

        def advance(count: int) -> None:
            nonlocal done, spoke
            done += count
            if time.monotonic() - spoke >= PLAIN_INTERVAL_SECONDS:
                spoke = time.monotonic()
                self._say(label, done, total, spoke - started)

        yield advance
        self._say(label, done, total, time.monotonic() - started)

    def _say(self, label: str, done: int, total: int | None, seconds: float) -> None:
        count = f": {done}/{total}" if total else (f": {done}" if done else "")
        print(f"{label}{count} ({seconds:.1f} s)", file=self._stream, flush=True)


class Bars(Progress):
    """A bar a task, by rich."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @contextmanager
    def task(self, label: str, total: int | None = None) -> Iterator[Advance]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        counter = [BarColumn(), MofNCompleteColumn()] if total else []
        with RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            *counter,
            TimeElapsedColumn(),
            console=Console(file=self._stream),
        ) as bars:
            task = bars.add_task(label, total=total)
            yield lambda count: bars.advance(task, count)
            bars.update(task, completed=total or 1, total=total or 1)


def on_standard_error() -> Progress:
    """Bars where standard error is a terminal, plain lines elsewhere."""
    return Bars(sys.stderr) if sys.stderr.isatty() else PlainLines(sys.stderr)
