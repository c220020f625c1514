"""Whatever a user brings is asked the same questions about the same documents, and gives the same ranking."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import TYPE_CHECKING, Any

import brought
import orjson
import pytest
from scripted_server import Reply

from kbeval.engines.base import Answer, BuildContext, Engine
from kbeval.engines.registry import plan_engines
from kbeval.errors import KbevalError
from kbeval.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scripted_server import ScriptedServer

    Build = Callable[..., Engine]

# By hand for q1, "money back", whose vector is (1, 1)/sqrt(2). "a cashier may give money back" has six words and both:
# 2/sqrt(12) = .577; "money money money" is money alone: 1/sqrt(2) = .707, the best. Of payouts, "the bank needs two
# working days for money" has eight words and one of them: 1/sqrt(16) = .25. Nothing else has a word of it.
# For q2, "bank account money": "money money money" 1/sqrt(3) = .577; "takings arrive on the bank account" has six words
# and two of them, 2/sqrt(18) = .471. For q3, "paper in the office": "paper rolls are in the office" 4/sqrt(24) = .816;
# "a hardware key unlocks the office" 2/sqrt(24) = .408, before printer's other chunk.
FIRST = [("refunds", 0.707), ("payouts", 0.25)]
RANKINGS = {"q1": ["refunds", "payouts"], "q2": ["refunds", "payouts"], "q3": ["printer", "sign-in"]}


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    """Builds an engine over the documents from a table, as kbeval.toml has it, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    built: list[Engine] = []

    def refuse() -> Any:
        raise AssertionError("what a user brings needs no database")

    def make(table: dict[str, Any]) -> Engine:
        (plan,) = plan_engines([], {"mine": table})
        context = BuildContext(documents=brought.documents(), store=refuse, progress=Silent(), root=tmp_path)
        built.append(plan.build(context))
        return built[-1]

    yield make
    for engine in built:
        engine.close()


def rankings(engine: Engine, k: int = 2) -> dict[str, list[str]]:
    return {name: [document for document, _ in engine.retrieve(text, k).hits] for name, text in brought.QUERIES.items()}


def test_a_plain_function_that_returns_chunks_is_ranked_by_documents(build: Build) -> None:
    engine = build({"type": "python:brought:function", "id_from": "metadata.doc_id"})
    answer = engine.retrieve(brought.QUERIES["q1"], 2)
    assert [(document, round(score, 3)) for document, score in answer.hits] == FIRST
    assert answer.repeats == 0  # chunks of one document are no repeats
    assert rankings(engine) == RANKINGS
    assert engine.notes == ()


def test_an_async_function(build: Build) -> None:
    engine = build({"type": "python:brought:async_function", "id_from": "metadata.doc_id"})
    assert rankings(engine) == RANKINGS


@pytest.mark.parametrize(
    "table",
    [
        {"type": "python:brought_llama_index:retriever", "id_from": "metadata.doc_id"},
        {"type": "python:brought_llama_index:retriever", "id_from": "ref_doc_id"},
        {"type": "python:brought_llama_index:retriever.aretrieve", "id_from": "metadata.doc_id"},
        {
            "type": "python:brought_llama_index:narrow",
            "id_from": "metadata.doc_id",
            "k_attribute": "similarity_top_k",
        },
    ],
    ids=["metadata", "source document", "async", "asked for more"],
)
def test_a_llama_index_retriever(build: Build, table: dict[str, Any]) -> None:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    engine = build(table)
    assert rankings(engine) == RANKINGS
    if "k_attribute" in table:
        engine.close()
        assert sys.modules["brought_llama_index"].narrow.similarity_top_k == 3  # as it was


@pytest.mark.parametrize(
    "table",
    [
        {"type": "python:brought_langchain:retriever", "id_from": "metadata.doc_id"},
        {"type": "python:brought_langchain:retriever.ainvoke", "id_from": "metadata.doc_id"},
        {"type": "python:brought_langchain:narrow", "id_from": "meta.doc_id", "k_attribute": "search_kwargs.k"},
    ],
    ids=["sync", "async", "asked for more"],
)
def test_a_langchain_retriever(build: Build, table: dict[str, Any]) -> None:
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    engine = build(table)
    assert rankings(engine) == RANKINGS
    if "k_attribute" in table:
        engine.close()
        assert sys.modules["brought_langchain"].narrow.search_kwargs == {"k": 3}


