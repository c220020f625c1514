"""The test set as one flat table, JSON or Parquet, for whoever reads it with pandas, polars or DuckDB."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class FlatQuestion:
    """One question and what answers it.

    Attributes:
        relevant_chunk_ids: chunks of the relevant documents that answer it, where it is known which they are.
        relevant_document_ids, grades: documents with a grade above 0, best first, and these grades.
        level: from which grade on a document counts as relevant; the same in every row.
        answerable: false where the corpus is known not to answer it.
        overlap: the share of its content words that its gold text holds.
    """

    id: str
    query: str
    relevant_chunk_ids: list[str]
    relevant_document_ids: list[str]
    grades: list[int]
    level: int
    domain: str | None
    source: str | None
    style: str | None
    answerable: bool
    overlap: float | None


def questions_as_json(questions: Sequence[FlatQuestion]) -> bytes:
    """A JSON list of objects, whose keys are the fields of ``FlatQuestion``."""
    rows = [asdict(question) for question in questions]
    return orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def questions_as_parquet(questions: Sequence[FlatQuestion]) -> bytes:
    """A Parquet file with a row a question, whose columns are the fields of ``FlatQuestion``."""
    import polars as pl

    text, texts = pl.String(), pl.List(pl.String())
    schema: dict[str, pl.DataType] = {
        "id": text,
        "query": text,
        "relevant_chunk_ids": texts,
        "relevant_document_ids": texts,
        "grades": pl.List(pl.Int64()),
        "level": pl.Int64(),
        "domain": text,
        "source": text,
        "style": text,
        "answerable": pl.Boolean(),
        "overlap": pl.Float64(),
    }
    stream = io.BytesIO()
    pl.DataFrame([asdict(question) for question in questions], schema=schema).write_parquet(stream)
    return stream.getvalue()
