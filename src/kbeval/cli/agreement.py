"""``kbeval agreement``: how far people and models agree on the random sample."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbeval.cli import options


class Format(StrEnum):
    """How it is printed."""

    TABLE = "table"
    JSON = "json"


def agreement(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN...]", help="Runs whose differences are shown under both label sets."),
    ] = None,
    primary: Annotated[str | None, typer.Option("--primary", help="The metric of those differences.")] = None,
    level: Annotated[
        int | None,
        typer.Option("--relevance-level", min=1, max=3, help="From which grade on a document is relevant."),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    force: options.Force = False,
    config: options.Config = None,
) -> None:
    """Says how far people and models agree on the random sample: kappa and positive agreement, with intervals."""
    from kbeval.config import load_project
    from kbeval.evaluation.label_sets import FEWER_THAN
    from kbeval.report.agreement import (
        GATE_NOTE,
        LABEL_SETS_NOTE,
        agreement_json,
        agreement_table,
        label_sets_table,
    )
    from kbeval.report.tables import as_text
    from kbeval.testset.agreement import measure_project

    project = load_project(config)
    measured = measure_project(project, runs or [], primary=primary, level=level, force=force)
    for warning in measured.warnings:
        options.warn(warning)
    if output_format is Format.JSON:
        sys.stdout.write(agreement_json(measured.raters, measured.pairs, measured.metric.name).decode())
        return
    typer.echo(as_text(agreement_table(measured.raters)) + GATE_NOTE)
    if measured.pairs:
        typer.echo("\n" + as_text(label_sets_table(measured.pairs, measured.metric.label)) + LABEL_SETS_NOTE)
    elif len(runs or []) >= FEWER_THAN:
        typer.echo(f"\n{len(runs or [])} runs: differences of pairs are shown for fewer than {FEWER_THAN}.")
