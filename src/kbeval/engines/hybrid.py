"""Engine A: BM25, full text and vectors over chunks in pgvector, reciprocal rank fusion, a reranker; all by Haystack.

The engine is a ``haystack.Pipeline`` built from :class:`HybridSettings`. kbeval calls its components
itself, one after the other: ``Pipeline.run`` copies every chunk with its vector at every connection, cannot
tell what each stage took, and would ask a paid reranker again each time the candidates are doubled. A test
holds that both give the same answer; ``benchmarks/engine_overhead.py`` says what it saves.
"""

from __future__ import annotations

import os
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from kbeval.config import LONGEST_S
from kbeval.corpus.chunking import DEFAULT_OVERLAP, DEFAULT_WORDS, Chunker
from kbeval.engines.base import Answer, Engine, EngineSettings, Estimate, Usage
from kbeval.engines.components.answering import STAGE, Parts, answered, timed_stage
from kbeval.engines.metering import heard, metering, used
from kbeval.errors import KbevalError
from kbeval.workers import WorkerLostError, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from haystack import Document as Chunk
    from haystack import Pipeline

    from kbeval.engines.base import BuildContext
    from kbeval.engines.components.chunks import ChunkTable
    from kbeval.engines.components.embedders import Embedder
    from kbeval.engines.components.hnsw import NeighbourRecall
    from kbeval.engines.components.rerankers import Reranker
    from kbeval.model import Document, LabelledQuery
    from kbeval.workers import Workers

Leg = Literal["bm25", "fulltext", "vector"]

_RERANKER_ADDRESS = {"cohere": "KBEVAL_COHERE_BASE_URL", "llm": "KBEVAL_LLM_BASE_URL"}


class HybridSettings(EngineSettings):
    """The settings of engine A.

    Attributes:
        legs: which searches are fused: ``bm25``, ``fulltext`` (Postgres' own, any of the words), ``vector``; one of
            them alone is searched alone. A string is split at commas or plus signs.
        embedder: ``wordllama``, ``openai:MODEL`` for any OpenAI-compatible server, or ``sentence-transformers:MODEL``,
            where MODEL is a name on the Hugging Face hub or a folder.
        embedder_base_url: where that server is; ``KBEVAL_EMBED_BASE_URL`` overrides it.
        query_prefix, document_prefix: what goes before each text that is embedded; what the model is known to want, or
            says that it wants, where they are not set.
        search: ``exact``, or ``hnsw`` for pgvector's approximate index.
        m, ef_construction, ef_search: HNSW's links of a node, and how many candidates it keeps while the index is
            made and while it is searched.
        candidates: chunks that each leg fetches, doubled until k documents are found or there are no more.
        fusion_k: the constant of reciprocal rank fusion.
        fusion_top_k: chunks that are kept after fusion: a cut on purpose; fewer than k documents may be left.
        reranker: ``none``, ``cohere:MODEL`` (``cohere/MODEL`` is understood as well), ``cross-encoder:MODEL`` for one
            that sentence-transformers runs, or ``llm:MODEL`` for any OpenAI-compatible server.
        reranker_base_url: where the reranker's API is; ``KBEVAL_COHERE_BASE_URL`` or ``KBEVAL_LLM_BASE_URL`` override
            it.
        rerank_candidates: chunks that go to the reranker; the others follow behind in their order.
        top_n: documents that are returned at most, however many are asked for: another cut on purpose.
        score_threshold: documents with a lower score are not returned, so that nothing is where none reaches it. A
            reranker's score, or that of a leg alone, may bear it; fused scores and an ``llm:`` reranker's say no more
            than a rank.
        timeout_s: seconds without a sign of a server after which a request to it is given up.
        retries: how often a request is repeated that may be: ``retries = 2`` means three requests at most.
        device: what models on this machine run on (``cpu``, ``cuda``, ``mps``); the best there is where it is not set.
        batch_size: texts that go through such a model at once.
        trust_remote_code: whether code that comes with such a model may run.
        chunker: how documents are cut: into ``words``, ``sentences`` or ``headings``.
        heading_path: whether a chunk cut at headings is indexed with the headings that it stands under.
        chunk_words: length of a chunk in words, which no chunker goes beyond.
        chunk_overlap: words that a chunk shares with the one before.
    """

    legs: tuple[Leg, ...] = ("bm25", "vector")
    embedder: str = "wordllama"
    embedder_base_url: str | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    search: Literal["exact", "hnsw"] = "exact"
    m: int = Field(default=16, ge=2, le=100)  # pgvector's own limits and defaults
    ef_construction: int = Field(default=64, ge=4, le=1000)
    ef_search: int = Field(default=40, ge=1, le=1000)
    candidates: int = Field(default=100, ge=1)
    fusion_k: int = Field(default=60, ge=1)
    fusion_top_k: int | None = Field(default=None, ge=1)
    reranker: str = "none"
    reranker_base_url: str | None = None
    rerank_candidates: int = Field(default=20, ge=1, le=1000)  # Cohere takes no more in one request
    top_n: int | None = Field(default=None, ge=1)
    score_threshold: float | None = Field(default=None, allow_inf_nan=False)
    timeout_s: float = Field(default=30.0, gt=0, le=LONGEST_S)
    retries: int = Field(default=2, ge=0)
    device: str | None = None
    batch_size: int = Field(default=32, ge=1)
    trust_remote_code: bool = False
    chunker: Chunker = "words"
    heading_path: bool = True
    chunk_words: int = Field(default=DEFAULT_WORDS, ge=1)
    chunk_overlap: int = Field(default=DEFAULT_OVERLAP, ge=0)

    @field_validator("fusion_top_k", "top_n", "score_threshold", mode="before")
    @classmethod
    def _none(cls, value: object) -> object:
        return None if value == "none" else value  # neither TOML nor a command line can say it otherwise

    @field_validator("legs", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.replace("+", ",").split(",")] if isinstance(value, str) else value

    @field_validator("legs")
    @classmethod
    def _each_once(cls, value: tuple[Leg, ...]) -> tuple[Leg, ...]:
        if not value or len(set(value)) != len(value):
            raise ValueError('expected some of "bm25", "fulltext" and "vector", each once')
        return tuple(sorted(value))  # chunks of equal fused score keep the order of the legs: let it be one

    @field_validator("reranker")
    @classmethod
    def _colon(cls, value: str) -> str:
        return value.replace("cohere/", "cohere:", 1) if value.startswith("cohere/") else value

    @model_validator(mode="after")
    def _fit(self) -> HybridSettings:
        if self.chunk_overlap >= self.chunk_words:
            raise ValueError(
                f"chunk_overlap must be below chunk_words, found {self.chunk_overlap} and {self.chunk_words}"
            )
        if self.ef_construction < 2 * self.m:
            raise ValueError(f"ef_construction must be at least 2 m, found {self.ef_construction} and {self.m}")
        if self.search == "hnsw" and "vector" not in self.legs:
            raise ValueError('search = "hnsw" needs the leg "vector"')
        if self.fusion_top_k is not None and len(self.legs) == 1:
            raise ValueError("fusion_top_k needs two legs: one alone is not fused")
        return self


