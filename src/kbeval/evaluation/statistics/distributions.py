"""The distribution functions that the tests need, from scipy.special.

Not from scipy.stats, whose import costs more than a second; and imported at the first call, so that importing
kbeval costs nothing of it.
"""

from __future__ import annotations


def t_cdf(value: float, degrees: int) -> float:
    """Student's t: the probability of at most ``value``."""
    from scipy.special import stdtr

    return float(stdtr(degrees, value))


def t_quantile(probability: float, degrees: int) -> float:
    """Student's t: the value that ``probability`` lies below."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def normal_cdf(value: float) -> float:
    """The standard normal: the probability of at most ``value``."""
    from scipy.special import ndtr

    return float(ndtr(value))


def normal_quantile(probability: float) -> float:
    """The standard normal: the value that ``probability`` lies below."""
    from scipy.special import ndtri

    return float(ndtri(probability))


def chi_squared_tail(value: float, degrees: int) -> float:
    """Chi squared: the probability of more than ``value``."""
    from scipy.special import chdtrc

    return float(chdtrc(degrees, value))
