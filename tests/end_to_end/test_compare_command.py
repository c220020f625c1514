"""``kbeval compare`` on runs from anywhere: formats, options, names."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import TYPE_CHECKING

import polars as pl
import pytest

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Kbeval, Within


@pytest.fixture
def runs(within: Within) -> Within:
    """Ten questions. Run a has every answer first; b has it second, but for q0; c answers q0 alone."""
    folder = within.folder
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d{i} {1 + i % 2}\n" for i in range(10)))
    (folder / "a.trec").write_text("".join(f"q{i} Q0 d{i} 1 2 a\nq{i} Q0 x 2 1 a\n" for i in range(10)))
    b = ["q0 Q0 d0 1 2 b\nq0 Q0 x 2 1 b\n", *(f"q{i} Q0 x 1 2 b\nq{i} Q0 d{i} 2 1 b\n" for i in range(1, 10))]
    (folder / "b.run").write_bytes(gzip.compress("".join(b).encode()))
    (folder / "c.txt").write_text("q0 Q0 d0 1 1 c\n")
    return within


ALL = ("a.trec", "b.run", "c.txt", "--qrels", "qrels.txt", "--metrics", "mrr,Success@1")


def test_json_is_the_results_file(kbeval: Kbeval, runs: Within) -> None:
    result = kbeval("compare", *ALL, "--format", "json")
    assert result.code == 0
    data = json.loads(result.out)
    assert data == json.loads((runs.folder / "results" / "results.json").read_bytes())
    means = {name: run["metrics"]["mrr"] for name, run in data["runs"].items()}
    assert means == {"a": 1.0, "b": 0.55, "c": 0.1}  # (1 + 9 / 2) / 10, and 1 / 10
    assert data["runs"]["c"]["missing"] == 9
    assert [(pair["a"], pair["b"], pair["metric"]) for pair in data["pairs"]] == [
        (a, b, metric) for a, b in (("a", "b"), ("a", "c"), ("b", "c")) for metric in ("mrr", "hit_rate@1")
    ]
    first = data["pairs"][0]
    assert set(first) == {
        *("a", "b", "metric", "delta", "ci95", "p_paired_t", "p", "p_adjusted", "effect_size"),
        *("wins", "ties", "losses", "clusters", "mdd"),
    }
    # Nine differences of .5 and one of 0: mean .45, sd .158114, so t = 9 with 9 degrees of freedom: p = 8.5e-06.
    assert first["delta"] == 0.45
    assert first["p"] == pytest.approx(8.538e-06, rel=1e-3)
    assert first["p_paired_t"] == pytest.approx(first["p"], rel=1e-5)  # every question is its own cluster here
    assert (first["wins"], first["ties"], first["losses"], first["clusters"]) == (9, 1, 0, 10)
    assert first["effect_size"] == pytest.approx(0.45 / 0.158113883, rel=1e-6)
    assert first["p_adjusted"] >= first["p"]
    assert data["pairs"][1]["p_adjusted"] is None
    assert [verdict["verdict"] for verdict in data["verdicts"]] == ["significant"] * 3


def test_the_other_formats(runs: Within) -> None:
    assert runs("compare", *ALL, "--format", "markdown").out == (runs.folder / "results" / "results.md").read_text()
    rows = list(csv.reader(io.StringIO(runs("compare", *ALL, "--format", "csv").out)))
    assert rows[0] == ["table", "All questions", "MRR", "Hit@1"]
    assert rows[1] == ["Every metric", "a", "1.0000", "1.0000"]
    assert ["Runs", "c", "10", "0", "9"] in rows
    assert ["Verdicts", "a", "b", "significant"] in [row[:4] for row in rows]
    assert not any(cell.startswith("'") for row in rows for cell in row)
    latex = runs("compare", *ALL, "--format", "latex").out
    assert "−" not in latex
    assert r"\begin{tabular}{lrr}" in latex
    assert r"a & 1.0000 & 1.0000 \\" in latex
    table = runs("compare", *ALL)
    assert "a finds the right document higher than b: MRR 1.000 against 0.550" in table.out


def test_a_baseline_is_the_b_of_every_pair(runs: Within) -> None:
    data = json.loads(runs("compare", *ALL, "--baseline", "b", "--format", "json").out)
    assert [(verdict["a"], verdict["b"]) for verdict in data["verdicts"]] == [("a", "b"), ("c", "b")]
    assert "expected one of a, b, c, found 'z'" in runs.refused("compare", *ALL, "--baseline", "z")


def test_depth_level_and_primary(runs: Within) -> None:
    data = json.loads(runs("compare", *ALL, "--depth", "1", "--format", "json").out)
    assert data["runs"]["b"]["metrics"]["mrr"] == 0.1
    data = json.loads(runs("compare", *ALL, "--relevance-level", "2", "--format", "json").out)
    assert data["test_set"]["level"] == 2
    assert data["runs"]["a"]["metrics"]["mrr"] == 0.5  # five of ten questions have a document of grade 2
    data = json.loads(runs("compare", *ALL, "--primary", "success_1", "--format", "json").out)
    assert data["test_set"]["primary"] == "hit_rate@1"
    assert [pair["metric"] for pair in data["pairs"] if pair["p_adjusted"] is not None] == ["hit_rate@1"] * 3


def test_names_of_equal_files_and_parquet(runs: Within) -> None:
    other = runs.folder / "other"
    other.mkdir()
    (other / "a.trec").write_bytes((runs.folder / "a.trec").read_bytes())
    result = runs(
        "compare", "a.trec", "other/a.trec", "--qrels", "qrels.txt", "--metrics", "RR", "--parquet", "v.parquet"
    )
    assert result.code == 0, result.err
    assert "here/a and other/a are identical in MRR" in result.out
    frame = pl.read_parquet(runs.folder / "v.parquet")
    assert frame.columns == ["query", "run", "metric", "value", "first_relevant_rank"]
    assert frame.height == 20


def test_runs_of_one_layout_are_named_by_as_many_folders_as_it_takes(runs: Within) -> None:
    for folder in ("x/runs", "y/runs"):
        (runs.folder / folder).mkdir(parents=True)
        (runs.folder / folder / "a.trec").write_bytes((runs.folder / "a.trec").read_bytes())
    result = runs("compare", "x/runs/a.trec", "y/runs/a.trec", "--qrels", "qrels.txt", "--metrics", "RR")
    assert "x/runs/a and y/runs/a are identical in MRR" in result.out


def test_ties_that_could_move_a_metric_without_a_cut_off_are_named(runs: Within) -> None:
    (runs.folder / "t.trec").write_text("q0 Q0 d0 1 1 t\nq0 Q0 z 2 1 t\nq1 Q0 d1 1 1 t\n")
    runs("compare", "t.trec", "--qrels", "qrels.txt", "--metrics", "RR")
    # Of ten questions q1 scores 1; q0 scores 1/2, as "z" is above "d0", and would score 1 the other way round.
    assert "any MRR from 0.1500 to 0.2000" in (runs.folder / "results" / "results.md").read_text()


def test_a_family_shows_what_holm_asks_for(runs: Within) -> None:
    # Three pairs: the smallest p is held against .05 / 3.
    assert "Holm asks for .017" in runs("compare", *ALL).out


@pytest.mark.parametrize(("a", "b"), [("text", "bad"), ("bad", "text")])
def test_the_check_of_a_verdict_is_seen_from_the_same_side_as_the_verdict(runs: Within, a: str, b: str) -> None:
    import orjson

    data = runs.folder / "data"
    (data / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{i}", "text": f"text {i}"} for i in range(24)]
    queries = [
        {"_id": f"q{i}", "text": f"question {i}", "metadata": {"style": style}}
        for i, style in enumerate(["near", "message"] * 12)
    ]
    for name, lines in (("corpus", documents), ("queries", queries)):
        (data / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    (data / "qrels" / "test.tsv").write_text("".join(f"q{i}\td{i}\t1\n" for i in range(24)))
    texts = {
        "text": "".join(f"q{i} Q0 d{i} 1 1 t\n" for i in range(24)),
        "bad": "".join(f"q{i} Q0 x{i} 1 2 t\nq{i} Q0 d{i} 2 1 t\n" for i in range(24)),
    }
    for name, text in texts.items():
        (runs.folder / f"{name}.trec").write_text(text)
    from kbeval.formats.dataset import corpus_hash, load_dataset, queries_hash
    from kbeval.formats.sidecar import EngineFacts, Sidecar, sidecar_bytes

    loaded = load_dataset(data)
    made = Sidecar(
        engine=EngineFacts(name="bad", type="keyword", reads_text=False),
        k=20,
        corpus_hash=corpus_hash(loaded.documents),
        queries_hash=queries_hash(loaded.queries),
    )
    (runs.folder / "bad.json").write_bytes(sidecar_bytes(made))
    out = " ".join(runs("compare", f"{a}.trec", f"{b}.trec", "--dataset", data).out.split())
    # text finds every answer first, bad second: the difference is 1/2 in either order of the two.
    assert "text finds the right document higher than bad" in out
    assert "do not point the other way (+0.500), so the verdict stands" in out


@pytest.mark.parametrize(
    ("metrics", "message"),
    [("nDCG", None), ("ndgc@10", "ndcg"), ("rbp", "persistence"), ("precision", "cut-off"), ("ndcg(rel=2)", "level")],
)
def test_metrics_by_any_name_or_a_refusal(runs: Within, metrics: str, message: str | None) -> None:
    arguments = ("compare", "a.trec", "--qrels", "qrels.txt", "--metrics", metrics)
    if message is None:
        assert runs(*arguments).code == 0
    else:
        assert message in runs.refused(*arguments)
