"""What a sweep tries, how it cuts, picks and remembers: without an engine."""

from __future__ import annotations

import itertools
import multiprocessing
import sqlite3
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from kbeval.engines.base import Usage
from kbeval.engines.registry import EnginePlan, plan_engines
from kbeval.errors import KbevalError
from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.test_set import TestSet
from kbeval.model import LabelledQuery, Qrels, Run
from kbeval.report.sweep.tables import threshold_text
from kbeval.sweep.grid import make_grid, parse_grid
from kbeval.sweep.measuring import Measured
from kbeval.sweep.memory import Kept, StageMemory, key_of
from kbeval.sweep.split import split
from kbeval.sweep.sweeping import pareto, pick
from kbeval.sweep.thresholds import Scored, bearing, curve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def plan(overrides: Mapping[str, Any]) -> EnginePlan:
    return plan_engines(["a"], {"a": {"type": "hybrid"}}, {"a": overrides})[0]


# --- the grid ---------------------------------------------------------------------------------------------------------


def test_every_combination_and_the_base_among_them() -> None:
    grid = make_grid(parse_grid(["fusion_k=10,60", "legs=bm25,bm25+vector"]), plan, sample=0, seed=0)
    assert [(each.name, dict(each.changed)) for each in grid.configurations] == [
        ("c1", {"fusion_k": 10, "legs": ["bm25"]}),
        ("c2", {"fusion_k": 10, "legs": ["bm25", "vector"]}),
        ("c3", {"fusion_k": 60, "legs": ["bm25"]}),
        ("base", {"fusion_k": 60, "legs": ["bm25", "vector"]}),  # the defaults
    ]
    assert all(each.in_grid for each in grid.configurations)


def test_a_base_beside_the_grid_is_measured_too() -> None:
    grid = make_grid({"fusion_k": [10, 20]}, plan, sample=0, seed=0)
    assert [(each.name, each.in_grid) for each in grid.configurations] == [("base", False), ("c1", True), ("c2", True)]


def test_equal_combinations_are_tried_once() -> None:
    values = {"legs": ["bm25,vector", "vector,bm25"], "fusion_k": [7, "7"]}
    assert [each.name for each in make_grid(values, plan, sample=0, seed=0).configurations] == ["base", "c1"]


def test_a_sample_is_the_same_for_a_seed_and_drawn_without_replacement() -> None:
    values = {"fusion_k": list(range(1, 101)), "candidates": list(range(50, 150))}  # 10,000 combinations

    def drawn(seed: int) -> list[tuple[int, int]]:
        grid = make_grid(values, plan, sample=12, seed=seed)
        assert (grid.size, grid.sample) == (10_000, 12)
        return [(c.changed["fusion_k"], c.changed["candidates"]) for c in grid.configurations if c.in_grid]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert len(set(drawn(1))) == 12


def test_what_does_not_go_together_is_left_out_with_its_reason() -> None:
    grid = make_grid({"chunk_words": [40, 100], "chunk_overlap": [20, 50]}, plan, sample=0, seed=0)
    assert [tuple(each.changed.values()) for each in grid.configurations if each.in_grid] == [
        (40, 20),
        (100, 20),
        (100, 50),
    ]
    assert grid.left_out == [
        (
            "chunk_words=40, chunk_overlap=50",
            "expected chunk_overlap must be below chunk_words, found 50 and 40",
        )
    ]


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["fusionk=10"], "expected a known key (nearest: 'fusion_k'), found 'fusionk'"),
        (["fusion_k=10,many"], "expected fusion_k to be a valid integer"),
        (["fusion_k"], "--set fusion_k: expected KEY=VALUE,VALUE, found no equals sign"),
        (["fusion_k="], "--set fusion_k=: expected at least one value, found none"),
        (["fusion_k=1", "fusion_k=2"], "--set fusion_k=2: expected each key once, found 'fusion_k' again"),
        (["fusion_k=[1,"], "--set fusion_k=[1,: expected a TOML list, found '[1,'"),
        (["type=bm25"], "[sweep.grid] type: expected a setting of the engine"),
        ([], "nothing to sweep: expected --set KEY=VALUE,VALUE or a table [sweep.grid]"),
        (["chunk_words=10", "chunk_overlap=20,30"], "the grid: expected a combination that an engine can have"),
    ],
)
def test_a_grid_that_is_none_is_one_line(assignments: list[str], words: str) -> None:
    with pytest.raises(KbevalError) as caught:
        make_grid(parse_grid(assignments), plan, sample=0, seed=0)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_configurations_are_refused() -> None:
    values = {"fusion_k": list(range(1, 102)), "candidates": list(range(1, 101))}
    with pytest.raises(KbevalError, match=r"at most 10,000 configurations, found 10,100; --sample N draws N"):
        make_grid(values, plan, sample=0, seed=0)


