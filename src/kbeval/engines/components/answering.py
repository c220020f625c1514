"""How engine A makes an answer out of its stages, whoever does them: the engine itself, or a sweep that remembers."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from haystack import Document as Chunk

    from kbeval.engines.hybrid import HybridSettings, Leg
    from kbeval.engines.metering import Meter

STAGE = {"bm25": "lexical", "fulltext": "fulltext", "vector": "vector"}
"""What the stage of each leg is called."""


class Stages(Protocol):
    """What costs time and money. Each adds its seconds to ``seconds`` under its stage's name."""

    def embed(self, query: str, seconds: dict[str, float]) -> list[float] | None:
        """The vector of a question, None where it has none, or where no leg needs one."""

    def search(
        self, leg: Leg, query: str, embedding: list[float] | None, count: int, seconds: dict[str, float]
    ) -> list[Chunk]:
        """The first ``count`` chunks of a leg, fewer where there are no more."""

    def rerank(self, query: str, chunks: list[Chunk], seconds: dict[str, float]) -> list[Chunk]:
        """The chunks in the reranker's order, with its scores."""


@dataclass(frozen=True)
class Parts:
    """The Haystack components that only compute: they cost next to nothing.

    ``fusion`` is None with one leg; ``head`` and ``behind`` are None without a reranker.
    """

    fusion: Any
    head: Any
    behind: Any


@dataclass(frozen=True)
class Ranked:
    """An answer: the hits, each stage's order of documents, each stage's seconds.

    ``head`` are the documents of the chunks that the reranker saw, in the order in which it got them.
    """

    hits: list[tuple[str, float]]
    stages: dict[str, list[str]]
    seconds: dict[str, float]
    head: list[str]


def answered(
    settings: HybridSettings, stages: Stages, parts: Parts, document_of: Mapping[str, str], query: str, k: int
) -> Ranked:
    """Ranks documents by their best chunk, as the settings say.

    Args:
        stages: who searches and reranks.
        parts: what puts their lists together.
        document_of: Haystack id of a chunk -> id of its document.
        k: how many documents are wanted.
    """
    seconds: dict[str, float] = {}
    embedding = stages.embed(query, seconds)
    candidates = settings.candidates
    while True:
        legs = {leg: stages.search(leg, query, embedding, candidates, seconds) for leg in settings.legs}
        chunks = _fused(list(legs.values()), parts, seconds)
        cut = settings.fusion_top_k is not None and len(chunks) >= settings.fusion_top_k
        exhausted = all(len(found) < candidates for found in legs.values())
        ranking = documents(chunks, document_of)
        if cut or exhausted or len(ranking) >= k:
            break
        candidates *= 2
    if len(legs) > 1:
        orders = {STAGE[leg]: list(documents(found, document_of)) for leg, found in legs.items()}
        orders["fusion"] = list(ranking)
    else:
        orders = {STAGE[leg]: list(ranking) for leg in legs}
    head: list[str] = []
    if parts.head is not None:
        split = parts.head.run(documents=chunks)
        head = list(documents(split["head"], document_of))
        ranked = stages.rerank(query, split["head"], seconds)
        ranking = documents(parts.behind.run(head=ranked, rest=split["rest"])["documents"], document_of)
        orders["rerank"] = list(ranking)
    hits = list(ranking.items())[:k]
    if settings.score_threshold is not None:
        hits = [(document, score) for document, score in hits if score >= settings.score_threshold]
    return Ranked(hits[: settings.top_n], orders, seconds, head)


def documents(chunks: Sequence[Chunk], document_of: Mapping[str, str]) -> dict[str, float]:
    """Document ids with the score of their best chunk, in the order of their best chunks."""
    found: dict[str, float] = {}
    for chunk in chunks:
        found.setdefault(document_of[chunk.id], chunk.score or 0.0)
    return found


def _fused(legs: list[list[Chunk]], parts: Parts, seconds: dict[str, float]) -> list[Chunk]:
    if parts.fusion is None:
        return legs[0]
    with timed_stage(seconds, "fusion"):
        fused: list[Chunk] = parts.fusion.run(documents=legs)["documents"]
    return fused


@contextmanager
def timed_stage(seconds: dict[str, float], stage: str, meter: Meter | None = None) -> Iterator[None]:
    """Adds the block's wall time to its stage's, which is several blocks' where candidates are doubled.

    Pauses before a repeated request, which ``meter`` hears of, are none of it.
    """
    started, waited = time.perf_counter(), meter.waited if meter else 0.0
    try:
        yield
    finally:
        pauses = meter.waited - waited if meter else 0.0
        seconds[stage] = seconds.get(stage, 0.0) + time.perf_counter() - started - pauses
