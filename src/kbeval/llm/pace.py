"""How fast a server may be asked: a stated rate, lowered when it says that it is too fast, and raised again."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

SLOWEST_PER_MINUTE = 6.0
"""The rate is never lowered below this: a call every ten seconds finds out when the server is well again."""

CUT = 0.5
STEPS = 20
"""A step is this part of the rate that the server complained about: ten of them lead from the half of it back to it."""


class Pace:
    """Hands out turns. All calls of one schedule share it: what slows one down slows all down.

    As TCP does with its window (Jacobson 1988; RFC 5681): the rate is halved when the server complains (429). With
    every answer it doubles up to half of what it was when the complaints began, and rises by a fixed small step from
    there on. Complaints about calls that had started before the rate was last halved are about the old rate and do
    not halve it again.

    Args:
        per_minute: the most calls a minute, evenly spaced; 0 for as many as there are.
        backoff_s: the pause after a first complaint that states none; doubled with every further one.
        ceiling_s: the longest such pause.
        concurrency: how many calls run at once: what the rate of an unlimited schedule is found from.
        rng: for the jitter.
    """

    def __init__(
        self, *, per_minute: float, backoff_s: float, ceiling_s: float, concurrency: int, rng: random.Random
    ) -> None:
        self._stated = per_minute if per_minute > 0 else float("inf")
        self._rate = self._stated
        self._step = 0.0
        self._safe = 0.0
        self._backoff_s = backoff_s
        self._ceiling_s = ceiling_s
        self._concurrency = concurrency
        self._rng = rng
        self._lock = asyncio.Lock()
        self._next = 0.0
        self._resume = 0.0
        self._epoch = 0
        self._complaints = 0
        self._latency = 0.0
        self.lowest: float | None = None
        """The lowest rate that it came to, in calls a minute; None where the server never complained."""

    @property
    def rate(self) -> float:
        """Calls a minute at present; infinite where nothing limits them."""
        return self._rate

    async def turn(self) -> int:
        """Waits until one more call may start, and gives the number to report its fate with."""
        async with self._lock:
            while (wait := max(self._next, self._resume) - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            self._next = time.monotonic() + 60.0 / self._rate
            return self._epoch

    def answered(self, seconds: float) -> None:
        """A call came back after ``seconds``: the rate rises, up to the stated one."""
        self._latency = seconds if not self._latency else 0.8 * self._latency + 0.2 * seconds
        self._complaints = 0
        raised = min(self._rate * 2, self._safe) if self._rate < self._safe else self._rate + self._step
        self._rate = min(raised, self._stated)

    def complained(self, epoch: int, retry_after: float | None) -> None:
        """The server answered 429 to the call that started in ``epoch``: everybody waits, and then goes slower."""
        now = time.monotonic()
        if epoch == self._epoch:
            self._epoch += 1
            before = min(self._rate, self._possible())
            if not self._complaints:
                self._step, self._safe = before / STEPS, before * CUT
            self._rate = max(before * CUT, min(SLOWEST_PER_MINUTE, self._stated))
            self.lowest = self._rate if self.lowest is None else min(self.lowest, self._rate)
            # Jitter on top: whoever else was told to wait comes back at the same moment.
            pause = min(self._backoff_s * 2**self._complaints, self._ceiling_s) * (1 + 0.5 * self._rng.random())
            self._complaints += 1
            self._resume = max(self._resume, now + (pause if retry_after is None else retry_after))
        elif retry_after is not None:
            self._resume = max(self._resume, now + retry_after)

    def _possible(self) -> float:
        """What the calls that run at once come to in a minute, by how long one has taken so far."""
        return self._concurrency * 60.0 / max(self._latency, 0.05)
