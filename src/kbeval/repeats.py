"""Finds a document that a query has twice, among millions of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kbeval.order import Rows

_MIXER = np.uint64(0x9E3779B97F4A7C15)


def first_repeat(
    group: NDArray[np.uint32], document: pl.Series, place: Callable[[Rows], Rows] = lambda rows: rows
) -> int | None:
    """A row whose document its query has twice: the pair that is complete first. None: no such.

    Args:
        group: a number for each row's query.
        document: each row's document id.
        place: where rows stand in the order in which pairs become complete; that of the rows without it.
    """

    def pair_keys() -> NDArray[np.uint64]:
        keys = group * _MIXER
        keys += document.hash().to_numpy()
        return keys

    # Hashes find candidates at a tenth of the price of comparing ids; what they find is compared.
    keys = pair_keys()
    keys.sort()
    repeated = keys[1:][keys[1:] == keys[:-1]]
    if not len(repeated):
        return None
    rows = np.flatnonzero(np.isin(pair_keys(), repeated)).astype(np.uint32)
    candidates = pl.DataFrame(
        {"group": group[rows], "document": document.gather(rows), "row": rows, "place": place(rows)}
    ).sort("place")
    again = candidates.filter(~pl.struct("group", "document").is_first_distinct())
    return None if again.is_empty() else int(again["row"][0])
