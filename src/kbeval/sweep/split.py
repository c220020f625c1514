"""Cuts a test set in two: what a configuration is picked on, and what it is then tested on."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import polars as pl

from kbeval.errors import KbevalError
from kbeval.evaluation.strata import in_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kbeval.evaluation.test_set import TestSet

T = TypeVar("T")


@dataclass(frozen=True)
class Split:
    """The two halves. No cluster of METHOD 4 is in both."""

    dev: TestSet
    held_out: TestSet


def split(test_set: TestSet, *, share: float, seed: int) -> Split:
    """Cuts by clusters, so that questions written from one document are never on both sides.

    Clusters with questions of the same strata are dealt in an order that only the seed and their ids decide, so that
    both sides have their share of each. Questions that the corpus does not answer are dealt by themselves.

    Args:
        share: of the dev split.
        seed: another cut.

    Raises:
        KbevalError: a side has fewer than two clusters.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for row, cluster in enumerate(test_set.clusters.tolist()):
        members[cluster].append(row)
    clusters = sorted(
        members.values(),
        key=lambda rows: (
            in_order(test_set.strata[row] for row in rows),
            len(rows),
            _draw(seed, min(test_set.queries[row] for row in rows)),
        ),
    )
    dev = {test_set.queries[row] for rows in _dealt(clusters, share) for row in rows}
    held_out = set(test_set.queries) - dev
    for name, side in (("dev", dev), ("held-out", held_out)):
        count = sum(test_set.queries[rows[0]] in side for rows in clusters)
        if count < 2:
            raise KbevalError(
                f"the test set: expected at least two clusters of questions in the {name} split (dev = {share:g}), "
                f"found {count} of {len(clusters)}"
            )
    unanswerable = sorted(test_set.unanswerable, key=lambda query: _draw(seed, query))
    dealt = set(_dealt(unanswerable, share))
    return Split(
        dev=_part(test_set, dev, dealt),
        held_out=_part(test_set, held_out, set(unanswerable) - dealt),
    )


def _dealt(groups: list[T], share: float) -> Iterable[T]:
    """The groups of the dev split: as even as can be, all along the order."""
    for place, group in enumerate(groups):
        if math.floor((place + 1) * share + 1e-9) > math.floor(place * share + 1e-9):
            yield group


def _part(test_set: TestSet, queries: set[str], unanswerable: set[str]) -> TestSet:
    """The test set with some of its queries alone."""
    frame = test_set.qrels.frame.filter(pl.col("query").is_in(list(queries)))
    return replace(
        test_set,
        qrels=replace(
            test_set.qrels,
            frame=frame,
            unjudged=tuple(query for query in test_set.qrels.unjudged if query in queries),
        ),
        labelled={query: known for query, known in test_set.labelled.items() if query in queries},
        unanswerable={query: known for query, known in test_set.unanswerable.items() if query in unanswerable},
        left_out=test_set.left_out | (set(test_set.queries) - queries) | (set(test_set.unanswerable) - unanswerable),
    )


def _draw(seed: int, identifier: str) -> bytes:
    return hashlib.sha256(f"kbeval sweep {seed} {identifier}".encode()).digest()
