"""Near-duplicate passages in different documents: candidates for a second right answer, no more (METHOD 6).

A passage is compared by its word shingles (Broder, "On the resemblance and containment of documents", 1997) and never
by an engine's embedder, which would decide about its own score. The comparison is exact: pairs are found by the
prefix filter of set-similarity joins (Chaudhuri, Ganti and Kaushik, ICDE 2006), which loses none, and not by samples
of hashes, which lose some and find others at another seed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from kbeval.model import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from kbeval.model import Question

SHINGLE_WORDS = 4
"""As in Manning, Raghavan and Schütze's chapter on near-duplicates: long enough that chance phrases are rare."""

LEAST_SHINGLES = 8
"""A passage with fewer says too little to be a twin: "See also: Refunds" stands everywhere."""

THRESHOLD = 0.5
"""From which share of its shingles on a passage counts as found again."""

MOST_DOCUMENTS = 50
"""A shingle in more documents than this finds no pairs (it counts in those that others find): the cost stays linear
where every page ends with the same footer."""

_WORD = re.compile(r"\w+")
_BLOCK = 2_000  # passages compared at a time, which bounds the memory
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
    table = _shingles(listed)
    best: dict[tuple[str, str], float] = {}
    crowded: list[str] = []
    for found in _blocks(table, threshold, crowded, listed):
        for first, second, similarity in found:
            ids = sorted((listed[first].id, listed[second].id), key=str.encode)
            pair = (ids[0], ids[1])
            best[pair] = max(similarity, best.get(pair, 0.0))
    pairs = [NearDuplicate(*pair, similarity) for pair, similarity in best.items()]
    pairs.sort(key=lambda pair: (-pair.similarity, pair.chunk.encode(), pair.other.encode()))
    return Findings(pairs, tuple(sorted(crowded, key=str.encode)))


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
    document_of = {chunk.id: chunk.document_id for chunk in listed}
    questions = list(questions)
    of_chunk = _neighbours(near_duplicates(listed, threshold))
    of_document: Mapping[str, list[tuple[str, float]]] = {}
    if any(not question.gold_chunks for question in questions):
        of_document = _neighbours(near_duplicates(_wholes(listed), threshold))
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


def _shingles(chunks: Sequence[Chunk]) -> pl.DataFrame:
    """Each distinct shingle of each chunk: columns unit (place of the chunk), document (number), shingle (hash)."""
    vocabulary: dict[str, int] = {}
    numbers: dict[str, int] = {}
    units: list[NDArray[np.uint32]] = []
    hashes: list[NDArray[np.uint64]] = []
    documents = np.array([numbers.setdefault(chunk.document_id, len(numbers)) for chunk in chunks], dtype=np.uint32)
    for place, chunk in enumerate(chunks):
        words = [vocabulary.setdefault(word, len(vocabulary)) for word in _WORD.findall(chunk.text.lower())]
        if len(words) < SHINGLE_WORDS:
            continue
        distinct = np.unique(_hashed(np.array(words, dtype=np.uint64)))
        if len(distinct) >= LEAST_SHINGLES:
            hashes.append(distinct)
            units.append(np.full(len(distinct), place, dtype=np.uint32))
    unit = np.concatenate(units) if units else np.empty(0, dtype=np.uint32)
    shingle = np.concatenate(hashes) if hashes else np.empty(0, dtype=np.uint64)
    return pl.DataFrame({"unit": unit, "document": documents[unit], "shingle": shingle})


def _hashed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One number for each run of ``SHINGLE_WORDS`` words; of 10 million runs, two of the same number: once in 300,000
    corpora."""
    count = len(words) - SHINGLE_WORDS + 1
    runs = np.zeros(count, dtype=np.uint64)
    for place in range(SHINGLE_WORDS):
        runs = (runs ^ words[place : place + count]) * _MIX
        runs ^= runs >> np.uint64(32)
    return runs


def _blocks(
    table: pl.DataFrame, threshold: float, crowded: list[str], chunks: Sequence[Chunk]
) -> Iterator[Iterator[tuple[int, int, float]]]:
    """For blocks of chunks: the chunk, the other chunk, the share of the first in the other's document."""
    held = table.select("document", "shingle").unique()
    spread = held.group_by("shingle").agg(pl.len().alias("documents"))
    shared = spread.filter(pl.col("documents") > 1)
    table = table.join(spread, on="shingle").sort("unit", "documents", "shingle")
    # If x of a chunk's n shingles are to recur in a document, one of any n - x + 1 does: the rarest are looked up.
    size = pl.len().over("unit")
    needed = (size * threshold - 1e-9).ceil().cast(pl.UInt32)
    table = table.with_columns(
        size.alias("size"), (pl.int_range(pl.len()).over("unit") <= size - needed).alias("is_key")
    )
    keys = table.filter("is_key", pl.col("documents") > 1)
    crowded += [chunks[unit].id for unit in keys.filter(pl.col("documents") > MOST_DOCUMENTS)["unit"].unique()]
    keys = keys.filter(pl.col("documents") <= MOST_DOCUMENTS).select("unit", "document", "shingle", "size")
    held = held.join(shared, on="shingle", how="semi").rename({"document": "other_document"})
    table = table.join(shared, on="shingle", how="semi").select("unit", "document", "shingle")
    for start in range(0, len(chunks), _BLOCK):
        inside = pl.col("unit").is_between(start, start + _BLOCK, closed="left")
        candidates = (
            keys.filter(inside)
            .join(held, on="shingle")
            .filter(pl.col("document") != pl.col("other_document"))
            .select("unit", "other_document", "size")
            .unique()
        )
        if candidates.is_empty():
            continue
        block = table.filter(inside).select("unit", "shingle")
        found = (
            candidates.join(block, on="unit")
            .join(held, on=["other_document", "shingle"], how="semi")
            .group_by("unit", "other_document", "size")
            .agg(pl.len().alias("common"), "shingle")
            .filter(pl.col("common") >= (pl.col("size") * threshold - 1e-9))
        )
        yield _with_chunk(found, table)


def _with_chunk(found: pl.DataFrame, table: pl.DataFrame) -> Iterator[tuple[int, int, float]]:
    """Finds in the other document the chunk that shares the most; of several, the first."""
    best = (
        found.explode("shingle")
        .join(
            table.rename({"unit": "other", "document": "other_document"}),
            on=["other_document", "shingle"],
        )
        .group_by("unit", "other", "size", "common")
        .agg(pl.len().alias("here"), pl.col("other_document").first())
        .sort("unit", "other_document", "here", "other", descending=[False, False, True, False])
        .group_by("unit", "other_document", maintain_order=True)
        .first()
    )
    for unit, other, common, size in best.select("unit", "other", "common", "size").iter_rows():
        yield unit, other, common / size
