"""Engine A with an OpenAI-compatible embedder on a local server.

The protocol is that of POST /embeddings: https://platform.openai.com/docs/api-reference/embeddings/create
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from scripted_server import Reply, ScriptedServer

from kbeval.engines.components.services import ServiceError
from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.errors import KbevalError
from kbeval.model import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kbeval.engines.base import BuildContext

KEY = "sk-secret-0815"

CORPUS = [
    Document(id="north", text="north"),
    Document(id="east", text="east"),
    Document(id="zero", text="zero"),
    Document(id="blank", text=""),
]
# The angle of each text's vector in degrees.
ANGLES = {"north": 90, "east": 0, "northish": 80, "dimension": 45}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("KBEVAL_EMBED_BASE_URL", raising=False)
    for proxy in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)


@pytest.fixture
def engine_at(context: Callable[..., BuildContext], scripted_server: ScriptedServer) -> Callable[..., Any]:
    @contextmanager
    def make(documents: list[Document] = CORPUS, **settings: object) -> Iterator[HybridEngine]:
        given = {
            "embedder": "openai:compass",
            "legs": "vector",
            "embedder_base_url": scripted_server.url + "/v1",
            **settings,
        }
        engine = HybridEngine.build(HybridSettings(**given), context(documents))
        try:
            yield engine
        finally:
            engine.close()

    return make


def vectors(_: int, request: Any) -> Reply:
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]

    def vector(text: str) -> list[float]:
        if text not in ANGLES:
            return [0.0, 0.0]
        return [math.cos(math.radians(ANGLES[text])), math.sin(math.radians(ANGLES[text]))]

    data = [{"object": "embedding", "index": i, "embedding": vector(text)} for i, text in enumerate(texts)]
    return Reply({"object": "list", "data": data, "model": "compass", "usage": {"prompt_tokens": 1, "total_tokens": 1}})


def test_vectors_from_a_server(engine_at: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = vectors
    with engine_at() as engine:
        answer = engine.retrieve("northish", 5)
        assert engine.retrieve("zero", 5).hits == []  # a query whose vector is zero has none
        assert engine.counts() == {"documents": 4, "chunks": 4, "chunks_without_vector": 2}
        assert not engine.deterministic
        assert KEY not in engine.pipeline.dumps()

    assert answer.hits == [
        ("north", pytest.approx(math.cos(math.radians(10)))),
        ("east", pytest.approx(math.cos(math.radians(80)))),
    ]
    paths, headers, requests = zip(*scripted_server.requests, strict=True)
    assert set(paths) == {"/v1/embeddings"}
    assert headers[0]["authorization"] == f"Bearer {KEY}"
    assert {request["model"] for request in requests} == {"compass"}
    assert "" not in [text for request in requests for text in request["input"]]


def test_the_environment_says_where(
    engine_at: Any, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted_server.answer = vectors
    monkeypatch.setenv("KBEVAL_EMBED_BASE_URL", scripted_server.url + "/other")
    with engine_at():
        pass
    assert scripted_server.requests[0][0] == "/other/embeddings"


@pytest.mark.parametrize(
    ("reply", "settings", "requests", "message"),
    [
        (
            Reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status=401),
            {},
            1,
            "embedder openai:compass: answered 401: Incorrect API key provided: ***",
        ),
        (
            Reply({"error": {"message": "overloaded"}}, status=503, headers={"retry-after-ms": "5"}),
            {"retries": 1},
            2,
            "embedder openai:compass: answered 503 to 2 requests: overloaded",
        ),
        (
            Reply(hang=True),
            {"timeout_s": 0.2, "retries": 0},
            1,
            "embedder openai:compass: no answer within 0.2 s",
        ),
    ],
)
def test_a_server_that_fails_stops_the_build(
    engine_at: Any,
    scripted_server: ScriptedServer,
    reply: Reply,
    settings: dict[str, object],
    requests: int,
    message: str,
) -> None:
    scripted_server.answer = lambda *_: reply
    with pytest.raises(KbevalError) as raised, engine_at(**settings):
        pass
    assert str(raised.value) == message
    assert len(scripted_server.requests) == requests


def test_a_failure_amid_loading_leaves_nothing_half_done(
    engine_at: Any, scripted_server: ScriptedServer, capfd: pytest.CaptureFixture[str]
) -> None:
    corpus = [Document(id=str(i), text="north") for i in range(300)]

    def fails_at_third(number: int, request: Any) -> Reply:
        return Reply({"error": {"message": "no"}}, status=400) if number == 2 else vectors(number, request)

    scripted_server.answer = fails_at_third
    with pytest.raises(KbevalError, match="answered 400: no"), engine_at(corpus, retries=0):
        pass
    scripted_server.answer = vectors
    with engine_at(corpus) as engine:
        assert engine.counts() == {"documents": 300, "chunks": 300, "chunks_without_vector": 0}
    assert capfd.readouterr() == ("", "")


def test_vectors_of_another_length(engine_at: Any, scripted_server: ScriptedServer) -> None:
    def longer(number: int, request: Any) -> Reply:
        if number == 0:
            return vectors(number, request)
        return Reply(
            {
                "object": "list",
                "model": "compass",
                "data": [{"object": "embedding", "index": i, "embedding": [1.0] * 3} for i in range(3)],
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
            }
        )

    scripted_server.answer = longer
    with pytest.raises(KbevalError, match="answered with 3 dimensions after 2"), engine_at():
        pass


def answered(*entries: dict[str, Any]) -> Reply:
    data = [{"object": "embedding", **entry} for entry in entries]
    return Reply({"object": "list", "data": data, "model": "compass", "usage": {"prompt_tokens": 1, "total_tokens": 1}})


ONE = {"index": 0, "embedding": [1.0, 0.0]}
TWO = {"index": 1, "embedding": [0.0, 1.0]}
THREE = {"index": 2, "embedding": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (answered(ONE, TWO), "answered with 2 vectors for 3 texts"),
        (answered(ONE, TWO, THREE, {"index": 3, "embedding": [1.0, 1.0]}), "answered with 4 vectors for 3 texts"),
        (answered(ONE, TWO, TWO), "answered with vectors that are not each at a text's place"),
        (answered(ONE, TWO, {"index": 2, "embedding": [math.nan, 1.0]}), "a vector that is not of finite numbers"),
        (answered(ONE, TWO, {"index": 2, "embedding": [math.inf, 1.0]}), "a vector that is not of finite numbers"),
        (answered(ONE, TWO, {"index": 2, "embedding": ["x", 1.0]}), "a vector that is not of finite numbers"),
        (answered(ONE, TWO, {"index": 2, "embedding": []}), "a vector that is not of finite numbers"),
        (answered(ONE, TWO, {"index": 2}), "a vector that is not of finite numbers"),
        (Reply({"object": "list", "data": None}), ""),
        (Reply({"hello": "there"}), ""),
        (Reply("{nonsense"), "malformed body"),
        (Reply("[]"), "malformed body"),
        (Reply({"object": "list", "data": "x" * 500}, cut=True), ""),
    ],
)
def test_what_is_no_answer_stops_the_build(
    engine_at: Any, scripted_server: ScriptedServer, reply: Reply, message: str
) -> None:
    scripted_server.answer = lambda number, request: vectors(number, request) if number == 0 else reply
    with pytest.raises(KbevalError) as raised, engine_at(retries=0):
        pass
    line = str(raised.value)
    assert line.startswith("embedder openai:compass: ")
    assert message in line, line
    assert "\n" not in line


def test_vectors_go_to_the_texts_whose_places_they_name(engine_at: Any, scripted_server: ScriptedServer) -> None:
    def shuffled(number: int, request: Any) -> Reply:
        reply = vectors(number, request)
        reply.body["data"].reverse()  # type: ignore[index]
        return reply

    scripted_server.answer = shuffled
    with engine_at() as engine:
        assert [document for document, _ in engine.retrieve("northish", 5).hits] == ["north", "east"]


def test_too_many_requests_then_an_answer(engine_at: Any, scripted_server: ScriptedServer) -> None:
    def answer(number: int, request: Any) -> Reply:
        if number == 2:  # after a word for the dimension, and the chunks
            return Reply({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "1"})
        return vectors(number, request)

    scripted_server.answer = answer
    with engine_at() as engine:
        found = engine.retrieve("northish", 5)
    assert len(found.hits) == 2
    assert found.retries == 1
    assert found.waited >= 1  # Retry-After was kept
    assert found.seconds["embed"] < found.waited  # and is no time of the stage's
    assert len(scripted_server.requests) == 4


@pytest.mark.parametrize(
    ("settings", "before"),
    [
        ({"embedder": "openai:nomic-embed-text"}, ("search_query: ", "search_document: ")),  # as Ollama calls it
        ({"query_prefix": "Q ", "document_prefix": "D "}, ("Q ", "D ")),
    ],
)
def test_prefixes_are_sent(
    engine_at: Any, scripted_server: ScriptedServer, settings: dict[str, str], before: tuple[str, str]
) -> None:
    def sent(request: Any) -> list[str]:
        return [request["input"]] if isinstance(request["input"], str) else request["input"]

    scripted_server.answer = lambda _, request: answered(
        *({"index": i, "embedding": [1.0, i]} for i in range(len(sent(request))))
    )
    with engine_at(**settings) as engine:
        engine.retrieve("northish", 5)
        assert engine.configuration()["query_prefix"] == before[0]
    texts = [sent(request) for _, _, request in scripted_server.requests]
    assert texts[0] == [before[0] + "dimension"]
    assert sorted(texts[1]) == [before[1] + "east", before[1] + "north", before[1] + "zero"]
    assert texts[2] == [before[0] + "northish"]


def test_a_failing_query_is_that_querys_alone(engine_at: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = vectors
    with engine_at(retries=0) as engine:
        scripted_server.answer = lambda *_: Reply({"error": {"message": "gone"}}, status=500)
        with pytest.raises(ServiceError, match=r"^embedder openai:compass: answered 500: gone$"):
            engine.retrieve("northish", 5)
        scripted_server.answer = vectors
        assert engine.retrieve("northish", 5).hits
