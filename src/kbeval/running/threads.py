"""Questions asked by threads: several at once, and none for longer than it may take."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from kbeval.running.asking import Outcome
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kbeval.model import LabelledQuery

_hanging: list[threading.Thread] = []


def hanging() -> bool:
    """Whether calls that were given up are still running."""
    return any(thread.is_alive() for thread in _hanging)


class _Worker:
    """A thread that asks one question after another.

    A daemon: one that hangs in an engine must not keep the process from ending.
    """

    def __init__(self, ask: Callable[[LabelledQuery], Outcome], done: queue.SimpleQueue[_Call]) -> None:
        self._ask = ask
        self._done = done
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="kbeval-asking", daemon=True)
        self.thread.start()

    def give(self, call: _Call) -> None:
        self._calls.put(call)

    def end(self) -> None:
        """It ends when it has nothing to do."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                outcome = self._ask(call.query)
            except BaseException as error:
                # No signal arrives here: a KeyboardInterrupt is the engine's own doing.
                seconds = time.perf_counter() - call.started
                outcome = Outcome(query=call.query, seconds=seconds, error=one_line(error))
            call.outcome = outcome
            self._done.put(call)
            if call.given_up:
                return


class _Call:
    """A question on its way."""

    def __init__(self, place: int, query: LabelledQuery, worker: _Worker) -> None:
        self.place = place
        self.query = query
        self.worker = worker
        self.started = time.perf_counter()
        self.outcome: Outcome | None = None
        self.given_up = False


class Threads:
    """Asks questions by several threads.

    A call that takes longer than ``timeout_s`` is given up: its question is an error, a new thread takes its place, and
    what it may say later is not heard. The call itself cannot be ended; it goes on beside the next ones, also in an
    engine that is not made for it.

    Args:
        ask: asks one question.
        count: how many at once.
        timeout_s: how long a call may take; None for as long as it does.
    """

    def __init__(self, ask: Callable[[LabelledQuery], Outcome], count: int, timeout_s: float | None) -> None:
        self._ask = ask
        self._count = count
        self._timeout_s = timeout_s
        self._done: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._idle: list[_Worker] = []
        self._running: dict[int, _Call] = {}

    @property
    def running(self) -> int:
        """How many questions are on their way."""
        return len(self._running)

    def outcomes(
        self, queries: Iterable[tuple[int, LabelledQuery]], may_start: Callable[[int], bool]
    ) -> Iterator[tuple[int, Outcome]]:
        """The outcome of each question with its place, as they come.

        Args:
            queries: with their places, in the order in which they start.
            may_start: asked with the number of questions on their way before the next one starts. Where it says no with
                none on their way, no more are asked.
        """
        waiting = deque(queries)
        while True:
            while waiting and len(self._running) < self._count and may_start(len(self._running)):
                self._start(*waiting.popleft())
            if not self._running:
                return
            yield from self._next()

    def drained(self, seconds: float) -> Iterator[tuple[int, Outcome]]:
        """What is on its way, as far as it comes within so many seconds."""
        deadline = time.perf_counter() + seconds
        while self._running and (left := deadline - time.perf_counter()) > 0:
            try:
                call = self._done.get(timeout=left)
            except queue.Empty:
                return
            if self._running.pop(call.place, None) is call and call.outcome is not None:
                yield call.place, call.outcome

    def close(self) -> None:
        """Ends the threads. Those that are in an engine still are left to themselves: see :func:`hanging`."""
        for worker in self._idle:
            worker.end()
        _hanging.extend(call.worker.thread for call in self._running.values())

    def _start(self, place: int, query: LabelledQuery) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._ask, self._done)
        call = _Call(place, query, worker)
        self._running[place] = call
        worker.give(call)

    def _next(self) -> Iterator[tuple[int, Outcome]]:
        """Waits until a question is done, or takes too long."""
        wait = None
        if self._timeout_s is not None:
            first = min(call.started for call in self._running.values())
            wait = max(first + self._timeout_s - time.perf_counter(), 0.0)
        try:
            call = self._done.get(timeout=wait)
        except queue.Empty:
            yield from self._late()
            return
        if self._running.get(call.place) is not call or call.outcome is None:
            call.worker.end()  # it had been given up
            return
        del self._running[call.place]
        self._idle.append(call.worker)
        yield call.place, call.outcome

    def _late(self) -> Iterator[tuple[int, Outcome]]:
        now = time.perf_counter()
        timeout = self._timeout_s or 0.0
        for call in [call for call in self._running.values() if now - call.started >= timeout]:
            del self._running[call.place]
            call.given_up = True
            _hanging.append(call.worker.thread)
            error = f"TimeoutError: no answer within {timeout:g} s"
            yield call.place, Outcome(query=call.query, seconds=now - call.started, error=error, timed_out=True)
