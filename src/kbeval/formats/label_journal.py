"""The journal of a review: every judgment on the disk before the next one is asked for.

Writing ``labels.jsonl`` anew for every key would take longer the more labels there are. So a review appends one line
to ``labels.jsonl.journal`` and syncs it; the journal is folded into the labels when nobody types, when the review
ends, and when the next one starts. What was acknowledged is in one of the two files, whatever ends the process.

Several reviews may write to one journal. Each line is appended under a lock on the journal; folding holds the same
lock from reading the labels until the journal is gone. The lock is on the file and not on a file beside it, so
nothing is left behind; whoever gets it looks whether its file is still the one of that name.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.errors import InputError, KbevalError
from kbeval.formats.labels import read_labels, write_labels
from kbeval.formats.marks import as_dict, marks_path, read_marks, write_marks
from kbeval.formats.text import write_atomically
from kbeval.model import Label, Mark

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LabelKey = tuple[str, str, str, str, str]
MarkKey = tuple[str, str]
DraftKey = tuple[str, str, str]
"""Query, document (empty for a note about the question), person."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A note that was typed for a document before it got a grade. An empty text takes it back."""

    query: str
    document: str
    by: str
    text: str

    @property
    def key(self) -> DraftKey:
        """What a later draft replaces."""
        return (self.query, self.document, self.by)


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A judgment or a mark that its reviewer has taken back."""

    label: LabelKey | None = None
    mark: MarkKey | None = None


Entry = Label | Mark | Draft | Withdrawn


@dataclass
class State:
    """What the files and the journal say together."""

    labels: dict[LabelKey, Label] = field(default_factory=dict)
    marks: dict[MarkKey, Mark] = field(default_factory=dict)
    drafts: dict[DraftKey, Draft] = field(default_factory=dict)

    def apply(self, entries: Iterable[Entry]) -> None:
        """Applies entries in their order; doing so twice changes nothing."""
        for entry in entries:
            if isinstance(entry, Label):
                self.labels[entry.key] = entry
            elif isinstance(entry, Mark):
                self.marks[entry.key] = entry
            elif isinstance(entry, Draft):
                self.drafts[entry.key] = entry
                if not entry.text:
                    del self.drafts[entry.key]
            else:
                if entry.label is not None:
                    self.labels.pop(entry.label, None)
                if entry.mark is not None:
                    self.marks.pop(entry.mark, None)


class LabelJournal:
    """The journal beside one ``labels.jsonl``."""

    def __init__(self, labels: Path) -> None:
        self._labels = labels
        self.path = labels.with_name(labels.name + ".journal")

    def append(self, entries: Iterable[Entry]) -> None:
        """Adds entries, and returns when they are on the disk.

        Raises:
            KbevalError: the journal cannot be written.
        """
        data = b"".join(_line(entry) for entry in entries)
        try:
            with self._locked() as descriptor:
                end = _whole_lines(descriptor)
                if end < os.fstat(descriptor).st_size:  # torn: whoever wrote it was ended before it was acknowledged
                    os.ftruncate(descriptor, end)
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
        except OSError as error:
            raise KbevalError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from error

    def fold(self) -> State:
        """Moves what the journal holds into the labels and marks, and returns all of it.

        Notes without a grade have no place there and stay in the journal.

        Raises:
            InputError: the labels, the marks or the journal cannot be read; nothing is changed then.
        """
        if not self.path.exists():
            return self._read(b"")
        with self._locked() as descriptor:
            data = _content(descriptor)
            state = self._read(data)
            if data:
                write_labels(self._labels, state.labels.values())
                if state.marks or marks_path(self._labels).exists():
                    write_marks(marks_path(self._labels), state.marks.values())
            if state.drafts:
                write_atomically(self.path, b"".join(_line(draft) for draft in state.drafts.values()))
            else:
                self.path.unlink(missing_ok=True)
        return state

    def waiting(self) -> int:
        """How many lines have not been folded in."""
        return self.path.read_bytes().count(b"\n") if self.path.exists() else 0

    def _read(self, journal: bytes) -> State:
        state = State(
            labels={label.key: label for label in read_labels(self._labels)},
            marks={mark.key: mark for mark in read_marks(marks_path(self._labels))},
        )
        state.apply(self._entries(journal))
        return state

    def _entries(self, data: bytes) -> Iterator[Entry]:
        # What follows the last line's end is torn, and was never acknowledged.
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            try:
                yield _entry(orjson.loads(line))
            except (orjson.JSONDecodeError, TypeError, KeyError, ValueError):
                raise InputError(
                    self.path, line=number, expected="an entry of a review's journal", found="something else"
                ) from None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The journal, locked against every other process and thread; made where there is none."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_at(descriptor, self.path):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one of that name, and was not folded away while its lock was waited for."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _content(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    parts, at = [], 0
    while at < size and (part := os.pread(descriptor, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _whole_lines(descriptor: int) -> int:
    """Where the last whole line ends."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return size
    return _content(descriptor).rfind(b"\n") + 1


def _line(entry: Entry) -> bytes:
    kind = type(entry).__name__.lower()
    values: dict[str, Any] = as_dict(entry) if isinstance(entry, Mark) else asdict(entry)
    return orjson.dumps({kind: values}, option=orjson.OPT_APPEND_NEWLINE)


def _entry(data: dict[str, Any]) -> Entry:
    ((kind, values),) = data.items()
    if kind == "label":
        votes = values["votes"]
        kept = {**values, "votes": None if votes is None else tuple(votes), "runs": tuple(values["runs"])}
        return Label(**kept)
    if kind == "mark":
        return Mark(**values)
    if kind == "draft":
        return Draft(**values)
    if kind == "withdrawn":
        label, mark = values["label"], values["mark"]
        return Withdrawn(
            label=None if label is None else (label[0], label[1], label[2], label[3], label[4]),
            mark=None if mark is None else (mark[0], mark[1]),
        )
    raise ValueError(kind)
