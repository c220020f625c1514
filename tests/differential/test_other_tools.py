"""What kbeval exports and runs is read unchanged by the field's other tools, and they agree with its numbers.

The real packages: trec_eval (as pytrec_eval), ir_measures, ir_datasets, and BEIR's own loader.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import ir_datasets
import ir_measures
import pytest
import pytrec_eval
from beir.datasets.data_loader import GenericDataLoader
from ir_datasets.datasets.beir import BeirQrels, BeirQueries
from ir_datasets.formats import TrecQrels
from ir_datasets.util import LocalDownload
from ir_measures import RR, P, R, Success, nDCG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENGINES = ("a", "b", "bm25")


@pytest.fixture(scope="module")
def results(project_root: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((project_root / "results" / "results.json").read_bytes())
    return loaded


@pytest.fixture(scope="module")
def per_query(project_root: Path) -> dict[str, Any]:
    lines = (project_root / "results" / "per_query.jsonl").read_text().splitlines()
    return {line["query_id"]: line for line in map(json.loads, lines)}


def trec_qrels(root: Path) -> dict[str, dict[str, int]]:
    with (root / "qrels" / "test.trec").open() as stream:
        judgments: dict[str, dict[str, int]] = pytrec_eval.parse_qrel(stream)
    return judgments


@pytest.mark.parametrize("engine", ENGINES)
def test_trec_eval_agrees_on_every_query(
    project_root: Path, per_query: dict[str, Any], results: dict[str, Any], engine: str
) -> None:
    judgments = trec_qrels(project_root)
    with (project_root / "runs" / f"{engine}.trec").open() as stream:
        run = pytrec_eval.parse_run(stream)
    names = {
        **{f"success_{k}": f"hit_rate@{k}" for k in (1, 3, 5, 10, 20)},
        **{f"recall_{k}": f"recall@{k}" for k in (1, 3, 5, 10, 20)},
        **{f"P_{k}": f"precision@{k}" for k in (5, 10)},
        "recip_rank": "mrr",
        "ndcg_cut_10": "ndcg@10",
    }
    theirs = pytrec_eval.RelevanceEvaluator(
        judgments,
        {"success.1,3,5,10,20", "recall.1,3,5,10,20", "P.5,10", "recip_rank", "ndcg_cut.10"},
    ).evaluate(run)
    assert set(per_query) == set(judgments)
    for query in judgments:
        ours = per_query[query]["runs"][engine]["metrics"]
        for their_name, our_name in names.items():
            expected = theirs.get(query, {}).get(their_name, 0.0)  # a query without a line scores 0
            assert ours[our_name] == pytest.approx(expected, abs=1e-9), (query, our_name)
    for their_name, our_name in names.items():
        mean = sum(theirs.get(query, {}).get(their_name, 0.0) for query in judgments) / len(judgments)
        assert results["runs"][engine]["metrics"][our_name] == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda root: list(ir_measures.read_trec_qrels(str(root / "qrels" / "test.trec"))), id="TREC"),
        pytest.param(
            lambda root: [
                ir_measures.Qrel(q.query_id, q.doc_id, q.relevance)
                for q in BeirQrels(LocalDownload(root / "qrels" / "test.tsv"), {}).qrels_iter()
            ],
            id="BEIR",
        ),
    ],
)
def test_ir_measures_agrees_in_the_mean(
    project_root: Path, results: dict[str, Any], engine: str, read: Callable[[Path], list[Any]]
) -> None:
    run = list(ir_measures.read_trec_run(str(project_root / "runs" / f"{engine}.trec")))
    theirs = ir_measures.calc_aggregate([Success @ 5, R @ 20, P @ 10, RR, nDCG @ 10], read(project_root), run)
    ours = results["runs"][engine]["metrics"]
    for measure, name in {
        Success @ 5: "hit_rate@5",
        R @ 20: "recall@20",
        P @ 10: "precision@10",
        RR: "mrr",
        nDCG @ 10: "ndcg@10",
    }.items():
        assert ours[name] == pytest.approx(theirs[measure], abs=1e-9), name


def test_beirs_loader_reads_the_plain_layout(project_root: Path, tmp_path: Path) -> None:
    from kbeval.cli.app import app

    app(
        ["export", "--config", str(project_root / "kbeval.toml"), "--out", str(tmp_path / "plain")],
        standalone_mode=False,
    )
    corpus, queries, judgments = GenericDataLoader(str(tmp_path / "plain")).load(split="test")
    assert judgments == trec_qrels(project_root)
    assert set(queries) == set(judgments)
    own = [json.loads(line) for line in (project_root / "corpus" / "corpus.jsonl").read_text().splitlines()]
    assert {key: (value["title"], value["text"]) for key, value in corpus.items()} == {
        line["_id"]: (line["title"], line["text"]) for line in own
    }


def test_ir_datasets_reads_the_qrels_and_the_queries(project_root: Path) -> None:
    expected = {(q, d, g) for q, documents in trec_qrels(project_root).items() for d, g in documents.items()}
    trec = TrecQrels(LocalDownload(project_root / "qrels" / "test.trec"), {1: "relevant"})
    beir = BeirQrels(LocalDownload(project_root / "qrels" / "test.tsv"), {1: "relevant"})
    for reader in (trec, beir):
        assert {(row.query_id, row.doc_id, row.relevance) for row in reader.qrels_iter()} == expected
    queries = BeirQueries(
        "kbeval", LocalDownload(project_root / "corpus" / "queries.jsonl"), ir_datasets.formats.GenericQuery
    )
    with (project_root / "corpus" / "questions.cache.json").open() as stream:
        cached = {entry["id"]: entry["text"] for entry in json.load(stream)["questions"]}
    assert {query.query_id: query.text for query in queries.queries_iter()} == cached
