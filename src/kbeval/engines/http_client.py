"""Sends an HTTP engine's requests: within a deadline, repeated where that can help, and never anywhere else."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx

from kbeval.engines.components.services import ServiceError
from kbeval.engines.http_answer import shown_bytes
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_TRANSIENT = (429, 502, 503, 504)
_FIRST_WAIT_S = 0.5
_LONGEST_BACKOFF_S = 30.0
# What the network did to a request that may do well the next time; not a malformed header or address.
_CONNECTION = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)


@dataclass(frozen=True)
class Received:
    """An answer: its body, and the seconds that the request behind it took (waits and earlier ones apart)."""

    body: bytes
    seconds: float
    retries: int = 0
    waited: float = 0.0


class Client:
    """A client for one endpoint that keeps its connections open. Its coroutines belong to one event loop.

    Redirects are not followed: they would carry the headers, keys and all, to wherever an answer says.

    Attributes:
        requests, retries: requests that were sent, and how many of them repeated another.

    Args:
        service: what is called, for messages.
        timeout_s: for a whole request, from connecting to the last byte.
        retries: how often a request is repeated after 429, 502, 503, 504 or a broken connection.
        max_wait_s: a longer wait that a server asks for is not waited.
        max_bytes: longest body, unpacked.
    """

    def __init__(
        self,
        service: str,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        retries: int,
        max_wait_s: float,
        max_bytes: int,
    ) -> None:
        self.requests = 0
        self.retries = 0
        self._service = service
        self._timeout_s = timeout_s
        self._retries = retries
        self._max_wait_s = max_wait_s
        self._max_bytes = max_bytes
        self._client = httpx.AsyncClient(
            headers={"Accept": "application/json", "User-Agent": "kbeval", **headers},
            timeout=None,  # noqa: S113 - httpx counts silence alone; the deadline below counts everything
            follow_redirects=False,
        )

    async def send(self, **request: Any) -> Received:
        """Sends a request (the arguments of ``httpx.AsyncClient.request``) and returns a 2xx answer.

        Raises:
            ServiceError: in one line, for whatever else comes of it.
        """
        waited = 0.0
        for attempt in range(self._retries + 1):
            self.requests += 1
            self.retries += attempt > 0
            started = time.perf_counter()
            try:
                async with asyncio.timeout(self._timeout_s):
                    response, body = await self._exchange(request)
            except TimeoutError:
                raise self._failure(f"no answer within {self._timeout_s:g} s") from None
            except httpx.RequestError as error:
                what = type(error).__name__ if isinstance(error, httpx.LocalProtocolError) else one_line(error, 200)
                if not isinstance(error, _CONNECTION) or attempt == self._retries:
                    raise self._failure(what, attempt) from None
                await asyncio.sleep(_backoff(attempt))
                waited += _backoff(attempt)
                continue
            if response.is_success:
                return Received(body, time.perf_counter() - started, attempt, waited)
            what = _refusal(response, body)
            if response.status_code not in _TRANSIENT or attempt == self._retries:
                raise self._failure(what, attempt)
            wait = _retry_after(response, attempt)
            if wait > self._max_wait_s:
                raise self._failure(f"{what}; it asks for a wait of {wait:.0f} s, max_wait_s is {self._max_wait_s:g}")
            await asyncio.sleep(wait)
            waited += wait
        raise AssertionError("unreachable")  # pragma: no cover

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def _exchange(self, request: Mapping[str, Any]) -> tuple[httpx.Response, bytes]:
        body = bytearray()
        async with self._client.stream(**request) as response:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > self._max_bytes:
                    raise self._failure(f"answered {response.status_code} with more than {self._max_bytes} bytes")
        return response, bytes(body)

    def _failure(self, what: str, attempt: int = 0) -> ServiceError:
        times = f" ({attempt + 1} requests)" if attempt else ""
        return ServiceError(f"{self._service}: {what}{times}")


def _refusal(response: httpx.Response, body: bytes) -> str:
    status = response.status_code
    if response.has_redirect_location:
        to = shown_bytes(response.headers["Location"].encode())
        return f"answered {status}, a redirect to {to}, which is not followed: set url to where it should go"
    return f"answered {status}: {shown_bytes(body)}"


def _retry_after(response: httpx.Response, attempt: int) -> float:
    """Seconds until the next request: what the server asks for, in seconds or as a date, else the back-off."""
    asked = response.headers.get("Retry-After", "").strip()
    if asked.isascii() and asked.isdigit():
        return float(asked)
    try:
        return max(0.0, parsedate_to_datetime(asked).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return _backoff(attempt)


def _backoff(attempt: int) -> float:
    return min(_FIRST_WAIT_S * 2.0**attempt, _LONGEST_BACKOFF_S)
