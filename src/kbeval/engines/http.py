"""``http`` engines: an endpoint that is asked over HTTP and answers in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from kbeval.config import LONGEST_S
from kbeval.engines.base import Answer, BuildContext, Engine, EngineSettings
from kbeval.engines.event_loop import EngineLoop
from kbeval.engines.http_answer import Picker, read_answer, unusable
from kbeval.engines.http_request import (
    checked_headers,
    checked_url,
    filled,
    filled_url,
    mentions,
    resolved_headers,
)
from kbeval.engines.results import ask_for_documents

if TYPE_CHECKING:
    from kbeval.engines.http_client import Client, Received

_FIXED = "The request does not say k: it returns as many results as it is set to."


class HttpSettings(EngineSettings):
    """How an endpoint is asked, and where its answer has the ids.

    Attributes:
        url: the address; ``{query}`` and ``{k}`` in it are percent-encoded.
        method: of the request.
        body: sent as JSON; a table, or a text that holds JSON. ``{query}`` and ``{k}`` in its texts are replaced.
        params: the query string, in the same way.
        headers: values may come from the environment: ``env:VARIABLE``, or ``Bearer ${VARIABLE}``.
        ids, scores: JMESPath expressions that find a list each in the answer. Without ``scores`` the order of the
            ids is the ranking. Ids of the documents, where the results are chunks: the first of each counts.
        fetch: results asked for first; doubled until they are of k documents, where the request says ``{k}``.
        timeout_s: seconds for a request, from connecting to the last byte.
        retries: how often one is repeated after 429, 502, 503, 504 or a broken connection.
        max_wait_s: the longest ``Retry-After`` that is waited.
        max_bytes: the longest answer that is read.
    """

    url: str
    method: Literal["GET", "POST", "PUT"] = "POST"
    body: Any = None
    params: dict[str, str | int | float | bool] = Field(default={})
    headers: dict[str, str] = Field(default={})
    ids: str
    scores: str | None = None
    fetch: int | None = Field(default=None, ge=1)
    timeout_s: float = Field(default=30.0, gt=0, le=LONGEST_S)
    retries: int = Field(default=2, ge=0)
    max_wait_s: float = Field(default=60.0, ge=0, le=LONGEST_S)
    max_bytes: int = Field(default=16_000_000, ge=1)

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        return checked_url(value)

    @field_validator("headers", mode="before")
    @classmethod
    def _no_keys(cls, value: object) -> dict[str, str]:
        return checked_headers(value)

    @field_validator("body")
    @classmethod
    def _parsed(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        import orjson

        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"expected body to be a table, or JSON as text, found {error}") from None

    @field_validator("ids", "scores")
    @classmethod
    def _expression(cls, value: str | None, info: Any) -> str | None:
        if value is not None:
            Picker(info.field_name, value)
        return value

    @model_validator(mode="after")
    def _fit(self) -> HttpSettings:
        if not self.says("query"):
            raise ValueError('expected "{query}" in body, params or url, found it nowhere')
        if self.fetch is not None and not self.says("k"):
            raise ValueError('fetch needs "{k}" in body, params or url, found it nowhere')
        if self.method == "GET" and self.body is not None:
            raise ValueError('expected params and no body, as method is "GET", found a body')
        if self.params and "?" in self.url:
            raise ValueError("expected the query string in params alone, found one in url as well")
        return self

    def says(self, placeholder: str) -> bool:
        """Whether a request says the query, or k."""
        return any(mentions(template, placeholder) for template in (self.body, self.params, self.url))


class HttpEngine(Engine):
    """Asks an endpoint, over connections that stay open; several questions side by side where that is asked for."""

    type: ClassVar[str] = "http"
    thread_safe = True
    deterministic = False  # nothing is known about what answers there

    def __init__(self, settings: HttpSettings, headers: dict[str, str]) -> None:
        from kbeval.engines.http_client import Client

        self._settings = settings
        self._service = f"http {settings.url.partition('?')[0]}"
        self._ids = Picker("ids", settings.ids)
        self._scores = Picker("scores", settings.scores) if settings.scores is not None else None
        self._says_k = settings.says("k")
        self._below_k: set[str] = set()
        self._loop = EngineLoop("http")
        self._client: Client = Client(
            self._service,
            headers=headers,
            timeout_s=settings.timeout_s,
            retries=settings.retries,
            max_wait_s=settings.max_wait_s,
            max_bytes=settings.max_bytes,
        )
        if not self._says_k:
            self.notes = (_FIXED,)

    @classmethod
    def build(cls, settings: HttpSettings, context: BuildContext) -> HttpEngine:  # noqa: ARG003
        """Reads the keys from the environment; the first request is sent by the first query.

        Raises:
            KbevalError: a variable that a header names is not set.
        """
        return cls(settings, resolved_headers(f"http {settings.url.partition('?')[0]}", settings.headers))

    def retrieve(self, query: str, k: int) -> Answer:
        """Ranks as the endpoint does.

        Raises:
            ServiceError: no usable answer came.
        """
        answers: list[Received] = []

        def ask(count: int) -> list[tuple[str, float]]:
            received = self._loop.run(self._client.send(**self._request(query, count)))
            answers.append(received)
            try:
                return read_answer(received.body, self._ids, self._scores)
            except ValueError as error:
                raise unusable(self._service, error) from None

        answer = ask_for_documents(ask, k, fetch=self._settings.fetch, growing=self._says_k, repeats_count=True)
        if not self._says_k and len(answer.hits) < k:
            self._below_k.add(query)
        return Answer(
            hits=answer.hits,
            repeats=answer.repeats,
            seconds={"request": sum(each.seconds for each in answers)},
            retries=sum(each.retries for each in answers),
            waited=sum(each.waited for each in answers),
        )

    def configuration(self) -> dict[str, Any]:
        """The settings; headers as they are written, with the names of variables and not their values."""
        return self._settings.model_dump(mode="json")

    def counts(self) -> dict[str, int]:
        """Requests sent since it was built, and how many of them repeated another."""
        counts = {"requests": self._client.requests, "retries": self._client.retries}
        return counts if self._says_k else {**counts, "questions_below_k": len(self._below_k)}

    def close(self) -> None:
        if self._client.requests:
            self._loop.run(self._client.close())
        self._loop.close()

    def _request(self, query: str, count: int) -> dict[str, Any]:
        settings = self._settings
        request: dict[str, Any] = {"method": settings.method, "url": filled_url(settings.url, query, count)}
        if settings.params:
            request["params"] = filled(settings.params, query, count)
        if settings.body is not None:
            request["json"] = filled(settings.body, query, count)
        return request
