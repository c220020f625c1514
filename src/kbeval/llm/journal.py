"""What has been paid for, written down as it arrives: one JSON line an answer, synced to the disk."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.errors import KbevalError
from kbeval.signals import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType


class Journal:
    """An append-only file beside a cache, held by one process at a time.

    As a context manager it opens the file (making it where there is none) and locks it; nothing is written twice by
    two commands at once. Lines are replayed in order. The last line may be torn, as after a ``kill -9`` or on a full
    disk: it is cut off, since nothing was told to anybody about it.

    Args:
        path: the file. Beside it nothing is left: it is its own lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._lines: list[dict[str, Any]] = []
        self._made_folder = False

    def __enter__(self) -> Journal:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def read(path: Path) -> list[dict[str, Any]]:
        """The whole lines of a journal that may belong to somebody else: without lock, and changing nothing."""
        try:
            return _whole(path, path.read_bytes())[0]
        except FileNotFoundError:
            return []

    def open(self) -> None:
        """Opens and locks the file, and cuts off a torn last line.

        Raises:
            KbevalError: another process holds it, it cannot be written, or it holds something else.
        """
        try:
            self._made_folder = not self.path.parent.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = self._locked()
        except BlockingIOError:
            raise KbevalError(
                f"{self.path}: expected to be the only one at work here, found another kbeval that is writing; "
                "wait for it, or end it"
            ) from None
        except OSError as error:
            raise KbevalError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from error
        try:
            with os.fdopen(os.dup(descriptor), "rb") as stream:
                stream.seek(0)
                self._lines, whole = _whole(self.path, stream.read())
            os.ftruncate(descriptor, whole)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _locked(self) -> int:
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Whoever held it until now may have removed it: then the lock is on a file that nobody can find.
                if self.path.exists() and os.path.samestat(os.fstat(descriptor), self.path.stat()):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def replay(self) -> list[dict[str, Any]]:
        """What had been written when it was opened, in order."""
        return list(self._lines)

    def append(self, entry: Mapping[str, Any], *, sync: bool = True) -> None:
        """Writes one line, and returns when it is on the disk. A signal waits until it is.

        Without ``sync`` it returns when the system has it: that outlives the process, and not the machine.

        Raises:
            KbevalError: the disk is full, or gone.
        """
        if self._descriptor is None:
            raise ValueError("the journal is not open")
        line = orjson.dumps(dict(entry), option=orjson.OPT_APPEND_NEWLINE)
        try:
            with uninterrupted():
                while line:
                    line = line[os.write(self._descriptor, line) :]
                if sync:
                    os.fsync(self._descriptor)
        except OSError as error:
            raise KbevalError(f"{self.path}: cannot be written: {(error.strerror or str(error)).lower()}") from error

    def clear(self) -> None:
        """Forgets everything, when what it holds is safe elsewhere. It stays open and locked."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.fsync(self._descriptor)
        self._lines = []

    def close(self) -> None:
        """Lets go of the file; one that holds nothing is removed, with the folder that was made for it alone."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        try:
            if os.fstat(descriptor).st_size == 0:
                self.path.unlink(missing_ok=True)
                if self._made_folder:
                    with suppress(OSError):  # it holds something by now
                        self.path.parent.rmdir()
        finally:
            os.close(descriptor)


def _whole(path: Path, data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The lines that are whole, and how many bytes they are.

    Raises:
        KbevalError: a line other than the last is no JSON object, so this is not what was written here.
    """
    lines: list[dict[str, Any]] = []
    place = 0
    while (end := data.find(b"\n", place)) >= 0:
        try:
            entry = orjson.loads(data[place:end])
        except orjson.JSONDecodeError:
            entry = None
        if not isinstance(entry, dict):
            if data.find(b"\n", end + 1) < 0 and end + 1 >= len(data):
                break  # the last line: torn, though its end has reached the disk
            raise KbevalError(
                f"{path}, line {len(lines) + 1}: expected a JSON object a line, found something else; "
                "remove the file to start without it"
            )
        lines.append(entry)
        place = end + 1
    return lines, place
