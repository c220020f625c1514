"""Runs side by side: metrics, statistics and verdicts, computed once and rendered elsewhere."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from math import fsum
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kbeval.errors import KbevalError
from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.before_gold import BeforeGold, before_gold
from kbeval.evaluation.chance import chance
from kbeval.evaluation.label_effects import (
    held_against_added_gold,
    held_against_pool,
    without_added,
    without_brought_by,
)
from kbeval.evaluation.metrics import Metric, parse_metric
from kbeval.evaluation.partial import AskedByBoth, asked_rows, held_against_unasked, in_common
from kbeval.evaluation.pooling import in_pool
from kbeval.evaluation.ranked import Ranked
from kbeval.evaluation.ranx_kernels import pays_to_compile
from kbeval.evaluation.scoring import score_aligned, warm_up
from kbeval.evaluation.statistics import (
    PairStatistics,
    bca_interval,
    cluster_means,
    holm,
    holm_levels,
    intervals_differ,
    paired,
    plain_paired_t,
)
from kbeval.evaluation.statistics.distributions import ufuncs
from kbeval.evaluation.ties import Ties, find_ties
from kbeval.evaluation.verdicts import Verdict, mean_over_styles, verdict
from kbeval.formats.sidecar import NOT_ASKED
from kbeval.formats.trec import read_run, unescape_id
from kbeval.model import Run
from kbeval.notebook import html_table
from kbeval.order import sort_run
from kbeval.repeats import first_repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    from numpy.typing import NDArray

    from kbeval.evaluation.alignment import Alignment, Judgments
    from kbeval.evaluation.test_set import TestSet
    from kbeval.formats.sidecar import Sidecar

FOUND_NOTHING = "it found nothing on any question"
RANKED_IDS = 20
SHOWN_PAIRS = 20
MRR = parse_metric("mrr")
JUDGED = parse_metric("judged@10")


@dataclass(frozen=True)
class RunSource:
    """A run to compare: its file or the run itself, and its sidecar where it has one."""

    name: str
    origin: Path | Run
    sidecar: Sidecar | None = None

    def lines(self) -> int:
        """About how many lines it has: a line of a TREC run takes some forty bytes."""
        if isinstance(self.origin, Run):
            return self.origin.frame.height
        return self.origin.stat().st_size // 40 if self.origin.exists() else 0


@dataclass(frozen=True)
class Options:
    """How to compare. ``primary`` is the one metric that verdicts are about, fixed beforehand."""

    metrics: Sequence[Metric]
    primary: Metric
    baseline: str | None = None
    depth: int | None = None
    alpha: float = 0.05


@dataclass(frozen=True)
class WithoutAdded:
    """A run on the test set without added gold: values by query, means, first ranks; as in ``RunResult``."""

    values: Mapping[str, NDArray[np.float64]]
    means: Mapping[str, float]
    first_ranks: NDArray[np.int64]


@dataclass(frozen=True)
class RunResult:
    """One run, measured. Arrays are aligned with the test set's queries.

    Attributes:
        values: for each metric its value per query; nan where a metric leaves the query out.
        ranked: for each query its first documents, at least 20 or the largest cut-off where there are so many.
        first_ranks: the rank of the first relevant document, 0 where there is none.
        judged: judged@10 per query.
        errors: the error of each query on which the engine failed, as its sidecar says.
        missing: test-set queries with no line in the run and no error.
        without_relevant: queries without a relevant document, which count with 0.
        remarks: for some metrics, what must be said beside it.
        left_out: for metrics that are not about all queries, how many they leave out.
        ties: what equal scores could do to the metrics.
        top_scores: for each query that the corpus does not answer, the highest score that the engine gave; None where
            it returned nothing.
        without_added: the run on the test set without the gold that labels added; None where they added nothing.
        without_own_labels: the primary metric's mean without the labels that this run alone brought into the pool; None
            where there are none.
        pooled: whether its first ten documents were pooled to be judged; None where there is no pool.
        uncut_ranks: as ``first_ranks``, before lists are cut to the depth that is compared.
        tied: whether the first relevant document of the uncut list has the score of the document before it, so that
            another order of equal scores would put it higher.
        asked: the places of the queries that it was asked; None where it was asked them all.
        before: what stands before the first relevant documents.
    """

    name: str
    sidecar: Sidecar | None
    values: Mapping[str, NDArray[np.float64]]
    ranked: Ranked
    first_ranks: NDArray[np.int64]
    judged: NDArray[np.float64]
    errors: Mapping[str, str]
    missing: Sequence[str]
    without_relevant: Sequence[str]
    remarks: Mapping[str, str]
    left_out: Mapping[str, int]
    ties: Ties
    top_scores: Mapping[str, float | None] = field(default_factory=dict)
    without_added: WithoutAdded | None = None
    without_own_labels: float | None = None
    pooled: bool | None = None
    uncut_ranks: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    tied: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    asked: NDArray[np.int64] | None = None
    before: BeforeGold = field(default_factory=BeforeGold)

    @cached_property
    def failed(self) -> dict[str, str]:
        """The errors of the queries that it was asked: those on which the engine failed."""
        return {query: line for query, line in self.errors.items() if not line.startswith(NOT_ASKED)}

    @property
    def reads_text(self) -> bool:
        """Whether the engine ever sees a document's text; assumed where nothing is known."""
        return self.sidecar.engine.reads_text if self.sidecar else True

    def mean(self, metric: str, rows: NDArray[np.int64] | None = None) -> float | None:
        """The mean of a metric over all queries, or over ``rows``; none where it has no value there."""
        if metric not in self.values:
            return None
        values = self.values[metric] if rows is None else self.values[metric][rows]
        values = values[~np.isnan(values)]
        return fsum(values) / len(values) if len(values) else None


