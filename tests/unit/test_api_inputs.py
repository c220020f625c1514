"""What the library takes, as a careless caller gives it: a right value, or one line that says what was expected."""

# ruff: noqa: E501 - a case and its message, a line each

from __future__ import annotations

import copy
import re
from collections import OrderedDict
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import fsum, log2
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kbeval
from kbeval.formats.ids import escape_id
from kbeval.inputs.frames import _NAMES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QRELS = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 2}, "q3": {"d4": 1}}
RUN = {"q1": {"d2": 2.0, "d1": 1.0}, "q2": {"d3": 0.5}}
# q1: rank 2, q2: rank 1, q3: not answered: (1/2 + 1 + 0) / 3
MRR = 0.5


def mrr(qrels: Any, run: Any, **options: Any) -> float:
    return kbeval.evaluate(qrels, run, "mrr", **options).means["mrr"]


def frame(nested: dict[str, dict[str, Any]], *names: str) -> dict[str, list[Any]]:
    rows = [(query, document, value) for query, found in nested.items() for document, value in found.items()]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


# --- objects made by hand ---


def test_a_run_made_by_hand_may_be_in_any_order() -> None:
    rows = {"query": ["q2", "q1", "q1"], "document": ["d3", "d1", "d2"], "score": [0.5, 1.0, 2.0]}
    for one in (pl.DataFrame(rows), pl.DataFrame(rows).lazy(), pd.DataFrame(rows)):
        assert mrr(QRELS, kbeval.Run("mine", one)) == MRR  # type: ignore[arg-type]
        assert [run.mean("mrr") for run in kbeval.compare(QRELS, kbeval.Run("mine", one)).runs] == [MRR]  # type: ignore[arg-type]


def test_judgments_made_by_hand_may_be_in_any_order() -> None:
    rows = {"query": ["q3", "q1", "q2", "q1"], "document": ["d4", "d2", "d3", "d1"], "grade": [1, 0, 2, 1]}
    assert mrr(kbeval.Qrels(pl.DataFrame(rows)), RUN) == MRR
    assert mrr(kbeval.Qrels(pl.DataFrame(rows).with_columns(pl.col("grade").cast(pl.UInt8))), RUN) == MRR
    # The ideal order of q: 3 then 1. Found: 1 then 3. (1 + 3 / log2 3) / (3 + 1 / log2 3)
    graded = kbeval.Qrels(pl.DataFrame({"query": ["q", "q"], "document": ["x", "y"], "grade": [1, 3]}))
    value = kbeval.evaluate(graded, {"q": ["x", "y"]}, "ndcg").means["ndcg"]
    assert value == pytest.approx((1 + 3 / log2(3)) / (3 + 1 / log2(3)), abs=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"score": [float("nan"), 1.0]}, "run mine: expected a finite score for 'q1' and 'd1', found nan"),
        ({"score": [None, 1.0]}, "run mine: expected a finite score for 'q1' and 'd1', found none"),
        ({"document": ["d1", "d1"]}, "run mine: expected each document once per query, found 'd1' twice for 'q1'"),
        ({"document": ["d1", None]}, "run mine: expected an id in every row of document, found an empty one"),
        ({"document": ["d1", ""]}, "run mine: expected an id in every row of document, found an empty one"),
        ({"document": [0.5, 1.5]}, "run mine: expected ids as text or whole numbers in document, found Float64"),
        ({"score": ["1", "2"]}, "run mine: expected numbers in score, found String"),
    ],
)
def test_a_run_made_by_hand_is_checked(changed: dict[str, list[Any]], message: str) -> None:
    rows = {"query": ["q1", "q1"], "document": ["d1", "d2"], "score": [2.0, 1.0], **changed}
    run = kbeval.Run("mine", pl.DataFrame(rows))
    for call in (lambda: kbeval.evaluate(QRELS, run), lambda: kbeval.compare(QRELS, [run])):
        with pytest.raises(kbeval.KbevalError) as caught:
            call()
        assert str(caught.value) == message


def test_a_run_from_a_file_is_not_trusted_once_its_frame_is_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.trec"
    path.write_text("q1 Q0 d2 1 2 t\nq1 Q0 d1 2 1 t\nq2 Q0 d3 1 1 t\n")
    run = kbeval.read_run(path)
    assert mrr(QRELS, run) == MRR
    with pytest.raises(kbeval.KbevalError, match="'d1' twice for 'q1'"):
        mrr(QRELS, replace(run, frame=pl.concat([run.frame, run.frame[1:2]])))
    assert mrr(QRELS, replace(run, frame=run.frame.reverse())) == MRR
    run.frame[0, "score"] = 0.5  # the caller's own copy, changed in place: d1 now stands first
    assert mrr(QRELS, run) == pytest.approx(2 / 3)


