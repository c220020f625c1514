"""Engine A whose stages are remembered: the same ranking code, and no stage done twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kbeval._version import __version__
from kbeval.engines.base import Answer, Engine
from kbeval.engines.components.answering import STAGE, Parts, answered, timed_stage
from kbeval.engines.components.fusion import Behind, Head, make_fusion, with_score
from kbeval.engines.components.services import ServiceError
from kbeval.engines.hybrid import (
    HybridEngine,
    HybridSettings,
    cutting,
    embedder_address,
    make_embedder_of,
    make_reranker_of,
    with_environment,
)
from kbeval.engines.metering import heard, metering, retried, used
from kbeval.errors import KbevalError
from kbeval.progress import Silent
from kbeval.sweep.memory import Kept, StageMemory, key_of
from kbeval.sweep.vectors import RememberingEmbedder, installed, local_model, text_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from haystack import Document as Chunk

    from kbeval.engines.base import BuildContext
    from kbeval.engines.components.embedders import Embedder
    from kbeval.engines.components.rerankers import Reranker
    from kbeval.engines.hybrid import Leg
    from kbeval.model import LabelledQuery
    from kbeval.sweep.budget import Budget

_FLOAT64 = np.dtype("<f8")
_INT32 = np.dtype("<i4")
_MOST_CHUNKS = 200_000
"""Chunks of rankings that are held in memory, as objects, beside the disk."""


class Cut:
    """The corpus, cut in one way."""

    def __init__(self, settings: HybridSettings, context: BuildContext) -> None:
        from kbeval.engines.components.chunks import haystack_chunks

        self.how = cutting(settings)
        with context.progress.task("cutting documents"):
            self.chunks: list[Chunk] = list(haystack_chunks(context.documents, **self.how))
        """Every chunk without its vector, in the order of their Haystack ids, which are their places."""
        self.document_of: dict[str, str] = {chunk.id: chunk.meta["document_id"] for chunk in self.chunks}
        """Haystack id of a chunk -> id of its document."""
        self._digests: dict[str, str] = {}

    @cached_property
    def fingerprint(self) -> str:
        """Stands for all that a search of the chunks' text depends on."""
        return text_digest("".join(repr((chunk.meta["chunk_id"], chunk.content)) for chunk in self.chunks))

    def digest(self, chunk: Chunk) -> str:
        """What stands for a chunk's text."""
        known = self._digests.get(chunk.id)
        if known is None:
            known = self._digests[chunk.id] = text_digest(chunk.content or "")
        return known


