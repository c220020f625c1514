"""The range that ties leave to each metric, against every order of the ties, tried one by one."""

from __future__ import annotations

from itertools import groupby, permutations, product
from math import log2
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbeval.evaluation.alignment import Domains, align, judge
from kbeval.evaluation.metrics import parse_metrics
from kbeval.evaluation.scoring import score
from kbeval.evaluation.ties import Ties, find_ties
from plain_trec import qrels_of, run_of

if TYPE_CHECKING:
    from kbeval.model import Qrels, Run

METRICS = parse_metrics(
    "hit_rate@1,hit_rate@2,precision@2,precision@3,recall@2,recall@3,mrr,mrr@2,map,map@3,map(rel=2),ndcg,ndcg@2,r-precision,"
    "f1,f1@2,bpref,bpref(rel=2),rbp.8,judged@2,domain_accuracy@2"
)


def ties_of(qrels: Qrels, run: Run, *, depth: int | None = None, domains: Domains | None = None) -> Ties:
    return find_ties(run, align(judge(qrels), run, domains), METRICS, depth=depth)


def every_order(lines: list[tuple[str, float]]) -> list[list[str]]:
    """All lists that are in order of the scores."""
    lines = sorted(lines, key=lambda line: -line[1])
    groups = [[document for document, _ in group] for _, group in groupby(lines, key=lambda line: line[1])]
    choices = product(*(permutations(group) for group in groups))
    return [[document for group in choice for document in group] for choice in choices]


@pytest.mark.parametrize("depth", [None, 3])
@pytest.mark.parametrize("seed", range(25))
def test_the_range_is_that_of_all_orders(seed: int, depth: int | None) -> None:
    rng = np.random.default_rng(seed)
    documents = list("abcdefgh")
    grades = [(d, int(rng.integers(-1, 4))) for d in rng.choice(documents, rng.integers(1, 7), replace=False)]
    lines = [(str(d), float(rng.integers(0, 3))) for d in rng.choice(documents, rng.integers(1, 6), replace=False)]
    domain_of = {document: str(rng.choice(["law", "stock", ""])) for document in documents}
    domains = Domains({"q": "law"}, domain_of)
    found = ties_of(
        qrels_of([("q", d, g) for d, g in grades]),
        run_of([("q", d, s) for d, s in lines]),
        depth=depth,
        domains=domains,
    )
    # One query for each order, all with the same judgments.
    orders = {f"q{number}": order for number, order in enumerate(every_order(lines))}
    tried = score(
        qrels_of([(query, d, g) for query in orders for d, g in grades]),
        run_of([(query, d, -float(place)) for query, order in orders.items() for place, d in enumerate(order)]),
        METRICS,
        depth=depth,
        domains=Domains(dict.fromkeys(orders, "law"), domain_of),
    )
    assert set(found.ranges) == {metric.name for metric in METRICS}
    for name, (lowest, highest) in found.ranges.items():
        assert lowest == pytest.approx(tried.values[name].min(), abs=1e-12), name
        assert highest == pytest.approx(tried.values[name].max(), abs=1e-12), name


def test_a_range_is_a_mean_over_queries() -> None:
    qrels = qrels_of([("p", "a", 1), ("q", "a", 1), ("q", "b", 2), ("r", "a", 1), ("s", "a", 1)])
    run = run_of(
        [
            ("p", "x", 1.0),
            ("p", "a", 1.0),  # rank 1 or 2
            ("q", "y", 5.0),
            ("q", "a", 1.0),
            ("q", "b", 1.0),  # ranks 2 and 3, or 3 and 2
            ("r", "a", 2.0),
            ("r", "x", 1.0),  # no tie; s is missing
        ]
    )
    ties = ties_of(qrels, run)
    assert ties.queries == 2
    assert ties.ranges["mrr"] == pytest.approx(((1 / 2 + 1 / 2 + 1 + 0) / 4, (1 + 1 / 2 + 1 + 0) / 4))
    ideal = 2 / log2(2) + 1 / log2(3)
    q = [(1 / log2(3) + 2 / log2(4)) / ideal, (2 / log2(3) + 1 / log2(4)) / ideal]
    assert ties.ranges["ndcg"] == pytest.approx(((1 / log2(3) + q[0] + 1) / 4, (1 + q[1] + 1) / 4))


def test_straddling_counts_the_queries_whose_ties_lie_on_both_sides_of_a_cutoff() -> None:
    qrels = qrels_of([(query, "a", 1) for query in ("p", "q", "r")])
    run = run_of(
        [
            *[("o", document, 1.0) for document in "uvw"],  # not in the test set
            *[("p", document, 1.0) for document in "uvw"],
            ("q", "u", 3.0),
            ("q", "v", 2.0),
            ("q", "w", 2.0),
            ("r", "u", 1.0),  # equal to q's last, but another query's
        ]
    )
    ties = ties_of(qrels, run, depth=5)
    assert ties.straddling == {1: 1, 2: 2, 3: 0, 5: 0}
    assert ties.queries == 2


def test_a_run_without_ties_has_nothing_to_choose() -> None:
    qrels, run = qrels_of([("q", "a", 1)]), run_of([("q", "a", 2.0), ("q", "b", 1.0)])
    ties = ties_of(qrels, run)
    assert ties.queries == 0
    assert set(ties.straddling.values()) == {0}
    assert ties.ranges["mrr"] == (1.0, 1.0)
    assert "domain_accuracy@2" not in ties.ranges


def test_kbevals_own_value_lies_in_the_range_on_a_real_run(shared_data) -> None:  # type: ignore[no-untyped-def]
    from plain_trec import qrels_from, run_from, text_of

    folder = shared_data / "cases" / "01-ties-by-docid"
    qrels, run = qrels_from(text_of(folder / "qrels.txt")), run_from(text_of(folder / "run.txt"))
    ties = ties_of(qrels, run)
    # Three documents, one score; the second by id is relevant: README, "RR 0.5", and 1.0 by file order.
    assert ties.ranges["mrr"] == pytest.approx((1 / 3, 1.0))
    assert score(qrels, run, METRICS).means["mrr"] == 0.5
