"""Loading chunks into pgvector, against ``PgvectorDocumentStore.write_documents``, side by side in one database.

Usage: python benchmarks/load_chunks.py [--chunks 100000] [--dimension 256] [--rounds 1]

The vectors are made beforehand, so that no embedder's time is in either figure. Haystack's store gets all chunks in
one call, as its ``DocumentWriter`` does; once as it comes, with its keyword index, and once without that index. Ours is
``build_chunk_table``, the path of engine A: cutting, sorting and naming the chunks is in its time and not in
theirs. The rows are counted at the end.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from haystack.utils import Secret
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

from kbeval.engines.components.chunks import build_chunk_table, haystack_chunks
from kbeval.engines.components.embedders import Embedder
from kbeval.model import Document
from kbeval.progress import Silent
from kbeval.store import DSN_VARIABLE, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from haystack import Document as HaystackDocument

    from kbeval.store import Store

WORDS = 100


class Prepared:
    """An embedder that knows every vector already."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = vectors.tolist()

    def run(self, documents: list[HaystackDocument] | None = None, text: str | None = None) -> dict[str, Any]:
        if text is not None or documents is None:
            return {"embedding": self._vectors[0]}
        return {"documents": [replace(each, embedding=self._vectors[int(each.id)]) for each in documents]}


def corpus(size: int) -> list[Document]:
    """Documents of one chunk each, of words that are as frequent as words are."""
    rng = random.Random(1)
    words = [f"w{number}" for number in range(20_000)]
    weights = [1 / (place + 1) for place in range(len(words))]
    pool = rng.choices(words, weights, k=size * 10)
    starts = (rng.randrange(len(pool) - WORDS) for _ in range(size))
    return [
        Document(f"doc-{n}", " ".join(pool[start : start + WORDS]), title=f"T {n}") for n, start in enumerate(starts)
    ]


def by_haystack(store: Store, name: str, chunks: list[HaystackDocument], dimension: int, *, index: bool) -> float:
    document_store = PgvectorDocumentStore(
        connection_string=Secret.from_env_var(DSN_VARIABLE),
        create_extension=False,
        schema_name=store.schema,
        table_name=name,
        embedding_dimension=dimension,
        keyword_index_name=f"{name}_keywords",
    )
    document_store.count_documents()  # makes the table
    with store.connect() as connection:
        if not index:
            connection.execute(f'DROP INDEX "{store.schema}"."{name}_keywords"')
    started = time.perf_counter()
    document_store.write_documents(chunks)
    seconds = time.perf_counter() - started
    assert document_store.count_documents() == len(chunks)
    document_store.delete_table()
    document_store.close()
    return seconds


def by_kbeval(store: Store, documents: list[Document], embedder: Embedder, address: str) -> float:
    started = time.perf_counter()
    table = build_chunk_table(
        documents,
        words=120,
        overlap=20,
        embedder=embedder,
        embedder_address=address,
        store=store,
        progress=Silent(),
    )
    seconds = time.perf_counter() - started
    assert table.document_store.count_documents() == len(documents)
    table.document_store.delete_table()
    table.document_store.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()

    documents = corpus(arguments.chunks)
    vectors = np.random.default_rng(1).standard_normal((arguments.chunks, arguments.dimension), dtype=np.float32)
    prepared = Prepared(vectors)
    embedder = Embedder("prepared", remote=False, query=prepared, chunks=prepared, timeout_s=1, retries=0)
    chunks = embedder.embed_chunks(list(haystack_chunks(documents, words=120, overlap=20)))
    assert len(chunks) == arguments.chunks
    print(f"{len(chunks)} chunks of {WORDS} words, {arguments.dimension} dimensions")
    with open_store() as store:
        for number in range(arguments.rounds):
            ways: dict[str, Callable[[], float]] = {
                "kbeval": lambda: by_kbeval(store, documents, embedder, f"round {number}"),  # noqa: B023
                "write_documents without its keyword index": lambda: by_haystack(
                    store, "bare", chunks, arguments.dimension, index=False
                ),
                "write_documents": lambda: by_haystack(store, "whole", chunks, arguments.dimension, index=True),
            }
            ours = 0.0
            for name, way in ways.items():
                seconds = way()
                ours = ours or seconds
                print(f"{name:42} {seconds:8.1f} s  {seconds / ours:6.1f} x", flush=True)


if __name__ == "__main__":
    main()
