"""Signals become exceptions, so that every ``finally`` runs; and wait while something must not be cut in two.

SIGTERM and SIGHUP end a Python process on the spot by default: no ``finally``, no ``atexit``.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

REPEAT_SECONDS = 5.0
"""How long after a signal further ones are taken for repeats of it: ``timeout`` sends its signal twice, and
an impatient user presses Ctrl-C again. Later ones interrupt anew, so that a process whose code swallowed the
first exception can still be ended."""

_HANDLED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(SystemExit):
    """What SIGTERM and SIGHUP become: told apart from code that calls ``sys.exit`` by itself."""


class _State:
    """What the handler knows. Only the main thread touches it: Python runs handlers there alone."""

    shields = 0
    waiting: int | None = None
    last = float("-inf")


def _handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature that signal asks for
    if _State.shields:
        if _State.waiting is None:
            _State.waiting = number
        return
    now = time.monotonic()
    if now - _State.last < REPEAT_SECONDS:
        return
    _State.last = now
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(128 + number)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into ``SystemExit`` (143, 129), and SIGINT into ``KeyboardInterrupt``.

    For the main thread of the command line; in any other thread it does nothing, as Python has it. A signal
    that is ignored when it starts stays ignored (``nohup``, a background job). A second signal within
    ``REPEAT_SECONDS`` does not interrupt the clean-up that the first one began.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {}
    _State.last = float("-inf")
    try:
        for number in _HANDLED:
            # None: a handler that was not installed from Python, which could not be put back.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                previous[number] = signal.signal(number, _handle)
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Blocks SIGINT, also in the processes that are started meanwhile: who started them is told, and ends them.

    A terminal sends Ctrl-C to all of them at once. The mask is inherited, so that they are deaf to it from their first
    moment; here the signal waits until the block has ended.
    """
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover - Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Makes the signals that ``interruptible`` handles wait until the block has ended.

    For the few steps that must be whole: between a process's birth and the note of its id, and in a clean-up.
    Keep what is inside short or bounded. Without ``interruptible`` it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _State.shields += 1
    try:
        yield
    finally:
        _State.shields -= 1
        if not _State.shields and _State.waiting is not None:
            number, _State.waiting = _State.waiting, None
            signal.raise_signal(number)
