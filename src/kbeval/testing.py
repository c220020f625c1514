"""Engines held to targets and baselines from a test: what the fixture ``kbeval_evaluate`` gives."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kbeval.config import load_project
from kbeval.engines.python import PythonEngine, PythonSettings
from kbeval.engines.registry import EnginePlan, default_name
from kbeval.errors import KbevalError
from kbeval.evaluation.comparison import RunSource, read_source
from kbeval.evaluation.default_metrics import choose_metrics
from kbeval.evaluation.gates import Check, Policy, check_run, measure_pairs, measure_runs, read_margins, read_targets
from kbeval.evaluation.provenance import check_provenance, require_whole
from kbeval.evaluation.test_set import TestSet, from_dataset
from kbeval.formats.sidecar import read_sidecar, sidecar_path
from kbeval.formats.trec import run_name
from kbeval.inputs import as_run
from kbeval.inputs.frames import is_frame
from kbeval.model import Run
from kbeval.report.failing import failing_text
from kbeval.report.gate_words import sentence, title
from kbeval.testset.project import level_of, open_dataset, require_judgments

if TYPE_CHECKING:
    from kbeval.config import Project
    from kbeval.engines.base import BuildContext
    from kbeval.formats.dataset import Dataset

DEPTH = 20


class GateWarning(UserWarning):
    """What a test that passes must say all the same: a target out of reach, or too few questions to tell."""


@dataclass(frozen=True)
class Evaluated:
    """An engine's run on a test set.

    Attributes:
        project: whose settings say which metrics are reported, and which words fail.
        test_set: what it was measured on.
        source: the run; a file where an engine was asked.
    """

    project: Project
    test_set: TestSet
    source: RunSource

    @cached_property
    def metrics(self) -> Mapping[str, float]:
        """The mean of each metric of ``[compare] metrics``, or of kbeval's defaults, by its name."""
        settings = self.project.settings.compare
        chosen, _ = choose_metrics(None, settings.metrics, settings.primary)
        return MappingProxyType(dict(measure_runs(self.test_set, [self.source], chosen)[0].means))

    @property
    def errors(self) -> Mapping[str, str]:
        """The questions on which the engine failed, and why. Each counts with 0."""
        return self.source.sidecar.errors if self.source.sidecar else {}

    @property
    def run_file(self) -> Path | None:
        """The run in TREC's format, its sidecar beside it; None where a run in memory was given."""
        return self.source.origin if isinstance(self.source.origin, Path) else None

    def assert_targets(self, targets: Mapping[str, float] | None = None) -> None:
        """Holds it to floors for metrics (``mrr``), and ceilings in milliseconds for latencies (``latency_p95_ms``).

        Args:
            targets: by name; those of ``[targets]`` in kbeval.toml without it.

        Raises:
            AssertionError: one is missed, or the engine failed on a question.
            KbevalError: an unknown name, a value that none can have, or nothing to hold it to.
        """
        __tracebackhide__ = True
        asked = self.project.settings.targets if targets is None else targets
        self._hold(asked, {}, None)

    def assert_not_worse(self, baseline: Any, margins: Mapping[str, float] | None = None) -> None:
        """Holds it to a baseline: the 95% interval of the difference must lie above minus the margin.

        A loss that may be chance does not fail: it warns, as ``cannot tell``, unless ``[check]`` says otherwise.

        Args:
            baseline: the file of a run, a run in memory, or what ``kbeval_evaluate`` gave for another engine.
            margins: by metric; those of ``[margins]`` in kbeval.toml without it.

        Raises:
            AssertionError: it is worse, or one of the two engines failed on a question.
            KbevalError: as ``assert_targets``; other depths, another corpus or other questions.
        """
        __tracebackhide__ = True
        allowed = self.project.settings.margins if margins is None else margins
        other = baseline.source if isinstance(baseline, Evaluated) else _source(baseline)
        if other is None:
            raise KbevalError(f"baseline: expected a run, its file or an evaluated engine, found {baseline!r}")
        if other.name == self.source.name:
            other = replace(other, name=f"baseline {other.name}")
        _refuse_foreign([self.source, other], self.test_set)
        self._hold({}, allowed, other)

    def _hold(self, targets: Mapping[str, float], margins: Mapping[str, float], baseline: RunSource | None) -> None:
        __tracebackhide__ = True
        for metric, number in [*targets.items(), *margins.items()]:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise KbevalError(f"the test: {metric}: expected a number, found {number!r}")
        floors, allowed = read_targets(targets, "the test"), read_margins(margins, "the test")
        if not floors and not allowed:
            what = "target" if baseline is None else "margin"
            raise KbevalError(f"expected at least one {what}, in the test or in [{what}s] of kbeval.toml, found none")
        bases = [] if baseline is None else [baseline]
        found = measure_pairs(self.test_set, [self.source], bases, floors, allowed)
        run = found.runs[0]
        lines = check_run(self.test_set, run, floors, allowed, found.baselines.get(run.name))
        if not any(line.judged for line in lines):
            raise KbevalError(f"nothing could be judged: {'; '.join(f'{line.label}: {line.why}' for line in lines)}")
        settings = self.project.settings.check
        policy = Policy(settings.unreachable == "fail", settings.cannot_tell == "fail")
        check = Check(self.test_set, found.runs, found.baselines, lines, policy)
        for warning in found.warnings:
            warnings.warn(warning, GateWarning, stacklevel=3)
        if not check.passed:
            raise AssertionError(failing_text(check, read_source(self.source)))
        for line in lines:
            if line.word in ("unreachable", "cannot tell") or line.rarely_passes:
                warnings.warn(f"{line.run}: {line.word}: {title(line)}: {sentence(line)}", GateWarning, stacklevel=3)


