"""Scores a run: every metric on every query of the test set, and the means."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.evaluation.alignment import Alignment, Domains, align, judge
from kbeval.model import Qrels, Run
from kbeval.notebook import html_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from kbeval.evaluation.metrics import Metric

__all__ = ["Domains", "Scores", "score", "score_aligned", "warm_up"]


@dataclass(frozen=True, repr=False)
class Scores:
    """One run's values.

    Attributes:
        queries: the queries of the test set, ascending by bytes.
        values: for each metric, by canonical name, one value a query in the order of ``queries``,
            float64. Only ``domain_accuracy`` holds nan: for queries without a domain. A metric that the data
            cannot give is absent.
        means: for each metric its mean over all queries; ``domain_accuracy``'s over those with a domain.
        left_out: for each metric that is not about all queries, how many it leaves out.
        without_relevant: queries without a document at the relevance level: they count with 0.
        missing: queries for which the run holds no line: they count with 0.
        remarks: for some metrics, a sentence that must be shown beside it.
        warnings: sentences about the run.
    """

    queries: tuple[str, ...]
    values: Mapping[str, NDArray[np.float64]]
    means: Mapping[str, float]
    left_out: Mapping[str, int]
    without_relevant: tuple[str, ...]
    missing: tuple[str, ...]
    remarks: Mapping[str, str]
    warnings: tuple[str, ...]

    def to_polars(self) -> pl.DataFrame:
        """One row a query, one column a metric; null where a metric leaves a query out."""
        columns = {name: pl.Series(values).fill_nan(None) for name, values in self.values.items()}
        return pl.DataFrame({"query": pl.Series(self.queries, dtype=pl.String), **columns})

    def to_pandas(self) -> pd.DataFrame:
        """The same for pandas."""
        import pandas as pd

        # By way of lists: polars' own conversion wants pyarrow, which nothing else here needs.
        return pd.DataFrame(self.to_polars().to_dict(as_series=False))

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        return f"Scores on {len(self.queries)} queries: {means}"

    def _repr_html_(self) -> str:
        """What a notebook shows: the table of means."""
        return html_table(pl.DataFrame({"metric": list(self.means), "mean": list(self.means.values())}))


def score(
    qrels: Qrels,
    run: Run,
    metrics: Iterable[Metric],
    *,
    level: int = 1,
    depth: int | None = None,
    domains: Domains | None = None,
) -> Scores:
    """Scores one run.

    Args:
        qrels: the judgments; the queries named in them are the test set.
        run: the run.
        metrics: which metrics, by ``parse_metric``.
        level: the lowest grade that counts as relevant, where a metric's name states none; at least 1.
        depth: cuts every list to its first ``depth`` documents before anything else, as trec_eval -M does.
        domains: of queries and documents, for ``domain_accuracy``.

    Raises:
        KbevalError: the test set is empty, or has no query in common with the run.
        ValueError: a frame is not in the order that the model promises.
    """
    return score_aligned(align(judge(qrels), run, domains), metrics, level=level, depth=depth)


def score_aligned(
    alignment: Alignment, metrics: Iterable[Metric], *, level: int = 1, depth: int | None = None
) -> Scores:
    """The same for a run that is already paired with the judgments."""
    if level < 1 or (depth is not None and depth < 1):
        raise ValueError(f"level and depth must be at least 1, found level={level}, depth={depth}")
    run = alignment if depth is None else alignment.cut(depth)
    queries = run.judgments.queries
    values: dict[str, NDArray[np.float64]] = {}
    means: dict[str, float] = {}
    left_out: dict[str, int] = {}
    remarks: dict[str, str] = {}
    for metric in metrics:
        if metric.family.needs_domains and (run.domains is None or not run.domains.has_domain.any()):
            continue
        at = metric.at_level(level)
        column = metric.family.compute(run, metric, at)
        values[metric.name] = column
        used = column[~np.isnan(column)]
        # Exactly rounded, so that neither the order of the queries nor the processor's width matters.
        means[metric.name] = fsum(used) / len(used)
        if metric.family.needs_domains:
            left_out[metric.name] = len(column) - len(used)
        if metric.family.remark is not None and (remark := metric.family.remark(run.judgments, at)):
            remarks[metric.name] = remark
    return Scores(
        queries=queries,
        values=values,
        means=means,
        left_out=left_out,
        without_relevant=_named(queries, run.judgments.count(level) == 0),
        missing=_named(queries, run.returned == 0),
        remarks=remarks,
        warnings=_warnings(run.strangers),
    )


def warm_up(metrics: Iterable[Metric], *, compiled: bool) -> None:
    """Imports, and compiles, what scoring these metrics needs; for a thread beside the reading of files."""
    pair: dict[str, list[str]] = {"query": ["q"], "document": ["d"]}
    qrels = Qrels(pl.DataFrame({**pair, "grade": [1]}))
    run = Run("warm-up", pl.DataFrame({**pair, "score": [1.0]}))
    score_aligned(align(judge(qrels), run, compiled=compiled), metrics)


def _named(queries: tuple[str, ...], chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(queries[index] for index in np.flatnonzero(chosen))


def _warnings(strangers: tuple[str, ...]) -> tuple[str, ...]:
    if not strangers:
        return ()
    if len(strangers) == 1:
        return (f"query {strangers[0]!r} of the run is not in the test set and is left out",)
    return (f"{len(strangers)} queries of the run, as {strangers[0]!r}, are not in the test set and are left out",)
