"""hit_rate@k: whether the first k documents hold an answer."""

from __future__ import annotations

from kbeval.evaluation.metrics.base import Cutoff, Family, Oracle
from kbeval.evaluation.metrics.registry import register

HIT_RATE = register(
    Family(
        name="hit_rate",
        label="Hit",
        aliases={"success": Cutoff.REQUIRED, "hit": Cutoff.REQUIRED},
        definition="1 if a relevant document is among the first k, else 0.",
        source="trec_eval 10, m_success.c",
        compute=lambda run, metric, level: run.by_ranx("hit_rate", metric.cut, level),
        chance=lambda order, metric, level: order.any_within(order.judgments.count(level), order.cut(metric.k)),
        cutoff=Cutoff.REQUIRED,
        oracle=lambda metric: Oracle(f"success.{metric.k}"),
    )
)
