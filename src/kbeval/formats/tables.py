"""Tables that people export: CSV, JSON lines, a JSON list or Parquet, plain or gzipped, told apart by content.

What is wrong with a row is said without quoting it: a log holds what people wrote.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.errors import InputError
from kbeval.formats.text import BLANKS, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PARQUET = b"PAR1"
_SEPARATORS = ",;\t|"
_NOTHING = _SEPARATORS + " \r\n\v\f"  # what a line holds that is not yet the one with the columns
_FIELD_LIMIT = 2**27


@dataclass(frozen=True)
class Row:
    """One row: its values by column, and its line (in Parquet and JSON lists its number), from 1."""

    line: int
    values: dict[str, Any]


def read_json(path: Path) -> Any:
    """The JSON value that a file is, or None where it is no single value.

    Raises:
        InputError: it is not readable.
    """
    data = read_bytes(path)
    if not data.lstrip(BLANKS).startswith((b"{", b"[")):
        return None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def read_table(path: Path) -> list[Row]:
    """The rows of a table.

    Raises:
        InputError: it is none of the formats, has no row, or a row that cannot be read.
    """
    data = read_bytes(path)
    if data.startswith(_PARQUET):
        rows = list(_parquet(path, data))
    elif data.lstrip(BLANKS).startswith(b"["):
        rows = list(_json_list(path, data))
    elif data.lstrip(BLANKS).startswith(b"{"):
        rows = list(_json_lines(path, data))
    else:
        rows = list(_csv(path, data))
    if not rows:
        raise InputError(path, expected="at least one row", found="none")
    return rows


def _parquet(path: Path, data: bytes) -> Iterator[Row]:
    import polars as pl

    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except pl.exceptions.PolarsError:
        raise InputError(path, expected="a Parquet file", found="a damaged one") from None
    for number, values in enumerate(frame.iter_rows(named=True), start=1):
        yield Row(number, values)


def _json_list(path: Path, data: bytes) -> Iterator[Row]:
    try:
        values = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(path, line=error.lineno, expected="JSON", found=str(error.msg)) from None
    for number, value in enumerate(values, start=1):
        yield Row(number, _object(path, number, value))


def _json_lines(path: Path, data: bytes) -> Iterator[Row]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip(BLANKS):
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(path, line=number, expected="a JSON object", found=str(error.msg)) from None
            yield Row(number, _object(path, number, value))


def _object(path: Path, number: int, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(path, line=number, expected="a JSON object", found=f"a {type(value).__name__}")
    return value


def _csv(path: Path, data: bytes) -> Iterator[Row]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{data[error.start]:02x} (save it as UTF-8)"
        raise InputError(path, line=line, expected="CSV, JSON or Parquet in UTF-8", found=found) from None
    if "\0" in text:
        raise InputError(path, expected="CSV, JSON or Parquet", found="other bytes")
    lines = io.StringIO(text, newline=None)
    header_line = next((line for line in lines if line.strip(_NOTHING)), "")  # as the reader skips
    separator = max(_SEPARATORS, key=header_line.count)
    csv.field_size_limit(_FIELD_LIMIT)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() if header else cell.strip(_NOTHING) for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                if twice := {name for name in header if header.count(name) > 1}:
                    raise InputError(
                        path, line=reader.line_num, expected="each column once", found=f"{min(twice)!r} twice"
                    )
                continue
            if len(cells) != len(header):
                raise InputError(
                    path, line=reader.line_num, expected=f"{len(header)} columns", found=f"{len(cells)} columns"
                )
            yield Row(reader.line_num, dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise InputError(path, line=reader.line_num, expected="CSV", found=str(error)) from None
