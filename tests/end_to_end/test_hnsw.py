"""Approximate search over a real database, and what it is said to lose."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scripted_server import Reply, ScriptedServer

from kbeval.engines.components.embedders import wordllama_vector
from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.errors import KbevalError
from kbeval.model import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kbeval.engines.base import BuildContext
    from kbeval.store import Store

WORDS = "lamp queue mail leave river stone paper cloud engine garden winter market signal copper".split()  # noqa: SIM905
RANDOM = random.Random(5)
CORPUS = [Document(id=f"d{i:03d}", text=" ".join(RANDOM.choices(WORDS, k=6)) + f" {i}") for i in range(400)]
QUESTIONS = [" ".join(RANDOM.choices(WORDS, k=3)) for _ in range(12)]


@contextmanager
def built(context: BuildContext, **settings: object) -> Iterator[HybridEngine]:
    engine = HybridEngine.build(HybridSettings(**{"legs": "vector", "search": "hnsw", **settings}), context)
    try:
        yield engine
    finally:
        engine.close()


def nearest(question: str, count: int) -> set[str]:
    """The exact nearest documents, by numpy."""
    vectors = np.stack([wordllama_vector(document.text) for document in CORPUS])
    query = wordllama_vector(question)
    assert query is not None
    return {CORPUS[i].id for i in np.argsort(-(vectors @ query))[:count]}


def test_what_it_loses_is_what_numpy_says(context: Callable[..., BuildContext]) -> None:
    found = there = 0
    with built(context(CORPUS), m=2, ef_construction=4, ef_search=1, candidates=20) as engine:
        for question in [*QUESTIONS, QUESTIONS[0]]:  # one twice, which counts once
            answer = engine.retrieve(question, 20)
            assert len(answer.hits) == 20  # more than ef_search
        answers = {question: [d for d, _ in engine.retrieve(question, 20).hits] for question in QUESTIONS}
        for question, documents in answers.items():
            exact = nearest(question, 20)
            found += len(exact & set(documents))
            there += len(exact)
        counts = engine.counts()
        notes = engine.notes
        assert not engine.deterministic
    assert there == 240
    assert found < there  # such an index is a poor one
    assert (counts["exact_nearest_chunks"], counts["exact_nearest_chunks_found"]) == (there, found)
    share = int(1000 * found / there) / 10
    assert notes[-1].startswith(f"HNSW finds {share}% of the exact 20 nearest chunks (12 questions).")


def test_it_is_the_index_that_is_searched(context: Callable[..., BuildContext]) -> None:
    with built(context(CORPUS), ef_search=33) as engine:
        engine.retrieve("lamp", 5)
        document_store = engine.pipeline.get_component("vector").document_store
        vector = [1.0] * document_store.embedding_dimension
        query, _ = document_store._check_and_build_embedding_retrieval_query(vector, None, 100)
        connection = document_store._connection
        plan = connection.cursor().execute("EXPLAIN " + query.as_string(connection)).fetchall()
        assert any(f"Index Scan using {document_store.table_name}_index" in str(line) for line in plan)
        for name, value in (("hnsw.ef_search", b"33"), ("hnsw.iterative_scan", b"strict_order")):
            shown = connection.cursor().execute(f"SHOW {name}").fetchone()
            assert shown[0] in (value, value.decode())


def test_the_exact_engine_beside_it_stays_exact(context: Callable[..., BuildContext]) -> None:
    with (
        built(context(CORPUS), m=2, ef_construction=4, ef_search=1) as poor,
        built(context(CORPUS), m=40, ef_construction=200, ef_search=400) as good,
        built(context(CORPUS), search="exact") as exact,
    ):
        for question in QUESTIONS[:4]:
            expected = [d for d, _ in exact.retrieve(question, 20).hits]
            assert set(expected) == nearest(question, 20)
            assert [d for d, _ in good.retrieve(question, 20).hits] == expected
            poor.retrieve(question, 20)
        assert exact.deterministic
        assert exact.notes == ('It ran without a reranker (reranker = "none").',)
        assert good.notes[-1].startswith("HNSW finds 100.0% of the exact 100 nearest chunks (4 questions).")
        assert len(good.retrieve(QUESTIONS[0], 1000).hits) == 400


def test_chunks_and_questions_without_a_vector(context: Callable[..., BuildContext]) -> None:
    with built(context([Document(id="a", text="lamp"), Document(id="b", text="")])) as engine:
        assert engine.retrieve(" ", 5).hits == []
        assert engine.notes[-1] == (
            "What its HNSW search loses against exact search is not known: no question has a vector."
        )
        assert [d for d, _ in engine.retrieve("lamp", 5).hits] == ["a"]
        assert engine.counts()["chunks_without_vector"] == 1


def test_a_database_that_is_gone_loses_no_run(context: Callable[..., BuildContext], store: Store) -> None:
    with built(context(CORPUS[:50])) as engine:
        engine.retrieve("lamp", 5)
        exact = engine._table.document_store
        with store.connect() as connection:
            connection.execute(f'ALTER TABLE {store.schema}."{exact.table_name}" RENAME TO elsewhere')
            try:
                assert engine.notes[-1].startswith(
                    "What its HNSW search loses against exact search could not be measured: "
                )
                assert "exact_nearest_chunks" not in engine.counts()
            finally:
                connection.execute(f'ALTER TABLE {store.schema}.elsewhere RENAME TO "{exact.table_name}"')


def test_an_old_pgvector_is_refused(context: Callable[..., BuildContext], store: Store) -> None:
    old = replace(store, _facts={**store.describe(), "pgvector": "0.7.4"})
    with (
        pytest.raises(KbevalError, match=r"needs pgvector 0\.8 or later, found 0\.7\.4$"),
        built(replace(context(CORPUS[:3]), store=lambda: old)),
    ):
        pass


def test_vectors_that_are_too_long_are_refused(
    context: Callable[..., BuildContext], scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-secret")

    def vectors(_: int, request: Any) -> Reply:
        count = 1 if isinstance(request["input"], str) else len(request["input"])
        data = [{"object": "embedding", "index": i, "embedding": [1.0] * 2001} for i in range(count)]
        return Reply({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})

    scripted_server.answer = vectors
    with (
        pytest.raises(KbevalError, match="at most 2000 dimensions, which is what pgvector can index, found 2001"),
        built(context(CORPUS[:3]), embedder="openai:large", embedder_base_url=scripted_server.url),
    ):
        pass
