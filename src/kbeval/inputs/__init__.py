"""Runs and judgments from whatever a Python caller has: paths, dicts, frames, an ir_datasets id, objects made by hand.

This is the one door of the library. Whatever comes through it has gone through the checks that files go through, and
is in the one order; what was read from a file is known to be so. Nothing of the caller's is changed.
"""

from __future__ import annotations

from collections.abc import KeysView, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from kbeval.errors import KbevalError
from kbeval.formats.trec import read_qrels
from kbeval.inputs.checks import checked_qrels, checked_run
from kbeval.inputs.frames import is_frame, three_columns
from kbeval.inputs.values import found, id_of, ids_of, name_of, numbers_of, path_of
from kbeval.model import Qrels, Run
from kbeval.secrets import one_line

if TYPE_CHECKING:
    import os

    import pandas as pd

    Frame: TypeAlias = pl.DataFrame | pl.LazyFrame | pd.DataFrame
    Graded: TypeAlias = Mapping[str, int] | Mapping[int, int] | Sequence[str] | Sequence[int] | Set[str] | Set[int]
    Ranked: TypeAlias = Mapping[str, float] | Mapping[int, float] | Sequence[str] | Sequence[int]
    QrelsLike: TypeAlias = Qrels | str | os.PathLike[str] | Mapping[str, Graded] | Mapping[int, Graded] | Frame
    InMemory: TypeAlias = Run | Mapping[str, Ranked] | Mapping[int, Ranked] | Frame
    RunLike: TypeAlias = InMemory | str | os.PathLike[str]

IR_DATASETS = "ir_datasets:"
FORMS = "a path, a dict or a frame"


def as_qrels(source: QrelsLike) -> Qrels:
    """Judgments from a path, a dict, a frame, or ``"ir_datasets:ID"``.

    Args:
        source: a BEIR or TREC file; ``{query: {document: grade}}`` or ``{query: [relevant document, ...]}``, where a
            query without any is one of the test set and counts with 0; a polars or pandas frame with a column for
            the query, the document and the grade, under any of the usual names; an ir_datasets id; or ``Qrels``.

    Raises:
        KbevalError: it is none of these, or holds something that judgments must not hold.
    """
    if isinstance(source, Qrels):
        frame = _frame_of("qrels", source.frame, "grade")
        unjudged = [id_of("qrels: unjudged", query) for query in _several("qrels: unjudged", source.unjudged)]
        return checked_qrels("qrels", frame, unjudged, _lines("qrels", source.warnings))
    if isinstance(source, str) and source.startswith(IR_DATASETS):
        return _from_ir_datasets(source.removeprefix(IR_DATASETS))
    if isinstance(source, Mapping):
        frame, empty = _from_dict("qrels", source, "grade")
        return checked_qrels("qrels", frame, empty, ())
    if is_frame(source):
        return checked_qrels("qrels", three_columns("qrels", source, "grade"), (), ())
    return read_qrels(path_of("qrels", source, forms=FORMS))


def as_run(source: InMemory, name: str | None = None) -> Run:
    """A run from a dict, a frame or a ``Run``.

    Args:
        source: ``{query: {document: score}}``; ``{query: [document, ...]}``, best first; a polars or pandas frame with
            a column for the query, the document and the score, under any of the usual names; or a ``Run``.
        name: the run's name; a ``Run``'s own, or ``run``, without it.

    Returns:
        The run; without a row where a dict names queries and has no document for any.

    Raises:
        KbevalError: it is none of these, or holds something that a run must not hold.
    """
    if isinstance(source, Run):
        source = _named(source, source.name if name is None else name)
        what = f"run {source.name}"
        _lines(what, source.warnings)
        frame = _frame_of(what, source.frame, "score")
        return checked_run(source if frame is source.frame else replace(source, frame=frame))
    called = name_of("run" if name is None else name)
    what = f"run {called}"
    if isinstance(source, Mapping):
        frame, empty = _from_dict(what, source, "score")
        if frame.is_empty() and not empty:
            raise KbevalError(f"{what}: expected at least one query, found none")
        return checked_run(Run(called, frame))
    if is_frame(source):
        frame = three_columns(what, source, "score")
        if frame.is_empty():
            raise KbevalError(f"{what}: expected at least one row, found none")
        return checked_run(Run(called, frame))
    raise KbevalError(f"{what}: expected {FORMS}, found {found(source)}")


