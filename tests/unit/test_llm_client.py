"""The chat client against a real server on 127.0.0.1: what each answer of a server means."""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from chat_server import ChatServer, Cut, Hang, Reply, Say, Status, question, serve_chat
from kbeval.errors import KbevalError
from kbeval.llm.client import Answer, ChatModel, api_key, is_loopback
from kbeval.llm.errors import Fatal, Permanent, RateLimited, Refused, TimedOut, Transient, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = {"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]}
KEY = "sk-or-secret-0123456789"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    with serve_chat(lambda asked: question("How?")) as running:
        yield running


def ask(
    server: ChatServer, reply: Reply | None = None, *, times: int = 1, timeout_s: float = 5, **options: Any
) -> Answer:
    if reply is not None:
        server.answer = lambda asked: reply

    async def work() -> Answer:
        async with ChatModel(server.url, "some/model", timeout_s) as model:
            for _ in range(times):
                answer = await model.ask([{"role": "user", "content": "Hello there"}], schema=SCHEMA, **options)
            return answer

    return asyncio.run(work())


def test_what_is_sent_and_what_comes_back(server: ChatServer) -> None:
    answer = ask(server, max_tokens=77)
    assert (answer.text, answer.finish_reason, answer.model) == ('{"question": "How?"}', "stop", "some/model")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.structured) == (100, 20, True)
    [(_, asked)] = server.asked
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "some/model",
        "messages": [{"role": "user", "content": "Hello there"}],
        "temperature": 0.0,
        "max_tokens": 77,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
    }


def test_without_structured_output_it_falls_back_once(server: ChatServer) -> None:
    server.structured = False
    answer = ask(server, times=3)
    assert not answer.structured
    assert server.kinds == {"unstructured": 1, "Say": 3}


def test_other_spellings_are_learnt_too(server: ChatServer) -> None:
    def strict(asked: Any) -> Reply:
        if "max_tokens" in asked.body:
            return Status(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return Status(400, "logprobs are not supported") if "logprobs" in asked.body else question("How?")

    server.answer = strict
    assert ask(server, times=2, logprobs=True).logprobs is None
    assert server.kinds == {"400": 2, "Say": 2}
    assert server.asked[-1][1].body["max_completion_tokens"] == 300


def test_log_probabilities(server: ChatServer) -> None:
    top = [{"token": "2", "logprob": -0.25, "bytes": None}, {"token": "1", "logprob": -2.0, "bytes": None}]
    token = {"token": "2", "logprob": -0.25, "bytes": None, "top_logprobs": top}
    answer = ask(server, Say("2", logprobs=[token]), logprobs=True)
    assert answer.logprobs is not None
    assert answer.logprobs[0].token == "2"
    assert answer.logprobs[0].top == (("2", -0.25), ("1", -2.0))


def test_tokens_are_estimated_where_the_server_does_not_count(server: ChatServer) -> None:
    # "Hello there" is 11 characters, the answer 9: at 4 a token 3 each.
    answer = ask(server, Say("any words", usage=None))
    assert (answer.prompt_tokens, answer.completion_tokens) == (3, 3)


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Status(429, headers={"Retry-After": "7"}), RateLimited, "answered 429"),
        (Status(500), Transient, "answered 500: not now"),
        (Status(503, body="<html>busy</html>"), Transient, "answered 503"),
        (Cut(in_body=True), Transient, "127.0.0.1"),
        (Cut(in_body=False), Transient, "127.0.0.1"),
        (Status(200, body="{}"), Transient, "malformed"),
        (Status(200, body="no json"), Transient, "malformed"),
        (Status(200, body='{"choices": []}'), Transient, "malformed"),
        (Status(200, body='{"error": {"code": 502, "message": "upstream"}}'), Transient, "upstream"),
        (Status(200, body='{"error": {"code": 429, "message": "slow"}}'), RateLimited, "slow"),
        (Say(None, refusal="I will not."), Refused, "I will not"),
        (Say("", finish_reason="content_filter"), Refused, "content filter"),
        (Status(400, "this context is too long"), Permanent, "too long"),
        (
            Status(403, body='{"error": {"message": "input was flagged", "metadata": {"reasons": ["x"]}}}'),
            Refused,
            "flagged",
        ),
        (Status(401, "no such key"), Fatal, "the key in OPENROUTER_API_KEY is not accepted"),
        (Status(403, "not for you"), Fatal, "not accepted"),
        (Status(402, "insufficient credits"), Fatal, "no credit"),
        (Status(429, "quota", code="insufficient_quota"), Fatal, "no credit"),
        (Status(404, "model not found"), Fatal, "model 'some/model'"),
        (Status(400, "some/model is not a valid model ID"), Fatal, "model 'some/model'"),
        (Status(400, "temperature 0 is not supported"), Fatal, "does not take temperature 0"),
    ],
)
def test_what_goes_wrong(server: ChatServer, reply: Reply, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says) as caught:
        ask(server, reply)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


def test_a_refusal_says_what_it_has_cost(server: ChatServer) -> None:
    with pytest.raises(Refused) as caught:
        ask(server, Say(None, refusal="No."))
    assert (caught.value.prompt_tokens, caught.value.completion_tokens) == (100, 20)


