"""Near-duplicate passages in different documents: candidates for a second right answer, no more (METHOD 6).

A passage is compared by its word shingles (Broder, "On the resemblance and containment of documents", 1997) and never
by an engine's embedder, which would decide about its own score. The comparison is exact, over an
index of which documents hold which shingle, and not by samples of hashes (MinHash), which lose some pairs and find
others at another seed: 100,000 chunks take two minutes.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kbeval.model import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kbeval.model import Question

SHINGLE_WORDS = 4
"""As in Manning, Raghavan and Schütze's chapter on near-duplicates: long enough that chance phrases are rare."""

LEAST_SHINGLES = 8
"""A passage with fewer is not looked for elsewhere: "See also: Refunds" stands everywhere."""

THRESHOLD = 0.5
"""From which share of its shingles on a passage counts as found again."""

MOST_DOCUMENTS = 50
"""A shingle in more documents than this finds no pairs (it counts in those that others find): the cost stays linear
where every page ends with the same footer."""

_WORD = re.compile(r"\w+")
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd: multiplying by it loses nothing modulo 2**64


class NearDuplicate(NamedTuple):
    """Two chunks of different documents, the first id before the second by bytes.

    ``similarity`` is the share of one chunk's shingles that the other's document holds; of the two directions, the
    higher. The other chunk is the one there that shares the most.
    """

    chunk: str
    other: str
    similarity: float


class TwinCandidate(NamedTuple):
    """A document that may answer a question as well as its gold. ``chunk`` is None where whole documents match."""

    query: str
    document: str
    chunk: str | None
    similarity: float


@dataclass(frozen=True)
class Findings:
    """Pairs of near-duplicates, most similar first, and what was not looked at.

    Attributes:
        pairs: the near-duplicates.
        crowded: ids of chunks made mostly of phrases that more than ``MOST_DOCUMENTS`` documents share, whose
            further twins were not looked for.
    """

    pairs: list[NearDuplicate]
    crowded: tuple[str, ...]


def near_duplicates(chunks: Iterable[Chunk], threshold: float = THRESHOLD) -> list[NearDuplicate]:
    """The pairs of chunks of different documents that are nearly the same, most similar first.

    Raises:
        ValueError: unless ``0 < threshold <= 1``.
    """
    return find_near_duplicates(chunks, threshold).pairs


def find_near_duplicates(chunks: Iterable[Chunk], threshold: float = THRESHOLD) -> Findings:
    """As ``near_duplicates``, with what was not looked at."""
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be above 0 and at most 1, found {threshold}")
    listed = list(chunks)
    best: dict[tuple[str, str], float] = {}
    crowded: list[int] = []
    for first, second, similarity in _recurring(_Index(listed), threshold, crowded):
        ids = sorted((listed[first].id, listed[second].id), key=str.encode)
        pair = (ids[0], ids[1])
        best[pair] = max(similarity, best.get(pair, 0.0))
    pairs = [NearDuplicate(*pair, similarity) for pair, similarity in best.items()]
    pairs.sort(key=lambda pair: (-pair.similarity, pair.chunk.encode(), pair.other.encode()))
    return Findings(pairs, tuple(sorted((listed[unit].id for unit in crowded), key=str.encode)))


def twin_candidates(
    questions: Iterable[Question], chunks: Iterable[Chunk], threshold: float = THRESHOLD
) -> list[TwinCandidate]:
    """Documents that hold nearly what a question's gold holds, and are not gold themselves.

    A question's gold chunks are compared; where it has none, its gold documents as wholes. They become gold by
    judgment alone.

    Returns:
        By query id, then most similar first; a document once a query, at its most similar chunk.
    """
    listed = list(chunks)
    return candidates_among(questions, listed, near_duplicates(listed, threshold), threshold)


