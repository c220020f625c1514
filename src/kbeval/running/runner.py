"""Asks one engine every question, and keeps each outcome."""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kbeval.engines.base import Usage, added
from kbeval.running.asking import Outcome, ask
from kbeval.running.ledger import Ledger
from kbeval.running.policy import Policy
from kbeval.running.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kbeval.engines.base import Engine
    from kbeval.model import LabelledQuery
    from kbeval.progress import Progress
    from kbeval.running.answers import Answers
    from kbeval.running.elsewhere import Batches

DRAIN_S = 5.0
"""How long answers on their way are waited for when the work is interrupted: they may have been paid for."""


@dataclass(frozen=True)
class Outcomes:
    """What became of every query that was to be asked.

    Attributes:
        engine: the run's name.
        outcomes: one a query, in the order of the test set.
        unknown_documents: ids that are no document's of the corpus.
        concurrency: how many questions were asked at once.
        asking_s: seconds from the first question to the last answer, the first question left out.
        building_s: seconds that building the engine took, the database's start left out.
        incomplete: why the run ended before every question was asked; None where it did not.
        whole: of how many questions these are a sample; None where they are all.
        filtered: how many questions had filters that the engine does not take.
        building: what building the engine took of paid services.
    """

    engine: str
    outcomes: Sequence[Outcome]
    unknown_documents: Sequence[str] = field(default_factory=tuple)
    concurrency: int = 1
    asking_s: float = 0.0
    building_s: float = 0.0
    incomplete: str | None = None
    whole: int | None = None
    filtered: int = 0
    building: Sequence[Usage] = ()

    @property
    def errors(self) -> dict[str, str]:
        """The error of each query on which the engine failed, or that was not asked."""
        return {outcome.query.id: outcome.error for outcome in self.outcomes if outcome.error is not None}

    def counts(self) -> dict[str, int]:
        """How many queries there were, and how they ended."""
        answers = [outcome.answer for outcome in self.outcomes if outcome.answer is not None]
        return {
            "queries": len(self.outcomes),
            "answered": sum(1 for answer in answers if answer.hits),
            "empty": sum(1 for answer in answers if not answer.hits),
            "errored": len(self.errors),
            "timed_out": sum(outcome.timed_out for outcome in self.outcomes),
            "not_asked": sum(outcome.seconds is None for outcome in self.outcomes),
            "repeated_requests": sum(outcome.retries for outcome in self.outcomes),
            "repeated_documents": sum(answer.repeats for answer in answers),
            "unknown_documents": len(self.unknown_documents),
            "rising_scores": sum(_rises(answer.hits) for answer in answers),
            "filters_not_taken": self.filtered,
        }

    def latencies_ms(self) -> dict[str, dict[str, float]]:
        """For each query that was asked, milliseconds by stage: of errors and timeouts too."""
        return {outcome.query.id: outcome.milliseconds() for outcome in self.outcomes if outcome.seconds is not None}

    def summary_ms(self) -> dict[str, dict[str, float]]:
        """p50, p95, p99 and n by stage over all of them but the query that was asked first."""
        first = self.first_ms()
        return latency_summary({query: of for query, of in self.latencies_ms().items() if query not in first})

    def first_ms(self) -> dict[str, dict[str, float]]:
        """Milliseconds by stage of the query that was asked first; of several where a run was resumed."""
        return {outcome.query.id: outcome.milliseconds() for outcome in self.outcomes if outcome.cold}

    def per_second(self) -> float | None:
        """Questions a second, the first one and those of an earlier run left out; none where there was no other."""
        asked = sum(1 for each in self.outcomes if each.seconds is not None and not (each.cold or each.resumed))
        return asked / self.asking_s if asked and self.asking_s > 0 else None

    def usage(self) -> tuple[Usage, ...]:
        """What the queries took of paid services, an earlier run's answers included."""
        return added(usage for outcome in self.outcomes for usage in outcome.usage)

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