# --- the cut ----------------------------------------------------------------------------------------------------------


def a_test_set(gold: Mapping[str, tuple[str, str]], unanswerable: int = 0) -> TestSet:
    """query -> (document, style)"""
    rows = sorted((query, document, 1) for query, (document, _) in gold.items())
    frame = pl.DataFrame(rows, schema={"query": pl.String, "document": pl.String, "grade": pl.Int64}, orient="row")
    labelled = {query: LabelledQuery(query, query, {document: 1}, style=s) for query, (document, s) in gold.items()}
    nobody = {f"u{i}": LabelledQuery(f"u{i}", "?", answerable=False) for i in range(unanswerable)}
    return TestSet(Qrels(frame), labelled=labelled, unanswerable=nobody)


def test_no_cluster_is_cut_and_each_side_has_its_share_of_every_style() -> None:
    # Twenty documents with a near and a far question each, and twenty messages: 20 clusters of two, 20 of one.
    gold = {f"{style}{i:02}": (f"d{i:02}", style) for i in range(20) for style in ("near", "far", "message")}
    cut = split(a_test_set(gold, unanswerable=4), share=0.5, seed=0)
    assert set(cut.dev.queries) | set(cut.held_out.queries) == set(gold)
    assert not set(cut.dev.queries) & set(cut.held_out.queries)
    for side in (cut.dev, cut.held_out):
        assert {style: len(rows) for style, rows in side.stratum_rows.items()} == {"near": 10, "far": 10, "message": 10}
        assert {q[4:] for q in side.queries if q.startswith("near")} == {
            q[3:] for q in side.queries if q.startswith("far")
        }
        assert len(side.unanswerable) == 2
        assert set(side.gold) == set(side.queries)
    assert not set(cut.dev.unanswerable) & set(cut.held_out.unanswerable)


def test_the_seed_alone_decides_about_the_cut() -> None:
    gold = {f"q{i:02}": (f"d{i}", "near") for i in range(40)}
    backwards = dict(reversed(gold.items()))
    assert (
        split(a_test_set(gold), share=0.5, seed=3).dev.queries
        == split(a_test_set(backwards), share=0.5, seed=3).dev.queries
    )
    assert (
        split(a_test_set(gold), share=0.5, seed=3).dev.queries != split(a_test_set(gold), share=0.5, seed=4).dev.queries
    )
    assert len(split(a_test_set(gold), share=0.25, seed=3).dev.queries) == 10


def test_too_few_clusters_are_one_line() -> None:
    one_document = {f"q{i}": ("d", "near") for i in range(9)} | {"other": ("e", "near"), "third": ("f", "near")}
    with pytest.raises(
        KbevalError, match=r"at least two clusters of questions in the dev split \(dev = 0.5\), found 1"
    ):
        split(a_test_set(one_document), share=0.5, seed=0)


# --- the pick and the front -------------------------------------------------------------------------------------------


def measured(value: float, errors: Mapping[str, str] | None = None, **settings: object) -> Measured:
    grid = make_grid({key: [each] for key, each in settings.items()}, plan, sample=0, seed=0)
    frame = pl.DataFrame(schema={"query": pl.String, "document": pl.String, "score": pl.Float64})
    return Measured(grid.configurations[-1], Run("x", frame), errors=errors or {}, dev={"mrr": value})


def test_the_best_is_picked_and_of_equal_ones_the_one_with_less_to_do() -> None:
    mrr = parse_metric("mrr")
    reranked = measured(0.7, reranker="cohere:x")
    fused = measured(0.7, fusion_k=3)
    alone = measured(0.7, legs="bm25")
    deep = measured(0.7, legs="bm25", candidates=500)
    failing = measured(0.9, {"q": "it broke"}, fusion_k=9)
    for order in itertools.permutations([reranked, fused, alone, deep, failing]):
        assert pick(order, mrr) is alone
    assert pick([measured(0.71, reranker="cohere:x"), alone], mrr).dev["mrr"] == 0.71


