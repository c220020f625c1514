"""Lexical overlap: by hand, and against the means that METHOD 5 gives for questions nobody here wrote."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import pytest

from kbeval.formats.dataset import load_dataset
from kbeval.testset.overlap import best_overlap, content_stems, overlap

if TYPE_CHECKING:
    from pathlib import Path

POLICY = "Refunds are paid to the original card within 14 days."


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # refund, paid, card: all three in the text
        ("Is a refund paid to my card?", 1.0),
        # refund, voucher: one of two
        ("Can I have the refund as a voucher?", 1 / 2),
        # 14, day are there; last is not
        ("What if the last of 14 days?", 2 / 3),
        # refund counts once, however often it is asked: refund, money -> one of two
        ("Refund, refunds, refunded: money?", 1 / 2),
        # how, do, I, it: nothing but what questions are built of
        ("How do I do it?", 0.0),
        ("", 0.0),
        # capitals and stems are no difference: origin(al), card
        ("ORIGINAL CARDS", 1.0),
    ],
)
def test_overlap_by_hand(question: str, expected: float) -> None:
    assert overlap(question, POLICY) == pytest.approx(expected)


def test_overlap_with_an_empty_text_is_nothing() -> None:
    assert overlap("refund", "") == 0.0


def test_words_of_the_text_need_not_be_in_the_question() -> None:
    assert overlap("refund", POLICY) == 1.0
    assert overlap(POLICY, "refund") == pytest.approx(1 / 7)  # refund, paid, origin, card, within, 14, day


def test_content_stems_keep_numbers_and_drop_single_letters() -> None:
    assert content_stems("M2 reader, model X, error 4711") == {"m2", "reader", "model", "error", "4711"}


def test_the_best_of_several_gold_texts_counts() -> None:
    # refund, voucher: the first text has one, the second both, the union would not have more
    assert best_overlap("refund voucher", [POLICY, "a voucher instead of a refund"]) == 1.0
    # one each: never added up
    assert best_overlap("refund voucher", ["refund", "voucher"]) == 1 / 2
    assert best_overlap("refund", []) == 0.0


@pytest.mark.parametrize(("name", "published"), [("docs-qa", 0.69), ("cranfield", 0.59)])
def test_the_means_of_real_questions_are_the_published_ones(shared_data: Path, name: str, published: float) -> None:
    dataset = load_dataset(shared_data / name)
    texts = {document.id: document.text for document in dataset.documents}
    means = [
        best_overlap(query.text, [texts[gold] for gold in query.relevant if gold in texts]) for query in dataset.queries
    ]
    # Published with two decimals: .005 is their rounding, and nothing is left for the definition.
    assert statistics.mean(means) == pytest.approx(published, abs=0.005)
