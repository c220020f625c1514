"""What an HTTP engine sends: its templates filled by value, its headers from the environment."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from kbeval.errors import KbevalError
from kbeval.secrets import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{(query|k)\}")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_WHOLE_VARIABLE = re.compile(r"env:(\w+)")
_LIKE_A_KEY = re.compile(r"auth|cookie|token|secret|password|api-?key", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")


def filled(template: Any, query: str, k: int) -> Any:
    """A copy of a parsed structure with ``{query}`` and ``{k}`` in its texts replaced.

    A text that is ``{k}`` and nothing else becomes a number. Structures are filled and not JSON texts, so that nothing
    in a query can end a string; and in one pass, so that a query that says ``{k}`` stays as it is.
    """
    if isinstance(template, dict):
        return {key: filled(value, query, k) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(value, query, k) for value in template]
    if not isinstance(template, str):
        return template
    if template == "{k}":
        return k
    return _PLACEHOLDER.sub(lambda match: query if match[1] == "query" else str(k), template)


def filled_url(template: str, query: str, k: int) -> str:
    """An address with its placeholders replaced, as one path segment or one value of its query string."""
    return _PLACEHOLDER.sub(lambda match: quote(query, safe="") if match[1] == "query" else str(k), template)


def mentions(template: Any, placeholder: str) -> bool:
    """Whether a structure has ``{placeholder}`` in any of its texts."""
    if isinstance(template, dict):
        return any(mentions(value, placeholder) for value in template.values())
    if isinstance(template, list):
        return any(mentions(value, placeholder) for value in template)
    return isinstance(template, str) and f"{{{placeholder}}}" in template


def checked_url(url: str) -> str:
    """An http(s) address with a host, in which no placeholder stands before the path, and no password anywhere.

    Raises:
        ValueError: it is none; the message does not repeat it.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable, parts = False, urlsplit("")
    if not usable or "{" in parts.netloc or not url.isascii() or any(ord(each) <= 0x20 for each in url):
        raise ValueError("expected url to be an address like https://host/path, found something else")
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected url without user and password (keys belong in headers), found one with them")
    return url


def checked_headers(headers: object) -> dict[str, str]:
    """Headers whose values may name environment variables, and do where they look like a key's place.

    Raises:
        ValueError: no table of texts, a name that is none, or a key that is written out. The message does not repeat
            the value.
    """
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ValueError("expected headers to be a table of texts, found something else")
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"expected headers with names like X-Tenant, found {name!r}")
        if _LIKE_A_KEY.search(name) and not (_WHOLE_VARIABLE.fullmatch(value) or _VARIABLE.search(value)):
            raise ValueError(
                f"expected headers.{name} to come from the environment (env:VARIABLE, or Bearer ${{VARIABLE}}), "
                "found a value that is written out"
            )
    return dict(headers)


def resolved_headers(label: str, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with the values of the environment; from now on these are secrets, kept out of every message.

    Raises:
        KbevalError: a variable is not set, or its value cannot stand in a header.
    """
    resolved = {}
    for name, template in headers.items():
        whole = _WHOLE_VARIABLE.fullmatch(template)
        value = _VARIABLE.sub(lambda match: _variable(label, match[1]), f"${{{whole[1]}}}" if whole else template)
        if not _HEADER_VALUE.fullmatch(value):
            raise KbevalError(f"engine {label}: expected headers.{name} to be printable ASCII, found something else")
        resolved[name] = value
    return resolved


def _variable(label: str, name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise KbevalError(f"engine {label} needs a key: set the environment variable {name}")
    is_secret(name)
    return value
