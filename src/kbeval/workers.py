"""Other processes that do an engine's work, on this machine or a Dask cluster: any concurrent.futures executor's.

What goes to them is a function of kbeval's own with plain arguments, and what comes back is the same whoever did it. A
worker that dies costs its batch's time: the batch is done again by another.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kbeval._version import __version__
from kbeval.errors import KbevalError
from kbeval.signals import interrupts_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

S = TypeVar("S")
T = TypeVar("T")

MOST_LOSSES = 3
"""How often a task may lose its worker before it is given up."""
PATIENCE_S = 30.0
"""How long a cluster may be without a worker."""
LOOK_S = 2.0


class WorkerLostError(Exception):
    """A task's worker died, again and again."""


class Workers(Protocol):
    """Processes that take tasks.

    Attributes:
        slots: how many tasks they can do at once.
    """

    slots: int

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Hands a task over. ``function`` must be importable."""

    def lost(self, error: BaseException) -> bool:
        """Whether a task failed because its worker died; who says yes has made room for it to be done again."""

    def look(self) -> None:
        """Called from time to time while nothing comes.

        Raises:
            KbevalError: nothing will come any more.
        """

    def gave_up(self) -> KbevalError:
        """What is to be said where a task was cancelled that nobody here has cancelled."""


@contextmanager
def local_processes(count: int) -> Iterator[Workers]:
    """So many processes of this machine's."""
    workers = _Processes(count)
    try:
        yield workers
    except BaseException:
        workers.end()
        raise
    finally:
        workers.close()


@contextmanager
def dask_cluster(address: str) -> Iterator[Workers]:
    """The workers of a Dask scheduler: ``tcp://host:8786``.

    Raises:
        KbevalError: kbeval[dask] is not installed, nobody answers at the address, there is no worker, or one has no
            kbeval of this version.
    """
    try:
        import distributed
    except ImportError:
        raise KbevalError("--scheduler needs Dask: pip install 'kbeval[dask]'") from None
    parts = re.fullmatch(r"(?:(?:tcp|tls|ucx|ws|wss)://)?([^\s/]+):(\d{1,5})", address)
    if parts is None or not 0 < int(parts[2]) < 65536:
        # Dask would begin to connect, and report at the end of the process that it did not.
        raise KbevalError(f"--scheduler: expected an address such as tcp://host:8786, found {address!r}")
    _quiet()
    try:
        # Dask would try again for ten seconds where nobody listens.
        socket.create_connection((parts[1].strip("[]"), int(parts[2])), timeout=10).close()
        client: Any = distributed.Client(  # type: ignore[no-untyped-call]
            address, timeout=10, set_as_default=False, name="kbeval"
        )
    except (OSError, TimeoutError, ValueError) as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise KbevalError(f"--scheduler {address}: expected a Dask scheduler, found none: {said}") from None
    try:
        workers = _Dask(client, address)
        workers.check()
        yield workers
    finally:
        with suppress(Exception):  # a scheduler that is gone, or was none
            client.close(timeout=5)


