"""Inputs that people met in public, each with the right value from its README, and more of the same kind.

Where the value is a metric, what is tested here is what it rests on: rows and their order, or a refusal.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kbeval.errors import InputError, KbevalError
from kbeval.formats.beir import read_documents, read_queries
from kbeval.formats.dataset import load_dataset
from kbeval.formats.trec import read_qrels, read_run, unescape_id, write_run

if TYPE_CHECKING:
    from pathlib import Path

# case: the documents of each query of run.txt, in order
RANKINGS = {
    "01-ties-by-docid": {"q1": ["c", "b", "a"]},
    "02-rank-contradicts-score": {"q1": ["d2", "d3", "d1"]},
    "03-query-missing-from-run": {"q1": ["d1"], "q2": ["dx", "d2"], "q4": ["d4"]},
    "05-query-without-relevant-docs": {"q1": ["d1"], "q2": ["d2"]},
    "07-duplicate-row-in-qrels": {"q1": ["d2", "d1"]},
    "08-float-relevance": {"q1": ["d2", "d1", "d3"]},
    "09-negative-relevance": {"q1": ["d1", "d2", "d3", "d4"]},
    "11-tabs-and-mixed-whitespace": {"q1": ["d2", "d1"], "q2": ["d3"]},
    "13-utf8-bom": {"q1": ["d1"], "q2": ["d2"]},
    "15-qrels-tsv-header-absent": {"q1": ["d1"], "q2": ["d2"]},
    "16-integer-ids-in-json": {"7": ["3", "4"]},
    "19-qrels-query-not-in-queries": {"PLAIN-3": ["d1"]},
    "20-query-id-equals-doc-id": {"0": ["0", "1", "2", "3"]},
}

# file: the judgments, as a set
TWO = {("q1", "d1", 1), ("q2", "d2", 1)}
JUDGMENTS = {
    "01-ties-by-docid/qrels.txt": {("q1", "b", 1)},
    "02-rank-contradicts-score/qrels.txt": {("q1", "d1", 1)},
    "03-query-missing-from-run/qrels.txt": {
        ("q1", "d1", 1),
        ("q2", "d2", 1),
        ("q3", "d3", 1),
        ("q4", "d4", 1),
    },
    "05-query-without-relevant-docs/qrels.txt": {("q1", "d1", 1), ("q2", "d2", 0), ("q2", "d3", 0)},
    "06-duplicate-doc-in-run/qrels.txt": {("q1", "d1", 1), ("q1", "d2", 1)},
    "09-negative-relevance/qrels.txt": {("q1", "d1", -1), ("q1", "d2", 2), ("q1", "d3", -2), ("q1", "d4", 1)},
    "10-space-in-docid/qrels.tsv": {("q1", "Release notes v2.md", 1), ("q1", "faq.md", 0)},
    "11-tabs-and-mixed-whitespace/qrels.txt": {("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d3", 1)},
    "13-utf8-bom/qrels.txt": TWO,
    "13-utf8-bom/qrels.tsv": TWO,
    "15-qrels-tsv-header-absent/qrels.tsv": TWO,
    "15-qrels-tsv-header-absent/qrels-header-other-names.tsv": TWO,
    "15-qrels-tsv-header-absent/qrels-trec-in-tsv.tsv": TWO,
    "16-integer-ids-in-json/qrels.tsv": {("7", "3", 1)},
    "17-title-missing-null-empty-text/qrels.tsv": {("q1", "d4", 1)},
    "19-qrels-query-not-in-queries/qrels.tsv": {("PLAIN-2", "d1", 1), ("PLAIN-3", "d1", 1)},
    "20-query-id-equals-doc-id/qrels.txt": {("0", str(document), 1) for document in range(4)},
    "22-nan-inf-scores/qrels.txt": {("q1", "d1", 1), ("q2", "d1", 1), ("q3", "d1", 1)},
}

# file: the line that is refused, and what the message must name
REFUSED = {
    "06-duplicate-doc-in-run/run.txt": (3, ["q1", "d1", "line 1"]),
    "07-duplicate-row-in-qrels/qrels.txt": (2, ["q1", "d1", "line 1"]),
    "08-float-relevance/qrels.txt": (1, ["1.9"]),
    "08-float-relevance/qrels.tsv": (2, ["1.9"]),
    "10-space-in-docid/run.txt": (1, ["notes"]),
    "10-space-in-docid/qrels.txt": (1, ["4 columns", "6 columns"]),
    "22-nan-inf-scores/run.txt": (1, ["nan", "q1"]),
    "25-extra-or-missing-columns/run.txt": (2, ["6 columns", "5 columns"]),
    "25-extra-or-missing-columns/qrels.txt": (2, ["4 columns", "3 columns"]),
}


def test_every_case_is_tested(shared_data: Path) -> None:
    tested = {*RANKINGS, *(file.split("/")[0] for file in (*JUDGMENTS, *REFUSED))}
    assert tested == {folder.name for folder in (shared_data / "cases").iterdir()}
    assert len(tested) == 18


def ranking(frame: pl.DataFrame) -> dict[str, list[str]]:
    return {query: rows["document"].to_list() for (query,), rows in frame.group_by("query", maintain_order=True)}


@pytest.mark.parametrize("case", RANKINGS)
def test_the_run_has_its_right_order(shared_data: Path, case: str) -> None:
    run = read_run(shared_data / "cases" / case / "run.txt")
    assert ranking(run.frame) == RANKINGS[case]
    assert len(run.warnings) == (1 if case == "02-rank-contradicts-score" else 0)


@pytest.mark.parametrize("case", RANKINGS)
def test_the_order_of_the_lines_changes_nothing(shared_data: Path, tmp_path: Path, case: str) -> None:
    lines = (shared_data / "cases" / case / "run.txt").read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    (tmp_path / "run.txt").write_bytes(b"\n".join(reversed(lines)))
    assert ranking(read_run(tmp_path / "run.txt").frame) == RANKINGS[case]


@pytest.mark.parametrize("name", JUDGMENTS)
def test_the_judgments_are_right(shared_data: Path, name: str) -> None:
    qrels = read_qrels(shared_data / "cases" / name)
    assert set(qrels.frame.rows()) == JUDGMENTS[name]
    assert len(qrels.frame) == len(JUDGMENTS[name])
    assert qrels.warnings == ()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_exactly_is_refused(shared_data: Path, name: str) -> None:
    line, named = REFUSED[name]
    file = shared_data / "cases" / name
    with pytest.raises(InputError) as raised:
        read_run(file) if "run" in file.name else read_qrels(file)
    assert raised.value.line == line
    assert str(raised.value).startswith(f"{file}, line {line}: expected ")
    assert [word for word in named if word not in str(raised.value)] == []


def test_02_the_warning_names_query_and_line(shared_data: Path) -> None:
    [warning] = read_run(shared_data / "cases/02-rank-contradicts-score/run.txt").warnings
    assert "query 'q1', line 1" in warning


def test_07_an_identical_repeat_is_a_warning_and_counted_once(shared_data: Path, tmp_path: Path) -> None:
    lines = (shared_data / "cases/07-duplicate-row-in-qrels/qrels.txt").read_text().splitlines()
    (tmp_path / "qrels.txt").write_text("\n".join([lines[0], lines[0], lines[2]]))
    qrels = read_qrels(tmp_path / "qrels.txt")
    assert set(qrels.frame.rows()) == {("q1", "d1", 1), ("q1", "d2", 1)}
    assert len(qrels.frame) == 2
    assert len(qrels.warnings) == 1


def test_08_a_whole_decimal_grade_is_read(shared_data: Path, tmp_path: Path) -> None:
    last = (shared_data / "cases/08-float-relevance/qrels.txt").read_text().splitlines()[-1]
    (tmp_path / "qrels.txt").write_text(last)
    assert read_qrels(tmp_path / "qrels.txt").frame.rows() == [("q1", "d3", 1)]


def test_10_writing_such_an_id_is_refused_or_escaped_and_reads_back(shared_data: Path, tmp_path: Path) -> None:
    qrels = read_qrels(shared_data / "cases/10-space-in-docid/qrels.tsv").frame
    run = qrels.select("query", "document", score=pl.Series([2.5, 1.5]))
    with pytest.raises(KbevalError, match=r"Release notes v2\.md"):
        write_run(tmp_path / "run.txt", run, "t")
    assert not (tmp_path / "run.txt").exists()
    write_run(tmp_path / "run.txt", run, "t", escape_ids=True)
    documents = read_run(tmp_path / "run.txt").frame["document"]
    assert [unescape_id(document) for document in documents] == ["Release notes v2.md", "faq.md"]


def test_13_a_mark_on_one_side_only_loses_no_query(shared_data: Path) -> None:
    case = shared_data / "cases/13-utf8-bom"
    with_mark, without = read_run(case / "run.txt"), read_run(case / "run-without-bom.txt")
    assert with_mark.frame.equals(without.frame)
    assert set(read_qrels(case / "qrels.txt").frame["query"]) == set(without.frame["query"])
    assert [document.id for document in read_documents(case / "corpus.jsonl")] == ["d1", "d2"]
    assert [query.id for query in read_queries(case / "queries.jsonl")] == ["q1", "q2"]


def test_16_numbers_as_ids_meet_strings(shared_data: Path) -> None:
    case = shared_data / "cases/16-integer-ids-in-json"
    [judgment] = read_qrels(case / "qrels.tsv").frame.rows()
    assert judgment[0] in {query.id for query in read_queries(case / "queries.jsonl")}
    assert judgment[1] in {document.id for document in read_documents(case / "corpus.jsonl")}


def test_17_no_title_is_an_empty_title(shared_data: Path) -> None:
    documents = read_documents(shared_data / "cases/17-title-missing-null-empty-text/corpus.jsonl")
    assert [(document.id, document.title, document.text) for document in documents] == [
        ("d1", "", "no title key"),
        ("d2", "", "null title"),
        ("d3", "", ""),
        ("d4", "only a title", ""),
    ]


def as_dataset(case: Path, folder: Path) -> Path:
    (folder / "qrels").mkdir()
    shutil.copy(case / "corpus.jsonl", folder)
    shutil.copy(case / "queries.jsonl", folder)
    shutil.copy(case / "qrels.tsv", folder / "qrels" / "test.tsv")
    return folder


def test_19_a_query_without_text_is_named_and_stays_judged(shared_data: Path, tmp_path: Path) -> None:
    dataset = load_dataset(as_dataset(shared_data / "cases/19-qrels-query-not-in-queries", tmp_path))
    [warning] = dataset.warnings
    assert "'PLAIN-2'" in warning
    assert [query.id for query in dataset.queries] == ["PLAIN-3"]
    assert dataset.qrels.frame["query"].to_list() == ["PLAIN-2", "PLAIN-3"]


@pytest.mark.parametrize("case", ["13-utf8-bom", "16-integer-ids-in-json", "17-title-missing-null-empty-text"])
def test_the_other_data_sets_load_without_a_warning(shared_data: Path, tmp_path: Path, case: str) -> None:
    assert load_dataset(as_dataset(shared_data / "cases" / case, tmp_path)).warnings == ()


def test_22_infinity_is_refused_on_either_side(shared_data: Path, tmp_path: Path) -> None:
    lines = (shared_data / "cases/22-nan-inf-scores/run.txt").read_text().splitlines()
    for number in (3, 6):
        (tmp_path / "run.txt").write_text("\n".join([lines[1], lines[number - 1]]))
        with pytest.raises(InputError, match=r"line 2: .*inf"):
            read_run(tmp_path / "run.txt")
    (tmp_path / "run.txt").write_text(lines[4])
    assert read_run(tmp_path / "run.txt").frame.rows() == [("q3", "d1", -0.035)]


def test_25_the_rest_of_a_line_is_its_tag(shared_data: Path, tmp_path: Path) -> None:
    first = (shared_data / "cases/25-extra-or-missing-columns/run.txt").read_text().splitlines()[0]
    (tmp_path / "run.txt").write_text(first)
    assert read_run(tmp_path / "run.txt").frame.rows() == [("q1", "d1", 2.0)]


# --- trec_eval's own inputs


def test_trec_evals_inputs_are_read(shared_data: Path) -> None:
    folder = shared_data / "trec_eval"
    plain = read_qrels(folder / "qrels.test")
    commented = read_qrels(folder / "qrels.test.with-comments").frame
    # Counted by: grep -vc '^#' qrels.test; a document there has a "#" put into its id.
    assert len(plain.frame) == len(commented) == 3681
    assert commented["document"].str.contains("#", literal=True).sum() == 1
    whole, cut = read_run(folder / "results.test"), read_run(folder / "results.trunc")
    assert (len(whole.frame), len(cut.frame)) == (1500, 584)
    assert cut.frame.join(whole.frame, on=["query", "document", "score"], how="anti").is_empty()
