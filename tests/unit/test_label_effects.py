"""Slices, added gold, labels that one run brought in, and questions without an answer, as a comparison shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbeval.evaluation.comparison import Options, RunSource, compare_runs
from kbeval.evaluation.label_effects import held_against_pool, without_pairs
from kbeval.evaluation.metrics import parse_metric, parse_metrics
from kbeval.evaluation.pooling import run_hash
from kbeval.evaluation.slices import overlap_spreads, slices
from kbeval.evaluation.test_set import TestSet
from kbeval.formats.pool import PoolRecord
from kbeval.model import LabelledQuery
from kbeval.report.markdown import results_md
from kbeval.report.sections import marked_sentence
from plain_trec import qrels_of, run_of

if TYPE_CHECKING:
    from kbeval.evaluation.comparison import Comparison


def labelled(name: str, relevant: dict[str, int], **more: object) -> LabelledQuery:
    return LabelledQuery(id=name, text=f"Text of {name}?", relevant=relevant, **more)  # type: ignore[arg-type]


def make_test_set(*queries: LabelledQuery, **more: object) -> TestSet:
    rows = [(query.id, document, grade) for query in queries for document, grade in query.relevant.items()]
    return TestSet(qrels=qrels_of(rows), labelled={query.id: query for query in queries}, **more)  # type: ignore[arg-type]


def compare(test_set: TestSet, **runs: list[tuple[str, str, float]]) -> Comparison:
    options = Options(metrics=parse_metrics("mrr,hit_rate@1"), primary=parse_metric("mrr"))
    return compare_runs(test_set, [RunSource(name, run_of(rows, name)) for name, rows in runs.items()], options)


def test_thirds_keep_equal_overlaps_together() -> None:
    overlaps = {"q1": 0.0, "q2": 0.0, "q3": 0.0, "q4": 0.2, "q5": 0.5, "q6": 0.9, "q7": None}
    found = slices(make_test_set(*(labelled(name, {"d": 1}, overlap=of) for name, of in overlaps.items())))
    # six are known: the second smallest of them is 0 and the fourth is .2
    assert [(each.by, each.name, each.rows.tolist()) for each in found if each.by == "overlap"] == [
        ("overlap", "low (up to 0.00)", [0, 1, 2]),
        ("overlap", "middle (0.00 to 0.20)", [3]),
        ("overlap", "high (above 0.20)", [4, 5]),
    ]


def test_overlaps_that_hardly_differ_have_no_thirds() -> None:
    same = make_test_set(*(labelled(f"q{i}", {"d": 1}, overlap=0.5) for i in range(9)))
    assert [each.by for each in slices(same)] == ["kind"]
    assert [each.by for each in slices(make_test_set(labelled("q1", {"d": 1}, overlap=0.5)))] == ["kind"]


def test_sources_are_slices_where_they_cut_otherwise_than_styles() -> None:
    both = make_test_set(
        labelled("q1", {"d": 1}, source="synthetic", style="near"),
        labelled("q2", {"d": 1}, source="synthetic", style="far"),
        labelled("q3", {"d": 1}, source="historical"),
    )
    assert [(each.by, each.name, each.rows.tolist()) for each in slices(both)] == [
        ("kind", "near", [0]),
        ("kind", "far", [1]),
        ("kind", "historical", [2]),
        ("source", "historical", [2]),
        ("source", "synthetic", [0, 1]),
    ]
    alike = make_test_set(labelled("q1", {"d": 1}, source="synthetic"), labelled("q2", {"d": 1}, source="historical"))
    assert {each.by for each in slices(alike)} == {"kind"}


def test_the_spread_of_overlaps_by_kind() -> None:
    queries = [labelled(f"q{i}", {"d": 1}, style="near", overlap=i / 4) for i in range(5)]
    spread = overlap_spreads(make_test_set(*queries, labelled("r", {"d": 1}, style="far")))
    assert [(of.name, of.questions, of.mean, of.quartiles) for of in spread] == [("near", 5, 0.5, (0.25, 0.5, 0.75))]


def found_by_label(count: int = 12) -> tuple[TestSet, dict[str, list[tuple[str, str, float]]]]:
    """Engine a puts the gold first; b a document that labels made gold too, and the gold second."""
    queries = [labelled(f"q{i:02}", {f"d{i}": 3, f"x{i}": 2}, added=(f"x{i}",)) for i in range(count)]
    runs = {
        "a": [(f"q{i:02}", f"d{i}", 1.0) for i in range(count)],
        "b": [row for i in range(count) for row in ((f"q{i:02}", f"x{i}", 2.0), (f"q{i:02}", f"d{i}", 1.0))],
    }
    return make_test_set(*queries, level=2), runs


def test_metrics_stand_with_and_without_added_gold() -> None:
    test_set, runs = found_by_label()
    comparison = compare(test_set, **runs)
    a, b = comparison.runs
    assert (a.mean("mrr"), b.mean("mrr")) == (1.0, 1.0)
    assert a.without_added is not None
    assert b.without_added is not None
    assert (a.without_added.means["mrr"], b.without_added.means["mrr"]) == (1.0, 0.5)
    report = results_md(comparison)
    assert "| b | with | 1.0000 | 1.0000 |\n|  | without | 0.5000 | 0.0000 |" in report


def test_a_verdict_that_added_gold_alone_makes_is_taken_back() -> None:
    test_set, runs = found_by_label()
    runs["a"] = [(f"q{i:02}", f"n{i}", 1.0) for i in range(12)]
    runs["b"] = [(f"q{i:02}", f"x{i}", 1.0) for i in range(12)]
    # With added gold b has 1 and a has 0 on twelve of twelve; without it both have 0.
    comparison = compare(test_set, **runs)
    verdict = comparison.pairs[0].verdict
    assert verdict.word == "cannot tell"
    assert verdict.leader is None
    assert verdict.taken_back is not None
    assert (verdict.taken_back.word, verdict.taken_back.leader, verdict.taken_back.why, verdict.taken_back.detail) == (
        "significant",
        "b",
        "added gold",
        "identical",
    )
    assert "only with the gold that labels added: without it the verdict is 'identical'" in results_md(comparison)


def test_a_verdict_that_stands_both_ways_stays() -> None:
    test_set, runs = found_by_label()
    runs["b"] = [(f"q{i:02}", f"n{i}", 1.0) for i in range(12)]
    verdict = compare(test_set, **runs).pairs[0].verdict
    assert (verdict.word, verdict.leader, verdict.taken_back) == ("significant", "a", None)


def test_misses_are_those_of_the_gold_before_anybody_marked_them() -> None:
    test_set, runs = found_by_label()
    report = results_md(compare(test_set, **runs))
    misses = report.partition("## b: first answers that count as wrong")[2].partition("\n## ")[0]
    assert misses.count("| x") == 12
    assert "## a: first answers" not in report


def test_labels_that_a_run_alone_brought_in() -> None:
    # q1: both found d; q2: only b found x, which was then judged relevant; it stands at b's rank 1.
    test_set = make_test_set(
        labelled("q1", {"d": 3}),
        labelled("q2", {"e": 3, "x": 2}, added=("x",)),
        level=2,
        judged_by_runs={("q1", "d"): ("a", "b"), ("q2", "x"): ("b",), ("q2", "e"): ("a",)},
    )
    a_rows = [("q1", "d", 1.0), ("q2", "e", 1.0)]
    b_rows = [("q1", "d", 1.0), ("q2", "x", 2.0), ("q2", "e", 1.0)]
    comparison = compare(test_set, a=a_rows, b=b_rows)
    a, b = comparison.runs
    # without x, b's first relevant document for q2 is e at rank 2: (1 + 1/2) / 2; e is what q2 was written from,
    # so that it is nobody's find
    assert (a.without_own_labels, b.without_own_labels) == (None, 0.75)
    assert "| b | – | 1.0000 | 1.0000 | 0.7500 |" in results_md(comparison)


def test_a_query_that_loses_every_judgment_stays_and_has_nothing_relevant() -> None:
    test_set = make_test_set(labelled("q1", {"d": 2, "e": 1}), labelled("q2", {"d": 2}))
    assert without_pairs(test_set, [("q1", "d"), ("q1", "e")]).qrels.frame.rows() == [("q1", "d", 0), ("q2", "d", 2)]


def test_questions_without_an_answer_are_listed_with_the_top_scores_and_in_no_metric() -> None:
    test_set = make_test_set(labelled("q1", {"d": 1}), unanswerable={"q9": labelled("q9", {}, answerable=False)})
    rows = [("q1", "d", 1.0), ("q9", "d", 0.25), ("q9", "e", 0.125)]
    comparison = compare(test_set, a=rows, b=[("q1", "d", 1.0)])
    assert [run.top_scores for run in comparison.runs] == [{"q9": 0.25}, {"q9": None}]
    assert comparison.runs[0].mean("mrr") == 1.0
    assert comparison.warnings == []
    assert "| q9 | Text of q9? | 0.25 | – |" in results_md(comparison)


def test_other_strangers_are_still_warned_of() -> None:
    test_set = make_test_set(labelled("q1", {"d": 1}), unanswerable={"q9": labelled("q9", {}, answerable=False)})
    rows = [("q1", "d", 1.0), ("q8", "d", 1.0), ("q9", "d", 1.0)]
    assert compare(test_set, a=rows).warnings == ["a: query 'q8' of the run is not in the test set and is left out"]


@pytest.mark.parametrize(
    ("pooled", "judged", "word"),
    [
        ((True, True), (0.5, 1.0), "significant"),
        ((False, True), (0.5, 1.0), "cannot tell"),
        ((False, True), (0.96, 1.0), "significant"),  # not more than .05 below
        ((True, False), (0.5, 1.0), "significant"),  # the run outside the pool has more judged
        ((False, False), (1.0, 0.5), "cannot tell"),
    ],
)
def test_a_run_outside_the_pool_with_less_judged_decides_nothing(
    pooled: tuple[bool, bool], judged: tuple[float, float], word: str
) -> None:
    test_set, runs = found_by_label()
    runs["b"] = [(f"q{i:02}", f"n{i}", 1.0) for i in range(12)]
    verdict = compare(test_set, **runs).pairs[0].verdict
    held = held_against_pool(verdict, names=("a", "b"), pooled=pooled, judged=judged)
    assert held.word == word
    assert (held.taken_back is None) == (word == "significant")


def test_overlaps_are_aligned_with_the_queries() -> None:
    test_set = make_test_set(labelled("q2", {"d": 1}, overlap=0.5), labelled("q1", {"d": 1}))
    np.testing.assert_array_equal(test_set.overlaps, [np.nan, 0.5])


def test_marks_on_misses_become_a_share_with_its_interval() -> None:
    queries = [labelled(f"q{i}", {f"d{i}": 3}) for i in range(4)]
    people = {("q0", "x"): 0, ("q1", "x"): 1, ("q2", "x"): 3}
    test_set = make_test_set(*queries, level=2, people=people)
    comparison = compare(test_set, a=[(f"q{i}", "x", 1.0) for i in range(4)])
    # One of three: Clopper and Pearson's exact interval is .0084 to .9057.
    sentence = marked_sentence(comparison, comparison.runs[0])
    assert sentence is not None
    assert sentence.startswith("a: 1 of 3 marked first answers")
    assert "(33%; 95% interval 1% to 91%)" in sentence
    report = results_md(comparison)
    assert report.count("| does not |") == 2
    assert report.count("| answers it |") == 1
    assert report.count("| ☐ / ☐ |") == 1
    unmarked = compare(make_test_set(*queries), a=[("q1", "x", 1.0)])
    assert marked_sentence(unmarked, unmarked.runs[0]) is None


def test_a_run_outside_the_pool_wins_nothing_while_its_answers_are_unjudged() -> None:
    runs = {}
    # The winner b was not pooled, and only half of what it returns is judged; all of a's is.
    runs["a"] = [(f"q{i:02}", f"y{i}", 1.0) for i in range(12)]
    runs["b"] = [row for i in range(12) for row in ((f"q{i:02}", f"d{i}", 2.0), (f"q{i:02}", f"n{i}", 1.0))]
    queries = [labelled(f"q{i:02}", {f"d{i}": 3, f"y{i}": 0}) for i in range(12)]
    pooled = run_hash(run_of(runs["a"], "a"), [query.id for query in queries], 10)
    pools = [PoolRecord(depth=10, when="", runs={"a": pooled})]
    free = compare(make_test_set(*queries, level=2), **runs)
    assert (free.pairs[0].verdict.word, free.pairs[0].verdict.leader) == ("significant", "b")
    held = compare(make_test_set(*queries, level=2, pools=pools), **runs)
    assert [run.pooled for run in held.runs] == [True, False]
    assert held.pairs[0].verdict.word == "cannot tell"
    report = results_md(held)
    assert "b was not pooled and has fewer of its documents judged: judge its answers" in report
    assert "| b | no | 0.5000 |" in report
    both = run_hash(run_of(runs["b"], "b"), [query.id for query in queries], 10)
    pools = [PoolRecord(depth=10, when="", runs={"a": pooled, "b": both})]
    assert compare(make_test_set(*queries, level=2, pools=pools), **runs).pairs[0].verdict.leader == "b"
