"""What an engine is: something that ranks documents for a query, and says what it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kbeval.model import Document, LabelledQuery
    from kbeval.progress import Progress
    from kbeval.store import Store


class EngineSettings(BaseModel):
    """Base of every engine's settings: each key has a default, an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def files(self) -> tuple[str, ...]:
        """The files that the engine reads, as the settings name them: no run is written over one of them."""
        return ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine returned for one query.

    Attributes:
        hits: (document id, score) pairs, best first, each document once.
        stages: for each stage inside the engine ("lexical", "vector", "fusion", "rerank"), the ids of the
            documents in its order, each once, best first, as deep as the stage went. Empty where there are none.
        seconds: wall time by stage. The total is measured by whoever calls.
        repeats: how many results named a document that the same answer had named before.
    """

    hits: Sequence[tuple[str, float]]
    stages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    repeats: int = 0


@dataclass(frozen=True)
class BuildContext:
    """What an engine may use while it is built.

    Attributes:
        documents: the corpus, in its order.
        store: opens the evaluation database on the first call and returns the same one afterwards, with the
            ``kb_documents`` rows loaded. It outlives the engine.
        progress: where long work reports to.
        root: the folder that relative paths in the configuration are relative to.
    """

    documents: Sequence[Document]
    store: Callable[[], Store]
    progress: Progress
    root: Path


class Engine(ABC):
    """A retrieval engine, ready to answer.

    Attributes:
        reads_text: whether it ever sees a document's text; METHOD 5 treats the verdicts of one that does not
            differently.
        deterministic: whether the same query gives the same answer every time.
        notes: sentences that every report about this engine must carry.
    """

    type: ClassVar[str]
    reads_text: bool = True
    deterministic: bool = True
    notes: tuple[str, ...] = ()

    @abstractmethod
    def retrieve(self, query: str, k: int) -> Answer:
        """Ranks documents for ``query`` and returns at most ``k``; all of ``k`` where it has them to offer.

        Raises:
            Exception: anything. The runner records it as an explicit error outcome of this query.
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
