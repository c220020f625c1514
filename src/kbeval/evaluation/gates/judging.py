"""Each run against each target and margin: a word, and what it rests on (METHOD 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from kbeval.evaluation.gates.ceiling import ceilings
from kbeval.evaluation.label_effects import UNPOOLED_GAP
from kbeval.evaluation.statistics import PairStatistics, non_inferior, paired, probability_unchanged_passes
from kbeval.evaluation.statistics.units import ZERO
from kbeval.formats.sidecar import TOTAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kbeval.evaluation.gates.asked import Margin, Target
    from kbeval.evaluation.gates.measuring import Measured
    from kbeval.evaluation.test_set import TestSet

Word = Literal["met", "missed", "unreachable", "not worse", "regressed", "cannot tell"]

ALPHA = 0.05
"""METHOD 4's interval is the two-sided 95% one; what is called a regression is held against the same."""
LIKELY = 0.8
"""A gate that an unchanged engine passes less often than this is warned of."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Which words fail besides missed and regressed."""

    unreachable_fails: bool = False
    cannot_tell_fails: bool = False

    def fails(self, word: Word) -> bool:
        """Whether a line of this word fails the check."""
        return (
            word in ("missed", "regressed")
            or (word == "unreachable" and self.unreachable_fails)
            or (word == "cannot tell" and self.cannot_tell_fails)
        )


