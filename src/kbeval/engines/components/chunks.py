"""The chunk table: what the corpus is cut into, with vectors, where Haystack's pgvector store finds it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from haystack import Document as HaystackDocument
from haystack.document_stores.errors import DocumentStoreError
from haystack.utils import Secret
from pgvector.psycopg import register_vector
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from kbeval.corpus.chunking import chunk_document
from kbeval.engines.components.document_store import BinaryPgvectorDocumentStore
from kbeval.engines.components.services import ServiceError
from kbeval.errors import KbevalError
from kbeval.secrets import one_line
from kbeval.store import DSN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

    from kbeval.corpus.chunking import Chunker
    from kbeval.engines.components.embedders import Embedder
    from kbeval.model import Document
    from kbeval.progress import Progress
    from kbeval.store import Store

_BATCH = 256


@dataclass(frozen=True)
class ChunkTable:
    """The chunks of a corpus, in the database and at hand.

    Attributes:
        document_store: Haystack's view of the table.
        chunks: every chunk without its vector, in the order of their Haystack ids.
        document_of: Haystack id of a chunk -> id of its document. This, and never the look of an id, says
            what is a chunk of what.
        without_vector: how many chunks have no vector; None where no vectors were asked for.
    """

    document_store: PgvectorDocumentStore
    chunks: Sequence[HaystackDocument]
    document_of: dict[str, str]
    without_vector: int | None


def build_chunk_table(
    documents: Iterable[Document],
    *,
    words: int,
    overlap: int,
    chunker: Chunker = "words",
    heading_path: bool = True,
    embedder: Embedder | None,
    embedder_address: str,
    store: Store,
    progress: Progress,
) -> ChunkTable:
    """Cuts the documents, embeds the chunks and loads them, unless this store holds the same table already.

    Engines that differ only in how they search, as in a sweep, share a table and pay for its vectors once.

    Args:
        words, overlap, chunker, heading_path: how chunks are cut and what is put before them: ``haystack_chunks``.
        embedder: what makes the vectors, or None for a table without.
        embedder_address: what besides the embedder's name decides about the vectors.
        store: the open evaluation database.

    Raises:
        ServiceError: where a remote embedder fails. The table is then left empty.
        KbevalError: where the database fails.
    """
    cut = haystack_chunks(documents, words=words, overlap=overlap, chunker=chunker, heading_path=heading_path)
    return load_chunks(list(cut), embedder=embedder, embedder_address=embedder_address, store=store, progress=progress)


def load_chunks(
    chunks: Sequence[HaystackDocument],
    *,
    embedder: Embedder | None,
    embedder_address: str,
    store: Store,
    progress: Progress,
    elsewhere: Callable[[Iterable[list[HaystackDocument]]], Iterator[list[HaystackDocument]]] | None = None,
) -> ChunkTable:
    """Embeds chunks that are cut already and loads them; otherwise as :func:`build_chunk_table`.

    Args:
        chunks: what :func:`haystack_chunks` gives, in its order.
        elsewhere: gives batches of chunks back with their vectors, in their order; the embedder does it without it.
    """
    dimension = embedder.dimension() if embedder else 1
    table = "chunks_" + _fingerprint(embedder.name if embedder else "", embedder_address, dimension, chunks)
    document_store = BinaryPgvectorDocumentStore(
        connection_string=Secret.from_env_var(DSN_VARIABLE),
        create_extension=False,
        schema_name=store.schema,
        table_name=table,
        embedding_dimension=dimension,
        vector_function="cosine_similarity",
        search_strategy="exact_nearest_neighbor",
        keyword_index_name=f"{table}_keywords",
    )
    document_store.attached = store.attached
    label = "chunks embedded and loaded" if embedder else "chunks loaded"
    try:
        with store.connect() as connection:
            if document_store.count_documents() != len(chunks):
                if store.attached:
                    raise KbevalError(f"expected the chunk table {table} of the process that asks, found none")
                _prepare(connection, store.schema, table)
                with progress.task(label, len(chunks)) as advance:
                    batches: Iterator[list[HaystackDocument]] = (
                        list(chunks[start : start + _BATCH]) for start in range(0, len(chunks), _BATCH)
                    )
                    if embedder:
                        batches = elsewhere(batches) if elsewhere else map(embedder.embed_chunks, batches)
                    for batch in _loaded(connection, document_store, batches, embedder.name if embedder else ""):
                        advance(batch)
            without_vector = _without_vector(connection, store.schema, table) if embedder else None
    except BaseException as error:
        document_store.close()
        if isinstance(error, psycopg.Error | DocumentStoreError):
            raise KbevalError(f"cannot load the chunks: {one_line(error)}") from error
        raise
    return ChunkTable(
        document_store=document_store,
        chunks=chunks,
        document_of={chunk.id: chunk.meta["document_id"] for chunk in chunks},
        without_vector=without_vector,
    )


def haystack_chunks(
    documents: Iterable[Document], *, words: int, overlap: int, chunker: Chunker = "words", heading_path: bool = True
) -> Iterator[HaystackDocument]:
    """The chunks of the documents as Haystack documents, without vectors, in the order of their Haystack ids.

    A Haystack id is the zero-padded place of the chunk in METHOD's one order (id as bytes, highest first): it
    fits Haystack's column of 128 characters whatever the document's id is, and equal scores ordered by it are
    ordered as everywhere else. The ids themselves are in ``meta``: ``chunk_id`` and ``document_id``.

    The content is the document's title, a line break, and the chunk: on docs-qa, SciFact and Cranfield the
    title in every chunk helps both legs and their fusion.

    Args:
        documents: what is cut, by ``chunk_document``.
        words: the most words of a chunk.
        overlap: words that a chunk shares with the one before.
        chunker: ``words``, ``sentences`` or ``headings``.
        heading_path: whether the headings that a chunk stands under come between title and chunk, on one line;
            chunks cut at headings alone know theirs.
    """
    titled = [
        (chunk, document.title)
        for document in documents
        for chunk in chunk_document(document, words=words, overlap=overlap, chunker=chunker)
    ]
    titled.sort(key=lambda pair: pair[0].id.encode(), reverse=True)
    for place, (chunk, title) in enumerate(titled):
        path = " > ".join(heading for heading in chunk.headings if heading != title) if heading_path else ""
        above = f"{title}\n{path}" if path else title
        yield HaystackDocument(
            id=f"{place:010d}",
            content=f"{above}\n{chunk.text}".strip(),
            meta={"chunk_id": chunk.id, "document_id": chunk.document_id},
        )


def _fingerprint(embedder: str, address: str, dimension: int, chunks: Iterable[HaystackDocument]) -> str:
    digest = hashlib.sha256(repr((embedder, address, dimension)).encode())
    for chunk in chunks:
        digest.update(repr((chunk.meta["chunk_id"], chunk.content)).encode())
    return digest.hexdigest()[:16]


def _prepare(connection: psycopg.Connection[Any], schema: str, table: str) -> None:
    # The index serves PgvectorKeywordRetriever, which nothing here uses, and makes loading five times slower.
    connection.execute(SQL("DROP INDEX IF EXISTS {}").format(Identifier(schema, f"{table}_keywords")))
    # A scan by several workers returns equal distances in an order that changes.
    connection.execute(SQL("ALTER TABLE {} SET (parallel_workers = 0)").format(Identifier(schema, table)))


def _loaded(
    connection: psycopg.Connection[Any],
    document_store: PgvectorDocumentStore,
    batches: Iterable[list[HaystackDocument]],
    embedder: str,
) -> Iterator[int]:
    """Loads batch by batch, as they come, and yields the size of each: all of it is one COPY, so all or nothing.

    ``PgvectorDocumentStore.write_documents`` takes 17 s for the 12,084 chunks of SciFact, this 0.6 s.
    """
    register_vector(connection)
    statement = SQL("COPY {} (id, embedding, content, meta) FROM STDIN WITH (FORMAT BINARY)").format(
        Identifier(document_store.schema_name, document_store.table_name)
    )
    dimension = document_store.embedding_dimension
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(["varchar", "vector", "text", "jsonb"])
        for batch in batches:
            for chunk in batch:
                vector = None if chunk.embedding is None else np.asarray(chunk.embedding, dtype=np.float32)
                if embedder and vector is not None and len(vector) != dimension:
                    raise ServiceError(f"embedder {embedder}: answered with {len(vector)} dimensions after {dimension}")
                # Postgres has no NUL in a text.
                copy.write_row((chunk.id, vector, (chunk.content or "").replace("\0", ""), Jsonb(chunk.meta)))
            yield len(batch)


def _without_vector(connection: psycopg.Connection[Any], schema: str, table: str) -> int:
    counted = connection.execute(
        SQL("SELECT count(*) FROM {} WHERE embedding IS NULL").format(Identifier(schema, table))
    ).fetchone()
    return int(counted[0]) if counted else 0
