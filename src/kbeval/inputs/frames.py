"""Finds the query, the document and the value among the columns of a polars or pandas frame."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl

from kbeval.errors import KbevalError
from kbeval.inputs.values import found, ids_of, numbers_of
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

# Names that tools use for the same thing, lower case; the first line that a frame has a name of decides, since
# PyTerrier's frames hold the text of the query beside its id, and a number of the document beside its name.
_NAMES: dict[str, tuple[tuple[str, ...], ...]] = {
    "query": (("query_id", "query-id", "qid", "q_id", "queryid", "topic_id"), ("query", "topic")),
    "document": (
        ("docno", "doc_id", "doc-id", "document_id", "document-id", "corpus_id", "corpus-id"),
        ("docid", "pid", "passage_id"),
        ("document", "doc"),
    ),
    "score": (("score",),),
    "grade": (("grade", "relevance", "rel", "label"), ("score",)),
}


def is_frame(source: Any) -> bool:
    """Whether it is a polars frame, lazy or not, or a pandas one."""
    pandas = sys.modules.get("pandas")
    return isinstance(source, (pl.DataFrame, pl.LazyFrame)) or (
        pandas is not None and isinstance(source, pandas.DataFrame)
    )


def three_columns(what: str, source: Any, value: str) -> pl.DataFrame:
    """The columns query and document (String) and ``value`` (Float64) of a frame; all others are left aside.

    Raises:
        KbevalError: a column is missing, is there twice, or holds something else.
    """
    if isinstance(source, pl.LazyFrame):
        try:
            columns = source.collect_schema().names()
            picked = {name: _pick(what, columns, name) for name in ("query", "document", value)}
            source = source.select(*picked.values()).collect()
        except KbevalError:
            raise
        except Exception as error:  # a lazy frame may run anybody's code
            raise KbevalError(f"{what}: expected a frame that can be computed, found {one_line(error)}") from None
    else:
        picked = {name: _pick(what, list(source.columns), name) for name in ("query", "document", value)}
    return pl.DataFrame(
        {
            "query": _ids(what, "query", source[picked["query"]]),
            "document": _ids(what, "document", source[picked["document"]]),
            value: _numbers(what, value, source[picked[value]]),
        }
    )


def _pick(what: str, columns: Sequence[Any], wanted: str) -> Any:
    known = {column: str(column).strip().lower() for column in columns}
    times = Counter(columns)
    for names in _NAMES[wanted]:
        fitting = [column for column, name in known.items() if name in names]
        if len(fitting) == 1 and times[fitting[0]] == 1:
            return fitting[0]
        if fitting:
            there = ", ".join(found(str(column)) for column in columns if known[column] in names)
            raise KbevalError(f"{what}: expected one column for the {wanted}, found {there}")
    others = [name for line in _NAMES[wanted] for name in line if name != wanted]
    there = ", ".join(found(str(column)) for column in columns) or "none"
    or_ = f" (or {', '.join(others)})" if others else ""
    raise KbevalError(f"{what}: expected a column {wanted}{or_}, found {there}")


def _ids(what: str, name: str, column: Any) -> pl.Series:
    if isinstance(column, pl.Series):
        dtype = column.dtype
        if dtype.is_integer() or isinstance(dtype, (pl.Categorical, pl.Enum, pl.Null)):
            column = column.cast(pl.String)
        elif dtype == pl.Object:
            return ids_of(f"{what}: {name}", column.to_list())
        elif dtype != pl.String:
            raise KbevalError(f"{what}: expected ids as text or whole numbers in {name}, found {dtype}")
        if column.null_count() or (column == "").any():
            raise KbevalError(f"{what}: expected an id in every row of {name}, found an empty one")
        ids: pl.Series = column
        return ids
    # By way of lists: polars' own conversion wants pyarrow, which nothing else here needs.
    if column.isna().any():
        raise KbevalError(f"{what}: expected an id in every row of {name}, found an empty one")
    return ids_of(f"{what}: {name}", column.tolist())


def _numbers(what: str, name: str, column: Any) -> pl.Series:
    truths = name == "grade"
    if isinstance(column, pl.Series):
        if column.dtype == pl.Object:
            return numbers_of(what, column.to_list(), name=name, truths=truths)
        if not (column.dtype.is_numeric() or column.dtype == pl.Null or (truths and column.dtype == pl.Boolean)):
            raise KbevalError(f"{what}: expected numbers in {name}, found {column.dtype}")
        floats: pl.Series = column.cast(pl.Float64)
        return floats
    if column.isna().any():
        raise KbevalError(f"{what}: expected a finite {name} in every row, found an empty one")
    return numbers_of(what, column.tolist(), name=name, truths=truths)