def test_of_equal_ones_with_equal_work_the_first_is_picked() -> None:
    first, second = measured(0.5, fusion_k=3), measured(0.5, fusion_k=4)
    assert pick([first, second], parse_metric("mrr")) is first


def test_nothing_to_pick_is_one_line() -> None:
    with pytest.raises(KbevalError, match="expected a configuration that answers every question, found none: it broke"):
        pick([measured(0.9, {"q": "it broke"}, fusion_k=9)], parse_metric("mrr"))


def test_the_front_holds_what_nothing_beats() -> None:
    values = [("slow and best", 0.9, 90.0), ("beaten", 0.6, 50.0), ("fast", 0.5, 10.0), ("as good, slower", 0.5, 11.0)]
    values += [("middle", 0.7, 40.0), ("not timed", 1.0, None)]
    assert pareto(values) == ["fast", "middle", "slow and best"]


# --- thresholds -------------------------------------------------------------------------------------------------------


def test_a_curve_by_hand() -> None:
    scored = {
        "a": Scored(0.9, 0.9),
        "b": Scored(0.8, 0.3),  # found, below another document
        "c": Scored(0.6, None),  # its document is not found
        "d": Scored(None),  # nothing is returned
        "x": Scored(0.7),
        "y": Scored(0.2),
    }
    found = curve("c1", "", scored, (["a", "b"], ["x"]), (["c", "d"], ["y"]))
    assert found is not None
    by_hand = {  # threshold: (of 4 lose their document, of 4 get nothing, of 2 are answered)
        0.2: (0, 1, 2),
        0.3: (0, 1, 1),
        0.6: (1, 1, 1),
        0.7: (1, 2, 1),
        0.8: (1, 2, 0),
        0.9: (1, 3, 0),
    }
    assert {p.threshold: (p.lost * 4, p.silent * 4, p.answered * 2) for p in found.points} == by_hand
    # On a, b and x: at .2 and .3 the sum is 0 + 1, at .8 and .9 it is 1/2 + 0; the lowest of the best.
    assert found.suggested == 0.8
    assert found.dev is not None
    assert (found.dev.lost, found.dev.answered) == (0.5, 0.0)
    assert found.held_out is not None
    assert (found.held_out.lost, found.held_out.silent, found.held_out.answered) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "bears"),
    [
        ({"reranker": "cohere:x"}, True),
        ({"reranker": "llm:x"}, False),
        ({}, False),  # fused
        ({"legs": "vector"}, True),
        ({"legs": "bm25"}, True),
    ],
)
def test_which_scores_bear_a_threshold(settings: dict[str, str], bears: bool) -> None:
    assert bearing(plan(settings).settings)[0] is bears


@pytest.mark.parametrize(
    ("value", "printed"),
    [(0.1234567, "0.123456"), (-0.1234561, "-0.123457"), (100.0, "100"), (0.0, "0"), (0.99999999, "0.999999")],
)
def test_a_printed_threshold_is_never_above_its_score(value: float, printed: str) -> None:
    assert threshold_text(value) == printed
    assert float(printed) <= value


# --- the memory -------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_there_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "stages.sqlite"
    usage = (Usage("cohere:x", calls=1, rerank_units=2),)
    first = StageMemory(path)
    first.keep("rerank", key_of("rerank", "q"), Kept(b"answer", 0.25, usage), now=True)
    first.keep("leg", key_of("leg", "q"), Kept(b"ranking", 0.5), now=False)
    assert first.usage == usage
    first.close()
    again = StageMemory(path)
    assert again.get("rerank", key_of("rerank", "q")) == Kept(b"answer", 0.25, usage)
    assert again.get_many("leg", [key_of("leg", "q"), key_of("leg", "p")]) == {key_of("leg", "q"): b"ranking"}
    assert again.get("leg", key_of("leg", "p")) is None
    assert again.usage == ()
    again.close()
    assert (path.parent / ".gitignore").read_text() == "*\n"


