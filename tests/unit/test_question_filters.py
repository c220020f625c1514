"""Filters of a question: kept by the cache, handed to engines that take them, part of what is asked."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from kbeval.engines.base import Answer
from kbeval.engines.python import PythonEngine, PythonSettings
from kbeval.errors import InputError
from kbeval.formats.dataset import queries_hash
from kbeval.formats.questions import read_questions, write_questions
from kbeval.model import LabelledQuery, Question

if TYPE_CHECKING:
    from pathlib import Path


def brought(target: object) -> PythonEngine:
    return PythonEngine(PythonSettings(object="m:o"), target)


ACME = LabelledQuery("q1", "text", filters={"tenant": "acme"})


def test_the_cache_keeps_them(tmp_path: Path) -> None:
    questions = [Question("q1", "t", {}, {"d": 1}, "authored", filters={"tenant": "acme"})]
    questions.append(Question("q2", "t", {}, {"d": 1}, "authored"))
    write_questions(tmp_path / "q.json", questions)
    assert read_questions(tmp_path / "q.json") == questions
    assert (tmp_path / "q.json").read_text().count("filters") == 1
    (tmp_path / "q.json").write_text(
        (tmp_path / "q.json").read_text().replace('{\n        "tenant": "acme"\n      }', "7")
    )
    with pytest.raises(InputError, match="filters"):
        read_questions(tmp_path / "q.json")


def test_a_function_gets_them_where_it_has_such_a_parameter() -> None:
    def with_filters(query: str, k: int, *, filters: dict[str, str] | None = None) -> list[str]:
        return [f"{query} {k} {filters}"]

    def without(query: str, k: int) -> list[str]:
        return [f"{query} {k}"]

    takes, does_not = brought(with_filters), brought(without)
    assert (takes.takes_filters, does_not.takes_filters) == (True, False)
    assert takes.answer(ACME, 3).hits == [("text 3 {'tenant': 'acme'}", 1.0)]
    assert takes.answer(LabelledQuery("q2", "text"), 3).hits == [("text 3 None", 1.0)]
    assert does_not.answer(ACME, 3).hits == [("text 3", 1.0)]


def test_they_are_part_of_what_is_asked_and_none_change_no_hash() -> None:
    plain = LabelledQuery("q1", "text")
    assert queries_hash([plain]) != queries_hash([ACME])
    assert queries_hash([ACME]) != queries_hash([LabelledQuery("q1", "text", filters={"tenant": "other"})])
    both, turned = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert queries_hash([LabelledQuery("q", "t", filters=both)]) == queries_hash(
        [LabelledQuery("q", "t", filters=turned)]
    )
    # As sidecars that were written before there were filters have it: sha256 of '["q1","text"]\n'.
    assert queries_hash([plain]) == hashlib.sha256(b'["q1","text"]\n').hexdigest()[:16]


def test_an_object_says_that_it_may_be_asked_by_several_threads() -> None:
    class Retriever:
        thread_safe = True

        def retrieve(self, query: str, k: int) -> Answer:
            return Answer(hits=[(query, 1.0), (query, 0.5), ("x", 0.1)][:k], retries=2)

    engine = brought(Retriever())
    assert engine.thread_safe
    assert not brought(lambda query, k: [query][:k]).thread_safe
    # An Answer is taken as it is, each document once.
    answer = engine.answer(ACME, 5)
    assert (answer.hits, answer.repeats, answer.retries) == ([("text", 1.0), ("x", 0.1)], 1, 2)