@dataclass(frozen=True)
class PairResult:
    """Two runs against each other.

    Attributes:
        cells: for each metric the statistics over all queries.
        p_paired_t: ranx's paired t-test, which assumes independent questions.
        p_adjusted: Holm's, on the primary metric.
        level: what Holm's procedure holds this pair's tests against.
        without_errors: the primary metric over the queries that both engines were asked and neither failed on; none
            where neither failed.
        asked_by_both: where either was not asked every question, those that both were.
    """

    a: str
    b: str
    cells: Mapping[str, PairStatistics]
    p_paired_t: Mapping[str, float | None]
    p_adjusted: float | None
    level: float
    without_errors: PairStatistics | None
    verdict: Verdict
    asked_by_both: AskedByBoth | None = None


@dataclass(frozen=True, repr=False)
class Comparison:
    """Everything that the reports show. ``chance`` is empty where the corpus is not known."""

    test_set: TestSet
    options: Options
    runs: Sequence[RunResult]
    pairs: Sequence[PairResult]
    depth: int | None
    chance: Mapping[str, float]
    warnings: Sequence[str]

    @property
    def metrics(self) -> list[Metric]:
        """The metrics asked for that the data can give."""
        return [metric for metric in self.options.metrics if metric.name in self.runs[0].values]

    def to_polars(self) -> pl.DataFrame:
        """One row a run, one column a metric: means over all queries."""
        return pl.DataFrame(
            [{"run": run.name, **{metric.name: run.mean(metric.name) for metric in self.metrics}} for run in self.runs]
        )

    def to_pandas(self) -> pd.DataFrame:
        """The same for pandas."""
        import pandas as pd

        return pd.DataFrame(self.to_polars().to_dict(as_series=False))

    def per_query(self) -> pl.DataFrame:
        """One row a query, run and metric: query, run, metric, value, first_relevant_rank (null: none found)."""
        queries = pl.Series("query", self.test_set.queries, dtype=pl.String)
        parts = [
            pl.DataFrame(
                {
                    "query": queries,
                    "run": run.name,
                    "metric": metric.name,
                    "value": pl.Series(run.values[metric.name]).fill_nan(None),
                    "first_relevant_rank": pl.Series(run.first_ranks).replace(0, None),
                }
            )
            for run in self.runs
            for metric in self.metrics
        ]
        return pl.concat(parts)

    def _repr_html_(self) -> str:
        """What a notebook shows: the table of means, and the verdicts below it."""
        verdicts = "".join(f"<li>{escape(line)}</li>" for line in self._verdicts())
        return html_table(self.to_polars()) + (f"<ul>{verdicts}</ul>" if verdicts else "")

    def __repr__(self) -> str:
        return "\n".join(
            [f"Comparison of {len(self.runs)} runs on {len(self.test_set.queries)} queries"]
            + [
                f"  {run.name}: {self.options.primary.name} {run.mean(self.options.primary.name):.4f}"
                for run in self.runs
            ]
            + [f"  {line}" for line in self._verdicts()]
        )

    def _verdicts(self) -> list[str]:
        shown = [
            f"{pair.a} and {pair.b}: {pair.verdict.word}"
            + (f", {pair.a if pair.verdict.leader == 'a' else pair.b} leads" if pair.verdict.leader else "")
            for pair in self.pairs[:SHOWN_PAIRS]
        ]
        return shown + ([f"and {len(self.pairs) - SHOWN_PAIRS} more pairs"] if len(self.pairs) > SHOWN_PAIRS else [])

    def run(self, name: str) -> RunResult:
        """The run of that name."""
        return next(run for run in self.runs if run.name == name)

    def difference(self, pair: PairResult, rows: NDArray[np.int64]) -> PairStatistics | None:
        """A pair's difference in the primary metric over ``rows``, as far as both were asked them; None for none."""
        if pair.asked_by_both is not None:
            rows = np.intersect1d(rows, pair.asked_by_both.rows)
            if not len(rows):
                return None
        return statistics(
            self.run(pair.a),
            self.run(pair.b),
            self.options.primary,
            self.test_set,
            self.options,
            family=len(self.pairs),
            rows=rows,
        )

    def bca(self, pair: PairResult) -> tuple[float, float] | None:
        """The bootstrap interval of a pair's verdict, where it differs from the t interval; none where it does not."""
        metric = self.options.primary.name
        differences = self.run(pair.a).values[metric] - self.run(pair.b).values[metric]
        styles = pair.verdict.styles
        if len(styles) > 1:
            names = np.array(self.test_set.strata, dtype=object)
            means = mean_over_styles(differences, names, self.test_set.clusters, styles)
        else:
            means = cluster_means(differences, self.test_set.clusters)
        by_bootstrap = bca_interval(means)
        by_t = pair.verdict.overall.ci95
        if by_t is None or by_bootstrap is None or not intervals_differ(by_t, by_bootstrap):
            return None
        return by_bootstrap

    def level_of(self, run: RunResult, rows: NDArray[np.int64] | None = None) -> PairStatistics:
        """A run's primary metric over ``rows``, with the interval of METHOD 4: the difference to 0."""
        values = run.values[self.options.primary.name]
        clusters = self.test_set.clusters
        if rows is not None:
            values, clusters = values[rows], clusters[rows]
        known = ~np.isnan(values)
        return paired(
            values[known],
            np.zeros(int(known.sum())),
            clusters[known],
            alpha=self.options.alpha,
            randomise=False,
        )


