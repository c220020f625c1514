from __future__ import annotations

import numpy as np
import pytest

from kbeval.evaluation.clusters import clusters
from kbeval.evaluation.strata import ALL, UNLABELLED, deciding_strata, in_order, stratum


def test_generated_questions_of_one_document_are_one_cluster() -> None:
    queries = [
        ("q1", "near", ["refunds"]),
        ("q2", "mid", ["refunds"]),
        ("q3", "near", ["login"]),
        ("q4", "far", ["refunds"]),
    ]
    assert clusters(queries).tolist() == [0, 0, 1, 0]


def test_any_other_question_stands_for_itself() -> None:
    queries = [
        ("q1", "near", ["refunds"]),
        ("m1", "message", ["refunds"]),
        ("m2", "message", ["refunds"]),
        ("h1", None, ["refunds"]),
        ("q2", "far", ["refunds"]),
    ]
    assert clusters(queries).tolist() == [0, 1, 2, 3, 0]


def test_a_question_with_several_gold_documents_joins_theirs() -> None:
    queries = [
        ("q1", "near", ["a"]),
        ("q2", "near", ["b"]),
        ("q3", "near", ["c"]),
        ("q4", "near", ["d"]),
        ("q5", "mid", ["b", "a"]),
        ("q6", "far", ["c", "b"]),
    ]
    # a-b by q5, b-c by q6: one chain; d apart
    assert clusters(queries).tolist() == [0, 0, 0, 1, 0, 0]


def test_a_message_joins_no_documents() -> None:
    queries = [("q1", "near", ["a"]), ("m1", "message", ["a", "b"]), ("q2", "near", ["b"])]
    assert clusters(queries).tolist() == [0, 1, 2]


def test_generated_questions_without_gold_stand_alone() -> None:
    assert clusters([("q1", "near", []), ("q2", "near", [])]).tolist() == [0, 1]


def test_no_question_no_cluster() -> None:
    assert clusters([]).shape == (0,)


def test_a_question_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        clusters([("q1", "near", ["a"]), ("q1", "far", ["a"])])


def test_a_chain_of_a_hundred_thousand_documents_is_one_cluster() -> None:
    # each question ties a document to the next: the worst case for a union-find without path compression
    queries = [(f"q{n}", "near", [f"d{n}", f"d{n + 1}"]) for n in range(100_000)]
    assert not clusters(queries).any()


def test_against_connected_components_of_scipy() -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    random = np.random.default_rng(4)
    gold = [random.integers(0, 300, size=random.integers(1, 4)) for _ in range(200)]
    ours = clusters([(f"q{n}", "mid", [str(d) for d in ids]) for n, ids in enumerate(gold)])
    edges = [(n, 200 + int(d)) for n, ids in enumerate(gold) for d in ids]
    rows, columns = zip(*edges, strict=True)
    _, theirs = connected_components(coo_array((np.ones(len(edges)), (rows, columns)), shape=(500, 500)))
    same = ours[:, None] == ours[None, :]
    assert np.array_equal(same, theirs[:200, None] == theirs[None, :200])


def test_a_stratum_is_the_style_or_else_the_source() -> None:
    assert stratum("far", "authored") == "far"
    assert stratum(None, "historical") == "historical"
    assert stratum(None, None) == UNLABELLED


def test_strata_are_shown_from_near_to_others() -> None:
    shown = in_order(["judged", "far", "historical", "near", "message", "far", "mid", "authored"])
    assert shown == ("near", "mid", "far", "message", "historical", "authored", "judged")


@pytest.mark.parametrize(
    ("strata", "deciding"),
    [
        (["far", "near", "mid", "message", "historical"], ("near", "mid", "far")),
        (["far", "near", "message"], ("near", "far")),
        (["near", "message", "historical"], ("near",)),
        (["message", "historical"], ("message", "historical")),
        (["near", "near"], ("near",)),
        (["message"], ("message",)),
        (["synthetic"], ("synthetic",)),
        (["synthetic", "historical"], (ALL,)),
        (["judged", UNLABELLED], (ALL,)),
        ([UNLABELLED], (UNLABELLED,)),
    ],
)
def test_strata_that_decide(strata: list[str], deciding: tuple[str, ...]) -> None:
    assert deciding_strata(strata) == deciding
