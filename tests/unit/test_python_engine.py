"""``python:module:object`` engines: what they may return, and what is refused."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from kbeval.engines.python import load_callable
from kbeval.engines.results import to_answer
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
