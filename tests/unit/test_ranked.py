"""The first documents of every list, whichever way they are asked for."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import polars as pl
import pytest

from kbeval.evaluation.ranked import Ranked

LENGTHS = [[3, 0, 2], [0, 0], [1], [], [5, 0] * 700]


@pytest.mark.parametrize("lengths", LENGTHS, ids=["some", "empty", "one", "none", "many"])
def test_lists_come_out_as_they_went_in(lengths: list[int]) -> None:
    lists, number = [], 0
    for length in lengths:
        lists.append([f"d{number + at}" for at in range(length)])
        number += length
    ranked = Ranked(
        pl.Series([name for each in lists for name in each], dtype=pl.String),
        np.array(list(accumulate(lengths)), dtype=np.int64),
    )
    assert len(ranked) == len(lists)
    assert list(ranked) == lists
    assert [ranked[at] for at in range(len(lists))] == lists
    assert ranked[1:3] == lists[1:3]
    assert ranked.firsts() == [each[0] if each else None for each in lists]
    column, cut = ranked.column(2)
    assert column.to_list() == [name for each in lists for name in each[:2]]
    assert cut.tolist() == [min(length, 2) for length in lengths]
