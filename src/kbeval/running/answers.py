"""Answers that were paid for, kept beside the run until it is whole: what ``--resume`` takes over."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from kbeval.engines.base import Answer, Usage
from kbeval.llm.journal import Journal
from kbeval.running.asking import Outcome

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from kbeval.engines.base import Engine
    from kbeval.model import LabelledQuery


class _Usage(BaseModel):
    service: str
    calls: int = 0
    tokens: int = 0
    completion_tokens: int = 0
    rerank_units: int = 0


class _Entry(BaseModel):
    """A line of the journal."""

    model_config = ConfigDict(extra="ignore", strict=False)

    key: str
    hits: list[tuple[str, float]]
    stages: dict[str, list[str]]
    stage_seconds: dict[str, float]
    seconds: float
    repeats: int
    retries: int
    waited: float
    usage: list[_Usage]
    cold: bool


class Answers:
    """The journal of one run: each answer as it comes, known by what it depends on.

    That is the engine with its whole configuration, the corpus, the question's id, text and filters, and k. The code
    behind a ``python:`` engine or an address is not seen: change it, and the journal still holds the old one's answers.

    Errors are not kept: what failed is asked again. Lines of other configurations stay, so that going back to one
    finds what was paid for.

    Args:
        path: the file, beside the run.
        paid: whether an answer costs money: it is then on the disk before the next question is asked. Otherwise it
            outlives the process, and not the machine.
    """

    def __init__(self, path: Path, *, paid: bool) -> None:
        self.path = path
        self._journal = Journal(path)
        self._paid = paid
        self._common: list[Any] = []
        self._known: dict[str, _Entry] = {}

    @staticmethod
    def path_of(folder: Path, name: str) -> Path:
        """Where the journal of a run lies."""
        return folder / f"{name}.journal"

    def __enter__(self) -> Answers:
        """Opens the journal.

        Raises:
            KbevalError: another process writes it, or it is none.
        """
        self._journal.open()
        for line in self._journal.replay():
            try:
                entry = _Entry.model_validate(line)
            except ValidationError:
                continue  # of another version: asked again
            self._known[entry.key] = entry
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._journal.close()

    def are_of(self, engine: Engine, corpus_hash: str, k: int) -> None:
        """Says whose answers they are, on what corpus, and how many documents are asked for."""
        self._common = [engine.type, engine.configuration(), corpus_hash, k]

    def recall(self, query: LabelledQuery) -> Outcome | None:
        """What an earlier run was answered; none where it was not."""
        entry = self._known.get(self._key(query))
        if entry is None:
            return None
        usage = tuple(Usage(**each.model_dump()) for each in entry.usage)
        answer = Answer(
            hits=entry.hits, stages=entry.stages, seconds=entry.stage_seconds, repeats=entry.repeats, usage=usage
        )
        return Outcome(
            query=query,
            seconds=entry.seconds,
            answer=answer,
            retries=entry.retries,
            waited=entry.waited,
            usage=usage,
            cold=entry.cold,
            resumed=True,
        )

    def keep(self, outcome: Outcome) -> None:
        """Writes an answer down. An error is not kept."""
        answer = outcome.answer
        if answer is None or outcome.seconds is None:
            return
        line: dict[str, Any] = {
            "key": self._key(outcome.query),
            "query": outcome.query.id,
            # Subclasses of float and str, as numpy's, are no JSON.
            "hits": [(str(document), float(score)) for document, score in answer.hits],
            "stages": {stage: [str(document) for document in ids] for stage, ids in answer.stages.items()},
            "stage_seconds": {stage: float(seconds) for stage, seconds in answer.seconds.items()},
            "seconds": outcome.seconds,
            "repeats": answer.repeats,
            "retries": outcome.retries,
            "waited": outcome.waited,
            "usage": [_Usage.model_validate(each, from_attributes=True).model_dump() for each in outcome.usage],
            "cold": outcome.cold,
        }
        self._journal.append(line, sync=self._paid or bool(outcome.usage))

    def forget(self) -> None:
        """The run is whole, and on the disk: the journal is removed when it is closed."""
        self._journal.clear()

    def _key(self, query: LabelledQuery) -> str:
        known = [*self._common, query.id, query.text, dict(query.filters)]
        return hashlib.sha256(orjson.dumps(known, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
