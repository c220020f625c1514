"""Runs that were not asked every question: what of them may be compared with what.

Means stay means over all queries, and what was not asked counts with 0 like all that is missing. That says nothing
about an engine: so no verdict rests on it, and beside it stands what the runs scored on what both were asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.verdicts import taken_back
from kbeval.formats.sidecar import NOT_ASKED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbeval.evaluation.statistics import PairStatistics
    from kbeval.evaluation.verdicts import Verdict
    from kbeval.formats.sidecar import Sidecar


@dataclass(frozen=True)
class AskedByBoth:
    """The questions that both runs of a pair were asked, by their places, and the difference on them.

    ``difference`` is None where there are none.
    """

    rows: NDArray[np.int64]
    difference: PairStatistics | None


def asked_rows(sidecar: Sidecar | None, queries: Sequence[str]) -> NDArray[np.int64] | None:
    """The places of the queries that a run was asked; None for a run that was asked them all, as far as is known.

    Questions that are in no metric do not count: who was not asked those alone is whole here.
    """
    if sidecar is None or (sidecar.partial is None and sidecar.incomplete is None):
        return None
    asked = None if sidecar.partial is None else set(sidecar.partial.queries)
    unasked = {query for query, error in sidecar.errors.items() if error.startswith(NOT_ASKED)}
    places = [i for i, query in enumerate(queries) if query not in unasked and (asked is None or query in asked)]
    return np.array(places, dtype=np.int64) if len(places) < len(queries) else None


def in_common(*rows: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """The places that are in all; None where each is about all queries."""
    known = [each for each in rows if each is not None]
    if not known:
        return None
    common = known[0]
    for each in known[1:]:
        common = np.intersect1d(common, each)
    return common


def held_against_unasked(verdict: Verdict, unasked: Sequence[str]) -> Verdict:
    """The verdict, taken back where it says anything although a run was not asked every question.

    Args:
        unasked: the names of these runs.
    """
    if not unasked or verdict.word == "cannot tell":
        return verdict
    return taken_back(verdict, "not asked", " and ".join(unasked))


def how_partial(sidecar: Sidecar | None) -> str | None:
    """What a report must say of such a run; None for one that is whole."""
    if sidecar is None:
        return None
    words = []
    if sidecar.partial is not None:
        words.append(f"partial: {len(sidecar.partial.queries)} of {sidecar.partial.of} questions, seeded sample")
    if sidecar.incomplete is not None:
        count = sum(error.startswith(NOT_ASKED) for error in sidecar.errors.values())
        words.append(f"incomplete: {sidecar.incomplete}; {count} questions were not asked")
    return "; ".join(words) or None