def compare_runs(
    test_set: TestSet,
    sources: Sequence[RunSource],
    options: Options,
    *,
    done: Callable[[RunSource], None] = lambda _: None,
    warnings: Sequence[str] = (),
) -> Comparison:
    """Measures every run, and every pair (or every run against the baseline).

    Runs are read and dropped one after another, so that memory does not grow with their number; the next one is read
    while one is measured.

    Raises:
        KbevalError: a run holds no query of the test set, or the baseline is not among the runs.
    """
    names = [source.name for source in sources]
    if options.baseline is not None and options.baseline not in names:
        raise KbevalError(f"--baseline: expected one of {', '.join(names)}, found {options.baseline!r}")
    declared = [source.sidecar.k for source in sources if source.sidecar]
    depth = options.depth or (min(declared) if declared else None)
    warnings = list(warnings)
    if options.depth is None and len(set(declared)) > 1:
        warnings.append(f"runs were made with different k: all are cut to the smallest, {depth}")
    judgments = judge(test_set.qrels)
    if not judgments.count(test_set.level).any():
        raise KbevalError(
            f"the test set: expected a document of grade {test_set.level} or more for at least one query, found none "
            f"in {len(judgments.queries)} queries, so nothing can be judged"
        )
    fewer = without_added(test_set)
    fewer_judgments = judge(fewer.qrels) if fewer else None
    results: list[RunResult] = []
    longest: dict[str, int] = {}
    # One way of computing must serve all runs of a comparison; the size of the input alone decides which.
    compiled = pays_to_compile(len(judgments.queries) * len(sources), sum(source.lines() for source in sources))
    Thread(target=_prepare, args=(options.metrics, compiled), daemon=True).start()
    for source, run in _read_ahead(sources):
        # A run in memory without a line was let in where it is said that the engine found nothing.
        may_be_empty = isinstance(source.origin, Run) or found_nothing(source.sidecar)
        alignment = align(judgments, run, test_set.domains, compiled=compiled, may_be_empty=may_be_empty)
        known = {*test_set.unanswerable, *test_set.left_out}
        strangers = tuple(query for query in alignment.strangers if query not in known)
        alignment = replace(alignment, strangers=strangers)
        longest[source.name] = int(alignment.returned.max())
        warnings += [w if w.startswith(f"{source.name}:") else f"{source.name}: {w}" for w in run.warnings]
        result = _measure(test_set, run, alignment, source.sidecar, options, depth, warnings)
        if fewer_judgments:
            aligned = align(fewer_judgments, run, test_set.domains, compiled=compiled, may_be_empty=True)
            result = replace(result, without_added=_without_added(test_set, aligned, options, depth))
        if own := without_brought_by(test_set, source.name):
            aligned = align(judge(own.qrels), run, test_set.domains, compiled=compiled, may_be_empty=True)
            scores = score_aligned(aligned, [options.primary], level=test_set.level, depth=depth)
            result = replace(result, without_own_labels=scores.means[options.primary.name])
        if test_set.pools:
            asked = [*test_set.queries, *test_set.unanswerable, *test_set.left_out]
            result = replace(result, pooled=in_pool(test_set.pools, run, asked))
        results.append(result)
        done(source)
        del run, alignment
    if depth is None and len(set(longest.values())) > 1:
        lengths = ", ".join(f"{name} {length}" for name, length in longest.items())
        warnings.append(f"the runs differ in depth ({lengths}): metrics without a cut-off are not comparable")
    return Comparison(
        test_set=test_set,
        options=options,
        runs=results,
        pairs=_pairs(test_set, results, options, fewer),
        depth=depth,
        chance=_chance(test_set, judgments, options, depth),
        warnings=warnings,
    )


