"""What a run and judgments must hold, whatever they were made from: the checks that files go through."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.errors import KbevalError
from kbeval.evaluation.comparison import FOUND_NOTHING
from kbeval.formats._fields import show
from kbeval.inputs.values import LARGEST_GRADE
from kbeval.model import Qrels, Run
from kbeval.order import query_segments, sort_run
from kbeval.repeats import first_repeat

if TYPE_CHECKING:
    from collections.abc import Iterable


def checked_run(run: Run) -> Run:
    """A run in the one order; the run itself where all is well.

    Args:
        run: with a frame of the columns query and document (String, no empty one) and score (Float64).

    Raises:
        KbevalError: a score is not finite, or a query has a document twice.
    """
    what = f"run {run.name}"
    _finite(what, run.frame, "score")
    frame = sort_run(run.frame)
    _, lengths = query_segments(frame["query"])
    group = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
    row = first_repeat(group, frame["document"])
    if row is not None:
        query, document = frame.row(row)[:2]
        raise KbevalError(
            f"{what}: expected each document once per query, found {show(document)} twice for {show(query)}"
        )
    if frame is not run.frame:
        run = replace(run, frame=frame)
    if frame.is_empty() and FOUND_NOTHING not in run.warnings:
        run = replace(run, warnings=(*run.warnings, FOUND_NOTHING))
    return run


def checked_qrels(what: str, frame: pl.DataFrame, unjudged: Iterable[str], warnings: tuple[str, ...]) -> Qrels:
    """Judgments in their order, each once.

    Args:
        what: what they are called in errors.
        frame: the columns query and document (String, no empty one) and grade (Float64).
        unjudged: queries without a judgment; those that have one are left out of them.
        warnings: what is known to be odd.

    Raises:
        KbevalError: there is none; a grade is not whole, or beyond 32 bits; a document has two grades in one query.
    """
    if frame.is_empty():
        raise KbevalError(f"{what}: expected at least one judgment, found none")
    _finite(what, frame, "grade")
    odd = frame.filter((pl.col("grade") != pl.col("grade").round()) | (pl.col("grade").abs() > LARGEST_GRADE))
    if odd.height:
        query, document, grade = odd.row(0)
        raise KbevalError(
            f"{what}: expected whole grades from {-LARGEST_GRADE} to {LARGEST_GRADE}, found {grade} "
            f"for {show(query)} and {show(document)}"
        )
    frame = frame.with_columns(pl.col("grade").cast(pl.Int64))
    distinct = frame.unique()
    repeated = distinct.filter(pl.struct("query", "document").is_duplicated()).sort("query", "document")
    if repeated.height:
        query, document = repeated.row(0)[:2]
        raise KbevalError(f"{what}: expected one grade for {show(document)} in {show(query)}, found {_two(repeated)}")
    if repeats := frame.height - distinct.height:
        count = "1 judgment is" if repeats == 1 else f"{repeats} judgments are"
        warnings = (*warnings, f"{what}: {count} repeated, and counted once")
    return Qrels(
        frame=distinct.sort(["query", "grade", "document"], descending=[False, True, True]),
        warnings=warnings,
        unjudged=tuple(sorted(set(unjudged) - set(frame["query"]))),
    )


def _two(repeated: pl.DataFrame) -> str:
    first = repeated.filter(pl.struct("query", "document") == pl.struct("query", "document").first())
    return " and ".join(map(str, first["grade"].sort().to_list()))


def _finite(what: str, frame: pl.DataFrame, value: str) -> None:
    column = frame[value]
    if column.null_count() or not column.is_finite().all():
        query, document, number = frame.filter(pl.col(value).is_null() | ~pl.col(value).is_finite()).row(0)
        raise KbevalError(
            f"{what}: expected a finite {value} for {show(query)} and {show(document)}, "
            f"found {'none' if number is None else number}"
        )
