"""Engine A with Cohere's reranker: Haystack's component and Cohere's client against a local server.

The protocol is that of Cohere's API, POST /v2/rerank: https://docs.cohere.com/v2/reference/rerank
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from scripted_server import Reply, ScriptedServer

from kbeval.engines.base import Usage
from kbeval.engines.components.services import ServiceError
from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.model import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kbeval.engines.base import BuildContext

KEY = "co-secret-4711"

CORPUS = [
    Document(id=name, title=name.title(), text=f"All about the {name} and a lamp.")
    for name in ("ant", "bee", "cat", "dog", "elk", "fox")
]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", KEY)
    monkeypatch.delenv("KBEVAL_COHERE_BASE_URL", raising=False)
    for proxy in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)


@pytest.fixture
def engine_at(context: Callable[..., BuildContext], scripted_server: ScriptedServer) -> Callable[..., Any]:
    @contextmanager
    def make(**settings: object) -> Iterator[HybridEngine]:
        given = {"reranker": "cohere:rerank-v3.5", "reranker_base_url": scripted_server.url, **settings}
        engine = HybridEngine.build(HybridSettings(**given), context(CORPUS))
        try:
            yield engine
        finally:
            engine.close()

    return make


def results(scores: dict[int, float]) -> dict[str, object]:
    return {
        "id": "07734bd2-2473-4f07-94e1-0d9f0e6843cf",
        "results": [{"index": index, "relevance_score": score} for index, score in scores.items()],
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
    }


def backwards(_: int, request: Any) -> Reply:
    """Ranks the documents from last to first."""
    sent = len(request["documents"])
    return Reply(results({sent - 1 - place: 0.9 - place / 100 for place in range(sent)}))


def test_the_reranker_decides(engine_at: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = backwards
    with engine_at() as engine:
        answer = engine.retrieve("lamp", 4)

    ((path, headers, request),) = scripted_server.requests
    assert path == "/v2/rerank"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (request["model"], request["query"], request["top_n"]) == ("rerank-v3.5", "lamp", 20)
    assert sorted(request["documents"])[0] == "Ant\nAll about the ant and a lamp."
    assert len(request["documents"]) == 6

    assert answer.stages["rerank"] == answer.stages["fusion"][::-1]
    assert answer.hits == [
        (document, pytest.approx(0.9 - place / 100)) for place, document in enumerate(answer.stages["fusion"][:1:-1])
    ]
    assert answer.seconds["rerank"] > 0
    assert not engine.deterministic
    assert engine.notes == ()


def test_only_the_head_is_sent_and_the_rest_follows(engine_at: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = backwards
    with engine_at(rerank_candidates=2) as engine:
        answer = engine.retrieve("lamp", 5)

    ((_, _, request),) = scripted_server.requests
    assert len(request["documents"]) == request["top_n"] == 2
    first, second, *rest = answer.stages["fusion"]
    assert [document for document, _ in answer.hits] == [second, first, *rest[:3]]
    scores = [score for _, score in answer.hits]
    assert all(a > b for a, b in itertools.pairwise(scores))


def test_one_request_however_often_candidates_are_doubled(engine_at: Any, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = backwards
    with engine_at(candidates=1, chunk_words=2, chunk_overlap=0) as engine:
        assert len(engine.retrieve("lamp", 6).hits) == 6
    assert len(scripted_server.requests) == 1


def test_nothing_found_is_nothing_asked(engine_at: Any, scripted_server: ScriptedServer) -> None:
    with engine_at() as engine:
        answer = engine.retrieve("", 5)
    assert answer.hits == []
    assert answer.stages["rerank"] == []
    assert scripted_server.requests == []


def test_the_environment_says_where(
    engine_at: Any, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted_server.answer = backwards
    monkeypatch.setenv("KBEVAL_COHERE_BASE_URL", scripted_server.url + "/")
    with engine_at(reranker_base_url="http://127.0.0.1:9/nowhere") as engine:
        engine.retrieve("lamp", 5)
        assert engine.configuration()["reranker_base_url"] == scripted_server.url + "/"
    assert len(scripted_server.requests) == 1


def test_too_many_requests_then_an_answer(engine_at: Any, scripted_server: ScriptedServer) -> None:
    def answer(number: int, request: Any) -> Reply:
        if number == 0:
            return Reply({"message": "slow down"}, status=429, headers={"Retry-After": "1"})
        return backwards(number, request)

    scripted_server.answer = answer
    with engine_at() as engine:
        found = engine.retrieve("lamp", 5)
    assert len(found.hits) == 5
    assert len(scripted_server.requests) == 2
    assert found.retries == 1
    assert found.waited >= 1 > found.seconds["rerank"]  # Retry-After was kept, and is none of the stage's time
    assert found.usage == (Usage("cohere:rerank-v3.5", calls=1, rerank_units=1),)


SOON = {"retry-after-ms": "5"}


@pytest.mark.parametrize(
    ("reply", "settings", "requests", "message"),
    [
        (
            Reply({"message": f"invalid api token: {KEY}"}, status=401),
            {},
            1,
            "cohere:rerank-v3.5: answered 401: invalid api token: ***",
        ),
        (
            Reply({"message": "slow\ndown"}, status=429, headers=SOON),
            {"retries": 2},
            3,
            "cohere:rerank-v3.5: answered 429 to 3 requests: slow down",
        ),
        (
            Reply({"message": "internal error"}, status=500, headers=SOON),
            {"retries": 1},
            2,
            "cohere:rerank-v3.5: answered 500 to 2 requests: internal error",
        ),
        (
            Reply("<html>Bad gateway</html>", status=502, headers=SOON),
            {"retries": 0},
            1,
            "cohere:rerank-v3.5: answered 502: <html>Bad gateway</html>",
        ),
        (
            Reply(hang=True),
            {"timeout_s": 0.2},
            1,
            "cohere:rerank-v3.5: no answer within 0.2 s",
        ),
        (
            Reply("{not json"),
            {},
            1,
            "cohere:rerank-v3.5: answered 200 with a malformed body: {not json",
        ),
        (Reply({"id": "x"}), {}, 1, "cohere:rerank-v3.5: answered without a list of results"),
        (Reply({"results": "none"}), {}, 1, "cohere:rerank-v3.5: answered without a list of results"),
        (Reply([]), {}, 1, "cohere:rerank-v3.5: answered with a malformed body (TypeError: "),
        (
            Reply({"results": [{"relevance_score": 0.1}] * 6}),
            {},
            1,
            "cohere:rerank-v3.5: answered with index None for 6 documents",
        ),
        (
            Reply(results({0: 0.9, 1: 0.8, 2: 0.7, 3: 0.6, 4: 0.5, 6: 0.4})),
            {},
            1,
            "cohere:rerank-v3.5: answered with index 6 for 6 documents",
        ),
        (
            Reply(results({0: 0.9, 1: 0.8, 2: 0.7, 3: 0.6, 4: 0.5, -1: 0.4})),
            {},
            1,
            "cohere:rerank-v3.5: answered with index -1 for 6 documents",
        ),
        (
            Reply({"results": [{"index": 0, "relevance_score": 0.5}] * 6}),
            {},
            1,
            "cohere:rerank-v3.5: answered with 6 results for 1 documents, where 6 were asked for",
        ),
        (
            Reply(results({0: 0.9, 1: 0.8})),
            {},
            1,
            "cohere:rerank-v3.5: answered with 2 results for 2 documents, where 6 were asked for",
        ),
        (
            Reply({"results": [{"index": i, "relevance_score": "high"} for i in range(6)]}),
            {},
            1,
            "cohere:rerank-v3.5: answered with relevance_score 'high'",
        ),
    ],
)
def test_what_is_no_answer_is_one_clear_line(
    engine_at: Any,
    scripted_server: ScriptedServer,
    reply: Reply,
    settings: dict[str, object],
    requests: int,
    message: str,
) -> None:
    scripted_server.answer = lambda *_: reply
    with engine_at(**settings) as engine:
        with pytest.raises(ServiceError) as raised:
            engine.retrieve("lamp", 5)
        assert str(raised.value).startswith(message) if message.endswith(" ") else str(raised.value) == message
        assert "\n" not in str(raised.value)
        assert KEY not in str(raised.value)
        assert len(scripted_server.requests) == requests

        # The failure is that query's alone.
        scripted_server.answer = backwards
        assert len(engine.retrieve("lamp", 5).hits) == 5


def test_no_server_at_all(engine_at: Any) -> None:
    with (
        engine_at(reranker_base_url="http://127.0.0.1:1", retries=0) as engine,
        pytest.raises(ServiceError, match=r"^cohere:rerank-v3\.5: ConnectError: .*refused"),
    ):
        engine.retrieve("lamp", 5)


def test_the_pipeline_holds_no_secret_and_runs_by_itself(engine_at: Any, scripted_server: ScriptedServer) -> None:
    from haystack import Pipeline

    scripted_server.answer = backwards
    with engine_at(rerank_candidates=3, timeout_s=7, retries=1) as engine:
        text = engine.pipeline.dumps()
        assert KEY not in text
        assert "COHERE_API_KEY" in text
        expected = engine.retrieve("lamp", 6)
        loaded = Pipeline.loads(text, allowed_modules=["kbeval"])
        output = loaded.run({"lexical": {"query": "lamp"}, "embedder": {"text": "lamp"}, "reranker": {"query": "lamp"}})
        found = [(c.meta["document_id"], c.score) for c in output["reranked"]["documents"]]
        assert found == list(expected.hits)
        ranker = loaded.get_component("reranker")
        assert (ranker.timeout_s, ranker.retries) == (7, 1)
        ranker.close()
        loaded.get_component("lexical").document_store.close()
        loaded.get_component("vector").document_store.close()
