"""Chance values against all orders of small corpora, one by one, and against a simulation of a larger one."""

from __future__ import annotations

from itertools import permutations
from math import comb

import numpy as np
import pytest

from kbeval.errors import KbevalError
from kbeval.evaluation.alignment import Domains, align, judge
from kbeval.evaluation.chance import chance
from kbeval.evaluation.metrics import families, parse_metrics
from kbeval.evaluation.scoring import Scores, score_aligned
from plain_trec import qrels_of, run_of

METRICS = parse_metrics(
    "hit_rate@1,hit_rate@3,hit_rate@9,precision@1,precision@3,precision@9,recall@1,recall@3,recall@9,mrr,mrr@2,map,"
    "map@2,map@9,map(rel=2),ndcg,ndcg@1,ndcg@3,ndcg@9,r-precision,f1,f1@2,f1@9,bpref,bpref(rel=2),rbp.8,judged@2,"
    "judged@9,domain_accuracy@1,domain_accuracy@3"
)
GRADES = {
    "one": [1],
    "all": [1, 1, 1, 1, 1],
    "graded": [3, 1, 2],
    "mixed": [2, 1, 1, 0, -1],
    "many irrelevant": [1, 0, 0, 0],
    "few irrelevant": [2, 1, 1, 0],
    "none relevant": [0, 0],
    "negative": [-1],
}


def scores_of_orders(grades: list[int], orders: list[tuple[int, ...]], depth: int | None) -> Scores:
    """One query for each order of the documents 0 .. N-1, of which the first have the grades."""
    qrels = [(f"q{number}", str(d), grade) for number in range(len(orders)) for d, grade in enumerate(grades)]
    lines = [(f"q{n}", str(d), -float(place)) for n, order in enumerate(orders) for place, d in enumerate(order)]
    domains = Domains({f"q{n}": "law" for n in range(len(orders))}, {"0": "law", "3": "law", "1": "stock"})
    alignment = align(judge(qrels_of(qrels)), run_of(lines), domains, compiled=False)
    return score_aligned(alignment, METRICS, depth=depth)


def chance_of(grades: list[int], documents: int, depth: int | None) -> dict[str, float]:
    qrels = qrels_of([("q", str(document), grade) for document, grade in enumerate(grades)])
    domains = Domains({"q": "law"}, {"0": "law", "3": "law", "1": "stock"})
    return chance(judge(qrels), METRICS, documents, depth=depth, domains=domains)


@pytest.mark.parametrize("depth", [None, 1, 3])
@pytest.mark.parametrize("grades", GRADES.values(), ids=GRADES)
def test_the_mean_over_all_orders(grades: list[int], depth: int | None) -> None:
    orders = list(permutations(range(5)))
    tried = scores_of_orders(grades, orders, depth)
    expected = chance_of(grades, 5, depth)
    assert set(expected) == {metric.name for metric in METRICS}
    for name, value in expected.items():
        assert value == pytest.approx(tried.means[name], abs=1e-12), name


def test_a_corpus_of_one_document() -> None:
    expected = chance(judge(qrels_of([("q", "a", 1)])), parse_metrics("map,mrr,ndcg,hit_rate@5,f1,bpref"), 1)
    assert expected == dict.fromkeys(["map", "mrr", "ndcg", "hit_rate@5", "f1", "bpref"], 1.0)


def test_a_simulated_corpus() -> None:
    rng = np.random.default_rng(1)
    grades = [3, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    orders = [tuple(rng.permutation(80).tolist()) for _ in range(600)]
    for depth in (None, 40):
        tried = scores_of_orders(grades, orders, depth)
        for name, value in chance_of(grades, 80, depth).items():
            error = tried.values[name].std() / np.sqrt(len(orders))
            assert abs(tried.means[name] - value) < 4.5 * error + 1e-12, name


def test_hit_rate_is_hypergeometric_also_in_large_corpora() -> None:
    # METHOD: with 30 documents a Hit@20 of .7 is chance; 1 - C(29, 20) / C(30, 20) = 2/3.
    one = judge(qrels_of([("q", "a", 1)]))
    assert chance(one, parse_metrics("hit_rate@20"), 30)["hit_rate@20"] == pytest.approx(2 / 3)
    many = judge(qrels_of([("q", f"d{number}", 1) for number in range(40)]))
    exact = 1 - comb(8_841_823 - 40, 1000) / comb(8_841_823, 1000)
    assert chance(many, parse_metrics("hit_rate@1000"), 8_841_823)["hit_rate@1000"] == pytest.approx(exact, rel=1e-9)


def test_reciprocal_rank_of_one_document_is_a_harmonic_number() -> None:
    one = judge(qrels_of([("q", "a", 1)]))
    expected = sum(1 / rank for rank in range(1, 11)) / 100
    assert chance(one, parse_metrics("mrr@10"), 100)["mrr@10"] == pytest.approx(expected)


def test_the_mean_is_over_all_queries_of_the_test_set() -> None:
    qrels = qrels_of([("p", "a", 1), ("q", "a", 1), ("q", "b", 1), ("r", "a", 0)])
    means = chance(judge(qrels), parse_metrics("precision@1,precision(rel=2)@1"), 10)
    assert means == {"precision@1": pytest.approx((0.1 + 0.2 + 0) / 3), "precision(rel=2)@1": 0}
    at_level = chance(judge(qrels), parse_metrics("precision@1"), 10, level=2)
    assert at_level == {"precision@1": 0}


def test_domain_accuracy_is_about_the_queries_that_have_a_domain() -> None:
    judged = judge(qrels_of([("p", "a", 1), ("q", "a", 1), ("r", "a", 1)]))
    metrics = parse_metrics("domain_accuracy@2,mrr")
    domains = Domains({"p": "law", "q": None, "r": "stock"}, {"a": "law", "b": "law", "c": "", "d": None})
    # p: 1 - C(2, 2) / C(4, 2); r: no document of its domain.
    assert chance(judged, metrics, 4, domains=domains)["domain_accuracy@2"] == pytest.approx((1 - 1 / 6) / 2)
    assert list(chance(judged, metrics, 4)) == ["mrr"]
    assert list(chance(judged, metrics, 4, domains=Domains({}, {"a": "law"}))) == ["mrr"]


def test_a_corpus_smaller_than_the_judgments_is_refused() -> None:
    judged = judge(qrels_of([("q", "a", 1), ("q", "b", 0), ("q", "c", -1)]))
    with pytest.raises(KbevalError, match="a query has 3 judgments, but the corpus holds 2 documents"):
        chance(judged, parse_metrics("mrr"), 2)


def test_every_family_is_tried() -> None:
    assert {metric.family for metric in METRICS} == set(families())
