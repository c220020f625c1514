"""The statistics against scipy.stats, which kbeval itself never imports."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ranx.statistical_tests import paired_student_t_test
from scipy import stats

from kbeval.evaluation.statistics import bca_interval, cluster_means, gail_simon, paired, plain_paired_t, sign_flip
from kbeval.evaluation.statistics.bca import _resampled_sums
from kbeval.evaluation.statistics.paired import minimum_detectable_difference
from kbeval.evaluation.statistics.sign_flip import SEED
from kbeval.evaluation.statistics.units import whole_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray


def reciprocal_ranks(size: int, seed: int, lift: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of two engines that often tie, the first better by chance ``lift``."""
    random = np.random.default_rng(seed)
    b = 1 / random.integers(1, 12, size)
    a = np.where(random.random(size) < 0.5, b, 1 / random.integers(1, 12, size))
    return np.where(random.random(size) < lift, 1.0, a), b


@pytest.mark.parametrize(("size", "seed", "lift"), [(2, 1, 0.0), (9, 2, 0.1), (120, 3, 0.05), (2_000, 4, 0.0)])
def test_independent_questions_are_a_paired_t_test(size: int, seed: int, lift: float) -> None:
    a, b = reciprocal_ranks(size, seed, lift)
    result, oracle = paired(a, b, np.arange(size)), stats.ttest_rel(a, b)
    interval = oracle.confidence_interval(0.95)
    assert result.p == pytest.approx(oracle.pvalue, rel=1e-9)
    assert result.ci95 == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert result.delta == pytest.approx(a.mean() - b.mean(), abs=1e-14)


@pytest.mark.parametrize(("size", "seed", "lift"), [(2, 1, 0.0), (9, 2, 0.1), (120, 3, 0.05), (7_000, 4, 0.0)])
def test_the_plain_t_test_is_ranxs(size: int, seed: int, lift: float) -> None:
    a, b = reciprocal_ranks(size, seed, lift)
    p, _ = paired_student_t_test(a, b)
    assert plain_paired_t(a, b) == pytest.approx(p, rel=1e-9)
    assert plain_paired_t(b, a) == plain_paired_t(a, b)


def test_the_plain_t_test_by_hand() -> None:
    # Differences 1, 2, 3: t = 2 / (1 / sqrt(3)) = 3.4641 with 2 degrees of freedom. There the two-sided p is
    # 1 - t / sqrt(t^2 + 2) = 1 - sqrt(12 / 14). A question without a value is no question.
    a, b = np.array([2.0, 4.0, 6.0, np.nan]), np.array([1.0, 2.0, 3.0, np.nan])
    assert plain_paired_t(a, b) == pytest.approx(1 - np.sqrt(12 / 14), rel=1e-12)
    assert plain_paired_t(a, a) == 1.0
    assert plain_paired_t(a[:1], b[:1]) is None
    assert plain_paired_t(a[:3], a[:3] - 0.1) is None  # no spread


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_a_t_test_of_their_means(seed: int) -> None:
    a, b = reciprocal_ranks(300, seed, 0.05)
    owners = np.random.default_rng(seed).integers(0, 40, 300)
    means = [(a - b)[owners == label].mean() for label in np.unique(owners)]
    result, oracle = paired(a, b, owners), stats.ttest_1samp(means, 0)
    interval = oracle.confidence_interval(0.95)
    assert result.clusters == len(means)
    assert result.p == pytest.approx(oracle.pvalue, rel=1e-9)
    assert result.ci95 == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert result.effect_size == pytest.approx(np.mean(means) / np.std(means, ddof=1), rel=1e-9)
    assert cluster_means(a - b, owners) == pytest.approx(np.array(means), abs=1e-14)


@pytest.mark.parametrize("t", [0.0, 0.5, 4.0, 12.0, 40.0])
@pytest.mark.parametrize("count", [2, 7, 30, 7_000])
def test_p_far_into_the_tail(t: float, count: int) -> None:
    # symmetric around a mean that gives this t
    values = np.resize([-1.0, 1.0], count).astype(np.float64)
    values += t * values.std(ddof=1) / np.sqrt(count) - values.mean()
    if count % 2:
        values[-1] = values[:-1].mean()
    result = paired(values, np.zeros(count), np.arange(count))
    assert result.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-6)


