"""From questions to clusters, in arithmetic that does not depend on the order of either."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

ZERO = 1e-12
"""Differences up to this are none: the same value computed in two ways may differ in its last bit."""


def aligned(a: ArrayLike, b: ArrayLike, *labels: ArrayLike) -> NDArray[np.float64]:
    """a - b, checked: what every statistic starts from; differences of at most ``ZERO`` become 0.

    Args:
        a, b: shape (questions,): a metric's values for either engine.
        labels: further arrays that must be as long (clusters, strata).

    Raises:
        ValueError: for no question at all, arrays of other shapes or lengths, and values that are no number.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or second.shape != first.shape or any(np.shape(label) != first.shape for label in labels):
        shapes = [first.shape, second.shape, *(np.shape(label) for label in labels)]
        raise ValueError(f"expected one-dimensional arrays of one length, found shapes {shapes}")
    if first.size == 0:
        raise ValueError("expected at least one question, found none")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("expected finite values, found nan or infinity")
    return without_noise(first - second)


def without_noise(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values, those of at most ``ZERO`` replaced by 0."""
    return np.where(np.abs(values) <= ZERO, 0.0, values)


def whole_numbers(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], int]:
    """Values as whole multiples of a power of two, with room for the sum of as many of them as there are.

    Integer sums are the same in whatever order they are taken; sums of floats are not.

    Returns:
        The multiples (same shape), and the exponent e: a value is its multiple times 2 ** -e.
    """
    largest = float(np.max(np.abs(values), initial=0.0))
    exponent = 62 - values.size.bit_length() - math.frexp(largest)[1]
    return np.rint(np.ldexp(values, exponent)).astype(np.int64), exponent


def cluster_means(differences: NDArray[np.float64], clusters: NDArray[Any]) -> NDArray[np.float64]:
    """The mean difference of each cluster, in the order of the sorted labels.

    Args:
        differences: shape (questions,).
        clusters: shape (questions,): any labels.

    Returns:
        shape (clusters,), means of at most ``ZERO`` set to 0.
    """
    order, sizes = _members(np.asarray(clusters))
    if sizes.size == differences.size:
        return without_noise(differences[order])
    whole, exponent = whole_numbers(differences)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    sums = np.add.reduceat(whole[order], starts)
    return without_noise(np.ldexp(sums.astype(np.float64), -exponent) / sizes)


def cluster_count(clusters: NDArray[Any]) -> int:
    """How many clusters there are."""
    return _members(clusters)[1].size


def _members(clusters: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The questions, cluster after cluster, and the size of each cluster."""
    if clusters.dtype == np.int64:
        return _members_of_bytes(clusters.tobytes())
    return _members_of(clusters)


@lru_cache(maxsize=64)
def _members_of_bytes(labels: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    # The same few groups of questions serve every metric of every pair; finding them took longer than using them.
    return _members_of(np.frombuffer(labels, dtype=np.int64))


def _members_of(clusters: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    _, index, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    return np.argsort(index, kind="stable"), sizes
