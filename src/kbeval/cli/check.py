"""``kbeval check``: yes or no."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbeval.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kbeval.config import Project
    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.gates import Baseline, Margin, Measured, Target
    from kbeval.evaluation.test_set import TestSet

HISTORY = "history"


class Format(StrEnum):
    """How the outcome is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    GITHUB = "github"


def check(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="TREC run files, plain or gzipped.")],
    qrels: Annotated[Path | None, typer.Option("--qrels", help="Judgments: a BEIR .tsv or a TREC qrels file.")] = None,
    dataset: options.DatasetFolder = None,
    split: options.Split = "test",
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="RUN|FOLDER|history",
            help="What no run may be worse than: a run, a folder with a run of each one's own file name, or history: "
            "the newest recorded run of the same engine on the same test set.",
        ),
    ] = None,
    level: Annotated[
        int | None,
        typer.Option("--relevance-level", min=1, max=options.MOST, help="From which grade on a document is relevant."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Also record the runs in the history, where the check passes.")
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML.")] = None,
    summary: Annotated[
        Path | None,
        typer.Option("--summary", help="Also append Markdown to this file: $GITHUB_STEP_SUMMARY, say."),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to print the outcome.")] = Format.TEXT,
    config: options.Config = None,
) -> None:
    """Holds runs to the [targets] and, against a baseline, to the [margins] of kbeval.toml.

    Ends with 1 where a target is missed, a run is worse than its margin allows, or an engine failed on a question.
    """
    from kbeval.cli.compare import open_test_set
    from kbeval.config import load_project
    from kbeval.errors import KbevalError
    from kbeval.evaluation.gates import Check, Policy, check_run, read_margins, read_targets
    from kbeval.formats.text import write_atomically
    from kbeval.report.annotations import gate_annotations
    from kbeval.report.gate import gate_json, gate_markdown, gate_text
    from kbeval.report.junit import junit_xml

    project = load_project(config)
    shown = options.shown(project.file) if project.file else "kbeval.toml"
    settings = project.settings
    targets, margins = read_targets(settings.targets, shown), read_margins(settings.margins, shown)
    if not targets and baseline is None:
        raise KbevalError(
            f"there is nothing to hold runs to: set floors in [targets] of {shown} (mrr = 0.85), or name a --baseline "
            f"and set [margins] (mrr = 0.05)"
        )
    if baseline is not None and not margins:
        raise KbevalError(
            f"{shown}: expected a margin in [margins] for at least one metric (mrr = 0.05), as there is a --baseline "
            f"and no margin is right for everyone; found none"
        )
    test_set = open_test_set(project, qrels, dataset, split, level)
    measured, baselines = _measured(project, test_set, runs, baseline, targets, margins)
    lines = [line for run in measured for line in check_run(test_set, run, targets, margins, baselines.get(run.name))]
    if not any(line.judged for line in lines):
        why = "; ".join(dict.fromkeys(f"{line.label}: {line.why}" for line in lines))
        raise KbevalError(f"nothing could be judged: {why or 'no run has a target or a baseline'}")
    policy = Policy(settings.check.unreachable == "fail", settings.check.cannot_tell == "fail")
    found = Check(test_set, measured, baselines, lines, policy)
    for run in measured:
        for warning in run.warnings:
            options.warn(f"{run.name}: {warning}")
    made: Callable[[], str] = {
        Format.TEXT: lambda: gate_text(found),
        Format.MARKDOWN: lambda: gate_markdown(found),
        Format.JSON: lambda: gate_json(found),
        Format.GITHUB: lambda: gate_annotations(found),
    }[output_format]
    text = made()
    if junit is not None:
        write_atomically(junit, junit_xml(found))
    if summary is not None:
        _append(summary, gate_markdown(found))
    sys.stdout.write(text)
    sys.stdout.flush()
    if record and found.passed:
        _record(project, test_set, runs)
    elif record:
        # The newest recorded run is what the next one is held against: a lowered bar is none.
        options.warn("--record: nothing was recorded, as the check failed")
    raise typer.Exit(0 if found.passed else 1)


def _measured(
    project: Project,
    test_set: TestSet,
    paths: Sequence[Path],
    baseline: Path | None,
    targets: Sequence[Target],
    margins: Sequence[Margin],
) -> tuple[list[Measured], dict[str, Baseline]]:
    """The runs, and for each the baseline that it is held against."""
    from kbeval.evaluation.gates import measure_pairs

    from_history = baseline is not None and str(baseline) == HISTORY
    bases = [] if baseline is None or from_history else [_baseline_of(path, baseline) for path in paths]
    # A baseline may be one of the runs; it is read once.
    own = {path.resolve() for path in paths}
    others = list(dict.fromkeys(path for path in bases if path.resolve() not in own))
    opened = _open(paths, test_set, others)
    sources = opened[: len(paths)]
    by_path = {path.resolve(): source for path, source in zip([*paths, *others], opened, strict=True)}
    found = measure_pairs(test_set, sources, [by_path[path.resolve()] for path in bases], targets, margins)
    for warning in found.warnings:
        options.warn(warning)
    if not from_history:
        return list(found.runs), dict(found.baselines)
    by_name = {one.name: one for one in found.runs}
    return list(found.runs), _from_history(project, test_set, sources, by_name, margins)


def _from_history(
    project: Project,
    test_set: TestSet,
    sources: Sequence[RunSource],
    measured: Mapping[str, Measured],
    margins: Sequence[Margin],
) -> dict[str, Baseline]:
    """For each run the newest recorded one of its engine: on the same ground, without errors, and not the run itself.

    One with errors is passed over, as a lowered bar is none; so is one of version 1, which has no values by query.
    """
    from kbeval.errors import KbevalError
    from kbeval.evaluation.gates import Baseline
    from kbeval.history import open_history
    from kbeval.history.entry import content_of
    from kbeval.history.recording import key_of, store_of

    baselines = {}
    with open_history(store_of(project), create=False) as history:
        for source in sources:
            run, own = measured[source.name], key_of(source, test_set)
            sidecar = source.sidecar
            corpus = sidecar.corpus_hash if sidecar else test_set.corpus_hash
            queries = sidecar.queries_hash if sidecar else test_set.queries_hash
            ground = (test_set.hash, corpus, queries)
            found = [
                entry
                for entry in history.entries(engine=run.engine)
                if content_of(entry.key) != own
                and entry.ground == ground
                and entry.values is not None
                and not entry.errored
            ]
            if not found:
                raise KbevalError(
                    f"run {run.name}: expected an earlier recorded run of engine {run.engine} on this test set, corpus "
                    f"and questions without errors, found none; record one: kbeval history add RUN"
                )
            entry = found[-1]
            if entry.k != (sidecar.k if sidecar else None):
                raise KbevalError(
                    f"run {run.name}: expected the depth of its baseline, recorded {entry.when} (k = {entry.k}), found "
                    f"k = {sidecar.k if sidecar else None}; run it again"
                )
            values = entry.values or {}
            lacking = next((m.metric.name for m in margins if m.metric.name not in values), None)
            if lacking is not None and lacking in run.values:
                raise KbevalError(
                    f"run {run.name}: expected {lacking} in its baseline, recorded {entry.when}, found "
                    f"{', '.join(values)}; record that run again: kbeval history add RUN"
                )
            if sidecar is None:
                options.warn(
                    f"{run.name} and its baseline, recorded {entry.when}, have no sidecars that name their depths: "
                    "where these differ, metrics without a cut-off are not comparable"
                )
            commit = f" at {entry.commit[:10]}" if entry.commit else ""
            origin = f"recorded {entry.when}{commit}"
            baselines[run.name] = Baseline(f"{entry.run} {origin}", values, origin=origin)
    return baselines


def _record(project: Project, test_set: TestSet, paths: Sequence[Path]) -> None:
    from kbeval.history import revision_of
    from kbeval.history.recording import record_runs, recorded_metrics, store_of

    sources = _open(paths, test_set)
    record_runs(store_of(project), sources, test_set, recorded_metrics(project.settings), revision_of(project.root))


def _baseline_of(run: Path, baseline: Path) -> Path:
    from kbeval.errors import KbevalError

    if not baseline.is_dir():
        return baseline
    path = baseline / run.name
    if not path.is_file():
        raise KbevalError(f"--baseline {baseline}: expected a run named {run.name} in it, found none")
    return path


def _open(paths: Sequence[Path], test_set: TestSet, baselines: Sequence[Path] = ()) -> list[RunSource]:
    """The runs with their sidecars, refused where one names another corpus or other questions.

    Runs are named among themselves, so that what they are called does not depend on where a baseline lies.
    """
    from kbeval.errors import KbevalError
    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.provenance import check_provenance, require_whole
    from kbeval.formats.sidecar import read_sidecar, sidecar_path
    from kbeval.formats.trec import run_name, run_names

    names = run_names(paths)
    names += [f"baseline {name}" if name in names else name for name in (run_names(baselines) if baselines else ())]
    sources = [
        RunSource(name, path, read_sidecar(sidecar_path(path, run_name(path))))
        for name, path in zip(names, [*paths, *baselines], strict=True)
    ]
    if problems := check_provenance(sources, test_set, force=True):
        raise KbevalError(f"{problems[0]}: what was measured on other data can be held to nothing; run it again")
    require_whole(sources)
    return sources


def _append(path: Path, text: str) -> None:
    from kbeval.errors import KbevalError

    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as error:
        raise KbevalError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
