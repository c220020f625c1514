"""METHOD 4's examples as written there, values by hand, and what must hold for any input."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbeval.evaluation.statistics import (
    PairStatistics,
    bca_interval,
    cluster_means,
    detectable,
    gail_simon,
    holm,
    holm_levels,
    intervals_differ,
    non_inferior,
    paired,
    probability_unchanged_passes,
    sign_flip,
)
from kbeval.evaluation.statistics.paired import minimum_detectable_difference

if TYPE_CHECKING:
    from numpy.typing import NDArray


def alone(differences: list[float] | NDArray[np.float64], **options: float) -> PairStatistics:
    """Statistics of differences in which every question is its own cluster."""
    values = np.asarray(differences, dtype=np.float64)
    return paired(values, np.zeros_like(values), np.arange(values.size), **options)  # type: ignore[arg-type]


def wins(count: int, of: int) -> NDArray[np.float64]:
    return np.array([1.0] * count + [0.0] * (of - count))


class TestExamplesOfTheMethod:
    def test_four_wins_and_no_loss(self) -> None:
        result = alone(wins(4, of=100))
        assert result.p == pytest.approx(0.045, abs=5e-4)
        assert result.p_sign_flip == 0.125
        assert (result.wins, result.ties, result.losses) == (4, 96, 0)
        assert not result.significant
        assert result.tests_disagree
        assert result.mdd is None

    def test_five_differing_queries_are_never_a_difference(self) -> None:
        result = alone(wins(5, of=100))
        assert result.p_sign_flip == 2 / 2**5
        assert not result.significant_at(0.9)
        assert result.mdd is None

    def test_six_wins_and_no_loss_are(self) -> None:
        result = alone(wins(6, of=100))
        assert result.p_sign_flip == 2 / 2**6
        assert result.significant
        assert not result.tests_disagree
        assert result.mdd is not None

    def test_equal_runs_are_identical(self) -> None:
        values = np.array([1.0, 0.5, 1 / 3, 0.0])
        result = paired(values, values, np.array([0, 0, 1, 2]))
        assert result.identical
        assert (result.delta, result.p, result.p_sign_flip, result.ci95) == (0.0, 1.0, 1.0, (0.0, 0.0))
        assert (result.effect_size, result.mdd, result.significant) == (None, None, False)

    def test_fewer_than_two_clusters_are_null(self) -> None:
        result = paired([1.0, 0.5], [0.5, 0.5], np.array([7, 7]))
        assert (result.clusters, result.delta, result.wins) == (1, 0.25, 1)
        assert (result.p, result.p_sign_flip, result.ci95, result.effect_size, result.mdd) == (None,) * 5
        assert not result.significant
        assert not result.tests_disagree

    def test_a_single_cluster_of_equal_runs_is_identical_all_the_same(self) -> None:
        result = paired([1.0, 0.5], [1.0, 0.5], np.array([7, 7]))
        assert (result.identical, result.p, result.ci95) == (True, 1.0, None)

    def test_a_clustered_null_is_rejected_too_often_by_questions_and_not_by_clusters(self) -> None:
        # 40 documents of three questions that all fall the same way: the design effect is 3, so that a plain
        # paired t test rejects where |Z| > 1.96 / sqrt(3), one time in four
        random = np.random.default_rng(11)
        owners = np.repeat(np.arange(40), 3)
        differences = np.repeat(random.standard_normal((400, 40)), 3, axis=1)
        by_questions = np.mean([alone(row).p < 0.05 for row in differences])  # type: ignore[operator]
        results = [paired(row, np.zeros(120), owners) for row in differences]
        assert by_questions == pytest.approx(0.26, abs=0.06)
        assert np.mean([result.significant for result in results]) == pytest.approx(0.05, abs=0.03)

    def test_an_unchanged_engine_passes_a_gate_by_chance(self) -> None:
        assert round(probability_unchanged_passes(0.37, 120, 0.02), 2) == 0.09
        assert round(probability_unchanged_passes(0.37, 120, 0.10), 2) == 0.84


class TestPaired:
    def test_by_hand_with_clusters(self) -> None:
        # cluster means: (1 + 0) / 2 = .5, .25, -.25; mean 1/6; squares (1/3)^2 + (1/12)^2 + (5/12)^2 = 42/144
        result = paired([1.0, 0.5, 0.5, 0.25], [0.0, 0.5, 0.25, 0.5], np.array(["x", "x", "y", "z"]))
        deviation = math.sqrt(42 / 144 / 2)
        assert result.delta == 0.25
        assert result.cluster_delta == pytest.approx(1 / 6, rel=1e-14)
        assert result.effect_size == pytest.approx(1 / 6 / deviation, rel=1e-14)
        # t(.975, 2) = 4.30265 (any t table)
        half = 4.302652729911 * deviation / math.sqrt(3)
        assert result.ci95 == pytest.approx((1 / 6 - half, 1 / 6 + half), rel=1e-10)
        assert (result.wins, result.ties, result.losses) == (2, 1, 1)
        assert (result.queries, result.clusters, result.nonzero_clusters) == (4, 3, 3)

    def test_the_same_amount_everywhere_is_no_certainty_but_a_run_of_equal_signs(self) -> None:
        few, many = alone([0.5] * 3), alone([0.5] * 12)
        assert few.p == few.p_sign_flip == 2 / 2**3
        assert many.p == many.p_sign_flip == 2 / 2**12
        assert (many.ci95, many.effect_size, many.mdd) == ((0.5, 0.5), None, None)
        assert many.significant
        assert not few.significant

    def test_rounding_makes_no_differences(self) -> None:
        # .1 + .2 - .3 is 5.6e-17 in floats: a cluster whose questions cancel out
        result = paired([0.1, 0.2, 0.0, 1.0], [0.0, 0.0, 0.3, 0.0], np.array([0, 0, 0, 1]))
        assert result.nonzero_clusters == 1
        assert alone([1e-17, -1e-16]).identical

    def test_all_clusters_cancel_out_without_being_identical(self) -> None:
        result = paired([1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], np.array([0, 0, 1, 1]))
        assert (result.identical, result.p, result.p_sign_flip, result.ci95) == (False, 1.0, 1.0, (0.0, 0.0))
        assert result.nonzero_clusters == 0

    def test_detectable_difference_by_hand(self) -> None:
        # 30 wins of 100: standard error sqrt(.3 x .7 / 99); t(.975, 99) = 1.98422, t(.80, 99) = .84527
        result = alone(wins(30, of=100))
        assert result.mdd == pytest.approx((1.98422 + 0.84527) * math.sqrt(0.21 / 99), rel=1e-5)

    def test_a_larger_family_can_detect_less(self) -> None:
        one, ten = alone(wins(30, of=100)), alone(wins(30, of=100), family=10)
        assert one.mdd is not None
        assert ten.mdd is not None
        assert ten.mdd > one.mdd
        # t(.9975, 99) = 2.87130
        assert ten.mdd == pytest.approx((2.87130 + 0.84527) * math.sqrt(0.21 / 99), rel=1e-5)
        assert replace(ten, mdd=None, p_sign_flip=None) == replace(one, mdd=None, p_sign_flip=None)

    def test_the_detectable_difference_is_found_four_times_in_five(self) -> None:
        random = np.random.default_rng(3)
        truth = minimum_detectable_difference(1 / math.sqrt(60), 60, level=0.05)
        samples = truth + random.standard_normal((4_000, 60))
        statistics = samples.mean(axis=1) / (samples.std(axis=1, ddof=1) / math.sqrt(60))
        # t(.975, 59) = 2.00100
        assert np.mean(statistics > 2.00100) == pytest.approx(0.80, abs=0.02)

    @pytest.mark.parametrize(
        ("a", "b", "clusters"),
        [
            ([1.0, 0.0], [1.0], [0, 1]),
            ([1.0, 0.0], [1.0, 0.0], [0]),
            ([], [], []),
            ([[1.0]], [[0.0]], [[0]]),
            ([1.0, math.nan], [1.0, 0.0], [0, 1]),
            ([1.0, 0.0], [math.inf, 0.0], [0, 1]),
        ],
    )
    def test_arrays_that_are_not_aligned_are_refused(self, a: list[float], b: list[float], clusters: list[int]) -> None:
        with pytest.raises(ValueError, match="expected"):
            paired(a, b, np.array(clusters))

    @pytest.mark.parametrize("options", [{"alpha": 0.0}, {"alpha": 1.0}, {"family": 0}])
    def test_impossible_levels_are_refused(self, options: dict[str, float]) -> None:
        with pytest.raises(ValueError, match="alpha"):
            alone([1.0, 0.0], **options)


class TestSignFlip:
    def test_zeros_are_dropped(self) -> None:
        assert sign_flip(np.array([0.0, 0.5, 0.0, 0.25, 1.0])) == 2 / 2**3

    def test_nothing_differs(self) -> None:
        assert sign_flip(np.zeros(5)) == 1.0

    @pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 15, 16])
    def test_exact_enumeration_by_hand(self, count: int) -> None:
        # reciprocal ranks, whose sums tie exactly: 1/2 = 1/3 + 1/6; as whole numbers of sixtieths
        sixtieths = np.random.default_rng(count).choice([60, 30, 20, 15, 12, 10, -30, -20, -10], size=count)
        observed = abs(int(sixtieths.sum()))
        sums = [abs(sum(s * int(x) for s, x in zip(signs, sixtieths, strict=True))) for signs in _signs(count)]
        expected = sum(value >= observed for value in sums) / 2**count
        assert sign_flip(sixtieths / 60) == expected

    def test_many_equal_differences_follow_the_binomial(self) -> None:
        # 13 of 20 are positive: P(at least 13 or at most 7 of 20 heads)
        expected = 2 * sum(math.comb(20, k) for k in range(13, 21)) / 2**20
        p = sign_flip(np.array([0.5] * 13 + [-0.5] * 7))
        # 100,000 draws: standard error .0014
        assert p == pytest.approx(expected, abs=0.006)

    def test_never_0(self) -> None:
        assert sign_flip(np.ones(300)) == 1 / 100_000
        assert sign_flip(np.ones(1_500)) == 1 / 10_000

    def test_draws_enough_for_the_level_of_a_large_family(self) -> None:
        assert sign_flip(np.ones(1_500), level=0.05 / 1_225) < 0.05 / 1_225

    def test_another_seed_is_another_sample(self) -> None:
        differences = np.random.default_rng(0).standard_normal(40)
        assert sign_flip(differences, seed=1) != sign_flip(differences, seed=2)
        assert sign_flip(differences, seed=1) == pytest.approx(sign_flip(differences, seed=2), abs=0.01)

    def test_draws_beyond_the_enumeration_come_near_the_exact_value(self) -> None:
        hundredths = np.arange(-19, 31)
        # the exact distribution of the sum of signed whole numbers, one number convolved in after the other
        sums = np.ones(1)
        for size in np.abs(hundredths):
            step = np.zeros(2 * size + 1)
            step[[0, -1]] += 0.5 if size else 0.25
            sums = np.convolve(sums, step / step.sum())
        distances = np.abs(np.arange(sums.size) - sums.size // 2)
        exact = sums[distances >= abs(hundredths.sum())].sum()
        p = sign_flip(hundredths / 100)
        assert p == pytest.approx(exact, abs=4 * math.sqrt(exact / 100_000))
        # committed results hold such values: another stream, or another order of draws, changes their bytes
        assert p == 0.01073


def _signs(count: int) -> product[tuple[int, ...]]:
    return product((1, -1), repeat=count)


class TestBca:
    def test_no_spread_or_no_two_clusters_is_none(self) -> None:
        assert bca_interval(np.array([0.5])) is None
        assert bca_interval(np.full(9, 0.5)) is None

    def test_a_symmetric_sample_gives_nearly_the_percentiles_of_a_normal(self) -> None:
        # 200 values of mean 0 and standard error 1 / sqrt(200)
        values = np.repeat([-1.0, 1.0], 100)
        interval = bca_interval(values)
        assert interval == pytest.approx((-1.96 / math.sqrt(200), 1.96 / math.sqrt(200)), abs=0.01)

    def test_a_skewed_sample_leans_to_its_tail(self) -> None:
        values = wins(4, of=100)
        interval = bca_interval(values)
        assert interval is not None
        by_t = alone(values).ci95
        assert by_t is not None
        assert interval[0] > by_t[0]
        assert interval[1] > by_t[1]
        assert intervals_differ(by_t, interval)

    def test_small_differences_of_intervals_are_none(self) -> None:
        assert not intervals_differ((0.1, 0.3), (0.11, 0.31))
        assert intervals_differ((0.1, 0.3), (0.1, 0.33))
        assert intervals_differ((-0.001, 0.3), (0.001, 0.3))

    def test_batches_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from kbeval.evaluation.statistics import bca

        values = np.random.default_rng(5).standard_normal(64)
        whole = bca_interval(values, resamples=999)
        monkeypatch.setattr(bca, "BATCH", 640)
        assert bca_interval(values, resamples=999) == whole


class TestFamily:
    def test_holm_by_hand(self) -> None:
        # smallest first: 4 x .005, 3 x .01, 2 x .03, 1 x .04 (raised to the one before)
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))

    def test_one_test_is_not_corrected(self) -> None:
        assert holm([0.04]) == (0.04,)

    def test_never_above_1(self) -> None:
        assert holm([0.6, 0.9]) == (1.0, 1.0)

    def test_an_undefined_p_still_counts(self) -> None:
        assert holm([0.02, None]) == (0.04, None)
        assert holm_levels([0.02, None], 0.05) == (0.025, 0.05)

    def test_no_test(self) -> None:
        assert holm([]) == ()
        assert holm_levels([], 0.05) == ()

    def test_levels_by_hand(self) -> None:
        # .005 < .05/4, .01 < .05/3, .03 >= .05/2: stops there
        assert holm_levels([0.01, 0.04, 0.03, 0.005], 0.05) == pytest.approx((0.05 / 3, 0.025, 0.025, 0.0125))

    @given(st.lists(st.integers(0, 1000), min_size=1, max_size=12))
    def test_levels_and_adjusted_values_reject_the_same(self, thousandths: list[int]) -> None:
        # at .0503 no multiple of a thousandth is on the boundary
        p_values = [value / 1000 for value in thousandths]
        adjusted, levels = holm(p_values), holm_levels(p_values, 0.0503)
        by_adjusted = [value is not None and value < 0.0503 for value in adjusted]
        assert by_adjusted == [p < level for p, level in zip(p_values, levels, strict=True)]

    @pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
    def test_what_is_no_p_is_refused(self, p: float) -> None:
        with pytest.raises(ValueError, match="from 0 to 1"):
            holm([0.5, p])

    def test_detectable_differences_of_a_test_set(self) -> None:
        result = detectable([0.05, None, 0.02, 0.08, 0.03])
        assert result is not None
        assert (result.median, result.lowest, result.highest, result.pairs) == (0.04, 0.02, 0.08, 4)
        assert detectable([None, None]) is None


class TestGailSimon:
    @pytest.mark.parametrize(
        # the critical values at .05 that Gail and Simon (1985) tabulate for 2 to 6 strata
        ("strata", "critical"),
        [(2, 2.71), (3, 4.23), (4, 5.43), (5, 6.50), (6, 7.48)],
    )
    def test_published_critical_values(self, strata: int, critical: float) -> None:
        result = gail_simon([math.sqrt(critical), *[-5.0] * (strata - 1)], [1.0] * strata)
        assert result.statistic == pytest.approx(critical)
        assert result.p == pytest.approx(0.05, abs=2e-4)

    def test_published_example(self) -> None:
        # their breast cancer trial (NSABP): four strata, p about .088
        result = gail_simon([0.163, -0.114, -0.047, -0.151], [0.0788, 0.0689, 0.0614, 0.0547])
        assert result.statistic == pytest.approx((0.163 / 0.0788) ** 2)
        assert result.p == pytest.approx(0.088, abs=5e-4)

    def test_one_direction_does_not_cross(self) -> None:
        result = gail_simon([0.5, 0.1, 0.0], [0.1, 0.1, 0.1])
        assert (result.statistic, result.p) == (0.0, 1.0)

    def test_no_spread_is_an_infinitely_clear_difference(self) -> None:
        assert gail_simon([0.5, -0.5], [0.0, 0.0]).p == 0.0
        assert gail_simon([0.5, -2.0], [0.0, 1.0]).statistic == 4.0

    @pytest.mark.parametrize(("deltas", "errors"), [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, -1.0], [1.0, -1.0])])
    def test_impossible_strata_are_refused(self, deltas: list[float], errors: list[float]) -> None:
        with pytest.raises(ValueError, match="strata"):
            gail_simon(deltas, errors)


class TestNonInferiority:
    def test_the_lower_end_has_to_stay_above_the_margin(self) -> None:
        assert non_inferior((-0.019, 0.1), 0.02)
        assert not non_inferior((-0.02, 0.1), 0.02)
        assert not non_inferior(None, 0.02)

    def test_an_engine_without_spread_passes_for_certain(self) -> None:
        assert probability_unchanged_passes(0.0, 10, 0.01) == 1.0

    def test_as_often_as_simulated(self) -> None:
        random = np.random.default_rng(8)
        samples = 0.37 * random.standard_normal((4_000, 120))
        half = 1.98010 * samples.std(axis=1, ddof=1) / math.sqrt(120)  # t(.975, 119)
        passed = np.mean(samples.mean(axis=1) - half > -0.08)
        assert probability_unchanged_passes(0.37, 120, 0.08) == pytest.approx(float(passed), abs=0.03)

    @pytest.mark.parametrize("margin", [0.0, -0.1, math.nan])
    def test_a_margin_is_above_0(self, margin: float) -> None:
        with pytest.raises(ValueError, match="margin"):
            non_inferior((0.0, 0.1), margin)
        with pytest.raises(ValueError, match="margin"):
            probability_unchanged_passes(0.3, 100, margin)

    def test_impossible_samples_are_refused(self) -> None:
        with pytest.raises(ValueError, match="clusters"):
            probability_unchanged_passes(0.3, 0, 0.1)


RECIPROCAL_RANKS = st.sampled_from([0.0, *(1 / rank for rank in range(1, 21))])
ROWS = st.lists(st.tuples(RECIPROCAL_RANKS, RECIPROCAL_RANKS, st.integers(0, 30)), min_size=1, max_size=60)


def _columns(
    rows: list[tuple[float, float, int]],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    a, b, owners = zip(*rows, strict=True)
    return np.array(a), np.array(b), np.array(owners)


class TestForAnyInput:
    @given(ROWS)
    @settings(max_examples=60, deadline=None)
    def test_swapping_the_engines_negates_differences_and_keeps_p(self, rows: list[tuple[float, float, int]]) -> None:
        a, b, owners = _columns(rows)
        there, back = paired(a, b, owners), paired(b, a, owners)
        assert back == replace(
            there,
            delta=-there.delta,
            cluster_delta=-there.cluster_delta,
            ci95=None if there.ci95 is None else (-there.ci95[1], -there.ci95[0]),
            effect_size=None if there.effect_size is None else -there.effect_size,
            wins=there.losses,
            losses=there.wins,
        )

    @given(ROWS, st.randoms(use_true_random=False))
    @settings(max_examples=60, deadline=None)
    def test_the_order_of_questions_and_the_names_of_clusters_change_no_bit(
        self, rows: list[tuple[float, float, int]], random: object
    ) -> None:
        a, b, owners = _columns(rows)
        order = np.array(random.sample(range(len(rows)), len(rows)))  # type: ignore[attr-defined]
        names = np.array([f"cluster {label * 7919 % 31}" for label in owners])
        assert paired(a[order], b[order], names[order]) == paired(a, b, owners)

    @given(ROWS)
    @settings(max_examples=60, deadline=None)
    def test_ranges(self, rows: list[tuple[float, float, int]]) -> None:
        result = paired(*_columns(rows))
        assert result.wins + result.ties + result.losses == result.queries == len(rows)
        assert result.identical == (result.ties == result.queries)
        if result.clusters > 1:
            assert result.p is not None
            assert 0 <= result.p <= 1
            assert result.p_sign_flip is not None
            assert 0 < result.p_sign_flip <= 1
            assert result.ci95 is not None
            assert result.ci95[0] <= result.cluster_delta <= result.ci95[1]

    @given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
    @settings(max_examples=20, deadline=None)
    def test_the_bootstrap_mirrors_and_does_not_see_order(self, values: list[float]) -> None:
        differences = np.array(values)
        interval = bca_interval(differences, resamples=499)
        assert bca_interval(differences[::-1], resamples=499) == interval
        if interval is not None and abs(math.fsum(values)) > 1e-6:
            assert bca_interval(-differences, resamples=499) == (-interval[1], -interval[0])

    @given(ROWS)
    @settings(max_examples=60, deadline=None)
    def test_cluster_means_are_means(self, rows: list[tuple[float, float, int]]) -> None:
        a, b, owners = _columns(rows)
        expected = [(a - b)[owners == label].mean() for label in np.unique(owners)]
        assert cluster_means(a - b, owners) == pytest.approx(np.array(expected), abs=2e-12)
