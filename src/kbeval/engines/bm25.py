"""The plain reference that every hybrid has to beat: BM25 over title and text, whole documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kbeval.engines.base import Answer, BuildContext, Engine, EngineSettings
from kbeval.engines.bm25_index import K1, METHOD, B, Bm25Index
from kbeval.engines.ranking import best_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.model import Document


class Bm25Settings(EngineSettings):
    """The reference has nothing to set, so that it stays one."""


class Bm25Engine(Engine):
    """BM25 (Robertson and Zaragoza 2009, Lucene's form) over each document's title and text."""

    type: ClassVar[str] = "bm25"
    thread_safe = True

    def __init__(self, documents: Sequence[Document]) -> None:
        ordered = sorted(documents, key=lambda document: document.id, reverse=True)
        self._ids = [document.id for document in ordered]
        self._index = Bm25Index(f"{document.title}\n{document.text}" for document in ordered)

    @classmethod
    def build(cls, settings: Bm25Settings, context: BuildContext) -> Bm25Engine:  # noqa: ARG003
        """Indexes the corpus in memory."""
        with context.progress.task("indexing documents", total=len(context.documents)) as advance:
            engine = cls(context.documents)
            advance(len(context.documents))
        return engine

    def retrieve(self, query: str, k: int) -> Answer:
        scores = self._index.scores(query)
        return Answer(hits=[(self._ids[i], float(scores[i])) for i in best_first(scores, k)])

    def configuration(self) -> dict[str, Any]:
        return {"method": METHOD, "k1": K1, "b": B, "stemmer": "english", "stop_words": "lucene"}

    def counts(self) -> dict[str, int]:
        return {"documents": len(self._ids)}
