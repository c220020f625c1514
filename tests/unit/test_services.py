"""What is said when a remote service fails."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kbeval.engines.components.cohere_ranker import _units
from kbeval.engines.components.services import ServiceError, calling, checked_base_url
from kbeval.engines.http_answer import shown_bytes
from kbeval.errors import KbevalError


def said(error: Exception, monkeypatch: pytest.MonkeyPatch, key: str = "secret") -> str:
    monkeypatch.setenv("COHERE_API_KEY", key)
    with pytest.raises(ServiceError) as raised, calling("it", timeout_s=2.5, retries=1):
        raise error
    assert raised.value.__cause__ is error
    return str(raised.value)


class StatusError(Exception):
    def __init__(self, status_code: int, body: object) -> None:
        super().__init__(f"status {status_code} {body}")
        self.status_code = status_code
        self.body = body


class ReadTimeout(Exception):  # noqa: N818 - httpx's own name
    pass


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ReadTimeout("timed out"), "it: no answer within 2.5 s"),
        (StatusError(404, {"message": "no such\n model"}), "it: answered 404: no such model"),
        (StatusError(404, {"error": {"message": "none"}}), "it: answered 404: none"),
        (StatusError(503, "down"), "it: answered 503 to 2 requests: down"),
        (StatusError(400, None), "it: answered 400: status 400 None"),
        (OSError("connection\nlost"), "it: OSError: connection lost"),
        (KeyError("data"), "it: answered with a malformed body (KeyError: 'data')"),
    ],
)
def test_one_line_each(error: Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(error, monkeypatch) == message


def test_the_key_is_cut_out_before_the_text_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    text = said(StatusError(401, "x" * 190 + "s3cr3t-s3cr3t-s3cr3t"), monkeypatch, key="s3cr3t-s3cr3t-s3cr3t")
    assert "s3cr3t" not in text
    assert len(text) < 240


def test_a_key_that_stands_where_a_body_is_cut_is_hidden_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secretsecretsecretsecret")
    for blanks in range(900, 1000):  # which are put together before the text is cut
        assert "sk-s" not in shown_bytes(b'{"h":' + b" " * blanks + b'"sk-secretsecretsecretsecret"}')


@pytest.mark.parametrize(
    ("billed", "units"),
    [(2, 2), (1.2, 2), (0, 0), (-5, 3), (1e300, 3), (float("nan"), 3), ("2", 3), (None, 3)],
)
def test_units_that_cannot_have_been_billed_are_a_hundred_documents_each(billed: object, units: int) -> None:
    answer = SimpleNamespace(meta=SimpleNamespace(billed_units=SimpleNamespace(search_units=billed)))
    assert _units(answer, 250) == units


def test_our_own_errors_pass() -> None:
    for error in (KbevalError("as it is"), ServiceError("as it is")):
        with (
            pytest.raises(type(error), match=r"^as it is$"),
            calling("it", timeout_s=1, retries=0),
        ):
            raise error


def test_an_address_loses_its_trailing_slash() -> None:
    assert checked_base_url("x", "https://host/path/") == "https://host/path"
