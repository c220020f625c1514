"""Pools: what is judged, and whether a run was part of it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest

from kbeval.errors import InputError
from kbeval.formats.pool import PoolRecord, read_pools, with_pool, write_pools
from kbeval.inputs import as_run
from kbeval.model import Question, Run
from kbeval.testset.pool import Candidate, in_pool, pool_candidates, run_hash

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def run(name: str, answers: Mapping[str, list[str]]) -> Run:
    return as_run(answers, name)


def question(identifier: str, *gold: str) -> Question:
    return Question(identifier, f"What about {identifier}?", {}, dict.fromkeys(gold, 1), "authored")


ONE = run("one", {"q1": ["d1", "d2", "d3"], "q2": ["d9"], "other": ["d1"]})
TWO = run("two", {"q1": ["d2", "d4", "d1"]})


def test_the_pool_is_the_union_of_the_tops_with_each_runs_rank_best_ranks_first() -> None:
    assert pool_candidates([ONE, TWO], [question("q1"), question("q2")], 2) == [
        Candidate("q1", "d1", {"one": 1}),
        Candidate("q1", "d2", {"one": 2, "two": 1}),
        Candidate("q2", "d9", {"one": 1}),
        Candidate("q1", "d4", {"two": 2}),
    ]


def test_gold_and_its_twins_are_judged_whether_or_not_a_run_found_them() -> None:
    twins = {("q1", "d7"): "abc", ("q1", "d2"): None, ("q1", "d1"): None, ("gone", "d1"): None}
    found = pool_candidates([ONE], [question("q1", "d1", "d8")], 2, twins=twins)
    assert found == [
        Candidate("q1", "d1", {"one": 1}, gold=True),
        Candidate("q1", "d2", {"one": 2}, twin=True),
        Candidate("q1", "d7", twin=True, passage="abc"),
        Candidate("q1", "d8", gold=True),
    ]
    assert [one.best_rank for one in found] == [1, 2, None, None]


def test_gold_of_grade_0_is_no_gold() -> None:
    nothing = replace(question("q1"), gold_documents={"d5": 0})
    assert pool_candidates([TWO], [nothing], 1) == [Candidate("q1", "d2", {"two": 1})]


def test_the_hash_is_sha_256_of_the_tops_a_json_line_a_query() -> None:
    lines = b'["q1",["d1","d2"]]\n["q2",["d9"]]\n'
    assert run_hash(ONE, ["q2", "q1"], 2) == hashlib.sha256(lines).hexdigest()[:16]


def test_a_run_that_changed_within_the_depth_is_outside_of_the_pool_whatever_its_name() -> None:
    queries = ["q1", "q2"]
    pools = [PoolRecord(depth=2, when="", runs={"one": run_hash(ONE, queries, 2)})]

    def inside(changed: Run) -> bool:
        return in_pool(pools, changed, queries, least_depth=2)

    assert inside(ONE)
    assert inside(run("renamed", {"q1": ["d1", "d2", "d5"], "q2": ["d9"]})), "rank 3 was not pooled"
    assert not inside(run("one", {"q1": ["d2", "d1"], "q2": ["d9"]})), "another order at depth 2"
    assert not inside(run("one", {"q1": ["d1", "d2"], "q2": ["d8"]}))
    assert not in_pool(pools, ONE, queries), "a pool two deep says nothing about judged@10"
    assert not in_pool(pools, ONE, [*queries, "other"], least_depth=2), "a new question was not judged"
    assert not in_pool([], ONE, queries)


def test_scores_do_not_count() -> None:
    frame = ONE.frame.with_columns(pl.col("score") * 2 + 1)
    assert run_hash(Run("one", frame), ["q1"], 10) == run_hash(ONE, ["q1"], 10)


def test_the_record_comes_back_and_is_not_written_twice(tmp_path: Path) -> None:
    path = tmp_path / "corpus" / "pool.json"
    assert read_pools(path) == []
    first = PoolRecord(depth=10, when="2026-12-01T10:00:00Z", runs={"a": "0" * 16})
    write_pools(path, with_pool([], first))
    assert read_pools(path) == [first]
    again = PoolRecord(depth=10, when="2027-01-01T10:00:00Z", runs={"a": "0" * 16})
    assert with_pool([first], again) == [first]
    deeper = PoolRecord(depth=20, when="", runs={"a": "0" * 16})
    assert with_pool([first], deeper) == [first, deeper]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "pool.json, line 1: expected JSON"),
        ("[]", 'pool.json: expected an object with "format": 1 and a list of "pools", found another shape'),
        ('{"format": 2, "pools": []}', "found another shape"),
        ('{"format": 1, "pools": [{"depth": 0, "when": "", "runs": {"a": "0123456789abcdef"}}]}', "in pool 1: depth"),
        ('{"format": 1, "pools": [{"depth": 1, "when": "", "runs": {"a": "XYZ"}}]}', "in pool 1: runs.a"),
        ('{"format": 1, "pools": [{"depth": 1, "when": "", "runs": {}}]}', "in pool 1: runs"),
        ('{"format": 1, "pools": [{"depth": 1, "runs": {}, "wen": ""}]}', "pool 1"),
    ],
)
def test_a_record_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pool.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_pools(tmp_path / "pool.json")
    assert message in str(caught.value)
