"""From a text to its words, as BM25 indexes them and overlap counts them."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import Stemmer

if TYPE_CHECKING:
    from collections.abc import Container

# Lucene's classic list of English stop words, 33 of them.
STOP_WORDS = frozenset(
    word
    for words in (
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they",
        "this to was will with",
    )
    for word in words.split()
)

_WORDS = re.compile(r"\b\w\w+\b")


class _Stemmers(threading.local):
    """A stemmer a thread: Snowball's hold state while they work."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english")


_stemmers = _Stemmers()


def analyse(text: str) -> list[str]:
    """Lower-cased words of two letters or more, without stop words, stemmed by Snowball's English stemmer."""
    return words_of(text, STOP_WORDS)


def words_of(text: str, left_out: Container[str]) -> list[str]:
    """As ``analyse``, with a list of stop words of one's own."""
    words = [word for word in _WORDS.findall(text.lower()) if word not in left_out]
    stems: list[str] = _stemmers.english.stemWords(words)
    return stems
