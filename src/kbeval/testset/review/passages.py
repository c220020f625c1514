"""Which part of a document is read first, and where a document is found that nobody named."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from kbeval.corpus.chunking import text_hash

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kbeval.corpus.chunking import Cut
    from kbeval.engines.bm25_index import Bm25Index
    from kbeval.model import Document

KEPT = 512
"""Documents whose chunks are kept; a document is looked at several times in a row."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A document's text in three parts: before the passage to read first, the passage, and after it."""

    before: str
    text: str
    after: str

    @property
    def whole(self) -> bool:
        """Whether the passage is all there is."""
        return not self.before.strip() and not self.after.strip()


class Passages:
    """Finds the passage to read first, and documents by words; BM25 over texts, as no embedder may pick either."""

    def __init__(self, documents: Mapping[str, Document], *, cut: Cut) -> None:
        self._documents = documents
        self._cut = cut
        self._index: Bm25Index | None = None
        self._ids: Sequence[str] = list(documents)
        self._chunked = lru_cache(KEPT)(self._chunk)

    def first(self, document: str, question: str, gold: Collection[str] = ()) -> Passage:
        """The passage of a document to read first: the one with a hash in ``gold``, else the one nearest in words.

        One is chosen of any document, so that having one says nothing about a document.
        """
        text = self._documents[document].text
        chunks, index = self._chunked(document)
        chosen = next((n for n, chunk in enumerate(chunks) if text_hash(chunk) in gold), None) if gold else None
        if chosen is None:
            chosen = int(np.argmax(index.scores(question)))
        start = self._starts(document)[chosen]
        end = start + len(chunks[chosen])
        return Passage(text[:start], text[start:end], text[end:])

    def search(self, words: str, count: int) -> list[str]:
        """The documents that hold the words, best first; titles count too."""
        if self._index is None:
            from kbeval.engines.bm25_index import Bm25Index

            self._index = Bm25Index(f"{each.title}\n{each.text}" for each in self._documents.values())
        scores = self._index.scores(words)
        best = np.argsort(-scores, kind="stable")[:count]
        return [self._ids[place] for place in best.tolist() if scores[place] > 0]

    def _chunk(self, document: str) -> tuple[list[str], Bm25Index]:
        from kbeval.engines.bm25_index import Bm25Index

        chunks = [chunk.text for chunk in self._cut(self._documents[document])]
        return chunks, Bm25Index(chunks)

    def _starts(self, document: str) -> list[int]:
        text = self._documents[document].text
        chunks, _ = self._chunked(document)
        starts, at = [], 0
        for chunk in chunks:
            # Windows overlap and move forward: each begins after the one before, at its first occurrence from there.
            at = text.index(chunk, at)
            starts.append(at)
            at += 1
        return starts