def test_what_the_caller_made_stays_as_it_was_and_is_checked_again() -> None:
    rows = pl.DataFrame({"query": ["q1", "q1", "q2"], "document": ["d2", "d1", "d3"], "score": [2.0, 1.0, 1.0]})
    run, judged = kbeval.Run("mine", rows), kbeval.Qrels(pl.DataFrame(frame(QRELS, "query", "document", "grade")))
    before = [copy.deepcopy(vars(each)) for each in (run, judged)]
    assert mrr(judged, run) == MRR
    assert kbeval.compare(judged, {"new": run}).runs[0].mean("mrr") == MRR
    for each, its in zip((run, judged), before, strict=True):
        assert {k: v for k, v in vars(each).items() if k != "frame"} == {k: v for k, v in its.items() if k != "frame"}
        assert each.frame.equals(its["frame"])
    rows[1, "document"] = "d2"
    with pytest.raises(kbeval.KbevalError, match="'d2' twice for 'q1'"):
        mrr(judged, run)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (kbeval.Run("mine", None), "run mine: expected a frame, found None"),  # type: ignore[arg-type]
        (kbeval.Run("", pl.DataFrame()), "the name of a run: expected ids, found an empty one"),
        (kbeval.Run("a\nb", pl.DataFrame()), "the name of a run: expected one line, found 'a\\nb'"),
        (kbeval.Run("mine", pl.DataFrame({"q": [1]})), "run mine: expected a column query"),
        (kbeval.Run("mine", pl.DataFrame(), warnings="oh"), "run mine: warnings: expected a tuple, found 'oh'"),  # type: ignore[arg-type]
    ],
)
def test_no_run_at_all(run: kbeval.Run, message: str) -> None:
    with pytest.raises(kbeval.KbevalError, match=re.escape(message)):
        kbeval.evaluate(QRELS, run)


# --- sidecars ---


def sidecar(path: Path, **facts: Any) -> None:
    engine = {"name": "mine", "type": "python"}
    known = {"engine": engine, "k": 10, "corpus_hash": "c", "queries_hash": "q", **facts}
    path.write_bytes(orjson.dumps(known))


def test_escaped_ids_are_decoded_wherever_a_run_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.trec"
    path.write_text(f"{escape_id('q 1')} Q0 {escape_id('100% sure')} 1 1 t\n")
    sidecar(tmp_path / "mine.json", escaped_ids=True)
    qrels = {"q 1": {"100% sure": 1}}
    assert mrr(qrels, path) == mrr(qrels, str(path)) == mrr(qrels, kbeval.read_run(path)) == 1.0
    assert kbeval.compare(qrels, [path]).runs[0].mean("mrr") == 1.0
    path.write_text("q%201 Q0 %61 1 2 t\nq%201 Q0 a 2 1 t\n")
    with pytest.raises(kbeval.KbevalError, match="found 'a' twice for 'q 1' once escaped ids are decoded"):
        mrr({"q 1": ["a"]}, path)


def test_an_engine_that_found_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.trec"
    path.write_text("")
    with pytest.raises(kbeval.KbevalError, match="expected a run of at least one line"):
        mrr(QRELS, path)
    sidecar(tmp_path / "mine.json", counts={"queries": 3, "answered": 0, "empty": 3})
    for run in (path, kbeval.read_run(path), {"q1": [], "q2": {}}):
        scores = kbeval.evaluate(QRELS, run, "mrr")  # type: ignore[arg-type]
        assert (scores.means, scores.missing) == ({"mrr": 0.0}, ("q1", "q2", "q3"))
        assert scores.warnings == ("it found nothing on any question",)
        found = kbeval.compare(QRELS, {"none": run, "mine": RUN}, metrics="mrr")  # type: ignore[dict-item]
        assert [run.mean("mrr") for run in found.runs] == [0.0, MRR]


# --- queries without a judgment ---


