"""How much one sweep may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.engines.base import Usage
    from kbeval.running.policy import Policy
    from kbeval.sweep.memory import StageMemory

_LAST_BITS = 1e-12


class Budget:
    """Says no before the next call of a service might cost more than ``--max-cost`` allows.

    What is remembered costs nothing. Calls on their way when it says no are paid and kept.

    Args:
        policy: with the limit and the prices.
        memory: knows what has been spent.
        expected: what a call will cost at most.
    """

    def __init__(self, policy: Policy, memory: StageMemory, expected: float = 0.0) -> None:
        self._policy = policy
        self._memory = memory
        self._expected = expected
        self.refused: str | None = None
        """Why it said no."""

    def check(self, more: Sequence[Usage] = ()) -> None:
        """Before a service is asked.

        Args:
            more: what it will take, where that is not a question's.

        Raises:
            KbevalError: there is not enough left.
        """
        limit = self._policy.max_cost
        if limit is None:
            return
        spent = self._memory.usage
        if self._policy.unpriced(spent):
            self.refused = f"[prices] has none for {self._policy.unpriced(spent)[0]}, so --max-cost cannot be kept"
        elif self._policy.unpriced(more):
            self.refused = f"[prices] has none for {self._policy.unpriced(more)[0]}, so --max-cost cannot be kept"
        elif self._policy.cost(spent) + (self._policy.cost(more) or self._expected) > limit + _LAST_BITS:
            self.refused = f"the next call might have cost more than --max-cost {limit:g} allows"
        if self.refused is not None:
            raise KbevalError(self.refused)

    def settle(self) -> None:
        """After a configuration.

        Raises:
            KbevalError: it has said no, so that the sweep cannot be finished.
        """
        if self.refused is not None:
            raise KbevalError(
                f"the sweep ended early: {self.refused}; what was paid for is kept, and the next sweep does not ask "
                "for it again"
            )
