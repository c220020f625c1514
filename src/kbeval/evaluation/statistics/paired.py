"""Two engines on the same questions: the difference, its interval, and whether it could be chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.statistics.distributions import t_cdf, t_quantile
from kbeval.evaluation.statistics.sign_flip import SEED, sign_flip
from kbeval.evaluation.statistics.units import ZERO, aligned, cluster_count, cluster_means

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

ALPHA = 0.05
POWER = 0.80
MIN_NONZERO_CLUSTERS = 6
"""Below six, no pattern of signs is rarer than .05: 2 / 2 ** 5 = .0625."""


@dataclass(frozen=True, slots=True)
class PairStatistics:
    """Engine a against engine b on one metric. Undefined values are None.

    Attributes:
        queries: how many questions.
        delta: mean(a) - mean(b) over questions.
        cluster_delta: the mean of the clusters' mean differences, which ``ci95``, ``p`` and ``p_sign_flip``
            are about; it is ``delta`` where all clusters are of one size.
        standard_error: of ``cluster_delta``; None with fewer than 2 clusters.
        ci95: the 95% t interval of ``cluster_delta``; None with fewer than 2 clusters.
        p: of the t test with clusters - 1 degrees of freedom; None with fewer than 2 clusters. Where all
            clusters differ by the same amount t is infinite and would claim certainty from two questions: p
            is ``p_sign_flip`` there, the interval that one value, and effect size and ``mdd`` are None.
        p_sign_flip: of sign-flip randomisation over whole clusters; None with fewer than 2 clusters, or where it
            was not asked for.
        effect_size: mean / standard deviation (ddof 1) of the cluster differences; None without spread.
        wins, ties, losses: questions on which a is better, equal, worse.
        clusters: how many.
        nonzero_clusters: those whose mean difference is not 0.
        mdd: the minimum detectable difference: true differences as large are found with a probability of .80
            at the level ``alpha / family``; None where fewer than 6 clusters differ.
        alpha: the level that ``significant`` and ``tests_disagree`` hold both p against.
        identical: no question differs; every p is then 1, whatever the number of clusters.
    """

    queries: int
    delta: float
    cluster_delta: float
    standard_error: float | None
    ci95: tuple[float, float] | None
    p: float | None
    p_sign_flip: float | None
    effect_size: float | None
    wins: int
    ties: int
    losses: int
    clusters: int
    nonzero_clusters: int
    mdd: float | None
    alpha: float
    identical: bool

    @property
    def significant(self) -> bool:
        """Whether the difference counts at ``alpha``, alone: no family is taken into account."""
        return self.significant_at(self.alpha)

    @property
    def tests_disagree(self) -> bool:
        """Whether one of the two tests is below ``alpha`` and the other is not."""
        if self.p is None or self.p_sign_flip is None:
            return False
        return (self.p < self.alpha) != (self.p_sign_flip < self.alpha)

    @property
    def sign(self) -> int:
        """Of ``cluster_delta``, which is what was tested: 1 where a leads, -1 where b does, else 0."""
        return (self.cluster_delta > 0) - (self.cluster_delta < 0)

    def significant_at(self, level: float) -> bool:
        """Both p below ``level`` (in a family: ``holm_levels``), and at least 6 clusters that differ."""
        if self.p is None or self.p_sign_flip is None or self.nonzero_clusters < MIN_NONZERO_CLUSTERS:
            return False
        return self.p < level and self.p_sign_flip < level


def paired(
    a: ArrayLike,
    b: ArrayLike,
    clusters: ArrayLike,
    *,
    alpha: float = ALPHA,
    family: int = 1,
    seed: int = SEED,
    randomise: bool = True,
) -> PairStatistics:
    """Compares two engines on the same questions, by clusters (METHOD 4).

    Args:
        a, b: shape (questions,): a metric's values for either engine, aligned.
        clusters: shape (questions,): the cluster of each question, any labels.
        alpha: the level of ``significant`` and ``tests_disagree``.
        family: the number of tests in the Holm family of this one. The detectable difference is that of
            ``alpha / family``, the level that Holm's first step tests at: what the pair can be sure to get,
            whatever the other pairs show. Sign-flip draws are as many as that level needs.
        seed: of the sign-flip draws.
        randomise: whether to make them. They are most of the work, and exploratory cells need an interval alone:
            without them ``p_sign_flip`` is None (but where there is no spread), and nothing is significant.

    Raises:
        ValueError: for arrays that are not aligned, empty, or hold nan; for a level outside (0, 1) or an
            empty family.
    """
    if not 0 < alpha < 1 or family < 1:
        raise ValueError(f"expected 0 < alpha < 1 and family >= 1, found alpha={alpha}, family={family}")
    differences = aligned(a, b, clusters)
    if not differences.any():
        return _identical(differences.size, cluster_count(np.asarray(clusters)), alpha)
    values = cluster_means(differences, np.asarray(clusters))
    count = values.size
    nonzero = int(np.count_nonzero(values))
    mean = math.fsum(values.tolist()) / count
    error: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    p_sign_flip: float | None = None
    effect_size: float | None = None
    mdd: float | None = None
    if count > 1:
        spread = bool(np.ptp(values) > ZERO)
        deviation = math.sqrt(math.fsum(((values - mean) ** 2).tolist()) / (count - 1)) if spread else 0.0
        error = deviation / math.sqrt(count)
        half = t_quantile(0.975, count - 1) * error
        interval = (mean - half, mean + half)
        p_sign_flip = sign_flip(values, level=alpha / family, seed=seed) if randomise or not spread else None
        p = p_sign_flip
        if spread:
            p = min(1.0, 2 * t_cdf(-abs(mean / error), count - 1))
            effect_size = mean / deviation
            if nonzero >= MIN_NONZERO_CLUSTERS:
                mdd = minimum_detectable_difference(error, count, level=alpha / family)
    return PairStatistics(
        queries=differences.size,
        delta=math.fsum(differences.tolist()) / differences.size,
        cluster_delta=mean,
        standard_error=error,
        ci95=interval,
        p=p,
        p_sign_flip=p_sign_flip,
        effect_size=effect_size,
        wins=int(np.count_nonzero(differences > 0)),
        ties=int(np.count_nonzero(differences == 0)),
        losses=int(np.count_nonzero(differences < 0)),
        clusters=count,
        nonzero_clusters=nonzero,
        mdd=mdd,
        alpha=alpha,
        identical=False,
    )


def _identical(queries: int, clusters: int, alpha: float) -> PairStatistics:
    """Two engines that no question tells apart."""
    several = clusters > 1
    return PairStatistics(
        queries=queries,
        delta=0.0,
        cluster_delta=0.0,
        standard_error=0.0 if several else None,
        ci95=(0.0, 0.0) if several else None,
        p=1.0,
        p_sign_flip=1.0,
        effect_size=None,
        wins=0,
        ties=queries,
        losses=0,
        clusters=clusters,
        nonzero_clusters=0,
        mdd=None,
        alpha=alpha,
        identical=True,
    )


def plain_paired_t(a: ArrayLike, b: ArrayLike) -> float | None:
    """The two-sided p of a paired t-test over questions, which takes them for independent: ranx's, SciPy's ttest_rel.

    Args:
        a, b: shape (questions,): a metric's values for either engine, aligned; questions without a value (nan) are
            left out.

    Returns:
        1 where no question differs; None where it is undefined: one question, or differences without spread.
    """
    differences = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    differences = differences[~np.isnan(differences)]
    count = differences.size
    if not differences.any():
        return 1.0
    if count < 2 or np.ptp(differences) <= ZERO:
        return None
    mean = math.fsum(differences.tolist()) / count
    deviation = math.sqrt(math.fsum(((differences - mean) ** 2).tolist()) / (count - 1))
    return min(1.0, 2 * t_cdf(-abs(mean) / (deviation / math.sqrt(count)), count - 1))


def minimum_detectable_difference(standard_error: float, clusters: int, *, level: float) -> float:
    """The true difference that a two-sided t test at ``level`` finds with a probability of .80 (METHOD 4).

    Args:
        standard_error: of the paired difference.
        clusters: how many it was taken over, at least 2.
    """
    degrees = clusters - 1
    return (t_quantile(1 - level / 2, degrees) + t_quantile(POWER, degrees)) * standard_error
