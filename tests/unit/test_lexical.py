"""The lexical leg, against BM25 by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbeval.corpus.words import STOP_WORDS, analyse
from kbeval.engines.components.lexical import BM25Retriever
from kbeval.engines.ranking import best_first

# After ours: importing kbeval's components first is what keeps Haystack's telemetry off.
from haystack import Document  # isort: skip


def retriever(*texts: str, top_k: int = 100) -> BM25Retriever:
    made = BM25Retriever(document_store=None, top_k=top_k)  # type: ignore[arg-type]
    made.index([Document(id=f"{i:03d}", content=text) for i, text in enumerate(texts)])
    return made


def found(made: BM25Retriever, query: str, **kwargs: int) -> dict[str, float]:
    return {chunk.id: chunk.score or 0.0 for chunk in made.run(query=query, **kwargs)["documents"]}


def test_analyse() -> None:
    assert analyse("The Printers' queue is PAUSED: error E-42, no café!") == [
        "printer", "queue", "paus", "error", "42", "café",
    ]  # fmt: skip
    assert analyse("") == analyse("to be, or not to be") == []


def test_the_stop_words_are_lucenes() -> None:
    # org.apache.lucene.analysis.en.EnglishAnalyzer.ENGLISH_STOP_WORDS_SET
    words = """a an and are as at be but by for if in into is it no not of on or such that the their then
        there these they this to was will with"""
    assert set(STOP_WORDS) == set(words.split())


def test_scores_by_the_formula() -> None:
    made = retriever("red red lamp", "red chair", "green table green", "")

    # Lucene's BM25: idf * tf / (tf + k1 * (1 - b + b * length / mean length)), k1 = 1.5, b = .75,
    # idf = ln(1 + (N - df + .5) / (df + .5)); lengths 3, 2, 3, 0, so the mean is 2.
    def score(tf: int, length: int, df: int) -> float:
        return math.log(1 + (4 - df + 0.5) / (df + 0.5)) * tf / (tf + 1.5 * (0.25 + 0.75 * length / 2))

    assert found(made, "Red chairs?") == pytest.approx(
        {"001": score(1, 2, 2) + score(1, 2, 1), "000": score(2, 3, 2)}, rel=1e-6
    )
    assert list(found(made, "red")) == ["000", "001"]


def test_only_what_matches_is_found() -> None:
    made = retriever("red lamp", "green table")
    assert found(made, "purple") == found(made, "") == found(made, "the of and") == {}
    assert list(found(made, "purple table")) == ["001"]


def test_equal_scores_come_in_the_order_of_ids() -> None:
    made = retriever("other", "same words", "same words", "same words")
    assert list(found(made, "same words")) == ["001", "002", "003"]
    assert list(found(made, "same words", top_k=2)) == ["001", "002"]


def test_a_first_chunk_without_words_and_a_corpus_without_words() -> None:
    assert list(found(retriever("", "lamp"), "lamp")) == ["001"]
    assert found(retriever("", " "), "lamp") == {}
    assert found(retriever(), "lamp") == {}


@given(scores=st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), max_size=60), top_k=st.integers(1, 70))
def test_best_first_is_a_stable_sort(scores: list[float], top_k: int) -> None:
    expected = sorted((i for i, s in enumerate(scores) if s > 0), key=lambda i: -scores[i])[:top_k]
    assert best_first(np.array(scores, dtype=np.float32), top_k).tolist() == expected
