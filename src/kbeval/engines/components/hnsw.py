"""Approximate search by pgvector's HNSW index, and what it loses against the exact one.

The index is made on a copy of the chunk table: engines that search exactly, or with other parameters, are neither
slowed down nor led astray by it, and the planner has no choice between two indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from kbeval.engines.components.document_store import BinaryPgvectorDocumentStore
from kbeval.errors import KbevalError
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haystack import Document
    from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore
    from psycopg import Connection

    from kbeval.progress import Progress
    from kbeval.store import Store

MOST_DIMENSIONS = 2000
"""As pgvector's ``vector`` can be indexed: https://github.com/pgvector/pgvector#hnsw."""

MOST_QUESTIONS = 1000
"""How many questions are kept to be asked again exactly."""

_OLDEST = (0, 8)  # has iterative scans
_SETTINGS = (
    # Without it a search ends after ef_search chunks, and a leg that was asked for 100 gives 40.
    "SET hnsw.iterative_scan = strict_order",
    "SET hnsw.max_scan_tuples = 2147483647",
    # What is asked for is HNSW: on a small table the planner would rather sort it all.
    "SET enable_seqscan = off",
    "SET enable_sort = off",
)

_EXACT = SQL("""
    SELECT 1 - (embedding <=> %(vector)s::vector) FROM {table} WHERE embedding IS NOT NULL
    ORDER BY embedding <=> %(vector)s::vector LIMIT %(count)s
""")


class HnswDocumentStore(BinaryPgvectorDocumentStore):
    """A chunk table that is there already, searched through its HNSW index."""

    def _initialize_table(self) -> None:
        # Haystack would make indexes that are missing, and one for keywords always is.
        self._table_initialized = True

    def _create_connection(self) -> Connection[Any]:
        # On every connection: Haystack sets ef_search on the first alone.
        connection = super()._create_connection()
        connection.autocommit = True
        connection.execute(SQL("SET hnsw.ef_search = {}").format(Literal(self.hnsw_ef_search)))
        for statement in _SETTINGS:
            connection.execute(statement)
        return connection


def hnsw_store(
    exact: PgvectorDocumentStore, store: Store, *, m: int, ef_construction: int, ef_search: int, progress: Progress
) -> HnswDocumentStore:
    """The chunks of ``exact`` behind an HNSW index, which is made unless this store holds it already.

    Args:
        exact: the loaded chunk table.
        store: the open evaluation database.
        m: links of a node; ``ef_construction`` and ``ef_search``: how many candidates are kept while the index is
            made and while it is searched.

    Raises:
        KbevalError: pgvector is too old or the vectors are too long; or the database fails.
    """
    version = str(store.describe()["pgvector"])
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise KbevalError(f'search = "hnsw" needs pgvector 0.8 or later, found {version}')
    if exact.embedding_dimension > MOST_DIMENSIONS:
        raise KbevalError(
            f'search = "hnsw": expected vectors of at most {MOST_DIMENSIONS} dimensions, which is what pgvector can '
            f"index, found {exact.embedding_dimension}"
        )
    table = f"{exact.table_name}_hnsw_{m}_{ef_construction}"
    names = {
        "exact": Identifier(exact.schema_name, exact.table_name),
        "copy": Identifier(exact.schema_name, table),
        "index": Identifier(f"{table}_index"),
        "m": Literal(m),
        "ef": Literal(ef_construction),
    }
    try:
        with store.connect() as connection:
            found = connection.execute("SELECT to_regclass(%s)", [names["copy"].as_string(connection)]).fetchone()
            if found and found[0] is None:
                with progress.task("building the HNSW index"), connection.transaction():
                    # One worker: several share their memory by /dev/shm, which is small in containers.
                    connection.execute("SET LOCAL max_parallel_maintenance_workers = 0")
                    connection.execute("SET LOCAL maintenance_work_mem = '512MB'")
                    for statement in (
                        "CREATE TABLE {copy} (LIKE {exact} INCLUDING DEFAULTS)",
                        "INSERT INTO {copy} SELECT * FROM {exact} WHERE embedding IS NOT NULL",
                        "CREATE INDEX {index} ON {copy} USING hnsw (embedding vector_cosine_ops)"
                        " WITH (m = {m}, ef_construction = {ef})",
                        "ANALYZE {copy}",
                    ):
                        connection.execute(SQL(statement).format(**names))
    except psycopg.Error as error:
        raise KbevalError(f"cannot build the HNSW index: {one_line(error)}") from error
    return HnswDocumentStore(
        connection_string=exact.connection_string,
        create_extension=False,
        schema_name=exact.schema_name,
        table_name=table,
        embedding_dimension=exact.embedding_dimension,
        vector_function="cosine_similarity",
        search_strategy="hnsw",
        hnsw_index_name=f"{table}_index",
        hnsw_index_creation_kwargs={"m": m, "ef_construction": ef_construction},
        hnsw_ef_search=ef_search,
    )


