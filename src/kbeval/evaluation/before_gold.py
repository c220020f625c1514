"""What stands before each query's first relevant document: for the reasons why it was not first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kbeval.evaluation.alignment import Alignment
    from kbeval.model import Run


def _none() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class BeforeGold:
    """For each query of one run, over its whole list down to the depth that is compared.

    Attributes:
        judged: how many documents before the first relevant one were judged, and not relevant; of the whole list where
            it holds none.
        unjudged: how many of them were not.
        nowhere: whether no relevant document of the query is in any list of the run, of whatever query and depth.
    """

    judged: NDArray[np.int64] = field(default_factory=_none)
    unjudged: NDArray[np.int64] = field(default_factory=_none)
    nowhere: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))


def before_gold(
    run: Run,
    alignment: Alignment,
    gold: Mapping[str, Sequence[str]],
    queries: Sequence[str],
    *,
    level: int,
    depth: int | None,
) -> BeforeGold:
    """Counts them.

    Args:
        run: with all of its lists.
        alignment: the run paired with the judgments, before any cut.
        gold: for each query, its relevant documents.
        queries: in the alignment's order.
        level: the grade from which on a document is relevant.
        depth: where lists are cut.
    """
    kept = alignment.cut(depth) if depth is not None else alignment
    first = kept.first_ranks(level)
    before = np.where(first > 0, first - 1, kept.returned)
    # A negative grade is trec_eval's "not judged".
    counted = (kept.hits.rank <= before[kept.hits.query]) & (kept.grade >= 0)
    judged = np.bincount(kept.hits.query[counted], minlength=len(queries))
    lost = np.flatnonzero(alignment.first_ranks(level) == 0).tolist()
    wanted = {document for place in lost for document in gold[queries[place]]}
    column = run.frame["document"]
    found = set(column.filter(column.is_in(list(wanted))).unique().to_list()) if wanted else set()
    nowhere = np.zeros(len(queries), dtype=np.bool_)
    nowhere[[place for place in lost if found.isdisjoint(gold[queries[place]])]] = True
    return BeforeGold(judged, before - judged, nowhere)
