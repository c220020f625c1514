"""Each metric on one query that can be worked out by hand, and what happens to queries that have nothing."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from kbeval.errors import KbevalError
from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.metrics import parse_metric, parse_metrics
from kbeval.evaluation.scoring import Domains, Scores, score, score_aligned
from kbeval.model import Qrels
from plain_trec import qrels_of, run_of

# The list is x a c d b: relevant at ranks 2 and 5; e, relevant too, is not retrieved. x is not in the qrels
# and d has a negative grade: both are unjudged.
GRADES = {"a": 2, "b": 1, "c": 0, "d": -1, "e": 1}
QRELS = qrels_of([("q", document, grade) for document, grade in GRADES.items()])
RUN = run_of([("q", document, 5.0 - place) for place, document in enumerate("xacdb")])

IDEAL = 2 / log2(2) + 1 / log2(3) + 1 / log2(4)
BY_HAND = {
    "hit_rate@1": 0.0,
    "hit_rate@2": 1.0,
    "hit_rate@100": 1.0,
    "precision@2": 1 / 2,
    "precision@5": 2 / 5,
    "precision@10": 2 / 10,
    "recall@2": 1 / 3,
    "recall@10": 2 / 3,
    "mrr": 1 / 2,
    "mrr@1": 0.0,
    "mrr@2": 1 / 2,
    "map": (1 / 2 + 2 / 5) / 3,
    "map@4": (1 / 2) / 3,
    "map@10": (1 / 2 + 2 / 5) / 3,
    "ndcg": (2 / log2(3) + 1 / log2(6)) / IDEAL,
    "ndcg@2": (2 / log2(3)) / (2 / log2(2) + 1 / log2(3)),
    "ndcg@10": (2 / log2(3) + 1 / log2(6)) / IDEAL,
    "r-precision": 1 / 3,  # x a c hold one of the 3
    "f1": 2 * (2 / 5) * (2 / 3) / (2 / 5 + 2 / 3),
    "f1@2": 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3),
    "f1@10": 2 * (2 / 10) * (2 / 3) / (2 / 10 + 2 / 3),
    "bpref": (1 + (1 - min(1, 3) / min(3, 1))) / 3,  # a has no judged irrelevant one above it, b has c
    "rbp.8": (1 - 0.8) * (0.8**1 + 0.8**4),
    "judged@1": 0.0,
    "judged@2": 1 / 2,
    "judged@10": 3 / 5,  # a c b of five returned
    # At level 2 only a is relevant; b, e and c are judged irrelevant.
    "hit_rate(rel=2)@2": 1.0,
    "precision(rel=2)@5": 1 / 5,
    "recall(rel=2)@5": 1.0,
    "mrr(rel=2)": 1 / 2,
    "map(rel=2)": 1 / 2,
    "r-precision(rel=2)": 0.0,
    "f1(rel=2)": 2 * (1 / 5) * 1 / (1 / 5 + 1),
    "bpref(rel=2)": 1.0,
    "rbp(rel=2).8": (1 - 0.8) * 0.8,
    # At level 3 nothing is.
    "map(rel=3)": 0.0,
    "bpref(rel=3)": 0.0,
}


@pytest.mark.parametrize("compiled", [False, True], ids=["uncompiled", "compiled"])
def test_values_worked_out_by_hand(compiled: bool) -> None:
    alignment = align(judge(QRELS), RUN, compiled=compiled)
    scores = score_aligned(alignment, [parse_metric(name) for name in BY_HAND])
    for name, value in BY_HAND.items():
        assert scores.values[name].dtype == np.float64
        assert scores.values[name].tolist() == [pytest.approx(value, abs=1e-15)], name
        assert scores.means[name] == scores.values[name][0]


def test_the_default_level_is_that_of_names_that_state_none() -> None:
    scores = score(QRELS, RUN, parse_metrics("map,map(rel=1),ndcg"), level=2)
    assert scores.means["map"] == BY_HAND["map(rel=2)"]
    assert scores.means["map(rel=1)"] == BY_HAND["map"]
    assert scores.means["ndcg"] == BY_HAND["ndcg"]


def test_the_depth_cuts_every_list_first() -> None:
    scores = score(QRELS, RUN, parse_metrics("map,f1,precision@5,judged@10,ndcg,bpref,rbp.5"), depth=2)
    assert scores.means == {
        "map": pytest.approx((1 / 2) / 3),
        "f1": pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3)),
        "precision@5": pytest.approx(1 / 5),
        "judged@10": pytest.approx(1 / 2),
        "ndcg": pytest.approx((2 / log2(3)) / IDEAL),
        "bpref": pytest.approx(1 / 3),
        "rbp.5": pytest.approx((1 - 0.5) * 0.5),
    }


def scores_of_five() -> Scores:
    qrels = qrels_of(
        [
            ("found", "a", 1),
            ("irrelevant", "a", 0),
            ("missing", "a", 1),
            ("negative", "a", -1),
            ("unanswered", "a", 1),
        ]
    )
    run = run_of(
        [
            ("found", "a", 1.0),
            ("irrelevant", "a", 1.0),
            ("negative", "a", 1.0),
            ("unanswered", "b", 1.0),
            ("stranger", "a", 1.0),
            ("alien", "a", 1.0),
        ]
    )
    return score(qrels, run, parse_metrics("mrr,map,ndcg@10,f1,f1@3,bpref,rbp.5,judged@5,r-precision,recall@5"))


def test_every_query_of_the_qrels_counts_and_no_other() -> None:
    scores = scores_of_five()
    assert scores.queries == ("found", "irrelevant", "missing", "negative", "unanswered")
    for name, values in scores.values.items():
        if name == "judged@5":
            assert values.tolist() == [1, 1, 0, 0, 0]
        elif name == "rbp.5":
            assert values.tolist() == [0.5, 0, 0, 0, 0]
        elif name == "f1@3":  # P = 1/3, R = 1
            assert values.tolist() == [pytest.approx(0.5), 0, 0, 0, 0]
        else:
            assert values.tolist() == [1, 0, 0, 0, 0], name
    assert scores.means["mrr"] == 1 / 5


def test_queries_that_count_with_nothing_are_named() -> None:
    scores = scores_of_five()
    assert scores.without_relevant == ("irrelevant", "negative")
    assert scores.missing == ("missing",)
    assert scores.warnings == ("2 queries of the run, as 'alien', are not in the test set and are left out",)


def test_bpref_says_where_it_equals_recall() -> None:
    scores = scores_of_five()
    # found, missing and unanswered have a relevant document and nothing judged irrelevant.
    assert scores.remarks == {"bpref": "equals recall on 3 of 5 queries: nothing is judged irrelevant there"}
    assert not score(QRELS, RUN, parse_metrics("bpref")).remarks


def test_domain_accuracy_leaves_out_queries_without_a_domain() -> None:
    qrels = qrels_of([(query, "a", 1) for query in ("q1", "q2", "q3", "q4", "q5")])
    run = run_of(
        [(query, document, -place) for query in ("q1", "q2", "q3", "q4") for place, document in enumerate("xyz")]
    )
    domains = Domains(
        queries={"q1": "billing", "q2": "stock", "q3": "", "q4": "law", "q5": "billing"},
        documents={"x": "stock", "y": None, "z": "billing"},
    )
    scores = score(qrels, run, parse_metrics("domain_accuracy@1,domain_accuracy@3,mrr"), domains=domains)
    # q1: z is third. q2: x is first. q3 has no domain. No document is of q4's. q5 is missing from the run.
    assert np.array_equal(scores.values["domain_accuracy@1"], [0, 1, np.nan, 0, 0], equal_nan=True)
    assert np.array_equal(scores.values["domain_accuracy@3"], [1, 1, np.nan, 0, 0], equal_nan=True)
    assert scores.means["domain_accuracy@1"] == 1 / 4
    assert scores.means["domain_accuracy@3"] == 2 / 4
    assert scores.left_out == {"domain_accuracy@1": 1, "domain_accuracy@3": 1}
    cut = score(qrels, run, parse_metrics("domain_accuracy@3"), depth=2, domains=domains)
    assert cut.means["domain_accuracy@3"] == 1 / 4


@pytest.mark.parametrize("domains", [None, Domains({}, {"a": "billing"}), Domains({"q": None}, {"a": "billing"})])
def test_domain_accuracy_is_absent_where_no_query_has_a_domain(domains: Domains | None) -> None:
    scores = score(QRELS, RUN, parse_metrics("domain_accuracy@1,mrr"), domains=domains)
    assert list(scores.values) == list(scores.means) == ["mrr"]


def test_an_empty_test_set_is_an_error() -> None:
    with pytest.raises(KbevalError, match="the test set is empty"):
        score(qrels_of([]), RUN, parse_metrics("mrr"))


def test_a_run_about_other_queries_is_an_error() -> None:
    with pytest.raises(KbevalError, match="run r has no query in common with the test set: it answers 'other'"):
        score(QRELS, run_of([("other", "a", 1.0)], "r"), parse_metrics("mrr"))
    with pytest.raises(KbevalError, match="run r is empty"):
        score(QRELS, run_of([], "r"), parse_metrics("mrr"))


def test_frames_that_break_the_models_promise_are_refused() -> None:
    rising = Qrels(QRELS.frame.sort("grade"))
    with pytest.raises(ValueError, match="falling grade"):
        score(rising, RUN, parse_metrics("mrr"))
    two = run_of([("q", "a", 1.0), ("r", "a", 1.0)])
    torn = type(two)("torn", two.frame[[0, 1, 0]])
    with pytest.raises(ValueError, match="sorted by query"):
        score(QRELS, torn, parse_metrics("mrr"))


@pytest.mark.parametrize("wrong", [{"level": 0}, {"depth": 0}])
def test_levels_and_depths_start_at_1(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        score(QRELS, RUN, parse_metrics("mrr"), **wrong)  # type: ignore[arg-type]
