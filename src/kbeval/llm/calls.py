"""Many calls within a rate: concurrent, patient with a server that is busy, and never beyond what may be spent."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kbeval.llm.errors import CallError, Fatal, RateLimited, Transient, Unreachable
from kbeval.llm.pace import Pace
from kbeval.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from kbeval.progress import Advance, Progress

DRAIN_S = 10.0
"""How long calls on their way may take to come back when the work ends early: they may have been paid for."""
RECANCEL_S = 0.5
"""How long a task that was cancelled may take to end before it is cancelled again."""


class Paid(Protocol):
    """An answer that says what it has cost."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens that were sent."""

    @property
    def completion_tokens(self) -> int:
        """Tokens that came back."""


R = TypeVar("R")
T = TypeVar("T", bound=Paid)


@dataclass(frozen=True, slots=True)
class Result(Generic[R, T]):
    """How one request ended: with an answer or an error, never both.

    Attributes:
        attempts: how often it was asked, times that the server was too busy left out.
    """

    request: R
    answer: T | None
    error: CallError | None
    attempts: int


@dataclass(slots=True)
class Tally:
    """What a schedule came to.

    Attributes:
        answered, failed: requests that ended so.
        not_asked: requests left because the token limit was reached.
        reasons: of the failed, by :attr:`CallError.reason`.
        retries: calls that were repeated after a failure, by the reason.
        busy: how often the server answered 429.
        lowest_rate: the calls a minute that the rate fell to, None where it never did.
        prompt_tokens, completion_tokens: spent, failed calls that say what they cost included. What a call that timed
            out or was cut off has cost is not known, and not in here.
    """

    answered: int = 0
    failed: int = 0
    not_asked: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    busy: int = 0
    lowest_rate: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Both kinds together."""
        return self.prompt_tokens + self.completion_tokens


async def run_calls(
    requests: Iterable[R],
    ask: Callable[[R], Awaitable[T]],
    *,
    concurrency: int = 8,
    per_minute: float = 0,
    retries: int = 5,
    max_wait_s: float = 900.0,
    token_limit: int = 0,
    on_result: Callable[[Result[R, T]], None] | None = None,
    progress: Progress | None = None,
    label: str = "asking the model",
    estimate: Callable[[R], int] | None = None,
    backoff_s: float = 1.0,
    ceiling_s: float = 30.0,
    seed: int = 0,
) -> Tally:
    """Makes every call, and hands over each result as it arrives.

    A :class:`Transient` failure is asked again after a pause that doubles each time, with jitter. A 429 is no failure
    of the call: the whole schedule waits as long as the server asks for, goes on at half the rate, and recovers.

    Args:
        requests: in the order in which they start.
        ask: makes one call, raising the errors of :mod:`kbeval.llm.errors`.
        concurrency: how many run at once.
        per_minute: the most that start in a minute, evenly spaced; 0 for no such limit.
        retries: how often one call is repeated after transient failures.
        max_wait_s: how long the server may be too busy without one answer in between. Then, or where it asks for a
            longer pause than this, the requests that are left fail as ``rate_limited``.
        token_limit: what may be spent; 0 for no limit. Before a call starts its estimate and those of the calls on
            their way are set aside, so that the limit holds as far as the estimates do.
        on_result: called in the event loop's thread, once a request.
        estimate: the most tokens that a request may cost; without it the dearest answer so far.
        backoff_s, ceiling_s: the first pause and the longest, in seconds.
        seed: of the jitter.

    Raises:
        Fatal: no call can go well. Calls on their way are awaited for a moment, and handed over.
    """
    schedule = _Schedule(
        ask,
        concurrency=concurrency,
        retries=retries,
        max_wait_s=max_wait_s,
        token_limit=token_limit,
        on_result=on_result,
        estimate=estimate,
        backoff_s=backoff_s,
        ceiling_s=ceiling_s,
        rng=random.Random(seed),  # noqa: S311 - jitter, not a secret
        per_minute=per_minute,
    )
    waiting = list(requests)
    with (progress or Silent()).task(label, total=len(waiting)) as advance:
        return await schedule.run(waiting, advance)


class _Schedule(Generic[R, T]):
    def __init__(
        self,
        ask: Callable[[R], Awaitable[T]],
        *,
        concurrency: int,
        per_minute: float,
        retries: int,
        max_wait_s: float,
        token_limit: int,
        on_result: Callable[[Result[R, T]], None] | None,
        estimate: Callable[[R], int] | None,
        backoff_s: float,
        ceiling_s: float,
        rng: random.Random,
    ) -> None:
        self._ask = ask
        self._concurrency = concurrency
        self._retries = retries
        self._max_wait_s = max_wait_s
        self._on_result = on_result
        self._backoff_s = backoff_s
        self._ceiling_s = ceiling_s
        self._rng = rng
        self._pace = Pace(
            per_minute=per_minute, backoff_s=backoff_s, ceiling_s=ceiling_s, concurrency=concurrency, rng=rng
        )
        self._budget = _Budget(token_limit)
        self._estimate = estimate
        self._dearest = 0
        self._tally = Tally()
        self._ended = asyncio.Event()  # everything ends, for a Fatal
        self._over = asyncio.Event()  # no more calls start, for that or because the server was too busy for too long
        self._error: BaseException | None = None
        self._given_up: RateLimited | None = None
        self._busy_since: float | None = None
        self._advance: Advance = lambda _: None

    async def run(self, waiting: list[R], advance: Advance) -> Tally:
        self._advance = advance
        waiting.reverse()
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(min(self._concurrency, len(waiting)))]
        ended = asyncio.create_task(self._ended.wait())
        try:
            left: set[asyncio.Task[object]] = {*workers}
            while left and not self._ended.is_set():
                done, _ = await asyncio.wait({*left, ended}, return_when=asyncio.FIRST_COMPLETED)
                left -= done
            if left:
                await asyncio.wait(left, timeout=DRAIN_S)
        finally:
            # A cancellation can be lost: asyncio's wait_for swallows one that comes as its call ends. Whoever lost it
            # finds that all has ended, or is cancelled again.
            self._ended.set()
            self._over.set()
            going: set[asyncio.Task[object]] = {*workers, ended}
            while going:
                for task in going:
                    task.cancel()
                _, going = await asyncio.wait(going, timeout=RECANCEL_S)
        if self._error is not None:
            raise self._error
        self._tally.lowest_rate = self._pace.lowest
        return self._tally

    async def _work(self, waiting: list[R]) -> None:
        try:
            while waiting and not self._ended.is_set():
                request = waiting.pop()
                if self._given_up is not None:
                    self._finish(Result(request, None, self._given_up, 0))
                    continue
                expected = self._expected(request)
                if not await self._budget.take(expected):
                    self._tally.not_asked += 1
                    continue
                try:
                    result = await self._result(request)
                finally:
                    await self._budget.give_back(expected)
                if result is not None:
                    self._finish(result)
        except Exception as error:  # Fatal, or a fault in what this was given: either ends everything
            if self._error is None:
                self._error = error
            self._ended.set()
            self._over.set()

    def _expected(self, request: R) -> int:
        return self._estimate(request) if self._estimate else self._dearest

    async def _result(self, request: R) -> Result[R, T] | None:
        """Asks until there is an answer or no more to be hoped for; None where the whole work ends meanwhile."""
        attempts = 0
        while not self._ended.is_set():
            epoch = await self._turn()
            if self._ended.is_set():
                break
            if self._given_up is not None:
                return Result(request, None, self._given_up, attempts)
            started = time.monotonic()
            try:
                answer = await self._ask(request)
            except RateLimited as error:
                self._tally.busy += 1
                self._pace.complained(epoch, error.retry_after)
                if self._hopeless(error):
                    return Result(request, None, self._given_up, attempts)
                continue
            except CallError as error:
                attempts += 1
                self._spend(error.prompt_tokens, error.completion_tokens)
                self._busy_since = None
                again = isinstance(error, Transient) and attempts <= self._retries and self._budget.holds()
                if not again:
                    self._unreachable(error)
                    return Result(request, None, error, attempts)
                self._tally.retries[error.reason] += 1
                await self._pause(attempts, getattr(error, "retry_after", None))
            else:
                self._pace.answered(time.monotonic() - started)
                self._busy_since = None
                self._spend(answer.prompt_tokens, answer.completion_tokens)
                return Result(request, answer, None, attempts + 1)
        return None

    async def _turn(self) -> int:
        """A turn, or that there are none any more, whichever comes first."""
        turn = asyncio.ensure_future(self._pace.turn())
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({turn, over}, return_when=asyncio.FIRST_COMPLETED)
            return turn.result() if turn.done() else -1
        finally:
            turn.cancel()
            over.cancel()

    async def _pause(self, attempts: int, retry_after: float | None) -> None:
        """Exponential backoff: between half of it and all of it, so that calls that failed together part."""
        longest = min(self._backoff_s * 2 ** (attempts - 1), self._ceiling_s)
        seconds = longest * (0.5 + 0.5 * self._rng.random())
        if retry_after is not None:
            seconds = max(seconds, min(retry_after, self._max_wait_s))
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return

    def _hopeless(self, error: RateLimited) -> bool:
        now = time.monotonic()
        if self._busy_since is None:
            self._busy_since = now
        asked = error.retry_after or 0.0
        if now - self._busy_since + asked > self._max_wait_s:
            more = f" and asks for {asked:.0f} s more" if asked else ""
            self._given_up = RateLimited(
                f"the server was too busy for {now - self._busy_since:.0f} s{more}, "
                f"and the limit is {self._max_wait_s:g} s ({error})"
            )
            self._over.set()
        return self._given_up is not None

    def _unreachable(self, error: CallError) -> None:
        # Where nobody has ever answered there is nobody: the other requests would only take long to say the same.
        if isinstance(error, Unreachable) and not self._tally.answered and not self._tally.busy:
            raise Fatal(f"[llm] the server cannot be reached: {error}")

    def _spend(self, prompt: int, written: int) -> None:
        self._tally.prompt_tokens += prompt
        self._tally.completion_tokens += written
        self._dearest = max(self._dearest, prompt + written)
        self._budget.spend(prompt + written)

    def _finish(self, result: Result[R, T]) -> None:
        if result.error is None:
            self._tally.answered += 1
        else:
            self._tally.failed += 1
            self._tally.reasons[result.error.reason] += 1
        if self._on_result is not None:
            self._on_result(result)
        self._advance(1)


class _Budget:
    """Tokens that may be spent: what is expected is set aside before a call and given back after it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._spent = 0
        self._aside = 0
        self._calls = 0
        self._changed = asyncio.Condition()

    async def take(self, expected: int) -> bool:
        """Sets ``expected`` aside; False where it would pass the limit whatever the calls on their way cost."""
        if not self._limit:
            return True
        async with self._changed:
            while self._spent >= self._limit or self._spent + self._aside + expected > self._limit:
                if not self._calls:
                    return False
                await self._changed.wait()
            self._aside += expected
            self._calls += 1
            return True

    def holds(self) -> bool:
        """Whether what is set aside can still be spent: a call that is repeated costs more than was expected."""
        return not self._limit or self._spent + self._aside <= self._limit

    async def give_back(self, expected: int) -> None:
        if not self._limit:
            return
        async with self._changed:
            self._aside -= expected
            self._calls -= 1
            self._changed.notify_all()

    def spend(self, tokens: int) -> None:
        self._spent += tokens
