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

    Each run's targets are measured at its own depth. For margins a run without a sidecar is cut where the other of the
    two was: a pair is no other pair's business.

    Args:
        test_set: what they are measured on.
        sources: the runs.
        bases: for each run what it is held against, in the same order; empty where there is none. A run may stand on
            both sides: it is not held against itself where others are, and where none is it is said.
        targets, margins: whose metrics are measured.

    Raises:
        KbevalError: a run and its baseline declare different depths, or as ``measure_runs``.
    """
    pairs = list(zip(sources, bases, strict=True)) if bases else []
    for source, other in pairs:
        _same_depth(source, other)
    opened = list({id(source): source for source in [*sources, *bases]}.values())
    asked: list[Metric] = [target.metric for target in targets if target.metric] + [m.metric for m in margins]
    measured = measure_runs(test_set, opened, asked)
    by_name = {one.name: one for one in measured}
    shared = {id(other) for source, other in pairs if source is not other}
    cut: dict[tuple[str, int], Measured] = {}

    def at(source: RunSource, depth: int | None) -> Measured:
        """A run as it is at the depth of its pair."""
        whole = by_name[source.name]
        if source.sidecar is not None or depth is None or whole.longest <= depth:
            return whole
        if (source.name, depth) not in cut:
            cut[source.name, depth] = measure_runs(test_set, [source], asked, depth=depth)[0]
        return cut[source.name, depth]

    baselines: dict[str, Baseline] = {}
    warnings = []
    for source, other in pairs:
        if source is other and id(other) in shared:
            continue
        if source is other:
            warnings.append(
                f"run {source.name} is held against itself, which passes whatever it is: keep the baseline in a "
                "folder of its own"
            )
        declared = next((each.sidecar.k for each in (source, other) if each.sidecar), None)
        run, base = at(source, declared), at(other, declared)
        if (source.sidecar is None or other.sidecar is None) and run.longest != base.longest:
            warnings.append(
                f"{run.name} and its baseline {base.name} differ in depth ({run.longest} and {base.longest} "
                f"documents): metrics without a cut-off are not comparable"
            )
        baselines[run.name] = Baseline(
            base.name,
            base.values,
            len(base.errors),
            base.judged,
            base.pooled,
            origin="run",
            own=None if run is by_name[source.name] else run.values,
            itself=source is other,
        )
    return MeasuredPairs(measured[: len(sources)], baselines, warnings)


def _same_depth(source: RunSource, base: RunSource) -> None:
    if source.sidecar and base.sidecar and source.sidecar.k != base.sidecar.k:
        raise KbevalError(
            f"run {source.name}: expected the depth of its baseline {base.name} (k = {base.sidecar.k}), found "
            f"k = {source.sidecar.k}; run one of them again"
        )
