"""Runs that were not asked everything, and where gold is lost: as a comparison and its reports say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kbeval.evaluation.comparison import Options, RunSource, compare_runs
from kbeval.evaluation.losses import Loss, fate_of, lost_gold
from kbeval.evaluation.metrics import parse_metric, parse_metrics
from kbeval.evaluation.test_set import TestSet
from kbeval.formats.sidecar import EngineFacts, Partial, Sidecar
from kbeval.report.markdown import results_md
from kbeval.report.page.explorer import explorer
from kbeval.report.page.losses import count_reasons
from kbeval.report.page.pictures import left_out, pictures
from kbeval.report.results_json import results
from kbeval.report.sections import differing_table, error_rows, exploratory_table, pairs_table, strata_table
from kbeval.report.terminal import as_terminal
from plain_trec import qrels_of, run_of

if TYPE_CHECKING:
    from kbeval.evaluation.comparison import Comparison

QUERIES = [f"q{number:02d}" for number in range(20)]
TEST_SET = TestSet(qrels=qrels_of([(query, "gold", 1) for query in QUERIES]))


def source(name: str, found: dict[str, list[str]], **facts: Any) -> RunSource:
    rows = [(q, d, 1.0 - place / 100) for q, documents in found.items() for place, d in enumerate(documents)]
    sidecar = Sidecar(engine=EngineFacts(name=name, type="x"), k=20, corpus_hash="c", queries_hash="q", **facts)
    return RunSource(name, run_of(rows, name), sidecar)


def compare(*sources: RunSource) -> Comparison:
    options = Options(metrics=parse_metrics("mrr,hit_rate@1"), primary=parse_metric("mrr"))
    return compare_runs(TEST_SET, sources, options)


def test_a_partial_run_neither_wins_nor_loses_and_is_compared_on_what_both_were_asked() -> None:
    # The sample was answered better than by the whole run, which yet leads over all questions: 20 x .5 against 8 x 1.
    asked = QUERIES[::3] + QUERIES[1:2]
    partial = source("partial", {q: ["gold"] for q in asked}, partial=Partial(of=20, queries=asked))
    whole = source("whole", {q: ["wrong", "gold"] for q in QUERIES})
    assert len(asked) == 8
    comparison = compare(partial, whole)
    run, pair = comparison.run("partial"), comparison.pairs[0]
    # METHOD: the mean is over all queries, and what is not there is missing.
    assert run.mean("mrr") == pytest.approx(8 / 20)
    assert len(run.missing) == 12
    assert (pair.verdict.word, pair.verdict.leader) == ("cannot tell", None)
    assert pair.asked_by_both is not None
    assert pair.asked_by_both.difference is not None
    assert pair.asked_by_both.difference.delta == pytest.approx(0.5)  # 1 against 1/2
    report = results_md(comparison)
    said = "No verdict on partial and whole: partial was asked 8 of 20 questions, and what is missing counts with 0."
    for text in (report, as_terminal(comparison).replace("\n  ", " ")):
        assert said in text
        assert "On the 8 that both were asked: MRR 1.000 against 0.500, difference +0.500" in text
        assert "(partial: 8 of 20 questions, seeded sample)" in text
    assert "| partial | partial | 8 | 1.0000 | 1.0000 |" in report
    assert "|  | whole | 8 | 0.5000 | 0.0000 |" in report
    # The page does not call it a loss of the engine's.
    data, why = explorer(comparison)
    bit = 1 << data["reasons"].index("not asked")
    assert data["runs"][0]["flags"] == [0 if q in asked else bit for q in QUERIES]
    assert count_reasons(why.flags[0])["not asked"] == 12
    assert left_out(comparison).startswith(
        "Runs that were not asked every question are in no picture but the last (partial)"
    )
    drawn = pictures(comparison)
    assert drawn
    assert not any(picture.name.startswith("difference") or "partial" in str(picture.svg) for picture in drawn)
    found = results(comparison)
    assert found["runs"]["partial"]["missing"] == 12
    assert found["runs"]["partial"]["asked"]["metrics"]["mrr"] == 1.0
    assert "asked" not in found["runs"]["whole"]
    primary = next(row for row in found["pairs"] if row["metric"] == "mrr")
    assert primary["delta"] == pytest.approx(8 / 20 - 0.5)  # of the means over all queries, as everywhere
    assert (primary["asked_by_both"]["queries"], primary["asked_by_both"]["delta"]) == (8, 0.5)


def test_samples_without_a_common_question() -> None:
    parts = [
        source(name, {q: ["gold"] for q in asked}, partial=Partial(of=20, queries=asked))
        for name, asked in (("one", QUERIES[:5]), ("other", QUERIES[5:9]))
    ]
    comparison = compare(*parts)
    assert "There is no question that both were asked." in results_md(comparison)
    assert comparison.pairs[0].verdict.word == "cannot tell"


def test_an_incomplete_run_gets_no_verdict_either_and_what_it_was_not_asked_is_an_error() -> None:
    reason = "the run ended after 3 questions in a row failed"
    failed = dict.fromkeys(QUERIES[9:12], "RuntimeError: dead")
    unasked = dict.fromkeys(QUERIES[12:], f"not asked: {reason}")
    ended = source("ended", {q: ["gold"] for q in QUERIES[:9]}, errors={**failed, **unasked}, incomplete=reason)
    comparison = compare(ended, source("whole", {q: ["wrong", "gold"] for q in QUERIES}))
    run, pair = comparison.run("ended"), comparison.pairs[0]
    assert (len(run.errors), run.missing, pair.verdict.word) == (11, [], "cannot tell")
    assert pair.asked_by_both is not None
    assert pair.asked_by_both.difference is not None
    # It failed on 3 of the 12 that it was asked, and those count with 0: 9 x .5 for it, 3 x .5 against.
    assert pair.asked_by_both.difference.delta == pytest.approx((9 * 0.5 - 3 * 0.5) / 12)
    assert f"incomplete: {reason}; 8 questions were not asked" in results_md(comparison)


def test_whole_runs_are_judged_as_before() -> None:
    comparison = compare(source("good", {q: ["gold"] for q in QUERIES}), source("bad", {q: ["wrong"] for q in QUERIES}))
    assert comparison.pairs[0].verdict.leader == "a"
    assert comparison.pairs[0].asked_by_both is None
    assert "asked" not in results(comparison)["runs"]["good"]


@pytest.mark.parametrize(
    ("ranks", "final", "fate"),
    [
        ({"lexical": 40, "vector": 2, "fusion": 12}, 10, "returned"),
        ({"lexical": None, "vector": None, "fusion": None}, None, "found by no leg"),
        ({"lexical": None, "vector": 3, "fusion": 14}, 14, "lost in fusion"),
        ({"lexical": None, "vector": 3, "fusion": None}, None, "lost in fusion"),
        ({"lexical": 30, "vector": 11, "fusion": 12}, 12, "below the cut"),
        ({"lexical": 1, "vector": 1, "fusion": 2, "rerank": 15}, 15, "lost by the reranker"),
        ({"lexical": 1, "vector": 50, "fusion": 13, "rerank": 15}, 15, "lost in fusion"),
        ({"lexical": 20, "vector": 50, "fusion": 13, "rerank": 15}, 15, "below the cut"),
        ({"vector": 4, "rerank": None}, None, "lost by the reranker"),
        ({"vector": 14}, 14, "below the cut"),
        ({"vector": None}, None, "found by no leg"),
        ({"request": 3}, 11, "not known"),
        ({}, None, "not known"),
    ],
)
def test_what_became_of_the_gold(ranks: dict[str, int | None], final: int | None, fate: str) -> None:
    assert fate_of(ranks, final, 10) == fate


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (
            Loss("q", "lost in fusion", {"lexical": None, "vector": 3, "fusion": 14}, 14),
            "found by vector at 3, lost in fusion (at 14)",
        ),
        (
            Loss("q", "lost by the reranker", {"lexical": 9, "vector": 3, "fusion": 1, "rerank": None}, None),
            "found by lexical at 9 and vector at 3 and fusion at 1, lost by the reranker (out of its list)",
        ),
    ],
)
def test_a_loss_in_words(loss: Loss, words: str) -> None:
    assert loss.in_words() == words


def test_the_report_counts_losses_by_stage_and_shows_the_worst() -> None:
    def filler(count: int) -> list[str]:
        return [f"d{n}" for n in range(count)]

    found = {
        "q00": ["gold"],
        "q01": [*filler(12), "gold"],
        "q02": [*filler(13), "gold"],
        "q03": filler(3),
        "q04": [*filler(14), "gold"],
    }
    ranks: dict[str, dict[str, int | None]] = {
        "q00": {"lexical": 1, "vector": 1, "fusion": 1},
        "q01": {"lexical": None, "vector": 5, "fusion": 13},
        "q02": {"lexical": 2, "vector": None, "fusion": 14},
        "q03": {"lexical": None, "vector": None, "fusion": None},
        "q04": {"lexical": 15, "vector": 15, "fusion": 15},
    }
    errors = dict.fromkeys(QUERIES[5:], "RuntimeError: no")
    comparison = compare(source("mine", found, gold_ranks=ranks, errors=errors))
    of = lost_gold(comparison, comparison.runs[0])
    assert of is not None
    assert of.cut == 10
    report = results_md(comparison)
    # returned q00; by no leg q03; in fusion q01 and q02; by the reranker none; below the cut q04; 15 failed.
    assert "| mine | 10 | 1 | 1 | 2 | 0 | 1 | 15 |" in report
    assert "mine, q02: found by lexical at 2, lost in fusion (at 14)." in report


def test_what_a_run_was_not_asked_counts_for_nobody_beside_the_means() -> None:
    # half: asked ten, has the gold first on all of them. other: fails on the first five, and has it second.
    half = source("half", {q: ["gold"] for q in QUERIES[:10]}, partial=Partial(of=20, queries=QUERIES[:10]))
    failed = dict.fromkeys(QUERIES[:5], "RuntimeError: dead")
    other = source("other", {q: ["wrong", "gold"] for q in QUERIES[5:]}, errors=failed)
    comparison = compare(half, other)
    (pair,) = comparison.pairs
    # Five questions are left that both were asked and neither failed on: 1 against 1/2 on each.
    assert pair.without_errors is not None
    assert (pair.without_errors.queries, pair.without_errors.delta) == (5, pytest.approx(0.5))
    assert "| half − other | 5 | +0.500 |" in results_md(comparison)
    # Wins on all ten that both were asked, none lost: of the other ten nothing can be said.
    rows = pairs_table(comparison).rows
    assert [(row[0], row[1], row[6]) for row in rows] == [("half − other", "asked of both", "10/0/0")]
    assert exploratory_table(comparison).rows == []
    for row in strata_table(comparison).rows:
        assert "; 10/0/0; " in row[6]
    differing = differing_table(comparison)
    assert differing is not None
    assert {row[0] for row in differing.rows} == set(QUERIES[:10])
    data, _ = explorer(comparison)
    assert data["runs"][0]["values"] == [1.0] * 10 + [None] * 10


def test_an_unasked_question_is_no_failure_of_the_engine() -> None:
    reason = "the run ended after 3 questions in a row failed"
    lines = {
        **dict.fromkeys(QUERIES[9:12], "RuntimeError: dead"),
        **dict.fromkeys(QUERIES[12:], f"not asked: {reason}"),
    }
    ended = source("ended", {q: ["gold"] for q in QUERIES[:9]}, errors=lines, incomplete=reason)
    comparison = compare(ended, source("whole", {q: ["gold"] for q in QUERIES}))
    assert error_rows(comparison) == [
        *(["ended", query, "RuntimeError: dead"] for query in QUERIES[9:12]),
        ["ended", "8 more", f"not asked: {reason}"],
    ]
    assert comparison.pairs[0].without_errors is not None
    assert comparison.pairs[0].without_errors.queries == 9