@dataclass(frozen=True)
class Baseline:
    """What a run may not be worse than.

    Attributes:
        values: as in ``Measured``.
        own: the values of the run itself at the depth of the two, where that is not the run's.
        itself: whether it is the run itself, so that the gate can only pass.
        origin: where it is from.
    """

    name: str
    values: Mapping[str, NDArray[np.float64]]
    errors: int = 0
    judged: float | None = None
    pooled: bool | None = None
    origin: str = ""
    own: Mapping[str, NDArray[np.float64]] | None = None
    itself: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One gate.

    Attributes:
        gate: ``target`` or ``margin``.
        name, label: the metric or latency, for programs and for people.
        asked: the floor, the ceiling in milliseconds, or the margin.
        value: the run's mean, or its percentile in milliseconds; None where there is none.
        ci95: by clusters, of the mean (target) or of the difference to the baseline (margin).
        ceiling: the most that any ranking scores here; of targets for metrics alone.
        baseline, baseline_value: of margins.
        delta: the difference by clusters (margin), or the mean of the clusters' means (target), which ``ci95`` is of.
        detectable: the smallest true difference that would probably have shown; of margins.
        unchanged_passes: how often an engine that is no better and no worse passes; of margins.
        clusters: how many questions count as independent; of margins.
        why: for ``cannot tell``, why, in words; a remark otherwise.
        judged: false where there was nothing to judge.
    """

    run: str
    gate: Literal["target", "margin"]
    name: str
    label: str
    word: Word
    asked: float
    value: float | None = None
    ci95: tuple[float, float] | None = None
    ceiling: float | None = None
    baseline: str | None = None
    baseline_value: float | None = None
    delta: float | None = None
    detectable: float | None = None
    unchanged_passes: float | None = None
    clusters: int | None = None
    why: str = ""
    judged: bool = True

    @property
    def is_latency(self) -> bool:
        """Whether the numbers are milliseconds."""
        return self.name.startswith("latency_")

    @property
    def rarely_passes(self) -> bool:
        """Whether an unchanged engine passes too rarely for the gate to be of use."""
        return self.unchanged_passes is not None and self.unchanged_passes < LIKELY


@dataclass(frozen=True)
class Check:
    """All lines of all runs. ``baselines`` are by the name of the run that they are for."""

    test_set: TestSet
    runs: Sequence[Measured]
    baselines: Mapping[str, Baseline]
    lines: Sequence[Line]
    policy: Policy = Policy()

    def failed(self) -> list[Line]:
        """The lines that fail."""
        return [line for line in self.lines if self.policy.fails(line.word)]

    def broken(self) -> list[str]:
        """The runs, and baselines, whose engine failed on a question: their numbers are not what they should be."""
        runs = [run.name for run in self.runs if run.errors]
        bases = [f"baseline {base.name.removeprefix('baseline ')}" for base in self.baselines.values() if base.errors]
        return runs + list(dict.fromkeys(bases))

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not self.failed() and not self.broken()


def check_run(
    test_set: TestSet,
    run: Measured,
    targets: Sequence[Target],
    margins: Sequence[Margin] = (),
    baseline: Baseline | None = None,
) -> list[Line]:
    """Holds one run against every target, and against its baseline where there is one."""
    most = ceilings(test_set, [t.metric for t in targets if t.metric is not None])
    lines = [
        _target(test_set, run, target, most) if target.metric is not None else _latency(run, target)
        for target in targets
    ]
    if baseline is not None:
        lines += [_margin(test_set, run, margin, baseline) for margin in margins]
    return lines


def _target(test_set: TestSet, run: Measured, target: Target, most: Mapping[str, float]) -> Line:
    line = Line(run.name, "target", target.name, target.label, "cannot tell", target.asked)
    value, ceiling = run.means.get(target.name), most.get(target.name)
    if value is None or ceiling is None:
        why = "the test set has no domains" if target.metric and target.metric.family.needs_domains else "no value"
        return replace(line, why=why, judged=False)
    if ceiling <= ZERO and target.asked > ZERO:
        return replace(line, ceiling=ceiling, why="no ranking can score on this test set", judged=False)
    values = run.values[target.name]
    statistics = _statistics(values, np.zeros_like(values), test_set, randomise=False)
    word: Word = "met" if value >= target.asked - ZERO else "missed"
    if target.asked > ceiling + ZERO:
        word = "unreachable"
    why = run.remarks.get(target.name, "")
    if word == "missed" and run.depth is not None and target.metric and run.depth < (target.metric.k or 0):
        why = "; ".join(part for part in (why, f"its lists end at k = {run.depth}") if part)
    return replace(
        line, word=word, value=value, delta=statistics.cluster_delta, ci95=statistics.ci95, ceiling=ceiling, why=why
    )


def _latency(run: Measured, target: Target) -> Line:
    line = Line(run.name, "target", target.name, target.label, "cannot tell", target.asked)
    value = latency_percentile(run, target.percentile or 50)
    if value is None:
        return replace(line, why="the run has no latencies: they are in the sidecar beside it", judged=False)
    return replace(line, word="met" if value <= target.asked else "missed", value=value)


def latency_percentile(run: Measured, percentile: int) -> float | None:
    """What the caller waited, in ms, linearly interpolated between queries, without the cold start: as in sidecars."""
    if run.sidecar is None:
        return None
    if waited := run.sidecar.warm_ms():
        return float(np.percentile(waited, percentile))
    return run.sidecar.latency_ms.get(TOTAL, {}).get(f"p{percentile}")


def _margin(test_set: TestSet, run: Measured, margin: Margin, baseline: Baseline) -> Line:
    name = margin.metric.name
    line = Line(run.name, "margin", name, margin.metric.label, "cannot tell", margin.asked, baseline=baseline.name)
    values = run.values if baseline.own is None else baseline.own
    if name not in values or name not in baseline.values:
        return replace(line, why="the test set has no domains", judged=False)
    of = _statistics(values[name], baseline.values[name], test_set)
    chance = None
    if of.standard_error is not None:
        deviation = of.standard_error * math.sqrt(of.clusters)
        chance = probability_unchanged_passes(deviation, of.clusters, margin.asked)
    word, why = _word(of, margin.asked)
    if baseline.itself:
        why = "it is held against itself, which shows nothing: keep the baseline in a folder of its own"
    if word != "cannot tell" and (unpooled := _unpooled(run, baseline, of)):
        word, why = "cannot tell", unpooled
    return replace(
        line,
        word=word,
        why=why,
        value=_mean(values[name]),
        baseline_value=_mean(baseline.values[name]),
        delta=of.cluster_delta,
        ci95=of.ci95,
        detectable=of.mdd,
        unchanged_passes=chance,
        clusters=of.clusters,
    )


def _word(of: PairStatistics, margin: float) -> tuple[Word, str]:
    """Not worse by the interval alone; regressed only where the loss is a difference by both tests of METHOD 4."""
    if of.clusters < 2:
        return "cannot tell", "a single independent question shows nothing"
    if non_inferior(of.ci95, margin):
        if of.ci95 is not None and of.ci95[0] == of.ci95[1] and not of.identical and not of.significant_at(ALPHA):
            # One and the same difference everywhere: the interval has no width, and a few questions prove nothing.
            return "cannot tell", "too few independent questions differ, and all by the same"
        return "not worse", "no question differs" if of.identical else ""
    if of.sign < 0 and of.significant_at(ALPHA):
        return "regressed", ""
    return "cannot tell", "the interval reaches below the margin, and the loss could be chance"


def _unpooled(run: Measured, baseline: Baseline, of: PairStatistics) -> str:
    """METHOD 6: who was never pooled, and is judged less than the other, can neither win nor lose."""
    if baseline.judged is None or of.identical:
        return ""
    sides = (
        (run.name, run.pooled, run.judged, baseline.judged),
        (baseline.name, baseline.pooled, baseline.judged, run.judged),
    )
    for name, pooled, own, other in sides:
        if pooled is False and own < other - UNPOOLED_GAP:
            return f"{name} was never pooled, and fewer of its documents are judged (judged@10 {own:.2f}, {other:.2f})"
    return ""


def _statistics(
    a: NDArray[np.float64], b: NDArray[np.float64], test_set: TestSet, *, randomise: bool = True
) -> PairStatistics:
    known = ~(np.isnan(a) | np.isnan(b))
    return paired(a[known], b[known], test_set.clusters[known], alpha=ALPHA, randomise=randomise)


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return math.fsum(known) / len(known)
