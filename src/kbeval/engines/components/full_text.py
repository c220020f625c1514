"""Postgres full text as a leg of its own: any of a question's words, where Haystack's retriever wants all of them.

``PgvectorKeywordRetriever`` asks by ``plainto_tsquery``, which joins words with AND. Here the question is analysed as
the chunks are, and its lexemes are joined with OR, each quoted as the text form of a ``tsquery`` asks: nothing in a
question is an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DocumentStoreError
from haystack_integrations.document_stores.pgvector import (
    PgvectorDocumentStore,  # noqa: TC002 - Haystack resolves annotations at run time
)
from psycopg.sql import SQL, Identifier

from kbeval.errors import KbevalError
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from psycopg.sql import Composed

_CREATE = SQL("CREATE TABLE {words} AS SELECT id, to_tsvector('english', content) AS words FROM {chunks}")
_INDEX = SQL("CREATE INDEX ON {words} USING gin (words)")
_SEARCH = SQL(r"""
    WITH question AS MATERIALIZED (
        SELECT string_agg('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''', ' | ')::tsquery AS words
        FROM unnest(to_tsvector('english', %(query)s))
    ), found AS MATERIALIZED (
        SELECT f.id, ts_rank(f.words, question.words, 1) AS score
        FROM {words} f, question
        WHERE f.words @@ question.words
        ORDER BY score DESC, f.id COLLATE "C"
        LIMIT %(top_k)s
    )
    SELECT id, content, meta, score FROM found JOIN {chunks} USING (id) ORDER BY score DESC, id COLLATE "C"
""")


@component
class FullTextRetriever:
    """Finds the chunks that share a lexeme with a query, best first by ``ts_rank`` over 1 + log(length), equal
    scores by id.

    The chunks' lexemes are kept in a table beside theirs, for analysing them again at every query takes most of its
    time.
    """

    def __init__(self, document_store: PgvectorDocumentStore, top_k: int = 100) -> None:
        """Args:
        document_store: where the chunks are.
        top_k: how many chunks a query finds at most.
        """
        self.document_store = document_store
        self.top_k = top_k
        self._connection: psycopg.Connection[Any] | None = None

    def warm_up(self) -> None:
        """Makes the table of lexemes, unless it is there.

        Raises:
            KbevalError: where the database fails.
        """
        try:
            with self._connected().transaction() as transaction:
                connection = transaction.connection
                found = connection.execute("SELECT to_regclass(%s)", [self._names(connection)["words"]]).fetchone()
                if found and found[0] is None:
                    connection.execute(self._sql(_CREATE))
                    connection.execute(self._sql(_INDEX))
                    connection.execute(self._sql(SQL("ANALYZE {words}")))
        except psycopg.Error as error:
            raise KbevalError(f"cannot index the chunks' words: {one_line(error)}") from error

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Returns ``{"documents": [...]}``: the chunks with their scores, best first.

        Raises:
            DocumentStoreError: where the database does not answer.
        """
        values = {"query": query.replace("\0", " "), "top_k": self.top_k if top_k is None else top_k}
        try:
            rows = self._connected().execute(self._sql(_SEARCH), values).fetchall()
        except psycopg.Error as error:
            raise DocumentStoreError(f"Could not search the chunks' words: {one_line(error)}") from error
        return {
            "documents": [
                Document(id=chunk, content=content, meta=meta, score=float(score))
                for chunk, content, meta, score in rows
            ]
        }

    def close(self) -> None:
        """Closes the connection. A later call opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, document_store=self.document_store.to_dict(), top_k=self.top_k)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FullTextRetriever:
        return default_from_dict(cls, data)

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            dsn = self.document_store.connection_string.resolve_value() or ""
            self._connection = psycopg.connect(dsn, autocommit=True)
        return self._connection

    def _sql(self, statement: SQL) -> Composed:
        schema, table = self.document_store.schema_name, self.document_store.table_name
        return statement.format(chunks=Identifier(schema, table), words=Identifier(schema, f"{table}_words"))

    def _names(self, connection: psycopg.Connection[Any]) -> dict[str, str]:
        schema, table = self.document_store.schema_name, self.document_store.table_name
        return {"words": Identifier(schema, f"{table}_words").as_string(connection)}
