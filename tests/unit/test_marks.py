"""People's marks on whole questions, and what they do to the test set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.config import load_project
from kbeval.formats.labels import write_labels
from kbeval.formats.marks import write_marks
from kbeval.formats.questions import write_questions
from kbeval.model import Label, Mark, Question
from kbeval.testset.marks import heed_marks
from kbeval.testset.project import project_dataset

if TYPE_CHECKING:
    from pathlib import Path


def question(name: str) -> Question:
    return Question(name, f"What is {name}?", {f"{name}#0": "0"}, {"d": 1}, "synthetic")


def found(query: str, by: str, grade: int = 2, source: str = "human") -> Label:
    return Label(query, "d", grade, source, by)


def test_a_person_is_believed_over_gold_and_models_but_not_over_another_person() -> None:
    marks = [
        Mark("none", "unanswerable", "ana"),
        Mark("bad", "bad", "ana"),
        Mark("own", "unanswerable", "ana"),
        Mark("theirs", "unanswerable", "ana"),
        Mark("both", "unanswerable", "ana"),
        Mark("both", "bad", "ben"),
        Mark("elsewhere", "bad", "ana"),
    ]
    labels = [
        found("none", "ben", 1),
        found("none", "model", 3, "llm"),
        found("own", "ana", 3),
        found("theirs", "ben", 2),
    ]
    marked = heed_marks([question(q) for q in ("none", "bad", "own", "theirs", "both", "plain")], marks, labels)
    assert [(each.id, each.answerable, dict(each.gold_documents)) for each in marked.questions] == [
        ("none", False, {}),
        ("own", False, {}),
        ("theirs", True, {"d": 1}),
        ("plain", True, {"d": 1}),
    ]
    assert (marked.bad, marked.contested) == (["bad", "both"], ["theirs"])


def test_the_test_set_heeds_them(tmp_path: Path) -> None:
    (tmp_path / "kbeval.toml").write_text("")
    seed = tmp_path / "corpus" / "seed_docs"
    seed.mkdir(parents=True)
    (seed / "d.md").write_text("Text of d.\n")
    names = ("q1", "q2", "q3", "q4")
    write_questions(
        tmp_path / "corpus" / "questions.cache.json",
        [Question(name, f"What of {name}?", {}, {"d": 1}, "authored") for name in names],
    )
    write_labels(tmp_path / "corpus" / "labels.jsonl", [found("q3", "ben"), found("q1", "ben", 0)])
    marks = [Mark("q1", "unanswerable", "ana"), Mark("q2", "bad", "ana"), Mark("q3", "bad", "ana")]
    write_marks(tmp_path / "corpus" / "question_marks.jsonl", marks)
    dataset = project_dataset(load_project(tmp_path / "kbeval.toml"))
    assert [query.id for query in dataset.unanswerable] == ["q1"]
    assert dataset.qrels.frame.rows() == [("q3", "d", 2), ("q4", "d", 3)]
    assert dataset.warnings[:2] == (
        "1 questions are left out, as a person says that they are bad: q2",
        "1 questions were marked by one person and answered by another, and stand as they were: q3",
    )
