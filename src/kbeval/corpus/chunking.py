"""Cuts documents into chunks: windows of words, as engine A indexes them and questions are written from."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from kbeval.model import Chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbeval.model import Document

DEFAULT_WORDS = 120
DEFAULT_OVERLAP = 20

_WORD = re.compile(r"\S+")


def chunk_document(
    document: Document, *, words: int = DEFAULT_WORDS, overlap: int = DEFAULT_OVERLAP
) -> Iterator[Chunk]:
    """Yields windows of ``words`` blank-separated words, each sharing ``overlap`` words with the one before.

    A chunk is the exact slice of the document's text, line breaks included, so that tables and code survive.
    The last window is never one that the window before already holds. A document without a word is one chunk
    with empty text: it stays in the corpus, and is counted as empty by whoever indexes it.

    Raises:
        ValueError: unless ``0 <= overlap < words``.
    """
    if not 0 <= overlap < words:
        raise ValueError(f"overlap must be at least 0 and below words, found overlap={overlap}, words={words}")
    spans = [match.span() for match in _WORD.finditer(document.text)]
    if not spans:
        yield Chunk(id=f"{document.id}#0", document_id=document.id, text="")
        return
    step = words - overlap
    for number, first in enumerate(range(0, max(len(spans) - overlap, 1), step)):
        last = min(first + words, len(spans)) - 1
        yield Chunk(
            id=f"{document.id}#{number}",
            document_id=document.id,
            text=document.text[spans[first][0] : spans[last][1]],
        )


def text_hash(text: str) -> str:
    """The hash by which a gold chunk is found again: the first 16 hexadecimal digits of SHA-256 over UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
