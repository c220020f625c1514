"""Equal scores in a run: how many lists they touch, and how far each metric could move if they were ordered
otherwise.

kbeval orders equal scores by document id (METHOD 2), trec_eval too; other tools do otherwise, and an engine
that leaves ties has not said which order it meant. The lowest and the highest value that a metric could take
are exact: within every group of equal scores the best order has the grades falling and the worst one has them
rising. Moving a higher grade up never lowers a metric that is defined here, so that one order is best (worst)
for all of them at once; only ``domain_accuracy`` looks at something else, and has its matches first (last).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.scoring import score_aligned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbeval.evaluation.alignment import Alignment, Hits, Integers
    from kbeval.evaluation.metrics import Metric
    from kbeval.model import Run


@dataclass(frozen=True)
class Ties:
    """What equal scores do to a run's numbers.

    Attributes:
        queries: how many queries of the test set have equal scores anywhere in their list.
        straddling: for each cut-off (those of the metrics and the depth), how many queries have equal
            scores on both sides of it.
        ranges: for each metric, by canonical name, the lowest and the highest mean over orders of the ties.
    """

    queries: int
    straddling: Mapping[int, int]
    ranges: Mapping[str, tuple[float, float]]


def find_ties(
    run: Run,
    alignment: Alignment,
    metrics: Iterable[Metric],
    *,
    level: int = 1,
    depth: int | None = None,
    means: Mapping[str, float] | None = None,
) -> Ties:
    """Looks for equal scores, and scores the run with the ties at their worst and at their best.

    Args:
        run: the run that was aligned.
        alignment: of that run, not cut.
        metrics: which metrics.
        level: the test set's relevance level.
        depth: the depth that lists are cut to, after the ties are ordered.
        means: the run's own means where they are at hand: the whole range where nothing is tied.
    """
    metrics = tuple(metrics)
    scores = run.frame["score"].to_numpy()
    answered = np.flatnonzero(alignment.returned)
    first, returned = alignment.starts[answered], alignment.returned[answered]
    end = first + returned
    # opens[row]: a group of equal scores begins there. One more at the end closes the last group.
    opens = np.ones(len(scores) + 1, dtype=np.bool_)
    np.not_equal(scores[1:], scores[:-1], out=opens[1:-1])
    opens[first] = True
    opens[end] = True  # a query outside the test set may follow
    tied_rows = np.flatnonzero(~opens)
    place = np.searchsorted(first, tied_rows, side="right") - 1
    tied_queries = np.unique(place[(place >= 0) & (tied_rows < end[place])])
    cuts = sorted({cut for cut in (depth, *(metric.k for metric in metrics)) if cut is not None})
    if len(tied_queries):
        opening_rows = np.flatnonzero(opens)
        worst = _ordered(alignment, opening_rows, best=False)
        best = _ordered(alignment, opening_rows, best=True)
        lowest = score_aligned(worst, metrics, level=level, depth=depth).means
        highest = score_aligned(best, metrics, level=level, depth=depth).means
    else:
        lowest = highest = score_aligned(alignment, metrics, level=level, depth=depth).means if means is None else means
    return Ties(
        queries=len(tied_queries),
        straddling={cut: int(np.sum(~opens[(first + cut)[returned > cut]])) for cut in cuts},
        ranges={name: (lowest[name], highest[name]) for name in lowest},
    )


def _ordered(alignment: Alignment, opening_rows: Integers, *, best: bool) -> Alignment:
    """The run with every group of equal scores in its best or its worst order."""
    # Unjudged documents and negative grades are one kind. In the worst order they come first, before the
    # judged.
    hits = _reordered(alignment.hits, np.maximum(alignment.grade, -1), alignment.starts, opening_rows, best=best)
    domains = alignment.domains
    if domains is not None:
        matches = np.zeros_like(domains.hits.rank)
        domains = replace(domains, hits=_reordered(domains.hits, matches, alignment.starts, opening_rows, best=best))
    return replace(alignment, hits=hits, domains=domains)


def _reordered(hits: Hits, grade: Integers, starts: Integers, opening_rows: Integers, *, best: bool) -> Hits:
    """The hits with the highest grades first (best) or last (worst) in their group of equal scores."""
    rows = starts[hits.query] + hits.rank - 1
    group = np.searchsorted(opening_rows, rows, side="right") - 1
    # Number the hits of each group from 0, highest grade first.
    order = np.lexsort((-grade, group))
    sorted_group = group[order]
    number = np.empty_like(group)
    number[order] = np.arange(len(order)) - np.searchsorted(sorted_group, sorted_group)
    row = opening_rows[group] + number if best else opening_rows[group + 1] - 1 - number
    return hits.ranked(row - starts[hits.query] + 1)
