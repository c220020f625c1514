"""The rows that kbeval loads by COPY are those that Haystack's own store would have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from haystack.utils import Secret
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

from kbeval.engines.components.chunks import build_chunk_table, haystack_chunks
from kbeval.engines.components.embedders import make_embedder
from kbeval.model import Document
from kbeval.progress import Silent
from kbeval.store import DSN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from haystack import Document as HaystackDocument

    from kbeval.corpus.chunking import Chunker
    from kbeval.store import Store

CORPUS = [
    Document("refunds", "# Refunds\nA cashier may give money back.\n## By card\nIt takes two days.", title="Money"),
    Document("naïve #1", "Ein Satz: Straße, 日本語, 🎉. \\ \"quoted\" 'text'\twith a tab\nand a line", title="Ü"),
    Document("nul", "before\0after"),
    Document("blank", ""),
]


def rows(store: Store, table: str) -> list[tuple[Any, ...]]:
    with store.connect() as connection:
        found = connection.execute(
            "SELECT id, embedding::text, content, blob_data, blob_meta, blob_mime_type, meta "
            f'FROM "{store.schema}"."{table}" ORDER BY id COLLATE "C"'  # type: ignore[call-overload]
        )
        return list(found.fetchall())


def embedded(chunks: Sequence[HaystackDocument]) -> list[HaystackDocument]:
    embedder = make_embedder("wordllama", base_url=None, timeout_s=30, retries=0)
    return list(embedder.embed_chunks(list(chunks)))


@pytest.mark.parametrize("chunker", ["words", "headings"])
def test_row_by_row(store: Store, chunker: Chunker) -> None:
    cut: dict[str, Any] = {"words": 6, "overlap": 2, "chunker": chunker}
    loaded = build_chunk_table(
        CORPUS,
        **cut,
        embedder=make_embedder("wordllama", base_url=None, timeout_s=30, retries=0),
        embedder_address="",
        store=store,
        progress=Silent(),
    )
    written = PgvectorDocumentStore(
        connection_string=Secret.from_env_var(DSN_VARIABLE),
        create_extension=False,
        schema_name=store.schema,
        table_name=f"written_{chunker}",
        embedding_dimension=256,
        keyword_index_name=f"written_{chunker}_keywords",
    )
    try:
        chunks = embedded(list(haystack_chunks(CORPUS, **cut)))
        assert written.write_documents(chunks) == len(chunks)
        ours = rows(store, loaded.document_store.table_name)
        assert ours == rows(store, f"written_{chunker}")
        assert len(ours) == len(chunks) > len(CORPUS)
        without = [row[6]["document_id"] for row in ours if row[1] is None]
        assert (without, loaded.without_vector) == (["blank"], 1)
        vector = np.array(ours[0][1].strip("[]").split(","), dtype=np.float32)
        assert vector.tolist() == chunks[0].embedding
    finally:
        loaded.document_store.close()
        written.close()


def test_a_chunk_is_indexed_below_its_title_and_its_headings() -> None:
    def contents(**settings: Any) -> list[str | None]:
        document = Document("d", "# Money\n## Cards\none two three four five six", title="Money")
        made = haystack_chunks([document], words=6, overlap=0, chunker="headings", **settings)
        return [chunk.content for chunk in sorted(made, key=lambda chunk: chunk.meta["chunk_id"])]

    # A heading that says the title again is not put there twice.
    assert contents() == ["Money\n# Money\n## Cards\none two", "Money\nCards\nthree four five six"]
    assert contents(heading_path=False) == ["Money\n# Money\n## Cards\none two", "Money\nthree four five six"]
