"""An open evaluation database, and how to get one."""

from __future__ import annotations

import atexit
import os
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.errors import KbevalError
from kbeval.store import dsn as dsns
from kbeval.store.embedded import EmbeddedServer, sweep_servers
from kbeval.store.server_schema import ServerSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg import Connection

    from kbeval.model import Document

DSN_VARIABLE = "KBEVAL_STORE_DSN"
"""The environment variable that holds the DSN of the open store, for Haystack's ``Secret.from_env_var``."""

_CREATE_DOCUMENTS = """
    CREATE TABLE kb_documents (
        id text COLLATE "C" PRIMARY KEY,
        title text NOT NULL,
        description text NOT NULL,
        filename text NOT NULL,
        domain text
    )
"""
_COPY_DOCUMENTS = "COPY kb_documents (id, title, description, filename, domain) FROM STDIN"
_CREATE_CORPUS = "CREATE TABLE kb_corpus (place bigint PRIMARY KEY, document bytea NOT NULL)"
_COPY_CORPUS = "COPY kb_corpus (place, document) FROM STDIN WITH (FORMAT BINARY)"
_READ_CORPUS = "SELECT document FROM kb_corpus ORDER BY place"
_VERSIONS = """
    SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'vector'
"""


@dataclass(frozen=True, slots=True)
class Store:
    """An open evaluation database.

    Attributes:
        dsn: how to connect, password included: never to be printed. Its search path is ``schema``, then the
            schema that pgvector is in.
        schema: the schema that everything of ours belongs in.
        attached: whether another process opened it, and will drop it: nothing is loaded into it from here.
    """

    dsn: str = field(repr=False)
    schema: str
    _facts: dict[str, Any]
    attached: bool = False

    def describe(self) -> dict[str, Any]:
        """What a sidecar records: ``kind`` ("embedded" or "dsn"), ``dsn`` without its password for the
        latter, and the versions ``postgres`` and ``pgvector``."""
        return dict(self._facts)

    def connect(self) -> Connection[Any]:
        """A new connection, in autocommit mode. The caller closes it."""
        import psycopg

        return psycopg.connect(self.dsn, autocommit=True)

    def attachment(self) -> Attachment:
        """What another process needs to use it; without the password."""
        return Attachment(dsns.without_secrets(dsns.parse_dsn(self.dsn)), self.schema, self._facts)

    def publish_corpus(self, documents: Iterable[Document]) -> None:
        """Puts the documents as a whole into the database, for other processes to read; once.

        Raises:
            KbevalError: the database fails.
        """
        import psycopg

        try:
            with self.connect() as connection, connection.transaction():
                connection.execute(_CREATE_CORPUS)
                with connection.cursor().copy(_COPY_CORPUS) as copy:
                    copy.set_types(["int8", "bytea"])
                    for place, document in enumerate(documents):
                        copy.write_row((place, orjson.dumps(asdict(document))))
        except psycopg.errors.DuplicateTable:
            return
        except psycopg.Error as error:
            raise KbevalError(f"cannot load the documents: {' '.join(str(error).split())}") from error

    def read_corpus(self) -> list[Document]:
        """The documents that :meth:`publish_corpus` put there.

        Raises:
            KbevalError: the database cannot be reached, or fails.
        """
        import psycopg

        from kbeval.model import Document

        try:
            with self.connect() as connection, connection.cursor() as cursor:
                cursor.execute(_READ_CORPUS)
                return [Document(**orjson.loads(document)) for (document,) in cursor]
        except psycopg.Error as error:
            raise KbevalError(f"cannot read the documents: {' '.join(str(error).split())}") from error

    def load_documents(self, documents: Iterable[Document]) -> int:
        """Adds a row to ``kb_documents`` for each document, or none at all if one of them cannot be stored.

        Returns:
            The number of rows added.

        Raises:
            KbevalError: a document holds a character that Postgres cannot store, two have the same id, or the
                database fails (a full disk).
        """
        import psycopg

        count = 0
        try:
            with self.connect() as connection, connection.cursor().copy(_COPY_DOCUMENTS) as copy:
                for document in documents:
                    copy.write_row(_row(document))
                    count += 1
        except psycopg.errors.UniqueViolation as error:
            raise KbevalError(f"two documents have the same id: {error.diag.message_detail}") from error
        except psycopg.Error as error:
            raise KbevalError(f"cannot load the documents: {' '.join(str(error).split())}") from error
        return count


