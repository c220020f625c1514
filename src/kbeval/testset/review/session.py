"""One reviewer at work: what is answered, what is open, and every answer on the disk before the next question."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING

from kbeval.formats.label_journal import Draft, LabelJournal, Withdrawn
from kbeval.model import Label, Mark
from kbeval.testset.review.queues import AGREEMENT, ALL, DISPUTED, MISSES, SEEN, Queue, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kbeval.formats.label_journal import Entry, State
    from kbeval.testset.review.material import Material, Pair

MARKS = ("unanswerable", "bad")


@dataclass(frozen=True, slots=True)
class Place:
    """A document of a question of a queue, each counted from 0."""

    queue: str
    task: int
    document: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a queue is answered: pairs, or whole questions that were marked."""

    done: int
    total: int

    @property
    def left(self) -> int:
        """What is still open."""
        return self.total - self.done


@dataclass(frozen=True, slots=True)
class Undone:
    """One step back: what to write, and where it was."""

    entries: tuple[Entry, ...]
    place: Place
    what: str


class Session:
    """The work of one reviewer. Safe to use from several threads.

    Args:
        material: what the review is about.
        queues: what is asked, by name.
        state: what files and journal hold.
        journal: where answers go at once.
        reviewer: whose answers they are.
        clock: tells the time for ``when``.
    """

    def __init__(
        self,
        material: Material,
        queues: Mapping[str, Queue],
        state: State,
        journal: LabelJournal,
        reviewer: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.material = material
        self.queues = dict(queues)
        self.reviewer = reviewer
        self._state = state
        self._journal = journal
        self._clock = clock
        self._lock = RLock()
        self._undo: list[Undone] = []
        self._revealed: set[Pair] = set()
        self._sample = set(self.queues[AGREEMENT].pairs) if AGREEMENT in self.queues else set()
        self._where: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._done: dict[str, list[int]] = {}
        for name, queue in self.queues.items():
            for number, task in enumerate(queue.tasks):
                self._where[task.query].append((name, number))
            self._done[name] = [self._answered(name, task) for task in queue.tasks]
        self._totals = {name: sum(_size(task) for task in queue.tasks) for name, queue in self.queues.items()}
        self._sums = {name: sum(done) for name, done in self._done.items()}
        self.answers = 0
        """How many answers were given and not taken back since it began."""

    # What is shown ----------------------------------------------------------------------------------------------

    def progress(self, queue: str) -> Progress:
        """How much of a queue is answered."""
        return Progress(self._sums[queue], self._totals[queue])

    def task(self, place: Place) -> Task | None:
        """The task at a place; none where there is none."""
        queue = self.queues.get(place.queue)
        if queue is None or not 0 <= place.task < len(queue.tasks):
            return None
        return queue.tasks[place.task]

    def grade_of(self, pair: Pair) -> int | None:
        """The reviewer's own grade."""
        label = self._mine(pair)
        return None if label is None else label.grade

    def is_answered(self, queue: str, pair: Pair) -> bool:
        """Whether the reviewer has graded the pair, as far as the queue asks: the sample asks blindly."""
        label = self._mine(pair)
        if label is None:
            return False
        return queue != AGREEMENT or label.queue in (AGREEMENT, SEEN)

    def note_of(self, pair: Pair) -> str:
        """The reviewer's own note."""
        label = self._mine(pair)
        if label is not None:
            return label.why
        draft = self._state.drafts.get((*pair, self.reviewer))
        return draft.text if draft else ""

    def mark_of(self, query: str) -> str | None:
        """What the reviewer said about the whole question."""
        mark = self._state.marks.get((query, self.reviewer))
        return mark.mark if mark else None

    def is_revealed(self, pair: Pair) -> bool:
        """Whether the reviewer asked to see what engines, models and others said."""
        return pair in self._revealed

    def others(self, pair: Pair) -> list[Label]:
        """What models and other people said: for those who asked."""
        key = (*pair, "", "human", self.reviewer)
        return [label for label in self.material.by_pair.get(pair, ()) if label.key != key]

    @property
    def can_undo(self) -> str:
        """What undo would take back, in words; empty where there is nothing."""
        return self._undo[-1].what if self._undo else ""

    def next_open(self, after: Place) -> Place | None:
        """The next open place: in the same question first, then in later ones, then from the queue's beginning."""
        queue = self.queues[after.queue]
        task = self.task(after)
        if task is not None and self.mark_of(task.query) is None:
            count = len(task.documents)
            for step in range(1, count + 1):
                number = (after.document + step) % count
                if not self.is_answered(queue.name, (task.query, task.documents[number])):
                    return Place(queue.name, after.task, number)
        return self.next_task(after)

    def next_task(self, after: Place) -> Place | None:
        """The first open place of another question: of later ones, then from the queue's beginning."""
        queue, done = self.queues[after.queue], self._done[after.queue]
        count = len(queue.tasks)
        for step in range(1, count + 1):
            number = (after.task + step) % count
            if done[number] < _size(queue.tasks[number]):
                return Place(queue.name, number, self._first_open(queue.name, queue.tasks[number]))
        return None

    # What is answered -------------------------------------------------------------------------------------------

    def grade(self, place: Place, document: str, grade: int, note: str | None = None) -> None:
        """Gives a document its grade; on the disk when this returns.

        Raises:
            ValueError: there is no such place or grade.
        """
        with self._lock:
            task = self._task(place)
            if document not in task.documents or grade not in range(4):
                raise ValueError(f"no document {document!r} there, or no grade {grade}")
            pair = (task.query, document)
            before = self._mine(pair)
            found = self.material.found.get(task.query, {}).get(document, ())
            label = Label(
                query=task.query,
                document=document,
                grade=grade,
                source="human",
                by=self.reviewer,
                runs=tuple(sorted({finding.run for finding in found})),
                queue=self._queue_of(place.queue, pair, before),
                why=self.note_of(pair) if note is None else note.strip(),
                when=self._now(),
            )
            back: list[Entry] = [before if before is not None else Withdrawn(label=label.key)]
            write: list[Entry] = [label]
            if draft := self._state.drafts.get((*pair, self.reviewer)):
                write.append(replace(draft, text=""))
                back.append(draft)
            self._write(write, task.query)
            self._undo.append(Undone(tuple(back), place, f"grade {grade}"))
            self.answers += 1

    def note(self, place: Place, document: str, text: str) -> None:
        """Keeps a note as it is typed: with the grade, or until there is one."""
        with self._lock:
            task = self._task(place)
            if document not in task.documents:
                raise ValueError(f"no document {document!r} there")
            pair = (task.query, document)
            if self.note_of(pair) == text:
                return
            label = self._mine(pair)
            if label is not None:
                self._write([replace(label, why=text, when=self._now())], task.query)
            else:
                self._write([Draft(task.query, document, self.reviewer, text)], task.query)

    def mark(self, place: Place, mark: str) -> None:
        """Says something about the whole question; saying it again takes it back."""
        with self._lock:
            task = self._task(place)
            if mark not in MARKS:
                raise ValueError(f"no mark {mark!r}")
            key = (task.query, self.reviewer)
            before = self._state.marks.get(key)
            if before is not None and before.mark == mark:
                self._write([Withdrawn(mark=key)], task.query)
            else:
                self._write([Mark(task.query, mark, self.reviewer, when=self._now())], task.query)
            back: Entry = before if before is not None else Withdrawn(mark=key)
            self._undo.append(Undone((back,), place, "the mark on a question"))
            self.answers += 1

    def undo(self) -> Place | None:
        """Takes the last answer back, and says where it was; none where there is nothing to take back."""
        with self._lock:
            if not self._undo:
                return None
            step = self._undo.pop()
            task = self._task(step.place)
            self._write(step.entries, task.query)
            self.answers -= 1
            return step.place

    def add(self, place: Place, document: str) -> Place:
        """Adds a document that nobody named to a question, and says where it stands."""
        with self._lock:
            task = self._task(place)
            if document not in self.material.documents:
                raise ValueError(f"no document {document!r}")
            if document not in task.documents:
                before = _size(task)
                task.documents.append(document)
                self._totals[place.queue] += _size(task) - before
                self._count(task.query)
            return Place(place.queue, place.task, task.documents.index(document))

    def reveal(self, place: Place, document: str) -> None:
        """Shows what engines, models and others said. A grade given from then on is not blind, and says so."""
        self._revealed.add((self._task(place).query, document))

    def fold(self) -> None:
        """Moves what was answered into ``labels.jsonl``, and learns what other reviewers put there."""
        with self._lock:
            self._state = self._journal.fold()
            self.material = replace(self.material, labels=list(self._state.labels.values()))

    # ------------------------------------------------------------------------------------------------------------

    def _queue_of(self, queue: str, pair: Pair, before: Label | None) -> str | None:
        """What the label says about how it came to be: only blind grades of the sample are in the sample."""
        if pair in self._revealed:
            return SEEN
        if before is not None and before.queue in (AGREEMENT, SEEN):
            return before.queue
        if pair in self._sample:
            # These two tell by themselves that something is odd about the pair.
            return queue if queue in (DISPUTED, MISSES) else AGREEMENT
        return None if queue == ALL else queue

    def _mine(self, pair: Pair) -> Label | None:
        return self._state.labels.get((*pair, "", "human", self.reviewer))

    def _task(self, place: Place) -> Task:
        task = self.task(place)
        if task is None:
            raise ValueError(f"no place {place}")
        return task

    def _write(self, entries: Iterable[Entry], query: str) -> None:
        entries = list(entries)
        self._journal.append(entries)
        self._state.apply(entries)
        self._count(query)

    def _count(self, query: str) -> None:
        for name, number in self._where[query]:
            now = self._answered(name, self.queues[name].tasks[number])
            self._sums[name] += now - self._done[name][number]
            self._done[name][number] = now

    def _answered(self, queue: str, task: Task) -> int:
        if self.mark_of(task.query) is not None:
            return _size(task)
        return sum(self.is_answered(queue, (task.query, document)) for document in task.documents)

    def _first_open(self, queue: str, task: Task) -> int:
        open_ones = (
            number
            for number, document in enumerate(task.documents)
            if not self.is_answered(queue, (task.query, document))
        )
        return next(open_ones, 0)

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _size(task: Task) -> int:
    """A question without documents is one thing to answer: nothing answers it, or a document is searched for."""
    return max(len(task.documents), 1)
