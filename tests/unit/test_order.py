"""METHOD 2's one order, and the scores that keep it in every tool."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbeval.order import falling_scores, falls_strictly, sort_run


def frame(rows: list[tuple[str, str, float]]) -> pl.DataFrame:
    schema = {"query": pl.String, "document": pl.String, "score": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def in_plain_python(rows: list[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
    """Three stable sorts, by bytes: the definition, word for word."""
    by_document = sorted(rows, key=lambda row: row[1].encode(), reverse=True)
    by_score = sorted(by_document, key=lambda row: -row[2])
    return sorted(by_score, key=lambda row: row[0].encode())


def test_equal_scores_are_ordered_by_document_highest_first_for_every_order_of_the_lines() -> None:
    rows = [("q1", "b", 1.0), ("q1", "a", 1.0), ("q1", "c", 1.0)]
    for permutation in itertools.permutations(rows):
        assert sort_run(frame(list(permutation)))["document"].to_list() == ["c", "b", "a"]


def test_ids_are_compared_as_bytes_and_not_by_locale_or_number() -> None:
    ids = ["10", "9", "a", "B", "é", "z", "\U0001f600", "￿"]
    ordered = sort_run(frame([("q", each, 0.5) for each in ids]))["document"].to_list()
    # First bytes: F0, EF, C3, 7A, 61, 42, 39, 31.
    assert ordered == ["\U0001f600", "￿", "é", "z", "a", "B", "9", "10"]


def test_queries_are_ordered_by_bytes_and_brought_together() -> None:
    rows = [("9", "a", 1.0), ("10", "x", 3.0), ("9", "b", 2.0), ("10", "y", 4.0)]
    expected = [("10", "y", 4.0), ("10", "x", 3.0), ("9", "b", 2.0), ("9", "a", 1.0)]
    assert sort_run(frame(rows)).rows() == expected


def test_zero_and_minus_zero_tie() -> None:
    assert sort_run(frame([("q", "a", 0.0), ("q", "b", -0.0)]))["document"].to_list() == ["b", "a"]
    mixed = [("q", "a", -1.0), ("q", "c", -0.0), ("q", "b", 0.0), ("q", "d", 0.0)]
    assert sort_run(frame(mixed))["document"].to_list() == ["d", "c", "b", "a"]


def test_a_run_in_order_is_returned_as_it_is() -> None:
    ordered = frame([("a", "y", 2.0), ("a", "x", 2.0), ("b", "x", 1.0)])
    assert sort_run(ordered) is ordered


def test_an_empty_run_stays_empty() -> None:
    assert sort_run(frame([])).is_empty()


def test_other_columns_move_with_their_rows() -> None:
    rows = frame([("q", "a", 1.0), ("q", "b", 2.0)]).with_columns(place=pl.Series([1, 2]))
    assert sort_run(rows)["place"].to_list() == [2, 1]


few_ids = st.sampled_from(["", "1", "10", "2", "a", "B", "é", "a b", "long identifier of a document"])
few_scores = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.0, 1e-300, 5e300])


@given(st.lists(st.tuples(few_ids, few_ids, few_scores), max_size=40))
def test_the_order_equals_three_stable_sorts(rows: list[tuple[str, str, float]]) -> None:
    rows = list({(row[0], row[1]): row for row in rows}.values())
    assert sort_run(frame(rows)).rows() == in_plain_python(rows)


def test_large_runs_with_pieces_out_of_order_equal_three_stable_sorts() -> None:
    chance = random.Random(7)
    rows = [
        (f"q{query}", f"d{document}", float(chance.randint(0, 40)))
        for query in range(60)
        for document in chance.sample(range(500), 80)
    ]
    expected = in_plain_python(rows)
    for _ in range(3):
        assert sort_run(frame(rows)).rows() == expected
        chance.shuffle(rows)


# --- falling scores


def as_floats(scores: list[float]) -> list[float]:
    """``falling_scores``, with what must hold for every input."""
    result = falling_scores(np.array(scores, dtype=np.float64))
    narrow = result.astype(np.float32)
    assert len(result) == len(scores)
    assert np.isfinite(narrow).all()
    assert (narrow[1:] < narrow[:-1]).all()
    assert (result[1:] < result[:-1]).all()
    return result.tolist()


def next_below(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(-np.inf)))


def test_scores_that_fall_are_kept_to_the_last_bit() -> None:
    scores = [0.1 + 0.2, 0.1, 1e-20, -7.25, -1e30]
    assert as_floats(scores) == scores


def test_a_score_that_does_not_fall_becomes_the_next_float_below() -> None:
    assert as_floats([1.0, 1.0, 1.0]) == [1.0, next_below(1.0), next_below(next_below(1.0))]
    assert as_floats([0.5, 0.9, 0.1]) == [0.5, next_below(0.5), 0.1]


def test_scores_that_only_doubles_tell_apart_are_parted() -> None:
    first, second = 1.0 + 2**-40, 1.0  # equal as 32-bit floats
    assert as_floats([first, second]) == [first, next_below(1.0)]


def test_zeros_part_below_zero() -> None:
    smallest = float(np.nextafter(np.float32(0), np.float32(-1)))
    assert as_floats([0.0, -0.0]) == [0.0, smallest]


def test_what_no_32_bit_float_holds_is_drawn_to_its_range() -> None:
    largest = float(np.finfo(np.float32).max)
    assert as_floats([math.inf, 1e300, 1.0]) == [largest, next_below(largest), 1.0]
    assert as_floats([1.0, -1e300]) == [1.0, -largest]


def test_at_the_lower_end_the_scores_above_make_room() -> None:
    lowest = -float(np.finfo(np.float32).max)
    above = float(np.nextafter(np.float32(lowest), np.float32(0)))
    assert as_floats([-math.inf, -math.inf]) == [above, lowest]


def test_nothing_falls_already() -> None:
    assert as_floats([]) == []
    assert as_floats([3.0]) == [3.0]


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        falling_scores(np.array([1.0, math.nan]))


@given(st.lists(st.floats(allow_nan=False), max_size=30))
def test_scores_fall_whatever_they_were(scores: list[float]) -> None:
    once = as_floats(scores)
    assert as_floats(once) == once


@given(st.lists(st.floats(min_value=-1e30, max_value=1e30), max_size=30))
def test_no_score_is_moved_without_need(scores: list[float]) -> None:
    result = as_floats(scores)
    for place, (before, after) in enumerate(zip(scores, result, strict=True)):
        falls = place == 0 or np.float32(before) < np.float32(result[place - 1])
        assert after == (before if falls else next_below(result[place - 1]))


def test_falls_strictly_sees_what_32_bits_see() -> None:
    scores = np.array([2.0, 1.0 + 2**-40, 1.0, 5.0, 5.0, 1e300, -math.inf])
    assert falls_strictly(scores, np.array([0, 3, 5])).tolist() == [
        True,
        True,
        False,
        True,
        False,
        False,
        False,
    ]
