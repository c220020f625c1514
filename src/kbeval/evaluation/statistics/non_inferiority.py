"""Gates: whether a candidate is at most a margin worse than what it is to replace."""

from __future__ import annotations

import math

from kbeval.evaluation.statistics.distributions import normal_cdf, normal_quantile


def non_inferior(ci95: tuple[float, float] | None, margin: float) -> bool:
    """Whether the lower end of the two-sided 95% interval of candidate - baseline is above -margin.

    False where there is no interval: too few questions show nothing.

    Raises:
        ValueError: for a margin that is not above 0.
    """
    _check(margin)
    return ci95 is not None and ci95[0] > -margin


def probability_unchanged_passes(deviation: float, clusters: int, margin: float) -> float:
    """How often a candidate that is truly no better and no worse passes the gate.

    By the normal distribution: P(Z > 1.96 - margin / standard error). With 120 questions and a standard
    deviation of .37 it is .086 at a margin of .02 and .842 at .10 (METHOD 4). The exact value by the
    noncentral t is lower by less than .01 from 100 clusters on, and by about .1 at ten.

    Args:
        deviation: the standard deviation of the cluster differences; 0 passes for certain.
        clusters: how many, at least 1.
        margin: what counts as no worse, above 0.

    Raises:
        ValueError: for a negative deviation, no cluster, or a margin that is not above 0.
    """
    _check(margin)
    if deviation < 0 or clusters < 1:
        raise ValueError(f"expected deviation >= 0 and clusters >= 1, found {deviation} and {clusters}")
    if deviation == 0:
        return 1.0
    return normal_cdf(margin * math.sqrt(clusters) / deviation - normal_quantile(0.975))


def _check(margin: float) -> None:
    if not margin > 0:
        raise ValueError(f"expected a margin above 0, found {margin}")
