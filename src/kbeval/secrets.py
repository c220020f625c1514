"""Keeps keys and passwords out of everything that is written or printed."""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote

SECRET_VARIABLES = (
    "COHERE_API_KEY",
    "CO_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "PGPASSWORD",
)

HIDDEN = "***"

_named_by_settings: set[str] = set()

# The scheme is bounded: an answer of megabytes without a blank must not be searched from each of its letters.
_URI_PASSWORD = re.compile(r"(?P<head>\b\w{1,30}://[^\s:/@]{0,1000}:)(?P<secret>[^\s@/]{1,4000})(?=@)")
_KEYWORD_PASSWORD = re.compile(r"(?P<head>\b(?:ssl)?password\s*=\s*)(?P<secret>'(?:[^'\\]|\\.)*'|[^\s&]+)", re.I)


def is_secret(variable: str) -> None:
    """From now on the value of this environment variable is a secret: settings said that it holds a key."""
    _named_by_settings.add(variable)


def scrub(text: str) -> str:
    """``text`` with every known secret replaced by ``***``.

    Known are the values of the variables that hold keys, and passwords in anything that looks like a DSN, in
    its URI or its keyword form.
    """
    for variable in (*SECRET_VARIABLES, *sorted(_named_by_settings)):
        value = os.environ.get(variable, "")
        if len(value) >= 4:  # shorter ones would blank out ordinary words
            for form in {value, quote(value, safe=""), unquote(value)}:
                text = text.replace(form, HIDDEN)
    text = _URI_PASSWORD.sub(rf"\g<head>{HIDDEN}", text)
    return _KEYWORD_PASSWORD.sub(rf"\g<head>{HIDDEN}", text)


def one_line(error: BaseException, limit: int = 400) -> str:
    """An exception as one line without secrets: its type, then its message, cut at ``limit`` characters.

    Whatever it is, this is a line that a file can hold: an exception whose own message fails is one of its type.
    """
    try:
        message = " ".join(str(error).split())
    except (Exception, SystemExit) as another:
        message = f"its message cannot be had, for that raises {type(another).__name__}"
    line = f"{type(error).__name__}: {message}" if message else type(error).__name__
    line = well_formed(scrub(line))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def well_formed(text: str) -> str:
    """The text with ``?`` for lone surrogates, which JSON can spell and no file can hold."""
    return text.encode("utf-8", "replace").decode()