def _prepare(metrics: Sequence[Metric], compiled: bool) -> None:
    """Imports and compiles what will be needed, while polars reads files on the other processors."""
    warm_up(metrics, compiled=compiled)
    ufuncs()


def found_nothing(sidecar: Sidecar | None) -> bool:
    """Whether a sidecar says that the engine worked, and answered no question with anything: a result, not a fault."""
    return sidecar is not None and sidecar.counts.get("answered") == 0 and sidecar.counts.get("empty", 0) > 0


def read_source(source: RunSource) -> Run:
    """Reads a run as its sidecar says: escaped ids decoded, and no line where the engine found nothing."""
    if found_nothing(source.sidecar):
        schema = {"query": pl.String, "document": pl.String, "score": pl.Float64}
        return Run(name=source.name, frame=pl.DataFrame(schema=schema), warnings=(FOUND_NOTHING,))
    run = source.origin if isinstance(source.origin, Run) else read_run(source.origin, source.name)
    return unescape_run(run) if source.sidecar and source.sidecar.escaped_ids else run


def _read_ahead(sources: Sequence[RunSource]) -> Iterator[tuple[RunSource, Run]]:
    """Every source with its run. What cannot be read is raised in its turn."""
    pool = ThreadPoolExecutor(1)
    try:
        reading = pool.submit(read_source, sources[0])
        for source, following in zip(sources, [*sources[1:], None], strict=True):
            run = reading.result()
            if following is not None:
                reading = pool.submit(read_source, following)
            yield source, run
            del run
    finally:
        pool.shutdown(cancel_futures=True)


def unescape_run(run: Run) -> Run:
    """The run with the ids that ``--escape-ids`` encoded decoded again, and in the one order of those ids.

    Raises:
        KbevalError: two ids of one query are one id: ``--escape-ids`` did not write them.
    """
    frame = run.frame
    for column in ("query", "document"):
        distinct = frame[column].unique()
        decoded = [unescape_id(value) for value in distinct]
        frame = frame.with_columns(frame[column].replace_strict(distinct, decoded, return_dtype=pl.String))
    frame = sort_run(frame)
    row = first_repeat(frame["query"].rle_id().to_numpy(), frame["document"])
    if row is not None:
        query, document = frame.row(row)[:2]
        raise KbevalError(
            f"run {run.name}: expected each document once per query, found {document!r} twice for {query!r} once "
            f"escaped ids are decoded, as its sidecar says"
        )
    return replace(run, frame=frame)