def _rises(hits: Sequence[tuple[str, float]]) -> bool:
    """Whether a later document has a higher score than an earlier one."""
    return any(later > earlier for (_, earlier), (_, later) in itertools.pairwise(hits))


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
    policy: Policy = Policy(),  # noqa: B008 - frozen
    answers: Answers | None = None,
    expected: Sequence[Usage] = (),
    spent: float = 0.0,
    elsewhere: Callable[[float | None], Batches] | None = None,
) -> Outcomes:
    """Asks ``engine`` every query.

    An exception is the outcome of its query and of no other: it is kept, and the next query is asked. The query that is
    asked first is asked alone, and its time stands apart: it pays for connections, caches and lazy imports. Nothing is
    asked twice.

    Args:
        answers: where answers are kept as they come, and those of an earlier run are found.
        expected: what a query is expected to use, for ``policy.max_cost``.
        spent: what building the engine has cost.
        elsewhere: makes, for a timeout, what asks the same engine in other processes; here it is asked without it.
    """
    kept = _recalled(queries, answers) if answers and policy.resume else {}
    ledger = Ledger(queries, kept, policy, expected=expected, spent=spent)
    waiting = [(place, query) for place, query in enumerate(queries) if place not in kept]
    timeout_s = policy.timeout_s if policy.timeout_s is not None else engine.query_timeout_s or policy.default_timeout_s
    concurrency = policy.concurrency if engine.thread_safe else 1

    def ask_one(query: LabelledQuery) -> Outcome:
        return ask(engine, query, k, policy, timeout_s=timeout_s)

    def settle(place: int, outcome: Outcome) -> None:
        if answers is not None:
            answers.keep(outcome)
        ledger.take(place, outcome)

    label = f"{name}: asking {len(waiting)} questions"
    # Whatever an engine prints must not mix with the answer. Once, for threads share the stream.
    with redirect_stdout(sys.stderr), progress.task(label, total=len(waiting)) as advance:
        threads: Threads | Batches | None = None
        if elsewhere is not None:
            threads = elsewhere(timeout_s)
            concurrency = threads.slots
        elif concurrency > 1 or timeout_s:
            threads = Threads(ask_one, concurrency, timeout_s)
        began = None
        try:
            for place, outcome in _outcomes(waiting, ask_one, threads, ledger.may_start):
                cold = began is None
                settle(place, replace(outcome, cold=cold))
                began = time.perf_counter() if began is None else began
                advance(1)
            ended = time.perf_counter()
        except BaseException:
            for place, outcome in threads.drained(DRAIN_S) if threads and answers else ():
                settle(place, outcome)
            raise
        finally:
            if threads:
                threads.close()
    outcomes = ledger.outcomes()
    unknown = dict.fromkeys(
        document
        for outcome in outcomes
        if outcome.answer
        for document, _ in outcome.answer.hits
        if document not in known_documents
    )
    return Outcomes(
        engine=name,
        outcomes=outcomes,
        unknown_documents=list(unknown),
        concurrency=concurrency,
        asking_s=ended - began if began is not None else 0.0,
        incomplete=ledger.ended if any(outcome.seconds is None for outcome in outcomes) else None,
        filtered=0 if engine.takes_filters else sum(1 for query in queries if query.filters),
    )


def _recalled(queries: Sequence[LabelledQuery], answers: Answers) -> dict[int, Outcome]:
    found = ((place, answers.recall(query)) for place, query in enumerate(queries))
    return {place: outcome for place, outcome in found if outcome is not None}


def _outcomes(
    waiting: Sequence[tuple[int, LabelledQuery]],
    ask_one: Callable[[LabelledQuery], Outcome],
    threads: Threads | Batches | None,
    may_start: Callable[[int], bool],
) -> Iterator[tuple[int, Outcome]]:
    """Each question's outcome as it comes: the first alone, the others one after another or side by side."""
    if threads is not None:
        first, rest = waiting[:1], waiting[1:]
        yield from itertools.chain(threads.outcomes(first, may_start), threads.outcomes(rest, may_start))
        return
    for place, query in waiting:
        # In this thread, so that a signal ends a call that is on its way.
        if not may_start(0):
            return
        yield place, ask_one(query)


def latency_summary(latencies: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """p50, p95, p99 and n by stage, in milliseconds, linearly interpolated between queries."""
    import numpy as np

    return {
        stage: {
            **{f"p{share}": round(float(np.percentile(values, share)), 3) for share in (50, 95, 99)},
            "n": len(values),
        }
        for stage, values in _by_stage(latencies.values()).items()
    }


def _by_stage(latencies: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
    by_stage: dict[str, list[float]] = {}
    for stages in latencies:
        for stage, milliseconds in stages.items():
            by_stage.setdefault(stage, []).append(milliseconds)
    return by_stage
