"""Documents from the rows of a PostgreSQL database that kbeval only ever reads: somebody's knowledge base."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kbeval.config import CORPUS_DSN_VARIABLE
from kbeval.errors import KbevalError
from kbeval.model import Document
from kbeval.store import dsn as dsns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import Connection
    from psycopg.sql import Composed

    from kbeval.config import CorpusSettings

_ROWS = 500
"""How many rows are in memory at a time."""

_FIELDS = ("id", "title", "description", "filename", "domain", "text")
_REQUIRED = ("id", "text")

# For the transaction alone, which lasts as long as its reader takes: embedding what is read may take hours. Not every
# server knows every one of these settings.
_LIMITS = """
    SELECT set_config(name, CASE name WHEN 'statement_timeout' THEN %s ELSE '0' END, true) FROM pg_settings
    WHERE name IN ('statement_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')
"""


@dataclass(frozen=True)
class DevKbCorpusProvider:
    """The rows of a table or of a query, a document each.

    They are read in one read-only transaction, through a server-side cursor: a million rows take the memory of a few
    hundred, and what would write is refused by the server. ``columns`` maps ``id``, ``title``, ``text``,
    ``description``, ``filename``, ``domain``, or any other name, which becomes metadata, to a column. Without it each
    field is read from the column of its own name, where there is one; ``id`` and ``text`` always are. A table comes in
    the order of its ids, a query in its own: let it have an ORDER BY.
    """

    dsn: str
    table: str | None = None
    query: str | None = None
    columns: Mapping[str, str] | None = None
    timeout_s: float = 60.0

    @classmethod
    def from_settings(cls, settings: CorpusSettings) -> DevKbCorpusProvider:
        """The provider that ``[corpus]`` describes.

        Raises:
            KbevalError: there is no DSN, or not exactly one of table and query.
        """
        if (settings.table is None) == (settings.query is None):
            found = "neither" if settings.table is None else "both"
            raise KbevalError(f"[corpus] provider postgres: expected either table or query, found {found}")
        return cls(_dsn(settings), settings.table, settings.query, settings.columns, settings.timeout_s)

    def get_documents(self) -> Iterator[Document]:
        """Yields the documents.

        Raises:
            KbevalError: the database cannot be reached or refuses, a column is not there, or a row is no document;
                in one line, without the password.
        """
        import psycopg

        parameters = dsns.with_patience(
            {"application_name": "kbeval", **dsns.parse_dsn(self.dsn), "client_encoding": "UTF8"}
        )
        try:
            with _read_only(parameters, self.timeout_s) as connection:
                yield from self._documents(connection)
        except psycopg.Error as error:
            raise KbevalError(f"{self._name}: {_reason(error, parameters)}") from None

    @property
    def _name(self) -> str:
        return "[corpus] query" if self.table is None else f"[corpus] table {self.table}"

    def _documents(self, connection: Connection[Any]) -> Iterator[Document]:
        with connection.cursor(name="kbeval_corpus") as cursor:
            cursor.itersize = _ROWS
            # A cursor is declared by the extended protocol: one statement, that only reads, and no other behind it.
            cursor.execute(self._statement(connection))
            names = [column.name for column in cursor.description or ()]
            places = {field: names.index(column) for field, column in self._columns(names).items()}
            for number, row in enumerate(cursor, start=1):
                yield self._document(number, names, places, row)

    def _statement(self, connection: Connection[Any]) -> bytes | Composed:
        from psycopg.sql import SQL, Identifier

        if self.table is None:
            return (self.query or "").strip().rstrip(";").encode()
        table = Identifier(*self.table.split("."))
        there = connection.execute(SQL("SELECT * FROM {} LIMIT 0").format(table)).description or ()
        columns = self._columns([column.name for column in there])
        # Not all of them: a row may hold vectors and files besides.
        return SQL("SELECT {} FROM {} ORDER BY {}").format(
            SQL(", ").join(map(Identifier, dict.fromkeys(columns.values()))), table, Identifier(columns["id"])
        )

    def _columns(self, there: Sequence[str]) -> dict[str, str]:
        """For each field of a document its column, all of which are there once."""
        required = {field: field for field in _REQUIRED}
        columns = {**required, **(self.columns or {field: field for field in _FIELDS if field in there})}
        for field, column in columns.items():
            if there.count(column) != 1:
                found = f"{there.count(column)} of that name" if column in there else "none of that name"
                raise KbevalError(
                    f"{self._name}: expected a column {column!r} for {field}, found {found} in {', '.join(there)}"
                )
        return columns

    def _document(self, number: int, names: Sequence[str], places: Mapping[str, int], row: Sequence[Any]) -> Document:
        def text(field: str) -> str:
            place = places.get(field)
            value = None if place is None else row[place]
            if value is None or isinstance(value, str):
                return value or ""
            if place is not None and isinstance(value, dict | list | bytes | memoryview):
                found = type(value).__name__
                raise self._wrong(number, f"text in the column {names[place]!r} for {field}", found)
            return str(value)

        identifier = text("id")
        if not identifier.strip():
            found = "NULL" if row[places["id"]] is None else repr(identifier)
            raise self._wrong(number, f"an id in the column {names[places['id']]!r}", found)
        others = {field: row[place] for field, place in places.items() if field not in _FIELDS}
        return Document(
            id=identifier,
            text=text("text"),
            title=text("title"),
            description=text("description"),
            filename=text("filename"),
            domain=text("domain") or None,
            metadata={field: _json(value) for field, value in others.items() if value is not None},
        )

    def _wrong(self, number: int, expected: str, found: str) -> KbevalError:
        return KbevalError(f"{self._name}, row {number}: expected {expected}, found {found}")


def _dsn(settings: CorpusSettings) -> str:
    if settings.dsn:
        return settings.dsn
    variable = settings.dsn_env or CORPUS_DSN_VARIABLE
    given = os.environ.get(variable, "")
    if not given.strip():
        raise KbevalError(f"[corpus] provider postgres: expected a DSN in the variable {variable}, found none")
    return given


@contextmanager
def _read_only(parameters: Mapping[str, Any], timeout_s: float) -> Iterator[Connection[Any]]:
    """A connection within one read-only transaction, which is rolled back at the end."""
    connection = dsns.connect(parameters)
    try:
        connection.autocommit = False
        connection.read_only = True
        connection.execute(_LIMITS, [f"{max(round(timeout_s * 1000), 1)}ms"])
        yield connection
    finally:
        connection.close()


def _reason(error: Exception, parameters: Mapping[str, Any]) -> str:
    """What the server said, without the lines that draw an arrow under the statement."""
    import psycopg

    diagnosis = error.diag if isinstance(error, psycopg.Error) else None
    said = (diagnosis.message_primary if diagnosis else None) or str(error)
    hint = f" ({diagnosis.message_hint})" if diagnosis and diagnosis.message_hint else ""
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        hint = " (a corpus is read in a read-only transaction)"
    elif isinstance(error, psycopg.errors.SyntaxError):
        hint = " (a corpus is read by one statement that begins with SELECT, WITH, TABLE or VALUES)"
    elif isinstance(error, psycopg.errors.QueryCanceled):
        hint = " (timeout_s in [corpus] sets it)"
    return dsns.redact(f"cannot be read: {said}{hint}", parameters)


def _json(value: Any) -> Any:
    """A value of a row as JSON can hold it: what has no JSON of its own becomes text, dates in ISO's form."""
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
