"""The distribution functions that the tests need: scipy.special's compiled ones.

Not scipy.stats, whose import costs more than a second, nor the rest of scipy.special, which costs a quarter; and
imported at the first call, so that importing kbeval costs nothing of it.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from kbeval.evaluation.deferred import import_alone


@cache
def ufuncs() -> Any:
    """The module of scipy.special's ufuncs; loaded in a thread beside the reading of files, it costs no time."""
    import scipy  # noqa: F401  (whole, so that its version can be asked for)

    return import_alone("scipy.special._ufuncs")


def t_cdf(value: float, degrees: int) -> float:
    """Student's t: the probability of at most ``value``."""
    return float(ufuncs().stdtr(degrees, value))


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: int) -> float:
    """Student's t: the value that ``probability`` lies below."""
    return float(ufuncs().stdtrit(degrees, probability))


def normal_cdf(value: float) -> float:
    """The standard normal: the probability of at most ``value``."""
    return float(ufuncs().ndtr(value))


def normal_quantile(probability: float) -> float:
    """The standard normal: the value that ``probability`` lies below."""
    return float(ufuncs().ndtri(probability))


def chi_squared_tail(value: float, degrees: int) -> float:
    """Chi squared: the probability of more than ``value``."""
    return float(ufuncs().chdtrc(degrees, value))


def beta_quantile(probability: float, a: float, b: float) -> float:
    """The beta distribution: the value that ``probability`` lies below."""
    return float(ufuncs().betaincinv(a, b, probability))
