"""Slices of a test set: by kind, by source, by lexical overlap. They describe, and change no verdict (METHOD 5)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kbeval.evaluation.test_set import TestSet

THIRDS = ("low", "middle", "high")


@dataclass(frozen=True)
class Slice:
    """Some of the questions.

    Attributes:
        by: ``kind`` (a stratum), ``source`` or ``overlap``.
        name: which.
        rows: their positions in the test set.
    """

    by: str
    name: str
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class OverlapSpread:
    """How the overlap of some questions with their gold is spread: mean, quartiles; shares from 0 to 1."""

    name: str
    questions: int
    mean: float
    quartiles: tuple[float, float, float]


def slices(test_set: TestSet) -> list[Slice]:
    """The strata, then the sources where they cut otherwise, then the thirds by overlap where it is known.

    Questions of equal overlap are in one third, so that thirds need not be of one size.
    """
    found = [Slice("kind", name, rows) for name, rows in test_set.stratum_rows.items()]
    sources = _by_source(test_set)
    if len(sources) > 1 and {tuple(rows) for rows in sources.values()} != {tuple(each.rows) for each in found}:
        found += [Slice("source", name, rows) for name, rows in sorted(sources.items())]
    return found + _thirds(test_set.overlaps)


def further_slices(test_set: TestSet) -> list[Slice]:
    """Slices by the question's domain and by the type of its gold document, where they are known and cut at all.

    A document's type is ``type`` (or ``doc_type``, ``document_type``) of its metadata, else the ending of its file
    name; a question has its best gold document's.
    """
    domains = [known.domain if (known := test_set.labelled.get(query)) else None for query in test_set.queries]
    types = [_document_type(test_set, query) for query in test_set.queries]
    found = []
    for by, values in (("domain", domains), ("document type", types)):
        column = np.array(values, dtype=object)
        names = sorted({value for value in values if value})
        if len(names) > 1:
            found += [Slice(by, name, np.flatnonzero(column == name)) for name in names]
    return found


def _document_type(test_set: TestSet, query: str) -> str | None:
    gold = test_set.gold[query]
    document = test_set.documents.get(gold[0]) if gold else None
    if document is None:
        return None
    for key in ("type", "doc_type", "document_type"):
        value = document.metadata.get(key)
        if isinstance(value, str) and value:
            return value
    return PurePosixPath(document.filename).suffix.lower() or None


def overlap_spreads(test_set: TestSet) -> list[OverlapSpread]:
    """The overlap of each stratum's questions; those without a known overlap are left out."""
    found = []
    for name, rows in test_set.stratum_rows.items():
        values = test_set.overlaps[rows]
        values = values[~np.isnan(values)]
        if len(values):
            low, middle, high = (float(value) for value in np.quantile(values, [0.25, 0.5, 0.75]))
            found.append(OverlapSpread(name, len(values), float(values.mean()), (low, middle, high)))
    return found


def _by_source(test_set: TestSet) -> dict[str, NDArray[np.int64]]:
    sources = [known.source if (known := test_set.labelled.get(query)) else None for query in test_set.queries]
    column = np.array(sources, dtype=object)
    return {name: np.flatnonzero(column == name) for name in {name for name in sources if name}}


def _thirds(overlaps: NDArray[np.float64]) -> list[Slice]:
    known = np.sort(overlaps[~np.isnan(overlaps)])
    if len(known) < len(THIRDS):
        return []
    first, second = known[(len(known) - 1) // 3], known[2 * (len(known) - 1) // 3]
    if not known[0] <= first < second < known[-1]:
        return []
    chosen = (overlaps <= first, (overlaps > first) & (overlaps <= second), overlaps > second)
    words = (f"up to {first:.2f}", f"{first:.2f} to {second:.2f}", f"above {second:.2f}")
    return [
        Slice("overlap", f"{third} ({words[place]})", np.flatnonzero(chosen[place]))
        for place, third in enumerate(THIRDS)
    ]