def _row(document: Document) -> tuple[str | None, ...]:
    row = {
        "id": document.id,
        "title": document.title,
        "description": document.description,
        "filename": document.filename,
        "domain": document.domain,
    }
    for name, value in row.items():
        if value is not None and "\0" in value:
            raise KbevalError(
                f"document {document.id!r}: its {name} holds a NUL character, which Postgres cannot store"
            )
        try:
            (value or "").encode()
        except UnicodeEncodeError as error:
            raise KbevalError(
                f"document {document.id!r}: its {name} is no valid Unicode text: {error.reason}"
            ) from None
    return tuple(row.values())


@dataclass(frozen=True)
class Attachment:
    """Where an open evaluation database is, for another process. It holds no password."""

    dsn: str
    schema: str
    facts: dict[str, Any]


def attached_store(attachment: Attachment) -> Store:
    """The database that another process has opened, for the whole process that this runs in.

    A password comes from this process's own environment: from ``KBEVAL_DSN``, if it is there, or as libpq finds one.
    """
    parameters = dsns.parse_dsn(attachment.dsn)
    if own := os.environ.get("KBEVAL_DSN"):
        parameters = {**{key: value for key, value in dsns.parse_dsn(own).items() if key in dsns.SECRETS}, **parameters}
    dsn = dsns.to_string(parameters)
    os.environ[DSN_VARIABLE] = dsn
    return Store(dsn=dsn, schema=attachment.schema, _facts=attachment.facts, attached=True)


@contextmanager
def open_store(dsn: str | None = None) -> Iterator[Store]:
    """Opens an evaluation database with pgvector and an empty ``kb_documents``, and drops it at the end.

    While it is open the environment variable ``KBEVAL_STORE_DSN`` holds its DSN. The command line runs this
    under ``kbeval.signals.interruptible``, without which SIGTERM leaves everything to the next sweep.

    Args:
        dsn: a server to make a schema of our own on; None for an embedded one.

    Raises:
        KbevalError: there is none to be had; or, at the end, it cannot be removed.
    """
    backend: EmbeddedServer | ServerSchema
    facts: dict[str, Any]
    if dsn is None:
        backend = EmbeddedServer()
        facts = {"kind": "embedded"}
    else:
        backend = ServerSchema(dsn)
        facts = {"kind": "dsn", "dsn": dsns.without_secrets(backend.parameters)}
    sweep_servers()

    def close_late() -> None:
        # For a signal that comes between two blocks, here or in the caller. The next sweep is there for the
        # rest.
        with suppress(KbevalError):
            backend.close()

    atexit.register(close_late)
    try:
        with _without_libpq_variables() if dsn is None else nullcontext():
            parameters, schema = backend.open()
            facts |= _prepare(parameters)
            store = Store(dsn=dsns.to_string(parameters), schema=schema, _facts=facts)
            with _in_environment(store.dsn):
                yield store
    finally:
        backend.close()
        atexit.unregister(close_late)


def _prepare(parameters: dict[str, Any]) -> dict[str, str]:
    """Makes the tables that every store has, and tells the versions."""
    import psycopg

    try:
        with dsns.connect(parameters) as connection:
            connection.execute(_CREATE_DOCUMENTS)
            [(postgres, pgvector)] = connection.execute(_VERSIONS).fetchall()
    except psycopg.Error as error:
        message = dsns.redact(str(error), parameters)
        raise KbevalError(f"cannot prepare the evaluation database: {message}") from None
    return {"postgres": postgres.split()[0], "pgvector": pgvector}  # Debian adds its own after a blank


@contextmanager
def _without_libpq_variables() -> Iterator[None]:
    """Takes PGSERVICE, PGTZ and their like out of the environment: they are about the user's own servers."""
    taken = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PG")}
    try:
        yield
    finally:
        for name, value in taken.items():
            os.environ.setdefault(name, value)


@contextmanager
def _in_environment(dsn: str) -> Iterator[None]:
    before = os.environ.get(DSN_VARIABLE)
    os.environ[DSN_VARIABLE] = dsn
    try:
        yield
    finally:
        if os.environ.get(DSN_VARIABLE) == dsn:  # not another store's, opened since
            if before is None:
                del os.environ[DSN_VARIABLE]
            else:
                os.environ[DSN_VARIABLE] = before
