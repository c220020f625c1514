"""What an engine's calls to services came to, gathered where they are made: retries, pauses, tokens, units.

Whoever asks opens :func:`metering`; the components below report without knowing who listens. All of it belongs to the
thread that asks: two questions at once are told apart.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from kbeval.engines.base import Usage, added

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


@dataclass(slots=True)
class Meter:
    """What was reported while it listened: requests that were repeated, the seconds waited before, and usage."""

    retries: int = 0
    waited: float = 0.0
    usage: tuple[Usage, ...] = field(default=())


class _Listening(threading.local):
    meter: Meter | None = None
    call: _Call | None = None


@dataclass(slots=True)
class _Call:
    """A call to a service, which may take several requests: when the last one ended."""

    ended: float | None = None


_here = _Listening()


@contextmanager
def metering() -> Iterator[Meter]:
    """Listens while the block lasts. Where the block fails, whoever listens outside it is told instead."""
    outer, meter = _here.meter, Meter()
    _here.meter = meter
    try:
        yield meter
    except BaseException:
        if outer is not None:
            outer.retries += meter.retries
            outer.waited += meter.waited
            outer.usage = added([*outer.usage, *meter.usage])
        raise
    finally:
        _here.meter = outer


def heard() -> Meter | None:
    """Who listens in this thread."""
    return _here.meter


def used(usage: Usage) -> None:
    """A service gave an answer that took this."""
    if _here.meter is not None:
        _here.meter.usage = added([*_here.meter.usage, usage])


def retried(waited: float) -> None:
    """A request was repeated, after a pause of so many seconds."""
    if _here.meter is not None:
        _here.meter.retries += 1
        _here.meter.waited += waited


@contextmanager
def one_call() -> Iterator[None]:
    """Every request inside the block but the first repeats it."""
    outer, _here.call = _here.call, _Call()
    try:
        yield
    finally:
        _here.call = outer


def timed(send: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Sends a request, and notes whether it is a repeated one and how long nothing was sent before it."""
    call = _here.call
    if call is None:
        return send(*arguments, **options)
    if call.ended is not None:
        retried(time.perf_counter() - call.ended)
    try:
        return send(*arguments, **options)
    finally:
        call.ended = time.perf_counter()
