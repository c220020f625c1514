"""The store of evaluated runs: an SQLite file, or a PostgreSQL database.

Writers wait for each other: every write is one transaction that takes the write lock at its start, and a key that is
there already is left as it is. SQLite keeps its rollback journal: write-ahead logging would let readers read meanwhile,
and does not work on network drives, where such files end up.
"""

from __future__ import annotations

import re
import sqlite3
import zlib
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.errors import InputError, KbevalError
from kbeval.history.entry import Entry, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION = 2
BUSY_SECONDS = 60
_META, _RUNS = "kbeval_history_version", "kbeval_history_runs"
_LOCK = 7264113090  # of PostgreSQL, for the time in which tables are made or migrated
_TEXTS = ("key", "recorded_at", "engine", "run", "commit_id", "corpus_hash", "queries_hash", "test_set_hash", "kbeval")
_NUMBERS = ("dirty", "k", "queries", "errored", "missing")
_JSON = ("configuration", "metrics", "latency_ms")
_COLUMNS = (*_TEXTS, *_NUMBERS, *_JSON, "per_query")
_NOT_NULL = {"key", "recorded_at", "engine", "run", "test_set_hash", "queries", *_JSON}


def is_dsn(store: str) -> bool:
    """Whether a store's name is a PostgreSQL connection string and not a path."""
    return bool(re.match(r"postgres(ql)?://", store) or re.search(r"\b(host|hostaddr|dbname|service)\s*=", store))


@contextmanager
def open_history(store: str | Path, *, create: bool = True) -> Iterator[History]:
    """Opens a store, makes it where there is none, and brings one of an earlier version up to date.

    Raises:
        KbevalError: it cannot be opened, or is of a newer version; without ``create`` also where there is none.
    """
    if isinstance(store, str) and is_dsn(store):
        with _open_postgres(store) as history:
            yield history
        return
    path = Path(store)
    if not create and not path.exists():
        raise KbevalError(
            f"{path}: expected recorded runs, found no store; `kbeval evaluate` and `kbeval history add` record them"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            history = _Sqlite(connection, str(path))
            history.prepare()
            yield history
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error) or "malformed" in str(error):
            raise InputError(path, expected="an SQLite store of recorded runs", found="another file") from None
        raise KbevalError(f"{path}: the store of recorded runs failed: {error}") from None
    except OSError as error:
        raise KbevalError(f"{path}: cannot be opened: {(error.strerror or str(error)).lower()}") from None


class History:
    """An open store."""

    mark = "?"
    blob = "BLOB"
    sequence = "INTEGER PRIMARY KEY AUTOINCREMENT"
    begin = "BEGIN IMMEDIATE"

    def __init__(self, connection: Any, shown: str) -> None:
        self._connection = connection
        self._shown = shown
        self._first_version = False

    def add(self, entries: Sequence[Entry]) -> int:
        """Records entries, all or none; to those whose key is there already, metrics are added that they lack.

        Returns:
            How many were new, or were added to.
        """
        columns, marks = ", ".join(_COLUMNS), ", ".join([self.mark] * len(_COLUMNS))
        statement = f"INSERT INTO {_RUNS} ({columns}) VALUES ({marks}) ON CONFLICT (key) DO NOTHING"  # noqa: S608
        with self._transaction():
            return sum(self._execute(statement, _row(entry)).rowcount or self._completed(entry) for entry in entries)

    def _completed(self, entry: Entry) -> int:
        """Adds what a recorded entry lacks, a metric that is gated since, say; 1 where there was something."""
        statement = f"SELECT {', '.join(_COLUMNS)} FROM {_RUNS} WHERE key = {self.mark}"  # noqa: S608
        known = self._entry(self._execute(statement, [entry.key]).fetchone())
        if known.values is None or entry.values is None or not set(entry.metrics) - set(known.metrics):
            return 0
        metrics = {**entry.metrics, **known.metrics}
        values = {**entry.values, **known.values}
        self._execute(
            f"UPDATE {_RUNS} SET metrics = {self.mark}, per_query = {self.mark} WHERE key = {self.mark}",  # noqa: S608
            [_dumped(metrics), pack(values), entry.key],
        )
        return 1

    def entries(self, *, engine: str | None = None) -> list[Entry]:
        """What was recorded, oldest first."""
        columns = ", ".join(_COLUMNS) if not self._first_version else ", ".join((*_COLUMNS[:-1], "NULL"))
        statement = f"SELECT {columns} FROM {_RUNS}"  # noqa: S608
        where, arguments = (f" WHERE engine = {self.mark}", [engine]) if engine is not None else ("", [])
        return [
            self._entry(row) for row in self._execute(f"{statement}{where} ORDER BY sequence", arguments).fetchall()
        ]

    def prepare(self) -> None:
        """Makes the tables, or brings them to this version.

        Raises:
            KbevalError: they are of a newer version.
        """
        if self._version() == VERSION:
            return
        with self._transaction(preparing=True):
            found = self._version()  # another process may have been quicker
            if found is None:
                self._create()
            elif found > VERSION:
                raise KbevalError(
                    f"{self._shown}: expected a store of recorded runs of version {VERSION} or older, found version "
                    f"{found}, which a newer kbeval wrote: upgrade kbeval, or name another store in [history]"
                )
            elif found == 1:
                # Version 1 kept no value per query, so that its runs could not serve as a baseline. They stay so.
                self._execute(f"ALTER TABLE {_RUNS} ADD COLUMN per_query {self.blob}")
                self._execute(f"UPDATE {_META} SET version = {VERSION}")  # noqa: S608
            elif found < 1:
                raise KbevalError(f"{self._shown}: expected a store of recorded runs, found version {found}")

    def _create(self) -> None:
        kinds = {**dict.fromkeys(_TEXTS, "TEXT"), **dict.fromkeys(_NUMBERS, "INTEGER"), **dict.fromkeys(_JSON, "TEXT")}
        kinds["per_query"] = self.blob
        columns = [f"{name} {kind}{' NOT NULL' if name in _NOT_NULL else ''}" for name, kind in kinds.items()]
        self._execute(f"CREATE TABLE {_RUNS} (sequence {self.sequence}, {', '.join(columns)}, UNIQUE (key))")
        self._execute(f"CREATE TABLE {_META} (version INTEGER NOT NULL)")
        self._execute(f"INSERT INTO {_META} VALUES ({VERSION})")  # noqa: S608

    def _version(self) -> int | None:
        if not self._has_table(_META):
            return None
        row = self._execute(f"SELECT max(version) FROM {_META}").fetchone()  # noqa: S608
        version = 0 if row is None or row[0] is None else row[0]
        if not isinstance(version, int):
            raise InputError(self._shown, expected="a store of recorded runs", found=f"version {version!r}")
        return version

    def _entry(self, row: Sequence[Any]) -> Entry:
        try:
            return _entry(row)
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
            of = dict(zip(_COLUMNS, row, strict=True))
            where = f"recorded {of['recorded_at']} of engine {of['engine']}"
            raise InputError(
                self._shown, expected="rows as kbeval wrote them", found=f"one ({where}) that was changed: {error}"
            ) from None

    def _has_table(self, name: str) -> bool:
        raise NotImplementedError

    def _execute(self, statement: str, arguments: Sequence[Any] = ()) -> Any:
        return self._connection.execute(statement, arguments)

    @contextmanager
    def _transaction(self, *, preparing: bool = False) -> Iterator[None]:  # noqa: ARG002
        self._execute(self.begin)
        try:
            yield
        except BaseException:
            self._execute("ROLLBACK")
            raise
        self._execute("COMMIT")


