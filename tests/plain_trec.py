"""A reader for the tests of what is computed, as plain as it gets: blanks separate, nothing is checked.

Independent of kbeval's own readers, so that a fault in those cannot hide one in the metrics.
"""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import polars as pl

from kbeval.model import Qrels, Run

if TYPE_CHECKING:
    from pathlib import Path

_ASCII_BLANKS = re.compile(r"[ \t\n\r\f\v]+")


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()


def fields(text: str) -> list[list[str]]:
    return [_ASCII_BLANKS.split(line.strip()) for line in text.split("\n") if line.strip()]


def qrels_of(rows: list[tuple[str, str, int]]) -> Qrels:
    frame = pl.DataFrame(rows, schema={"query": pl.String, "document": pl.String, "grade": pl.Int64}, orient="row")
    return Qrels(frame.sort("query", "grade", "document", descending=[False, True, True]))


def run_of(rows: list[tuple[str, str, float]], name: str = "run") -> Run:
    frame = pl.DataFrame(rows, schema={"query": pl.String, "document": pl.String, "score": pl.Float64}, orient="row")
    return Run(name, frame.sort("query", "score", "document", descending=[False, True, True]))


def qrels_from(text: str) -> Qrels:
    """Reads TREC qrels, or BEIR's with a header."""
    rows = fields(text)
    if rows[0][0] == "query-id":
        return qrels_of([(query, document, int(grade)) for query, document, grade in rows[1:]])
    return qrels_of([(query, document, int(grade)) for query, _, document, grade in rows])


def run_from(text: str, name: str = "run") -> Run:
    return run_of([(row[0], row[2], float(row[4])) for row in fields(text)], name)
