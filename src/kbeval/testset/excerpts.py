"""What of a document is shown to a judge: all of it where it is short enough, else its best chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbeval.corpus.chunking import text_hash

if TYPE_CHECKING:
    from collections.abc import Collection

    from kbeval.corpus.chunking import Cut
    from kbeval.model import Document

LEFT_OUT = "[...]"
"""Stands wherever a part of the document is not shown."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of a document that is shown.

    Attributes:
        text: the text, in the document's order, ``[...]`` for what is left out.
        whole: whether that is all of it.
        chunks: how many of the document's chunks are in it.
        of: how many chunks the document has.
    """

    text: str
    whole: bool
    chunks: int
    of: int


class Excerpts:
    """Picks excerpts, with the chunks of the test set.

    A document of at most ``limit`` characters is shown whole. Of a longer one those chunks come first whose hashes the
    caller names (what the question was written from, or what nearly repeats it), then those that BM25 over the
    document's own chunks ranks highest for the question, equal ones in the document's order, for as long as they fit
    into ``limit``. BM25, because no engine's embedder may pick what an engine is judged by; it can overlook an answer
    that shares no word with the question, which is why a document is shown whole wherever that can be paid for.

    A single chunk that is longer than the limit is cut at it, and marked as cut.
    """

    def __init__(self, *, limit: int, cut: Cut) -> None:
        self._limit = limit
        self._cut = cut
        self._known: dict[str, _Chunked] = {}

    def of(self, document: Document, question: str, first: Collection[str] = ()) -> Excerpt:
        """The excerpt of ``document`` for ``question``; ``first``: the hashes of chunks that come before others."""
        if len(document.text) <= self._limit:
            return Excerpt(document.text, whole=True, chunks=1, of=1)
        chunked = self._known.get(document.id)
        if chunked is None or chunked.text != document.text:
            chunked = self._known[document.id] = _Chunked(document, self._cut)
        shown: list[int] = []
        spans: list[Span] = []
        order = chunked.best(question, first)
        for number in order:
            wider = _united([*spans, chunked.spans[number]])
            if sum(end - start for start, end in wider) > self._limit:
                break
            shown.append(number)
            spans = wider
        if not shown:
            start, end = chunked.spans[order[0]]
            shown, spans = [order[0]], [(start, min(end, start + self._limit))]
        return Excerpt(_marked(document.text, spans), whole=False, chunks=len(shown), of=len(chunked.spans))


class _Chunked:
    """A long document, cut once for all the questions about it."""

    def __init__(self, document: Document, cut: Cut) -> None:
        from kbeval.engines.bm25_index import Bm25Index

        chunks = [chunk.text for chunk in cut(document)]
        self.text = document.text
        self.spans = _spans(document.text, chunks)
        self._hashes = [text_hash(chunk) for chunk in chunks]
        self._index = Bm25Index(chunks)

    def best(self, question: str, first: Collection[str]) -> list[int]:
        scores = self._index.scores(question)
        return sorted(range(len(self.spans)), key=lambda i: (self._hashes[i] not in first, -scores[i], i))


def _spans(text: str, chunks: list[str]) -> list[Span]:
    """Where each chunk stands. Chunks are exact slices of the text, each beginning after the one before."""
    spans = []
    start = -1
    for chunk in chunks:
        start = text.index(chunk, start + 1)
        spans.append((start, start + len(chunk)))
    return spans


def _united(spans: list[Span]) -> list[Span]:
    """The same ground without overlaps, in order."""
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _marked(text: str, spans: list[Span]) -> str:
    parts = [text[start:end] for start, end in spans]
    before = [LEFT_OUT] if text[: spans[0][0]].strip() else []
    after = [LEFT_OUT] if text[spans[-1][1] :].strip() else []
    middle = f"\n{LEFT_OUT}\n".join(parts)
    return "\n".join([*before, middle, *after])
