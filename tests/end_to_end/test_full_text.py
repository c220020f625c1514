"""The full-text leg over a real database."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from haystack.document_stores.errors import DocumentStoreError

from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.model import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kbeval.engines.base import BuildContext
    from kbeval.store import Store

CORPUS = [
    Document(id="printers", title="Printers", text="Clear a paused queue, then print a test page."),
    Document(id="mail", title="Mail", text="Reset the password of a shared mailbox in the admin centre."),
    Document(id="vpn", title="VPN", text="Install the client and sign in with your password."),
    Document(id="odd", title="", text=r"it's at https://example.test/a&b|c!d and c:\temp\'x' or <-> (so)"),
    Document(id="blank", title="", text=""),
]


@contextmanager
def built(context: BuildContext, **settings: object) -> Iterator[HybridEngine]:
    engine = HybridEngine.build(HybridSettings(**{"legs": "fulltext", **settings}), context)
    try:
        yield engine
    finally:
        engine.close()


def found(engine: HybridEngine, query: str, k: int = 20) -> list[str]:
    return [document for document, _ in engine.retrieve(query, k).hits]


def test_any_word_finds_and_words_are_stemmed(context: Callable[..., BuildContext]) -> None:
    with built(context(CORPUS)) as engine:
        # plainto_tsquery would ask for all of them and find nothing.
        assert found(engine, "How were the passwords of my mailboxes reset on a ship?") == ["mail", "vpn"]
        assert found(engine, "printing") == ["printers"]
        assert found(engine, "the of and") == found(engine, "") == found(engine, " \n") == []
        assert engine.retrieve("password", 5).stages == {"fulltext": ["vpn", "mail"]}
        assert engine.counts() == {"documents": 5, "chunks": 5}
        assert engine.deterministic


def test_scores_are_ts_rank_over_one_plus_log_of_the_length(context: Callable[..., BuildContext], store: Store) -> None:
    with built(context(CORPUS)) as engine:
        hits = dict(engine.retrieve("reset password", 5).hits)
    with store.connect() as connection:
        for document in CORPUS[1:3]:
            text = f"{document.title}\n{document.text}"
            row = connection.execute(
                "SELECT ts_rank(to_tsvector('english', %s), to_tsquery('english', 'reset | password'), 1)", [text]
            ).fetchone()
            assert row is not None
            assert hits[document.id] == pytest.approx(row[0])


@pytest.mark.parametrize(
    "query",
    [
        "' | 'x", "a & !b", "password:*", "foo <-> bar", r"back\slash \' quote''s", "('", "!!!", "$$; DROP TABLE x; --",
        "https://example.test/a&b|c!d", r"c:\temp\'x'", "nul\0byte", "%s %(query)s {words}", "😀 東京",
        "word " * 20_000,
    ],
)  # fmt: skip
def test_nothing_in_a_question_is_an_operator(context: Callable[..., BuildContext], query: str) -> None:
    with built(context(CORPUS)) as engine:
        engine.retrieve(query, 5)  # no error
        assert "mail" in found(engine, query + " mailbox")


def test_an_address_finds_itself(context: Callable[..., BuildContext]) -> None:
    with built(context(CORPUS)) as engine:
        assert found(engine, "https://example.test/a&b|c!d") == ["odd"]


def test_equal_scores_are_ordered_by_id_and_k_documents_come(context: Callable[..., BuildContext]) -> None:
    corpus = [Document(id=name, text="the very same words " * 30) for name in ("b", "é", "a", "c", "B")]
    with built(context(corpus), candidates=1, chunk_words=8, chunk_overlap=0) as engine:
        assert found(engine, "same words", 5) == ["é", "c", "b", "a", "B"]  # bytes, highest first


def test_it_is_fused_with_the_others_and_runs_by_itself(context: Callable[..., BuildContext]) -> None:
    from haystack import Pipeline

    with built(context(CORPUS), legs="vector,fulltext,bm25") as engine:
        answer = engine.retrieve("reset password", 5)
        assert list(answer.stages) == ["lexical", "fulltext", "vector", "fusion"]
        assert set(answer.seconds) == {"embed", "lexical", "fulltext", "vector", "fusion"}
        assert answer.hits[0] == ("mail", 1.0)  # first in all three
        loaded = Pipeline.loads(engine.pipeline.dumps(), allowed_modules=["kbeval"])
        query = "reset password"
        inputs = {"lexical": {"query": query}, "fulltext": {"query": query}, "embedder": {"text": query}}
        output = loaded.run(inputs)
        assert [(c.meta["document_id"], c.score) for c in output["fusion"]["documents"]] == list(answer.hits)
        loaded.get_component("fulltext").close()
        for name in ("lexical", "vector"):
            loaded.get_component(name).document_store.close()


def test_a_connection_that_breaks_fails_its_question_alone(context: Callable[..., BuildContext], store: Store) -> None:
    with built(context(CORPUS)) as engine:
        component = engine.pipeline.get_component("fulltext")
        pid = component._connection.info.backend_pid
        with store.connect() as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
        with pytest.raises(DocumentStoreError, match=r"^Could not search the chunks' words: "):
            engine.retrieve("password", 5)
        assert found(engine, "password") == ["vpn", "mail"]
