"""mrr, mrr@k: how high the first answer stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.chance import each
from kbeval.evaluation.metrics.base import Cutoff, Family, Metric, Oracle
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Reals
    from kbeval.evaluation.chance import RandomOrder


def _chance(order: RandomOrder, metric: Metric, level: int) -> Reals:
    """The sum over ranks r of 1/r times P(first at r) = C(N-r, R-1) / C(N, R)."""

    def one(relevant: int) -> float:
        if relevant == 0:
            return 0.0
        ranks = np.arange(1, min(order.cut(metric.k), order.documents - relevant + 1) + 1)
        # P(first at r + 1) = P(first at r) (N - r - R + 1) / (N - r)
        ratios = 1 - (relevant - 1) / (order.documents - ranks[:-1])
        first = relevant / order.documents * np.cumprod(np.concatenate([[1.0], ratios]))
        return float(np.sum(first / ranks))

    return each(one, order.judgments.count(level))


MRR = register(
    Family(
        name="mrr",
        label="MRR",
        aliases={"rr": Cutoff.OPTIONAL, "recip_rank": Cutoff.NONE, "reciprocal_rank": Cutoff.OPTIONAL},
        definition="1 / rank of the first relevant document; 0 if none is there (among the first k).",
        source="trec_eval 10, m_recip_rank.c; cut at k as by trec_eval -M k",
        compute=lambda run, metric, level: run.by_ranx("reciprocal_rank", metric.cut, level),
        chance=_chance,
        cutoff=Cutoff.OPTIONAL,
        oracle=lambda metric: Oracle("recip_rank", depth=metric.k),
    )
)