@pytest.mark.parametrize("nothing", [{}, [], (), set()])
def test_a_query_without_a_judgment_counts_with_0(nothing: Any) -> None:
    qrels = {"q2": nothing, "q1": {"d1": 1}, "q0": nothing}
    scores = kbeval.evaluate(qrels, {"q1": ["d1"], "q2": ["d1"]})
    assert scores.queries == ("q0", "q1", "q2")
    assert scores.without_relevant == ("q0", "q2")
    assert scores.values["mrr"].tolist() == [0.0, 1.0, 0.0]
    assert scores.means["mrr"] == scores.means["ndcg@10"] == pytest.approx(1 / 3)
    for metric in ("map", "bpref", "r-precision", "f1", "rbp.8", "judged@10", "recall@1", "precision@1"):
        values = kbeval.evaluate(qrels, {"q1": ["d1"], "q2": ["d1"]}, metric).values[metric]
        assert (values[0], values[2]) == (0.0, 0.0)
    found = kbeval.compare(qrels, {"a": {"q1": ["d1"]}, "b": {"q2": ["d1"]}})
    assert found.test_set.queries == ["q0", "q1", "q2"]
    assert [run.mean("mrr") for run in found.runs] == [pytest.approx(1 / 3), 0.0]
    # Another test set than the one without them.
    assert found.test_set.hash != kbeval.compare({"q1": {"d1": 1}}, [{"q1": ["d1"]}]).test_set.hash


def test_a_test_set_without_any_judgment_is_refused() -> None:
    with pytest.raises(kbeval.KbevalError, match="qrels: expected at least one judgment, found none"):
        mrr({"q1": {}, "q2": []}, RUN)


# --- what is accepted ---

INTEGERS = ({1: {11: 1, 12: 0}, 2: {13: 2}, 3: {14: 1}}, {1: {12: 2.0, 11: 1.0}, 2: {13: 0.5}})


@pytest.mark.parametrize(
    "qrels",
    [
        {"q1": ["d1"], "q2": ("d3",), "q3": {"d4"}},
        {"q1": np.array(["d1"]), "q2": pd.Series(["d3"]), "q3": pl.Series(["d4"])},
        {"q1": {"d1": True, "d2": False}, "q2": {"d3": np.int8(2)}, "q3": {"d4": 1.0}},
        {"q1": {"d1": Decimal(1)}, "q2": {"d3": Fraction(2)}, "q3": {"d4": np.float32(1)}},
        OrderedDict(QRELS),
        pl.DataFrame(frame(QRELS, "query_id", "doc_id", "relevance")).with_columns(iteration=pl.lit("0")),
        pl.DataFrame(frame(QRELS, "query-id", "corpus-id", "score")).lazy(),
        pl.DataFrame(frame(QRELS, "query", "document", "grade")).with_columns(pl.col("grade") > 0),
        pl.DataFrame(frame(QRELS, "Query", "Document", "Grade"), schema_overrides={"Query": pl.Categorical}),
        pd.DataFrame(frame(QRELS, "qid", "docno", "label")),
        pd.DataFrame(frame(QRELS, "qid", "docno", "label")).astype({"qid": "category", "label": "Int64"}),
        pd.DataFrame(frame(QRELS, "qid", "docno", "label")).astype({"label": object}).assign(score=0.3),
    ],
)
def test_forms_of_judgments(qrels: Any) -> None:
    assert mrr(qrels, RUN) == MRR


@pytest.mark.parametrize(
    "run",
    [
        {"q1": ("d2", "d1"), "q2": np.array(["d3"])},
        {"q1": pl.Series(["d2", "d1"]), "q2": pd.Series(["d3"], index=[7])},
        {"q1": dict.fromkeys(["d2", "d1"]).keys(), "q2": ["d3"]},
        {"q1": {"d2": Decimal("2.5"), "d1": Fraction(1, 3)}, "q2": {"d3": np.float16(1)}},
        {np.str_("q1"): {"d2": 2, "d1": 1}, "q2": {"d3": 10**300}},
        pl.DataFrame(frame(RUN, "query", "document", "score"), schema_overrides={"score": pl.Decimal(10, 2)}),
        pl.DataFrame(
            frame(RUN, "query", "document", "score"), schema_overrides={"document": pl.Enum(["d1", "d2", "d3"])}
        ),
        pl.DataFrame(frame(RUN, "q_id", "doc_id", "score")).lazy().filter(pl.col("score") > 0),
        # PyTerrier: the query's text and a number of the document stand beside their ids.
        pd.DataFrame(frame(RUN, "qid", "docno", "score")).assign(rank=[0, 1, 0], query="a text", docid=[5, 6, 7]),
        pd.DataFrame(frame(RUN, "qid", "docno", "score")).astype({"docno": "category", "score": "Float32"}),
    ],
)
def test_forms_of_a_run(run: Any) -> None:
    assert mrr(QRELS, run) == MRR


