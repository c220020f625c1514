"""What an engine is: something that ranks documents for a query, and says what it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from kbeval.model import Document, LabelledQuery
    from kbeval.progress import Progress
    from kbeval.store import Store
    from kbeval.workers import Workers


class EngineSettings(BaseModel):
    """Base of every engine's settings: each key has a default, an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def files(self) -> tuple[str, ...]:
        """The files that the engine reads, as the settings name them: no run is written over one of them."""
        return ()


class TransientError(Exception):
    """What an engine raises where asking again may help: a busy server, a connection that broke.

    The runner asks again, after a pause that grows, as often as it is told to. No other error is asked again.

    Args:
        message: one line.
        retry_after: the seconds that the engine was told to wait, where it was.
    """

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Usage:
    """What was asked of a service that may have a price.

    Attributes:
        service: as the settings spell it (``cohere:rerank-v3.5``), which is what ``[prices]`` knows it by.
        calls: answers that it gave.
        tokens: sent to it.
        completion_tokens: that came back.
        rerank_units: as a reranker counts them: for Cohere a question with up to 100 documents.
    """

    service: str
    calls: int = 0
    tokens: int = 0
    completion_tokens: int = 0
    rerank_units: int = 0

    def plus(self, other: Usage) -> Usage:
        """Both together, under this one's name."""
        return Usage(
            self.service,
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.completion_tokens + other.completion_tokens,
            self.rerank_units + other.rerank_units,
        )

    def times(self, count: int) -> Usage:
        """The same ``count`` times."""
        return Usage(
            self.service,
            self.calls * count,
            self.tokens * count,
            self.completion_tokens * count,
            self.rerank_units * count,
        )

    def counted(self) -> list[tuple[str, int]]:
        """What there is of it, as name and number."""
        found = (
            ("calls", self.calls),
            ("tokens", self.tokens),
            ("tokens written", self.completion_tokens),
            ("rerank units", self.rerank_units),
        )
        return [(name, count) for name, count in found if count]

    def in_words(self) -> str:
        """All of it in a row."""
        parts = [f"{count:,} {name}" for name, count in self.counted()]
        return f"{', '.join(parts) or 'nothing'} of {self.service}"


def added(usages: Iterable[Usage]) -> tuple[Usage, ...]:
    """The usage of each service, in the order of their names."""
    by_service: dict[str, Usage] = {}
    for usage in usages:
        known = by_service.get(usage.service)
        by_service[usage.service] = usage if known is None else known.plus(usage)
    return tuple(by_service[service] for service in sorted(by_service))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an engine that is paid for will use, from its configuration alone.

    Attributes:
        building: to embed the corpus and the like, once.
        query: for one query, on average or more.
    """

    building: Sequence[Usage] = ()
    query: Sequence[Usage] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine returned for one query.

    Attributes:
        hits: (document id, score) pairs, best first, each document once.
        stages: for each stage inside the engine ("lexical", "vector", "fusion", "rerank"), the ids of the
            documents in its order, each once, best first, as deep as the stage went. Empty where there are none.
        seconds: wall time by stage ("embed", "lexical", "vector", "fusion", "rerank"), pauses before a retry left
            out. The total is measured by whoever calls, and holds them.
        repeats: how many results named a document that the same answer had named before.
        retries: how many requests were repeated for it.
        waited: the seconds of the pauses before them.
        usage: what it took of services that may have a price; empty where there are none, or it is not known.
    """

    hits: Sequence[tuple[str, float]]
    stages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    repeats: int = 0
    retries: int = 0
    waited: float = 0.0
    usage: Sequence[Usage] = ()


@dataclass(frozen=True)
class BuildContext:
    """What an engine may use while it is built.

    Attributes:
        documents: the corpus, in its order.
        store: opens the evaluation database on the first call and returns the same one afterwards, with the
            ``kb_documents`` rows loaded. It outlives the engine.
        progress: where long work reports to.
        root: the folder that relative paths in the configuration are relative to.
        workers: other processes that take work; None where there are none.
    """

    documents: Sequence[Document]
    store: Callable[[], Store]
    progress: Progress
    root: Path
    workers: Workers | None = None


class Engine(ABC):
    """A retrieval engine, ready to answer.

    Attributes:
        reads_text: whether it ever sees a document's text; METHOD 5 treats the verdicts of one that does not
            differently.
        deterministic: whether the same query gives the same answer every time.
        notes: sentences that every report about this engine must carry.
        takes_filters: whether :meth:`answer` heeds ``query.filters``. Who asks an engine that does not says so.
        thread_safe: whether :meth:`answer` may be called while it is running: if not, it is asked one question at a
            time whatever ``--concurrency`` says.
        query_timeout_s: how long one query may take, where the engine has a limit of its own; ``--timeout`` overrides.
        depth: how many documents it can give at most, where that is known: a run of it declares no more.
    """

    type: ClassVar[str]
    reads_text: bool = True
    deterministic: bool = True
    notes: tuple[str, ...] = ()
    takes_filters: bool = False
    thread_safe: bool = False
    query_timeout_s: float | None = None
    depth: int | None = None

    @classmethod
    def estimate(
        cls,
        settings: Any,  # noqa: ARG003
        documents: Sequence[Document],  # noqa: ARG003
        queries: Sequence[LabelledQuery],  # noqa: ARG003
    ) -> Estimate | None:
        """What an engine of these settings will use of paid services; None where it uses none, or cannot know."""
        return None

    @abstractmethod
    def retrieve(self, query: str, k: int) -> Answer:
        """Ranks documents for ``query`` and returns at most ``k``; all of ``k`` where it has them to offer.

        Raises:
            TransientError: asking again may help.
            Exception: anything else. The runner records it as an explicit error outcome of this query.
        """

    def answer(self, query: LabelledQuery, k: int) -> Answer:
        """What the runner asks: :meth:`retrieve` with the query's text, unless an engine needs more of the query."""
        return self.retrieve(query.text, k)

    def configuration(self) -> dict[str, Any]:
        """The full configuration, defaults included, without secrets: what the sidecar stores."""
        return {}

    def counts(self) -> dict[str, int]:
        """Facts about the index that the sidecar stores, such as chunks and chunks without a vector."""
        return {}

    def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Releases what the engine holds. Called once, also after an error."""
