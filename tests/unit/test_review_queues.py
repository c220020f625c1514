"""What a reviewer is asked: queues, the sample, misses; and what an answer leaves behind."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kbeval.corpus.chunking import chunk_document
from kbeval.evaluation.comparison import Options, RunSource, compare_runs
from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.misses import sampled_misses
from kbeval.evaluation.test_set import TestSet
from kbeval.formats.label_journal import LabelJournal
from kbeval.formats.labels import read_labels
from kbeval.model import Document, Label, LabelledQuery, Mark, Question
from kbeval.report.markdown import results_md
from kbeval.testset.review.material import Finding, Material
from kbeval.testset.review.passages import Passages
from kbeval.testset.review.queues import agreement_sample, build_queues, doubts
from kbeval.testset.review.session import Place, Progress, Session
from plain_trec import qrels_of, run_of

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.testset.review.material import Pair


def question(name: str, *gold: str, **more: object) -> Question:
    return Question(name, f"What of {name}?", {}, dict.fromkeys(gold, 1), "historical", **more)  # type: ignore[arg-type]


def model(query: str, document: str, grade: int | None = 3, **more: object) -> Label:
    return Label(query, document, grade, "llm", "model", **more)  # type: ignore[arg-type]


def person(query: str, document: str, grade: int, by: str = "ana", queue: str | None = None) -> Label:
    return Label(query, document, grade, "human", by, queue=queue)


def material(questions: list[Question], *labels: Label, **more: object) -> Material:
    documents = {name: Document(name, f"Text of {name}.", name.upper()) for name in ("d1", "d2", "d3", "d4")}
    return Material({each.id: each for each in questions}, documents, labels, **more)  # type: ignore[arg-type]


def asked(of: Material, queue: str, reviewer: str = "ana", sample: int = 0) -> set[Pair]:
    return set(build_queues(of, reviewer, sample=sample)[queue].pairs)


def session(folder: Path, of: Material, sample: int = 0, reviewer: str = "ana") -> Session:
    journal = LabelJournal(folder / "labels.jsonl")
    state = journal.fold()
    state.labels |= {label.key: label for label in of.labels}
    clock = lambda: datetime(2026, 12, 1, 10, tzinfo=UTC)  # noqa: E731
    return Session(of, build_queues(of, reviewer, sample=sample), state, journal, reviewer, clock)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        (model("q", "d1", 1), "a model says that it does not answer the question that was written from it"),
        (model("q", "d2", None), "a model's answer could not be understood"),
        (model("q", "d2", 2, votes=(2, 3)), "a model's votes differ"),
        # the judge's own bound is .75
        (model("q", "d2", 2, votes=(2, 2), confidence=0.74), "a model is not sure"),
        (model("q", "d2", 0, votes=(0, 0), confidence=0.75), None),
        (model("none", "d2", 2), "a model says that it answers a question that is said to have no answer"),
        (model("none", "d2", 1), None),
        (model("q", "d1", 2), None),
    ],
)
def test_doubts(label: Label, reason: str | None) -> None:
    of = material([question("q", "d1"), question("none", answerable=False)], label)
    pair = (label.query, label.document)
    assert doubts(of, pair) == ([reason] if reason else [])
    assert asked(of, "disputed") == ({pair} if reason else set())


def test_a_twin_is_in_doubt_until_somebody_judges_it() -> None:
    twins = {"q": ["d2", "d3"]}
    assert asked(material([question("q", "d1")], twins=twins), "disputed") == {("q", "d2"), ("q", "d3")}
    judged = material([question("q", "d1")], model("q", "d2", 3), person("q", "d3", 0, "ben"), twins=twins)
    assert asked(judged, "disputed") == set()


def test_what_others_settled_is_not_asked_and_what_they_dispute_is() -> None:
    one = material([question("q", "d1")], model("q", "d1", 0), person("q", "d1", 3, "ben"))
    assert asked(one, "disputed") == set()
    assert asked(one, "disputed", reviewer="ben") == {("q", "d1")}
    two = material([question("q")], person("q", "d2", 3, "ben"), person("q", "d2", 0, "eve"))
    assert asked(two, "disputed") == {("q", "d2")}


def test_the_sample_is_the_same_for_everybody_and_in_no_other_queue_of_doubts() -> None:
    questions = [question(f"q{i}", "d1") for i in range(10)]
    labels = [model(each.id, document, 0, votes=(0, 1)) for each in questions for document in ("d1", "d2")]
    of = material([*questions, question("no", answerable=False)], *labels, model("no", "d1"), model("q1", "d3", None))
    drawn = agreement_sample(of, 8, 0)
    assert len(set(drawn)) == 8
    assert asked(of, "agreement", "ana", 8) == asked(of, "agreement", "ben", 8) == set(drawn)
    assert asked(of, "disputed", "ana", 8) == {(label.query, label.document) for label in labels} - set(drawn) | {
        ("q1", "d3"),
        ("no", "d1"),
    }
    assert set(agreement_sample(of, 8, 1)) != set(drawn)
    # growing the sample keeps what was in it; more labels push out at most as many
    assert set(agreement_sample(of, 12, 0)) >= set(drawn)
    assert len(agreement_sample(of, 100, 0)) == 20


def test_the_sample_is_drawn_evenly() -> None:
    questions = [question(f"q{i}", "d1") for i in range(500)]
    of = material(questions, *(model(each.id, f"d{i % 4 + 1}", i % 4) for i, each in enumerate(questions)))
    grades = [of.by_models[pair] for pair in agreement_sample(of, 200, 0)]
    # 50 of each expected; four standard deviations of a hypergeometric draw of 200 out of 500 with 125: sd 4.7
    assert all(abs(grades.count(grade) - 50) < 19 for grade in range(4))


def test_unlabelled_questions_with_their_candidates() -> None:
    of = material(
        [question("q1"), question("q2", "d1"), question("q3"), question("q4"), question("q5", answerable=False)],
        model("q1", "d3", 2),
        person("q3", "d1", 2, "ben"),
        marks=[Mark("q4", "bad", "ben")],
        found={"q1": {"d2": [Finding("a", 1)]}},
    )
    assert asked(of, "unlabelled") == {("q1", "d2"), ("q1", "d3")}
    assert [task.query for task in build_queues(material([question("q1")]), "ana")["unlabelled"].tasks] == ["q1"]


def test_misses_are_those_that_the_report_shows() -> None:
    queries = [f"q{i:02}" for i in range(60)]
    labelled = {q: LabelledQuery(q, f"Text of {q}?", {"d1": 3, "d2": 2}, added=("d2",)) for q in queries}
    qrels = qrels_of([(q, d, g) for q in queries for d, g in (("d1", 3), ("d2", 2))])
    test_set = TestSet(qrels, level=2, labelled=labelled)
    rows = [(q, "d1" if i % 3 == 0 else "d2" if i % 3 == 1 else "d9", 1.0) for i, q in enumerate(queries[:-1])]
    run = run_of(rows, "a")
    options = Options(metrics=[parse_metric("mrr")], primary=parse_metric("mrr"))
    report = results_md(compare_runs(test_set, [RunSource("a", run)], options))
    section = report.partition("## a: first answers that count as wrong")[2].partition("\n## ")[0]
    shown = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if line.startswith("| q")]
    firsts = dict(run.frame.select("query", "document").iter_rows())
    ours = [queries[at] for at in sampled_misses(test_set, [firsts.get(q) for q in queries])]
    assert ours == shown
    assert len(ours) == 20
    # what a label added stays a miss to mark; what the question was written from is none
    assert {firsts[q] for q in ours} == {"d2", "d9"}


def test_an_answer_is_in_the_journal_at_once_and_undone_step_by_step(tmp_path: Path) -> None:
    of = material(
        [question("q1"), question("q2")], found={q: {"d1": [Finding("a", 2)], "d2": []} for q in ("q1", "q2")}
    )
    at_work = session(tmp_path, of)
    place = at_work.next_open(Place("unlabelled", 0, -1))
    assert place == Place("unlabelled", 0, 0)
    first = at_work.queues["unlabelled"].tasks[0]
    at_work.note(place, first.documents[0], "hm")
    assert at_work.note_of((first.query, first.documents[0])) == "hm"
    at_work.grade(place, first.documents[0], 2)
    at_work.grade(place, first.documents[0], 3, "clear")
    assert LabelJournal(tmp_path / "labels.jsonl").waiting() == 4  # the note, the grade, its note taken over, again
    assert at_work.progress("unlabelled") == at_work.progress("all") == Progress(1, 4)
    assert at_work.next_open(place) == Place("unlabelled", 0, 1)
    assert at_work.undo() == place
    pair = (first.query, first.documents[0])
    assert (at_work.grade_of(pair), at_work.note_of(pair)) == (2, "hm")
    assert at_work.undo() == place
    assert (at_work.grade_of(pair), at_work.note_of(pair), at_work.undo()) == (None, "hm", None)
    at_work.grade(place, "d1", 3)
    at_work.fold()
    assert read_labels(tmp_path / "labels.jsonl") == [
        Label(first.query, "d1", 3, "human", "ana", runs=("a",), queue="unlabelled",
              why="hm" if first.documents[0] == "d1" else "", when="2026-12-01T10:00:00Z")
    ]  # fmt: skip


def test_a_mark_answers_a_whole_question_and_again_takes_it_back(tmp_path: Path) -> None:
    at_work = session(tmp_path, material([question("q1"), question("q2")], near={"q1": ["d1", "d2"], "q2": ["d1"]}))
    number = next(i for i, task in enumerate(at_work.queues["unlabelled"].tasks) if task.query == "q1")
    place = Place("unlabelled", number)
    at_work.mark(place, "unanswerable")
    assert at_work.progress("unlabelled") == Progress(2, 3)
    assert at_work.next_open(place) == Place("unlabelled", 1 - number)
    at_work.mark(place, "bad")
    assert at_work.mark_of("q1") == "bad"
    at_work.mark(place, "bad")
    assert at_work.mark_of("q1") is None
    at_work.undo()
    assert at_work.mark_of("q1") == "bad"
    with pytest.raises(ValueError, match="no mark"):
        at_work.mark(place, "odd")


def test_only_blind_grades_are_of_the_sample(tmp_path: Path) -> None:
    questions = [question(f"q{i}", "d1") for i in range(4)]
    of = material(questions, *(model(f"q{i}", "d1", 3) for i in range(4)), misses=[("q3", "d1")])
    at_work = session(tmp_path, of, sample=4)

    def place(queue: str, query: str) -> Place:
        return Place(queue, [task.query for task in at_work.queues[queue].tasks].index(query))

    at_work.grade(place("agreement", "q0"), "d1", 3)
    at_work.reveal(place("agreement", "q1"), "d1")
    assert [label.by for label in at_work.others(("q1", "d1"))] == ["model"]
    at_work.grade(place("agreement", "q1"), "d1", 3)
    at_work.grade(place("all", "q2"), "d1", 1)  # nothing there says that it is in doubt
    at_work.grade(place("misses", "q3"), "d1", 0)
    assert at_work.progress("agreement") == Progress(3, 4)  # the miss is to be graded again, blindly
    assert at_work.progress("misses") == Progress(1, 1)
    at_work.grade(place("all", "q0"), "d1", 2)
    at_work.fold()
    queues = {label.query: label.queue for label in read_labels(tmp_path / "labels.jsonl") if label.source == "human"}
    assert queues == {"q0": "agreement", "q1": "seen", "q2": "agreement", "q3": "misses"}


def test_a_document_that_nobody_named(tmp_path: Path) -> None:
    at_work = session(tmp_path, material([question("q1")], near={}))
    place = Place("unlabelled", 0)
    assert at_work.progress("unlabelled") == Progress(0, 1)
    assert at_work.add(place, "d3") == at_work.add(place, "d3") == Place("unlabelled", 0, 0)
    at_work.grade(place, "d3", 3)
    assert at_work.progress("unlabelled") == Progress(1, 1)
    assert at_work.next_open(place) is None
    for wrong in (lambda: at_work.add(place, "nowhere"), lambda: at_work.grade(place, "d1", 3)):
        with pytest.raises(ValueError, match="no document"):
            wrong()


def test_others_grades_are_not_mine(tmp_path: Path) -> None:
    at_work = session(tmp_path, material([question("q1", "d1")], person("q1", "d1", 3, "ben")), reviewer="ana")
    assert at_work.grade_of(("q1", "d1")) is None
    assert [label.by for label in at_work.others(("q1", "d1"))] == ["ben"]


def test_orders_say_nothing_of_engines() -> None:
    ranked = {
        f"q{i}": {d: [Finding("a", rank)] for rank, d in enumerate(("d1", "d2", "d3", "d4"), 1)} for i in range(80)
    }
    of = material([question(query) for query in ranked], found=ranked)
    tasks = build_queues(of, "ana")["unlabelled"].tasks
    firsts = [task.documents[0] for task in tasks]
    # 20 of each expected, sd 3.9
    assert all(abs(firsts.count(document) - 20) < 16 for document in ("d1", "d2", "d3", "d4"))
    assert [task.query for task in tasks] != [task.query for task in build_queues(of, "ben")["unlabelled"].tasks]


def test_the_passage_is_the_gold_chunk_else_the_nearest_in_words() -> None:
    from kbeval.corpus.chunking import text_hash

    text = "alpha beta  gamma delta\n\nalpha beta refund epsilon zeta"
    passages = Passages({"d": Document("d", text)}, cut=partial(chunk_document, words=4, overlap=0))
    found = passages.first("d", "how do I refund")
    assert (found.before, found.text, found.after) == (
        "alpha beta  gamma delta\n\n", "alpha beta refund epsilon", " zeta"
    )  # fmt: skip
    assert passages.first("d", "how do I refund", [text_hash("zeta")]).text == "zeta"
    empty = Passages({"d": Document("d", "")}, cut=partial(chunk_document, words=4, overlap=0)).first("d", "refund")
    assert (empty.text, empty.whole) == ("", True)


def test_search_finds_by_title_and_text() -> None:
    documents = {
        "a": Document("a", "money back", "Refunds"),
        "b": Document("b", "paper roll refunds"),
        "c": Document("c", ""),
    }
    passages = Passages(documents, cut=chunk_document)
    assert set(passages.search("refunds", 5)) == {"a", "b"}
    assert passages.search("nothing here", 5) == []


def test_the_first_documents_of_a_run_with_their_ranks() -> None:
    from kbeval.testset.review.opening import _first

    run = run_of([("q1", "x", 1.0), ("q1", "y", 3.0), ("q1", "w", 2.0), ("q2", "z", 1.0)], "a")
    assert _first(run, 2).rows() == [("q1", "y", 1), ("q1", "w", 2), ("q2", "z", 1)]
