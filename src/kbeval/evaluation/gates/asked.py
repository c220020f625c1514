"""What is asked of runs: the ``[targets]`` and ``[margins]`` of the settings, read and refused."""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.evaluation.metrics import parse_metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbeval.evaluation.metrics import Metric

LATENCY = "latency_"
PERCENTILES = {"latency_p50_ms": 50, "latency_p95_ms": 95, "latency_p99_ms": 99}


@dataclass(frozen=True, slots=True)
class Target:
    """A floor for the mean of a metric, or a ceiling in milliseconds for a percentile of the latency.

    Exactly one of ``metric`` and ``percentile`` is set.
    """

    name: str
    label: str
    asked: float
    metric: Metric | None = None
    percentile: int | None = None


@dataclass(frozen=True, slots=True)
class Margin:
    """How much worse than its baseline a run may be on a metric."""

    metric: Metric
    asked: float


def read_targets(table: Mapping[str, float], shown: str = "kbeval.toml") -> list[Target]:
    """The targets, in the order given.

    Raises:
        KbevalError: an unknown name, one metric in two spellings, or a target that no value could have.
    """
    targets: dict[str, Target] = {}
    for name, asked in table.items():
        where = f"{shown}: [targets] {name}"
        if name.lower().startswith(LATENCY):
            target = _latency(name, asked, where)
        else:
            metric = _metric(name, where)
            low, high = metric.family.lowest, metric.family.highest
            if not low <= asked <= high:  # nan is in no range
                raise KbevalError(f"{where}: expected a number from {low:g} to {high:g}, found {asked:g}")
            target = Target(metric.name, metric.label, asked, metric=metric)
        if target.name in targets:
            raise KbevalError(f"{where}: expected each target once, found {target.name} in two spellings")
        targets[target.name] = target
    return list(targets.values())


def read_margins(table: Mapping[str, float], shown: str = "kbeval.toml") -> list[Margin]:
    """The margins, in the order given.

    Raises:
        KbevalError: an unknown name, one metric in two spellings, or a margin that is no difference above 0.
    """
    margins: dict[str, Margin] = {}
    for name, asked in table.items():
        where = f"{shown}: [margins] {name}"
        if name.lower().startswith(LATENCY):
            raise KbevalError(
                f"{where}: expected a metric, found a latency: it differs from machine to machine; give it a ceiling "
                f"in [targets]"
            )
        metric = _metric(name, where)
        widest = metric.family.highest - metric.family.lowest
        if not 0 < asked <= widest:
            raise KbevalError(f"{where}: expected a number above 0 and up to {widest:g}, found {asked:g}")
        if metric.name in margins:
            raise KbevalError(f"{where}: expected each margin once, found {metric.name} in two spellings")
        margins[metric.name] = Margin(metric, asked)
    return list(margins.values())


def _metric(name: str, where: str) -> Metric:
    try:
        return parse_metric(name)
    except KbevalError as error:
        raise KbevalError(f"{where}: {error}") from None


def _latency(name: str, asked: float, where: str) -> Target:
    percentile = PERCENTILES.get(name.lower())
    if percentile is None:
        near = difflib.get_close_matches(name.lower(), PERCENTILES, n=1, cutoff=0.0)[0]
        raise KbevalError(f"{where}: unknown latency (nearest: {near}); known: {', '.join(PERCENTILES)}")
    if not (math.isfinite(asked) and asked > 0):
        raise KbevalError(f"{where}: expected milliseconds above 0, found {asked:g}")
    return Target(name.lower(), f"latency p{percentile}", asked, percentile=percentile)
