"""When a run ends early: decided in the order of the questions, so that it does not matter how many run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.formats.sidecar import NOT_ASKED
from kbeval.running.asking import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.engines.base import Usage
    from kbeval.model import LabelledQuery
    from kbeval.running.policy import Policy


_LAST_BITS = 1e-12


class Ledger:
    """Takes outcomes as they come and settles them in the order of the questions.

    A run ends after so many failures in a row, or before the question that might cost too much: in that order, so that
    what was asked beyond it (there are several questions on their way) is left out of the run. Answers of an earlier
    run are kept wherever they stand: they cost nothing any more.

    Args:
        queries: every question of the run.
        kept: outcomes of an earlier run, by place.
        policy: when to end.
        expected: what a question is expected to use at most.
        spent: what has been spent before the first question.
    """

    def __init__(
        self,
        queries: Sequence[LabelledQuery],
        kept: Mapping[int, Outcome],
        policy: Policy,
        *,
        expected: Sequence[Usage] = (),
        spent: float = 0.0,
    ) -> None:
        self._queries = queries
        self._kept = kept
        self._policy = policy
        self._outcomes: dict[int, Outcome] = dict(kept)
        self._settled = 0
        self._failures = 0
        # Twice: of everything that was asked, and of what is settled.
        self._all = _Account(spent, policy.cost(expected))
        self._of_settled = _Account(spent, policy.cost(expected))
        self.ended: str | None = None
        """Why the run ended early."""
        self._settle()

    @property
    def spent(self) -> float:
        """What the run has cost so far, with what was left out of it."""
        return self._all.spent

    def may_start(self, running: int) -> bool:
        """Whether one more question may be asked while so many are on their way."""
        if self.ended is not None:
            return False
        if self._all.holds(self._policy.max_cost, running + 1):
            return True
        if not running:
            self._end_for_cost()
        return False

    def take(self, place: int, outcome: Outcome) -> None:
        """The outcome of a question that was asked just now."""
        self._all.pay(self._policy.cost(outcome.usage))
        self._outcomes[place] = outcome
        self._settle()

    def outcomes(self) -> list[Outcome]:
        """One for every question: those that were not asked are errors."""
        return [
            self._outcomes[place]
            if place < self._settled or place in self._kept
            else Outcome(query=query, seconds=None, error=f"{NOT_ASKED}{self.ended}")
            for place, query in enumerate(self._queries)
        ]

    def _settle(self) -> None:
        while self.ended is None and self._settled in self._outcomes:
            outcome = self._outcomes[self._settled]
            if not outcome.resumed:
                if not self._of_settled.holds(self._policy.max_cost, 1):
                    self._end_for_cost()
                    return
                self._of_settled.pay(self._policy.cost(outcome.usage))
            self._settled += 1
            unpriced = self._policy.unpriced(outcome.usage)
            if unpriced and self._policy.max_cost is not None:
                self.ended = f"[prices] has none for {unpriced[0]}, so --max-cost cannot be kept"
                return
            if outcome.error is None:
                self._failures = 0
                continue
            self._failures += 1
            most = self._policy.max_failures_in_a_row
            if most is not None and self._failures >= most:
                in_a_row = "1 question" if most == 1 else f"{most} questions in a row"
                self.ended = f"the run ended after {in_a_row} failed"

    def _end_for_cost(self) -> None:
        self.ended = f"the next question might have cost more than --max-cost {self._policy.max_cost:g} allows"


class _Account:
    """What was spent, and what the next question is expected to cost: as much as the dearest so far, or more."""

    def __init__(self, spent: float, expected: float) -> None:
        self.spent = spent
        self._expected = expected

    def pay(self, cost: float) -> None:
        self.spent += cost
        self._expected = max(self._expected, cost)

    def holds(self, limit: float | None, questions: int) -> bool:
        """Whether so many questions more will stay within the limit; sums differ in their last bits by their order."""
        return limit is None or self.spent + questions * self._expected <= limit + _LAST_BITS
