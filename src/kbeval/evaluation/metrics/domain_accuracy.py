"""domain_accuracy@k: whether the first k documents hold one of the query's domain."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Alignment, Reals
    from kbeval.evaluation.chance import RandomOrder


def _compute(run: Alignment, metric: Metric, level: int) -> Reals:  # noqa: ARG001 - takes no level
    if run.domains is None:
        raise ValueError("domain_accuracy needs domains")
    hits = run.domains.hits.within(metric.cut)
    found = np.bincount(hits.query, minlength=len(run.returned)) > 0
    return np.where(run.domains.has_domain, found.astype(np.float64), np.nan)


def _chance(order: RandomOrder, metric: Metric, level: int) -> Reals:  # noqa: ARG001
    if order.domains is None:
        raise ValueError("domain_accuracy needs domains")
    sizes = Counter(order.domains.documents.values())
    asked = [order.domains.queries.get(query) for query in order.judgments.queries]
    wanted = np.array([sizes[domain] if domain else 0 for domain in asked])
    has_domain = np.array([bool(domain) for domain in asked])
    return np.where(has_domain, order.any_within(wanted, order.cut(metric.k)), np.nan)


DOMAIN_ACCURACY = register(
    Family(
        name="domain_accuracy",
        label="Domain accuracy",
        aliases={},
        definition="1 if a document of the query's domain is among the first k, else 0; queries without a "
        "domain are left out.",
        source="METHOD 1; trec_eval success.k on qrels that hold each query's domain",
        compute=_compute,
        chance=_chance,
        cutoff=Cutoff.REQUIRED,
        takes_level=False,
        by_ranx=False,
        needs_domains=True,
    )
)