def test_a_retriever_of_a_fixed_size_says_so_and_how_often_it_fell_short(build: Build) -> None:
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    engine = build({"type": "python:brought_langchain:narrow", "id_from": "metadata.doc_id"})
    # Its three best chunks for q1 are two of refunds and one of payouts: two documents of the three asked for.
    assert rankings(engine, 3)["q1"] == ["refunds", "payouts"]
    assert "takes no k" in engine.notes[0]
    assert engine.counts()["questions_below_k"] >= 1


def _embedding_pipeline(folder: Path) -> str:
    """A pipeline of an embedder of the user's own and Haystack's retriever, and its store, as their files."""
    from brought_haystack import WordEmbedder
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(
        [
            Document(id=chunk, content=text, meta={"doc_id": document}, embedding=brought.VECTORS[chunk])
            for chunk, document, text in brought.chunks()
        ]
    )
    store.save_to_disk(str(folder / "store.json"))
    pipeline = Pipeline()
    pipeline.add_component("embedder", WordEmbedder())
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=2))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    (folder / "pipeline.yaml").write_text(pipeline.dumps())
    return "haystack:pipeline.yaml"


def test_a_serialised_haystack_pipeline_with_a_component_of_the_users(build: Build, tmp_path: Path) -> None:
    table = {
        "type": _embedding_pipeline(tmp_path),
        "allow": ["brought_haystack."],
        "documents": "store.json",
        "id_from": "meta.doc_id",
    }
    engine = build({**table, "k_input": "retriever.top_k"})
    assert rankings(engine) == RANKINGS
    facts = engine.configuration()
    assert facts["query_input"] == ["embedder.text"]
    assert facts["documents_output"] == "retriever.documents"
    assert engine.counts() == {"store_documents": len(brought.chunks())}
    # As it is set, it returns two chunks, and they are of one document for q1.
    fixed = build(table)
    assert rankings(fixed)["q1"] == ["refunds"]
    assert "No input of the pipeline gets k" in fixed.notes[0]


def test_a_serialised_haystack_bm25_pipeline_ranks_as_the_component_called_directly(
    build: Build, tmp_path: Path
) -> None:
    from haystack import Document, Pipeline
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(bm25_algorithm="BM25Plus")
    store.write_documents([Document(id=each.id, content=each.text) for each in brought.documents()])
    retriever = InMemoryBM25Retriever(store, top_k=3)
    expected = {
        name: [document.id for document in retriever.run(query=text)["documents"]]
        for name, text in brought.QUERIES.items()
    }
    pipeline = Pipeline()
    pipeline.add_component("first", InMemoryBM25Retriever(store, top_k=3))
    pipeline.add_component("second", InMemoryBM25Retriever(store, top_k=3))
    pipeline.add_component("joiner", DocumentJoiner())
    pipeline.connect("first.documents", "joiner.documents")
    pipeline.connect("second.documents", "joiner.documents")
    (tmp_path / "bm25.yaml").write_text(pipeline.dumps())
    table = {"type": "haystack:bm25.yaml", "documents": "corpus"}
    engine = build(table)
    assert engine.configuration()["query_input"] == ["first.query", "second.query"]
    assert rankings(engine, 3) == expected
    assert engine.counts()["store_documents"] == 4  # both retrievers share one store
    assert rankings(build({**table, "documents_output": "second.documents"}), 3) == expected
    store.write_documents([Document(id="later", content="money back")])  # its own store, and not this one, is asked
    assert rankings(engine, 3) == expected


