"""What one configuration is worth: its quality on the dev split, its seconds, its price, what its reranker gains."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import fsum
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.engines.base import added
from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.scoring import score_aligned
from kbeval.evaluation.strata import ALL, deciding_strata
from kbeval.formats.sidecar import TOTAL
from kbeval.model import Run
from kbeval.order import falling_scores, sort_run
from kbeval.running.runner import latency_summary
from kbeval.running.save import run_frame
from kbeval.sweep.thresholds import Scored

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kbeval.engines.base import Usage
    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.test_set import TestSet
    from kbeval.running.runner import Outcomes
    from kbeval.sweep.grid import Configuration


@dataclass(frozen=True)
class Gain:
    """What a reranker does to the primary metric on the dev split, and what it could have done.

    Attributes:
        before: the metric in the order in which it got the candidates.
        after: in its own order.
        ceiling: the recall of its candidates: what no reordering of them can find more of.
    """

    before: float
    after: float
    ceiling: float


@dataclass(frozen=True)
class Measured:
    """One configuration, measured.

    Attributes:
        run: every answer, of both splits and of the questions without an answer; empty where it could not be built.
        failure: why it could not be built; None where it could.
        errors: the error of each question on which it failed.
        incomplete: why it was not asked every question.
        dev: the means on the dev split by metric, as METHOD 3 has them; the primary one is always there.
        latency_ms: p50, p95, p99 and n by stage and in total.
        of_stages: whether these are sums of stages, each timed when it was really done, and not what a caller waited.
        usage: of a question, on average over those that were answered: by service, with how many there were.
        cost: of a thousand questions; None where nothing has a price, or something has none.
        gain: of the reranker; None without one.
        scored: of each question what a threshold decides by.
    """

    configuration: Configuration
    run: Run
    failure: str | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    incomplete: str | None = None
    dev: Mapping[str, float] = field(default_factory=dict)
    latency_ms: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    of_stages: bool = True
    usage: Sequence[Usage] = ()
    answered: int = 0
    cost: float | None = None
    gain: Gain | None = None
    scored: Mapping[str, Scored] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The configuration's."""
        return self.configuration.name

    @property
    def sound(self) -> bool:
        """Whether it may be picked: it was built, and answered every question."""
        return self.failure is None and not self.errors

    @property
    def p95(self) -> float | None:
        """Milliseconds for a question; None where it is not known."""
        return self.latency_ms[TOTAL]["p95"] if TOTAL in self.latency_ms else None


def failed(configuration: Configuration, why: str) -> Measured:
    """A configuration that could not be built."""
    return Measured(configuration, _run(configuration.name, [], [], []), failure=why)


def measured(
    configuration: Configuration,
    outcomes: Outcomes,
    dev: TestSet,
    metrics: Sequence[Metric],
    primary: Metric,
    *,
    level: int,
    k: int,
    of_stages: bool,
    heads: Mapping[str, Sequence[str]] | None,
    cost: float | None,
) -> Measured:
    """Measures a configuration that was asked every question.

    Args:
        outcomes: what it answered.
        dev: what it is picked on.
        heads: for each question the documents that went to its reranker; None without one.
        cost: of a thousand questions.
    """
    run = Run(configuration.name, sort_run(run_frame(outcomes)))
    means = _means(run, dev, [*metrics, primary])
    if of_stages:
        seconds = {o.query.id: o.answer.seconds for o in outcomes.outcomes if o.answer is not None}
        latency = latency_summary(
            {
                query: {TOTAL: fsum(by_stage.values()) * 1000, **{s: value * 1000 for s, value in by_stage.items()}}
                for query, by_stage in seconds.items()
            }
        )
    else:
        latency = outcomes.summary_ms()
    gain = None
    if heads is not None:
        before = _order_before(configuration.name, outcomes, k)
        gain = Gain(_means(before, dev, [primary])[primary.name], means[primary.name], _ceiling(dev, heads, outcomes))
    return Measured(
        configuration=configuration,
        run=run,
        errors=outcomes.errors,
        incomplete=outcomes.incomplete,
        dev=means,
        latency_ms=latency,
        of_stages=of_stages,
        usage=added(usage for outcome in outcomes.outcomes if outcome.answer for usage in outcome.answer.usage),
        answered=sum(outcome.answer is not None for outcome in outcomes.outcomes),
        cost=cost,
        gain=gain,
        scored=_scored(outcomes, level),
    )


def headline(values: NDArray[np.float64], test_set: TestSet) -> float:
    """The mean of a metric: of the styles' means, equally weighted, or over all questions (METHOD 3)."""
    styles = deciding_strata(test_set.strata)
    if styles == (ALL,):
        return fsum(values) / len(values)
    means = [fsum(values[rows]) / len(rows) for style in styles if len(rows := test_set.stratum_rows[style])]
    return fsum(means) / len(means)


def _means(run: Run, test_set: TestSet, metrics: Iterable[Metric]) -> dict[str, float]:
    alignment = align(judge(test_set.qrels), part_of(run, test_set), compiled=False, may_be_empty=True)
    scores = score_aligned(alignment, list(dict.fromkeys(metrics)), level=test_set.level)
    return {name: headline(values, test_set) for name, values in scores.values.items()}


def part_of(run: Run, test_set: TestSet) -> Run:
    """The answers to a test set's queries alone. There may be none: an engine need not find anything on one side."""
    return replace(run, frame=run.frame.filter(pl.col("query").is_in(test_set.queries)))


def _order_before(name: str, outcomes: Outcomes, k: int) -> Run:
    """The run as it would have been without the reranker."""
    queries: list[str] = []
    documents: list[str] = []
    scores: list[float] = []
    for outcome in outcomes.outcomes:
        stages = outcome.answer.stages if outcome.answer else {}
        last = [order for stage, order in stages.items() if stage != "rerank"][-1:]
        for order in last:
            kept = list(order[:k])
            queries += [outcome.query.id] * len(kept)
            documents += kept
            scores += falling_scores(1 / np.arange(1, len(kept) + 1, dtype=np.float64)).tolist()
    return _run(name, queries, documents, scores)


def _run(name: str, queries: list[str], documents: list[str], scores: list[float]) -> Run:
    frame = pl.DataFrame(
        {
            "query": pl.Series(queries, dtype=pl.String),
            "document": pl.Series(documents, dtype=pl.String),
            "score": pl.Series(scores, dtype=pl.Float64),
        }
    )
    return Run(name, sort_run(frame))


def _ceiling(dev: TestSet, heads: Mapping[str, Sequence[str]], outcomes: Outcomes) -> float:
    """The recall of the documents of which a chunk went to the reranker, 0 where a question failed."""
    failed_on = outcomes.errors
    recalls = []
    for query in dev.queries:
        gold = set(dev.gold[query])
        found = gold & set(heads.get(query, ())) if query not in failed_on else set()
        recalls.append(len(found) / len(gold) if gold else 0.0)
    return headline(np.array(recalls, dtype=np.float64), dev)


def _scored(outcomes: Outcomes, level: int) -> dict[str, Scored]:
    found = {}
    for outcome in outcomes.outcomes:
        hits = outcome.answer.hits if outcome.answer else ()
        gold = {document for document, grade in outcome.query.relevant.items() if grade >= level}
        found[outcome.query.id] = Scored(
            max((float(score) for _, score in hits), default=None),
            max((float(score) for document, score in hits if document in gold), default=None),
        )
    return found
