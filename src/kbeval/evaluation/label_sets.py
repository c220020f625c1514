"""Two runs under people's labels and under a model's: whether the difference depends on who judged (METHOD 6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbeval.evaluation.comparison import Options, compare_runs
from kbeval.inputs import as_qrels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.statistics import PairStatistics
    from kbeval.evaluation.test_set import TestSet

FEWER_THAN = 8
"""With this many runs and more, METHOD 6 wants no list of pairs."""


@dataclass(frozen=True, slots=True)
class PairUnderBoth:
    """The difference of two runs in the primary metric under either label set, over the same queries."""

    a: str
    b: str
    people: PairStatistics
    models: PairStatistics


def pairs_under_both(
    test_set: TestSet,
    people: Mapping[str, Mapping[str, int]],
    models: Mapping[str, Mapping[str, int]],
    sources: Sequence[RunSource],
    metric: Metric,
) -> list[PairUnderBoth]:
    """Compares each pair of runs twice.

    Args:
        test_set: what is known about the queries; its own judgments are not used.
        people, models: each label set as grades of documents by query; the same queries in both.
        sources: the runs.
        metric: the primary metric.

    Raises:
        KbevalError: as ``compare_runs``, for either label set.
    """
    options = Options(metrics=[metric], primary=metric)
    by_people, by_models = (
        compare_runs(replace(test_set, qrels=as_qrels(grades)), sources, options) for grades in (people, models)
    )
    return [
        PairUnderBoth(ours.a, ours.b, ours.cells[metric.name], theirs.cells[metric.name])
        for ours, theirs in zip(by_people.pairs, by_models.pairs, strict=True)
    ]
