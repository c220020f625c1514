"""A schema of our own on a server that somebody else runs, for as long as a store is open.

The owner of a schema holds a session-level advisory lock on a connection that it uses for nothing else. The
lock ends with the connection, and so with the owner: a schema whose lock is free is dead, and is dropped by
the next kbeval that works on that database. Schemas are called ``kbeval_`` and 16 hexadecimal digits, which
are, read as a signed 64-bit number, the key of the lock (``SELECT pg_try_advisory_lock(...)``); a comment on
the schema marks it as kbeval's, so that a foreign one of a similar name is never touched. The lock is taken
before the schema is made.

The connection must be to PostgreSQL itself: a pooler that shares one session between clients shares its locks
too.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kbeval.errors import KbevalError
from kbeval.signals import uninterrupted
from kbeval.store.dsn import connect, parse_dsn, redact, search_path_options, with_patience

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMA_PATTERN = "^kbeval_[0-9a-f]{16}$"
COMMENT = "kbeval: ephemeral, dropped by the next kbeval once its owner's advisory lock is free"

# A server that has vanished must not hold up a clean-up for a quarter of an hour.
_LOCK_CONNECTION = {"tcp_user_timeout": 30_000}

# The lock's connection is idle for as long as the work takes; what it waits for itself, it waits for briefly.
# Not every server knows every one of these settings.
_SESSION = """
    SELECT set_config(name, CASE name WHEN 'lock_timeout' THEN '10s' ELSE '0' END, false) FROM pg_settings
    WHERE name IN ('idle_session_timeout', 'statement_timeout', 'transaction_timeout', 'lock_timeout')
"""
_FIND_EXTENSION = """
    SELECT nspname, has_schema_privilege(pg_namespace.oid, 'USAGE')
    FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
"""
_FIND_SCHEMAS = """
    SELECT nspname FROM pg_namespace
    WHERE nspname ~ %s AND obj_description(oid, 'pg_namespace') = %s AND pg_has_role(nspowner, 'USAGE')
"""
_TERMINATE = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = %s AND datname = current_database() AND usename = current_user
    AND pid <> pg_backend_pid()
"""


class ServerSchema:
    """A schema that lives from ``open`` to ``close``.

    Args:
        dsn: connection string of the server.

    Raises:
        KbevalError: ``dsn`` is no connection string.
    """

    def __init__(self, dsn: str) -> None:
        self.parameters = parse_dsn(dsn)
        self._owner = os.getpid()
        self._connectable = with_patience({**self.parameters, "application_name": "kbeval"})
        self._lock: Connection[Any] | None = None
        self._schema: str | None = None

    def open(self) -> tuple[dict[str, Any], str]:
        """Sweeps the schemas of dead owners, and makes one.

        Returns:
            The connection parameters, and the name of the schema to work in.

        Raises:
            KbevalError: the server cannot be reached, has no pgvector, or does not let us make a schema.
        """
        import psycopg

        self._lock = connect({**_LOCK_CONNECTION, **self._connectable})
        try:
            self._lock.execute(_SESSION)
            extension_schema = self._find_extension(self._lock)
            _sweep(self._lock)
            with uninterrupted():
                schema = self._create(self._lock)
        except psycopg.Error as error:
            raise KbevalError(f"cannot work on the server: {redact(str(error), self.parameters)}") from None
        given = self.parameters.get("options") or os.environ.get("PGOPTIONS", "")
        return {
            **self._connectable,
            "application_name": schema,
            "client_encoding": "UTF8",
            "options": search_path_options([schema, extension_schema], given),
        }, schema

    def close(self) -> None:
        """Drops the schema, then gives up its lock. May be called at any time, and again.

        Raises:
            KbevalError: the schema cannot be dropped now; the next kbeval on this database will try.
        """
        import psycopg

        if self._lock is None or os.getpid() != self._owner:  # not in a forked child
            return
        with uninterrupted():
            try:
                if self._schema is not None:
                    self._drop_own(self._lock, self._schema)
            except (psycopg.Error, KbevalError) as error:
                raise KbevalError(
                    f"cannot drop the schema {self._schema}, which the next kbeval on this database will try "
                    f"again: {redact(str(error), self.parameters)}"
                ) from None
            finally:
                self._lock.close()
                self._lock = None

    def _drop_own(self, lock: Connection[Any], schema: str) -> None:
        import psycopg

        try:
            _drop(lock, schema)
        except psycopg.OperationalError:  # broken, or interrupted in the middle of a command
            lock.close()
            with connect(self._connectable) as connection:
                connection.execute(_SESSION)
                _drop(connection, schema)

    def _find_extension(self, connection: Connection[Any]) -> str:
        found = connection.execute(_FIND_EXTENSION).fetchone()
        database, user = connection.info.dbname, connection.info.user
        if found is None:
            raise KbevalError(
                f'the database "{database}" has no pgvector: run  CREATE EXTENSION vector;  in it '
                "(kbeval never creates an extension)"
            )
        schema, usable = found
        if not usable:
            raise KbevalError(
                f'the user "{user}" may not use pgvector in the database "{database}": run  '
                f'GRANT USAGE ON SCHEMA "{schema}" TO "{user}";'
            )
        return str(schema)

    def _create(self, connection: Connection[Any]) -> str:
        from psycopg import errors, sql

        schema = f"kbeval_{secrets.token_hex(8)}"
        connection.execute("SELECT pg_advisory_lock(%s)", [lock_key(schema)])
        name = sql.Identifier(schema)
        try:
            with connection.transaction():
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
                connection.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(name, COMMENT))
        except errors.InsufficientPrivilege:
            database, user = connection.info.dbname, connection.info.user
            raise KbevalError(
                f'the user "{user}" may not create a schema: run  GRANT CREATE ON DATABASE "{database}" TO "{user}";'
            ) from None
        self._schema = schema
        return schema


def lock_key(schema: str) -> int:
    """The key of a schema's advisory lock: its name's 16 hexadecimal digits as a signed 64-bit number."""
    return int.from_bytes(bytes.fromhex(schema.removeprefix("kbeval_")), "big", signed=True)


def _sweep(connection: Connection[Any]) -> None:
    import psycopg

    for (schema,) in connection.execute(_FIND_SCHEMAS, [SCHEMA_PATTERN, COMMENT]).fetchall():
        key = [lock_key(schema)]
        if connection.execute("SELECT pg_try_advisory_lock(%s)", key).fetchone() != (True,):
            continue
        # What cannot be dropped now is left to the next sweep.
        with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.InsufficientPrivilege):
            _drop(connection, schema)
        connection.execute("SELECT pg_advisory_unlock(%s)", key)


def _drop(connection: Connection[Any], schema: str) -> None:
    from psycopg import sql

    # A command that still runs for the schema's dead owner would keep its tables locked.
    connection.execute(_TERMINATE, [schema])
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
