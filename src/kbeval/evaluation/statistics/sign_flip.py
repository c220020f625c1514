"""Sign-flip randomisation: were neither engine better, each difference could as well be its negative."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.statistics.units import whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED = 20_250_101
EXACT_UP_TO = 16
"""Non-zero differences up to which all sign patterns are taken: 65,536."""
DRAWS = 100_000
"""Draws beyond that, the observed one included: p = .05 then has a standard error of .0007."""
DRAWS_IF_MANY = 10_000
MANY = 1_000
"""Non-zero differences from which ``DRAWS_IF_MANY`` draws do (.0022): p is close to the t test's by then."""
DRAWS_BELOW_LEVEL = 4
"""The smallest possible p is at most a fourth of the level it is held against."""
BYTE = 8
TIE = 1e-13
"""Sums closer than this, times the largest difference and their number, are equal but for rounding."""

_PATTERNS = 1 - 2 * np.unpackbits(np.arange(1 << BYTE, dtype=np.uint8)[:, None], axis=1).astype(np.int64)


def sign_flip(differences: NDArray[np.float64], *, level: float = 0.05, seed: int = SEED) -> float:
    """The two-sided p of the mean difference under random signs (Fisher's randomisation test for pairs).

    Zero differences are dropped: no sign changes them. With up to 16 others, p is the share of all sign
    patterns whose sum is at least as far from 0 as the observed one; beyond, (b + 1) / (m + 1) of m seeded
    draws with b of them so (Davison & Hinkley 1997, 4.3), never 0. The draws are made for the sizes of the
    differences in sorted order, so that p depends on nothing but their values.

    Args:
        differences: shape (clusters,): the mean difference of each.
        level: the smallest level that p will be held against; it takes at least 4 / level draws.
        seed: of the draws.

    Returns:
        p in (0, 1]; 1 where no difference is left.
    """
    nonzero = differences[differences != 0]
    if nonzero.size == 0:
        return 1.0
    whole, exponent = whole_numbers(nonzero)
    slack = whole.size + int(np.ldexp(TIE * np.abs(nonzero).max() * whole.size, exponent))
    threshold = abs(int(whole.sum())) - slack
    sizes = np.sort(np.abs(whole))[::-1]
    draws = 0 if whole.size <= EXACT_UP_TO else _draws(whole.size, level) - 1
    if whole.size <= MANY:
        return _p_of_bytes(sizes.tobytes(), threshold, draws, seed)
    return _p(sizes, threshold, draws, seed)


@lru_cache(maxsize=2048)
def _p_of_bytes(sizes: bytes, threshold: int, draws: int, seed: int) -> float:
    # A pair's differences are asked about more than once: on all questions, and on those of the one stratum.
    return _p(np.frombuffer(sizes, dtype=np.int64), threshold, draws, seed)


def _p(sizes: NDArray[np.int64], threshold: int, draws: int, seed: int) -> float:
    """The share of sums of randomly signed ``sizes`` that reach the threshold; of all of them where ``draws`` is 0."""
    groups = -(-sizes.size // BYTE)
    filled = np.zeros(groups * BYTE, dtype=np.int64)
    filled[: sizes.size] = sizes
    # the sum of every sign pattern of each eight differences: a byte then draws eight signs at once
    tables = filled.reshape(groups, BYTE) @ _PATTERNS.T
    if not draws:
        sums = tables[0] if groups == 1 else np.add.outer(tables[0], tables[1]).ravel()
        return float(np.count_nonzero(np.abs(sums) >= threshold) / sums.size)
    sums = _random_sums(tables, draws, seed)
    return float((np.count_nonzero(np.abs(sums) >= threshold) + 1) / (draws + 1))


def _draws(nonzero: int, level: float) -> int:
    usual = DRAWS if nonzero <= MANY else DRAWS_IF_MANY
    return max(usual, int(np.ceil(DRAWS_BELOW_LEVEL / level)))


def _random_sums(tables: NDArray[np.int64], draws: int, seed: int) -> NDArray[np.int64]:
    """Sums under random signs, shape (draws,), from tables of shape (groups, 256)."""
    # the raw stream of a bit generator is the one thing that numpy keeps the same in all versions
    source = np.random.PCG64(seed)
    sums = np.zeros(draws, dtype=np.int64)
    signs = np.empty(draws, dtype=np.intp)
    drawn = np.empty(draws, dtype=np.int64)
    for table in tables:
        # widened once, all at a time: numpy takes by bytes several times as slowly
        signs[:] = source.random_raw(-(-draws // BYTE)).view(np.uint8)[:draws]
        # an index of eight bits cannot leave a table of 256: "clip" only saves the check
        sums += table.take(signs, mode="clip", out=drawn)
    return sums
