"""``kbeval evaluate`` from end to end, with a real PostgreSQL and real Haystack components."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval


def test_four_documents_through_every_engine(tiny: Kbeval) -> None:
    result = tiny("evaluate")
    assert result.code == 0, result.err
    root = tiny.folder
    results = json.loads((root / "results" / "results.json").read_bytes())
    assert set(results["runs"]) == {"a", "b", "bm25"}
    # "crimson" and "blink" are in no text, but "blink" is in the printer's description: B alone has a word of it,
    # and the vectors of A offer all four documents.
    lines = [json.loads(line) for line in (root / "results" / "per_query.jsonl").read_text().splitlines()]
    by_query = {line["query_id"]: line["runs"] for line in lines}
    assert by_query["q3"]["b"]["ranked"] == ["printer"]
    assert by_query["q3"]["bm25"]["ranked"] == []
    assert sorted(by_query["q3"]["a"]["ranked"]) == ["payouts", "printer", "refunds", "sign-in"]
    assert by_query["q1"]["bm25"]["first_relevant_rank"] == 1
    # q3 is the only question without an answer of bm25.
    assert results["runs"]["bm25"]["missing"] == 1
    assert results["runs"]["bm25"]["errored"] == 0
    assert results["test_set"]["strata"] == {"near": 2, "mid": 1, "far": 1}
    for name in ("corpus/corpus.jsonl", "corpus/queries.jsonl", "qrels/test.tsv", "qrels/test.trec"):
        assert (root / name).is_file()
    report = (root / "results" / "results.md").read_text()
    assert "port of a service that is not at hand" in report
    assert "without a reranker" in report
    assert "flatters the keyword engine" in report
    assert "p50" in result.out
    assert "p50" not in report
    assert "results/results.md" in result.out


def test_a_foreign_data_set_never_touches_the_projects_folders(tiny: Kbeval, beir: Path) -> None:
    result = tiny("evaluate", "--dataset", beir, "--engine", "bm25")
    assert result.code == 0, result.err
    assert not (tiny.folder / "runs").exists()
    assert not (tiny.folder / "results").exists()
    assert (tiny.folder / "out" / "beir" / "runs" / "bm25.trec").is_file()
    assert (tiny.folder / "out" / "beir" / "results" / "results.json").is_file()


def test_without_a_project_a_beir_folder_is_enough(kbeval: Kbeval, beir: Path) -> None:
    result = kbeval("evaluate", "--dataset", beir)
    assert result.code == 0, result.err
    assert (kbeval.folder / "out" / "beir" / "results" / "results.md").is_file()


def test_results_are_the_same_bytes_whatever_the_surroundings(tiny: Kbeval) -> None:
    one = {"PYTHONHASHSEED": "1", "NUMBA_NUM_THREADS": "1", "TZ": "Asia/Tokyo"}
    other = {"PYTHONHASHSEED": "2", "NUMBA_NUM_THREADS": "2", "TZ": "America/Lima", "LC_ALL": "C"}
    first = tiny("evaluate", "--out", tiny.folder / "x1", **one)
    deep = tiny.folder / "corpus" / "seed_docs"
    elsewhere = type(tiny)(deep)
    second = elsewhere("evaluate", "--out", tiny.folder / "x2", **other)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    for name in ("results.md", "results.json", "per_query.jsonl"):
        assert (tiny.folder / "x1" / "results" / name).read_bytes() == (
            tiny.folder / "x2" / "results" / name
        ).read_bytes()
    for name in ("a", "b", "bm25"):
        one, two = (tiny.folder / x / "runs" / f"{name}.trec" for x in ("x1", "x2"))
        assert one.read_bytes() == two.read_bytes()


def test_docs_qa(kbeval: Kbeval, shared_data: Path) -> None:
    result = kbeval("evaluate", "--dataset", shared_data / "docs-qa")
    assert result.code == 0, result.err
    results = json.loads((kbeval.folder / "out" / "docs-qa" / "results" / "results.json").read_bytes())
    assert results["runs"]["a"]["metrics"]["mrr"] >= 0.80
    assert "leg alone" in result.out


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_committed_baseline_is_what_comparing_the_committed_runs_gives(
    kbeval: Kbeval, project_root: Path, seed: str
) -> None:
    runs = [project_root / "runs" / f"{name}.trec" for name in ("a", "b", "bm25")]
    out = kbeval.folder / "results"
    result = kbeval(
        "compare", *runs, "--config", project_root / "kbeval.toml", "--out", out, PYTHONHASHSEED=seed, LC_ALL="C"
    )
    assert result.code == 0, result.err
    for name in ("results.md", "results.json", "per_query.jsonl"):
        assert (out / name).read_bytes() == (project_root / "results" / name).read_bytes(), name


def test_the_committed_export_is_what_export_writes(kbeval: Kbeval, project_root: Path) -> None:
    out = kbeval.folder / "export"
    result = kbeval("export", "--config", project_root / "kbeval.toml", "--out", out)
    assert result.code == 0, result.err
    for plain, own in {
        "corpus.jsonl": "corpus/corpus.jsonl",
        "queries.jsonl": "corpus/queries.jsonl",
        "qrels/test.tsv": "qrels/test.tsv",
        "qrels/test.trec": "qrels/test.trec",
    }.items():
        assert (out / plain).read_bytes() == (project_root / own).read_bytes()
