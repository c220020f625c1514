"""Haystack's pgvector store, over a connection that hands vectors over as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore
from psycopg import Cursor
from psycopg.pq import Format

if TYPE_CHECKING:
    from psycopg import Connection


class _BinaryCursor(Cursor[Any]):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.format = Format.BINARY


class BinaryPgvectorDocumentStore(PgvectorDocumentStore):
    """``PgvectorDocumentStore`` that receives results in PostgreSQL's binary format.

    Every retrieved chunk comes with its vector. Reading a hundred of them as decimal text takes more than half of
    the time of a query; as the four bytes a number that they are stored in, next to none. The values are the same.

    Attributes:
        attached: whether the table is another process's, which made it and its indexes: nothing is made then.
    """

    attached = False

    def to_dict(self) -> dict[str, Any]:
        """As the plain store that it is to everybody else: a saved pipeline needs nothing of kbeval for it."""
        data: dict[str, Any] = super().to_dict()
        data["type"] = f"{PgvectorDocumentStore.__module__}.{PgvectorDocumentStore.__name__}"
        return data

    def _initialize_table(self) -> None:
        if not self.attached:
            super()._initialize_table()
        self._table_initialized = True

    def _create_connection(self) -> Connection[Any]:
        connection: Connection[Any] = super()._create_connection()
        connection.cursor_factory = _BinaryCursor
        return connection