def test_the_documents_columns_are_those_that_are_taken(project_root: Path) -> None:
    text = (project_root / "docs" / "library.md").read_text()
    table = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    for column, lines in _NAMES.items():
        assert re.findall(r"`([^`]*)`", table[column]) == [name for names in lines for name in names]


def test_whole_numbers_are_ids() -> None:
    qrels, run = INTEGERS
    as_text = {str(q): {str(d): g for d, g in judged.items()} for q, judged in qrels.items()}
    forms: list[Any] = [
        run,
        {np.int32(1): [12, 11], "2": [np.uint64(13)]},
        pl.DataFrame(frame(run, "qid", "docno", "score")),  # type: ignore[arg-type]
        pd.DataFrame(frame(run, "qid", "docno", "score")),  # type: ignore[arg-type]
        pd.DataFrame(frame(run, "qid", "docno", "score")).astype({"qid": "Int64", "docno": str}),  # type: ignore[arg-type]
    ]
    for judgments in (qrels, as_text, pd.DataFrame(frame(qrels, "qid", "docno", "label"))):  # type: ignore[arg-type]
        for form in forms:
            assert mrr(judgments, form) == MRR


# --- what is refused ---


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        ({"q1": "d1"}, "qrels: expected {document: grade} or a list of relevant documents for query 'q1', found 'd1'"),
        ({"q1": None}, "for query 'q1', found None"),
        ({"q1": 1}, "for query 'q1', found 1"),
        ({"q1": {"d1": 2**31}}, "qrels: expected whole grades from -2147483647 to 2147483647, found 2147483648.0"),
        ({"q1": {"d1": 10**400}}, "qrels: expected a finite grade, found 1000"),
        ({"q1": {"d1": 10**5000}}, "qrels: expected a finite grade, found of type int"),
        ({"q1": {"d1": "1"}}, "qrels: expected a number as grade, found '1'"),
        ({"q1": {"d1": None}}, "qrels: expected a number as grade, found None"),
        ({"q1": {"d1": 1j}}, "qrels: expected a number as grade, found 1j"),
        ({"q1": {"d1": np.array([1, 2])}}, "qrels: expected a number as grade, found ndarray array([1, 2])"),
        ({"q1": {"\ud800": 1}}, "qrels: document: expected ids that UTF-8 can hold, found '\\ud800'"),
        ({"\udfff": {"d1": 1}}, "qrels: query: expected ids that UTF-8 can hold, found '\\udfff'"),
        ({"q1": {b"d1": 1}}, "qrels: document: expected ids as text or whole numbers of 64 bits, found bytes b'd1'"),
        ({True: {"d1": 1}}, "qrels: query: expected ids as text or whole numbers of 64 bits, found True"),
        ({2**64: {"d1": 1}}, "qrels: query: expected ids as text or whole numbers of 64 bits, found 18446744073709551616"),
        ({1: {"d1": 1}, "1": {"d2": 1}}, "qrels: expected each query once, found 1 and '1'"),
        ({"q1": {1: 1, "1": 2}}, "qrels: expected one grade for '1' in 'q1', found 1 and 2"),
        ([("q1", "d1", 1)], "qrels: expected a path, a dict or a frame, found list [('q1', 'd1', 1)]"),
        ("q1 0 d1 1\nq2 0 d2 1", "qrels: expected a path, a dict or a frame, found 'q1 0 d1 1\\nq2 0 d2 1'"),
        ("a\0b", "qrels: expected a path, a dict or a frame, found 'a\\x00b'"),
        ("x" * 5000, "expected a readable file, found file name too long"),
        (None, "qrels: expected a path, a dict or a frame, found None"),
        (pd.Series([1]), "qrels: expected a path, a dict or a frame, found Series"),
        (pd.DataFrame({"qid": ["q1"], "docno": ["d1"]}), "qrels: expected a column grade (or relevance, rel, label, score), found 'qid', 'docno'"),
        (pd.DataFrame({"qid": [1.0], "docno": ["d1"], "label": [1]}), "qrels: query: expected ids as text or whole numbers of 64 bits, found 1.0"),
        (pd.DataFrame({"qid": [None], "docno": ["d1"], "label": [1]}), "qrels: expected an id in every row of query, found an empty one"),
        (pd.DataFrame({"qid": ["q"], "docno": ["d1"], "label": [np.nan]}), "qrels: expected a finite grade in every row, found an empty one"),
        (pl.DataFrame({"qid": ["q"], "query_id": ["q"], "doc": ["d"], "rel": [1]}), "qrels: expected one column for the query, found 'qid', 'query_id'"),
        (pd.DataFrame([["q", "r", "d", 1]], columns=["qid", "qid", "docno", "rel"]), "qrels: expected one column for the query, found 'qid', 'qid'"),
        (pl.DataFrame({"qid": [["q"]], "doc": ["d"], "rel": [1]}), "qrels: expected ids as text or whole numbers in query, found List(String)"),
        (pl.DataFrame({"qid": [b"q"], "doc": ["d"], "rel": [1]}), "found Binary"),
        (pl.DataFrame({"qid": [None], "doc": ["d"], "rel": [1]}), "expected an id in every row of query"),
        (pl.DataFrame({"qid": ["q"], "doc": ["d"], "rel": [None]}), "expected a finite grade for 'q' and 'd', found none"),
        (pl.scan_csv("no/such/file.csv"), "qrels: expected a frame that can be computed, found "),
        (kbeval.Qrels(pl.DataFrame({"query": ["q"], "document": ["d"], "grade": [1]}), unjudged="q2"), "qrels: unjudged: expected a tuple, found 'q2'"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_judgments_that_are_refused(qrels: Any, message: str) -> None:
    refused(lambda: kbeval.evaluate(qrels, RUN, "mrr"), message)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"q1": 3}, "run run: expected {document: score} or a list of documents for query 'q1', found 3"),
        ({"q1": {"d1", "d2"}}, "for query 'q1', found set {"),
        ({"q1": iter(["d1"])}, "for query 'q1', found list_iterator"),
        ({"q1": [("d1", 0.5)]}, "run run: document: expected ids as text or whole numbers of 64 bits, found tuple ('d1', 0.5)"),
        ({"q1": pd.Series([3, 2], index=["d1", "d2"])}, "for query 'q1', found Series"),
        ({"q1": np.array([["d1"]])}, "for query 'q1', found ndarray"),
        ({"q1": {"d1": True}}, "run run: expected a number as score, found True"),
        ({"q1": {"d1": Decimal("sNaN")}}, "run run: expected a number as score, found Decimal('sNaN')"),
        ({"q1": {"d1": np.nan}}, "run run: expected a finite score for 'q1' and 'd1', found nan"),
        ({"q1": {1: 0.5, "1": 0.4}}, "run run: expected each document once per query, found '1' twice for 'q1'"),
        (["d1"], "run run: expected a path, a dict or a frame, found list ['d1']"),
        ([RUN], "run run: expected a path, a dict or a frame, found list"),
        (pl.DataFrame({"qid": ["q1"], "docno": ["d1"], "rank": [1]}), "run run: expected a column score, found 'qid', 'docno', 'rank'"),
        (pl.DataFrame({"qid": ["q1"], "docno": ["d1"], "score": [True]}), "run run: expected numbers in score, found Boolean"),
        (pl.DataFrame({"qid": [], "docno": [], "score": []}), "run run: expected at least one row, found none"),
    ],
)  # fmt: skip
def test_runs_that_are_refused(run: Any, message: str) -> None:
    refused(lambda: kbeval.evaluate(QRELS, run, "mrr"), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth: expected a whole number from 1 to 1000000000, found 0"),
        ({"depth": 10**30}, "depth: expected a whole number from 1 to"),
        ({"depth": 2.0}, "depth: expected a whole number from 1 to 1000000000, found 2.0"),
        ({"depth": True}, "found True"),
        ({"level": 0}, "level: expected a whole number from 1 to 2147483647, found 0"),
        ({"level": "2"}, "found '2'"),
        ({"level": None}, "found None"),
        ({"metrics": []}, "metrics: expected at least one, found none"),
        ({"metrics": ""}, "expected metrics separated by commas, found ''"),
        ({"metrics": 7}, "metrics: expected names of metrics, found 7"),
        ({"metrics": ["mrr", 7]}, "metrics: expected names of metrics, found 7"),
        ({"metrics": "mrr@0"}, "metric 'mrr@0': the cut-off must be a whole number from 1 to 999999999"),
        ({"metrics": replace(kbeval.parse_metric("mrr@5"), k=-1)}, "metric 'mrr@-1'"),
        ({"metrics": "a\nb"}, "unknown metric 'a\\nb'"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    refused(lambda: kbeval.evaluate(QRELS, RUN, **options), message)
    refused(lambda: kbeval.compare(QRELS, {"mine": RUN}, **options), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha: expected a number from 1e-06 to 0.5, found 0"),
        ({"alpha": 1}, "alpha: expected a number from 1e-06 to 0.5, found 1"),
        ({"alpha": "x"}, "expected a number as alpha, found 'x'"),
        ({"alpha": float("nan")}, "found nan"),
        ({"primary": 3}, "expected the name of a metric, found int"),
        ({"primary": "domain_accuracy@5"}, "primary metric: expected one that every question has a value for"),
        ({"baseline": "other"}, "baseline: expected one of mine, found 'other'"),
        ({"dataset": 7}, "dataset: expected a folder, found 7"),
        ({"dataset": "no/such/folder"}, "no/such/folder: expected a readable file, found no such file or directory"),
    ],
)
def test_options_of_compare_that_are_refused(options: dict[str, Any], message: str) -> None:
    refused(lambda: kbeval.compare(QRELS, {"mine": RUN}, **options), message)


def test_readers_refuse_what_is_no_path() -> None:
    refused(lambda: kbeval.read_run(7), "run: expected a path, found 7")  # type: ignore[arg-type]
    refused(lambda: kbeval.read_qrels(None), "qrels: expected a path, found None")  # type: ignore[arg-type]
    refused(lambda: kbeval.load_dataset({}), "dataset: expected a folder, found dict {}")  # type: ignore[arg-type]
    refused(lambda: kbeval.parse_metric(7), "expected the name of a metric, found int")  # type: ignore[arg-type]


def test_domains_are_checked() -> None:
    known = kbeval.Domains({"q1": "billing", "q2": None}, {"d2": "billing", "d3": "other"})
    # Only q1 has a domain, and a document of it is among its first two.
    assert kbeval.evaluate(QRELS, RUN, "domain_accuracy@2", domains=known).means == {"domain_accuracy@2": 1.0}
    refused(lambda: kbeval.evaluate(QRELS, RUN, "domain_accuracy@2"), "expected the domains of queries and documents")
    refused(lambda: kbeval.evaluate(QRELS, RUN, domains={"q1": "billing"}), "domains: expected Domains, found dict")  # type: ignore[arg-type]
    wrong: Any = kbeval.Domains({"q1": 7}, {})  # type: ignore[dict-item]
    refused(lambda: kbeval.evaluate(QRELS, RUN, domains=wrong), "domains: expected text or None as a domain, found 7")


def refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(kbeval.KbevalError) as caught:
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# --- the names of runs, and warnings ---


def test_how_runs_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bm25.trec"
    path.write_text("q1 Q0 d1 1 1 t\n")
    own = kbeval.Run("own", pl.DataFrame({"query": ["q1"], "document": ["d1"], "score": [1.0]}))
    for runs, names in (
        ([path, own, RUN, pl.DataFrame(frame(RUN, "qid", "docno", "score"))], ["bm25", "own", "run3", "run4"]),
        ((run for run in [RUN, RUN]), ["run1", "run2"]),
        (path, ["bm25"]),
        (str(path), ["bm25"]),
        (own, ["own"]),
        (pd.DataFrame(frame(RUN, "qid", "docno", "score")), ["run1"]),
        ({"new": own, "file": str(path), 3: RUN}, ["new", "file", "3"]),
    ):
        assert [run.name for run in kbeval.compare(QRELS, runs).runs] == names  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({1: RUN, "1": RUN}, "compare: expected a name of its own for each run, found 2 named '1'"),
        (RUN, "compare: expected runs by name, {name: run}, found a single run without a name"),
        ({"q1": ["d1"]}, "run q1: expected a path, a dict or a frame, found list ['d1']"),
        ({"": RUN}, "the name of a run: expected ids, found an empty one"),
        ({"mine": {"q1": 3}}, "found a single run without a name"),
        ({"mine": RUN, "x": {"q1": 3}}, "run x: expected {document: score} or a list of documents for query 'q1', found 3"),
        ([], "compare: expected at least one run, found none"),
        (7, "compare: expected runs by name or a list of runs, found 7"),
        ([7], "run run1: expected a path, a dict or a frame, found 7"),
        ({"mine": None}, "run mine: expected a path, a dict or a frame, found None"),
    ],
)  # fmt: skip
def test_runs_that_compare_refuses(runs: Any, message: str) -> None:
    refused(lambda: kbeval.compare(QRELS, runs), message)


