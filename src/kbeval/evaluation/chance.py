"""What a random order of the corpus would score: the expected value of each metric, in closed form.

Every order of the N documents of the corpus is equally likely, and the list is cut as a run would be. The
formulas stand with the metrics; what several of them need is here. A check by brute force over all orders of
small corpora is in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from kbeval.evaluation.alignment import Domains, Integers, Judgments, Reals
    from kbeval.evaluation.metrics.base import Metric


@dataclass(frozen=True)
class RandomOrder:
    """A corpus in random order, seen by each query of a test set.

    Attributes:
        judgments: of the test set.
        documents: how many documents the corpus holds, N.
        depth: how many of them a list holds.
        domains: of the queries and documents; None where they are not known.
    """

    judgments: Judgments
    documents: int
    depth: int
    domains: Domains | None = None

    def cut(self, k: int | None) -> int:
        """How many documents of the list a metric with cut-off k sees."""
        return self.depth if k is None else min(k, self.depth)

    @cached_property
    def discounts(self) -> Reals:
        """For n from 0, the sum of 1 / log2(rank + 1) over the first n ranks."""
        return np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, self.depth + 2)))])

    @cached_property
    def harmonic(self) -> Reals:
        """For n from 0, the sum of 1 / rank over the first n ranks."""
        return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, self.depth + 1))])

    def any_within(self, wanted: Integers, cut: int) -> Reals:
        """The probability that at least one of ``wanted`` documents is among the first ``cut``: 1 - C(N-w, c)
        / C(N, c).

        Args:
            wanted: for each query, how many documents would do.
            cut: how many ranks are looked at.
        """

        def one(count: int) -> float:
            # C(N-w, c) / C(N, c) = C(N-c, w) / C(N, w), so that the shorter of the two products will do.
            longer, shorter = max(count, cut), min(count, cut)
            factors = 1 - longer / (self.documents - np.arange(shorter))
            return 1 - float(np.prod(np.maximum(factors, 0)))

        return each(one, wanted)


def each(function: Callable[[int], float], counts: Integers) -> Reals:
    """``function`` of each count, called once for each that occurs."""
    distinct, where = np.unique(counts, return_inverse=True)
    return np.array([function(int(count)) for count in distinct], dtype=np.float64)[where]


def chance(
    judgments: Judgments,
    metrics: Iterable[Metric],
    documents: int,
    *,
    level: int = 1,
    depth: int | None = None,
    domains: Domains | None = None,
) -> dict[str, float]:
    """The mean over the queries of the test set of each metric's expected value, by canonical name.

    ``domain_accuracy`` is absent where no query has a domain; its mean leaves out the queries without one.

    Args:
        judgments: the test set.
        metrics: which ones.
        documents: how many documents the corpus holds, those included that are only named in the judgments.
        level: the test set's relevance level.
        depth: the depth that every run is cut to.
        domains: of queries and documents.

    Raises:
        KbevalError: a query has more judgments than there are documents.
    """
    most = int(judgments.count(np.iinfo(np.int64).min).max())
    if documents < most:
        raise KbevalError(f"a query has {most} judgments, but the corpus holds {documents} documents")
    order = RandomOrder(judgments, documents, min(depth or documents, documents), domains)
    means: dict[str, float] = {}
    for metric in metrics:
        values = per_query(order, metric, level)
        if len(values):
            means[metric.name] = fsum(values) / len(values)
    return means


def per_query(order: RandomOrder, metric: Metric, level: int) -> NDArray[np.float64]:
    """The expected value for each query that the metric is about."""
    if metric.family.needs_domains and order.domains is None:
        return np.empty(0)
    values = metric.family.chance(order, metric, metric.at_level(level))
    return values[~np.isnan(values)]
