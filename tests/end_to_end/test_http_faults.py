"""What an endpoint can do wrong: each fault is the error of its query, in one line, and of no other query."""

from __future__ import annotations

import email.utils
import time
from typing import TYPE_CHECKING, Any

import pytest
from scripted_server import Reply

from kbeval.engines.base import BuildContext
from kbeval.engines.components.services import ServiceError
from kbeval.engines.http_request import filled, filled_url
from kbeval.engines.registry import plan_engines
from kbeval.model import LabelledQuery
from kbeval.progress import Silent
from kbeval.running.runner import ask_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scripted_server import ScriptedServer

    from kbeval.engines.base import Engine

TOKEN = "s3cret-and-long"
GOOD = Reply({"results": [{"id": "d1", "score": 2.0}, {"id": "d2", "score": 1.0}]})


@pytest.fixture
def endpoint(
    scripted_server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Engine]]:
    """Builds an engine on the scripted server, with a key from the environment."""
    monkeypatch.setenv("KEY_OF_A_TEST", TOKEN)
    built: list[Engine] = []

    def make(**table: Any) -> Engine:
        table = {
            "type": "http",
            "url": scripted_server.url,
            "body": {"q": "{query}"},
            "headers": {"X-Api-Key": "env:KEY_OF_A_TEST"},
            "ids": "results[*].id",
            "scores": "results[*].score",
            "retries": 1,
            **table,
        }
        (plan,) = plan_engines([], {"mine": table})
        built.append(
            plan.build(
                BuildContext(documents=[], store=lambda: pytest.fail("no database"), progress=Silent(), root=tmp_path)
            )
        )
        return built[-1]

    yield make
    for engine in built:
        engine.close()


def fault(engine: Engine) -> str:
    with pytest.raises(ServiceError) as caught:
        engine.retrieve("q", 2)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 700
    assert TOKEN not in line
    return line


def script(server: ScriptedServer, *replies: Reply) -> None:
    server.answer = lambda number, request: replies[min(number, len(replies) - 1)]


@pytest.mark.parametrize(
    "first",
    [
        Reply(status=429, headers={"Retry-After": "0"}),
        Reply(status=429, headers={"Retry-After": "Tue, 01 Jan 2019 00:00:00 GMT"}),  # long gone: at once
        Reply(status=429),
        Reply(status=502),
        Reply(status=503, headers={"Retry-After": "soon"}),
        Reply(status=504),
        Reply({"results": []}, cut=True),
    ],
    ids=["seconds", "date", "429", "502", "503", "504", "cut"],
)
def test_what_passes_is_tried_again_and_counted(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer, first: Reply
) -> None:
    script(scripted_server, first, GOOD)
    engine = endpoint()
    answer = engine.retrieve("q", 2)
    assert answer.hits == [("d1", 2.0), ("d2", 1.0)]
    assert engine.counts()["requests"] == 2
    assert engine.counts()["retries"] == answer.retries == 1


def test_the_wait_that_was_asked_for_is_waited_and_is_not_the_requests_time(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer
) -> None:
    script(scripted_server, Reply(status=429, headers={"Retry-After": "1"}), GOOD)
    started = time.perf_counter()
    answer = endpoint().retrieve("q", 2)
    took = time.perf_counter() - started
    assert took >= 1.0
    assert answer.seconds["request"] <= took - 1.0
    assert answer.waited == 1.0


