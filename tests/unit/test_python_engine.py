"""``python:module:object`` engines: what they may return, and what is refused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from kbeval.engines.calling import Brought
from kbeval.engines.event_loop import EngineLoop
from kbeval.engines.python import load_callable
from kbeval.engines.results import IdSource, ask_for_documents, to_answer
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_list_of_ids_is_a_ranking() -> None:
    answer = to_answer(["b", "a", "c"], 2)
    assert answer.hits == [("b", 3.0), ("a", 2.0)]


def test_a_list_of_pairs_keeps_its_order_and_its_scores() -> None:
    assert to_answer([("b", 0.5), ("a", 0.9)], 10).hits == [("b", 0.5), ("a", 0.9)]


def test_a_dict_is_ordered_by_score_and_then_by_id_descending() -> None:
    assert to_answer({"a": 1, "c": 2, "b": 2}, 10).hits == [("c", 2.0), ("b", 2.0), ("a", 1.0)]


def test_an_id_that_comes_twice_keeps_its_first_place_and_is_counted_before_the_cut() -> None:
    answer = to_answer(["a", "a", "b", "a", "c"], 3)
    assert [document for document, _ in answer.hits] == ["a", "b", "c"]
    assert answer.repeats == 2


def test_nothing_found_is_an_answer() -> None:
    assert to_answer([], 5).hits == []
    assert to_answer({}, 5).hits == []


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "found NoneType"),
        ("d1", "found str"),
        (7, "found int"),
        ([None], "expected a document id as text, found NoneType"),
        ([("a", 1, 2)], "expected (id, score), found 3 values"),
        ([("a", "high")], "expected a number as score, found str"),
        ([("a", float("nan"))], "expected a finite score, found nan"),
        ({"a": float("inf")}, "expected a finite score, found inf"),
        ([""], "found empty text"),
        ([True], "found bool"),
        ({"a", "b"}, "found set"),  # a set has no order: the ranking would change from run to run
        ([("a", "1.5")], "expected a number as score, found str"),
        ({"a": True}, "expected a number as score, found bool"),
    ],
)
def test_anything_else_is_an_error_of_that_query(returned: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r".") as caught:
        to_answer(returned, 5)
    assert message in str(caught.value)


@pytest.fixture
def engines_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "engines_of_a_test"
    (tmp_path / f"{name}.py").write_text(
        "def function(query, k): return ['d1']\n"
        "class Retriever:\n"
        "    def retrieve(self, query, k): return ['d2']\n"
        "instance = Retriever()\n"
        "number = 7\n"
    )
    (tmp_path / "broken_engine_of_a_test.py").write_text("raise RuntimeError('no model')\n")
    (tmp_path / "leaving_engine_of_a_test.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_functions_objects_and_classes_from_the_working_folder(engines_module: str) -> None:
    assert load_callable(f"{engines_module}:function")("q", 1) == ["d1"]
    assert load_callable(f"{engines_module}:instance")("q", 1) == ["d2"]
    assert load_callable(f"{engines_module}:Retriever")("q", 1) == ["d2"]
    assert load_callable(f"{engines_module}:instance.retrieve")("q", 1) == ["d2"]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("engines_of_a_test:missing", "AttributeError"),
        ("no_such_module_here:f", "No module named 'no_such_module_here'"),
        ("engines_of_a_test", "expected python:MODULE:OBJECT"),
        ("engines_of_a_test:number", "expected a callable or an object with retrieve or invoke, found int"),
        ("broken_engine_of_a_test:f", "RuntimeError: no model"),
        ("leaving_engine_of_a_test:f", "SystemExit: 0"),
    ],
)
@pytest.mark.usefixtures("engines_module")
def test_what_cannot_be_loaded_is_one_line(reference: str, message: str) -> None:
    with pytest.raises(KbevalError) as caught:
        load_callable(reference)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def asked(returned: list[str], k: int, **how: Any) -> tuple[list[int], list[str]]:
    """How many results were asked for, call by call, and the documents that came of it."""
    calls: list[int] = []

    def ask(count: int) -> list[tuple[str, float]]:
        calls.append(count)
        return [(document, 1.0) for document in returned[:count]]

    answer = ask_for_documents(ask, k, **{"fetch": None, "growing": True, "repeats_count": True, **how})
    return calls, [document for document, _ in answer.hits]


def test_results_of_too_few_documents_are_asked_for_again_twice_as_many_until_they_end() -> None:
    assert asked(["a", "b", "c"], 2) == ([2], ["a", "b"])
    assert asked(["a", "a", "a", "b", "c"], 2) == ([2, 4], ["a", "b"])
    assert asked(["a", "a", "a", "b"], 3) == ([3, 6], ["a", "b"])  # 4 of 6: there are no more
    assert asked(["a", "a", "a", "b"], 2, growing=False) == ([2], ["a"])
    assert asked(["a", "a", "a", "b"], 2, fetch=4) == ([4], ["a", "b"])
    assert asked(["a", "b", "c"], 3, fetch=1) == ([3], ["a", "b", "c"])  # never fewer than k


def test_what_never_ends_is_not_asked_for_ever() -> None:
    calls, documents = asked(["a"] * 1_000_000, 2)
    assert documents == ["a"]
    assert calls[-1] == 10_000
    assert len(calls) == 14  # 2, 4, ... 8192 are 13


def test_the_number_of_results_goes_where_it_is_meant() -> None:
    seen: list[Any] = []
    loop = EngineLoop("test")

    def by_name(query: str, filters: Any = None, top_k: int = 3) -> list[str]:
        seen.append((filters, top_k))
        return []

    def configured(query: str, config: Any = None) -> list[str]:
        seen.append(config)
        return []

    def star(*arguments: Any) -> list[str]:
        seen.append(arguments)
        return []

    takes = []
    for function in (by_name, configured, star):
        brought = Brought("x", function, None, loop)
        takes.append(brought.takes_count)
        brought("q", 7)
    assert seen == [(None, 7), None, ("q", 7)]
    assert takes == [True, False, True]


def test_results_of_frameworks_and_dicts_say_their_document_where_id_from_points() -> None:
    class Node:
        node_id, metadata, ref_doc_id = "n1", {"file": {"name": "d1"}, "file.size": 7}, "d2"

    class WithScore:
        node, score = Node(), None

    class Found:
        id, meta, score = "h1", {"doc": "d3"}, 0.5

    assert to_answer([WithScore()], 5).hits == [("n1", 1.0)]
    assert to_answer([Node()], 5, IdSource("ref_doc_id")).hits == [("d2", 1.0)]
    assert to_answer([WithScore()], 5, IdSource("metadata.file.name")).hits == [("d1", 1.0)]
    assert to_answer([WithScore()], 5, IdSource("metadata.file.size")).hits == [("7", 1.0)]
    assert to_answer([Found()], 5, IdSource("meta.doc")).hits == [("d3", 0.5)]
    assert to_answer([(Found(), 9)], 5).hits == [("h1", 9.0)]
    assert to_answer([{"id": "d4", "score": 2}, {"id": "d5", "score": 1}], 5).hits == [("d4", 2.0), ("d5", 1.0)]
    with pytest.raises(TypeError, match=r"result 1: expected metadata\.dok as text, found NoneType; it has doc"):
        to_answer([Found()], 5, IdSource("metadata.dok"))
    with pytest.raises(TypeError, match=r"result 1: expected a result with metadata\.doc, found str"):
        to_answer(["d1"], 5, IdSource("metadata.doc"))
    with pytest.raises(TypeError, match=r"name a field by id_from"):
        to_answer([{"metadata": {}}], 5)
