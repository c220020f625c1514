"""The schedule of calls: retries, 429, limits, and the end of everything. Without a server: ``ask`` is a coroutine."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from kbeval.llm.calls import Result, Tally, run_calls
from kbeval.llm.errors import Fatal, Permanent, RateLimited, Refused, Transient, Unreachable
from kbeval.llm.pace import Pace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass
class Paid:
    prompt_tokens: int = 100
    completion_tokens: int = 20


def run(ask: Callable[[int], Awaitable[Paid]], count: int, **options: Any) -> tuple[Tally, list[Result[int, Paid]]]:
    results: list[Result[int, Paid]] = []
    options = {"backoff_s": 0.001, **options}
    return asyncio.run(run_calls(range(count), ask, on_result=results.append, **options)), results


def test_every_request_ends_once_and_transient_failures_are_repeated() -> None:
    seen: dict[int, int] = {}

    async def ask(request: int) -> Paid:
        seen[request] = seen.get(request, 0) + 1
        if request % 3 == 0 and seen[request] <= 2:
            raise Transient("later")
        if request == 5:
            raise Refused("no", prompt_tokens=7)
        if request == 7:
            raise Transient("never")
        return Paid()

    tally, results = run(ask, 9, retries=2)
    assert sorted(result.request for result in results) == list(range(9))
    assert (tally.answered, tally.failed, tally.not_asked) == (7, 2, 0)
    assert tally.reasons == {"refused": 1, "server_error": 1}
    # 0, 3 and 6 twice each, 7 twice: 8 repeats. 7 answers at 120 tokens, and the refusal's 7.
    assert tally.retries == {"server_error": 8}
    assert tally.tokens == 7 * 120 + 7
    assert {result.request: result.attempts for result in results}[7] == 3
    assert seen[5] == 1


def test_no_more_at_once_than_said() -> None:
    now = most = 0

    async def ask(request: int) -> Paid:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002)
        now -= 1
        return Paid()

    run(ask, 30, concurrency=4)
    assert most == 4


def test_calls_start_evenly_within_the_rate() -> None:
    starts: list[float] = []

    async def ask(request: int) -> Paid:
        starts.append(time.monotonic())
        return Paid()

    # 3000 a minute is one in 20 ms: eleven take 200 ms at least, however slow the machine is.
    run(ask, 11, per_minute=3000)
    assert starts[-1] - starts[0] >= 0.19


def test_429_fails_nobody_and_the_rate_falls_and_recovers() -> None:
    # A server that is too busy for the first 12 calls, where no call may be repeated at all.
    calls = 0

    async def ask(request: int) -> Paid:
        nonlocal calls
        calls += 1
        if calls <= 12:
            raise RateLimited("busy", 0.001)
        return Paid()

    tally, _ = run(ask, 60, retries=0, concurrency=8)
    assert (tally.answered, tally.failed, tally.busy) == (60, 0, 12)
    assert tally.lowest_rate is not None
    # Eight calls at 50 ms each would be 9600 a minute. The first eight start together and halve that once; the other
    # four may each halve it again, and one of them does so at the least.
    assert 9600 / 2**5 <= tally.lowest_rate <= 9600 / 2**2
    assert not tally.retries


def test_the_rate_is_halved_once_for_calls_that_started_together_and_climbs_back() -> None:
    async def work() -> list[float]:
        pace = Pace(per_minute=1200, backoff_s=0, ceiling_s=0, concurrency=1, rng=random.Random(1))
        pace.answered(0.05)
        epoch = await pace.turn()
        rates = [pace.rate]
        for _ in range(3):  # three calls of one epoch complain
            pace.complained(epoch, None)
        rates.append(pace.rate)
        pace.complained(await pace.turn(), None)
        rates.append(pace.rate)
        for _ in range(10):
            pace.answered(0.05)
        rates.append(pace.rate)
        for _ in range(20):
            pace.answered(0.05)
        rates.append(pace.rate)
        return rates

    # 1200, halved, halved again; one answer doubles it to the 600 that is half of where the complaints began; a step
    # is 1200 / 20 = 60, and nine of them lead to 1140; then the stated rate holds.
    assert asyncio.run(work()) == [1200, 600, 300, 1140, 1200]


def test_the_whole_schedule_waits_as_long_as_the_server_asks() -> None:
    starts: list[float] = []

    async def ask(request: int) -> Paid:
        starts.append(time.monotonic())
        if len(starts) == 1:
            raise RateLimited("busy", 0.15)
        return Paid()

    run(ask, 3, concurrency=1)
    assert starts[1] - starts[0] >= 0.15


def test_a_server_that_is_busy_for_too_long_is_given_up() -> None:
    async def ask(request: int) -> Paid:
        raise RateLimited("busy", 0.01)

    tally, results = run(ask, 20, max_wait_s=0.1)
    assert (tally.answered, tally.failed) == (0, 20)
    assert tally.reasons == {"rate_limited": 20}
    assert "too busy" in str(results[0].error)


def test_a_pause_beyond_the_limit_is_not_waited_for() -> None:
    async def ask(request: int) -> Paid:
        raise RateLimited("busy", 86_400.0)

    started = time.monotonic()
    tally, _ = run(ask, 50, max_wait_s=900)
    assert tally.reasons == {"rate_limited": 50}
    assert time.monotonic() - started < 60


def test_a_fatal_ends_everything_and_what_is_on_its_way_is_kept() -> None:
    asked: list[int] = []
    results: list[Result[int, Paid]] = []

    async def ask(request: int) -> Paid:
        asked.append(request)
        if request == 3:
            raise Fatal("wrong key")
        await asyncio.sleep(0.05)
        return Paid()

    with pytest.raises(Fatal, match="wrong key"):
        asyncio.run(run_calls(range(1000), ask, concurrency=4, on_result=results.append))
    assert sorted(asked) == [0, 1, 2, 3]
    assert sorted(result.request for result in results) == [0, 1, 2]


def test_nobody_there_is_fatal_but_a_server_that_goes_away_is_not() -> None:
    async def nobody(request: int) -> Paid:
        raise Unreachable("connection refused")

    with pytest.raises(Fatal, match="cannot be reached: connection refused"):
        run(nobody, 100, retries=1)

    async def gone(request: int) -> Paid:
        if request > 4:
            raise Unreachable("connection refused")
        return Paid()

    tally, _ = run(gone, 10, retries=0, concurrency=1)
    assert (tally.answered, tally.failed) == (5, 5)


def test_the_token_limit_is_never_passed() -> None:
    async def ask(request: int) -> Paid:
        await asyncio.sleep(0)
        return Paid()

    # A call costs 120 and may cost 150: after 7 calls (840) an eighth may lead to 990, a ninth (960 + 150) may not.
    tally, results = run(ask, 20, token_limit=1000, estimate=lambda request: 150)
    assert (tally.answered, tally.not_asked, tally.tokens) == (8, 12, 960)
    assert len(results) == 8


def test_a_limit_below_one_call_asks_nothing() -> None:
    async def ask(request: int) -> Paid:
        return Paid()

    tally, _ = run(ask, 3, token_limit=10, estimate=lambda request: 150)
    assert (tally.answered, tally.not_asked, tally.tokens) == (0, 3, 0)


def test_repeats_stop_at_the_token_limit() -> None:
    async def ask(request: int) -> Paid:
        raise Transient("no question in it", prompt_tokens=100, completion_tokens=20)

    # 120 a time with 150 set aside: after the second (240 + 150 = 390) a third may follow, after it (510) none.
    tally, _ = run(ask, 1, retries=50, token_limit=500, estimate=lambda request: 150)
    assert (tally.failed, tally.tokens) == (1, 360)


def test_a_fault_of_the_callers_is_not_hidden() -> None:
    async def ask(request: int) -> Paid:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(ask, 3)


def test_permanent_failures_are_not_repeated() -> None:
    calls = 0

    async def ask(request: int) -> Paid:
        nonlocal calls
        calls += 1
        raise Permanent("too long")

    tally, _ = run(ask, 2)
    assert (calls, tally.reasons) == (2, {"bad_request": 2})


def test_nothing_to_ask() -> None:
    async def ask(request: int) -> Paid:
        return Paid()

    assert run(ask, 0)[0] == Tally()
