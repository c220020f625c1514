"""Exports by source, by chunk and as one table, read by the tools that people read them with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl
import pytest
from beir.datasets.data_loader import GenericDataLoader
from typer.testing import CliRunner

from kbeval.cli.app import app
from kbeval.corpus.chunking import text_hash
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from pathlib import Path

# Chunks of ten words, none shared: "refunds#0" and "refunds#1".
FIRST = "a cashier may give money back up to fifty pounds"
SECOND = "anything above that sum needs a manager and a passcode"
PAYOUTS = "card takings arrive on the bank account after two days"


def question(identifier: str, chunks: dict[str, str], documents: dict[str, int], **more: Any) -> dict[str, Any]:
    return {
        "id": identifier,
        "text": f"{identifier}: how much money?",
        "gold_chunks": chunks,
        "gold_documents": documents,
        "source": "authored",
        **more,
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    seed = tmp_path / "corpus" / "seed_docs"
    seed.mkdir(parents=True)
    (seed / "refunds.md").write_text(f"---\ntitle: Refunds\ndomain: money\n---\n{FIRST} {SECOND}\n")
    (seed / "payouts.md").write_text(f"---\ntitle: Payouts\n---\n{PAYOUTS}\n")
    questions = [
        question("near", {"refunds#0": text_hash(FIRST)}, {"refunds": 1}, style="near", domain="money"),
        # Written when this text was another chunk's.
        question("moved", {"refunds#7": text_hash(SECOND)}, {"refunds": 1}, source="synthetic"),
        question("whole", {}, {"payouts": 1}, source="historical"),
        question("none", {}, {}, answerable=False),
        question("open", {}, {}, source="historical"),
    ]
    cache = {"format": 1, "questions": questions}
    (tmp_path / "corpus" / "questions.cache.json").write_bytes(orjson.dumps(cache))
    (tmp_path / "kbeval.toml").write_text("[corpus]\nchunk_words = 10\nchunk_overlap = 0\n")
    return tmp_path


def export(project: Path, *arguments: object) -> str:
    result = CliRunner().invoke(app, ["export", "--config", str(project / "kbeval.toml"), *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def label(project: Path, query: str, document: str, grade: int, **more: Any) -> None:
    line = {"by": "ana", "chunk": None, "document": document, "grade": grade, "query": query, "source": "human", **more}
    with (project / "corpus" / "labels.jsonl").open("a") as stream:
        stream.write(json.dumps(line) + "\n")


def test_chunks_are_read_by_beirs_loader(project: Path, tmp_path: Path) -> None:
    said = export(project, "--granularity", "chunk", "--out", tmp_path / "out")
    corpus, queries, judgments = GenericDataLoader(str(tmp_path / "out")).load(split="test")
    assert {key: (value["title"], value["text"]) for key, value in corpus.items()} == {
        "refunds#0": ("Refunds", FIRST),
        "refunds#1": ("Refunds", SECOND),
        "payouts#0": ("Payouts", PAYOUTS),
    }
    assert judgments == {"near": {"refunds#0": 1}, "moved": {"refunds#1": 1}}
    assert queries == {"near": "near: how much money?", "moved": "moved: how much money?"}
    assert "1 questions are left out, as it is not known which chunk answers them: whole" in said
    assert "3 chunks, 2 questions, 2 judgments" in said


def test_chunks_carry_grades(project: Path, tmp_path: Path) -> None:
    # A person grades a document, a chunk, and one that was gold; a model disputes what was gold.
    label(project, "near", "payouts", 2)
    label(project, "near", "refunds", 1, chunk="refunds#1")
    label(project, "whole", "payouts", 2, chunk="payouts#0")
    label(project, "moved", "refunds", 0, chunk="refunds#1", source="llm", by="model")
    label(project, "moved", "payouts", 1, chunk="payouts#0", source="llm", by="model")
    export(project, "--granularity", "chunk", "--out", tmp_path / "out")
    judgments = GenericDataLoader(str(tmp_path / "out")).load(split="test")[2]
    # near: refunds has a person's 1 by its chunk, which its gold chunk takes from it; the document payouts says nothing
    # about its chunk. moved: the disputed 0 changes nothing, gold counts as 3.
    assert judgments == {
        "near": {"refunds#0": 1, "refunds#1": 1},
        "whole": {"payouts#0": 2},
        "moved": {"refunds#1": 3, "payouts#0": 1},
    }


def test_only_some_sources(project: Path, tmp_path: Path) -> None:
    export(project, "--source", "synthetic, historical", "--out", tmp_path / "out")
    judgments = GenericDataLoader(str(tmp_path / "out")).load(split="test")[2]
    assert judgments == {"moved": {"refunds": 1}, "whole": {"payouts": 1}}
    lines = [json.loads(line) for line in (tmp_path / "out" / "queries.jsonl").read_text().splitlines()]
    assert {line["_id"]: line["metadata"].get("left_out", False) for line in lines} == {
        "moved": False,
        "whole": False,
        "open": True,  # nobody has said what answers it
    }


EXPECTED = {
    "moved": ([1], ["refunds#1"], ["refunds"], "synthetic", None, None, True),
    "near": ([1], ["refunds#0"], ["refunds"], "authored", "near", "money", True),
    "none": ([], [], [], "authored", None, None, False),
    "whole": ([1], [], ["payouts"], "historical", None, None, True),
}


def rows(frame: Any) -> dict[str, Any]:
    return {
        row["id"]: (
            list(row["grades"]),
            list(row["relevant_chunk_ids"]),
            list(row["relevant_document_ids"]),
            row["source"],
            row["style"],
            row["domain"],
            row["answerable"],
        )
        for row in frame
    }


def test_parquet_is_read_by_polars_pandas_and_pyarrow(project: Path, tmp_path: Path) -> None:
    pandas, parquet = pytest.importorskip("pandas"), pytest.importorskip("pyarrow.parquet")
    said = export(project, "--format", "parquet", "--out", tmp_path / "set.parquet")
    assert "set.parquet" in said
    frame = pl.read_parquet(tmp_path / "set.parquet")
    assert rows(frame.to_dicts()) == EXPECTED
    assert rows(parquet.read_table(tmp_path / "set.parquet").to_pylist()) == EXPECTED
    read = pandas.read_parquet(tmp_path / "set.parquet", engine="pyarrow")
    assert rows(read.astype(object).where(read.notna(), None).to_dict("records")) == EXPECTED
    assert frame["query"].to_list()[0] == "moved: how much money?"
    assert frame["level"].unique().to_list() == [1]
    # near: "near", "much", "money": one of three is in its chunk.
    assert frame.filter(pl.col("id") == "near")["overlap"][0] == pytest.approx(1 / 3, abs=1e-4)


def test_json_goes_to_the_projects_corpus(project: Path) -> None:
    export(project, "--format", "json")
    data = json.loads((project / "corpus" / "testset.json").read_bytes())
    assert rows(data) == EXPECTED
    assert {"query", "relevant_chunk_ids", "domain", "source"} <= data[0].keys()
    before = (project / "corpus" / "testset.json").read_bytes()
    export(project, "--format", "json", "--out", project / "corpus")
    assert (project / "corpus" / "testset.json").read_bytes() == before


def test_a_table_holds_what_counts_as_relevant(project: Path) -> None:
    label(project, "near", "payouts", 1, chunk="payouts#0")
    label(project, "near", "refunds", 3, chunk="refunds#1")
    export(project, "--format", "json")
    data = {row["id"]: row for row in json.loads((project / "corpus" / "testset.json").read_bytes())}
    # Graded: the level is 2, so the chunk and the document with a 1 are in no list of what is relevant.
    assert data["near"]["relevant_chunk_ids"] == ["refunds#0", "refunds#1"]
    assert data["near"]["relevant_document_ids"] == ["refunds"]
    assert data["near"]["grades"] == [3]
    assert data["near"]["level"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--source", "historical"), "--source: expected --out DIR with it"),
        (("--granularity", "chunk"), "--granularity chunk: expected --out DIR with it"),
        (("--granularity", "chunk", "--format", "json"), "expected --format beir, as json holds chunks anyway"),
        (("--source", "judged", "--out", "x"), "expected one of authored, historical, synthetic, found no such"),
        (
            ("--source", "historical", "--granularity", "chunk", "--out", "x"),
            "expected questions with gold chunks, found documents alone",
        ),
    ],
)
def test_what_is_refused(project: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(KbevalError, match=message):
        export(project, *arguments)


def test_the_seed_corpus_by_chunk(project_root: Path, tmp_path: Path) -> None:
    export(project_root, "--granularity", "chunk", "--out", tmp_path)
    corpus, queries, judgments = GenericDataLoader(str(tmp_path)).load(split="test")
    cached = json.loads((project_root / "corpus" / "questions.cache.json").read_bytes())["questions"]
    gold = {each["id"]: set(each["gold_chunks"]) for each in cached if each["gold_chunks"]}
    assert {query: set(chunks) for query, chunks in judgments.items()} == gold
    assert set(queries) == set(gold)
    assert set().union(*gold.values()) <= set(corpus)
