"""``kbeval doctor``: what it finds, and that it leaves everything as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval, Result, Within


@pytest.fixture
def files(within: Within) -> Within:
    folder = within.folder
    (folder / "qrels.txt").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq3 0 d4 0\nd1 0 d1 1\n")
    (folder / "good.trec").write_text(
        "q1 Q0 d1 1 2.0 t\nq1 Q0 d9 2 1.0 t\nq2 Q0 d3 1 1.0 t\nq3 Q0 d4 1 1 t\nd1 Q0 d1 1 1 t\n"
    )
    (folder / "tied.trec").write_text("q1 Q0 d1 1 1.0 t\nq1 Q0 d2 2 1.0 t\nz9 Q0 d1 1 1.0 t\n")
    (folder / "twice.trec").write_text("q1 Q0 d1 1 2.0 t\nq1 Q0 d1 2 1.0 t\n")
    return within


def test_what_it_finds(kbeval: Kbeval, files: Within) -> None:
    before = {path: path.read_bytes() for path in files.folder.iterdir()}
    result = kbeval("doctor", "--qrels", "qrels.txt", "good.trec", "tied.trec", "twice.trec")
    assert result.code == 2
    assert {path: path.read_bytes() for path in files.folder.iterdir()} == before
    text = result.out
    assert "ok       4 queries, 5 judgments: 2 of grade 0, 2 of grade 1, 1 of grade 2" in text
    assert "warning  1 query has no document of grade 1 or more, and count 0: 'q3'" in text
    assert "warning  1 query id is a document id too, which some tools drop: 'd1'" in text
    assert "ok       4 queries, 5 lines, from 1 to 2 documents a query" in text
    # Of its five lines d9 alone is not judged. judged@10: 1/2 for q1 and 1 for the three others.
    assert "judged@10 0.8750; of all lines on judged queries 20.0% name a document that nobody judged" in text
    assert "warning  3 judged queries are not in the run, and count 0: 'd1', 'q2', 'q3'" in text
    assert "warning  1 query of the run is not judged, and left out: 'z9'" in text
    # q1's tie straddles rank 1: its reciprocal rank is 1/2 (d2 first) or 1, over four queries.
    assert "1 query holds equal scores" in text
    assert "across a cut-off: 1 at 1;" in text
    assert "MRR 0.1250 to 0.2500" in text
    assert "broken   twice.trec" in text
    assert "largest difference 0.0e+00" in text


def checks(result: Result, file: int = -1) -> dict[str, dict[str, Any]]:
    """The findings about one file, by check."""
    return {finding["check"]: finding for finding in json.loads(result.out)["files"][file]["findings"]}


def test_json_holds_the_numbers_and_every_id(files: Within) -> None:
    found = checks(files("doctor", "--qrels", "qrels.txt", "tied.trec", "--format", "json"))
    assert found["size"]["values"] == {"queries": 2, "lines": 3, "shortest": 1, "longest": 2}
    assert found["missing"]["values"] == {"queries": ["d1", "q2", "q3"]}
    assert found["not judged"]["values"] == {"queries": ["z9"]}
    assert found["ties"]["values"]["straddling"] == {"1": 1, "3": 0, "5": 0, "10": 0, "20": 0, "100": 0}
    assert found["ties"]["values"]["ranges"]["mrr"] == [0.125, 0.25]
    own = checks(files("doctor", "--qrels", "qrels.txt", "good.trec", "--format", "json"))["own id"]
    assert own["values"] == {"queries": ["d1"]}


def test_another_number_of_pytrec_eval_is_named_and_ends_with_2(kbeval: Kbeval, files: Within) -> None:
    # Stands in for the real one: says .25 more than the truth on q2's success at 3, and the truth is 1.
    stub = files.folder / "stub"
    stub.mkdir()
    (stub / "pytrec_eval.py").write_text(
        "supported_measures = {'success'}\n"
        "class RelevanceEvaluator:\n"
        "    def __init__(self, judged, measures, relevance_level=1): self.measures = measures\n"
        "    def evaluate(self, run):\n"
        "        values = {name.replace('.', '_'): float('q3' not in run) for name in self.measures}\n"
        "        if 'q2' in run: values['success_3'] += 0.25\n"
        "        return {query: values for query in run}\n"
    )
    path = f"{stub}:{files.environment.get('PYTHONPATH', '')}"
    result = kbeval("doctor", "--qrels", "qrels.txt", "good.trec", PYTHONPATH=path)
    assert result.code == 2
    assert (
        "broken   pytrec_eval, 6 metrics on 4 queries: largest difference 2.5e-01, on hit_rate@3 of query 'q2'"
    ) in result.out


def test_the_level_is_the_projects_unless_asked_for(files: Within) -> None:
    (files.folder / "kbeval.toml").write_text("[test_set]\nlevel = 2\n")
    arguments = ("doctor", "--qrels", "qrels.txt", "good.trec", "--format", "json")
    assert checks(files(*arguments), 0)["without relevant"]["values"] == {"queries": ["d1", "q1", "q3"]}
    asked = files(*arguments, "--relevance-level", "1")
    assert checks(asked, 0)["without relevant"]["values"] == {"queries": ["q3"]}
    (files.folder / "kbeval.toml").rename(files.folder / "other.toml")
    named = files(*arguments, "--config", "other.toml")
    assert checks(named, 0)["without relevant"]["values"] == {"queries": ["d1", "q1", "q3"]}


def test_an_unreadable_sidecar_is_a_finding_and_the_run_is_still_looked_at(files: Within) -> None:
    (files.folder / "good.json").write_text("{broken")
    result = files("doctor", "--qrels", "qrels.txt", "good.trec", "--format", "json")
    assert result.code == 2
    found = checks(result)
    assert found["sidecar"]["mark"] == "broken"
    assert "good.json, line 1" in found["sidecar"]["text"]
    assert found["pytrec_eval"]["mark"] == "ok"


def sidecar(file: Path, **changes: object) -> None:
    facts = {"engine": {"name": "mine", "type": "python"}, "k": 20, "corpus_hash": "c", "queries_hash": "q"}
    file.write_text(json.dumps({**facts, **changes}))


def test_a_sidecar_that_says_otherwise(files: Within) -> None:
    sidecar(files.folder / "good.json", k=1, counts={"answered": 7})
    sidecar(files.folder / "tied.json", corpus_hash="other", errors={"q2": "timeout"})
    result = files("doctor", "--qrels", "qrels.txt", "good.trec", "tied.trec", "--format", "json")
    assert result.code == 0
    good, tied = checks(result, 1), checks(result, 2)
    assert good["sidecar k"]["values"] == {"longest": 2, "k": 1}
    assert good["sidecar answers"]["values"] == {"sidecar": 7, "file": 4}
    assert "provenance" not in good
    assert "expected the corpus of run good (c), found other" in tied["provenance"]["text"]
    # A query on which the engine failed is an error, and not missing too.
    assert tied["errors"]["values"] == {"queries": ["q2"]}
    assert tied["missing"]["values"] == {"queries": ["d1", "q3"]}


def test_escaped_ids_are_read_as_compare_reads_them(within: Within) -> None:
    (within.folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\trelease notes\t1\n")
    (within.folder / "r.trec").write_text("q1 Q0 release%20notes 1 1.0 t\n")
    sidecar(within.folder / "r.json", escaped_ids=True)
    found = checks(within("doctor", "--qrels", "qrels.tsv", "r.trec", "--format", "json"))
    assert found["judged"]["values"] == {"judged_at_10": 1.0, "unjudged": 0.0}


def test_an_engine_that_found_nothing_is_no_broken_file(files: Within) -> None:
    (files.folder / "none.trec").write_text("")
    assert files("doctor", "--qrels", "qrels.txt", "none.trec").code == 2
    sidecar(files.folder / "none.json", counts={"answered": 0, "empty": 4})
    result = files("doctor", "--qrels", "qrels.txt", "none.trec", "--format", "json")
    assert result.code == 0, result.out
    found = checks(result)
    assert found["empty"]["text"] == "it found nothing on any question"
    assert found["missing"]["values"] == {"queries": ["d1", "q1", "q2", "q3"]}
    assert found["judged"]["values"] == {"judged_at_10": 0, "unjudged": 0}
    assert found["pytrec_eval"]["values"]["largest"] == 0


def test_negative_grades_are_unjudged(within: Within) -> None:
    (within.folder / "qrels.txt").write_text("q1 0 d1 1\nq1 0 d2 -1\n")
    (within.folder / "r.trec").write_text("q1 Q0 d1 1 2 t\nq1 Q0 d2 2 1 t\n")
    result = within("doctor", "--qrels", "qrels.txt", "r.trec", "--format", "json")
    assert checks(result, 0)["negative"]["values"] == {"judgments": 1}
    assert checks(result)["judged"]["values"] == {"judged_at_10": 0.5, "unjudged": 0.5}


def test_nothing_in_common_is_broken(files: Within) -> None:
    (files.folder / "other.trec").write_text("z9 Q0 d1 1 1.0 x\n")
    result = files("doctor", "--qrels", "qrels.txt", "other.trec", "good.trec")
    assert result.code == 2
    assert "no query in common" in result.out
    assert "good.trec\n  ok       4 queries" in result.out


def test_with_a_data_set(within: Within, beir: Path) -> None:
    (within.folder / "qrels.txt").write_text("q1 0 d1 1\nq2 0 gone 1\n")
    (within.folder / "r.trec").write_text("q1 Q0 d1 1 2 t\nq2 Q0 made-up 1 1 t\nq2 Q0 d3 2 0.5 t\n")
    sidecar(within.folder / "r.json")
    result = within("doctor", "--qrels", "qrels.txt", "r.trec", "--dataset", beir, "--format", "json")
    assert result.code == 0
    data, judgments, run = (checks(result, place) for place in range(3))
    assert data["size"]["values"] == {"documents": 3, "queries": 2}
    assert judgments["corpus"]["values"] == {"documents": ["gone"]}
    assert run["corpus"]["values"] == {"documents": ["made-up"]}
    # Its corpus differs too; what is said last is about the questions.
    assert "expected the questions of the data set" in run["provenance"]["text"]
    (beir / "corpus.jsonl").write_text("nonsense\n")
    broken = within("doctor", "--qrels", "qrels.txt", "r.trec", "--dataset", beir)
    assert broken.code == 2
    assert "corpus.jsonl, line 1" in broken.out
    assert "r.trec\n  ok       2 queries, 3 lines" in broken.out


def test_without_anything_broken_it_ends_with_0_also_as_json(files: Within) -> None:
    result = files("doctor", "--qrels", "qrels.txt", "good.trec", "--format", "json")
    assert result.code == 0
    data = json.loads(result.out)
    assert [report["file"] for report in data["files"]] == ["qrels.txt", "good.trec"]
    assert {finding["mark"] for report in data["files"] for finding in report["findings"]} == {"ok", "warning"}


def test_without_pytrec_eval_it_says_so_and_goes_on(kbeval: Kbeval, files: Within) -> None:
    stub = files.folder / "stub"
    stub.mkdir()
    (stub / "pytrec_eval.py").write_text("raise ImportError('not here')\n")
    result = kbeval(
        "doctor", "--qrels", "qrels.txt", "good.trec", PYTHONPATH=f"{stub}:{files.environment.get('PYTHONPATH', '')}"
    )
    assert result.code == 0
    assert "pip install 'kbeval[doctor]'" in result.out


def test_grades_that_pytrec_eval_would_count_through_for_minutes(kbeval: Kbeval, files: Within) -> None:
    (files.folder / "big.txt").write_text("q1 0 d1 100000000\nq1 0 d2 1\n")
    result = kbeval("doctor", "--qrels", "big.txt", "good.trec", timeout=60)
    assert result.code == 0
    assert "grades up to 100000000" in result.out


def test_a_level_that_no_grade_reaches(files: Within) -> None:
    result = files("doctor", "--qrels", "qrels.txt", "good.trec", "--relevance-level", 10**9, "--format", "json")
    assert result.code == 0
    assert checks(result)["pytrec_eval"]["values"]["largest"] == 0


@pytest.mark.parametrize("level", [2**31 - 1, 10**11])
def test_a_level_at_which_pytrec_eval_would_crash_is_refused(files: Within, level: int) -> None:
    result = files("doctor", "--qrels", "qrels.txt", "good.trec", "--relevance-level", level)
    assert result.code == 2
    assert "'--relevance-level'" in result.err
    assert "1000000000" in result.err


def test_missing_judgments_are_a_finding_and_the_runs_are_still_looked_at(files: Within) -> None:
    result = files("doctor", "--qrels", "nothing.txt", "good.trec")
    assert result.code == 2
    assert "broken   nothing.txt" in result.out
    assert "4 queries, 5 lines" in result.out


@pytest.mark.parametrize(
    ("qrels", "run"),
    [
        ("docs-qa/qrels/test.tsv", "docs-qa/runs/retrieve_base.run"),
        ("docs-qa/qrels/test.tsv", "docs-qa/runs/retrieve_level_two.run"),
        ("docs-qa/qrels/test.tsv", "docs-qa/runs/retrieve_level_three.run"),
        ("scifact/qrels/test.tsv", "scifact/runs/bm25.run.gz"),
        ("cranfield/qrels/test.tsv", "cranfield/runs/bm25.run.gz"),
        ("trec_eval/qrels.test", "trec_eval/results.test"),
        ("trec_eval/qrels.rel_level", "trec_eval/results.test"),
    ],
)
def test_real_runs_agree_with_pytrec_eval(within: Within, shared_data: Path, qrels: str, run: str) -> None:
    result = within("doctor", "--qrels", shared_data / qrels, shared_data / run, "--format", "json")
    assert result.code == 0, result.out
    (opinion,) = [one for one in json.loads(result.out)["files"][1]["findings"] if one["check"] == "pytrec_eval"]
    assert opinion["values"]["metrics"] == 42
    assert opinion["values"]["largest"] <= 1e-9


@pytest.mark.parametrize(
    ("case", "mark", "text"),
    [
        ("01-ties-by-docid", "warning", "equal scores"),
        ("02-rank-contradicts-score", "warning", "rank"),
        ("03-query-missing-from-run", "warning", "not in the run"),
        ("05-query-without-relevant-docs", "warning", "no document of grade 1"),
        ("06-duplicate-doc-in-run", "broken", "d1"),
        ("07-duplicate-row-in-qrels", "broken", "d1"),
        ("09-negative-relevance", "ok", "2 judgments below 0"),
        ("20-query-id-equals-doc-id", "warning", "document id too"),
        ("22-nan-inf-scores", "broken", "nan"),
        ("25-extra-or-missing-columns", "broken", "line 2"),
    ],
)
def test_awkward_inputs(within: Within, shared_data: Path, case: str, mark: str, text: str) -> None:
    folder = shared_data / "cases" / case
    result = within("doctor", "--qrels", folder / "qrels.txt", folder / "run.txt", "--format", "json")
    assert result.code == (2 if mark == "broken" else 0)
    findings = [finding for report in json.loads(result.out)["files"] for finding in report["findings"]]
    assert any(finding["mark"] == mark and text.lower() in finding["text"].lower() for finding in findings), findings
