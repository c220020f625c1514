"""What a stage has answered, kept on disk: one SQLite file that runs share, one after another or at once."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.engines.base import Usage, added
from kbeval.errors import KbevalError
from kbeval.signals import uninterrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

KEYS = 1
"""Changes when the same parts no longer stand for the same answer."""
FORMAT = 2
"""Of the file, in SQLite's ``user_version``; the first one had none, and no checksums."""
_BUFFERED = 512
_BUSY_S = 60.0
_LOCKS = 64
_ASKED_AT_ONCE = 500
_MOST_AT_HAND = 20_000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS stage (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, value BLOB NOT NULL, seconds REAL NOT NULL, usage TEXT NOT NULL,
    checksum BLOB
) WITHOUT ROWID
"""
_COLUMNS = "key, value, seconds, usage, checksum"


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer of a stage: its bytes, the seconds that it really took, and what it used of paid services."""

    value: bytes
    seconds: float
    usage: tuple[Usage, ...] = ()


def key_of(kind: str, *parts: Any) -> bytes:
    """Sixteen bytes that stand for a stage and everything that its answer depends on."""
    return hashlib.sha256(orjson.dumps([KEYS, kind, *parts], option=orjson.OPT_SORT_KEYS)).digest()[:16]


class StageMemory:
    """Answers of stages by key.

    What was paid for is on the disk before anything else happens; the rest is written some hundred at a time, and
    recomputed where the process ends before. Two processes at once may both find that an answer is missing: the first
    one written is then the answer of both.

    Args:
        path: the file; its folder is made, with a ``.gitignore`` in it.

    Raises:
        KbevalError: it cannot be opened, or is something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: dict[str, int] = {}
        """How many answers of each kind were really computed."""
        self.recalled: dict[str, int] = {}
        """How many of each kind were found."""
        self.damage: KbevalError | None = None
        """What was found of a row that somebody changed."""
        self._usage: tuple[Usage, ...] = ()
        self._waiting: dict[bytes, tuple[str, Kept]] = {}
        self._at_hand: dict[bytes, Kept] = {}
        self._lock = threading.RLock()
        self._one_at_a_time = [threading.RLock() for _ in range(_LOCKS)]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            ignore = path.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise KbevalError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from error
        with self._explained():
            self._connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)
            self._set_up()

    @property
    def usage(self) -> tuple[Usage, ...]:
        """What was really asked of paid services."""
        return self._usage

    def spent(self, usage: Sequence[Usage]) -> None:
        """Something was paid for that is not worth keeping."""
        with self._lock:
            self._usage = added([*self._usage, *usage])

    @contextmanager
    def once(self, key: bytes) -> Iterator[None]:
        """Nobody else in this process works on the key meanwhile."""
        with self._one_at_a_time[key[0] % _LOCKS]:
            yield

    def get(self, kind: str, key: bytes) -> Kept | None:
        """The answer of a stage, None where it is not known."""
        with self._lock, self._explained():
            waiting = self._waiting.get(key)
            found = waiting[1] if waiting else self._at_hand.get(key) or self._read(key)
            if found is not None:
                self.recalled[kind] = self.recalled.get(kind, 0) + 1
                if len(self._at_hand) >= _MOST_AT_HAND:
                    self._at_hand.clear()
                self._at_hand[key] = found
        return found

    def get_many(self, kind: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The answers that are known, by key."""
        found: dict[bytes, bytes] = {}
        with self._lock, self._explained():
            for start in range(0, len(keys), _ASKED_AT_ONCE):
                some = keys[start : start + _ASKED_AT_ONCE]
                marks = ",".join("?" * len(some))
                statement = f"SELECT {_COLUMNS} FROM stage WHERE key IN ({marks})"  # noqa: S608 - question marks
                found |= {row[0]: self._checked(row).value for row in self._connection.execute(statement, some)}
            found |= {key: self._waiting[key][1].value for key in keys if key in self._waiting}
            if found:
                self.recalled[kind] = self.recalled.get(kind, 0) + len(found)
        return found

    def keep(self, kind: str, key: bytes, kept: Kept, *, now: bool) -> Kept:
        """Keeps what was computed, and returns what holds from now on.

        Args:
            now: whether it was paid for, or would not be the same again: it is on the disk when this returns.
        """
        return self.keep_many(kind, {key: kept}, now=now)[key]

    def keep_many(self, kind: str, answers: Mapping[bytes, Kept], *, now: bool) -> dict[bytes, Kept]:
        """As :meth:`keep`, for several in one transaction."""
        with self._lock:
            self.done[kind] = self.done.get(kind, 0) + len(answers)
            self._usage = added([*self._usage, *(each for kept in answers.values() for each in kept.usage)])
            self._waiting.update({key: (kind, kept) for key, kept in answers.items()})
            if not now:
                if len(self._waiting) >= _BUFFERED:
                    self.flush()
                return dict(answers)
            self.flush(now=True)
            with self._explained():
                return {key: self._read(key) or kept for key, kept in answers.items()}

    def flush(self, *, now: bool = False) -> None:
        """Writes what waits; with ``now`` it outlives a power cut, and not the process alone."""
        with self._lock, self._explained(), uninterrupted():
            if not self._waiting:
                return
            rows = [_row(key, *self._waiting[key]) for key in sorted(self._waiting)]
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if now else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany("INSERT OR IGNORE INTO stage VALUES (?, ?, ?, ?, ?, ?)", rows)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._waiting.clear()

    def close(self) -> None:
        """Writes what waits, and lets go of the file."""
        try:
            self.flush()
        finally:
            self._connection.close()

    def _set_up(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        if self._version() == FORMAT:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            version = self._version()  # another process may have been first
            if version > FORMAT:
                raise KbevalError(
                    f"{self.path}: expected a memory of stages of version {FORMAT} or earlier, found version {version} "
                    "of a newer kbeval; remove the file to start without it"
                )
            if version < FORMAT:
                self._connection.execute(_SCHEMA)
                if "checksum" not in {row[1] for row in self._connection.execute("PRAGMA table_info(stage)")}:
                    self._connection.execute("ALTER TABLE stage ADD COLUMN checksum BLOB")
                    self._connection.create_function("checksum_of", 4, _checksum, deterministic=True)
                    self._connection.execute("UPDATE stage SET checksum = checksum_of(key, value, seconds, usage)")
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _read(self, key: bytes) -> Kept | None:
        statement = f"SELECT {_COLUMNS} FROM stage WHERE key = ?"  # noqa: S608 - names of columns
        row = self._connection.execute(statement, (key,)).fetchone()
        return None if row is None else self._checked(row)

    def _checked(self, row: tuple[Any, ...]) -> Kept:
        """A row as it was written.

        Raises:
            KbevalError: it is another.
        """
        key, value, seconds, usage, checksum = row
        if checksum != _checksum(key, value, seconds, usage):
            self.damage = KbevalError(
                f"{self.path}: expected the rows that kbeval wrote, found one that was changed; remove the file to "
                "start without it"
            )
            raise self.damage
        return Kept(value, seconds, () if usage == "[]" else tuple(Usage(**each) for each in orjson.loads(usage)))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise KbevalError(
                f"{self.path}: expected kbeval's memory of stages, found that {str(error).lower()}; remove the file to "
                "start without it"
            ) from error


def _row(key: bytes, kind: str, kept: Kept) -> tuple[Any, ...]:
    seconds, usage = float(kept.seconds), orjson.dumps([asdict(each) for each in kept.usage]).decode()
    return key, kind, kept.value, seconds, usage, _checksum(key, kept.value, seconds, usage)


def _checksum(key: Any, value: Any, seconds: Any, usage: Any) -> bytes:
    """Eight bytes over a row, whatever its cells hold."""
    return hashlib.sha256(ascii((key, value, seconds, usage)).encode()).digest()[:8]
