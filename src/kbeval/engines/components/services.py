"""Talking about remote services: one clear line for each way in which a call can fail, and never the key."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kbeval.engines.metering import one_call
from kbeval.errors import KbevalError
from kbeval.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Iterator

# Longest piece of a server's own words that is worth a line.
_QUOTE_LENGTH = 200


class ServiceError(Exception):
    """A remote service did not give a usable answer. The message is one line and holds no secret."""


def require_key(variable: str, purpose: str) -> None:
    """Makes sure that the environment holds a key, before any work is done.

    Raises:
        KbevalError: naming the variable, where it is unset or blank.
    """
    if not os.environ.get(variable, "").strip():
        raise KbevalError(f"{purpose} needs a key: set the environment variable {variable}")


def checked_base_url(name: str, url: str) -> str:
    """Returns ``url`` without a trailing slash.

    Raises:
        KbevalError: unless it is http(s) with a host; also where it holds a user or password, which would end
            up in run files. The message does not repeat the address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KbevalError(f"{name}: expected an address like https://host/path, found something else")
    if parts.username is not None or parts.password is not None:
        raise KbevalError(f"{name}: expected an address without user and password; keys belong in the environment")
    return url.rstrip("/")


@contextmanager
def calling(service: str, *, timeout_s: float, retries: int) -> Iterator[None]:
    """Turns whatever a client raises inside the block into a :class:`ServiceError`.

    The block is one call: every request in it but the first counts as a retry.

    Args:
        service: what is called, for the message, such as ``cohere:rerank-v3.5``.
        timeout_s: the seconds that the client waits.
        retries: how often the client repeats a request that can be repeated.
    """
    try:
        with one_call():
            yield
    except (ServiceError, KbevalError):
        raise
    except Exception as error:
        raise ServiceError(f"{service}: {_reason(error, timeout_s, retries)}") from error


def _reason(error: Exception, timeout_s: float, retries: int) -> str:
    status = getattr(error, "status_code", None)
    # httpx, httpx2 and openai each have timeout classes of their own, with nothing in common but their names.
    if "Timeout" in type(error).__name__:
        return f"no answer within {timeout_s:g} s"
    if isinstance(status, int):
        said = _quoted(_said(error))
        if status < 300:
            return f"answered {status} with a malformed body: {said}"
        repeated = status in (408, 409, 429) or status >= 500
        return f"answered {status}{f' to {retries + 1} requests' if repeated and retries else ''}: {said}"
    what = f"{type(error).__name__}: {_quoted(str(error))}"
    # Clients do not check what they parse: a body of the wrong shape fails somewhere inside them.
    if isinstance(error, TypeError | ValueError | LookupError | AttributeError):
        return f"answered with a malformed body ({what})"
    return what


def _said(error: Exception) -> str:
    """The server's own words: the message in a JSON body where there is one, else the body."""
    body: Any = getattr(error, "body", None)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return str(body["message"])
    return str(error) if body is None else str(body)


def _quoted(text: str) -> str:
    """A server's words as one line of bounded length. Some repeat the key that they were sent."""
    text = " ".join(scrub(text).split())
    return text if len(text) <= _QUOTE_LENGTH else text[:_QUOTE_LENGTH] + "..."
