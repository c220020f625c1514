"""Fusion and the order of chunks around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbeval.engines.components.fusion import Behind, Head, ReciprocalRankFusion, TieOrder, make_fusion

# After ours: importing kbeval's components first is what keeps Haystack's telemetry off.
from haystack import Document  # isort: skip
from haystack.components.joiners import DocumentJoiner  # isort: skip


def chunks(*ids: str) -> list[Document]:
    return [Document(id=name, content=name, score=1.0) for name in ids]


def ids(output: dict[str, list[Document]]) -> list[str]:
    return [chunk.id for chunk in output["documents"]]


def test_scores_by_the_formula() -> None:
    fused = ReciprocalRankFusion(k=10).run(documents=[chunks("a", "b"), chunks("b", "c")])["documents"]

    # k = 10, two lists: (sum of 1 / (10 + rank)) * 11 / 2
    assert {chunk.id: chunk.score for chunk in fused} == pytest.approx(
        {"b": (1 / 12 + 1 / 11) * 11 / 2, "a": 1 / 11 * 11 / 2, "c": 1 / 12 * 11 / 2}, rel=1e-15
    )
    assert [chunk.id for chunk in fused] == ["b", "a", "c"]


def test_a_chunk_that_leads_every_list_scores_one() -> None:
    (fused,) = ReciprocalRankFusion(k=7).run(documents=[chunks("a"), chunks("a")])["documents"]
    assert fused.score == 1.0


def test_a_smaller_constant_rewards_first_ranks() -> None:
    lists = [chunks("first", "x", "twice"), chunks("y", "twice")]
    assert ids(ReciprocalRankFusion(k=1).run(documents=lists))[0] == "twice"  # 1/4 + 1/3 > 1/2
    lists = [chunks("first", "x", "w", "v", "twice"), chunks("y", "u", "t", "s", "twice")]
    assert ids(ReciprocalRankFusion(k=1).run(documents=lists))[0] == "first"  # 1/2 > 1/6 + 1/6
    assert ids(ReciprocalRankFusion(k=60).run(documents=lists))[0] == "twice"  # 2/65 > 1/61


def test_equal_scores_keep_the_order_of_the_lists() -> None:
    lists = [chunks("z", "b"), chunks("a", "c")]
    assert ids(ReciprocalRankFusion(k=5).run(documents=lists)) == ["z", "a", "b", "c"]


def test_top_k_cuts() -> None:
    lists = [chunks("a", "b"), chunks("c")]
    assert ids(ReciprocalRankFusion(k=5, top_k=2).run(documents=lists)) == ["a", "c"]
    assert ids(ReciprocalRankFusion(k=5, top_k=2).run(documents=lists, top_k=1)) == ["a"]


def test_nothing_to_fuse() -> None:
    assert ReciprocalRankFusion(k=5).run(documents=[[], []]) == {"documents": []}


ranked = st.lists(st.sampled_from([f"{i:03d}" for i in range(40)]), unique=True, max_size=40)


@given(lists=st.lists(ranked, min_size=1, max_size=3), top_k=st.none() | st.integers(1, 50))
def test_ours_at_sixty_is_haystacks(lists: list[list[str]], top_k: int | None) -> None:
    given_lists = [chunks(*names) for names in lists]
    theirs = DocumentJoiner(join_mode="reciprocal_rank_fusion", top_k=top_k).run(documents=given_lists)
    ours = ReciprocalRankFusion(k=60, top_k=top_k).run(documents=given_lists)

    assert [(c.id, c.score) for c in ours["documents"]] == [(c.id, c.score) for c in theirs["documents"]]


def test_haystacks_own_is_used_where_it_can_be() -> None:
    assert isinstance(make_fusion(60, None), DocumentJoiner)
    assert isinstance(make_fusion(61, None), ReciprocalRankFusion)


def test_tie_order() -> None:
    found = [
        Document(id="2", content="x", score=0.5),
        Document(id="1", content="x", score=0.5),
        Document(id="0", content="x", score=0.4),
        Document(id="4", content="x", score=0.9),
        Document(id="3", content="x", score=None),
    ]
    assert ids(TieOrder().run(documents=found)) == ["4", "1", "2", "0"]


def test_head_and_behind() -> None:
    parts = Head(size=2).run(documents=chunks("a", "b", "c", "d"))
    assert [c.id for c in parts["head"]] == ["a", "b"]
    assert [c.id for c in parts["rest"]] == ["c", "d"]

    reranked = [Document(id="b", content="b", score=0.75), Document(id="a", content="a", score=0.25)]
    joined = Behind().run(head=reranked, rest=parts["rest"])["documents"]
    assert [(c.id, c.score) for c in joined] == [("b", 0.75), ("a", 0.25), ("c", -0.75), ("d", -1.75)]