def _measure(
    test_set: TestSet,
    run: Run,
    alignment: Alignment,
    sidecar: Sidecar | None,
    options: Options,
    depth: int | None,
    warnings: list[str],
) -> RunResult:
    """Scores one run on every query of the test set."""
    shown = list(dict.fromkeys([*options.metrics, options.primary]))
    extra = [metric for metric in (MRR, JUDGED) if metric not in shown]
    scores = score_aligned(alignment, [*shown, *extra], level=test_set.level, depth=depth)
    warnings += [f"{run.name}: {warning}" for warning in scores.warnings]
    ties = find_ties(run, alignment, shown, level=test_set.level, depth=depth, means=scores.means)
    first = _first_ranks(scores.values[MRR.name])
    in_test_set = set(test_set.queries)
    errors = {q: line for q, line in (sidecar.errors if sidecar else {}).items() if q in in_test_set}
    count = max([RANKED_IDS, *(metric.k or 0 for metric in options.metrics)])
    uncut = alignment.first_ranks(test_set.level)
    return RunResult(
        name=run.name,
        sidecar=sidecar,
        values={metric.name: scores.values[metric.name] for metric in shown if metric.name in scores.values},
        ranked=_ranked(run, alignment, min(count, depth) if depth else count),
        first_ranks=first,
        judged=scores.values[JUDGED.name],
        errors=errors,
        missing=[query for query in scores.missing if query not in errors],
        without_relevant=scores.without_relevant,
        remarks=scores.remarks,
        left_out=scores.left_out,
        ties=ties,
        top_scores=_top_scores(test_set, run),
        uncut_ranks=uncut,
        tied=_tied(run, alignment, uncut),
        asked=asked_rows(sidecar, test_set.queries),
        before=before_gold(run, alignment, test_set.gold, test_set.queries, level=test_set.level, depth=depth),
    )