def test_a_hang_ends(server: ChatServer) -> None:
    with pytest.raises(TimedOut, match=r"no answer within 0\.2 s"):
        ask(server, Hang(), timeout_s=0.2)


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_chat(lambda asked: question("How?")) as gone:
        pass
    with pytest.raises(Unreachable):
        ask(gone)


def test_the_key_is_in_no_error(server: ChatServer) -> None:
    for status in (400, 401, 429, 500):
        with pytest.raises((Fatal, RateLimited, Transient, Permanent)) as caught:
            ask(server, Status(status, f"you sent Bearer {KEY}"))
        assert KEY not in repr(caught.value)
        assert "***" in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-4"}, None),
        ({}, None),
    ],
)
def test_retry_after(server: ChatServer, headers: dict[str, str], seconds: float | None) -> None:
    with pytest.raises(RateLimited) as caught:
        ask(server, Status(429, headers=headers))
    assert caught.value.retry_after == seconds


def test_retry_after_as_a_date(server: ChatServer) -> None:
    with pytest.raises(RateLimited) as caught:
        ask(server, Status(429, headers={"Retry-After": email.utils.formatdate(time.time() + 600, usegmt=True)}))
    assert caught.value.retry_after == pytest.approx(600, abs=60)


def test_where_the_key_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENROUTER_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(KbevalError, match="OPENROUTER_API_KEY or OPENAI_API_KEY"):
        api_key("https://openrouter.ai/api/v1")
    assert api_key("http://localhost:11434/v1") == ("none", None)
    monkeypatch.setenv("OPENAI_API_KEY", "second")
    assert api_key("https://openrouter.ai/api/v1") == ("second", "OPENAI_API_KEY")
    monkeypatch.setenv("OPENROUTER_API_KEY", "first")
    assert api_key("http://localhost:11434/v1") == ("first", "OPENROUTER_API_KEY")


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://ollama.localhost/v1", True),
        ("http://10.0.0.1/v1", False),
        ("https://localhost.example.com/v1", False),
    ],
)
def test_which_addresses_are_this_machine(url: str, local: bool) -> None:
    assert is_loopback(url) is local


@pytest.mark.parametrize("url", ["openrouter.ai/api", "ftp://x/v1", "https://user:secret@host/v1"])
def test_a_bad_address_is_one_line(url: str) -> None:
    with pytest.raises(KbevalError, match="base_url: expected an address") as caught:
        ChatModel(url, "m")
    assert "secret" not in str(caught.value)


def completion(**more: Any) -> Status:
    """A completion that is spelled out, to be bent."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "How?"}}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [{**choice, **more}]}
    return Status(200, body=json.dumps(body))


def test_counts_that_are_none_are_estimated(server: ChatServer) -> None:
    for tokens in (-1_000_000, 10**30, 1.5, True, "many"):
        reply = json.loads(completion().body or "")
        reply["usage"] = {"prompt_tokens": tokens, "completion_tokens": tokens, "total_tokens": 1}
        answer = ask(server, Status(200, body=json.dumps(reply)))
        # "Hello there" and "How?" by the estimate, whatever the server says
        assert 0 < answer.prompt_tokens < 50
        assert 0 < answer.completion_tokens < 50


def test_a_message_that_is_no_object_fails_its_call_alone(server: ChatServer) -> None:
    with pytest.raises(Transient, match="malformed"):
        ask(server, completion(message="grade 3"))


def test_what_a_file_cannot_hold_is_not_in_an_answer(server: ChatServer) -> None:
    answer = ask(server, completion(message={"role": "assistant", "content": "How \ud800?"}))
    answer.text.encode()
    with pytest.raises(Refused) as caught:
        ask(server, completion(message={"role": "assistant", "content": None, "refusal": "no \ud800"}))
    str(caught.value).encode()


def test_an_answer_of_megabytes_is_cut_before_anybody_looks_at_it(server: ChatServer) -> None:
    answer = ask(server, completion(message={"role": "assistant", "content": "x" * 5_000_000}))
    assert len(answer.text) == 20_000


def test_log_probabilities_above_certainty_are_none(server: ChatServer) -> None:
    for value in (1000.0, 0.5):
        logprobs = {"content": [{"token": "3", "logprob": value, "bytes": None, "top_logprobs": []}]}
        assert ask(server, completion(logprobs=logprobs), logprobs=True).logprobs is None


def test_control_characters_of_a_server_reach_no_terminal(server: ChatServer) -> None:
    with pytest.raises(Permanent) as caught:
        ask(server, Status(400, "\x1b[31mbad\x1b]0;title\x07 request \u202e"))
    assert str(caught.value).isprintable()
    assert "bad" in str(caught.value)


@pytest.mark.parametrize("value", ["Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "soon", "-5"])
def test_no_date_of_a_server_breaks_anything(server: ChatServer, value: str) -> None:
    with pytest.raises(RateLimited) as caught:
        ask(server, Status(429, headers={"Retry-After": value}))
    assert caught.value.retry_after is None or caught.value.retry_after >= 0


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_nothing_is_sent_on_to_another_address(server: ChatServer, status: int) -> None:
    with serve_chat(lambda asked: question("Here?")) as other:
        moved = Status(status, headers={"Location": f"{other.url}/chat/completions"})
        with pytest.raises(Fatal, match=r"base_url: .* sends on to 127\.0\.0\.1:"):
            ask(server, moved)
        assert other.asked == []
