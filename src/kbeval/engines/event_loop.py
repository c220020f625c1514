"""One event loop for one engine, in a thread of its own: it works inside a notebook's running loop too."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from concurrent.futures import Future

_CLOSE_SECONDS = 10.0


class EngineLoop:
    """Runs awaitables one after another, or from several threads at once, on a loop that stays open in between.

    Connections and sessions that an async client keeps belong to one loop, so that ``asyncio.run`` for each query
    would lose or break them. Nothing is started before the first ``run``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Awaits it on the loop and returns what it returns, or raises what it raises.

        When the waiting thread is interrupted, the work is cancelled.
        """
        future: Future[Any] = asyncio.run_coroutine_threadsafe(_outcome(awaitable), self._started())
        try:
            value, error = future.result()
        except BaseException:
            future.cancel()
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Cancels what still runs, closes the loop and ends its thread. A second call does nothing."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_wind_up(loop), loop).result(_CLOSE_SECONDS)
        except (TimeoutError, asyncio.CancelledError):
            pass  # code that does not let itself be cancelled: its thread is a daemon
        finally:
            self._stopping = True
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_CLOSE_SECONDS)
            if not thread.is_alive():
                loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._stopping = False
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name=f"kbeval-{self._name}", daemon=True
                )
                self._thread.start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while not self._stopping:
            try:
                loop.run_forever()
            except BaseException:  # noqa: S112
                # A task that calls sys.exit ends its loop: without it, every later query would wait forever.
                continue


async def _outcome(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    # SystemExit and KeyboardInterrupt that leave a task tear its loop down before whoever waits is told.
    try:
        return await awaitable, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
