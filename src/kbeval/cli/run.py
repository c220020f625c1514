"""``kbeval run``: asks engines every question of a test set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbeval.cli import options
from kbeval.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.running.session import Finished


def run(
    engine: options.Engines = None,
    preset: options.Presets = None,
    dataset: options.DatasetFolder = None,
    split: options.Split = "test",
    k: options.K = 20,
    out: Annotated[Path | None, typer.Option("--out", help="Where the runs go; runs/ otherwise.")] = None,
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
    config: options.Config = None,
) -> None:
    """Answers every question of the test set with each engine, and writes its run and the run's sidecar."""
    from kbeval.cli.engines import chosen_engines
    from kbeval.cli.processes import other_processes
    from kbeval.config import load_project
    from kbeval.errors import KbevalError
    from kbeval.progress import on_standard_error
    from kbeval.running.policy import policy_of
    from kbeval.running.session import run_engines
    from kbeval.testset.project import level_of, open_dataset

    project = load_project(config)
    if not engine and not preset:
        known = ", ".join(project.settings.engines)
        raise KbevalError(f"run: expected --engine [NAME=]SPEC (configured: {known}) or --preset, found none")
    plans = chosen_engines(project, engine, preset, assignments)
    data = open_dataset(project, dataset, split)
    for warning in data.warnings:
        options.warn(warning)
    with other_processes(workers, scheduler, concurrency) as others:
        finished = run_engines(
            plans,
            data,
            out or project.root / "runs",
            root=project.root,
            k=k,
            level=level_of(project, data),
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
    raise typer.Exit(report(finished))


def report(finished: Sequence[Finished]) -> int:
    """Says how each run went, and returns the exit code: 1 where an engine failed on a query."""
    for one in finished:
        counts = one.outcomes.counts()
        typer.echo(
            f"{one.name}: {counts['queries']} questions, {counts['errored']} errored, "
            f"{counts['empty']} answered with nothing"
        )
        for query, line in list(one.outcomes.errors.items())[:5]:
            typer.echo(f"  error on {printable(query)}: {printable(line)}")
        if counts["errored"] > 5:
            typer.echo(f"  and {counts['errored'] - 5} more: see {options.shown(one.path.with_suffix('.json'))}")
    warn_of(finished)
    typer.echo("")
    show_times(finished)
    typer.echo("")
    for one in finished:
        typer.echo(f"wrote {options.shown(one.path)} and {options.shown(one.path.with_suffix('.json'))}")
    return 1 if any(one.outcomes.errors for one in finished) else 0


def warn_of(finished: Sequence[Finished]) -> None:
    """What is odd about how runs went, on standard error."""
    for one in finished:
        counts = one.outcomes.counts()
        if counts["repeated_documents"]:
            options.warn(f"{one.name}: {counts['repeated_documents']} results repeated a document of their answer")
        if counts["unknown_documents"]:
            first = one.outcomes.unknown_documents[0]
            options.warn(
                f"{one.name}: it returned ids that are no document's of the corpus: {counts['unknown_documents']}, "
                f"{first!r} for one"
            )
        if counts["rising_scores"]:
            options.warn(
                f"{one.name}: {counts['rising_scores']} answers hold a document with a higher score than one before "
                "it: their order is taken for the ranking, and the scores are lowered to say the same"
            )
        if counts["filters_not_taken"]:
            options.warn(
                f"{one.name}: it takes no filters: {counts['filters_not_taken']} questions that have some were asked "
                "without"
            )
        if one.facts.get("retries"):
            options.warn(f"{one.name}: {one.facts['retries']} of {one.facts['requests']} requests repeated another")
        if one.facts.get("questions_below_k"):
            options.warn(
                f"{one.name}: {one.facts['questions_below_k']} questions got fewer documents than were asked for, and "
                "it cannot be asked for more"
            )
        if one.outcomes.whole is not None:
            options.warn(
                f"{one.name}: partial: {counts['queries']} of {one.outcomes.whole} questions, seeded sample (--limit)"
            )
        if one.outcomes.incomplete is not None:
            options.warn(
                f"{one.name}: incomplete: {one.outcomes.incomplete}; {counts['not_asked']} questions were not asked"
            )
        if one.journal is not None and one.journal.exists():
            options.warn(
                f"{one.name}: its answers are kept in {options.shown(one.journal)}: with --resume the same command "
                "asks only the questions that have none"
            )


def show_times(finished: Sequence[Finished]) -> None:
    """Latencies by stage, the cold start, throughput, and what was used, on standard output."""
    from kbeval.report.latency import latency_table, run_sentences
    from kbeval.report.tables import as_text

    typer.echo(as_text(latency_table([one.outcomes for one in finished])), nl=False)
    for one in finished:
        for sentence in run_sentences(one.outcomes, one.policy):
            typer.echo(f"{one.name}: {sentence}")
