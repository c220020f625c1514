"""precision@k: the share of relevant documents among the first k."""

from __future__ import annotations

from kbeval.evaluation.metrics.base import Cutoff, Family, Oracle
from kbeval.evaluation.metrics.registry import register

PRECISION = register(
    Family(
        name="precision",
        label="Precision",
        aliases={"p": Cutoff.REQUIRED},
        definition="Relevant documents among the first k, divided by k, also where the list is shorter.",
        source="trec_eval 10, m_P.c",
        compute=lambda run, metric, level: run.by_ranx("precision", metric.cut, level),
        # Each of the ranks that are filled holds a relevant document with probability R / N.
        chance=lambda order, metric, level: (
            order.judgments.count(level) / order.documents * (order.cut(metric.k) / metric.cut)
        ),
        cutoff=Cutoff.REQUIRED,
        oracle=lambda metric: Oracle(f"P.{metric.k}"),
    )
)