@pytest.mark.parametrize("size", [3, 8, 11])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exact_sign_flips_are_a_permutation_test(size: int, seed: int) -> None:
    # signed eighths: their sums are exact in floats, so that scipy sees the ties that we see
    random = np.random.default_rng(seed)
    differences = random.choice([0.125, 0.25, 0.5, 1.0, -0.125, -0.25], size)
    oracle = stats.permutation_test(
        (differences,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=np.inf,
    )
    # scipy doubles the smaller tail, which for a symmetric distribution is ours, both tails at once
    assert sign_flip(differences) == pytest.approx(oracle.pvalue, rel=1e-12)


def test_drawn_sign_flips_come_near_a_permutation_test() -> None:
    a, b = reciprocal_ranks(80, 6, 0.08)
    oracle = stats.permutation_test(
        (a - b,),
        lambda x, axis: x.mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=50_000,
        rng=np.random.default_rng(1),
    )
    # standard errors .0014 and .0010 at p = .1
    assert sign_flip(a - b) == pytest.approx(oracle.pvalue, abs=0.006)


@pytest.mark.parametrize(("size", "seed", "lift"), [(6, 1, 0.2), (30, 2, 0.1), (150, 3, 0.05)])
def test_the_bootstrap_interval_of_the_same_resamples(size: int, seed: int, lift: float) -> None:
    differences = np.subtract(*reciprocal_ranks(size, seed, lift))
    if differences.mean() < 0:
        differences = -differences
    whole, exponent = whole_numbers(np.sort(differences))
    resampled = np.ldexp(_resampled_sums(whole, 9_999, SEED).astype(np.float64), -exponent) / size
    # scipy takes on a bootstrap distribution that it is given, and adds no resample to it
    oracle = stats.bootstrap(
        (np.ldexp(whole.astype(np.float64), -exponent),),
        np.mean,
        n_resamples=0,
        method="BCa",
        bootstrap_result=SimpleNamespace(bootstrap_distribution=resampled),
    ).confidence_interval
    assert bca_interval(differences) == pytest.approx((oracle.low, oracle.high), abs=1e-9)


def test_the_bootstrap_interval_of_other_resamples() -> None:
    differences = np.subtract(*reciprocal_ranks(150, 3, 0.05))
    oracle = stats.bootstrap((differences,), np.mean, method="BCa", rng=np.random.default_rng(2)).confidence_interval
    # between seeds the ends of either vary by .05 standard errors
    error = differences.std(ddof=1) / np.sqrt(150)
    assert bca_interval(differences) == pytest.approx((oracle.low, oracle.high), abs=0.2 * error)


@pytest.mark.parametrize("level", [0.05, 0.05 / 231])
@pytest.mark.parametrize(("clusters", "within"), [(10, 0.07), (30, 0.02), (120, 0.005)])
def test_the_detectable_difference_has_a_power_of_four_fifths(level: float, clusters: int, within: float) -> None:
    error = 0.37 / np.sqrt(clusters)
    shift = minimum_detectable_difference(error, clusters, level=level) / error
    exact = stats.nct.sf(stats.t.ppf(1 - level / 2, clusters - 1), clusters - 1, shift)
    assert exact == pytest.approx(0.80, abs=within)


def test_crossing_at_random_is_as_rare_as_said() -> None:
    # the worst null for three strata: two truly equal, one far away
    random = np.random.default_rng(9)
    samples = random.standard_normal((20_000, 3)) + np.array([0.0, 0.0, 30.0])
    p_values = np.array([gail_simon(row, [1.0, 1.0, 1.0]).p for row in samples])
    # its p is never below the nominal one: P(all of two normals positive) has p = 1
    for nominal in (0.01, 0.05, 0.2):
        rejected = int((p_values < nominal).sum())
        assert stats.binomtest(rejected, 20_000, nominal).pvalue > 1e-4


def test_kbeval_itself_leaves_scipy_stats_alone() -> None:
    # whose import takes more than a second
    program = (
        "import sys, numpy as np\n"
        "import kbeval.evaluation.verdicts as v\n"
        "assert 'scipy' not in sys.modules\n"
        "x = np.linspace(-.1, .5, 30)\n"
        "v.verdict(x, 0 * x, ['near', 'far'] * 15, np.arange(30))\n"
        "from kbeval.evaluation.statistics import bca_interval\n"
        "bca_interval(x)\n"
        "assert 'scipy.special._ufuncs' in sys.modules\n"
        "assert not {'scipy.stats', 'scipy.special._basic'} & set(sys.modules)\n"
        "import scipy.special\n"  # is whole for whoever wants it
        "assert scipy.special.comb(5, 2) == 10 and scipy.version.version == scipy.__version__\n"
        "from scipy import stats\n"
        "assert abs(stats.ttest_1samp([1, 2, 3], 0).pvalue - 0.0741799) < 1e-6\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