def test_two_runs_of_one_name_are_refused() -> None:
    rows = pl.DataFrame({"query": ["q1"], "document": ["d1"], "score": [1.0]})
    runs = [kbeval.Run("mine", rows), kbeval.Run("mine", rows.with_columns(score=pl.lit(2.0)))]
    refused(lambda: kbeval.compare(QRELS, runs), "expected a name of its own for each run, found 2 named 'mine'")


def test_warnings_reach_the_caller(tmp_path: Path) -> None:
    qrels, run = tmp_path / "q.txt", tmp_path / "mine.trec"
    qrels.write_text("q1 0 d1 1\nq1 0 d1 1\n")
    run.write_text("q1 Q0 d2 2 2 t\nq1 Q0 d1 1 1 t\nq9 Q0 d1 1 1 t\n")
    repeated = "q.txt: 1 judgment is repeated, and counted once (first: document 'd1' of query 'q1', lines 1 and 2)"
    rank = "the rank contradicts the score on 1 line (first: query 'q1', line 2); the score decides"
    stranger = "query 'q9' of the run is not in the test set and is left out"
    assert kbeval.evaluate(qrels, run).warnings == (repeated, f"mine: {rank}", stranger)
    for source in (run, kbeval.read_run(run)):
        found = kbeval.compare(qrels, {"new": source})
        assert found.warnings == [repeated, f"new: {rank}", f"new: {stranger}"]
    assert kbeval.compare({"q1": ["d1", "d1"]}, [RUN]).warnings[0] == "qrels: 1 judgment is repeated, and counted once"


