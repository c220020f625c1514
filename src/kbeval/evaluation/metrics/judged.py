"""judged@k: how much of what was retrieved anybody has judged; not a quality, but how far to trust the
others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Alignment, Reals


def _compute(run: Alignment, metric: Metric, level: int) -> Reals:  # noqa: ARG001 - takes no level
    chosen = (run.grade >= 0) & (run.hits.rank <= metric.cut)
    judged = np.bincount(run.hits.query[chosen], minlength=len(run.returned))
    return judged / np.clip(run.returned, 1, metric.cut)


JUDGED = register(
    Family(
        name="judged",
        label="Judged",
        aliases={},
        definition="Judged documents among the first k, divided by min(k, returned); a negative grade is "
        "unjudged; 0 if nothing was returned.",
        source="METHOD 1; trec_eval has none (1 - unj counts negative grades otherwise)",
        compute=_compute,
        # Each rank that is looked at holds a judged document with probability J / N.
        chance=lambda order, metric, level: order.judgments.count(0) / order.documents,  # noqa: ARG005
        cutoff=Cutoff.REQUIRED,
        takes_level=False,
        by_ranx=False,
    )
)
