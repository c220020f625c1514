"""A LlamaIndex retriever over the chunks: its own vector index, with the shared vectors."""

from __future__ import annotations

from typing import Any

from brought import chunks, embed
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode


class Embedding(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return embed(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return embed(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return embed(query)


def _nodes() -> list[Any]:
    return [
        TextNode(
            id_=chunk,
            text=text,
            metadata={"doc_id": document},
            excluded_embed_metadata_keys=["doc_id"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)},
        )
        for chunk, document, text in chunks()
    ]


index = VectorStoreIndex(_nodes(), embed_model=Embedding())
retriever = index.as_retriever(similarity_top_k=20)
narrow = index.as_retriever(similarity_top_k=3)
