"""Puts the components of engine A together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haystack import Pipeline
from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever

from kbeval.engines.components.full_text import FullTextRetriever
from kbeval.engines.components.fusion import Behind, Head, TieOrder, make_fusion
from kbeval.engines.components.lexical import BM25Retriever

if TYPE_CHECKING:
    from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

    from kbeval.engines.components.chunks import ChunkTable
    from kbeval.engines.components.embedders import Embedder
    from kbeval.engines.components.rerankers import Reranker
    from kbeval.engines.hybrid import HybridSettings


def build_pipeline(
    settings: HybridSettings,
    table: ChunkTable,
    embedder: Embedder | None,
    reranker: Reranker | None,
    vectors: PgvectorDocumentStore | None = None,
) -> Pipeline:
    """The pipeline of these settings, warmed up, with the lexical leg indexed.

    ``vectors`` is where the vector leg searches, if not in the chunk table itself.

    ::

        lexical -------------------------+
        fulltext ------------------------+
                                         +-> fusion -> head -> reranker -> reranked
        embedder -> vector -> vector_order +

    It runs by itself too: ``pipeline.run({"lexical": {"query": q}, "embedder": {"text": q}})``, and with
    ``"reranker": {"query": q}`` where there is one. ``pipeline.dumps()`` holds the names of environment
    variables and no secret; ``Pipeline.loads(text, allowed_modules=["kbeval"])`` works as long as the chunk
    table is there.
    """
    pipeline = Pipeline()
    ends: list[str] = []
    if "bm25" in settings.legs:
        lexical = BM25Retriever(document_store=table.document_store, top_k=settings.candidates)
        lexical.index(table.chunks)
        pipeline.add_component("lexical", lexical)
        ends.append("lexical")
    if "fulltext" in settings.legs:
        pipeline.add_component(
            "fulltext", FullTextRetriever(document_store=table.document_store, top_k=settings.candidates)
        )
        ends.append("fulltext")
    if embedder is not None:
        pipeline.add_component("embedder", embedder.query)
        pipeline.add_component(
            "vector",
            PgvectorEmbeddingRetriever(document_store=vectors or table.document_store, top_k=settings.candidates),
        )
        pipeline.add_component("vector_order", TieOrder())
        pipeline.connect("embedder.embedding", "vector.query_embedding")
        pipeline.connect("vector.documents", "vector_order.documents")
        ends.append("vector_order")
    end = ends[0]
    if len(ends) > 1:
        pipeline.add_component("fusion", make_fusion(settings.fusion_k, settings.fusion_top_k))
        for leg in ends:
            pipeline.connect(f"{leg}.documents", "fusion.documents")
        end = "fusion"
    if reranker is not None:
        pipeline.add_component("head", Head(size=settings.rerank_candidates))
        pipeline.add_component("reranker", reranker)
        pipeline.add_component("reranked", Behind())
        pipeline.connect(f"{end}.documents", "head.documents")
        pipeline.connect("head.head", "reranker.documents")
        pipeline.connect("reranker.documents", "reranked.head")
        pipeline.connect("head.rest", "reranked.rest")
    pipeline.warm_up()
    return pipeline