def test_an_http_endpoint(build: Build, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SEARCH_TOKEN", "hunter2-and-more")

    def answer(number: int, request: Any) -> Reply:
        found = brought.best_chunks(request["q"])[: request["size"]]
        return Reply({"results": [{"doc": {"id": document}, "score": score} for _, document, score in found]})

    scripted_server.answer = answer
    engine = build(
        {
            "type": "http",
            "url": f"{scripted_server.url}/search",
            "body": {"q": "{query}", "size": "{k}"},
            "headers": {"Authorization": "Bearer ${MY_SEARCH_TOKEN}", "X-Tenant": "shop"},
            "ids": "results[*].doc.id",
            "scores": "results[*].score",
        }
    )
    assert rankings(engine) == RANKINGS
    # Two chunks of q1 are of one document: the endpoint is asked again, for four.
    assert [request for _, _, request in scripted_server.requests][:2] == [
        {"q": "money back", "size": 2},
        {"q": "money back", "size": 4},
    ]
    _, headers, _ = scripted_server.requests[0]
    assert headers["authorization"] == "Bearer hunter2-and-more"
    assert headers["x-tenant"] == "shop"
    assert "hunter2" not in orjson.dumps(engine.configuration()).decode()
    assert engine.counts() == {"requests": len(scripted_server.requests), "retries": 0}


def test_async_code_runs_on_one_loop_that_stays_open_and_also_inside_a_running_one(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loops_of_a_test.py").write_text(
        "import asyncio\n"
        "loops = []\n"
        "class Retriever:\n"
        "    async def aretrieve(self, query):\n"
        "        loops.append(asyncio.get_running_loop())\n"
        "        if query == 'leave': raise SystemExit(3)\n"
        "        return ['d1']\n"
        "async def leaves_behind(query, k):\n"
        "    async def leave(): raise SystemExit(4)\n"
        "    asyncio.get_running_loop().create_task(leave())\n"
        "    await asyncio.sleep(0.01)\n"
        "    return ['d1']\n"
    )
    monkeypatch.delitem(sys.modules, "loops_of_a_test", raising=False)
    engine = build({"type": "python:loops_of_a_test:Retriever"})

    async def notebook() -> Answer:
        return engine.retrieve("q", 1)

    assert asyncio.run(notebook()).hits == [("d1", 1.0)]
    with pytest.raises(SystemExit):
        engine.retrieve("leave", 1)
    assert engine.retrieve("q", 1).hits == [("d1", 1.0)]
    loops = sys.modules["loops_of_a_test"].loops
    assert len(loops) == 3
    assert len(set(map(id, loops))) == 1
    engine.close()
    assert loops[0].is_closed()
    # A task that nobody waits for and that leaves the program must not stop the loop for the next query.
    other = build({"type": "python:loops_of_a_test:leaves_behind"})
    assert [other.retrieve("q", 1).hits for _ in range(2)] == [[("d1", 1.0)]] * 2
    other.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("kbeval-loops_of_a_test")]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"type": "python:brought:function", "id_form": "id"}, "nearest: 'id_from'"),
        ({"type": "python:brought:function", "id_from": "doc_id"}, "id_from to be id, ref_doc_id or metadata.FIELD"),
        ({"type": "python:brought:function", "fetch": "many"}, "fetch to be a valid integer"),
        ({"type": "python:brought:embed", "fetch": 5}, "expected no fetch, as it takes no k"),
        ({"type": "python:brought:embed", "k_attribute": "top"}, "k_attribute to be an attribute of it"),
        ({"type": "run:"}, "run:FILE.trec"),
        ({"type": "http", "ids": "[*]"}, "the key 'url'"),
        ({"type": "http", "url": "http://h/", "ids": "[*]"}, 'expected "{query}" in body, params or url'),
        ({"type": "http", "url": "ftp://h/{query}", "ids": "[*]"}, "an address like https://host/path"),
        ({"type": "http", "url": "http://u:hunter2@h/{query}", "ids": "[*]"}, "url without user and password"),
        ({"type": "http", "url": "http://h/{query}", "ids": "results[*"}, "ids to be a JMESPath"),
        ({"type": "http", "url": "http://h/{query}", "ids": "[*]", "methd": "GET"}, "nearest: 'method'"),
        ({"type": "http", "url": "http://h/{query}", "ids": "[*]", "method": "GET", "body": {}}, "no body"),
        ({"type": "http", "url": "http://h/", "body": "{query}", "ids": "[*]"}, "body to be a table, or JSON"),
        ({"type": "http", "url": "http://h/{query}", "ids": "[*]", "fetch": 9}, 'fetch needs "{k}"'),
        (
            {"type": "http", "url": "http://h/{query}", "ids": "[*]", "headers": {"X-Api-Key": "hunter2"}},
            "headers.X-Api-Key to come from the environment",
        ),
        (
            {"type": "http", "url": "http://h/{query}", "ids": "[*]", "headers": {"X-Key": "env:UNSET_OF_A_TEST"}},
            "set the environment variable UNSET_OF_A_TEST",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_line(build: Build, table: dict[str, Any], message: str) -> None:
    with pytest.raises(KbevalError) as caught:
        build(table)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
