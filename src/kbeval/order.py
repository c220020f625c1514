"""METHOD 2's one order: score descending, equal scores by document id as bytes, highest first.

It is trec_eval's order, and the only one in kbeval: whatever ranks, ranks by this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.uint32]
    """Row numbers: 32 bits wide, as polars' own."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)


def sort_run(frame: pl.DataFrame) -> pl.DataFrame:
    """Sorts a run: queries ascending by bytes, and the rows of each in the one order.

    Args:
        frame: the columns query (String), document (String) and score (Float64, no NaN), rows in any order.

    Returns:
        The same rows, all columns kept. The frame itself where it was in order already.
    """
    names, lengths = query_segments(frame["query"])
    codes, _ = query_codes(names)
    order = one_order(codes, lengths, frame["document"], frame["score"].to_numpy())
    return frame if order is None else frame[order]


def query_segments(query: pl.Series) -> tuple[pl.Series, NDArray[np.int64]]:
    """Cuts a column of query ids where the id changes: the id and the length of each segment."""
    segments = query.rle().struct.unnest()
    return segments["value"], segments["len"].to_numpy().astype(np.int64)


def query_codes(names: pl.Series) -> tuple[NDArray[np.int64], pl.Series]:
    """Numbers query ids by bytes, ascending: a code for each of ``names``, and the distinct ids by code."""
    distinct = names.unique().sort()
    codes = names.replace_strict(distinct, np.arange(len(distinct)), return_dtype=pl.Int64)
    return codes.to_numpy(), distinct


def one_order(
    codes: NDArray[np.int64], lengths: NDArray[np.int64], document: pl.Series, score: NDArray[np.float64]
) -> Rows | None:
    """The permutation that puts rows into the one order.

    Real runs are nearly in order, so what is in order already is recognised and only the rest is sorted.

    Args:
        codes: one number a segment of rows of one query; queries are ordered by it.
        lengths: rows in each segment.
        document: document ids, a row each, in file order.
        score: scores, a row each, without NaN.

    Returns:
        Row numbers in their new order, or None where the rows are in order already.
    """
    order: Rows | None = None
    if (codes[1:] < codes[:-1]).any():
        by_code = np.argsort(codes, kind="stable")
        order = _rows_of_segments(by_code, lengths)
        codes, lengths, score = codes[by_code], lengths[by_code], score[order]
    group = np.repeat(codes.astype(np.uint32), lengths)

    same_query = group[1:] == group[:-1]
    if (same_query & (score[1:] > score[:-1])).any():
        by_score = _by_group_and_score(group, score)
        order = by_score if order is None else order[by_score]
        score = score[by_score]  # the groups keep their places

    tied = same_query & (score[1:] == score[:-1])
    if tied.any():
        places, moved = _ties_by_document(tied, document, order)
        if (moved != np.arange(len(moved))).any():
            order = np.arange(len(score), dtype=np.uint32) if order is None else order
            order[places] = order[places[moved]]
    return order


def falling_scores(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Makes scores that are in rank order strictly fall, also when they are read as 32-bit floats.

    A score that is below the one before it, as a 32-bit float too, is kept. Any other becomes the next 32-bit
    float below the one before it. Scores outside the range of 32-bit floats are drawn to its end, and where
    that end leaves no room below, the scores above it are raised by the steps that are missing.

    Args:
        scores: one query's scores, best rank first, whatever their values; no NaN.

    Raises:
        ValueError: a score is NaN.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is NaN: it has no place in an order")
    kept = np.clip(np.asarray(scores, dtype=np.float64), -_FLOAT32_MAX, _FLOAT32_MAX)
    wanted = _float32_numbers(kept)
    steps = np.arange(len(kept), dtype=np.int64)
    # number[i] = min(wanted[i], number[i-1] - 1), which is a running minimum once each step is added back.
    number = np.minimum.accumulate(wanted + steps) - steps
    lowest = int(_float32_numbers(np.array([-_FLOAT32_MAX]))[0])
    number = np.maximum(number, lowest + steps[::-1])
    return np.where(number == wanted, kept, _float32_of_numbers(number))


def falls_strictly(scores: NDArray[np.float64], first: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each row: whether ``falling_scores`` has no reason to touch it.

    Args:
        scores: the scores of several queries, one query after another, each in rank order.
        first: the first row of each query.

    Returns:
        False where a score is beyond 32-bit floats, or not below the row before, as a 32-bit float.
    """
    with np.errstate(over="ignore"):
        narrow = scores.astype(np.float32)
    falls = np.ones(len(scores), dtype=bool)
    falls[1:] = narrow[1:] < narrow[:-1]
    falls[first] = True
    return falls & np.isfinite(narrow)


def _rows_of_segments(by_code: NDArray[np.int64], lengths: NDArray[np.int64]) -> Rows:
    """Row numbers, segment after segment in the order ``by_code``."""
    first = np.cumsum(lengths) - lengths
    moved = lengths[by_code]
    shift = first[by_code] - (np.cumsum(moved) - moved)
    # Unsigned numbers wrap around, so that adding a negative shift is right all the same.
    rows: Rows = np.repeat(shift.astype(np.uint32), moved)
    rows += np.arange(len(rows), dtype=np.uint32)
    return rows


def _by_group_and_score(group: NDArray[np.uint32], score: NDArray[np.float64]) -> Rows:
    """Row numbers by group ascending, then score descending; equal ones keep their order."""
    keys = pl.DataFrame({"group": group, "score": score + 0.0})  # -0.0 becomes 0.0: they tie
    order = keys.select(pl.arg_sort_by("group", "score", descending=[False, True], maintain_order=True))
    rows: Rows = order.to_series().to_numpy().astype(np.uint32)
    return rows


def _ties_by_document(tied: NDArray[np.bool_], document: pl.Series, order: Rows | None) -> tuple[Rows, Rows]:
    """The places of tied rows, and for each which of these places holds the row that belongs there.

    Args:
        tied: for each row but the first, whether it ties with the row before.
        document: ids in file order.
        order: the rows' order so far, or None where it is file order.
    """
    member = np.zeros(len(tied) + 1, dtype=bool)
    member[1:] = tied
    member[:-1] |= tied
    places = np.flatnonzero(member).astype(np.uint32)
    first_of_tie = ~np.concatenate(([False], tied))[places]
    ties = pl.DataFrame(
        {
            "tie": np.cumsum(first_of_tie, dtype=np.uint32),
            "document": document.gather(places if order is None else order[places]),
        }
    )
    by_document = ties.select(pl.arg_sort_by("tie", "document", descending=[False, True], maintain_order=True))
    moved: Rows = by_document.to_series().to_numpy().astype(np.uint32)
    return places, moved


def _float32_numbers(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Numbers 32-bit floats so that neighbours differ by 1 and both zeros are 0."""
    bits = scores.astype(np.float32).view(np.int32).astype(np.int64)
    return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))


def _float32_of_numbers(number: NDArray[np.int64]) -> NDArray[np.float64]:
    bits = np.where(number >= 0, number, -number | 0x80000000).astype(np.uint32)
    return bits.view(np.float32).astype(np.float64)
