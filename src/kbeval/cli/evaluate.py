"""``kbeval evaluate``: export, run every configured engine, compare. What a newcomer runs first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbeval.cli import options


def evaluate(
    engine: options.Engines = None,
    preset: options.Presets = None,
    dataset: options.DatasetFolder = None,
    split: options.Split = "test",
    k: options.K = 20,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where runs/ and results/ go; the project's root, or out/NAME for --dataset."),
    ] = None,
    dsn: options.Dsn = None,
    assignments: options.Assignments = None,
    concurrency: options.Concurrency = None,
    timeout: options.Timeout = None,
    max_failures: options.MaxFailures = None,
    workers: options.Processes = None,
    scheduler: options.Scheduler = None,
    limit: options.Limit = None,
    resume: options.Resume = False,
    max_cost: options.MaxCost = None,
    escape_ids: Annotated[
        bool, typer.Option("--escape-ids", help="Percent-encode blanks in ids, which TREC files cannot hold.")
    ] = False,
    record: Annotated[
        bool | None,
        typer.Option("--record/--no-record", help="Record the runs in the history; [history] record otherwise."),
    ] = None,
    config: options.Config = None,
) -> None:
    """Exports the data set, runs every configured engine on it, and compares them."""
    from kbeval.cli.compare import Format, compare_sources, open_runs, show
    from kbeval.cli.engines import chosen_engines
    from kbeval.cli.processes import other_processes
    from kbeval.cli.run import show_times, warn_of
    from kbeval.config import load_project
    from kbeval.evaluation.partial import how_partial
    from kbeval.evaluation.test_set import from_dataset
    from kbeval.formats.dataset import write_dataset
    from kbeval.history import revision_of
    from kbeval.history.recording import record_runs, recorded_metrics, store_of
    from kbeval.progress import on_standard_error
    from kbeval.report.write import write_results
    from kbeval.running.policy import policy_of
    from kbeval.running.session import run_engines
    from kbeval.testset.project import level_of, open_dataset, require_judgments

    project = load_project(config)
    plans = chosen_engines(project, engine, preset, assignments)
    data = open_dataset(project, dataset, split)
    for warning in data.warnings:
        options.warn(warning)
    require_judgments(data)
    level = level_of(project, data)
    foreign = dataset is not None and dataset.resolve() != project.root
    recording = project.settings.history.record if record is None else record
    metrics = recorded_metrics(project.settings) if recording else []
    # Before anything is written: what an evaluation writes is no change of what is evaluated.
    revision = revision_of(project.root) if recording else None
    target = out or (project.root / "out" / dataset.resolve().name if foreign and dataset else project.root)
    written: list[Path] = []
    if not foreign:
        written += write_dataset(
            target,
            data.documents,
            data.asked,
            data.qrels,
            layout="plain" if out else "project",
            escape_ids=escape_ids,
        )
    with other_processes(workers, scheduler, concurrency) as others:
        finished = run_engines(
            plans,
            data,
            target / "runs",
            root=project.root,
            k=k,
            level=level,
            dsn=dsn or project.settings.store.dsn,
            progress=on_standard_error(),
            escape_ids=escape_ids,
            policy=policy_of(
                project.settings.run,
                project.settings.prices,
                concurrency=concurrency,
                timeout_s=timeout,
                max_failures_in_a_row=max_failures,
                max_cost=max_cost,
                resume=resume,
                limit=limit,
            ),
            say=options.say,
            workers=others,
        )
    warn_of(finished)
    test_set = from_dataset(data, level=level)
    sources = open_runs([one.path for one in finished], test_set, force=False)
    comparison = compare_sources(project, test_set, sources)
    written += [path for one in finished for path in (one.path, one.path.with_suffix(".json"))]
    written += write_results(comparison, target / "results")
    if revision is not None:
        whole = [source for source in sources if how_partial(source.sidecar) is None]
        record_runs(store_of(project, target), whole, test_set, metrics, revision)
    show(comparison, Format.TABLE)
    show_times(finished)
    typer.echo("")
    typer.echo(f"wrote {', '.join(options.shown(path) for path in written)}")
    raise typer.Exit(1 if any(one.outcomes.errors for one in finished) else 0)
