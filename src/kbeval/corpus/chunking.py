"""Cuts documents into chunks, as engine A indexes them and questions are written from.

A chunk is always an exact slice of its document's text, line breaks included, so that tables and code survive, and
never has more than the words it is allowed. Three ways to cut:

- ``words``: windows of a fixed number of words, whatever stands in them;
- ``sentences``: as many whole sentences as fit;
- ``headings``: what stands under one heading; where that is too long, windows of words of it.
"""

from __future__ import annotations

import hashlib
import re
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from kbeval.corpus.sections import sections
from kbeval.corpus.sentences import sentence_spans
from kbeval.model import Chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kbeval.config import CorpusSettings
    from kbeval.model import Document

    Cut = Callable[[Document], Iterator[Chunk]]

    Span = tuple[int, int]

Chunker = Literal["words", "sentences", "headings"]

DEFAULT_WORDS = 120
DEFAULT_OVERLAP = 20

_WORD = re.compile(r"\S+")
_HASH_DIGITS = 16


def chunk_document(
    document: Document, *, words: int = DEFAULT_WORDS, overlap: int = DEFAULT_OVERLAP, chunker: Chunker = "words"
) -> Iterator[Chunk]:
    """Yields the chunks of a document in their order; each has at most ``words`` blank-separated words.

    A document without a word is one chunk with empty text: it stays in the corpus, and is counted as empty by
    whoever indexes it.

    Args:
        words: the most words of a chunk.
        overlap: words that a chunk shares with the one before; of ``sentences`` as many whole ones as fit into it,
            of ``headings`` only within a section that is cut.
        chunker: ``words``, ``sentences`` or ``headings``.

    Raises:
        ValueError: unless ``0 <= overlap < words``.
        KbevalError: ``sentences`` without the extra of that name.
    """
    if not 0 <= overlap < words:
        raise ValueError(f"overlap must be at least 0 and below words, found overlap={overlap}, words={words}")
    text = document.text
    number = 0
    for (start, end), headings in _cut(text, words, overlap, chunker):
        yield Chunk(f"{document.id}#{number}", document.id, text[start:end], headings)
        number += 1
    if number == 0:
        yield Chunk(id=f"{document.id}#0", document_id=document.id, text="")


def cutter(settings: CorpusSettings) -> Cut:
    """``chunk_document`` as ``[corpus]`` wants it."""
    return partial(chunk_document, words=settings.chunk_words, overlap=settings.chunk_overlap, chunker=settings.chunker)


def _cut(text: str, words: int, overlap: int, chunker: Chunker) -> Iterator[tuple[Span, tuple[str, ...]]]:
    if chunker == "words":
        yield from ((window, ()) for window in _windows(_words(text, (0, len(text))), words, overlap))
    elif chunker == "sentences":
        yield from ((packed, ()) for packed in _packed(text, words, overlap))
    else:
        for section in sections(text):
            for place, window in enumerate(_windows(_words(text, section.span), words, overlap)):
                yield window, section.continued if place else section.above


def _words(text: str, span: Span) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text, *span)]


def _windows(spans: Sequence[Span], words: int, overlap: int) -> Iterator[Span]:
    """Windows of words; the last is never one that the window before already holds."""
    if not spans:
        return
    for first in range(0, max(len(spans) - overlap, 1), words - overlap):
        last = min(first + words, len(spans)) - 1
        yield spans[first][0], spans[last][1]


def _packed(text: str, words: int, overlap: int) -> Iterator[Span]:
    """As many whole sentences as fit; one that is too long alone is cut into windows."""
    packed: list[list[Span]] = []
    for sentence in filter(None, (_words(text, span) for span in sentence_spans(text))):
        if packed and sum(map(len, packed)) + len(sentence) > words:
            yield packed[0][0][0], packed[-1][-1][1]
            packed = _tail(packed, min(overlap, words - len(sentence)))
        if len(sentence) > words:
            yield from _windows(sentence, words, overlap)
            packed = []
        else:
            packed.append(sentence)
    if packed:
        yield packed[0][0][0], packed[-1][-1][1]


def _tail(packed: list[list[Span]], room: int) -> list[list[Span]]:
    """The last sentences that have at most ``room`` words together."""
    first = len(packed)
    while first > 0 and len(packed[first - 1]) <= room:
        first -= 1
        room -= len(packed[first])
    return packed[first:]


def text_hash(text: str) -> str:
    """The hash by which a gold chunk is found again: the first 16 hexadecimal digits of SHA-256 over UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def find_slices(text: str, hashes: Iterable[str], *, words: int = DEFAULT_WORDS) -> dict[str, str]:
    """The runs of at most ``words`` whole words in ``text`` that have one of these hashes, by their hash.

    An edit shifts the windows of everything behind it, so that a gold chunk that nobody touched is no longer one of
    its document's chunks. Its text is still there, and this finds it, wherever it begins now. Full windows are tried
    first; the rest takes about three microseconds for each of ``words`` runs from each word of the text.
    """
    missing = set(hashes)
    found: dict[str, str] = {}
    spans = _words(text, (0, len(text)))
    for (start, _), (_, end) in zip(spans, spans[words - 1 :], strict=False):
        _take(text[start:end], text_hash(text[start:end]), missing, found)
    encoded = [text[before:end].encode() for (_, before), (_, end) in pairwise(spans)]
    for first, (start, end) in enumerate(spans):
        if not missing:
            break
        running = hashlib.sha256(text[start:end].encode())
        for last in range(first, min(first + words, len(spans))):
            if last > first:
                running.update(encoded[last - 1])
            _take(text[start : spans[last][1]], running.hexdigest()[:_HASH_DIGITS], missing, found)
    return found


def _take(piece: str, hashed: str, missing: set[str], found: dict[str, str]) -> None:
    if hashed in missing:
        missing.remove(hashed)
        found[hashed] = piece
