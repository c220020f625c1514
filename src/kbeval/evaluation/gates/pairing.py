"""Runs and what each of them may not be worse than, measured together: at one depth, and with a warning where not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.evaluation.gates.judging import Baseline
from kbeval.evaluation.gates.measuring import Measured, measure_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.gates.asked import Margin, Target
    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.test_set import TestSet


@dataclass(frozen=True)
class MeasuredPairs:
    """Runs, measured, and the baseline of each one that has one, by the run's name."""

    runs: Sequence[Measured]
    baselines: Mapping[str, Baseline]
    warnings: Sequence[str] = ()


def measure_pairs(
    test_set: TestSet,
    sources: Sequence[RunSource],
    bases: Sequence[RunSource],
    targets: Sequence[Target],
    margins: Sequence[Margin],
) -> MeasuredPairs:
    """Measures runs on what is asked of them, and their baselines with them.

    Args:
        test_set: what they are measured on.
        sources: the runs.
        bases: for each run what it is held against, in the same order; empty where there is none. A run may stand on
            both sides: it is measured once, and never held against itself.
        targets, margins: whose metrics are measured.

    Raises:
        KbevalError: a run and its baseline declare different depths, or as ``measure_runs``.
    """
    pairs = list(zip(sources, bases, strict=True)) if bases else []
    for source, other in pairs:
        _same_depth(source, other)
    opened = list({id(source): source for source in [*sources, *bases]}.values())
    asked: list[Metric] = [target.metric for target in targets if target.metric] + [m.metric for m in margins]
    # A run without a sidecar is cut where its baseline was, and the other way round.
    declared = [source.sidecar.k for source in opened if source.sidecar]
    measured = measure_runs(test_set, opened, asked, depth=min(declared) if declared and pairs else None)
    by_name = {one.name: one for one in measured}
    baselines: dict[str, Baseline] = {}
    warnings = []
    for source, other in pairs:
        if source is other:
            continue
        run, base = by_name[source.name], by_name[other.name]
        if (source.sidecar is None or other.sidecar is None) and run.longest != base.longest:
            warnings.append(
                f"{run.name} and its baseline {base.name} differ in depth ({run.longest} and {base.longest} "
                f"documents): metrics without a cut-off are not comparable"
            )
        baselines[run.name] = Baseline(base.name, base.values, len(base.errors), base.judged, base.pooled, origin="run")
    return MeasuredPairs(measured[: len(sources)], baselines, warnings)


def _same_depth(source: RunSource, base: RunSource) -> None:
    if source.sidecar and base.sidecar and source.sidecar.k != base.sidecar.k:
        raise KbevalError(
            f"run {source.name}: expected the depth of its baseline {base.name} (k = {base.sidecar.k}), found "
            f"k = {source.sidecar.k}; run one of them again"
        )
