"""recall@k: the share of the relevant documents that the first k hold."""

from __future__ import annotations

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Oracle
from kbeval.evaluation.metrics.registry import register

RECALL = register(
    Family(
        name="recall",
        label="Recall",
        aliases={"r": Cutoff.REQUIRED},
        definition="Relevant documents among the first k, divided by all relevant ones; 0 if there are none.",
        source="trec_eval 10, m_recall.c",
        compute=lambda run, metric, level: run.by_ranx("recall", metric.cut, level),
        # Each relevant document is among the first c of N with probability c / N.
        chance=lambda order, metric, level: np.where(
            order.judgments.count(level) > 0, order.cut(metric.k) / order.documents, 0.0
        ),
        cutoff=Cutoff.REQUIRED,
        oracle=lambda metric: Oracle(f"recall.{metric.k}"),
    )
)
