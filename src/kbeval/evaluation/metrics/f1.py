"""f1, f1@k: precision and recall in one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric, Oracle
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Reals
    from kbeval.evaluation.chance import RandomOrder


def _chance(order: RandomOrder, metric: Metric, level: int) -> Reals:
    """2PR / (P + R) is 2h / (k + R) for h relevant documents among the first k; R c / N are expected."""
    relevant, cut = order.judgments.count(level), order.cut(metric.k)
    return np.asarray(2 * relevant * cut / order.documents / (relevant + (metric.k or cut)))


F1 = register(
    Family(
        name="f1",
        label="F1",
        aliases={"set_f": Cutoff.NONE, "setf": Cutoff.NONE},
        definition="2PR / (P + R) of precision@k and recall@k; without a cut-off, of the precision and "
        "recall of all that was retrieved; 0 if both are 0.",
        source="van Rijsbergen, Information Retrieval (1979); trec_eval 10, m_set_F.c",
        # ranx's own "no cut-off" would divide by the length that it is given, not by the run's.
        compute=lambda run, metric, level: run.by_ranx("f1", metric.cut or run.returned, level),
        chance=_chance,
        cutoff=Cutoff.OPTIONAL,
        oracle=lambda metric: Oracle("set_F") if metric.k is None else None,
    )
)