def _named(run: Run, name: Any) -> Run:
    name = name_of(name)
    if name == run.name:
        return run
    own = f"{run.name}:"
    lines = _lines(f"run {name}", run.warnings)
    warnings = tuple(f"{name}:{line.removeprefix(own)}" if line.startswith(own) else line for line in lines)
    return replace(run, name=name, warnings=warnings)


def _several(what: str, values: Any) -> list[Any]:
    if not isinstance(values, (tuple, list)):
        raise KbevalError(f"{what}: expected a tuple, found {found(values)}")
    return list(values)


def _lines(what: str, warnings: Any) -> tuple[str, ...]:
    lines = _several(f"{what}: warnings", warnings)
    odd = [line for line in lines if not isinstance(line, str)]
    if odd:
        raise KbevalError(f"{what}: warnings: expected text, found {found(odd[0])}")
    return tuple(lines)


def _frame_of(what: str, frame: Any, value: str) -> pl.DataFrame:
    """The frame of an object that may be made by hand; the frame itself where its columns are as promised."""
    if not is_frame(frame):
        raise KbevalError(f"{what}: expected a frame, found {found(frame)}")
    kinds = {"query": pl.String(), "document": pl.String(), value: pl.Float64()}
    if isinstance(frame, pl.DataFrame) and frame.schema == kinds:
        ids = (frame["query"], frame["document"])
        if not any(column.null_count() or (column == "").any() for column in ids):
            return frame
    return three_columns(what, frame, value)


def _from_dict(what: str, source: Mapping[Any, Any], value: str) -> tuple[pl.DataFrame, list[str]]:
    """The rows of a dict by query, and its queries without a row."""
    keys: dict[str, Any] = {}
    queries: list[str] = []
    documents: list[Any] = []
    values: list[Any] = []
    empty: list[str] = []
    for key, answer in source.items():
        query = id_of(f"{what}: query", key)
        if query in keys:
            raise KbevalError(f"{what}: expected each query once, found {found(keys[query])} and {found(key)}")
        keys[query] = key
        if isinstance(answer, Mapping):
            ids, its_values = list(answer.keys()), list(answer.values())
        else:
            ids = _documents(what, query, answer, value)
            its_values = [1.0] * len(ids) if value == "grade" else [float(n) for n in range(len(ids), 0, -1)]
        if not ids:
            empty.append(query)
        queries += [query] * len(ids)
        documents += ids
        values += its_values
    frame = pl.DataFrame(
        {
            "query": pl.Series(queries, dtype=pl.String),
            "document": ids_of(f"{what}: document", documents),
            value: numbers_of(what, values, name=value, truths=value == "grade"),
        }
    )
    return frame, empty


def _documents(what: str, query: str, answer: Any, value: str) -> list[Any]:
    """The documents that are listed for a query, without scores or grades."""
    expected = f"{{document: {value}}} or a list of {'relevant ' if value == 'grade' else ''}documents"
    problem = KbevalError(f"{what}: expected {expected} for query {found(query)}, found {found(answer)}")
    if isinstance(answer, (str, bytes, bytearray)):
        raise problem
    if isinstance(answer, (Sequence, KeysView)) or (value == "grade" and isinstance(answer, Set)):
        return list(answer)
    if isinstance(answer, pl.Series):
        return answer.to_list()
    # An array of one dimension. A pandas series of numbers has its documents in its index: too easily taken wrongly.
    if getattr(answer, "ndim", None) == 1 and hasattr(answer, "tolist"):
        listed = answer.tolist()
        if hasattr(answer, "index") and not all(isinstance(item, str) for item in listed):
            raise problem
        return list(listed)
    raise problem


def _from_ir_datasets(identifier: str) -> Qrels:
    import ir_datasets

    try:
        rows = [(row.query_id, row.doc_id, row.relevance) for row in ir_datasets.load(identifier).qrels_iter()]
    except Exception as error:
        # A download that fails, an id that is not known, a data set without judgments: ir_datasets says which.
        raise KbevalError(f"{IR_DATASETS}{identifier}: cannot be read: {one_line(error)}") from error
    frame = pl.DataFrame(
        {
            "query": ids_of(identifier, [row[0] for row in rows]),
            "document": ids_of(identifier, [row[1] for row in rows]),
            "grade": numbers_of(identifier, [row[2] for row in rows], name="grade"),
        }
    )
    return checked_qrels(identifier, frame, (), ())
