"""ndcg, ndcg@k: graded gain, discounted by rank, as a share of the best that the judgments allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric, Oracle
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Reals
    from kbeval.evaluation.chance import RandomOrder

# ranx gains nothing from grades below its level; at 1 these are the grades without gain. No other is ever
# passed: at level 2 ranx would drop the lower grades from the ideal too.
_EVERY_GAIN = 1
_LINEAR_GAINS = True


def _chance(order: RandomOrder, metric: Metric, level: int) -> Reals:  # noqa: ARG001 - takes no level
    """The mean gain over the corpus times the sum of the discounts, as a share of the ideal."""
    judgments = order.judgments
    gain = np.maximum(judgments.grade, 0)
    ideal_gain = gain / np.log2(judgments.place + 2)
    if metric.k is not None:
        ideal_gain = np.where(judgments.place < metric.k, ideal_gain, 0)
    queries = len(judgments.queries)
    ideal = np.bincount(judgments.query, ideal_gain, minlength=queries)
    expected = np.bincount(judgments.query, gain, minlength=queries) / order.documents
    expected *= order.discounts[order.cut(metric.k)]
    return expected / np.where(ideal > 0, ideal, 1)


NDCG = register(
    Family(
        name="ndcg",
        label="nDCG",
        aliases={"ndcg_cut": Cutoff.REQUIRED},
        definition="Sum of grade / log2(rank + 1) over the documents retrieved (among the first k), divided "
        "by the same sum over all judged documents by falling grade; a grade below 0 gains 0; 0 if none is "
        "above 0.",
        source="Järvelin and Kekäläinen, ACM TOIS 20 (2002) 422-446; trec_eval 10, m_ndcg.c and m_ndcg_cut.c",
        compute=lambda run, metric, level: run.by_ranx("ndcg", metric.cut, _EVERY_GAIN, _LINEAR_GAINS),  # noqa: ARG005
        chance=_chance,
        cutoff=Cutoff.OPTIONAL,
        takes_level=False,
        oracle=lambda metric: Oracle("ndcg" if metric.k is None else f"ndcg_cut.{metric.k}"),
    )
)
