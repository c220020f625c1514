"""``kbeval review``: a local page on which a person labels."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbeval.cli import options


class QueueName(StrEnum):
    """Where a review begins."""

    DISPUTED = "disputed"
    AGREEMENT = "agreement"
    MISSES = "misses"
    UNLABELLED = "unlabelled"
    ALL = "all"


def review(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN...]", help="Runs whose first documents are shown, and whose misses are marked."),
    ] = None,
    reviewer: Annotated[
        str | None, typer.Option("--reviewer", help="Whose grades they are; the name of this account otherwise.")
    ] = None,
    queue: Annotated[QueueName, typer.Option("--queue", help="Where to begin; all shows every queue.")] = QueueName.ALL,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=0,
            max=options.MOST,
            help="Pairs in the random sample for agreement; 100, and at most half of what a model graded, otherwise.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=options.MOST, help="Of that sample; the same for every reviewer.")
    ] = 0,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0 takes a free port.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, and open nothing.")] = False,
    config: options.Config = None,
) -> None:
    """Opens a page on this machine to label on: disputed labels, a random sample, misses, questions without labels."""
    import webbrowser

    from kbeval.config import load_project
    from kbeval.testset.review.serve import listen, require_packages, reviewer_name, serve

    require_packages()
    from kbeval.testset.review.opening import open_review, run_sources, summary

    project = load_project(config)
    name = reviewer_name(reviewer)
    sources, warnings = run_sources(runs or [])
    opened = open_review(project, sources, reviewer=name, sample=sample, seed=seed)
    for warning in [*warnings, *opened.warnings]:
        options.warn(warning)
    listening = listen(port)

    def ready(address: str) -> None:
        typer.echo(f"label here, as {name}: {address}")
        typer.echo("every answer is saved at once; Ctrl-C ends it")
        if not no_browser:
            webbrowser.open(address)

    serve(opened.session, opened.passages, listening, first=queue.value, ready=ready)
    for line in summary(opened.session):
        typer.echo(line)
    typer.echo(f"labels are in {options.shown(project.path(project.settings.test_set.labels))}")