@pytest.mark.parametrize(
    ("reply", "requests", "words"),
    [
        (Reply(f"no key like {TOKEN}", 500), 1, ["answered 500", "no key like ***"]),
        (Reply({"detail": "k too large"}, 422), 1, ["answered 422", "k too large"]),
        (Reply("", 401), 1, ["answered 401", "an empty body"]),
        (Reply("busy", 503), 2, ["answered 503", "busy", "(2 requests)"]),
        (Reply(status=429, headers={"Retry-After": "3600"}), 1, ["answered 429", "3600 s, max_wait_s is 60"]),
        (Reply(GOOD.body, cut=True), 2, ["RemoteProtocolError", "(2 requests)"]),
        (Reply("x" * 5000), 1, ["more than 1000 bytes"]),
        (Reply("<html>Sign in</html>"), 1, ["expected JSON", "<html>Sign in</html>"]),
        (Reply(""), 1, ["expected JSON, found an empty body"]),
        (Reply('{"results": [{"id": "d1", "score": NaN}]}'), 1, ["expected JSON"]),
        (Reply({"hits": [1]}), 1, ["ids (results[*].id): expected a list, found nothing in '{\"hits\":[1]}'"]),
        (Reply({"results": "none"}), 1, ["ids (results[*].id): expected a list, found nothing"]),
        (Reply({"results": [{"id": "d1", "score": 1}, {"name": "d2"}]}), 1, ["ids", "found nothing at place 1"]),
        (Reply({"results": [{"id": 1.5, "score": 1}]}), 1, ["ids", "expected an id", "'1.5' at place 0"]),
        (Reply({"results": [{"id": "d1"}]}), 1, ["scores (results[*].score): expected a number, found nothing"]),
        (Reply({"results": [{"id": "d1", "score": "9"}]}), 1, ["scores", "expected a number", "place 0"]),
        (Reply(status=307, headers={"Location": f"/x?t={TOKEN}"}), 1, ["answered 307, a redirect to '/x?t=***'"]),
    ],
)
def test_what_does_not_pass_is_one_line(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer, reply: Reply, requests: int, words: list[str]
) -> None:
    script(scripted_server, reply)
    line = fault(endpoint(max_bytes=1000))
    for word in words:
        assert word in line, line
    assert len(scripted_server.requests) == requests


def test_a_redirect_carries_nothing_to_another_host(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer
) -> None:
    from scripted_server import serve

    with serve() as other:
        script(scripted_server, Reply(status=302, headers={"Location": other.url}))
        assert "not followed" in fault(endpoint())
        assert other.requests == []


def test_an_endpoint_that_hangs_or_is_not_there(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer
) -> None:
    script(scripted_server, Reply(hang=True))
    assert "no answer within 0.2 s" in fault(endpoint(timeout_s=0.2))
    assert len(scripted_server.requests) == 1
    assert "ConnectError" in fault(endpoint(url="http://127.0.0.1:1/", retries=0))


def test_a_fault_is_the_outcome_of_its_query_alone(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer
) -> None:
    scripted_server.answer = lambda number, request: Reply("oh", 500) if request["q"] == "bad" else GOOD
    queries = [LabelledQuery(id=name, text=name) for name in ("good", "bad", "also")]
    outcomes = ask_all(endpoint(), "mine", queries, 2, known_documents={"d1", "d2"}, progress=Silent())
    assert list(outcomes.errors) == ["bad"]
    assert "answered 500" in outcomes.errors["bad"]
    assert outcomes.counts()["answered"] == 2


def test_a_query_is_a_value_and_never_a_piece_of_json_or_of_an_address(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer
) -> None:
    nasty = 'a", "admin": true, {k} \\ /../?x=1&y=2#z \n é'
    template = {"q": ["title:{query}", {"n": "{k}", "text": "at {k}"}], "keep": [1, None, "{other}"]}
    assert filled(template, nasty, 7) == {
        "q": ["title:" + nasty, {"n": 7, "text": "at 7"}],
        "keep": [1, None, "{other}"],
    }
    assert filled_url("http://h/{query}?n={k}", "a/b?c", 7) == "http://h/a%2Fb%3Fc?n=7"
    script(scripted_server, GOOD)
    endpoint(body='{"q": "{query}"}').retrieve(nasty, 2)
    assert scripted_server.requests[-1][2] == {"q": nasty}
    endpoint(method="GET", body=None, params={"q": "{query}", "n": "{k}"}).retrieve(nasty, 2)
    path, headers, request = scripted_server.requests[-1]
    assert request == {"q": nasty, "n": "2"}
    assert path.startswith("/?q=")
    assert headers["x-api-key"] == TOKEN


def test_ids_without_scores_are_a_ranking_and_an_empty_list_is_an_answer(
    endpoint: Callable[..., Engine], scripted_server: ScriptedServer
) -> None:
    script(scripted_server, Reply([7, "d2", 7]), Reply([]))
    engine = endpoint(ids="@", scores=None)
    answer = engine.retrieve("q", 5)
    assert [document for document, _ in answer.hits] == ["7", "d2"]
    assert answer.repeats == 1
    assert engine.retrieve("q", 5).hits == []
    assert "as many results as it is set to" in engine.notes[0]
    assert engine.counts()["questions_below_k"] == 1  # one question, asked twice


def test_a_date_in_the_future_is_a_wait(endpoint: Callable[..., Engine], scripted_server: ScriptedServer) -> None:
    later = email.utils.formatdate(time.time() + 500, usegmt=True)
    script(scripted_server, Reply(status=503, headers={"Retry-After": later}))
    assert "max_wait_s is 60" in fault(endpoint())
