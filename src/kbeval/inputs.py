"""Runs and judgments from whatever a Python caller has: paths, dicts, frames, an ir_datasets id.

What comes from memory goes through the checks that files go through, and ends in the same one order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from kbeval.errors import KbevalError
from kbeval.formats.trec import read_qrels, read_run, run_name
from kbeval.model import Qrels, Run
from kbeval.order import sort_run
from kbeval.secrets import one_line

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pandas as pd

    QrelsLike: TypeAlias = (
        Qrels | str | os.PathLike[str] | Mapping[str, Mapping[str, int]] | pl.DataFrame | pd.DataFrame
    )
    RunLike: TypeAlias = (
        Run | str | os.PathLike[str] | Mapping[str, Mapping[str, float] | Sequence[str]] | pl.DataFrame | pd.DataFrame
    )

IR_DATASETS = "ir_datasets:"

# Column names that other tools use for the same thing, in lower case.
_COLUMNS = {
    "query": ("query", "query_id", "query-id", "qid", "q_id"),
    "document": ("document", "doc", "doc_id", "docid", "docno", "document_id", "corpus-id", "corpus_id"),
    "score": ("score",),
    "grade": ("grade", "relevance", "rel", "label", "score"),
}


def as_qrels(source: QrelsLike) -> Qrels:
    """Judgments from a path, a dict, a frame, or ``"ir_datasets:ID"``.

    Args:
        source: a BEIR or TREC file; ``{query: {document: grade}}``; a polars or pandas frame with a column for the
            query, the document and the grade, under any of the usual names; or an ir_datasets id.

    Raises:
        KbevalError: it is none of these, or holds something that judgments must not hold.
    """
    if isinstance(source, Qrels):
        return source
    if isinstance(source, str) and source.startswith(IR_DATASETS):
        return _from_ir_datasets(source.removeprefix(IR_DATASETS))
    if isinstance(source, Mapping):
        rows = [(query, document, grade) for query, judged in source.items() for document, grade in judged.items()]
        return _qrels("qrels", _table("qrels", rows, "grade"))
    if _is_frame(source):
        return _qrels("qrels", _columns("qrels", source, "grade"))
    return read_qrels(_path("qrels", source))


def as_run(source: RunLike, name: str | None = None) -> Run:
    """A run from a path, a dict or a frame.

    Args:
        source: a TREC run; ``{query: {document: score}}``; ``{query: [document, ...]}``, best first; or a polars or
            pandas frame with a column for the query, the document and the score.
        name: the run's name; the file's, or ``run``, without it.

    Raises:
        KbevalError: it is none of these, or holds something that a run must not hold.
    """
    if isinstance(source, Run):
        return source
    called = name or "run"
    if isinstance(source, Mapping):
        rows = [(query, document, score) for query, answer in source.items() for document, score in _answer(answer)]
        return _run(called, _table(called, rows, "score"))
    if _is_frame(source):
        return _run(called, _columns(called, source, "score"))
    path = _path(called, source)
    return read_run(path, name or run_name(path))


def _answer(answer: Mapping[str, float] | Sequence[str]) -> list[tuple[str, float]]:
    if isinstance(answer, Mapping):
        return list(answer.items())
    if isinstance(answer, str):
        raise KbevalError(f"expected a dict of scores or a list of document ids per query, found the text {answer!r}")
    documents = list(answer)
    return [(document, float(len(documents) - place)) for place, document in enumerate(documents)]


def _path(what: str, source: Any) -> Path:
    try:
        return Path(source)
    except TypeError:
        raise KbevalError(f"{what}: expected a path, a dict or a frame, found {type(source).__name__}") from None


def _is_frame(source: Any) -> bool:
    return isinstance(source, pl.DataFrame) or type(source).__module__.partition(".")[0] == "pandas"


def _columns(what: str, source: Any, value: str) -> pl.DataFrame:
    lower = {str(column).lower(): column for column in source.columns}
    picked = {}
    for column in ("query", "document", value):
        known = [lower[name] for name in _COLUMNS[column] if name in lower]
        if not known:
            raise KbevalError(
                f"{what}: expected a column {column} (or {', '.join(_COLUMNS[column][1:])}), "
                f"found {', '.join(map(str, source.columns))}"
            )
        picked[column] = source[known[0]]
    if isinstance(source, pl.DataFrame):
        return pl.DataFrame(picked)
    try:
        # By way of lists: polars' own conversion wants pyarrow, which nothing else here needs.
        return pl.DataFrame({name: column.tolist() for name, column in picked.items()}, strict=True)
    except (TypeError, pl.exceptions.PolarsError) as error:
        raise KbevalError(f"{what}: expected columns of one type each: {one_line(error)}") from None


def _table(what: str, rows: list[tuple[Any, Any, Any]], value: str) -> pl.DataFrame:
    ids = [identifier for row in rows for identifier in row[:2]]
    other = next((identifier for identifier in ids if not isinstance(identifier, str)), None)
    if other is not None:
        raise KbevalError(f"{what}: expected ids as text, found {type(other).__name__} {other!r}")
    numbers = [row[2] for row in rows]
    odd = next((n for n in numbers if isinstance(n, (str, bool, bytes)) or not hasattr(n, "__float__")), None)
    if odd is not None:
        raise KbevalError(f"{what}: expected a number as {value}, found {odd!r}")
    return pl.DataFrame(
        {
            "query": pl.Series([row[0] for row in rows], dtype=pl.String),
            "document": pl.Series([row[1] for row in rows], dtype=pl.String),
            value: pl.Series([float(number) for number in numbers], dtype=pl.Float64),
        }
    )


def _checked(what: str, frame: pl.DataFrame, value: str) -> pl.DataFrame:
    if frame.is_empty():
        raise KbevalError(f"{what}: expected at least one row, found none")
    for column in ("query", "document"):
        if frame[column].dtype.is_integer():
            frame = frame.with_columns(pl.col(column).cast(pl.String))
        if frame[column].dtype != pl.String:
            raise KbevalError(f"{what}: expected ids as text in {column}, found {frame[column].dtype}")
        if frame[column].null_count() or (frame[column] == "").any():
            raise KbevalError(f"{what}: expected an id in every row of {column}, found an empty one")
    if not frame[value].dtype.is_numeric():
        raise KbevalError(f"{what}: expected numbers in {value}, found {frame[value].dtype}")
    frame = frame.with_columns(pl.col(value).cast(pl.Float64))
    bad = frame.filter(pl.col(value).is_null() | ~pl.col(value).is_finite())
    if bad.height:
        query, document, number = bad.row(0)
        raise KbevalError(f"{what}: expected a finite {value} for {query!r} and {document!r}, found {number}")
    return frame


def _repeated(what: str, frame: pl.DataFrame) -> None:
    repeated = frame.filter(pl.struct("query", "document").is_duplicated())
    if repeated.height:
        query, document = repeated.row(0)[:2]
        raise KbevalError(f"{what}: expected each document once per query, found {document!r} twice for {query!r}")


def _run(name: str, frame: pl.DataFrame) -> Run:
    frame = _checked(f"run {name}", frame, "score")
    _repeated(f"run {name}", frame)
    return Run(name=name, frame=sort_run(frame))


def _qrels(what: str, frame: pl.DataFrame) -> Qrels:
    frame = _checked(what, frame, "grade")
    broken = frame.filter(pl.col("grade") != pl.col("grade").round())
    if broken.height:
        query, document, grade = broken.row(0)
        raise KbevalError(f"{what}: expected whole grades, found {grade} for {query!r} and {document!r}")
    frame = frame.with_columns(pl.col("grade").cast(pl.Int64))
    distinct = frame.unique()
    repeats = frame.height - distinct.height
    _repeated(what, distinct)
    warnings = (f"{what}: {repeats} judgments are repeated and counted once",) if repeats else ()
    order = distinct.sort(["query", "grade", "document"], descending=[False, True, True])
    return Qrels(frame=order, warnings=warnings)


def _from_ir_datasets(identifier: str) -> Qrels:
    import ir_datasets

    try:
        rows = [(row.query_id, row.doc_id, row.relevance) for row in ir_datasets.load(identifier).qrels_iter()]
    except Exception as error:
        # A download that fails, an id that is not known, a data set without judgments: ir_datasets says which.
        raise KbevalError(f"{IR_DATASETS}{identifier}: cannot be read: {one_line(error)}") from error
    return _qrels(identifier, _table(identifier, rows, "grade"))
