"""The journal of a review: what was acknowledged is never lost, whoever else writes or dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import TYPE_CHECKING

import pytest

from kbeval.errors import InputError
from kbeval.formats.label_journal import Draft, LabelJournal, Withdrawn
from kbeval.formats.labels import read_labels, write_labels
from kbeval.formats.marks import marks_path, read_marks
from kbeval.model import Label, Mark

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path


def label(query: str, document: str = "d", grade: int = 1, by: str = "ana") -> Label:
    return Label(query, document, grade, "human", by, runs=("a",), queue="agreement", why="as it says")


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return tmp_path / "corpus" / "labels.jsonl"


def test_entries_are_folded_in_and_nothing_stays_behind(labels: Path) -> None:
    old = Label("q0", "d", 2, "llm", "model", votes=(2, None), confidence=0.5)
    write_labels(labels, [old, label("q1", grade=0)])
    journal = LabelJournal(labels)
    journal.append([label("q1", grade=3)])
    journal.append([label("q2"), Mark("q3", "bad", "ana")])
    journal.append([Withdrawn(label=label("q2").key)])
    assert journal.waiting() == 4
    state = journal.fold()
    assert read_labels(labels) == [old, label("q1", grade=3)] == list(state.labels.values())
    assert read_marks(marks_path(labels)) == [Mark("q3", "bad", "ana")]
    assert sorted(path.name for path in labels.parent.iterdir()) == ["labels.jsonl", "question_marks.jsonl"]
    assert journal.waiting() == 0


def test_without_a_journal_nothing_is_written(labels: Path) -> None:
    assert LabelJournal(labels).fold().labels == {}
    assert not labels.parent.exists()


def test_a_torn_line_was_never_acknowledged(labels: Path) -> None:
    journal = LabelJournal(labels)
    journal.append([label("q1")])
    with journal.path.open("ab") as stream:
        stream.write(b'{"label":{"query":"q2","docu')
    journal.append([label("q3")])
    assert sorted(each.query for each in journal.fold().labels.values()) == ["q1", "q3"]


def test_a_crash_between_folding_and_forgetting_changes_nothing(labels: Path) -> None:
    journal = LabelJournal(labels)
    journal.append([label("q1"), label("q2"), Withdrawn(label=label("q1").key), label("q2", grade=3)])
    kept = journal.path.read_bytes()
    once = journal.fold().labels
    journal.path.write_bytes(kept)
    assert journal.fold().labels == once


def test_a_note_without_a_grade_stays_in_the_journal(labels: Path) -> None:
    journal = LabelJournal(labels)
    journal.append([Draft("q", "d", "ana", "hm"), label("q1")])
    journal.fold()
    assert LabelJournal(labels).fold().drafts == {("q", "d", "ana"): Draft("q", "d", "ana", "hm")}
    journal.append([Draft("q", "d", "ana", "")])
    assert journal.fold().drafts == {}
    assert not journal.path.exists()


def test_what_cannot_be_folded_is_kept(labels: Path) -> None:
    journal = LabelJournal(labels)
    journal.append([label("q1")])
    labels.write_text("<<<<<<< ours\n")
    with pytest.raises(InputError, match=r"labels\.jsonl, line 1: expected a judgment .* a conflict that git left"):
        journal.fold()
    assert journal.waiting() == 1
    labels.unlink()
    journal.path.write_text('{"other": {}}\n')
    with pytest.raises(InputError, match="line 1: expected an entry of a review's journal, found something else"):
        journal.fold()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"query":"q","mark":"odd","by":"ana"}', "line 2: expected mark to be 'unanswerable' or 'bad'"),
        ('{"query":"q","mark":"bad","by":"ana"}', "line 2: expected one mark of a question by each person"),
        ("=======", "line 2: expected a mark as a JSON object, found a conflict that git left"),
        ("{", "line 2: expected a mark as a JSON object, found no JSON"),
    ],
)
def test_marks_that_cannot_be_read(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "question_marks.jsonl"
    file.write_text('{"query":"q","mark":"bad","by":"ana"}\n' + line + "\n")
    with pytest.raises(InputError, match=words):
        read_marks(file)


def _write_and_fold(labels: Path, by: str, count: int, acknowledged: Connection | None = None) -> None:
    journal = LabelJournal(labels)
    for number in range(count):
        journal.append([label(f"q{number}", by=by)])
        if acknowledged is not None:
            acknowledged.send(number)
        if number % 7 == 0:
            journal.fold()


def test_two_reviews_at_once_lose_nothing(labels: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    count = 60
    writers = [spawn.Process(target=_write_and_fold, args=(labels, by, count)) for by in ("ana", "ben", "eve")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    found = LabelJournal(labels).fold().labels
    assert len(found) == 3 * count
    assert len(read_labels(labels)) == 3 * count


def test_killed_at_any_moment_what_was_acknowledged_is_there(labels: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    for killed_after in (1, 7, 8, 20):
        receiving, sending = spawn.Pipe(duplex=False)
        writer = spawn.Process(target=_write_and_fold, args=(labels, f"r{killed_after}", 10_000, sending))
        writer.start()
        acknowledged = [receiving.recv() for _ in range(killed_after)]
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        sending.close()
        while receiving.poll():
            try:
                acknowledged.append(receiving.recv())
            except EOFError:
                break
        there = {each.query for each in LabelJournal(labels).fold().labels.values() if each.by == f"r{killed_after}"}
        assert {f"q{number}" for number in acknowledged} <= there
