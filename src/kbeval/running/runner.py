"""Asks one engine every question, one after another, and keeps each outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbeval.formats.sidecar import TOTAL
from kbeval.secrets import one_line
from kbeval.signals import Terminated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.engines.base import Answer, Engine
    from kbeval.model import LabelledQuery
    from kbeval.progress import Progress


@dataclass(frozen=True)
class Outcome:
    """What became of one query: an answer, or the error in one line."""

    query: LabelledQuery
    seconds: float
    answer: Answer | None = None
    error: str | None = None


@dataclass(frozen=True)
class Outcomes:
    """What became of every query of a test set."""

    engine: str
    outcomes: Sequence[Outcome]
    unknown_documents: Sequence[str] = field(default_factory=tuple)

    @property
    def errors(self) -> dict[str, str]:
        """The error of each query on which the engine failed."""
        return {outcome.query.id: outcome.error for outcome in self.outcomes if outcome.error is not None}

    def counts(self) -> dict[str, int]:
        """How many queries there were, and how they ended."""
        answers = [outcome.answer for outcome in self.outcomes if outcome.answer is not None]
        return {
            "queries": len(self.outcomes),
            "answered": sum(1 for answer in answers if answer.hits),
            "empty": sum(1 for answer in answers if not answer.hits),
            "errored": len(self.errors),
            "repeated_documents": sum(answer.repeats for answer in answers),
            "unknown_documents": len(self.unknown_documents),
        }

    def latencies_ms(self) -> dict[str, dict[str, float]]:
        """For each query, milliseconds by stage."""
        return {
            outcome.query.id: {
                stage: round(seconds * 1000, 3)
                for stage, seconds in {
                    **(outcome.answer.seconds if outcome.answer else {}),
                    TOTAL: outcome.seconds,
                }.items()
            }
            for outcome in self.outcomes
        }

    def gold_ranks(self, level: int) -> dict[str, dict[str, int | None]]:
        """For each answered query and stage, the rank of its first relevant document."""
        ranks: dict[str, dict[str, int | None]] = {}
        for outcome in self.outcomes:
            if outcome.answer is None or not outcome.answer.stages:
                continue
            gold = {document for document, grade in outcome.query.relevant.items() if grade >= level}
            ranks[outcome.query.id] = {
                stage: first_rank(documents, gold) for stage, documents in outcome.answer.stages.items()
            }
        return ranks


def first_rank(documents: Sequence[str], gold: set[str]) -> int | None:
    """The 1-based rank of the first document that is in ``gold``."""
    return next((rank for rank, document in enumerate(documents, start=1) if document in gold), None)


def ask_all(
    engine: Engine,
    name: str,
    queries: Sequence[LabelledQuery],
    k: int,
    *,
    known_documents: set[str],
    progress: Progress,
) -> Outcomes:
    """Asks ``engine`` every query, after one warm-up query that is not counted.

    An exception is the outcome of its query and of no other: it is kept, and the next query is asked.
    """
    warm_up(engine, queries, k)
    outcomes = []
    unknown: dict[str, None] = {}
    with progress.task(f"{name}: asking {len(queries)} questions", total=len(queries)) as advance:
        for query in queries:
            outcome = ask(engine, query, k)
            outcomes.append(outcome)
            if outcome.answer:
                unknown.update(dict.fromkeys(d for d, _ in outcome.answer.hits if d not in known_documents))
            advance(1)
    return Outcomes(engine=name, outcomes=outcomes, unknown_documents=list(unknown))


def warm_up(engine: Engine, queries: Sequence[LabelledQuery], k: int) -> None:
    """Pays for connections, caches and lazy imports before anything is timed."""
    if queries:
        ask(engine, queries[0], k)


def ask(engine: Engine, query: LabelledQuery, k: int) -> Outcome:
    """Asks one query, and times it."""
    started = time.perf_counter()
    try:
        answer = engine.answer(query, k)
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:
        # An engine that calls sys.exit, or lets a CancelledError out, has failed on its query like any other: it must
        # not end the evaluation in silence.
        return Outcome(query=query, seconds=time.perf_counter() - started, error=one_line(error))
    return Outcome(query=query, seconds=time.perf_counter() - started, answer=answer)


def latency_summary(latencies: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """p50, p95 and n by stage, in milliseconds, linearly interpolated between queries."""
    import numpy as np

    by_stage: dict[str, list[float]] = {}
    for stages in latencies.values():
        for stage, milliseconds in stages.items():
            by_stage.setdefault(stage, []).append(milliseconds)
    return {
        stage: {
            "p50": round(float(np.percentile(values, 50)), 3),
            "p95": round(float(np.percentile(values, 95)), 3),
            "n": len(values),
        }
        for stage, values in by_stage.items()
    }