def test_what_was_paid_for_is_on_the_disk_at_once_and_the_rest_need_not_be(tmp_path: Path) -> None:
    one, other = StageMemory(tmp_path / "m"), StageMemory(tmp_path / "m")
    one.keep("leg", b"free", Kept(b"1", 0.0), now=False)
    assert other.get("leg", b"free") is None
    one.keep("rerank", b"paid", Kept(b"2", 0.0), now=True)
    assert other.get("rerank", b"paid") == Kept(b"2", 0.0)
    one.close()
    other.close()


def test_the_first_of_two_answers_holds_for_both(tmp_path: Path) -> None:
    one, other = StageMemory(tmp_path / "m"), StageMemory(tmp_path / "m")
    assert one.keep("rerank", b"k", Kept(b"first", 1.0), now=True).value == b"first"
    assert other.keep("rerank", b"k", Kept(b"second", 2.0), now=True) == Kept(b"first", 1.0)
    one.close()
    other.close()


def _write(path: Path, start: int) -> None:
    memory = StageMemory(path)
    for number in range(start, start + 150):
        memory.keep("leg", key_of("leg", number), Kept(str(number).encode(), 0.0), now=number % 3 == 0)
    memory.close()


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_write, args=(tmp_path / "m", start)) for start in (0, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    memory = StageMemory(tmp_path / "m")
    keys = [key_of("leg", number) for number in range(250)]
    assert memory.get_many("leg", keys) == {key: str(number).encode() for number, key in enumerate(keys)}
    memory.close()
    with sqlite3.connect(tmp_path / "m") as plain:
        assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_another_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("not a database, and longer than a page's header is: " + "x" * 200)
    with pytest.raises(KbevalError, match="m: expected kbeval's memory of stages, found that file is not a database"):
        StageMemory(tmp_path / "m")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KbevalError, match="cannot be written"):
        StageMemory(tmp_path / "file" / "m")


@pytest.mark.parametrize(
    "column", ["value = x'00'", "value = 'text'", "seconds = -1", "seconds = 9e999", "usage = '{'"]
)
@pytest.mark.parametrize("many", [False, True])
def test_a_row_that_somebody_changed_is_not_believed(tmp_path: Path, column: str, many: bool) -> None:
    first = StageMemory(tmp_path / "m")
    first.keep("leg", key_of("leg", "q"), Kept(b"ranking", 0.5), now=True)
    first.close()
    with sqlite3.connect(tmp_path / "m") as plain:
        plain.execute(f"UPDATE stage SET {column}")
    again = StageMemory(tmp_path / "m")
    with pytest.raises(KbevalError, match="m: expected the rows that kbeval wrote, found one that was changed"):
        again.get_many("leg", [key_of("leg", "q")]) if many else again.get("leg", key_of("leg", "q"))
    again.close()


def test_a_memory_of_the_first_version_is_taken_over_with_what_was_paid(tmp_path: Path) -> None:
    usage = (Usage("cohere:x", calls=1),)
    with sqlite3.connect(tmp_path / "m") as plain:
        plain.execute(
            "CREATE TABLE stage (key BLOB PRIMARY KEY, kind TEXT NOT NULL, value BLOB NOT NULL, seconds REAL NOT NULL, "
            "usage TEXT NOT NULL) WITHOUT ROWID"
        )
        told = '[{"service":"cohere:x","calls":1,"tokens":0,"completion_tokens":0,"rerank_units":0}]'
        plain.execute("INSERT INTO stage VALUES (?, 'rerank', ?, 0.25, ?)", (key_of("rerank", "q"), b"paid", told))
    plain.close()
    memory = StageMemory(tmp_path / "m")
    assert memory.get("rerank", key_of("rerank", "q")) == Kept(b"paid", 0.25, usage)
    memory.close()
    with sqlite3.connect(tmp_path / "m") as plain:
        assert plain.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_memory_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    StageMemory(tmp_path / "m").close()
    with sqlite3.connect(tmp_path / "m") as plain:
        plain.execute("PRAGMA user_version = 99")
    plain.close()
    with pytest.raises(KbevalError, match="m: expected a memory of stages of version 2 or earlier, found version 99"):
        StageMemory(tmp_path / "m")
