"""From bytes to fields: where they are in a line, what they say, and how to say that they are wrong.

There are two ways here, and they give the same. Whole blocks are cut by array operations and read by polars;
``split`` and the numbers below take one line, and find the words for an error.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.errors import InputError
from kbeval.formats.text import BLANKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_TAB, _LF, _CR = b"\t\n\r"
_IS_BLANK = np.zeros(256, dtype=bool)
_IS_BLANK[list(BLANKS)] = True
_SHOWN = 60
_COMPLETE = "complete"

_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BLANK_RUN = re.compile(rb"[ \t\r\n\v\f]+")


class FieldTable:
    """Where the fields of each line in a block are: runs of bytes between blanks.

    Attributes:
        lines: how many lines the block has.
        starts, ends: for each field, the place of its first byte and of the byte behind its last.
        counts: for each line, how many fields it has.
    """

    def __init__(self, block: bytes, *, tabs_only: bool = False) -> None:
        """Cuts ``block``, which is made of whole lines that end with LF.

        With ``tabs_only`` fields are what stands between tabs, blanks and all; the CRs before an LF belong to
        the line's end, and a line of blanks has no field.
        """
        self._bytes = np.frombuffer(block, dtype=np.uint8)
        self._line_ends = np.flatnonzero(self._bytes == _LF)
        self._line_starts = np.concatenate(([0], self._line_ends[:-1] + 1))
        self.lines = len(self._line_ends)
        self.starts, self.ends = self._tabbed() if tabs_only else self._blanked()
        fields_so_far = np.searchsorted(self.starts, self._line_ends, side="right")
        self.counts = np.diff(fields_so_far, prepend=0)

    def _blanked(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        blank = np.concatenate(([True], _IS_BLANK[self._bytes]))
        edges = np.flatnonzero(blank[1:] != blank[:-1])
        return edges[0::2], edges[1::2]

    def _tabbed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts, stops = self._line_starts, self._line_ends.copy()
        while (ending := (stops > starts) & (self._bytes[stops - 1] == _CR)).any():
            stops[ending] -= 1
        filled = np.logical_or.reduceat(~_IS_BLANK[self._bytes], starts)
        tabs = np.flatnonzero(self._bytes == _TAB)
        tabs = tabs[filled[np.searchsorted(self._line_ends, tabs)]]
        return (
            np.sort(np.concatenate((starts[filled], tabs + 1))),
            np.sort(np.concatenate((stops[filled], tabs))),
        )

    def firsts(self) -> NDArray[np.int64]:
        """The first field of each line that has one."""
        first = np.cumsum(self.counts) - self.counts
        return first[self.counts > 0]

    def lines_beginning_with(self, byte: bytes) -> NDArray[np.bool_]:
        """For each line, whether its first byte is ``byte``."""
        begins: NDArray[np.bool_] = self._bytes[self._line_starts] == byte[0]
        return begins

    def text_of_line(self, number: int) -> bytes:
        """A line, without its LF."""
        return self._bytes[self._line_starts[number] : self._line_ends[number]].tobytes()

    def compact(self, fields: NDArray[np.int64]) -> bytes:
        """The chosen fields alone, separated by tabs, a line each row.

        Args:
            fields: numbers of fields, of shape (rows, columns), ascending.
        """
        starts, ends = self.starts[fields].ravel(), self.ends[fields].ravel()
        steps = np.zeros(len(self._bytes) + 1, dtype=np.int8)
        steps[starts] += 1
        steps[ends + 1] -= 1  # the byte behind a field becomes its separator
        separated = self._bytes.copy()
        separated[ends] = _TAB
        separated[self.ends[fields[:, -1]]] = _LF
        compact: bytes = separated[np.cumsum(steps[:-1], dtype=np.int8).view(bool)].tobytes()
        return compact


def read_columns(
    block: bytes,
    columns: Mapping[str, type[pl.DataType]],
    *,
    separator: str,
    kept: Sequence[str] | None = None,
) -> pl.DataFrame | None:
    """Reads a block in which each line holds exactly ``columns``, with one separator between them.

    Args:
        block: whole lines.
        columns: name and type of each column.
        separator: one byte.
        kept: the columns that are wanted; all without it. The others must be there all the same.

    Returns:
        A frame without nulls, not-a-numbers and infinities; None where polars cannot read the block so, which
        is no error yet.
    """
    kept = list(columns) if kept is None else kept
    others = [pl.col(name).is_not_null() for name in columns if name not in kept]
    table = pl.scan_csv(block, has_header=False, separator=separator, quote_char=None, schema=dict(columns)).select(
        *kept, pl.all_horizontal(pl.lit(True), *others).alias(_COMPLETE)
    )
    try:
        frame = table.collect()
    except pl.exceptions.PolarsError:
        return None
    if not frame[_COMPLETE].all():
        return None
    for column in (frame[name] for name in kept):
        if column.null_count() or (column.dtype == pl.Float64 and not column.is_finite().all()):
            return None
    return frame.select(kept)


def sole_separator(block: bytes) -> str | None:
    """The blank that separates fields wherever one does, if there is only one kind: ``" "`` or a tab.

    None is no error: it is how a block looks that ``FieldTable`` has to cut.
    """
    if any(blank in block for blank in (b"\r", b"\v", b"\f")):
        return None
    space, tab = b" " in block, b"\t" in block
    return None if space == tab else (" " if space else "\t")


def is_plain_text(block: bytes) -> bool:
    """Whether no line of a block could be refused by ``check_plain_text``. False means: look at each line."""
    if block.isascii():
        return b"\0" not in block
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in block and b"\xef\xbb\xbf" not in block


def check_plain_text(path: Path, number: int, line: bytes) -> None:
    """Refuses a line that is not text.

    Raises:
        InputError: it is not valid UTF-8, holds a NUL byte, or begins with a byte order mark.
    """
    try:
        line.decode()
    except UnicodeDecodeError as error:
        found = f"the byte 0x{line[error.start]:02x} in {show(line)}"
        raise InputError(path, expected="UTF-8 text", found=found, line=number) from None
    if b"\0" in line:
        raise InputError(path, expected="UTF-8 text", found=f"a NUL byte in {show(line)}", line=number)
    if line.lstrip(BLANKS).startswith(b"\xef\xbb\xbf"):
        found = "another one inside the file"
        raise InputError(path, expected="a byte order mark at the start only", found=found, line=number)


def split(line: bytes, most: int = 0) -> list[bytes]:
    """The fields of a line: what stands between runs of the six ASCII blanks.

    With ``most`` the last of so many fields is the rest of the line, blanks inside and all.
    """
    text = line.strip(BLANKS)
    return _BLANK_RUN.split(text, maxsplit=max(most - 1, 0)) if text else []


def decimal(field: bytes) -> float | None:
    """The value of a complete decimal float, or None: no nan, inf, hexadecimal, comma or underscore."""
    if not _DECIMAL.fullmatch(field):
        return None
    value = float(field)
    return value if math.isfinite(value) else None


def whole(field: bytes) -> int | None:
    """The value of a decimal float that is a whole number (``2``, ``1.0``), or None."""
    value = decimal(field)
    return int(value) if value is not None and value.is_integer() else None


def show(value: bytes | str) -> str:
    """A field or an id as a message can hold it: quoted, escaped, and cut where it is long."""
    shown = repr(value if isinstance(value, str) else value.decode(errors="backslashreplace"))
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


def show_pair(query: str, document: str) -> str:
    """A document of a query, as it is named in a message."""
    return f"document {show(document)} of query {show(query)}"