# --- what comes back ---


def test_what_a_notebook_shows() -> None:
    scores = kbeval.evaluate(QRELS, RUN)
    assert repr(scores).startswith("Scores on 3 queries: hit_rate@1 0.3333, ")
    assert scores._repr_html_().count("<tr>") == 1 + len(scores.means) == 15
    names = [f"<{number}>" for number in range(30)]
    found = kbeval.compare(QRELS, dict.fromkeys(names, RUN))
    assert found._repr_html_().count("<tr>") == 31
    assert "&lt;7&gt;" in found._repr_html_()
    assert "<7>" not in found._repr_html_()
    assert repr(kbeval.compare(QRELS, [RUN, RUN])).splitlines() == [
        "Comparison of 2 runs on 3 queries",
        "  run1: mrr 0.5000",
        "  run2: mrr 0.5000",
        "  run1 and run2: identical",
    ]


# --- any caller at all ---


def oracle(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> dict[str, float]:
    """mrr, recall@2 and ndcg@3 as METHOD defines them, in a few lines."""
    found: dict[str, list[float]] = {"mrr": [], "recall@2": [], "ndcg@3": []}
    for query, judged in qrels.items():
        by_rank = sorted(run.get(query, {}).items(), key=lambda pair: (pair[1], pair[0].encode()), reverse=True)
        grades = [max(judged.get(document, 0), 0) for document, _ in by_rank]
        ideal = sorted((max(grade, 0) for grade in judged.values()), reverse=True)
        relevant = sum(grade > 0 for grade in ideal)
        found["mrr"].append(next((1 / rank for rank, grade in enumerate(grades, 1) if grade), 0.0))
        found["recall@2"].append(sum(grade > 0 for grade in grades[:2]) / max(relevant, 1))
        gain, best = (sum(g / log2(rank + 1) for rank, g in enumerate(list_[:3], 1)) for list_ in (grades, ideal))
        found["ndcg@3"].append(gain / best if best else 0.0)
    return {name: fsum(values) / len(values) for name, values in found.items()}


def attempt(call: Callable[[], Any]) -> tuple[Any, str | None]:
    """What a call returns, and the message of the one error that it may raise."""
    try:
        return call(), None
    except kbeval.KbevalError as error:
        return None, str(error)


texts = st.sampled_from(["1", "2", "a", "b", "ä", "a b", "\U0001f600", "#", "%41"])
grades = st.integers(-1, 3)
scores = st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, -1e300, 1e-300])
right_qrels = st.dictionaries(texts, st.dictionaries(texts, grades, max_size=5), min_size=1, max_size=5)
right_runs = st.dictionaries(texts, st.dictionaries(texts, scores, max_size=5), min_size=1, max_size=5)


