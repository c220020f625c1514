"""Labels: the file, and which of several judgments holds (METHOD 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest

from kbeval.config import load_project
from kbeval.errors import InputError, KbevalError
from kbeval.formats.dataset import load_dataset, queries_hash, write_dataset
from kbeval.formats.labels import merge_labels, read_labels, write_labels
from kbeval.formats.questions import read_questions, read_rejected, write_questions
from kbeval.model import Label, Question, Rejected
from kbeval.testset.labels import judged
from kbeval.testset.project import level_of, project_dataset, require_judgments

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.model import LabelledQuery


def question(name: str, gold: dict[str, int], **more: object) -> Question:
    return Question(id=name, text=f"What is {name}?", gold_chunks={}, gold_documents=gold, source="synthetic", **more)  # type: ignore[arg-type]


def label(
    query: str, document: str, grade: int | None, source: str = "human", by: str = "ana", **more: object
) -> Label:
    return Label(query=query, document=document, grade=grade, source=source, by=by, **more)  # type: ignore[arg-type]


def test_without_labels_gold_stands_as_it_is() -> None:
    weighed = judged([question("q", {"d": 1, "e": 1})], [])
    assert (weighed.grades, weighed.level) == ({("q", "d"): 1, ("q", "e"): 1}, 1)


def test_a_model_that_could_not_be_understood_makes_nothing_graded() -> None:
    assert judged([question("q", {"d": 1})], [label("q", "d", None, "llm", "m")]).level == 1


def test_people_beat_models_beat_gold() -> None:
    weighed = judged(
        [question("q", {"gold": 1, "doubted": 1, "rejected": 1, "praised": 1})],
        [
            label("q", "doubted", 1, "llm", "m"),
            label("q", "rejected", 3, "llm", "m"),
            label("q", "rejected", 0),
            label("q", "praised", 2, "llm", "m"),
            label("q", "found", 2, "llm", "m", runs=("a", "b")),
            label("q", "seen", 0, "llm", "m"),
            label("q", "asked", 1, "llm", "m"),
            label("q", "asked", 3),
            label("elsewhere", "gold", 0),
        ],
    )
    assert weighed.grades == {
        ("q", "gold"): 3,  # generated gold among judged grades
        ("q", "doubted"): 3,  # disputed: nothing changes until a person decides
        ("q", "rejected"): 0,  # a person has
        ("q", "praised"): 2,  # the model beats what the question was made with
        ("q", "found"): 2,
        ("q", "seen"): 0,  # judged, and irrelevant
        ("q", "asked"): 3,
    }
    assert weighed.level == 2
    assert weighed.disputed == (("q", "doubted"),)
    assert weighed.added == {"q": ("asked", "found")}
    assert weighed.by_runs == {("q", "found"): ("a", "b")}


def test_several_people_count_as_their_lower_median_and_a_document_as_its_best_chunk() -> None:
    weighed = judged(
        [question("q", {"d": 1})],
        [
            label("q", "d", 3, by="ana", chunk="d#0"),
            label("q", "d", 0, by="ana", chunk="d#1"),
            label("q", "d", 1, by="ben"),
            label("q", "e", 0, by="ana"),
            label("q", "e", 3, by="ben"),
            label("q", "e", 2, by="cem"),
        ],
    )
    # d: ana 3 (her best chunk), ben 1: the lower of two; e: 0, 2, 3
    assert weighed.grades == {("q", "d"): 1, ("q", "e"): 2}


def test_an_unanswerable_question_has_no_judgment() -> None:
    asked = question("q", {}, answerable=False)
    assert judged([asked, question("r", {"d": 1})], [label("q", "d", 3)]).grades == {("r", "d"): 1}


def test_the_file_is_sorted_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    labels = [
        label("q2", "d", 1, why="half of it", when="2026-12-01T10:00:00Z", queue="agreement"),
        label("q1", "e", None, "llm", "m", votes=(None, 2), confidence=0.5, runs=("a",)),
        label("q1", "d", 2, chunk="d#1"),
    ]
    write_labels(path, labels)
    lines = path.read_bytes().splitlines()
    assert [(orjson.loads(line)["query"], orjson.loads(line)["document"]) for line in lines] == [
        ("q1", "d"),
        ("q1", "e"),
        ("q2", "d"),
    ]
    assert read_labels(path) == sorted(labels, key=lambda each: each.key)
    assert list(orjson.loads(lines[0])) == sorted(orjson.loads(lines[0]))
    assert read_labels(tmp_path / "none.jsonl") == []


def test_a_later_judgment_replaces_the_earlier_one_of_the_same_person() -> None:
    old = [label("q", "d", 1), label("q", "d", 1, by="ben")]
    assert [each.grade for each in merge_labels(old, [label("q", "d", 3)])] == [3, 1]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"query": "q"', "no JSON"),
        ("<<<<<<< HEAD", "a conflict that git left"),
        ('{"query": "q", "document": "d", "grade": 4, "source": "human", "by": "ana"}', "4"),
        ('{"query": "q", "document": "d", "grade": true, "source": "human", "by": "ana"}', "True"),
        ('{"query": "q", "document": "d", "grade": null, "source": "human", "by": "ana"}', "expected a grade"),
        ('{"query": "q", "document": "d", "grade": 1, "source": "judge", "by": "ana"}', "'judge'"),
        ('{"query": "q", "document": "d", "grade": 1, "source": "human", "by": ""}', "''"),
        ('{"query": "q", "document": "d", "grade": 1, "source": "human", "by": "ana", "grad": 2}', "'grad'"),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "votes": [9]}',
            "votes.0 to be less than or equal to 3, found 9",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "votes": [1, -4]}',
            "votes.1 to be greater than or equal to 0, found -4",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "votes": [true]}',
            "votes.0 to be a valid integer, found True",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "votes": [1.0]}',
            "votes.0 to be a valid integer, found 1.0",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "confidence": true}',
            "confidence to be a valid number, found True",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "confidence": "0.5"}',
            "confidence to be a valid number, found '0.5'",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "confidence": 1.5}',
            "confidence to be less than or equal to 1, found 1.5",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "query": "r"}',
            "each key once, found 'query' twice",
        ),
        (
            '{"query": "q", "document": "e", "grade": 1, "source": "llm", "by": "m", "why": "", "why" : ""}',
            "each key once, found 'why' twice",
        ),
        ("[]", "a judgment as a JSON object, found a list"),
        ("null", "a judgment as a JSON object, found null"),
        ('"q"', "a judgment as a JSON object, found a str"),
        ('{"query": "q", "document": "d", "grade": 2, "source": "human", "by": "ana"}', "that of line 1 again"),
    ],
)
def test_a_line_that_is_no_judgment_is_named(tmp_path: Path, line: str, found: str) -> None:
    path = tmp_path / "labels.jsonl"
    write_labels(path, [label("q", "d", 2)])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match="line 2: expected") as caught:
        read_labels(path)
    assert found in str(caught.value)


def test_a_colon_after_a_quotation_mark_is_no_second_key(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    said = label("q", "d", 1, "llm", "m", why='it says "query": and "query":', votes=(None, 0, 3), confidence=1)
    write_labels(path, [said])
    assert read_labels(path) == [said]


def project(folder: Path, questions: list[Question], labels: list[Label]) -> Path:
    for name in ("d", "e", "f"):
        document = folder / "corpus" / "seed_docs" / f"{name}.md"
        document.parent.mkdir(parents=True, exist_ok=True)
        document.write_text(f"---\ntitle: {name}\n---\nAbout {name}.\n")
    (folder / "kbeval.toml").write_text("")
    write_questions(folder / "corpus" / "questions.cache.json", questions)
    write_labels(folder / "corpus" / "labels.jsonl", labels)
    return folder / "kbeval.toml"


def test_labels_are_in_the_projects_data_set_and_survive_its_export(tmp_path: Path) -> None:
    settings = load_project(
        project(
            tmp_path,
            [
                question("q1", {"d": 1}, overlap=0.25),
                question("q2", {}, answerable=False),
                question("q3", {}),
                question("q4", {}),
            ],
            [
                label("q1", "e", 2),
                label("q1", "f", 0),
                label("q4", "f", 3),
                label("q1", "gone", 3),
                label("nobody", "d", 3),
            ],
        )
    )
    dataset = project_dataset(settings)
    assert dataset.qrels.frame.rows() == [("q1", "d", 3), ("q1", "e", 2), ("q1", "f", 0), ("q4", "f", 3)]
    assert level_of(settings, dataset) == 2
    assert [query.id for query in dataset.queries] == ["q1", "q4"]
    # q4's label is its gold, not added to it
    assert [query.added for query in dataset.queries] == [("e",), ()]
    assert [query.id for query in dataset.unanswerable] == ["q2"]
    assert [query.id for query in dataset.left_out] == ["q3"]
    assert [warning.split(":")[0] for warning in dataset.warnings] == [
        "labels of 1 documents that are not in the corpus are not used",
        "labels of 1 questions that are not in the cache are not used",
        "1 questions are in no metric, as nobody has said yet what answers them",
    ]
    write_dataset(tmp_path / "out", dataset.documents, dataset.asked, dataset.qrels, layout="plain")
    read = load_dataset(tmp_path / "out")
    assert [(q.id, q.overlap, q.added) for q in read.queries] == [("q1", 0.25, ("e",)), ("q4", None, ())]
    assert [(q.id, q.answerable) for q in read.unanswerable] == [("q2", False)]
    assert read.left_out == dataset.left_out
    assert read.qrels.frame.rows() == dataset.qrels.frame.rows()
    # A label changes no hash: who answered q3 before it had one has answered it.
    before = queries_hash(dataset.asked)
    assert before == queries_hash(read.asked)
    write_labels(tmp_path / "corpus" / "labels.jsonl", [label("q3", "d", 3)])
    later = project_dataset(settings)
    assert [query.id for query in later.queries] == ["q1", "q3"]
    assert queries_hash(later.asked) == before


def test_a_level_in_the_settings_holds(tmp_path: Path) -> None:
    config = project(tmp_path, [question("q1", {"d": 1})], [label("q1", "e", 2)])
    config.write_text("[test_set]\nlevel = 3\n")
    dataset = project_dataset(load_project(config))
    assert dataset.level == 3
    assert dataset.queries[0].added == ()


def test_questions_without_any_judgment_are_no_test_set(tmp_path: Path) -> None:
    config = project(tmp_path, [question("q1", {}), question("q2", {}, answerable=False)], [])
    dataset = project_dataset(load_project(config))  # engines can be asked, so that there is something to judge
    assert [(query.id, query.left_out, query.answerable) for query in dataset.asked] == [
        ("q2", False, False),
        ("q1", True, True),
    ]
    with pytest.raises(KbevalError, match="expected at least one question with a gold document or a label"):
        require_judgments(dataset)


def test_a_judged_query_cannot_be_unanswerable(tmp_path: Path) -> None:
    dataset = project_dataset(load_project(project(tmp_path, [question("q1", {"d": 1})], [])))
    queries = [question_as_unanswerable(query) for query in dataset.queries]
    write_dataset(tmp_path / "out", dataset.documents, queries, dataset.qrels, layout="plain")
    with pytest.raises(KbevalError, match="'q1'"):
        load_dataset(tmp_path / "out")


def question_as_unanswerable(query: LabelledQuery) -> LabelledQuery:
    return replace(query, answerable=False)


def test_rejected_questions_stay_in_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    kept, refused = question("q1", {"d": 1}), Rejected(question("q2", {"d": 1}), "quotes", "five words in a row")
    write_questions(path, [kept, question("q3", {}, answerable=False)], [refused])
    assert [each.id for each in read_questions(path)] == ["q1", "q3"]
    assert not read_questions(path)[1].answerable
    assert read_rejected(path) == [refused]
    write_questions(path, [kept])
    assert read_rejected(path) == []
    assert "rejected" not in orjson.loads(path.read_bytes())


def test_gold_of_an_unanswerable_question_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    write_questions(path, [question("q1", {"d": 1}, answerable=False)])
    with pytest.raises(InputError, match="expected in question 1: no gold_documents where answerable is false"):
        read_questions(path)


def test_a_question_without_gold_is_in_no_metric_until_something_answers_it() -> None:
    asked = [question("q", {"d": 1}), question("open", {})]
    doubtful = [label("open", "d", 0, "llm", "m"), label("open", "e", 1)]
    assert judged(asked, doubtful).grades == {("q", "d"): 3}
    answered = judged(asked, [*doubtful, label("open", "f", 2)])
    assert answered.grades == {("q", "d"): 3, ("open", "d"): 0, ("open", "e"): 1, ("open", "f"): 2}
    # gold that a person has taken away is another matter: the question was asked of a document, and misses count
    assert judged([question("q", {"d": 1})], [label("q", "d", 0)]).grades == {("q", "d"): 0}


def test_gold_with_grades_of_its_own_keeps_them() -> None:
    weighed = judged([question("q", {"d": 2, "e": 1})], [label("q", "f", 3)])
    assert weighed.grades == {("q", "d"): 2, ("q", "e"): 1, ("q", "f"): 3}
