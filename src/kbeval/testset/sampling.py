"""Which of many logged questions are taken: the same ones for the same seed, whatever the order of the log."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

AGREEMENT_DEPTH = 10


def at_random(items: Iterable[T], key: Callable[[T], str], seed: int) -> list[T]:
    """All items in a random order that depends on the seed and each item's key alone.

    The first N are a random sample; where the log grows, what was in it keeps its order.
    """
    return sorted(items, key=lambda item: hashlib.sha256(f"{seed}\0{key(item)}".encode()).digest())


def by_stratum(items: Iterable[T], key: Callable[[T], str], stratum: Callable[[T], str], seed: int) -> list[T]:
    """All items, each stratum having its turn, in random order within: the first N hold as many of each as can be.

    Rare strata are so represented beyond their share, which is the purpose: a mean over the sample is not a mean
    over the log.
    """
    strata: dict[str, list[T]] = defaultdict(list)
    for item in at_random(items, key, seed):
        strata[stratum(item)].append(item)
    turns = itertools.zip_longest(*(strata[name] for name in sorted(strata)))
    return [item for turn in turns for item in turn if item is not None]


def ambiguous_first(
    items: Iterable[T], key: Callable[[T], str], ambiguity: Callable[[T], float | None], seed: int
) -> list[T]:
    """All items, the most ambiguous first, those about which nothing is known last; equal ones at random."""

    def place(item: T) -> float:
        value = ambiguity(item)
        return 1.0 if value is None else -value

    return sorted(at_random(items, key, seed), key=place)


def disagreement(rankings: Sequence[Sequence[str]]) -> float | None:
    """How much engines disagree on a query: mean Jaccard distance of their first ten, over all pairs, in [0, 1].

    None with fewer than two rankings. Two empty ones agree.
    """
    tops = [set(ranking[:AGREEMENT_DEPTH]) for ranking in rankings]
    pairs = list(itertools.combinations(tops, 2))
    if not pairs:
        return None
    return sum(1 - len(a & b) / len(a | b) if a | b else 0.0 for a, b in pairs) / len(pairs)


def thinness(scores: Sequence[float]) -> float | None:
    """How close the second score is to the first: 1 where equal, 0 where the second is nothing beside it.

    ``1 - (first - second) / max(|first|, |second|)``, in [0, 1]; None with fewer than two scores.
    """
    if len(scores) < 2:
        return None
    first, second = sorted(scores, reverse=True)[:2]
    largest = max(abs(first), abs(second))
    return 1.0 if largest == 0 else max(0.0, 1 - (first - second) / largest)


def rankings_of(ids: Iterable[str], runs: Sequence[Mapping[str, Sequence[str]]]) -> list[Sequence[str]]:
    """What each run returned for a question that the log knows by any of these ids; runs that lack it left out."""
    names = list(ids)
    found = []
    for run in runs:
        name = next((name for name in names if name in run), None)
        if name is not None:
            found.append(run[name])
    return found