def in_some_form(draw: Any, nested: dict[str, dict[str, Any]], value: str) -> Any:
    """The same thing as a dict with other keys or order, a frame of any kind, or an object made by hand."""
    rows = draw(st.permutations([(q, d, v) for q, found in nested.items() for d, v in found.items()]))
    form = draw(st.sampled_from(["dict", "integers", "polars", "lazy", "pandas", "categorical", "object"]))
    if form == "dict" or not rows or any(not found for found in nested.values()):
        return nested
    if form == "integers":
        as_integer = {"1": 1, "2": 2}
        return {as_integer.get(q, q): {as_integer.get(d, d): v for d, v in f.items()} for q, f in nested.items()}
    names = draw(st.sampled_from([("qid", "docno"), ("query_id", "doc_id"), ("query", "document")]))
    columns = dict(zip((*names, value), map(list, zip(*rows, strict=True)), strict=True))
    if form in ("pandas", "categorical"):
        found = pd.DataFrame(columns)
        return found.astype(dict.fromkeys(names, "category")) if form == "categorical" else found
    if form == "object":
        made = pl.DataFrame(dict(zip(("query", "document", value), columns.values(), strict=True)))
        return kbeval.Qrels(made) if value == "grade" else kbeval.Run("mine", made)
    return pl.DataFrame(columns).lazy() if form == "lazy" else pl.DataFrame(columns)