def candidates_among(
    questions: Iterable[Question], chunks: Sequence[Chunk], pairs: Iterable[NearDuplicate], threshold: float = THRESHOLD
) -> list[TwinCandidate]:
    """As ``twin_candidates``, where the near-duplicates of the chunks are at hand already."""
    document_of = {chunk.id: chunk.document_id for chunk in chunks}
    questions = [question for question in questions if question.gold_documents]
    of_chunk = _neighbours(pairs)
    of_document: Mapping[str, list[tuple[str, float]]] = {}
    if any(not question.gold_chunks for question in questions):
        of_document = _neighbours(near_duplicates(_wholes(chunks), threshold))
    candidates: list[TwinCandidate] = []
    for question in questions:
        found: dict[str, TwinCandidate] = {}
        near = (
            [(document_of[other], other, s) for gold in question.gold_chunks for other, s in of_chunk.get(gold, ())]
            if question.gold_chunks
            else [(other, None, s) for gold in question.gold_documents for other, s in of_document.get(gold, ())]
        )
        for document, chunk, similarity in near:
            known = found.get(document)
            if document not in question.gold_documents and (known is None or known.similarity < similarity):
                found[document] = TwinCandidate(question.id, document, chunk, similarity)
        candidates += found.values()
    return sorted(candidates, key=lambda one: (one.query.encode(), -one.similarity, one.document.encode()))


def passages_found(
    pairs: Iterable[tuple[str, str]], texts: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], float]:
    """For each pair of documents, how much of one passage of the first the second holds; the highest share.

    What ``near_duplicates`` finds among all documents, for a few pairs of them in little time.

    Args:
        pairs: ids of documents.
        texts: the passages of each document; one that is not there is alike to none.
    """
    wanted = list(pairs)
    names = [name for name in dict.fromkeys(name for pair in wanted for name in pair) if name in texts]
    chunks = [Chunk(name, name, passage) for name in names for passage in texts[name]]
    passages: dict[str, list[NDArray[np.uint64]]] = defaultdict(list)
    for chunk, hashes in zip(chunks, _hashes(chunks), strict=True):
        passages[chunk.document_id].append(hashes)
    wholes = {name: np.unique(np.concatenate(parts)) for name, parts in passages.items()}
    shares = {}
    for first, second in wanted:
        looked_for = [part for part in passages.get(first, ()) if len(part) >= LEAST_SHINGLES]
        held = wholes.get(second, np.empty(0, np.uint64))
        shares[first, second] = max((_shared(part, held) / len(part) for part in looked_for), default=0.0)
    return shares


def find_passages(texts: Sequence[str], chunks: Sequence[Chunk], threshold: float = 0.8) -> list[str | None]:
    """For each text the chunk that it is or mostly is in: the one of the document that holds the largest share of it.

    Exact text first, blanks and capitals aside; then shingles. Of several equal ones the first; None where no
    document holds as much as the threshold.
    """
    whole: dict[str, str] = {}
    for chunk in chunks:
        whole.setdefault(_squeezed(chunk.text), chunk.id)
    found = [whole.get(_squeezed(text)) if text.strip() else None for text in texts]
    missing = [place for place, chunk in enumerate(found) if chunk is None]
    if not missing:
        return found
    asked = [Chunk(id="", document_id=f"\0{place}", text=texts[place]) for place in missing]
    best: dict[int, tuple[float, int]] = {}
    for unit, other, share in _recurring(_Index([*chunks, *asked]), threshold, [], first=len(chunks)):
        if other < len(chunks):
            place = missing[unit - len(chunks)]
            best[place] = max(best.get(place, (0.0, 0)), (share, -other))
    for place, (_, other) in best.items():
        found[place] = chunks[-other].id
    return found


def _squeezed(text: str) -> str:
    return " ".join(text.casefold().split())


def _neighbours(pairs: Iterable[NearDuplicate]) -> Mapping[str, list[tuple[str, float]]]:
    near: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for pair in pairs:
        near[pair.chunk].append((pair.other, pair.similarity))
        near[pair.other].append((pair.chunk, pair.similarity))
    return near


