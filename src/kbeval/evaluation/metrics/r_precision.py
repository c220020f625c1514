"""r-precision: precision at the number of answers that there are."""

from __future__ import annotations

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Oracle
from kbeval.evaluation.metrics.registry import register

R_PRECISION = register(
    Family(
        name="r-precision",
        label="R-precision",
        aliases={"rprec": Cutoff.NONE, "r_precision": Cutoff.NONE},
        definition="Relevant documents among the first R, divided by R; there are R of them. 0 if R is 0.",
        source="trec_eval 10, m_Rprec.c",
        compute=lambda run, metric, level: run.by_ranx("r_precision", level),  # noqa: ARG005 - takes no cut-off
        # R min(R, c) / N relevant documents are expected in the min(R, c) ranks that there are.
        chance=lambda order, metric, level: (
            np.minimum(order.judgments.count(level), order.cut(metric.k)) / order.documents
        ),
        cutoff=Cutoff.NONE,
        oracle=lambda metric: Oracle("Rprec"),  # noqa: ARG005
    )
)