class Index:
    """The corpus cut in one way, with one kind of vectors or none; built when a ranking is not known.

    Args:
        settings: of one of the configurations that search it.
        legs: those that any of them searches.
        cut: the corpus as they cut it.
        context: what engines are built from.
        memory: where answers are.
        budget: asked before a service is.
    """

    def __init__(
        self,
        settings: HybridSettings,
        legs: Iterable[Leg],
        cut: Cut,
        context: BuildContext,
        memory: StageMemory,
        budget: Budget,
    ) -> None:
        kept = {"legs": tuple(sorted(legs)), "reranker": "none", "fusion_top_k": None}
        self.settings = settings.model_copy(update=kept)
        self.cut = cut
        self._budget = budget
        self._context = context
        self._memory = memory
        self._engine: HybridEngine | None = None
        self._failure: KbevalError | None = None
        self._building = threading.Lock()
        self._held: OrderedDict[bytes, list[Chunk]] = OrderedDict()
        self._holds = 0
        self._holding = threading.Lock()

    @cached_property
    def embedder(self) -> Embedder | None:
        """The embedder, with a memory; None without a vector leg.

        Raises:
            KbevalError: it lacks its key, or cannot be loaded.
        """
        made = make_embedder_of(self.settings, self._context.root)
        return None if made is None else RememberingEmbedder.of(made, self._memory, self._identity(made), self._budget)

    def _identity(self, embedder: Embedder) -> list[Any]:
        known = [embedder.name, embedder_address(self.settings, embedder)]
        if embedder.remote:
            return known
        model = embedder.name.partition(":")[2]
        package = "sentence-transformers" if model else "wordllama"
        return [*known, *sorted(embedder.facts.items()), *local_model(model or ".none", self._context.root, (package,))]

    def key(self, leg: Leg, query: str, count: int) -> bytes:
        """What the first ``count`` chunks of a leg are known by."""
        if leg != "vector":
            how = [__version__, *(installed("bm25s", "PyStemmer") if leg == "bm25" else ())]
            return key_of("leg", leg, self.cut.fingerprint, query, count, how)
        settings = self.settings
        searched: list[Any] = [settings.search]
        if settings.search == "hnsw":
            searched += [settings.m, settings.ef_construction, settings.ef_search]
        return key_of("leg", leg, self.cut.fingerprint, query, count, self.query_identity, searched)

    @cached_property
    def query_identity(self) -> list[Any]:
        """What a question's vector depends on besides the question."""
        embedder = self.embedder
        return [*embedder.identity, embedder.query_prefix] if isinstance(embedder, RememberingEmbedder) else []

    def engine(self, *, quiet: bool = True) -> HybridEngine:
        """The engine that searches it, built at the first call and warmed by a search of each leg.

        Raises:
            KbevalError: it cannot be built; again at every call, without another attempt.
        """
        with self._building:
            if self._failure is not None:
                raise KbevalError(str(self._failure))
            if self._engine is None:
                context = replace(self._context, progress=Silent()) if quiet else self._context
                try:
                    self._engine = HybridEngine.over(self.settings, context, self.embedder, None, self.cut.chunks)
                    self._warm(self._engine)
                except KbevalError as error:
                    self._failure = error
                    raise
            return self._engine

    def _warm(self, engine: HybridEngine) -> None:
        """What the first search pays for connections and caches is in no configuration's time."""
        first = next((chunk.content for chunk in self.cut.chunks if chunk.content), None)
        if first is None:
            return
        embedder = self.embedder
        embedding = None
        if embedder is not None:
            # No service is asked for this: any direction will do.
            embedding = [1.0] * embedder.dimension() if embedder.remote else embedder.embed_query(first)
        for leg in self.settings.legs:
            engine.search(leg, first[:200], embedding, 10, {})

    def held(self, key: bytes) -> list[Chunk] | None:
        """A ranking that is in memory already."""
        with self._holding:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def hold(self, key: bytes, ranking: list[Chunk]) -> None:
        """Keeps a ranking in memory, at the price of those that were not used for longest."""
        with self._holding:
            if key not in self._held:
                self._holds += len(ranking) + 1
            self._held[key] = ranking
            while self._holds > _MOST_CHUNKS and len(self._held) > 1:
                self._holds -= len(self._held.popitem(last=False)[1]) + 1

    def close(self) -> None:
        """Closes the engine, where it was built."""
        if self._engine is not None:
            self._engine.close()
        elif "embedder" in self.__dict__ and self.embedder is not None:
            self.embedder.close()
        self._held.clear()
        self._engine = None