@settings(max_examples=100)
@given(st.data(), right_qrels, right_runs)
def test_every_form_gives_the_right_value(data: st.DataObject, qrels: Any, run: Any) -> None:
    given_qrels = in_some_form(data.draw, qrels, "grade")
    given_run = in_some_form(data.draw, run, "score")
    before = [copy.deepcopy(each) for each in (given_qrels, given_run) if isinstance(each, dict)]
    found, error = attempt(lambda: kbeval.evaluate(given_qrels, given_run, ["mrr", "recall@2", "ndcg@3"]))
    judged = any(qrels.values())
    in_common = set(qrels) & {query for query, answer in run.items() if answer} or not any(run.values())
    assert (error is None) == bool(judged and in_common), error
    if error is not None:
        return
    assert before == [each for each in (given_qrels, given_run) if isinstance(each, dict)]
    assert dict(found.means) == pytest.approx(oracle(qrels, run), abs=1e-9)
    if any(grade > 0 for judged in qrels.values() for grade in judged.values()):
        compared = kbeval.compare(given_qrels, {"a": given_run, "b": given_run}, metrics="mrr,ndcg@3")
        assert compared.pairs[0].verdict.word == "identical"
        assert compared.runs[0].mean("ndcg@3") == pytest.approx(found.means["ndcg@3"], abs=1e-12)


odd_values = st.one_of(
    st.builds(lambda: -(10**5000)), st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=2),
    st.sampled_from([
        10**400, 1j, object(), Decimal("NaN"), np.nan, np.int64(3), np.str_("d"), np.array([1]), np.array(2),
        pd.NA, pd.NaT, pl.Series([1]), pd.Series(["d"]), "\ud800", "", "a\nb", "a\0", [], {}, (), frozenset(), range(3),
        pl.DataFrame(), pd.DataFrame(), pl.DataFrame({"qid": [1], "docno": [1], "score": [1]}), np.datetime64("2020-01-01"),
        pl.LazyFrame({"query": ["a"], "document": ["b"], "grade": [2**62]}), kbeval.Run("x", pl.DataFrame()), type, len,
    ]),
)  # fmt: skip
odd_keys = st.one_of(
    st.text(max_size=2), st.integers(-5, 5), st.booleans(), st.none(), st.floats(), st.binary(max_size=1)
)
odd_inputs = st.recursive(
    odd_values,
    lambda inner: st.one_of(
        st.dictionaries(odd_keys, inner, max_size=3),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(odd_inputs, odd_inputs, st.one_of(st.just("mrr"), odd_inputs), odd_values, odd_values, st.data())
def test_whatever_is_given_is_a_value_or_one_line(
    qrels: Any, run: Any, metrics: Any, level: Any, depth: Any, data: st.DataObject
) -> None:
    qrels = data.draw(st.sampled_from([qrels, QRELS]))
    run = data.draw(st.sampled_from([run, {"q1": run}, RUN]))
    level, depth = data.draw(st.sampled_from([(1, None), (level, None), (1, depth)]))
    calls: list[Callable[[], Any]] = [
        lambda: kbeval.evaluate(qrels, run, metrics, level=level, depth=depth),
        lambda: kbeval.compare(qrels, run, metrics=metrics, level=level, depth=depth),
        lambda: kbeval.compare(qrels, {"a": run, "b": RUN}, metrics=metrics, alpha=level, baseline=depth),
    ]
    found, error = attempt(data.draw(st.sampled_from(calls)))
    if error is not None:
        assert len(error.splitlines()) == 1
        assert len(error) < 1000
        return
    values = list(found.means.values()) if hasattr(found, "means") else [run.mean("mrr") for run in found.runs]
    assert all(0 <= value <= 1 for value in values)