class HybridEngine(Engine):
    """Engine A, ready to answer. Made by :meth:`build`."""

    type = "hybrid"
    thread_safe = True  # servers are asked side by side; the searches share a connection, and take turns

    def __init__(
        self,
        settings: HybridSettings,
        pipeline: Pipeline,
        table: ChunkTable,
        embedder: Embedder | None,
        reranker: Reranker | None = None,
        recall: NeighbourRecall | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._settings = settings
        self._table = table
        self._embedder = embedder
        self._reranker = reranker
        self._recall = recall
        self.deterministic = (
            (embedder is None or embedder.deterministic)
            and (reranker is None or (not reranker.remote and getattr(reranker, "runs_on", "cpu") == "cpu"))
            and recall is None
        )
        self._searching = threading.Lock()
        self._parts = Parts(
            fusion=self._component("fusion") if len(settings.legs) > 1 else None,
            head=self._component("head") if reranker else None,
            behind=self._component("reranked") if reranker else None,
        )

    @classmethod
    def estimate(
        cls, settings: HybridSettings, documents: Sequence[Document], queries: Sequence[LabelledQuery]
    ) -> Estimate | None:
        """Tokens of a remote embedder, and units of a reranker; None where neither is used."""
        from kbeval.engines.components.estimates import estimate

        return estimate(settings, documents, queries)

    @classmethod
    def build(cls, settings: HybridSettings, context: BuildContext) -> HybridEngine:
        """Cuts, embeds and loads the corpus, and builds the pipeline over it.

        Raises:
            KbevalError: before any work, for an embedder or reranker that is not known, an address that is
                none, or a key that is not in the environment; later, where a remote embedder does not
                answer.
        """
        settings = with_environment(settings)
        reranker = make_reranker_of(settings, context.root)
        return cls.over(settings, context, make_embedder_of(settings, context.root), reranker)

    @classmethod
    def over(
        cls,
        settings: HybridSettings,
        context: BuildContext,
        embedder: Embedder | None,
        reranker: Reranker | None,
        chunks: Sequence[Chunk] | None = None,
    ) -> HybridEngine:
        """The engine with an embedder and a reranker that are at hand, and the chunks where they are cut already.

        Args:
            settings: those of :func:`with_environment`.

        Raises:
            KbevalError: where a remote embedder does not answer, or the database fails.
        """
        from kbeval.engines.components.chunks import haystack_chunks, load_chunks
        from kbeval.engines.components.pipeline import build_pipeline
        from kbeval.engines.components.services import ServiceError

        try:
            table = load_chunks(
                list(haystack_chunks(context.documents, **cutting(settings))) if chunks is None else chunks,
                embedder=embedder,
                embedder_address=embedder_address(settings, embedder) if embedder else "",
                store=context.store(),
                progress=context.progress,
                elsewhere=_by(context.workers, settings, context.root) if context.workers else None,
            )
        except (ServiceError, WorkerLostError) as error:
            raise KbevalError(str(error)) from error
        vectors, recall = None, None
        if settings.search == "hnsw":
            from kbeval.engines.components.hnsw import NeighbourRecall, hnsw_store

            vectors = hnsw_store(
                table.document_store,
                context.store(),
                m=settings.m,
                ef_construction=settings.ef_construction,
                ef_search=settings.ef_search,
                progress=context.progress,
            )
            recall = NeighbourRecall(table.document_store, settings.candidates, context.progress)
        pipeline = build_pipeline(settings, table, embedder, reranker, vectors)
        return cls(settings, pipeline, table, embedder, reranker, recall)

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        """Sentences that every report must carry. What HNSW has lost so far is measured when they are read."""
        notes = [] if self._reranker else ['It ran without a reranker (reranker = "none").']
        if self._settings.trust_remote_code:
            notes.append("Code that came with its models was allowed to run (trust_remote_code = true).")
        if self._recall:
            notes.append(self._recall.sentence())
        return tuple(notes)

    def retrieve(self, query: str, k: int) -> Answer:
        """Ranks documents by their best chunk.

        Raises:
            ServiceError: where a remote embedder or reranker gives no usable answer.
            DocumentStoreError: where the database does not answer.
        """
        with metering() as meter:
            ranked = answered(self._settings, self, self._parts, self._table.document_of, query, k)
        return Answer(
            hits=ranked.hits,
            stages=ranked.stages,
            seconds=ranked.seconds,
            retries=meter.retries,
            waited=meter.waited,
            usage=meter.usage,
        )

    def embed(self, query: str, seconds: dict[str, float]) -> list[float] | None:
        """The vector of a question, as :class:`~kbeval.engines.components.answering.Stages` asks for it."""
        if self._embedder is None:
            return None
        with timed_stage(seconds, "embed", heard()):
            return self._embedder.embed_query(query)

    def search(
        self, leg: Leg, query: str, embedding: list[float] | None, count: int, seconds: dict[str, float]
    ) -> list[Chunk]:
        """The first ``count`` chunks of a leg; the searches share a connection, and take turns."""
        with self._searching, timed_stage(seconds, STAGE[leg]):
            if leg != "vector":
                return _documents_of(self._component(STAGE[leg]).run(query=query, top_k=count))
            if embedding is None:
                return []
            found = self._component("vector").run(query_embedding=embedding, top_k=count)
            if self._recall and count == self._settings.candidates:
                self._recall.observe(query, embedding, found["documents"])
            return _documents_of(self._component("vector_order").run(documents=found["documents"]))

    def rerank(self, query: str, chunks: list[Chunk], seconds: dict[str, float]) -> list[Chunk]:
        """The chunks in the reranker's order."""
        with timed_stage(seconds, "rerank", heard()):
            return _documents_of(self._component("reranker").run(query=query, documents=chunks))

    def configuration(self) -> dict[str, Any]:
        """The settings, with the prefixes that are in force and what else is known of a model on this machine."""
        found: dict[str, Any] = self._settings.model_dump(mode="json")
        if self._embedder:
            found |= {"query_prefix": self._embedder.query_prefix, "document_prefix": self._embedder.document_prefix}
            found |= {f"embedder_{name}": value for name, value in self._embedder.facts.items()}
        return found

    def counts(self) -> dict[str, int]:
        """Documents, chunks, and chunks without a vector where there is a vector leg."""
        counts = {"documents": len(set(self._table.document_of.values())), "chunks": len(self._table.chunks)}
        if self._table.without_vector is not None:
            counts["chunks_without_vector"] = self._table.without_vector
        if self._recall:
            counts |= self._recall.counts()
        return counts

    def close(self) -> None:
        self._table.document_store.close()
        if self._embedder is not None:
            self._embedder.close()
        if self._reranker is not None:
            self._reranker.close()
        if "fulltext" in self._settings.legs:
            self._component("fulltext").close()
        if self._recall is not None:
            self._component("vector").document_store.close()

    def _component(self, name: str) -> Any:
        return self.pipeline.get_component(name)


def _documents_of(output: dict[str, list[Chunk]]) -> list[Chunk]:
    return output["documents"]


def with_environment(settings: HybridSettings) -> HybridSettings:
    """The settings with the addresses that the environment overrides, of those servers that are used."""
    overrides = {}
    if settings.embedder.startswith("openai:"):
        overrides["embedder_base_url"] = os.environ.get("KBEVAL_EMBED_BASE_URL")
    variable = _RERANKER_ADDRESS.get(settings.reranker.partition(":")[0])
    if variable:
        overrides["reranker_base_url"] = os.environ.get(variable)
    return settings.model_copy(update={key: value for key, value in overrides.items() if value})


def make_embedder_of(settings: HybridSettings, root: Path) -> Embedder | None:
    """The embedder of the settings, None without a vector leg.

    Raises:
        KbevalError: it is not known, lacks its key, or cannot be loaded.
    """
    from kbeval.engines.components.embedders import make_embedder

    if "vector" not in settings.legs:
        return None
    return make_embedder(
        settings.embedder,
        base_url=settings.embedder_base_url,
        query_prefix=settings.query_prefix,
        document_prefix=settings.document_prefix,
        **_service(settings, root),
    )


def make_reranker_of(settings: HybridSettings, root: Path) -> Reranker | None:
    """The reranker of the settings, None for ``none``.

    Raises:
        KbevalError: it is not known, lacks its key, or cannot be loaded.
    """
    from kbeval.engines.components.rerankers import make_reranker

    return make_reranker(
        settings.reranker,
        base_url=settings.reranker_base_url,
        top_k=settings.rerank_candidates,
        **_service(settings, root),
    )


def _service(settings: HybridSettings, root: Path) -> dict[str, Any]:
    return {
        "timeout_s": settings.timeout_s,
        "retries": settings.retries,
        "root": root,
        "batch_size": settings.batch_size,
        "trust_remote_code": settings.trust_remote_code,
        "device": settings.device,
    }


def cutting(settings: HybridSettings) -> dict[str, Any]:
    """How the corpus is cut, as the arguments of ``haystack_chunks``."""
    return {
        "words": settings.chunk_words,
        "overlap": settings.chunk_overlap,
        "chunker": settings.chunker,
        "heading_path": settings.heading_path,
    }


def embedder_address(settings: HybridSettings, embedder: Embedder) -> str:
    """What besides the embedder's name decides about the chunks' vectors."""
    return repr((settings.embedder_base_url, embedder.document_prefix, settings.trust_remote_code))


def embed_elsewhere(settings: HybridSettings, root: Path, chunks: list[Chunk]) -> tuple[list[Chunk], tuple[Usage, ...]]:
    """The chunks with their vectors, and what these took of paid services: a task for another process.

    Raises:
        ServiceError: where a remote embedder gives no usable answer.
    """
    embedder = _kept_embedder(settings, root)
    assert embedder is not None
    with metering() as meter:
        return embedder.embed_chunks(chunks), meter.usage


@lru_cache(maxsize=2)
def _kept_embedder(settings: HybridSettings, root: Path) -> Embedder | None:
    return make_embedder_of(settings, root)


def _by(
    workers: Workers, settings: HybridSettings, root: Path
) -> Callable[[Iterable[list[Chunk]]], Iterator[list[Chunk]]]:
    """Embeds batches by other processes."""

    def embedded(batches: Iterable[list[Chunk]]) -> Iterator[list[Chunk]]:
        arguments = ((settings, root, batch) for batch in batches)
        for chunks, usage in in_order(workers, embed_elsewhere, arguments):
            for of in usage:
                used(of)
            yield chunks

    return embedded