def _first_ranks(reciprocal: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rank of the first relevant document from its reciprocal; 0 where there is none."""
    first = np.zeros(len(reciprocal), dtype=np.int64)
    first[reciprocal > 0] = np.rint(1 / reciprocal[reciprocal > 0]).astype(np.int64)
    return first


def _tied(run: Run, alignment: Alignment, ranks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each query, whether the document at this rank has the score of the one before it."""
    scores = run.frame["score"].to_numpy()
    tied = np.zeros(len(ranks), dtype=np.bool_)
    later = np.flatnonzero(ranks > 1)
    rows = alignment.starts[later] + ranks[later] - 1
    tied[later] = scores[rows] == scores[rows - 1]
    return tied


def _without_added(test_set: TestSet, alignment: Alignment, options: Options, depth: int | None) -> WithoutAdded:
    metrics = list(dict.fromkeys([*options.metrics, options.primary, MRR]))
    scores = score_aligned(alignment, metrics, level=test_set.level, depth=depth)
    return WithoutAdded(scores.values, scores.means, _first_ranks(scores.values[MRR.name]))


def _top_scores(test_set: TestSet, run: Run) -> dict[str, float | None]:
    """The first score of each list that answers a query without an answer."""
    if not test_set.unanswerable:
        return {}
    frame = run.frame.filter(pl.col("query").is_in(list(test_set.unanswerable)))
    firsts = frame.unique("query", keep="first", maintain_order=True)
    scores = dict(zip(firsts["query"].to_list(), firsts["score"].to_list(), strict=True))
    return {query: scores.get(query) for query in sorted(test_set.unanswerable)}


def _ranked(run: Run, alignment: Alignment, count: int) -> Ranked:
    """The first documents of each query's list; only those are ever taken out of the run's frame."""
    lengths = np.minimum(alignment.returned, count)
    ends = np.cumsum(lengths)
    rows = np.repeat(alignment.starts - (ends - lengths), lengths) + np.arange(int(ends[-1]))
    return Ranked(run.frame["document"].gather(rows), ends)


def _chance(test_set: TestSet, judgments: Judgments, options: Options, depth: int | None) -> dict[str, float]:
    """What a random order of the corpus would score; empty where the corpus is not known."""
    if not test_set.documents:
        return {}
    judged = set(judgments.frame["document"].unique().to_list())
    return chance(
        judgments,
        [*options.metrics, options.primary],
        len(judged | set(test_set.documents)),
        level=test_set.level,
        depth=depth,
        domains=test_set.domains,
    )


def _pairs(
    test_set: TestSet, results: Sequence[RunResult], options: Options, fewer: TestSet | None
) -> list[PairResult]:
    if options.baseline is None:
        couples = list(itertools.combinations(results, 2))
    else:
        base = next(result for result in results if result.name == options.baseline)
        couples = [(result, base) for result in results if result is not base]
    family = max(len(couples), 1)
    cells = [
        {
            metric.name: statistics(a, b, metric, test_set, options, family=family)
            for metric in options.metrics
            if metric.name in a.values
        }
        for a, b in couples
    ]
    # What is tested is the verdict, so Holm's procedure is about its p: over all questions a pair may differ by those
    # that no verdict rests on, and would loosen the level of the others.
    tested = [_tested(test_set, a, b, options, family) for a, b in couples]
    p_values = [cell[options.primary.name].p for cell in cells]
    return [
        PairResult(
            a=a.name,
            b=b.name,
            cells=cell,
            p_paired_t={name: plain_paired_t(a.values[name], b.values[name]) for name in cell},
            p_adjusted=adjusted,
            level=level,
            without_errors=_without_errors(a, b, test_set, options, family),
            verdict=_verdict(test_set, a, b, options, level=level, family=family, fewer=fewer),
            asked_by_both=_asked_by_both(a, b, test_set, options, family),
        )
        for (a, b), cell, adjusted, level in zip(
            couples, cells, holm(p_values), holm_levels(tested, options.alpha), strict=True
        )
    ]


def _tested(test_set: TestSet, a: RunResult, b: RunResult, options: Options, family: int) -> float | None:
    """The p of the statistics that a pair's verdict rests on."""
    name = options.primary.name
    found = verdict(
        a.values[name], b.values[name], test_set.strata, test_set.clusters, alpha=options.alpha, family=family
    )
    return found.overall.p


def _verdict(
    test_set: TestSet,
    a: RunResult,
    b: RunResult,
    options: Options,
    *,
    level: float,
    family: int,
    fewer: TestSet | None,
) -> Verdict:
    """The verdict on a pair, held against the test set without added gold."""
    name = options.primary.name

    def judged_on(values: Mapping[str, Any], others: Mapping[str, Any], clusters: NDArray[np.int64]) -> Verdict:
        return verdict(
            values[name],
            others[name],
            test_set.strata,
            clusters,
            alpha=options.alpha,
            level=level,
            family=family,
            metadata_only=not (a.reads_text and b.reads_text),
        )

    found = judged_on(a.values, b.values, test_set.clusters)
    if fewer and a.without_added and b.without_added:
        found = held_against_added_gold(
            found, judged_on(a.without_added.values, b.without_added.values, fewer.clusters)
        )
    if test_set.pools:
        found = held_against_pool(
            found,
            names=(a.name, b.name),
            pooled=(bool(a.pooled), bool(b.pooled)),
            judged=(float(a.judged.mean()), float(b.judged.mean())),
        )
    return held_against_unasked(found, [run.name for run in (a, b) if run.asked is not None])


def statistics(
    a: RunResult,
    b: RunResult,
    metric: Metric,
    test_set: TestSet,
    options: Options,
    *,
    family: int = 1,
    rows: NDArray[np.int64] | None = None,
) -> PairStatistics:
    """Run a against run b on one metric, over ``rows`` or all queries for which it has a value.

    All but the primary metric is exploratory: an interval and its p, and no randomisation.
    """
    left, right = a.values[metric.name], b.values[metric.name]
    known = ~np.isnan(left)
    if rows is not None:
        chosen = np.zeros_like(known)
        chosen[rows] = True
        known &= chosen
    return paired(
        left[known],
        right[known],
        test_set.clusters[known],
        alpha=options.alpha,
        family=family,
        randomise=metric == options.primary,
    )


def _without_errors(
    a: RunResult, b: RunResult, test_set: TestSet, options: Options, family: int
) -> PairStatistics | None:
    failed = {*a.failed, *b.failed}
    if not failed:
        return None
    answered = np.array([i for i, query in enumerate(test_set.queries) if query not in failed], dtype=np.int64)
    asked = in_common(a.asked, b.asked)
    rows = answered if asked is None else np.intersect1d(asked, answered)
    return statistics(a, b, options.primary, test_set, options, family=family, rows=rows) if len(rows) else None


def _asked_by_both(a: RunResult, b: RunResult, test_set: TestSet, options: Options, family: int) -> AskedByBoth | None:
    rows = in_common(a.asked, b.asked)
    if rows is None:
        return None
    difference = statistics(a, b, options.primary, test_set, options, family=family, rows=rows) if len(rows) else None
    return AskedByBoth(rows, difference)
