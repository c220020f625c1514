"""The first documents of every query's list, kept small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT_ONCE = 512


class Ranked(Sequence[list[str]]):
    """The first documents of each query's list, kept as one column: as Python's strings they take five times that.

    Going through it costs a tenth of asking for each list by its place.
    """

    def __init__(self, documents: pl.Series, ends: NDArray[np.int64]) -> None:
        """Args:
        documents: the lists, one after another.
        ends: for each list the place after its last document.
        """
        # Built anew, since a part of a column keeps the text of the whole alive.
        self._documents = pl.Series(documents.to_list(), dtype=pl.String)
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> list[str]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[str]]: ...
    def __getitem__(self, index: int | slice) -> list[str] | list[list[str]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        end = int(self._ends[index])
        start = int(self._ends[index - 1]) if index % len(self) else 0
        return self._documents[start:end].to_list()

    def __iter__(self) -> Iterator[list[str]]:
        first = 0
        for index in range(0, len(self), _AT_ONCE):
            ends = self._ends[index : index + _AT_ONCE].tolist()
            documents = self._documents[first : ends[-1]].to_list()
            start = 0
            for end in ends:
                yield documents[start : end - first]
                start = end - first
            first = ends[-1]

    def firsts(self) -> list[str | None]:
        """The first document of each list; None where it is empty."""
        starts, lengths = self._starts(), np.diff(self._ends, prepend=0)
        rows = pl.Series(np.where(lengths > 0, starts, -1)).replace(-1, None)
        return self._documents.gather(rows).to_list()

    def column(self, count: int) -> tuple[pl.Series, NDArray[np.int64]]:
        """The first ``count`` documents of each list, one list after another, and how many of each there are."""
        starts = self._starts()
        lengths = np.minimum(self._ends - starts, count)
        rows = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
        return self._documents.gather(rows), lengths

    def _starts(self) -> NDArray[np.int64]:
        return self._ends - np.diff(self._ends, prepend=0)