def evaluate_engine(
    engine: Any,
    dataset: str | os.PathLike[str] | None = None,
    *,
    folder: Path,
    k: int = DEPTH,
    split: str = "test",
    name: str | None = None,
    config: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Evaluated:
    """Asks an engine every question of a test set, or takes a run as it is.

    Args:
        engine: a function ``(query, k)``; an object with ``retrieve`` or ``invoke``, async too; an engine
            of kbeval.toml by its name, or any SPEC of ``kbeval run --engine``; or a run: its file, a dict, a
            frame or a ``kbeval.Run``.
        dataset: a folder in BEIR's layout; the project's own corpus and questions without it.
        folder: where the run of an engine is written.
        k: how many documents are asked for.
        split: which judgments of the folder.
        name: what the run is called.
        config: the settings file; kbeval.toml of the working folder, or the nearest above, without it.
        settings: the engine's, such as ``id_from="metadata.doc_id"``.

    Raises:
        KbevalError: it is none of these; the data set cannot be read, or has no judgment.
    """
    project = load_project(None if config is None else Path(config))
    data = open_dataset(project, None if dataset is None else Path(dataset), split)
    require_judgments(data)
    test_set = from_dataset(data, level=level_of(project, data))
    source = _source(engine)
    if source is None:
        source = _asked(_plan(project, engine, name, settings), project, data, folder, k, test_set.level)
    elif settings:
        raise KbevalError(f"{next(iter(settings))}: expected no setting for a run, which is taken as it is")
    elif name is not None:
        source = replace(source, name=name)
    _refuse_foreign([source], test_set)
    return Evaluated(project, test_set, source)


def _source(given: Any) -> RunSource | None:
    """A run as it is; None where ``given`` is none."""
    if isinstance(given, os.PathLike) or (isinstance(given, str) and Path(given).is_file()):
        path = Path(given)
        own = run_name(path)
        return RunSource(own, path, read_sidecar(sidecar_path(path, own)))
    if isinstance(given, (Mapping, Run)) or is_frame(given):
        run = as_run(given)
        return RunSource(run.name, run)
    return None


def _refuse_foreign(sources: list[RunSource], test_set: TestSet) -> None:
    if problems := check_provenance(sources, test_set, force=True):
        raise KbevalError(f"{problems[0]}: what was measured on other data can be held to nothing; run it again")
    require_whole(sources)


class _Given:
    """Stands where a plan has an engine's class: what it builds is there already."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def build(self, settings: PythonSettings, context: BuildContext) -> PythonEngine:  # noqa: ARG002
        return PythonEngine(settings, self._target)


def _plan(project: Project, engine: Any, name: str | None, settings: Mapping[str, Any]) -> EnginePlan:
    from kbeval.cli.engines import chosen_engines

    if isinstance(engine, str):
        spec = engine if name is None else f"{name}={engine}"
        return chosen_engines(project, [spec], None, [f"{key}={_text(value)}" for key, value in settings.items()])[0]
    of = engine if hasattr(engine, "__qualname__") else type(engine)
    called = f"{getattr(of, '__module__', '')}:{getattr(of, '__qualname__', type(engine).__name__)}"
    own = name or default_name(called.rpartition(".")[2].rpartition(":")[2])
    try:
        chosen = PythonSettings(object=called, **settings)
    except ValueError as error:
        raise KbevalError(f"engine {own}: {' '.join(str(error).split())}") from None
    return EnginePlan(own, chosen, _Given(engine))


def _text(value: Any) -> str:
    """A setting as ``--set`` takes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _asked(plan: EnginePlan, project: Project, data: Dataset, folder: Path, k: int, level: int) -> RunSource:
    from kbeval.progress import Silent
    from kbeval.running.policy import policy_of
    from kbeval.running.session import run_engines

    settings = project.settings
    finished = run_engines(
        [plan],
        data,
        folder,
        root=project.root,
        k=k,
        level=level,
        dsn=settings.store.dsn,
        progress=Silent(),
        policy=policy_of(settings.run, settings.prices),
    )
    path = finished[0].path
    return RunSource(plan.name, path, read_sidecar(sidecar_path(path, plan.name)))
