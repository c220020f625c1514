"""BM25 over texts, by bm25s: what the plain reference engine and the lexical leg of engine A share."""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import bm25s
import numpy as np
import Stemmer
from bm25s.stopwords import STOPWORDS_EN
from bm25s.tokenization import Tokenized

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from numpy.typing import NDArray

# bm25s sets its logger to DEBUG on import, and would so talk into the log of whoever listens to INFO.
logging.getLogger("bm25s").setLevel(logging.NOTSET)

# Lucene's form of BM25, whose idf is never negative: every text with a query term scores above 0.
METHOD = "lucene"
K1 = 1.5
B = 0.75

# Lucene's classic list of English stop words, 33 of them.
STOP_WORDS = frozenset(STOPWORDS_EN)

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


class Bm25Index:
    """An index over texts, which are known by their position."""

    def __init__(self, texts: Iterable[str]) -> None:
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(token, len(vocabulary)) for token in analyse(text)] for text in texts]
        self._size = len(ids)
        self._scorer: Any = None
        if vocabulary:  # bm25s cannot index a corpus without a word
            self._scorer = bm25s.BM25(k1=K1, b=B, method=METHOD)
            self._scorer.index(Tokenized(ids=ids, vocab=vocabulary), show_progress=False)

    def scores(self, query: str) -> NDArray[np.float64]:
        """Shape (texts,): each text's score; 0 where it holds none of the query's terms."""
        tokens = analyse(query)
        if not tokens or self._scorer is None:
            return np.zeros(self._size)
        scores: NDArray[np.float64] = self._scorer.get_scores(tokens).astype(np.float64)
        return scores
