"""BM25 over texts, by bm25s: what the plain reference engine and the lexical leg of engine A share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import bm25s
import numpy as np
from bm25s.tokenization import Tokenized

from kbeval.corpus.words import analyse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

# bm25s sets its logger to DEBUG on import, and would so talk into the log of whoever listens to INFO.
logging.getLogger("bm25s").setLevel(logging.NOTSET)

# Lucene's form of BM25, whose idf is never negative: every text with a query term scores above 0.
METHOD = "lucene"
K1 = 1.5
B = 0.75


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
