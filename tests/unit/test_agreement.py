"""Agreement equals scikit-learn's, and what published examples say; the share of misses has an exact interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbeval.errors import KbevalError
from kbeval.evaluation.agreement import agreement
from kbeval.evaluation.misses import share_with_interval
from kbeval.evaluation.statistics import clopper_pearson
from kbeval.model import Label
from kbeval.report.agreement import GATE_NOTE, agreement_json, agreement_table
from kbeval.report.tables import as_text
from kbeval.testset.agreement import measure, sampled

GRADES = st.integers(0, 3)


@settings(max_examples=60)
@given(st.lists(st.tuples(GRADES, GRADES), min_size=1, max_size=40))
def test_kappa_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    first, second = zip(*pairs, strict=True)
    # one query: no interval is drawn, which this is not about
    found = agreement(first, second, ["q"] * len(pairs))
    for ours, weights in ((found.kappa, None), (found.quadratic, "quadratic")):
        with np.errstate(all="ignore"):
            theirs = metrics.cohen_kappa_score(first, second, labels=[0, 1, 2, 3], weights=weights)
        if ours.value is None:
            assert np.isnan(theirs) or len(set(first) | set(second)) == 1
        else:
            assert ours.value == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=40)
@given(st.lists(st.tuples(GRADES, GRADES), min_size=1, max_size=40), st.integers(1, 3))
def test_positive_agreement_is_the_f1_of_one_against_the_other(pairs: list[tuple[int, int]], level: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    found = agreement(first, second, ["q"] * len(pairs), level=level).positive.value
    if not (first >= level).any() and not (second >= level).any():
        assert found is None
    else:
        assert found == pytest.approx(metrics.f1_score(first >= level, second >= level), abs=1e-12)


def test_cohens_own_arithmetic() -> None:
    # 20 agree on 3, 15 on 0, 5 + 10 differ: observed .7; chance .5 * .6 + .5 * .4 = .5; kappa (.7 - .5) / .5 = .4
    first = [3] * 20 + [3] * 5 + [0] * 10 + [0] * 15
    second = [3] * 20 + [0] * 5 + [3] * 10 + [0] * 15
    found = agreement(first, second, range(50))
    assert (found.pairs, found.queries, found.observed) == (50, 50, 0.7)
    assert found.kappa.value == pytest.approx(0.4)
    assert found.quadratic.value == pytest.approx(0.4)  # with two grades every disagreement weighs the same
    assert found.positive.value == pytest.approx(2 * 20 / (2 * 20 + 5 + 10))
    assert found.table == ((15, 0, 0, 10), (0, 0, 0, 0), (0, 0, 0, 0), (5, 0, 0, 20))


def test_the_interval_is_about_the_large_sample_one_for_independent_pairs() -> None:
    first = [3] * 20 + [3] * 5 + [0] * 10 + [0] * 15
    second = [3] * 20 + [0] * 5 + [3] * 10 + [0] * 15
    # 200 pairs, each its own query: Cohen's simple standard error sqrt(po (1 - po) / n) / (1 - pe) = .0648
    found = agreement(first * 4, second * 4, range(200)).kappa
    assert found.interval is not None
    assert found.lower == found.interval[0]
    assert found.interval == pytest.approx((0.4 - 1.96 * 0.0648, 0.4 + 1.96 * 0.0648), abs=0.015)


def test_queries_are_drawn_whole() -> None:
    first = [3] * 20 + [3] * 5 + [0] * 10 + [0] * 15
    second = [3] * 20 + [0] * 5 + [3] * 10 + [0] * 15
    alone = agreement(first * 4, second * 4, range(200)).kappa.interval
    fours = agreement(first * 4, second * 4, list(range(50)) * 4).kappa.interval
    assert alone is not None
    assert fours is not None
    # four copies of each of 50 pairs hold what 50 pairs hold: the interval is twice as wide, the root of four
    assert (fours[1] - fours[0]) / (alone[1] - alone[0]) == pytest.approx(2.0, rel=0.1)


def test_the_same_whatever_order_pairs_come_in() -> None:
    rng = np.random.default_rng(1)
    first, second, queries = rng.integers(0, 4, 60), rng.integers(0, 4, 60), rng.integers(0, 20, 60)
    shuffled = rng.permutation(60)
    assert agreement(first, second, queries) == agreement(first[shuffled], second[shuffled], queries[shuffled])


def test_no_interval_where_there_is_nothing_to_draw() -> None:
    same = agreement([0, 3, 2], [0, 3, 2], ["a", "b", "c"])
    assert (same.kappa.value, same.kappa.interval, same.kappa.lower) == (1.0, None, None)
    assert agreement([0, 3], [0, 2], ["q", "q"]).kappa.interval is None
    undefined = agreement([0, 0], [0, 0], ["a", "b"])
    assert (undefined.kappa.value, undefined.positive.value, undefined.observed) == (None, None, 1.0)


@pytest.mark.parametrize(("first", "second"), [([], []), ([1], [1, 2]), ([4], [1]), ([-1], [1])])
def test_what_cannot_be_compared_is_refused(first: list[int], second: list[int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        agreement(first, second, ["q"] * len(first))


def label(document: str, grade: int | None, by: str = "ana", **more: object) -> Label:
    source = "llm" if by.startswith("model") else "human"
    queue = more.pop("queue", None if source == "llm" else "agreement")
    return Label("q" + document[1:], document, grade, source, by, queue=queue, **more)  # type: ignore[arg-type]


def test_only_blind_grades_of_the_sample_count() -> None:
    labels = [
        label("d1", 3),
        label("d2", 0, queue="disputed"),
        label("d3", 0, queue="seen"),
        label("d4", 0, queue=None),
        *(label(f"d{i}", 3, "model") for i in range(1, 6)),
    ]
    assert {each.document for each in sampled(labels)} == {"d1"}
    assert [each.agreement.pairs for each in measure(labels, level=2)] == [1]


def test_people_and_models_then_each_then_people_among_themselves() -> None:
    labels = [
        *(label(f"d{i}", grade) for i, grade in enumerate([3, 3, 0, 0])),
        *(label(f"d{i}", grade, "ben") for i, grade in enumerate([3, 2, 0])),
        *(label(f"d{i}", grade, "model") for i, grade in enumerate([3, 0, None, 0])),
    ]
    found = measure(labels, level=2)
    assert [(each.first, each.second, each.kind, each.agreement.pairs) for each in found] == [
        ("people", "models", "people and models", 3),
        ("ana", "model", "person and model", 3),
        ("ben", "model", "person and model", 2),
        ("ana", "ben", "two people", 3),
    ]
    # the lower median of 3 and 2 is 2: people say 3, 2, 0 where the model says 3, 0, 0
    assert found[0].agreement.table == ((1, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1))


def test_a_sample_that_nobody_graded_is_said() -> None:
    with pytest.raises(KbevalError, match="found none in the labels"):
        measure([label("d1", 3, "model"), label("d1", 3, queue="misses")], level=2)
    with pytest.raises(KbevalError, match="that two have graded"):
        measure([label("d1", 3), replace(label("d1", 3, "model"), grade=None)], level=2)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # R: binom.test(x, n)$conf.int
        (0, 20, 0.0, 0.1684335),
        (3, 20, 0.0320709, 0.3789268),
        (10, 20, 0.2719578, 0.7280422),
        (20, 20, 0.8315665, 1.0),
    ],
)
def test_clopper_pearson_is_that_of_r(successes: int, trials: int, low: float, high: float) -> None:
    assert clopper_pearson(successes, trials) == pytest.approx((low, high), abs=1e-6)


def test_clopper_pearson_covers_at_least_what_it_says() -> None:
    from scipy.stats import binom

    ends = [clopper_pearson(k, 20) for k in range(21)]
    for share in np.linspace(0.01, 0.99, 99):
        inside = [k for k, (low, high) in enumerate(ends) if low <= share <= high]
        assert binom.pmf(inside, 20, share).sum() >= 0.95


def test_the_share_of_marked_misses() -> None:
    assert share_with_interval([True] * 3 + [False] * 17).share == 0.15
    nothing = share_with_interval([])
    assert (nothing.marked, nothing.share, nothing.low, nothing.high) == (0, None, None, None)
    with pytest.raises(ValueError, match="expected 0"):
        clopper_pearson(3, 2)


def test_what_is_printed_names_the_bound_that_a_gate_uses() -> None:
    raters = measure([label("d1", 3), label("d2", 0), label("d1", 3, "model"), label("d2", 2, "model")], level=2)
    # grades 3, 0 against 3, 2: one of two the same; chance .25, kappa (.5 - .25) / .75 = 1/3;
    # quadratic 1 - 4 * 2 / ((0 + 1 + 9 + 4) / 1) = 3/7; positive 2 / 3
    assert "people – models" in (shown := as_text(agreement_table(raters)))
    assert "0.333" in shown
    assert "0.429" in shown
    data = orjson.loads(agreement_json(raters, [], "mrr"))["agreement"][0]
    assert data["kappa"]["value"] == pytest.approx(1 / 3)
    assert data["kappa_quadratic"]["value"] == pytest.approx(3 / 7)
    assert data["positive_agreement"]["value"] == pytest.approx(2 / 3)
    assert set(data["kappa"]) == {"value", "lower", "upper"}
    assert "a gate uses its lower end" in GATE_NOTE