class _Sqlite(History):
    def prepare(self) -> None:
        try:
            super().prepare()
        except sqlite3.OperationalError as error:
            # One of the first version that may only be read can be: it lacks a column that is empty in such entries.
            if "readonly" not in str(error) or self._version() != 1:
                raise
            self._first_version = True

    def _has_table(self, name: str) -> bool:
        found = self._execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", [name])
        return found.fetchone() is not None


class _Postgres(History):
    mark = "%s"
    blob = "BYTEA"
    sequence = "BIGSERIAL PRIMARY KEY"
    begin = "BEGIN"

    def _has_table(self, name: str) -> bool:
        # Not by to_regclass: it answers from a cache, which having waited for an advisory lock does not renew, so that
        # tables that another process has just made would be missing. Reading the catalogue itself sees them.
        found = self._execute(
            "SELECT 1 FROM pg_catalog.pg_class WHERE relname = %s AND pg_catalog.pg_table_is_visible(oid)", [name]
        )
        return found.fetchone() is not None

    @contextmanager
    def _transaction(self, *, preparing: bool = False) -> Iterator[None]:
        with super()._transaction():
            if preparing:
                self._execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            yield


@contextmanager
def _open_postgres(dsn: str) -> Iterator[History]:
    import psycopg

    from kbeval.store.dsn import connect, parse_dsn, redact, with_patience, without_secrets

    parameters = parse_dsn(dsn)
    shown = f"the history at {without_secrets(parameters)}"
    try:
        with closing(connect(with_patience(parameters))) as connection:
            history = _Postgres(connection, shown)
            history.prepare()
            yield history
    except psycopg.Error as error:
        raise KbevalError(f"{shown}: {redact(str(error), parameters)}") from None


def _dumped(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _row(entry: Entry) -> list[Any]:
    texts = [entry.key, entry.when, entry.engine, entry.run, entry.commit, entry.corpus_hash, entry.queries_hash]
    dirty = None if entry.dirty is None else int(entry.dirty)
    numbers = [dirty, entry.k, entry.queries, entry.errored, entry.missing]
    documents = [_dumped(entry.configuration), _dumped(entry.metrics), _dumped(entry.latency_ms)]
    return [*texts, entry.test_set_hash, entry.kbeval, *numbers, *documents, pack(entry.values)]


def _entry(row: Sequence[Any]) -> Entry:
    of = dict(zip(_COLUMNS, row, strict=True))
    return Entry(
        key=of["key"],
        when=of["recorded_at"],
        engine=of["engine"],
        run=of["run"],
        commit=of["commit_id"],
        dirty=None if of["dirty"] is None else bool(of["dirty"]),
        k=of["k"],
        corpus_hash=of["corpus_hash"],
        queries_hash=of["queries_hash"],
        test_set_hash=of["test_set_hash"],
        queries=of["queries"],
        errored=of["errored"] or 0,
        missing=of["missing"] or 0,
        configuration=orjson.loads(of["configuration"]),
        metrics=_numbers(of["metrics"]),
        latency_ms=_numbers(of["latency_ms"]),
        kbeval=of["kbeval"] or "",
        values=unpack(None if of["per_query"] is None else bytes(of["per_query"])),
    )


def _numbers(text: str) -> dict[str, float]:
    """A mapping of names to numbers.

    Raises:
        ValueError, TypeError: it is something else.
    """
    return {name: float(value) for name, value in orjson.loads(text).items() if value is not None}
