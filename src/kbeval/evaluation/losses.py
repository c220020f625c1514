"""Where an engine loses the gold: found by no leg, lost in fusion, lost by the reranker, below the cut."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.evaluation.comparison import Comparison, RunResult

Fate = Literal["returned", "found by no leg", "lost in fusion", "lost by the reranker", "below the cut", "not known"]
FATES: tuple[Fate, ...] = (
    "returned",
    "found by no leg",
    "lost in fusion",
    "lost by the reranker",
    "below the cut",
    "not known",
)
LEGS = ("lexical", "fulltext", "vector")
CUT = 10
"""How many documents count as returned, where the primary metric has no cut of its own."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of one question's first gold document.

    Attributes:
        ranks: where each stage had it; None where it was not in the stage's list.
        final: where the engine returned it; None where it did not.
    """

    query: str
    fate: Fate
    ranks: Mapping[str, int | None]
    final: int | None

    @property
    def best(self) -> int | None:
        """The better of the legs' ranks."""
        known = [rank for leg in LEGS if (rank := self.ranks.get(leg)) is not None]
        return min(known) if known else None

    @property
    def before(self) -> int | None:
        """The rank at which it came to the stage that lost it."""
        return before_reranking(self.ranks) if self.fate == "lost by the reranker" else self.best

    def in_words(self) -> str:
        """Such as: found by vector at 3, lost in fusion (at 14)."""
        found = [f"{leg} at {rank}" for leg in LEGS if (rank := self.ranks.get(leg)) is not None]
        fusion = self.ranks.get("fusion")
        if self.fate == "lost by the reranker" and fusion is not None:
            found.append(f"fusion at {fusion}")
        after = fusion if self.fate == "lost in fusion" else self.ranks.get("rerank")
        where = "out of its list" if after is None else f"at {after}"
        return f"found by {' and '.join(found)}, {self.fate} ({where})"


@dataclass(frozen=True)
class LostGold:
    """The losses of one run. ``cut`` is how many documents count as returned."""

    cut: int
    losses: Sequence[Loss]

    def counts(self) -> Counter[str]:
        """How many questions met each fate."""
        return Counter(loss.fate for loss in self.losses)

    def worst(self) -> Loss | None:
        """What a stage had highest of all that the next one lost; the first of several by the question's id."""
        lost = [loss for loss in self.losses if loss.fate in ("lost in fusion", "lost by the reranker")]
        return min(lost, key=lambda loss: (loss.before or 0, loss.query), default=None)


def lost_gold(comparison: Comparison, run: RunResult) -> LostGold | None:
    """What became of the gold of each question that has some; None where the run's sidecar knows no legs."""
    if run.sidecar is None:
        return None
    by_query = run.sidecar.gold_ranks
    if not any(leg in ranks for ranks in by_query.values() for leg in LEGS):
        return None
    depth = comparison.depth or run.sidecar.k
    cut = min(comparison.options.primary.k or CUT, depth)
    asked = None if run.asked is None else set(run.asked.tolist())
    losses = []
    for place, query in enumerate(comparison.test_set.queries):
        if not comparison.test_set.gold[query] or (asked is not None and place not in asked):
            continue
        final = int(run.first_ranks[place]) or None
        ranks = by_query.get(query, {})
        losses.append(Loss(query, fate_of(ranks, final, cut), ranks, final))
    return LostGold(cut, losses)


def fate_of(ranks: Mapping[str, int | None], final: int | None, cut: int) -> Fate:
    """What became of a gold document that the stages had at ``ranks`` and the engine returned at ``final``."""

    def within(rank: int | None) -> bool:
        return rank is not None and rank <= cut

    if within(final):
        return "returned"
    legs = [ranks[leg] for leg in LEGS if leg in ranks]
    if not legs:
        return "not known"
    if all(rank is None for rank in legs):
        return "found by no leg"
    if "rerank" in ranks and within(before_reranking(ranks)):
        return "lost by the reranker"
    if "fusion" in ranks and any(within(rank) for rank in legs) and not within(ranks["fusion"]):
        return "lost in fusion"
    return "below the cut"


def before_reranking(ranks: Mapping[str, int | None]) -> int | None:
    """The rank after fusion, or of the one leg where nothing is fused."""
    if "fusion" in ranks:
        return ranks["fusion"]
    return next((ranks[leg] for leg in LEGS if leg in ranks), None)
