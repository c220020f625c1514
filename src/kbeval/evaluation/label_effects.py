"""What the labels do to a comparison: gold that was added to it, and gold that one run alone brought in (METHOD 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from kbeval.evaluation.verdicts import taken_back

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbeval.evaluation.test_set import TestSet
    from kbeval.evaluation.verdicts import Verdict
    from kbeval.model import LabelledQuery

UNPOOLED_GAP = 0.05
"""By how much judged@10 of a run outside the pool may lie below its rival's."""


def without_added(test_set: TestSet) -> TestSet | None:
    """The test set without the gold that labels added; none where they added nothing."""
    added = [(query.id, document) for query in test_set.labelled.values() for document in query.added]
    return without_pairs(test_set, added) if added else None


def without_brought_by(test_set: TestSet, run: str) -> TestSet | None:
    """The test set without the judgments that this run alone brought into the pool; none where there are none."""
    gold = {(query.id, document) for query in test_set.labelled.values() for document in _written_from(query)}
    alone = [pair for pair, runs in test_set.judged_by_runs.items() if runs == (run,) and pair not in gold]
    return without_pairs(test_set, alone) if alone else None


def without_pairs(test_set: TestSet, pairs: Iterable[tuple[str, str]]) -> TestSet:
    """The test set without some judgments. A query that loses all of them stays, with its first one as irrelevant."""
    dropped = pl.DataFrame(list(pairs), schema={"query": pl.String, "document": pl.String}, orient="row")
    frame = test_set.qrels.frame
    kept = frame.join(dropped, on=["query", "document"], how="anti", maintain_order="left")
    lost = frame.join(kept.select("query").unique(), on="query", how="anti", maintain_order="left")
    if lost.height:
        first = lost.unique("query", keep="first", maintain_order=True)
        kept = pl.concat([kept, first.with_columns(grade=pl.lit(0, dtype=frame.schema["grade"]))])
        kept = kept.sort(["query", "grade", "document"], descending=[False, True, True])
    return replace(test_set, qrels=replace(test_set.qrels, frame=kept))


def held_against_added_gold(verdict: Verdict, base: Verdict) -> Verdict:
    """The verdict, taken back where the test set without added gold says otherwise.

    Otherwise is another leader, none, or other words for having none: a verdict that is only less sure than it was,
    with the same leader, has not flipped.
    """
    if verdict.word == "cannot tell" or _side(base) == _side(verdict):
        return verdict
    return taken_back(verdict, "added gold", base.word)


def held_against_pool(
    verdict: Verdict, *, names: tuple[str, str], pooled: tuple[bool, bool], judged: tuple[float, float]
) -> Verdict:
    """The verdict, taken back where a run outside the pool has its documents judged less than its rival's.

    Args:
        verdict: of the pair.
        names: of the two runs.
        pooled: whether each was pooled.
        judged: the mean judged@10 of each.
    """
    if verdict.leader is None:
        return verdict
    for place, name in enumerate(names):
        if not pooled[place] and judged[place] < judged[1 - place] - UNPOOLED_GAP:
            return taken_back(verdict, "unpooled", name)
    return verdict


def _side(verdict: Verdict) -> str:
    """Which engine leads, or the word for why none does."""
    return verdict.leader or verdict.word


def _written_from(query: LabelledQuery) -> set[str]:
    return set(query.relevant) - set(query.added)
