"""Ids on their way into TREC files, where a blank ends them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.formats._fields import show

if TYPE_CHECKING:
    import polars as pl

_ESCAPED = re.compile(r"[\s%\x00\ufeff]")  # \s: also the blanks at which Python's split() would cut
_ESCAPE = re.compile(r"(?:%[0-9A-F]{2})+")
_NOT_IN_TREC = r"^$|^\x{FEFF}|[ \t\r\n\x0B\x0C\x00]"


def escape_id(identifier: str) -> str:
    """Percent-encodes what a TREC id may not hold: every blank, NUL, a byte order mark, and ``%`` itself."""
    return _ESCAPED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), identifier)


def unescape_id(identifier: str) -> str:
    """Undoes ``escape_id``. What it cannot have written stays as it is."""

    def decode(match: re.Match[str]) -> str:
        try:
            return bytes.fromhex(match[0].replace("%", "")).decode()
        except UnicodeDecodeError:
            return match[0]

    return _ESCAPE.sub(decode, identifier)


def trec_ids(ids: pl.Series, *, escape: bool) -> pl.Series:
    """Ids as they are written to a TREC file.

    Args:
        ids: a column of ids.
        escape: percent-encode them all.

    Raises:
        KbevalError: an id is empty, or cannot be written without ``escape``.
    """
    if escape:
        distinct = ids.unique()
        ids = ids.replace_strict(distinct, [escape_id(value) for value in distinct], return_dtype=ids.dtype)
    refused = ids.filter(ids.str.contains(_NOT_IN_TREC))
    if len(refused):
        raise KbevalError(f"a TREC file cannot hold {_why_not(refused[0])}")
    return ids


def _why_not(identifier: str) -> str:
    if not identifier:
        return "an empty id"
    holds = "a blank"
    if "\x00" in identifier:
        holds = "a NUL"
    elif identifier.startswith("\ufeff"):
        holds = "a byte order mark"
    return f"the id {show(identifier)}, which holds {holds} (--escape-ids writes it percent-encoded)"


def trec_lines(table: pl.DataFrame) -> bytes:
    """A table as lines of blank-separated columns. Numbers are written so that they read back exactly."""
    return table.write_csv(include_header=False, separator=" ", quote_style="never").encode()
