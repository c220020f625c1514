"""First answers that count as wrong: which of them a person is asked to mark, and what the marks say (METHOD 7)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbeval.evaluation.label_effects import without_added
from kbeval.evaluation.statistics import clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbeval.evaluation.test_set import TestSet

MISSES = 20


@dataclass(frozen=True, slots=True)
class MarkedShare:
    """How many of the marked misses answer their question after all.

    Attributes:
        marked: how many a person has marked.
        answering: how many of them do answer it.
        share: ``answering / marked``; None where nothing is marked.
        low, high: the ends of its exact 95% interval (Clopper-Pearson); None where nothing is marked.
    """

    marked: int
    answering: int
    share: float | None
    low: float | None
    high: float | None


def sampled_misses(test_set: TestSet, first: Sequence[str | None]) -> list[int]:
    """Up to twenty seeded random misses at rank 1 of one run.

    Args:
        test_set: what the run is measured on.
        first: for each of its queries, in their order, the run's first document; None where it has none.

    Returns:
        Positions in ``test_set.queries``. Marks become labels, which may make gold of a miss: the sample is taken
        from the test set without the gold that labels added, so that it stays the one that was marked.
    """
    gold = (without_added(test_set) or test_set).gold
    queries = test_set.queries
    missed = [i for i, document in enumerate(first) if document is not None and document not in gold[queries[i]]]
    return sorted(missed, key=lambda i: shuffle("misses", queries[i]))[:MISSES]


def share_with_interval(marked: Iterable[bool]) -> MarkedShare:
    """The share of marked misses that answer their question, with its interval.

    Args:
        marked: for each miss that a person has marked, whether it answers its question.
    """
    marks = list(marked)
    if not marks:
        return MarkedShare(0, 0, None, None, None)
    answering = sum(marks)
    low, high = clopper_pearson(answering, len(marks))
    return MarkedShare(len(marks), answering, answering / len(marks), low, high)


def shuffle(purpose: str, identifier: str) -> str:
    """A seeded random order that needs no generator: the same on every machine and for every subset."""
    return hashlib.sha256(f"kbeval {purpose} {identifier}".encode()).hexdigest()
