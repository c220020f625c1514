"""The reference engine against BM25 done by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from kbeval import evaluate
from kbeval.corpus.words import analyse
from kbeval.engines.bm25 import Bm25Engine
from kbeval.formats.dataset import load_dataset
from kbeval.model import Document

if TYPE_CHECKING:
    from pathlib import Path


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


def test_scifact_has_the_known_score(shared_data: Path) -> None:
    """BM25 alone on SciFact's 300 test questions: published .679 (one field) and .665 (two fields) of nDCG@10.

    Thakur et al. 2021 (BEIR, two fields in Elasticsearch) and Anserini's regressions (one field).
    """
    dataset = load_dataset(shared_data / "scifact")
    engine = Bm25Engine(dataset.documents)
    run = {query.id: [document for document, _ in engine.retrieve(query.text, 10).hits] for query in dataset.queries}
    qrels = {query.id: dict(query.relevant) for query in dataset.queries}
    score = evaluate(qrels, run, "ndcg@10").means["ndcg@10"]
    assert len(qrels) == 300
    assert 0.660 <= score <= 0.690
