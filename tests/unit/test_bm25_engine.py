"""The reference engine against BM25 done by hand."""

from __future__ import annotations

import math

import pytest

from kbeval.corpus.words import analyse
from kbeval.engines.bm25 import Bm25Engine
from kbeval.model import Document


def test_words_are_stemmed_and_stop_words_dropped() -> None:
    assert analyse("The refunds were Refunded, a b!") == ["refund", "were", "refund"]


def test_two_documents_by_hand() -> None:
    engine = Bm25Engine(
        [Document("d1", "cash cash", title="refund"), Document("d2", "till", title="payout"), Document("d3", "")]
    )
    # N = 3, df(cash) = 1: idf = ln(1 + 2.5 / 1.5). Lengths 3, 2, 0, mean 5 / 3. Lucene's form has no (k1 + 1):
    # tf / (tf + k1 * (1 - b + b * length / mean)) = 2 / (2 + 1.5 * (0.25 + 0.75 * 1.8)) = 2 / 4.4
    expected = math.log(1 + 2.5 / 1.5) * 2 / 4.4
    assert engine.retrieve("cash", 5).hits == [("d1", pytest.approx(expected, rel=1e-6))]


def test_what_shares_no_word_is_not_returned_and_ties_fall_by_id() -> None:
    engine = Bm25Engine([Document(i, "same words") for i in ("a", "c", "b")] + [Document("z", "other")])
    assert [document for document, _ in engine.retrieve("words", 5).hits] == ["c", "b", "a"]
    assert engine.retrieve("nothing", 5).hits == []
    assert engine.retrieve("", 5).hits == []


def test_a_corpus_without_a_word_answers_nothing() -> None:
    assert Bm25Engine([Document("a", "")]).retrieve("word", 5).hits == []
