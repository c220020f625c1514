"""Engine A over a real database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kbeval.engines.base import BuildContext
from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.errors import KbevalError
from kbeval.model import Document
from kbeval.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.store import Store

Context = Callable[..., BuildContext]

CORPUS = [
    Document(id="printers", title="Printers", text="Clear a paused queue, then print a test page."),
    Document(id="mail", title="Mail", text="Reset the password of a shared mailbox in the admin centre."),
    Document(id="vpn", title="VPN", text="Install the client and sign in with your password."),
    Document(id="leave", title="Annual leave", text="Ask your manager before you book a holiday."),
    Document(id="blank", title="", text=""),
]


@contextmanager
def built(context: BuildContext, **settings: object) -> Iterator[HybridEngine]:
    engine = HybridEngine.build(HybridSettings(**settings), context)
    try:
        yield engine
    finally:
        engine.close()


def documents(engine: HybridEngine, query: str, k: int = 20) -> list[str]:
    return [document for document, _ in engine.retrieve(query, k).hits]


def test_an_answer_and_its_stages(context: Context) -> None:
    with built(context(CORPUS)) as engine:
        answer = engine.retrieve("reset password", 3)

        assert answer.hits[0] == ("mail", 1.0)  # first in both legs
        assert len(answer.hits) == 3
        assert [score for _, score in answer.hits] == sorted((s for _, s in answer.hits), reverse=True)
        assert answer.stages["lexical"] == ["mail", "vpn"]
        # The vector leg ranks whatever has a vector, and the blank document has none.
        assert sorted(answer.stages["vector"]) == ["leave", "mail", "printers", "vpn"]
        assert [d for d, _ in answer.hits] == answer.stages["fusion"][:3]
        assert set(answer.seconds) == {"embed", "lexical", "vector", "fusion"}
        assert all(seconds >= 0 for seconds in answer.seconds.values())
        assert engine.counts() == {"documents": 5, "chunks": 5, "chunks_without_vector": 1}
        assert engine.deterministic
        assert engine.notes == ('It ran without a reranker (reranker = "none").',)
        assert engine.configuration()["candidates"] == 100
        json.dumps(engine.configuration())


def test_fusion_is_the_formula_over_the_legs(context: Context) -> None:
    with built(context(CORPUS), fusion_k=3) as engine:
        answer = engine.retrieve("reset password of the printer queue", 20)

    expected: dict[str, float] = {}
    for leg in ("lexical", "vector"):
        for rank, document in enumerate(answer.stages[leg], 1):  # one chunk a document here
            expected[document] = expected.get(document, 0) + 1 / (3 + rank) * 4 / 2
    assert dict(answer.hits) == pytest.approx(expected)


def test_each_leg_alone(context: Context) -> None:
    with built(context(CORPUS), legs="bm25") as engine:
        answer = engine.retrieve("reset password", 20)
        assert list(answer.stages) == ["lexical"]
        assert [d for d, _ in answer.hits] == ["mail", "vpn"]
        assert engine.counts() == {"documents": 5, "chunks": 5}
    with built(context(CORPUS), legs="vector") as engine:
        answer = engine.retrieve("reset password", 20)
        assert list(answer.stages) == ["vector"]
        assert len(answer.hits) == 4
        assert all(-1 <= score <= 1 for _, score in answer.hits)


@pytest.mark.parametrize("query", ["", "   ", "\n"])
def test_an_empty_query_finds_nothing(context: Context, query: str) -> None:
    with built(context(CORPUS)) as engine:
        answer = engine.retrieve(query, 20)
    assert answer.hits == []
    assert answer.stages == {"lexical": [], "vector": [], "fusion": []}


def test_a_query_that_shares_no_word_is_left_to_the_vectors(context: Context) -> None:
    with built(context(CORPUS)) as engine:
        answer = engine.retrieve("vacation?", 20)
    assert answer.stages["lexical"] == []
    assert answer.hits[0][0] == "leave"


def test_a_corpus_without_words(context: Context) -> None:
    with built(context([Document(id="1", text=""), Document(id="2", text=" \n")])) as engine:
        assert engine.retrieve("anything", 5).hits == []
        assert engine.counts() == {"documents": 2, "chunks": 2, "chunks_without_vector": 2}


def test_k_documents_are_returned_where_there_are_as_many(context: Context) -> None:
    # 40 chunks of one document match best; with 2 candidates a leg finds nothing else at first.
    long = Document(id="long", text="lamp " * 400)
    others = [Document(id=f"other {i}", text=f"a lamp among other words, number {i}") for i in range(6)]
    for legs in ("bm25", "vector", "bm25,vector"):
        with built(context([long, *others]), legs=legs, candidates=2, chunk_words=10, chunk_overlap=0) as engine:
            assert engine.counts()["chunks"] == 46
            answer = engine.retrieve("lamp", 5)
            assert len(answer.hits) == 5
            assert len({d for d, _ in answer.hits}) == 5
            assert answer.hits[0][0] == "long"
            assert len(engine.retrieve("lamp", 100).hits) == 7


def test_a_cut_after_fusion_is_kept(context: Context) -> None:
    with built(context(CORPUS), fusion_top_k=2, candidates=1) as engine:
        answer = engine.retrieve("password", 4)
    assert len(answer.hits) == 2
    assert len(answer.stages["fusion"]) == 2


def test_what_belongs_to_what_is_not_read_from_the_ids(context: Context) -> None:
    address = "https://example.test/" + "x" * 300 + "#part"
    corpus = [
        Document(id=address, text="first zebra second"),
        Document(id=address + "#0", text="unrelated"),
        Document(id="a", text="one two zebra"),
        Document(id="a#1", text="three"),
    ]
    with built(context(corpus), legs="bm25", chunk_words=2, chunk_overlap=0) as engine:
        assert sorted(documents(engine, "zebra")) == sorted([address, "a"])
        assert documents(engine, "unrelated") == [address + "#0"]
        assert documents(engine, "three") == ["a#1"]


def test_equal_scores_are_ordered_by_id(context: Context) -> None:
    corpus = [Document(id=name, text="the very same words") for name in ("b", "é", "a", "c", "B")]
    for legs in ("bm25", "vector", "bm25,vector"):
        with built(context(corpus), legs=legs) as engine:
            assert documents(engine, "same words") == ["é", "c", "b", "a", "B"]  # bytes, highest first


class Counting(Progress):
    def __init__(self) -> None:
        self.tasks: list[tuple[str, int | None]] = []
        self.advanced = 0

    @contextmanager
    def task(self, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        self.tasks.append((label, total))

        def advance(count: int) -> None:
            self.advanced += count

        yield advance


def test_engines_with_equal_chunks_share_a_table(context: Context) -> None:
    corpus = [Document(id=str(i), text=f"shared table number {i}") for i in range(300)]
    first, second, third = Counting(), Counting(), Counting()
    with (
        built(context(corpus, first)) as one,
        built(context(corpus, second), fusion_k=5, candidates=7) as two,
    ):
        assert first.tasks == [("chunks embedded and loaded", 300)]
        assert first.advanced == 300
        assert second.tasks == []
        assert two.counts() == one.counts()
        assert documents(one, "number 7")[0] == documents(two, "number 7")[0] == "7"
    with built(context(corpus, third), chunk_words=2, chunk_overlap=0):
        assert third.tasks == [("chunks embedded and loaded", 600)]


def test_a_database_that_fails_is_one_line(context: Context, store: Store) -> None:
    elsewhere = replace(store, schema="nowhere")
    broken = replace(context(CORPUS), store=lambda: elsewhere)
    with pytest.raises(KbevalError, match=r"^cannot load the chunks: .*nowhere") as raised, built(broken):
        pass
    assert "\n" not in str(raised.value)


def test_text_that_postgres_cannot_hold(context: Context) -> None:
    with built(context([Document(id="nul", text="before\0after lamp"), Document(id="x", text="y")])) as engine:
        assert documents(engine, "lamp")[0] == "nul"


def test_the_pipeline_is_the_engine(context: Context, store: Store) -> None:
    """What kbeval does step by step, ``Pipeline.run`` does as well, also from the serialised form."""
    from haystack import Pipeline

    with built(context(CORPUS)) as engine:
        text = engine.pipeline.dumps()
        loaded = Pipeline.loads(text, allowed_modules=["kbeval"])
        for query in ("reset password", "vacation?", "paused queue"):
            expected = engine.retrieve(query, 20)
            for pipeline in (engine.pipeline, loaded):
                output = pipeline.run({"lexical": {"query": query}, "embedder": {"text": query}})
                found = [(c.meta["document_id"], c.score) for c in output["fusion"]["documents"]]
                assert found == list(expected.hits)
        loaded.get_component("lexical").document_store.close()
        loaded.get_component("vector").document_store.close()
    assert store.dsn not in text
    assert "KBEVAL_STORE_DSN" in text
    assert "haystack_integrations.components.retrievers.pgvector" in text
    assert "haystack.components.joiners.document_joiner.DocumentJoiner" in text


def read_beir(folder: Path) -> tuple[list[Document], dict[str, str], dict[str, set[str]]]:
    def lines(name: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in (folder / name).read_text().splitlines()]

    corpus = [Document(id=d["_id"], title=d.get("title") or "", text=d["text"]) for d in lines("corpus.jsonl")]
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant.setdefault(query, set()).add(document)
    return corpus, {q["_id"]: q["text"] for q in lines("queries.jsonl")}, relevant


def test_quality_on_real_documentation(context: Context, shared_data: Path) -> None:
    """The embedded default reaches an MRR of .80 on docs-qa, and its lexical leg alone the known .85."""
    corpus, queries, relevant = read_beir(shared_data / "docs-qa")
    reciprocal_ranks: dict[str, float] = dict.fromkeys(("lexical", "vector", "fusion"), 0.0)
    with built(context(corpus)) as engine:
        for query, gold in relevant.items():
            answer = engine.retrieve(queries[query], 20)
            assert len(answer.hits) == 20
            for stage in reciprocal_ranks:
                ranks = [rank for rank, document in enumerate(answer.stages[stage], 1) if document in gold]
                reciprocal_ranks[stage] += 1 / ranks[0] / len(relevant) if ranks else 0
    assert len(relevant) == 100
    assert reciprocal_ranks["fusion"] >= 0.80
    assert reciprocal_ranks["lexical"] >= 0.85
    assert reciprocal_ranks["vector"] >= 0.65
