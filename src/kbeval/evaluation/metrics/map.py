"""map, map@k: precision at each answer's rank, averaged over all answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric, Oracle
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Reals
    from kbeval.evaluation.chance import RandomOrder


def _chance(order: RandomOrder, metric: Metric, level: int) -> Reals:
    """(H + (R - 1) / (N - 1) (c - H)) / N, with H the sum of 1 / rank over the first c ranks.

    A relevant document stands at rank r with probability R / N, and above it (r - 1)(R - 1) / (N - 1) others.
    """
    relevant, cut = order.judgments.count(level), order.cut(metric.k)
    harmonic = order.harmonic[cut]
    others = (relevant - 1) / max(order.documents - 1, 1)
    return np.where(relevant > 0, (harmonic + others * (cut - harmonic)) / order.documents, 0.0)


MAP = register(
    Family(
        name="map",
        label="MAP",
        aliases={"ap": Cutoff.OPTIONAL, "average_precision": Cutoff.OPTIONAL, "map_cut": Cutoff.REQUIRED},
        definition="Sum of the precision at the rank of each relevant document that was retrieved (among the "
        "first k), divided by all relevant documents; 0 if there are none.",
        source="trec_eval 10, m_map.c and m_map_cut.c",
        compute=lambda run, metric, level: run.by_ranx("average_precision", metric.cut, level),
        chance=_chance,
        cutoff=Cutoff.OPTIONAL,
        oracle=lambda metric: Oracle("map" if metric.k is None else f"map_cut.{metric.k}"),
    )
)
