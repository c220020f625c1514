"""The most that any ranking could score on a test set: what makes a target unreachable.

Ideal rankings are made of the judgments and scored by the metrics themselves, however long they are: what a run cannot
reach because its lists are short is missed, and not out of reach on these questions. Which ranking
is ideal differs from metric to metric (a set's F1 falls with every document that is not relevant, judged@k asks for
judged ones), so several are scored and each query keeps its best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.scoring import score_aligned
from kbeval.model import Run
from kbeval.order import sort_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.test_set import TestSet


def ceilings(test_set: TestSet, metrics: Sequence[Metric]) -> Mapping[str, float]:
    """For each metric that the data can give, the mean of each query's best value over ideal rankings.

    Args:
        test_set: what is judged, with the domains that are known.
        metrics: which.
    """
    judgments = judge(test_set.qrels)
    best: dict[str, np.ndarray] = {}
    for ranking in _ideal(test_set, metrics):
        alignment = align(judgments, ranking, test_set.domains, compiled=False, may_be_empty=True)
        scores = score_aligned(alignment, metrics, level=test_set.level)
        for name, values in scores.values.items():
            best[name] = np.fmax(best[name], values) if name in best else values
    return {name: float(np.nanmean(values)) for name, values in best.items()}


def _ideal(test_set: TestSet, metrics: Sequence[Metric]) -> list[Run]:
    judged = test_set.qrels.frame  # by query, grades falling
    levels = sorted({metric.at_level(test_set.level) for metric in metrics} | {test_set.level})
    frames = [judged.filter(pl.col("grade") >= level) for level in levels]
    frames += [judged.filter(pl.col("grade") >= 1), judged.filter(pl.col("grade") >= 0)]
    frames = [frame.select("query", "document") for frame in frames]
    if test_set.domains is not None:
        holder = {domain: document for document, domain in test_set.domains.documents.items() if domain}
        pairs = [(query, holder[d]) for query, d in test_set.domains.queries.items() if d and d in holder]
        frames.append(pl.DataFrame(pairs, schema={"query": pl.String, "document": pl.String}, orient="row"))
    return [
        Run(
            "ideal",
            sort_run(
                frame.with_columns(
                    score=-pl.int_range(pl.len()).over("query").cast(pl.Float64)  # the order as it is
                )
            ),
        )
        for frame in frames
    ]
