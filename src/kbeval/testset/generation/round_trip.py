"""The round trip: does either of two different retrievers find a question's source document at all?

Off by default, because it is biased: what neither a word-matching nor a static-vector retriever finds is rejected,
so questions that only a better engine could answer are lost, and every engine that resembles one of the two looks
better than it is. It is for throwing out questions that their text does not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.engines.bm25 import Bm25Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kbeval.corpus.chunking import Cut
    from kbeval.model import Document

BIAS = (
    "the round trip keeps only what BM25 or static word vectors find within the top {k}: "
    "it flatters engines like these two, and drops questions that only a better engine would answer"
)


def round_trip(documents: Sequence[Document], *, k: int, cut: Cut) -> Callable[[str, Collection[str]], bool]:
    """Builds both retrievers; gives ``found(question, documents)``: whether either has one of these in its top k.

    They are BM25 over title and text, and the best chunk of each document by the cosine of wordllama's vectors. Exact
    search in memory: no database.
    """
    from haystack import Document as Piece

    from kbeval.engines.components.embedders import make_embedder

    lexical = Bm25Engine(documents)
    embedder = make_embedder("wordllama", base_url=None, timeout_s=60, retries=0)
    chunks = [chunk for document in documents for chunk in cut(document)]
    embedded = embedder.embed_chunks([Piece(id=chunk.id, content=chunk.text) for chunk in chunks])
    rows = [
        (chunk.document_id, piece.embedding)
        for chunk, piece in zip(chunks, embedded, strict=True)
        if piece.embedding is not None
    ]
    owners = [owner for owner, _ in rows]
    vectors = _unit(np.array([vector for _, vector in rows], dtype=np.float64)) if rows else None

    def by_vectors(question: str) -> list[str]:
        asked = embedder.embed_query(question)
        if asked is None or vectors is None:
            return []
        scores = vectors @ _unit(np.array([asked], dtype=np.float64))[0]
        best: dict[str, None] = {}
        for row in np.argsort(-scores, kind="stable"):
            best.setdefault(owners[row])
            if len(best) == k:
                break
        return list(best)

    def found(question: str, wanted: Collection[str]) -> bool:
        if any(document in wanted for document, _ in lexical.retrieve(question, k).hits):
            return True
        return any(document in wanted for document in by_vectors(question))

    return found


def _unit(vectors: np.ndarray) -> np.ndarray:
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