class NeighbourRecall:
    """How many of the exact nearest chunks HNSW has found, over the questions that were asked.

    The questions' vectors are kept, and searched for exactly only when somebody wants to know: nothing of this is in
    the time of a question. A chunk counts as found where it is as near as the farthest of the exact ones, so that
    equal distances make no difference.
    """

    def __init__(self, exact: PgvectorDocumentStore, nearest: int, progress: Progress) -> None:
        """Args:
        exact: the same chunks without an index.
        nearest: how many of the nearest chunks are compared.
        """
        self._exact = exact
        self._nearest = nearest
        self._progress = progress
        self._waiting: dict[str, tuple[list[float], list[float]]] = {}
        self._measured: dict[str, tuple[int, int]] = {}

    def observe(self, query: str, embedding: list[float], found: Sequence[Document]) -> None:
        """Keeps what HNSW found for a question, asked for ``nearest`` chunks; the first time that it is asked."""
        known = query in self._measured or query in self._waiting
        if not known and len(self._measured) + len(self._waiting) < MOST_QUESTIONS:
            self._waiting[query] = (embedding, [chunk.score for chunk in found if chunk.score is not None])

    def totals(self) -> tuple[int, int, int]:
        """Of the exact nearest chunks: how many were found, how many there are, and over how many questions.

        Raises:
            psycopg.Error: where the database does not answer.
        """
        if self._waiting:
            dsn = self._exact.connection_string.resolve_value() or ""
            with (
                self._progress.task("comparing HNSW with exact search", len(self._waiting)) as advance,
                psycopg.connect(dsn, autocommit=True) as connection,
            ):
                for query, (embedding, scores) in list(self._waiting.items()):
                    self._measured[query] = self._compare(connection, embedding, scores)
                    del self._waiting[query]
                    advance(1)
        measured = self._measured.values()
        return sum(found for found, _ in measured), sum(there for _, there in measured), len(measured)

    def _compare(self, connection: Connection[Any], embedding: list[float], scores: list[float]) -> tuple[int, int]:
        table = Identifier(self._exact.schema_name, self._exact.table_name)
        # The distances alone, spelled as Haystack's query spells them: the chunks would cost more than the search.
        values = {"vector": f"[{','.join(map(str, embedding))}]", "count": self._nearest}
        rows = connection.execute(_EXACT.format(table=table), values).fetchall()
        nearest = [float(score) for (score,) in rows]
        if not nearest:
            return 0, 0
        return min(sum(score >= min(nearest) for score in scores), len(nearest)), len(nearest)

    def counts(self) -> dict[str, int]:
        """The totals as a sidecar keeps them; nothing where they cannot be had."""
        try:
            found, there, _ = self.totals()
        except psycopg.Error:
            return {}
        return {"exact_nearest_chunks": there, "exact_nearest_chunks_found": found}

    def sentence(self) -> str:
        """What a report says about it."""
        try:
            found, there, questions = self.totals()
        except psycopg.Error as error:
            return f"What its HNSW search loses against exact search could not be measured: {one_line(error, 200)}"
        if not there:
            return "What its HNSW search loses against exact search is not known: no question has a vector."
        return (  # rounded down: 100.0% is all of them
            f"HNSW finds {1000 * found // there / 10:.1f}% of the exact {self._nearest} nearest chunks "
            f"({questions} questions). Its index is not the same twice, and neither is its answer."
        )
