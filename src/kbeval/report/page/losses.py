"""Why a run did not have a relevant document first: what is known about each query, as flags.

Several can hold at once. They describe; no number or verdict rests on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbeval.corpus.chunking import chunk_document
from kbeval.evaluation.comparison import RANKED_IDS
from kbeval.testset.twins import THRESHOLD, passages_found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.evaluation.comparison import Comparison, RunResult

REASONS = {
    "error": "engine error",
    "empty": "nothing returned",
    "no gold": "no relevant document is known",
    "not in corpus": "gold not in the corpus",
    "never returned": "gold in no list of this run",
    "below": "gold below the cut-off",
    "twin": "beaten by a near-duplicate of the gold",
    "unjudged": "beaten by an unjudged document",
    "judged": "beaten by a document judged not relevant",
    "tie": "tied with the document above",
    "not asked": "not asked",
}
"""In the order in which they are shown; a reason's bit is 1 << its place."""

BIT = {name: 1 << place for place, name in enumerate(REASONS)}

MOST_PAIRS = 10_000
MOST_CHARACTERS = 2_000_000


@dataclass(frozen=True)
class Losses:
    """What is known of every query and run.

    Attributes:
        flags: for each run, one number a query: the sum of its reasons' bits; 0 where a relevant document is first.
        twins: for each query, the shown documents that hold a passage of its gold, with the share of it.
        looked: among how many of the first answers near-duplicates were looked for; 0 where there are no texts.
        cut: the rank below which a relevant document counts as not found.
    """

    flags: Sequence[list[int]]
    twins: Mapping[int, Mapping[str, float]]
    looked: int
    cut: int


def losses(comparison: Comparison, lists: Sequence[Sequence[Sequence[str]]]) -> Losses:
    """Looks at every query of every run.

    Args:
        comparison: the runs.
        lists: for each run and query, the documents among which near-duplicates are looked for.
    """
    cut = min(RANKED_IDS, comparison.depth or RANKED_IDS)
    beaten = _beaten_by(comparison, lists)
    twins, looked = _twins(comparison, beaten)
    flags = [_flags(comparison, run, beaten[place], twins, cut) for place, run in enumerate(comparison.runs)]
    return Losses(flags, twins, looked, cut)


def _beaten_by(comparison: Comparison, lists: Sequence[Sequence[Sequence[str]]]) -> list[list[Sequence[str]]]:
    """For each run and query, the documents before the first relevant one."""
    found = []
    for run, of_run in zip(comparison.runs, lists, strict=True):
        found.append(
            [
                of_query[: rank - 1] if rank else of_query
                for of_query, rank in zip(of_run, run.first_ranks.tolist(), strict=True)
            ]
        )
    return found


def _twins(comparison: Comparison, beaten: list[list[Sequence[str]]]) -> tuple[dict[int, dict[str, float]], int]:
    """Near-duplicates of gold before it, rank by rank, as far down as there is time for."""
    test_set = comparison.test_set
    documents = test_set.documents
    if not any(document.text for document in documents.values()):
        return {}, 0
    pairs: dict[tuple[str, str], None] = {}
    places: list[tuple[int, str, str]] = []
    read: set[str] = set()
    characters = 0
    looked = 0
    for rank in range(RANKED_IDS):
        level: list[tuple[int, str, str]] = []
        for of_run in beaten:
            for index, before in enumerate(of_run):
                if rank < len(before) and before[rank] in documents:
                    gold = [name for name in test_set.gold[test_set.queries[index]][:3] if name in documents]
                    level += [(index, name, before[rank]) for name in gold]
        new_pairs = dict.fromkeys((name, other) for _, name, other in level)
        unread = {name for pair in new_pairs for name in pair} - read
        characters += sum(len(documents[name].text) for name in unread)
        if len(pairs) + len(new_pairs) > MOST_PAIRS or characters > MOST_CHARACTERS:
            break
        read |= unread
        pairs |= new_pairs
        places += level
        looked = rank + 1
    texts = {name: [chunk.text for chunk in chunk_document(documents[name])] for pair in pairs for name in pair}
    shares = passages_found(pairs, texts)
    found: dict[int, dict[str, float]] = {}
    for index, name, other in places:
        share = shares[name, other]
        if share >= THRESHOLD:
            of_query = found.setdefault(index, {})
            of_query[other] = max(share, of_query.get(other, 0.0))
    return found, looked


def _flags(
    comparison: Comparison,
    run: RunResult,
    beaten: Sequence[Sequence[str]],
    twins: Mapping[int, Mapping[str, float]],
    cut: int,
) -> list[int]:
    test_set = comparison.test_set
    missing = set(run.missing)
    asked = None if run.asked is None else set(run.asked.tolist())
    flags = []
    for index, (query, rank) in enumerate(zip(test_set.queries, run.first_ranks.tolist(), strict=True)):
        if asked is not None and index not in asked:
            flags.append(BIT["not asked"])
            continue
        if query in run.errors:
            flags.append(BIT["error"])
            continue
        gold = test_set.gold[query]
        reasons = 0
        if not gold:
            reasons |= BIT["no gold"]
        elif test_set.documents and not any(name in test_set.documents for name in gold):
            reasons |= BIT["not in corpus"]
        if query in missing:
            flags.append(reasons | BIT["empty"])
            continue
        if rank == 1 or not gold:
            flags.append(reasons)
            continue
        if rank == 0 or rank > cut:
            reasons |= BIT["below"]
            if run.before.nowhere[index]:
                reasons |= BIT["never returned"]
        if run.tied[index]:
            reasons |= BIT["tie"]
        if index in twins and any(name in twins[index] for name in beaten[index]):
            reasons |= BIT["twin"]
        if run.before.judged[index]:
            reasons |= BIT["judged"]
        if run.before.unjudged[index]:
            reasons |= BIT["unjudged"]
        flags.append(reasons)
    return flags


def count_reasons(flags: Sequence[int]) -> dict[str, int]:
    """How many queries each reason holds for."""
    column = np.array(flags, dtype=np.int64)
    return {name: int(np.count_nonzero(column & bit)) for name, bit in BIT.items()}