def _wholes(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """Each document as one chunk. Windows overlap, so that a phrase across their border is in one of them."""
    texts: dict[str, list[str]] = defaultdict(list)
    for chunk in chunks:
        texts[chunk.document_id].append(chunk.text)
    for document, parts in texts.items():
        yield Chunk(id=document, document_id=document, text="\n\n".join(parts))


class _Index:
    """Which shingles each chunk holds, and which documents hold each shingle, all known by number."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.documents: dict[str, int] = {}
        self.of_unit = [self.documents.setdefault(chunk.document_id, len(self.documents)) for chunk in chunks]
        self.units: list[list[int]] = [[] for _ in self.documents]
        for unit, document in enumerate(self.of_unit):
            self.units[document].append(unit)
        hashes = list(_hashes(chunks))
        self._unit_starts = _starts(np.array([len(each) for each in hashes]))
        distinct, numbers = np.unique(np.concatenate([*hashes, np.empty(0, np.uint64)]), return_inverse=True)
        self._shingles = numbers.astype(np.int64)
        owners = np.repeat(np.array(self.of_unit, dtype=np.int64), np.diff(self._unit_starts))
        # A document's windows overlap: each of its shingles once.
        count = max(len(self.documents), 1)
        by_shingle = np.unique(self._shingles * count + owners)
        self._postings = (by_shingle % count).astype(np.int32)
        self.spread = np.bincount(by_shingle // count, minlength=len(distinct))
        self._posting_starts = _starts(self.spread)

    def of(self, unit: int) -> NDArray[np.int64]:
        """The shingles of a chunk, each once, ascending."""
        return self._shingles[self._unit_starts[unit] : self._unit_starts[unit + 1]]

    def held_in(self, document: int) -> NDArray[np.int64]:
        """The shingles of a document, ascending."""
        return np.sort(np.concatenate([self.of(unit) for unit in self.units[document]]))

    def documents_with(self, shingles: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The documents that hold any of the shingles, ascending, and how many of them each holds."""
        counts = self.spread[shingles]
        places = np.repeat(self._posting_starts[shingles] - _starts(counts)[:-1], counts) + np.arange(counts.sum())
        held = np.sort(self._postings[places])
        first = _firsts(held)
        return held[first], np.diff(np.append(first, len(held)))


def _firsts(ascending: NDArray[Any]) -> NDArray[np.int64]:
    """Where each value of a sorted array stands first. numpy's own ``unique`` takes several times as long."""
    return np.flatnonzero(np.append([True], ascending[1:] != ascending[:-1])[: len(ascending)])


def _shared(some: NDArray[Any], others: NDArray[Any]) -> int:
    """How many of some distinct values are among others, which are sorted."""
    if not len(some) or not len(others):
        return 0
    places = np.minimum(np.searchsorted(others, some), len(others) - 1)
    return int(np.count_nonzero(others[places] == some))


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _hashes(chunks: Iterable[Chunk]) -> Iterator[NDArray[np.uint64]]:
    """For each chunk its distinct shingles, one number each: of 10 million shingles two share one in 3 of a million
    corpora."""
    vocabulary: dict[str, int] = {}
    for chunk in chunks:
        words = [vocabulary.setdefault(word, len(vocabulary)) for word in _WORD.findall(chunk.text.lower())]
        numbers = np.array(words, dtype=np.uint64)
        runs = np.zeros(max(len(words) - SHINGLE_WORDS + 1, 0), dtype=np.uint64)
        for place in range(SHINGLE_WORDS):
            runs = (runs ^ numbers[place : place + len(runs)]) * _MIX
            runs ^= runs >> np.uint64(32)
        runs.sort()
        yield runs[_firsts(runs)]


def _recurring(index: _Index, threshold: float, crowded: list[int], first: int = 0) -> Iterator[tuple[int, int, float]]:
    """The chunk, the other document's chunk that shares most with it, the share that the other document holds.

    Chunks before the one at the place ``first`` are looked in, and not looked for.
    """
    for unit in range(first, len(index.of_unit)):
        own, shingles = index.of_unit[unit], index.of(unit)
        if len(shingles) < LEAST_SHINGLES:
            continue
        needed = math.ceil(len(shingles) * threshold - 1e-9)
        spread = index.spread[shingles]
        everywhere = shingles[spread > MOST_DOCUMENTS]
        if len(everywhere) >= needed:
            crowded.append(unit)
        documents, counts = index.documents_with(shingles[(spread > 1) & (spread <= MOST_DOCUMENTS)])
        possible = (documents != own) & (counts + len(everywhere) >= needed)
        for document, count in zip(documents[possible].tolist(), counts[possible].tolist(), strict=True):
            common = count + (_shared(everywhere, index.held_in(document)) if len(everywhere) else 0)
            if common >= needed:
                shared = [
                    np.isin(shingles, index.of(other), assume_unique=True).sum() for other in index.units[document]
                ]
                yield unit, index.units[document][int(np.argmax(shared))], common / len(shingles)
