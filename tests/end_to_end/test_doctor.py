"""``kbeval doctor``: what it finds, and that it leaves everything as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval


@pytest.fixture
def files(kbeval: Kbeval) -> Kbeval:
    folder = kbeval.folder
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq3 0 d4 0\nd1 0 d1 1\n")
    (folder / "good.trec").write_text(
        "q1 Q0 d1 1 2.0 t\nq1 Q0 d9 2 1.0 t\nq2 Q0 d3 1 1.0 t\nq3 Q0 d4 1 1 t\nd1 Q0 d1 1 1 t\n"
    )
    (folder / "tied.trec").write_text("q1 Q0 d1 1 1.0 t\nq1 Q0 d2 2 1.0 t\nz9 Q0 d1 1 1.0 t\n")
    (folder / "twice.trec").write_text("q1 Q0 d1 1 2.0 t\nq1 Q0 d1 2 1.0 t\n")
    return kbeval


def test_what_it_finds(files: Kbeval) -> None:
    before = {path: path.read_bytes() for path in files.folder.iterdir()}
    result = files("doctor", "--qrels", "qrels.txt", "good.trec", "tied.trec", "twice.trec")
    assert result.code == 2
    assert {path: path.read_bytes() for path in files.folder.iterdir()} == before
    text = result.out
    assert "ok       4 queries, 5 judgments: 2 of grade 0, 2 of grade 1, 1 of grade 2" in text
    assert "warning  1 queries have no document of grade 1 or more, and count 0: 'q3'" in text
    assert "warning  1 query ids are document ids too, which some tools drop: 'd1'" in text
    assert "ok       4 queries, 5 lines, from 1 to 2 documents a query" in text
    # Of its five lines d9 alone is not judged. judged@10: 1/2 for q1 and 1 for the three others.
    assert "judged@10 0.8750; 20.0% of all lines name a document that nobody judged" in text
    assert "warning  3 judged queries are not in the run, and count 0: 'd1', 'q2', 'q3'" in text
    assert "warning  1 queries of the run are not judged, and are left out: 'z9'" in text
    # q1's tie straddles rank 1: its reciprocal rank is 1/2 (d2 first) or 1, over four queries.
    assert "1 queries hold equal scores" in text
    assert "across a cut-off: 1 at 1;" in text
    assert "MRR 0.1250 to 0.2500" in text
    assert "broken   twice.trec" in text
    assert "largest difference 0.0e+00" in text


def test_without_anything_broken_it_ends_with_0_also_as_json(files: Kbeval) -> None:
    result = files("doctor", "--qrels", "qrels.txt", "good.trec", "--format", "json")
    assert result.code == 0
    data = json.loads(result.out)
    assert [report["file"] for report in data["files"]] == ["qrels.txt", "good.trec"]
    assert {finding["mark"] for report in data["files"] for finding in report["findings"]} == {"ok", "warning"}


def test_without_pytrec_eval_it_says_so_and_goes_on(files: Kbeval) -> None:
    stub = files.folder / "stub"
    stub.mkdir()
    (stub / "pytrec_eval.py").write_text("raise ImportError('not here')\n")
    result = files(
        "doctor", "--qrels", "qrels.txt", "good.trec", PYTHONPATH=f"{stub}:{files.environment.get('PYTHONPATH', '')}"
    )
    assert result.code == 0
    assert "pip install 'kbeval[doctor]'" in result.out


def test_grades_that_pytrec_eval_would_count_through_for_minutes(files: Kbeval) -> None:
    (files.folder / "big.txt").write_text("q1 0 d1 100000000\nq1 0 d2 1\n")
    result = files("doctor", "--qrels", "big.txt", "good.trec", timeout=60)
    assert result.code == 0
    assert "grades up to 100000000" in result.out


def test_missing_judgments_are_a_finding_and_the_runs_are_still_looked_at(files: Kbeval) -> None:
    result = files("doctor", "--qrels", "nothing.txt", "good.trec")
    assert result.code == 2
    assert "broken   nothing.txt" in result.out
    assert "4 queries, 5 lines" in result.out


@pytest.mark.parametrize(
    ("qrels", "run"),
    [
        ("docs-qa/qrels/test.tsv", "docs-qa/runs/retrieve_base.run"),
        ("scifact/qrels/test.tsv", "scifact/runs/bm25.run.gz"),
        ("cranfield/qrels/test.tsv", "cranfield/runs/bm25.run.gz"),
        ("trec_eval/qrels.test", "trec_eval/results.test"),
    ],
)
def test_real_runs_agree_with_pytrec_eval(kbeval: Kbeval, shared_data: Path, qrels: str, run: str) -> None:
    result = kbeval("doctor", "--qrels", shared_data / qrels, shared_data / run, "--format", "json")
    assert result.code == 0, result.out
    texts = [finding["text"] for finding in json.loads(result.out)["files"][1]["findings"]]
    (opinion,) = [text for text in texts if text.startswith("pytrec_eval, 27 metrics")]
    assert float(opinion.rpartition(" ")[2]) <= 1e-9


@pytest.mark.parametrize(
    ("case", "mark", "text"),
    [
        ("01-ties-by-docid", "warning", "equal scores"),
        ("02-rank-contradicts-score", "warning", "rank"),
        ("03-query-missing-from-run", "warning", "not in the run"),
        ("05-query-without-relevant-docs", "warning", "no document of grade 1"),
        ("06-duplicate-doc-in-run", "broken", "d1"),
        ("07-duplicate-row-in-qrels", "broken", "d1"),
        ("20-query-id-equals-doc-id", "warning", "document ids too"),
        ("22-nan-inf-scores", "broken", "nan"),
        ("25-extra-or-missing-columns", "broken", "line 2"),
    ],
)
def test_awkward_inputs(kbeval: Kbeval, shared_data: Path, case: str, mark: str, text: str) -> None:
    folder = shared_data / "cases" / case
    result = kbeval("doctor", "--qrels", folder / "qrels.txt", folder / "run.txt", "--format", "json")
    assert result.code == (2 if mark == "broken" else 0)
    findings = [finding for report in json.loads(result.out)["files"] for finding in report["findings"]]
    assert any(finding["mark"] == mark and text.lower() in finding["text"].lower() for finding in findings), findings
