"""Questions answered by other processes: what is done there, and who hands it over here."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbeval._version import __version__
from kbeval.errors import KbevalError
from kbeval.progress import Silent
from kbeval.running.asking import Outcome, ask
from kbeval.running.threads import Threads
from kbeval.secrets import one_line
from kbeval.workers import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from kbeval.engines.base import Engine
    from kbeval.engines.registry import EnginePlan
    from kbeval.model import LabelledQuery
    from kbeval.running.policy import Policy
    from kbeval.store import Attachment
    from kbeval.workers import Workers

BATCH = 8
"""Questions that are handed over together."""
MOST_ENGINES = 2
"""How many engines a process keeps ready."""


@dataclass(frozen=True)
class Recipe:
    """Everything that another process needs to make the same engine. It holds no key: keys are in its environment.

    Attributes:
        session: tells the engines of one command apart from those of another.
        plan: what to build.
        root: what relative paths in the settings are relative to.
        store: the evaluation database, with the documents in it.
    """

    session: str
    plan: EnginePlan
    root: Path
    store: Attachment
    k: int
    policy: Policy
    timeout_s: float | None
    version: str = field(default=__version__)


_ready: OrderedDict[str, tuple[Engine, threading.Lock]] = OrderedDict()
_building = threading.Lock()


def answer_batch(recipe: Recipe, queries: Sequence[LabelledQuery]) -> list[Outcome]:
    """Asks an engine some questions, in the process that this runs in. The engine is built at the first call.

    Raises:
        KbevalError: the engine cannot be built there, or kbeval is another one.
    """
    try:
        engine, turn = _engine(recipe)
    except KbevalError as error:
        raise KbevalError(str(error)) from None  # of its subclasses some cannot be sent

    def ask_one(query: LabelledQuery) -> Outcome:
        return ask(engine, query, recipe.k, recipe.policy, timeout_s=recipe.timeout_s, signals=False)

    with turn:  # a process may be given several batches at once
        if recipe.timeout_s is None:
            return [ask_one(query) for query in queries]
        threads = Threads(ask_one, 1, recipe.timeout_s)
        try:
            found = dict(threads.outcomes(enumerate(queries), lambda _: True))
        finally:
            threads.close()
        return [found[place] for place in range(len(queries))]


def _engine(recipe: Recipe) -> tuple[Engine, threading.Lock]:
    from kbeval.engines.base import BuildContext
    from kbeval.store import attached_store

    if recipe.version != __version__:
        raise KbevalError(f"a worker runs kbeval {__version__}, expected {recipe.version}")
    key = f"{recipe.session} {recipe.plan.name}"
    with _building:
        if key not in _ready:
            while len(_ready) >= MOST_ENGINES:
                _, (old, turn) = _ready.popitem(last=False)
                with turn, suppress(Exception):  # its database may be gone
                    old.close()
            store = attached_store(recipe.store)
            context = BuildContext(
                documents=store.read_corpus(), store=lambda: store, progress=Silent(), root=recipe.root
            )
            _ready[key] = (recipe.plan.build(context), threading.Lock())
        return _ready[key]


class Batches:
    """Asks questions by other processes; the counterpart of :class:`~kbeval.running.threads.Threads`.

    A question whose process dies is asked again by another, up to three times. A batch that was lost, or whose answers
    could not be sent, is then asked one question at a time: what one question does is no other's error.

    Args:
        workers: the processes.
        recipe: of the engine.
    """

    def __init__(self, workers: Workers, recipe: Recipe) -> None:
        self._tasks = Tasks(workers)
        self._workers = workers
        self._recipe = recipe
        self._running: dict[int, LabelledQuery] = {}

    @property
    def slots(self) -> int:
        """How many are asked at once."""
        return self._workers.slots

    @property
    def running(self) -> int:
        """How many questions are on their way."""
        return len(self._running)

    def outcomes(
        self, queries: Iterable[tuple[int, LabelledQuery]], may_start: Callable[[int], bool]
    ) -> Iterator[tuple[int, Outcome]]:
        """As ``Threads.outcomes``."""
        waiting = deque(queries)
        # Enough to keep each process busy, and no more than leaves some for each to the end.
        size = max(1, min(BATCH, len(waiting) // (4 * self._workers.slots)))
        began = time.perf_counter()
        while True:
            while waiting and len(self._tasks) < 2 * self._workers.slots:
                batch: list[int] = []
                while waiting and len(batch) < size and may_start(self.running):
                    place, query = waiting.popleft()
                    self._running[place] = query
                    batch.append(place)
                if not batch:
                    break
                self._start(batch)
            if not self._running:
                return
            for places, outcomes, error in self._tasks.next():
                yield from self._settled(places, outcomes, error, began)

    def drained(self, seconds: float) -> Iterator[tuple[int, Outcome]]:
        """What is on its way, as far as it comes within so many seconds."""
        deadline = time.perf_counter() + seconds
        while self._running and (left := deadline - time.perf_counter()) > 0:
            for places, outcomes, _ in self._tasks.next(left):
                for place, outcome in zip(places, outcomes or (), strict=False):
                    self._running.pop(place, None)
                    yield place, outcome

    def close(self) -> None:
        """What has not begun is not asked any more."""
        self._tasks.cancel()

    def _start(self, places: list[int]) -> None:
        self._tasks.start(places, answer_batch, self._recipe, [self._running[place] for place in places])

    def _settled(
        self, places: list[int], outcomes: list[Outcome] | None, error: BaseException | None, began: float
    ) -> Iterator[tuple[int, Outcome]]:
        if isinstance(error, KbevalError):
            raise error
        if error is not None and len(places) > 1:
            for place in places:
                self._start([place])
            return
        for at, place in enumerate(places):
            query = self._running.pop(place)
            if outcomes is not None:
                yield place, outcomes[at]
            elif error is not None:
                seconds = time.perf_counter() - began
                yield place, Outcome(query=query, seconds=seconds, error=one_line(error))


def new_session() -> str:
    """A name that no other command's engines have."""
    return os.urandom(8).hex()
