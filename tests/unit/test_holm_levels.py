"""Holm's procedure over pairs is about what their verdicts test, and about nothing else."""

from __future__ import annotations

import pytest
from scipy import stats

from kbeval.evaluation.comparison import Comparison, Options, RunSource, compare_runs
from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.strata import deciding_strata
from kbeval.evaluation.test_set import TestSet
from kbeval.model import LabelledQuery
from plain_trec import qrels_of, run_of

DOCUMENTS = 60


def ranks(first: int, query: str, gold: str) -> list[tuple[str, str, float]]:
    """A list that has the gold at this rank."""
    documents = [f"wrong{place}" for place in range(1, first)] + [gold]
    return [(query, document, float(10 - place)) for place, document in enumerate(documents)]


def comparison(*, baseline: str | None = "B") -> Comparison:
    """A is B on the styles and far better on historical questions; C is better than B on some documents."""
    queries, runs = {}, {"A": [], "C": [], "B": []}
    for number in range(DOCUMENTS):
        gold = f"d{number:02}"
        for style in ("near", "far"):
            query = f"{gold}-{style}"
            queries[query] = LabelledQuery(query, "?", {gold: 1}, source="synthetic", style=style)
            c, b = (1, 4) if number < 7 else ((2, 1) if number < 9 else (1, 1))
            runs["A"] += ranks(b, query, gold)
            runs["C"] += ranks(c, query, gold)
            runs["B"] += ranks(b, query, gold)
        query = f"h{number:02}"
        queries[query] = LabelledQuery(query, "?", {gold: 1}, source="historical")
        for name, rank in (("A", 1), ("C", 4), ("B", 4)):
            runs[name] += ranks(rank, query, gold)
    rows = [(query, document, 1) for query, of in queries.items() for document in of.relevant]
    options = Options(metrics=[parse_metric("mrr")], primary=parse_metric("mrr"), baseline=baseline)
    sources = [RunSource(name, run_of(lines, name)) for name, lines in runs.items()]
    return compare_runs(TestSet(qrels=qrels_of(rows), labelled=queries), sources, options)


def test_questions_that_stand_beside_loosen_no_level() -> None:
    found = comparison()
    a, c = found.pairs
    # C against B by documents: seven times 1 - 1/4, twice 1/2 - 1, else 0.
    p = stats.ttest_1samp([0.75] * 7 + [-0.5] * 2 + [0.0] * 51, 0).pvalue
    assert c.verdict.overall.p == pytest.approx(p, rel=1e-9)
    assert 0.025 < p < 0.05
    # A differs on historical questions alone: beyond doubt over all questions, and not at all where verdicts are.
    assert a.cells["mrr"].p is not None
    assert a.cells["mrr"].p < 1e-10
    assert a.verdict.overall.p == 1.0
    # So .0426 is the smallest of two, and Holm asks .025 of it.
    assert c.level == 0.025
    assert c.verdict.word == "cannot tell"


def test_alone_the_same_pair_is_told_apart() -> None:
    found = comparison(baseline=None)
    assert len(found.pairs) == 3
    alone = compare_pair(found)
    assert alone.pairs[0].verdict.word == "on average"
    assert alone.pairs[0].level == 0.05


def compare_pair(found: Comparison) -> Comparison:
    frame = {run.name: run for run in found.runs}
    rows = {
        name: [
            (query, document, float(100 - place))
            for query, ranked in zip(found.test_set.queries, frame[name].ranked, strict=True)
            for place, document in enumerate(ranked)
        ]
        for name in ("C", "B")
    }
    sources = [RunSource(name, run_of(lines, name)) for name, lines in rows.items()]
    return compare_runs(found.test_set, sources, found.options)


def test_one_generated_style_decides_alone() -> None:
    # METHOD 3: messages and historical questions stand beside, and are never averaged into it.
    assert deciding_strata(["near", "message", "historical"]) == ("near",)
    assert deciding_strata(["far"]) == ("far",)
    assert deciding_strata(["message", "historical"]) == ("message", "historical")