class RememberedStages:
    """The stages of one configuration: looked up, and done by its index or its reranker where they are not known.

    The seconds of a stage are those that it took when it was done. A failure is kept for as long as the object that
    ``failed`` is: what many configurations share fails once.
    """

    def __init__(
        self,
        settings: HybridSettings,
        index: Index,
        reranker: Reranker | None,
        memory: StageMemory,
        budget: Budget,
        failed: dict[bytes, Exception],
        root_identity: list[Any],
    ) -> None:
        self._settings = settings
        self._index = index
        self._reranker = reranker
        self._memory = memory
        self._budget = budget
        self._failed = failed
        self._identity = root_identity
        self._listwise = settings.reranker.startswith("llm:")

    def embed(self, query: str, seconds: dict[str, float]) -> list[float] | None:
        """The vector of a question."""
        embedder = self._index.embedder
        if embedder is None or "vector" not in self._settings.legs:
            return None

        def really(own: dict[str, float]) -> bytes:
            if embedder.remote:
                self._budget.check()
            with timed_stage(own, "embed", heard()):
                vector = embedder.embed_query(query)
            return np.asarray(vector if vector is not None else [], dtype=_FLOAT64).tobytes()

        key = key_of("embed", self._index.query_identity, query)
        value = self._once("embed", key, "embed", really, seconds, now=embedder.remote)
        return np.frombuffer(value, dtype=_FLOAT64).tolist() if value else None

    def search(
        self, leg: Leg, query: str, embedding: list[float] | None, count: int, seconds: dict[str, float]
    ) -> list[Chunk]:
        """The first ``count`` chunks of a leg."""
        index = self._index
        key = index.key(leg, query, count)
        made: list[Chunk] = []

        def really(own: dict[str, float]) -> bytes:
            found = index.engine().search(leg, query, embedding, count, own)
            made.extend(found)
            places = np.asarray([int(chunk.id) for chunk in found], dtype=_INT32)
            scores = np.asarray([chunk.score for chunk in found], dtype=_FLOAT64)
            return places.tobytes() + scores.tobytes()

        differs = leg == "vector" and self._settings.search == "hnsw"  # its index is not the same twice
        value = self._once("leg", key, STAGE[leg], really, seconds, now=differs)
        ranking = index.held(key)
        if made and leg == "bm25":  # the others' chunks are copies out of the database, with their vectors
            index.hold(key, made)
            return made
        if ranking is None:
            places, scores = _unpacked(value)
            chunks = index.cut.chunks
            pairs = zip(places.tolist(), scores.tolist(), strict=True)
            ranking = [with_score(chunks[place], score) for place, score in pairs]
            index.hold(key, ranking)
        return ranking

    def rerank(self, query: str, chunks: list[Chunk], seconds: dict[str, float]) -> list[Chunk]:
        """The chunks in the reranker's order.

        A reranker that scores each pair by itself is known by the set of texts, whatever their order; one that is
        shown a list, by the list.
        """
        reranker = self._reranker
        if reranker is None or not chunks:
            return chunks
        digests = [self._index.cut.digest(chunk) for chunk in chunks]
        places = list(range(len(chunks)))
        if not self._listwise:
            places.sort(key=digests.__getitem__)
        key = key_of("rerank", self._identity, query, [digests[place] for place in places])

        def really(own: dict[str, float]) -> bytes:
            if reranker.remote:
                self._budget.check()
            with timed_stage(own, "rerank", heard()):
                ranked = reranker.run(query=query, documents=chunks)["documents"]
            at = {chunk.id: (rank, chunk.score) for rank, chunk in enumerate(ranked)}
            ranks = np.asarray([at[chunks[place].id][0] for place in places], dtype=_INT32)
            scores = np.asarray([at[chunks[place].id][1] for place in places], dtype=_FLOAT64)
            return ranks.tobytes() + scores.tobytes()

        ranks, scores = _unpacked(self._once("rerank", key, "rerank", really, seconds, now=reranker.remote))
        # A server's order is what it said, also among equal scores; a model here keeps the order of those that came.
        order = np.argsort(ranks) if reranker.remote else np.lexsort((np.asarray(places), -scores))
        return [with_score(chunks[places[i]], float(scores[i])) for i in order.tolist()]

    def _once(
        self,
        kind: str,
        key: bytes,
        stage: str,
        really: Callable[[dict[str, float]], bytes],
        seconds: dict[str, float],
        *,
        now: bool,
    ) -> bytes:
        with self._memory.once(key):
            kept = self._memory.get(kind, key)
            if kept is None:
                if key in self._failed:
                    raise self._failed[key]
                own: dict[str, float] = {}
                try:
                    with metering() as meter:
                        value = really(own)
                except Exception as error:
                    self._memory.spent(meter.usage)  # billed, whatever the answer was worth
                    # One that says the same, without what it was raised from.
                    self._failed[key] = ServiceError(str(error)) if isinstance(error, ServiceError) else error
                    raise
                for number in range(meter.retries):
                    retried(meter.waited if number == 0 else 0.0)
                kept = self._memory.keep(
                    kind, key, Kept(value, own.get(stage, 0.0), tuple(meter.usage)), now=now or bool(meter.usage)
                )
        seconds[stage] = seconds.get(stage, 0.0) + kept.seconds
        for usage in kept.usage:
            used(usage)
        return kept.value


class SweptEngine(Engine):
    """One configuration of engine A over remembered stages."""

    type = "hybrid"
    thread_safe = True

    def __init__(self, settings: HybridSettings, index: Index, stages: RememberedStages) -> None:
        self.settings = settings
        self.heads: dict[str, list[str]] = {}
        """For each question the documents that the reranker saw."""
        self._index = index
        self._stages = stages
        reranked = settings.reranker != "none"
        self._parts = Parts(
            fusion=make_fusion(settings.fusion_k, settings.fusion_top_k) if len(settings.legs) > 1 else None,
            head=Head(size=settings.rerank_candidates) if reranked else None,
            behind=Behind() if reranked else None,
        )

    def prepare(self, queries: Sequence[LabelledQuery], memory: StageMemory) -> None:
        """Builds the index now, with its progress shown, where some question needs it.

        Raises:
            KbevalError: it cannot be built.
        """
        count = self.settings.candidates
        for leg in self.settings.legs:
            keys = list({self._index.key(leg, query.text, count) for query in queries})
            if len(memory.get_many("known", keys)) < len(keys):
                self._index.engine(quiet=False)
                return

    def answer(self, query: LabelledQuery, k: int) -> Answer:
        with metering() as meter:
            ranked = answered(self.settings, self._stages, self._parts, self._index.cut.document_of, query.text, k)
        self.heads[query.id] = ranked.head
        return Answer(
            hits=ranked.hits,
            stages=ranked.stages,
            seconds=ranked.seconds,
            retries=meter.retries,
            waited=meter.waited,
            usage=meter.usage,
        )

    def retrieve(self, query: str, k: int) -> Answer:  # pragma: no cover - answer() is what the runner calls
        from kbeval.model import LabelledQuery

        return self.answer(LabelledQuery(id=query, text=query), k)

    def configuration(self) -> dict[str, Any]:
        return self.settings.model_dump(mode="json")


