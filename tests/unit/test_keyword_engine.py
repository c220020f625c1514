"""Engine B against sums done by hand."""

from __future__ import annotations

import math

import pytest

from kbeval.engines.keyword import KeywordEngine, tokenize


def test_tokens_are_lower_case_and_split_at_anything_that_is_no_letter_or_digit() -> None:
    assert tokenize("Réfund_policy-2024 (v2.1)!  Ärger") == ["réfund", "policy", "2024", "v2", "1", "ärger"]


def test_one_term_in_one_field() -> None:
    engine = KeywordEngine([("d1", "refund", "", ""), ("d2", "payout", "", "")])
    # N = 2, df = 1: idf = ln(1 + 1.5 / 1.5) = ln 2. tf = 1, |f| = mean |f| = 1, so the norm is k1 = 1.2:
    # 4 * 1 * 2.2 / (1 + 1.2) = 4. The two other fields are empty everywhere and add nothing.
    assert engine.retrieve("Refund?", 10).hits == [("d1", pytest.approx(4 * math.log(2), rel=1e-12))]


def test_three_fields_with_their_weights_and_lengths() -> None:
    engine = KeywordEngine(
        [
            ("d1", "refund a refund", "refund.md", "cash back"),
            ("d2", "payout", "doc.md", "refund refund refund cash"),
        ]
    )
    # "refund" is in both documents: df = 2, N = 2: idf = ln(1 + 0.5 / 2.5) = ln 1.2.
    # Means: title (3 + 1) / 2 = 2, file name 2 ("refund", "md"), description (2 + 4) / 2 = 3.
    # d1: title tf 2, norm 1.2 * (0.25 + 0.75 * 3 / 2) = 1.65:  4 * 2 * 2.2 / 3.65
    #     file name tf 1, norm 1.2 * (0.25 + 0.75) = 1.2:       3 * 2.2 / 2.2
    # d2: description tf 3, norm 1.2 * (0.25 + 0.75 * 4 / 3) = 1.5:  2 * 3 * 2.2 / 4.5
    idf = math.log(1.2)
    expected = {"d1": idf * (17.6 / 3.65 + 3), "d2": idf * (13.2 / 4.5)}
    hits = engine.retrieve("refund refund", 10).hits  # a term that the query repeats counts once
    assert dict(hits) == pytest.approx(expected, rel=1e-12)
    assert [document for document, _ in hits] == ["d1", "d2"]


def test_terms_add_up() -> None:
    engine = KeywordEngine([("d1", "cash refund", "", ""), ("d2", "cash", "", ""), ("d3", "till", "", "")])
    # df(cash) = 2: ln(1 + 1.5 / 2.5) = ln 1.6; df(refund) = 1: ln(1 + 2.5 / 1.5) = ln(8 / 3). Mean length 4 / 3.
    # d1: |f| = 2: norm 1.2 * (0.25 + 0.75 * 1.5) = 1.65: each term 4 * 2.2 / 2.65
    # d2: |f| = 1: norm 1.2 * (0.25 + 0.75 * 0.75) = 0.975: 4 * 2.2 / 1.975
    assert dict(engine.retrieve("cash refund", 10).hits) == pytest.approx(
        {"d1": (8.8 / 2.65) * (math.log(1.6) + math.log(8 / 3)), "d2": (8.8 / 1.975) * math.log(1.6)}, rel=1e-12
    )


def test_only_documents_that_score_are_returned_and_ties_fall_by_id_descending() -> None:
    engine = KeywordEngine([("a", "x", "", ""), ("c", "x", "", ""), ("b", "x", "", ""), ("z", "y", "", "")])
    assert [document for document, _ in engine.retrieve("x", 10).hits] == ["c", "b", "a"]
    assert [document for document, _ in engine.retrieve("x", 2).hits] == ["c", "b"]
    assert engine.retrieve("nothing of it", 10).hits == []
    assert engine.retrieve("", 10).hits == []


def test_it_declares_that_it_never_reads_the_text_and_that_nobody_checked_the_port() -> None:
    engine = KeywordEngine([("a", "x", "", "")])
    assert engine.reads_text is False
    assert "port of a service that is not at hand" in engine.notes[0]