def _quiet() -> None:
    """Lost connections are told by whoever needs them; distributed tells them as they happen, with tracebacks."""
    import logging

    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("asyncio", "distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class _Processes:
    def __init__(self, count: int) -> None:
        self.slots = count
        self._pool = self._made()

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        with interrupts_blocked():  # the pool starts its processes as it is given tasks
            try:
                return self._pool.submit(function, *arguments)
            except BrokenExecutor:
                self._renew()
                return self._pool.submit(function, *arguments)

    def lost(self, error: BaseException) -> bool:
        if not isinstance(error, BrokenExecutor):
            return False
        self._renew()
        return True

    def look(self) -> None:
        """The pool itself tells of a process that died."""

    def gave_up(self) -> KbevalError:
        return KbevalError("--workers: the processes were ended")

    def end(self) -> None:
        """What is being done is not done to its end: nobody waits for it any more."""
        for process in list((getattr(self._pool, "_processes", None) or {}).values()):
            process.terminate()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _renew(self) -> None:
        # All tasks of a broken pool fail, one after another: the first renews it.
        if getattr(self._pool, "_broken", True):
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._made()

    def _made(self) -> ProcessPoolExecutor:
        from multiprocessing import get_context

        # Not forked: this process has threads, and connections that are its own.
        return ProcessPoolExecutor(self.slots, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """Ends this process when the one that it works for is gone, however that ended: nobody hears what it does."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait as wait_for

    parent = parent_process()
    if parent is None:  # pragma: no cover - it was started by nobody
        return

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="kbeval-parent", daemon=True).start()


class _Dask:
    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        self._executor: Executor = client.get_executor(pure=False)
        self._without_since: float | None = None
        self.slots = 0

    def check(self) -> None:
        """Counts the workers, and asks each what it has."""
        self.slots = sum(self._client.nthreads().values())
        if not self.slots:
            raise KbevalError(f"--scheduler {self._address}: expected at least one worker, found none")
        try:
            versions = self._client.run(_version)
        except Exception as error:
            said = " ".join(str(error).split())
            raise KbevalError(
                f"--scheduler {self._address}: expected kbeval {__version__} on every worker, found: {said}"
            ) from None
        other = sorted(set(versions.values()) - {__version__})
        if other:
            raise KbevalError(
                f"--scheduler {self._address}: expected kbeval {__version__} on every worker, found {', '.join(other)}"
            )

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        return self._executor.submit(function, *arguments)

    def lost(self, error: BaseException) -> bool:
        import distributed

        return isinstance(error, distributed.KilledWorker)

    def gave_up(self) -> KbevalError:
        return KbevalError(f"--scheduler {self._address}: the scheduler is gone, or has dropped the work")

    def look(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise KbevalError(f"--scheduler {self._address}: the scheduler is gone")
        if self._client.scheduler_info(n_workers=-1)["workers"]:
            self._without_since = None
            return
        now = time.monotonic()
        self._without_since = self._without_since or now
        if now - self._without_since > PATIENCE_S:
            raise KbevalError(f"--scheduler {self._address}: no worker is left, for {PATIENCE_S:.0f} s")


def _version() -> str:
    return __version__


@dataclass(frozen=True)
class _Task:
    key: Any
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    losses: int = 0


class Tasks:
    """Tasks on their way: handed over, done again where a worker died, and given back as they come.

    Where a worker died it is not known of which of the tasks on their way: they are suspects, and are done again one at
    a time, with nothing beside them that could be taken along.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._on_the_way: dict[Future[Any], _Task] = {}
        self._suspects: deque[_Task] = deque()
        self._waiting: deque[_Task] = deque()

    def __len__(self) -> int:
        return len(self._on_the_way) + len(self._suspects) + len(self._waiting)

    def start(self, key: Any, function: Callable[..., Any], *arguments: Any) -> None:
        """Hands a task over; ``key`` comes back with its result."""
        self._waiting.append(_Task(key, function, arguments))
        self._hand_over()

    def next(self, timeout_s: float | None = None) -> Iterator[tuple[Any, Any, BaseException | None]]:
        """Waits for at least one, and gives the key, the result and the error of what is done.

        Raises:
            KbevalError: nothing will come any more.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self:
            self._hand_over()
            patience = LOOK_S if deadline is None else min(LOOK_S, deadline - time.monotonic())
            done, _ = wait(self._on_the_way, timeout=max(patience, 0.0), return_when=FIRST_COMPLETED)
            dropped = [future for future in done if future.cancelled()]
            ended = [self._ended(future) for future in done if not future.cancelled()]
            came = [(task.key, result, error) for task, result, error in ended if task is not None]
            yield from came
            if dropped:
                raise self._workers.gave_up()
            if came or (deadline is not None and time.monotonic() >= deadline):
                return
            if not done:
                self._workers.look()

    def cancel(self) -> None:
        """What has not begun is not done any more."""
        for future in self._on_the_way:
            future.cancel()
        for tasks in (self._on_the_way, self._suspects, self._waiting):
            tasks.clear()

    def _hand_over(self) -> None:
        if self._suspects:
            if not self._on_the_way:
                self._submit(self._suspects.popleft())
            return
        while self._waiting:
            self._submit(self._waiting.popleft())

    def _submit(self, task: _Task) -> None:
        self._on_the_way[self._workers.submit(task.function, *task.arguments)] = task

    def _ended(self, future: Future[Any]) -> tuple[_Task | None, Any, BaseException | None]:
        """The task with what came of it; none where it is to be done again."""
        task = self._on_the_way.pop(future)
        error = future.exception()
        if error is None:
            return task, future.result(), None
        if not self._workers.lost(error):
            return task, None, error
        if task.losses + 1 >= MOST_LOSSES:
            return task, None, WorkerLostError(f"its worker died {task.losses + 1} times")
        self._suspects.append(replace(task, losses=task.losses + 1))
        return None, None, None


def in_order(workers: Workers, function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    """The results of a function in the order of its arguments, of which some are ahead and few are held.

    Raises:
        WorkerLostError: a task's worker died, again and again.
        Exception: what the function raised.
    """
    tasks = Tasks(workers)
    waiting = deque(enumerate(arguments))
    ready: dict[int, T] = {}
    wanted = 0
    try:
        while waiting or tasks or ready:
            while waiting and len(tasks) + len(ready) < 2 * workers.slots:
                place, of = waiting.popleft()
                tasks.start(place, function, *of)
            while wanted in ready:
                yield ready.pop(wanted)
                wanted += 1
            if tasks and wanted not in ready:
                for place, result, error in tasks.next():
                    if error is not None:
                        raise error
                    ready[place] = result
    finally:
        tasks.cancel()
