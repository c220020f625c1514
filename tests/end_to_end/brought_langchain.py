"""A LangChain retriever over the chunks: its own in-memory vector store, with the shared vectors."""

from __future__ import annotations

from brought import chunks, embed
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore


class Embedding(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [embed(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return embed(text)


store = InMemoryVectorStore(Embedding())
store.add_documents([Document(id=chunk, page_content=text, metadata={"doc_id": doc}) for chunk, doc, text in chunks()])
retriever = store.as_retriever(search_kwargs={"k": 20})
narrow = store.as_retriever(search_kwargs={"k": 3})
