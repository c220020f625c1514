"""rbp.P: the gain of a reader who goes on to the next document with probability P."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric, Oracle
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Alignment, Reals
    from kbeval.evaluation.chance import RandomOrder


def _compute(run: Alignment, metric: Metric, level: int) -> Reals:
    # ranx weighs by grade; with all grades 1 it is the binary measure.
    alike = run.judgments.relevant_alike(level)
    return run.by_ranx("rank_biased_precision", _persistence(metric), 1, relevant=alike)


def _chance(order: RandomOrder, metric: Metric, level: int) -> Reals:
    """(1 - P) times the sum of P^(r - 1) over the ranks, each relevant with probability R / N."""
    return order.judgments.count(level) / order.documents * (1 - _persistence(metric) ** order.depth)


def _persistence(metric: Metric) -> float:
    if metric.persistence is None:
        raise ValueError("rbp has no default persistence")
    return metric.persistence


RBP = register(
    Family(
        name="rbp",
        label="RBP",
        aliases={},
        definition="(1 - P) times the sum of P^(rank - 1) over the relevant documents retrieved, whatever their grade.",
        source="Moffat and Zobel, ACM TOIS 27 (2008) 2; trec_eval 10, m_rbp.c, on grades 0 and 1 only: with "
        "others it reads memory that it never set",
        compute=_compute,
        chance=_chance,
        cutoff=Cutoff.NONE,
        takes_persistence=True,
        oracle=lambda metric: Oracle(f"rbp.p={metric.persistence}"),
    )
)
