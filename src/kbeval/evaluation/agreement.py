"""How far two people, or a person and a model, agree on grades (METHOD 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kbeval.evaluation.statistics import SEED
from kbeval.evaluation.statistics.distributions import normal_cdf, normal_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Statistic = Callable[[NDArray[np.float64]], NDArray[np.float64]]

GRADES = 4
"""Grades are 0 to 3, and all four are categories also where one was never given."""
RESAMPLES = 9_999
BATCH = 1 << 20
"""Drawn queries held at a time."""
MOST_UNDEFINED = 0.05
"""Share of resamples in which a statistic may be undefined before its interval is."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic and its 95% interval by queries.

    Attributes:
        value: None where it is undefined: chance alone would agree on everything, or nobody found anything relevant.
        interval: (low, high); None with fewer than two queries, without spread, or where it is undefined.
    """

    value: float | None
    interval: tuple[float, float] | None

    @property
    def lower(self) -> float | None:
        """The lower bound: what a gate uses, and None never passes one."""
        return None if self.interval is None else self.interval[0]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two raters on the same pairs of query and document.

    Attributes:
        pairs, queries: how many.
        table: how often the first gave the grade of the row and the second that of the column.
        observed: the share of pairs with the same grade.
        kappa: Cohen's, unweighted (Cohen 1960).
        quadratic: Cohen's, disagreements weighted by their squared distance (Cohen 1968).
        positive: positive agreement on relevance, 2a / (2a + b + c) (Cicchetti & Feinstein 1990): of what either
            calls relevant, how much both do.
        level: from which grade on a document is relevant.
    """

    pairs: int
    queries: int
    table: tuple[tuple[int, ...], ...]
    observed: float
    kappa: Estimate
    quadratic: Estimate
    positive: Estimate
    level: int


def agreement(
    first: ArrayLike,
    second: ArrayLike,
    queries: ArrayLike,
    *,
    level: int = 2,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> Agreement:
    """Measures how far two raters agree.

    Pairs of one query share its luck, so that the intervals are by query: whole queries are drawn with replacement,
    and the interval is BCa (Efron 1987), its acceleration that of the jackknife over queries.

    Args:
        first, second: shape (pairs,): grades from 0 to 3.
        queries: shape (pairs,): the query of each pair, any labels.
        level: from which grade on a document is relevant.
        seed: of the draws.
        resamples: how many.

    Raises:
        ValueError: arrays of different lengths, no pair, or a grade outside 0 to 3.
    """
    a, b = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    names = np.asarray(queries)
    if a.ndim != 1 or a.shape != b.shape or a.shape != names.shape or a.size == 0:
        raise ValueError(f"expected as many grades as queries and at least one, found {a.shape}, {b.shape}")
    if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= GRADES:
        raise ValueError(f"expected grades from 0 to {GRADES - 1}")
    tables = _tables(a, b, names)
    whole = tables.sum(axis=0)
    counts = _drawn(len(tables), resamples, seed) if len(tables) > 1 else None

    def estimate(statistic: Statistic) -> Estimate:
        value = float(statistic(whole))
        if math.isnan(value) or counts is None:
            return Estimate(None if math.isnan(value) else value, None)
        flat = tables.reshape(len(tables), -1)
        drawn = statistic((counts @ flat).reshape(-1, GRADES, GRADES))
        return Estimate(value, _bca(value, drawn, statistic(whole - tables)))

    return Agreement(
        pairs=a.size,
        queries=len(tables),
        table=tuple(tuple(int(count) for count in row) for row in whole),
        observed=float(np.trace(whole) / whole.sum()),
        kappa=estimate(lambda of: _kappa(of, 1.0 - np.eye(GRADES))),
        quadratic=estimate(lambda of: _kappa(of, np.subtract.outer(np.arange(GRADES), np.arange(GRADES)) ** 2.0)),
        positive=estimate(lambda of: _positive(of, level)),
        level=level,
    )


def _tables(a: NDArray[np.int64], b: NDArray[np.int64], queries: NDArray[Any]) -> NDArray[np.float64]:
    """Each query's own table; shape (queries, grades, grades), in the order of the sorted queries."""
    names, of = np.unique(queries, return_inverse=True)
    tables = np.zeros((len(names), GRADES, GRADES))
    np.add.at(tables, (of, a, b), 1.0)
    return tables


def _kappa(tables: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - weighted disagreement observed / expected; nan where none is expected. Tables on the last two axes."""
    total = tables.sum(axis=(-2, -1))
    expected = tables.sum(axis=-1)[..., :, None] * tables.sum(axis=-2)[..., None, :]
    by_chance = (expected * weights).sum(axis=(-2, -1))
    seen = (tables * weights).sum(axis=(-2, -1)) * total
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_chance > 0, 1.0 - seen / by_chance, np.nan)


def _positive(tables: NDArray[np.float64], level: int) -> NDArray[np.float64]:
    """2a / (2a + b + c); nan where neither calls anything relevant."""
    both = tables[..., level:, level:].sum(axis=(-2, -1))
    either = tables[..., level:, :].sum(axis=(-2, -1)) + tables[..., :, level:].sum(axis=(-2, -1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(either > 0, 2.0 * both / either, np.nan)


def _drawn(count: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """How often each resample holds each query; shape (resamples, count)."""
    source = np.random.PCG64(seed)
    found = np.empty((resamples, count))
    rows = max(1, BATCH // count)
    for start in range(0, resamples, rows):
        batch = min(rows, resamples - start)
        wanted = batch * count
        # 32 random bits times the count, shifted down: uniform to one part in 2 ** 32 for each query, and the same
        # whatever numpy makes of its generators in later versions
        bits = source.random_raw(-(-wanted // 2)).view(np.uint32)[:wanted]
        chosen = (bits.astype(np.int64) * count) >> 32
        chosen += np.repeat(np.arange(batch), count) * count
        found[start : start + batch] = np.bincount(chosen, minlength=wanted).reshape(batch, count)
    return found


def _bca(value: float, drawn: NDArray[np.float64], left_out: NDArray[np.float64]) -> tuple[float, float] | None:
    """The 95% BCa interval from resampled values and those with one query left out each."""
    known = drawn[~np.isnan(drawn)]
    if len(known) < (1 - MOST_UNDEFINED) * len(drawn) or np.isnan(left_out).any() or float(np.ptp(known)) < 1e-12:
        return None
    # A resample that is the sample in another order may differ from it in the last bit.
    equal = np.abs(known - value) < 1e-12
    below = (np.count_nonzero((known < value) & ~equal) + np.count_nonzero(equal) / 2) / len(known)
    centred = left_out.mean() - left_out
    spread = float((centred**2).sum())
    if not 0 < below < 1 or spread <= 0:
        return None
    bias = normal_quantile(below)
    acceleration = float((centred**3).sum()) / (6 * spread**1.5)

    def end(probability: float) -> float:
        shifted = bias + normal_quantile(probability)
        return float(np.quantile(known, normal_cdf(bias + shifted / (1 - acceleration * shifted))))

    return end(0.025), end(0.975)
