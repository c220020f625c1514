"""What holds for any judgments and any run."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kbeval.evaluation.metrics import families, parse_metrics
from kbeval.evaluation.scoring import Scores, score
from plain_trec import qrels_of, run_of

if TYPE_CHECKING:
    from kbeval.model import Qrels

METRICS = parse_metrics(
    "hit_rate@1,hit_rate@3,precision@1,precision@3,recall@1,recall@2,recall@3,recall@9,mrr,mrr@2,map,map@2,map(rel=2),"
    "ndcg,ndcg@2,r-precision,f1,f1@2,bpref,bpref(rel=2),rbp.8,judged@2"
)
Judged = list[tuple[str, str, int]]
Lines = list[tuple[str, str, float]]

_pairs = st.tuples(st.sampled_from(["q1", "q2", "é"]), st.sampled_from(["a", "b", "B", "a#1", "ü", "z", "y"]))
# Few scores, so that many are equal.
_lines = st.dictionaries(_pairs, st.sampled_from([0.5, 1.0, 2.0, -1e300, 5e-324]), min_size=1)
_grades = st.dictionaries(_pairs, st.integers(-2, 4), min_size=1)
CASES = st.tuples(_grades, _lines).filter(lambda case: {q for q, _ in case[0]} & {q for q, _ in case[1]})


def _score(grades: dict[tuple[str, str], int], lines: Lines) -> Scores:
    return score(_qrels(grades), run_of(lines), METRICS)


def _qrels(grades: dict[tuple[str, str], int]) -> Qrels:
    return qrels_of([(query, document, grade) for (query, document), grade in grades.items()])


def _rows(lines: dict[tuple[str, str], float]) -> Lines:
    return [(query, document, score) for (query, document), score in lines.items()]


@settings(deadline=None)  # the first example imports numba
@given(CASES, st.randoms(use_true_random=False))
def test_the_order_of_the_lines_changes_no_bit(case: tuple[dict, dict], random) -> None:  # type: ignore[no-untyped-def,type-arg]
    grades, lines = case
    before = _score(grades, _rows(lines))
    shuffled_lines, shuffled_grades = _rows(lines), list(grades.items())
    random.shuffle(shuffled_lines)
    random.shuffle(shuffled_grades)
    after = _score(dict(shuffled_grades), shuffled_lines)
    assert before.queries == after.queries
    for name, values in before.values.items():
        assert values.tobytes() == after.values[name].tobytes(), name


@settings(deadline=None)  # the first example imports numba
@given(CASES)
def test_values_lie_in_their_range_and_agree_with_each_other(case: tuple[dict, dict]) -> None:  # type: ignore[type-arg]
    grades, lines = case
    values = _score(grades, _rows(lines)).values
    for metric in METRICS:
        column = values[metric.name]
        assert np.all((column >= metric.family.lowest) & (column <= metric.family.highest + 1e-12)), metric.name
    assert np.all(values["mrr@2"] <= values["mrr"])
    for narrow, wide in pairwise(["recall@1", "recall@2", "recall@3", "recall@9"]):
        assert np.all(values[narrow] <= values[wide])
    assert np.all(values["hit_rate@1"] == values["precision@1"])
    assert np.all(values["map@2"] <= values["map"] + 1e-15)
    assert np.all((values["mrr"] > 0) == (values["recall@9"] > 0))


@settings(deadline=None)  # the first example imports numba
@given(CASES)
def test_an_unjudged_document_at_the_bottom_changes_only_what_counts_it(case: tuple[dict, dict]) -> None:  # type: ignore[type-arg]
    grades, lines = case
    before = _score(grades, _rows(lines))
    answered = sorted({query for query, _ in lines})
    after = _score(grades, [*_rows(lines), *((query, "unjudged", -1.7e308) for query in answered)])
    for metric in METRICS:
        counts_it = metric.family.name == "judged" or (metric.family.name == "f1" and metric.k is None)
        if not counts_it:
            assert before.values[metric.name].tobytes() == after.values[metric.name].tobytes(), metric.name


def test_the_properties_are_tried_on_every_family_about_judgments() -> None:
    tried = {metric.family.name for metric in METRICS}
    assert tried == {family.name for family in families() if not family.needs_domains}