class Workshop:
    """What the configurations of one sweep share: indexes, rerankers, the memory, and what has failed.

    Args:
        all_settings: of every configuration; the legs that are searched together share an index.
        context: what engines are built from.
        memory: where answers are.
        budget: asked before a service is.
    """

    def __init__(
        self, all_settings: Sequence[HybridSettings], context: BuildContext, memory: StageMemory, budget: Budget
    ) -> None:
        self._context = context
        self._budget = budget
        self._memory = memory
        self._failed: dict[bytes, Exception] = {}
        self._legs: dict[str, set[Leg]] = {}
        for settings in map(with_environment, all_settings):
            self._legs.setdefault(group_of(settings), set()).update(settings.legs)
        self._index: tuple[str, Index] | None = None
        self._cut: Cut | None = None
        self._rerankers: dict[str, Reranker | None] = {}

    def check(self, all_settings: Sequence[HybridSettings]) -> None:
        """Makes every embedder and reranker once that asks a server, so that a missing key is said before any work.

        Raises:
            KbevalError: a name, an address or a key is wrong.
        """
        for settings in map(with_environment, all_settings):
            if "vector" in settings.legs and not settings.embedder.startswith("sentence-transformers:"):
                embedder = make_embedder_of(settings, self._context.root)
                if embedder is not None:
                    embedder.close()
            if not settings.reranker.startswith("cross-encoder:"):
                self._reranker(settings)

    def engine(self, settings: HybridSettings) -> SweptEngine:
        """The engine of a configuration. One index is open at a time: ask for those that share one in a row.

        Raises:
            KbevalError: a model cannot be loaded.
        """
        settings = with_environment(settings)
        group = group_of(settings)
        if self._index is None or self._index[0] != group:
            self._close_index()
            if self._cut is None or self._cut.how != cutting(settings):
                self._cut = Cut(settings, self._context)
            self._index = (
                group,
                Index(settings, self._legs[group], self._cut, self._context, self._memory, self._budget),
            )
        index = self._index[1]
        reranker = self._reranker(settings)
        stages = RememberedStages(
            settings, index, reranker, self._memory, self._budget, self._failed, self._reranker_identity(settings)
        )
        return SweptEngine(settings, index, stages)

    def _reranker(self, settings: HybridSettings) -> Reranker | None:
        key = repr((self._reranker_identity(settings), settings.rerank_candidates, settings.timeout_s))
        if key not in self._rerankers:
            reranker = make_reranker_of(settings, self._context.root)
            if reranker is not None:
                reranker.warm_up()
            self._rerankers[key] = reranker
        return self._rerankers[key]

    def _reranker_identity(self, settings: HybridSettings) -> list[Any]:
        kind, _, model = settings.reranker.partition(":")
        known: list[Any] = [settings.reranker, settings.reranker_base_url]
        if kind == "cross-encoder":
            known += [settings.batch_size, settings.device, settings.trust_remote_code]
            known += local_model(model, self._context.root, ("sentence-transformers", "torch"))
        return known

    def _close_index(self) -> None:
        if self._index is not None:
            self._index[1].close()
            self._index = None

    def close(self) -> None:
        """Closes what is open."""
        self._close_index()
        for reranker in self._rerankers.values():
            if reranker is not None:
                reranker.close()


def group_of(settings: HybridSettings) -> str:
    """Stands for the index that a configuration searches."""
    how: list[Any] = [cutting(settings)]
    if "vector" in settings.legs:
        how += [settings.embedder, settings.embedder_base_url, settings.query_prefix, settings.document_prefix]
        how += [settings.search, settings.device, settings.batch_size, settings.trust_remote_code]
        if settings.search == "hnsw":
            how += [settings.m, settings.ef_construction, settings.ef_search]
    return repr(how)


def _unpacked(value: bytes) -> tuple[Any, Any]:
    """Numbers and scores of equal count."""
    count = len(value) // (_INT32.itemsize + _FLOAT64.itemsize)
    split = count * _INT32.itemsize
    return np.frombuffer(value[:split], dtype=_INT32), np.frombuffer(value[split:], dtype=_FLOAT64)
