"""``kbeval doctor``: looks files over, and asks a second tool."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbeval.cli import options

EXIT_BROKEN = 2


class Format(StrEnum):
    """How the findings are printed."""

    TEXT = "text"
    JSON = "json"


def doctor(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="TREC run files, plain or gzipped.")],
    qrels: Annotated[Path, typer.Option("--qrels", help="Judgments: a BEIR .tsv or a TREC qrels file.")],
    dataset: options.DatasetFolder = None,
    split: options.Split = "test",
    level: Annotated[
        int | None,
        typer.Option("--relevance-level", min=1, max=options.MOST, help="From which grade on a document is relevant."),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to print the findings.")] = Format.TEXT,
    config: options.Config = None,
) -> None:
    """Checks runs and judgments without writing anything: ties, ids on one side only, pytrec_eval's numbers.

    Ends with 2 where a file is broken, or pytrec_eval gives another number.
    """
    import orjson

    from kbeval.config import load_project
    from kbeval.doctor import examine

    at = level or load_project(config).settings.test_set.level or 1
    reports = examine(qrels, runs, level=at, dataset_folder=dataset, split=split)
    if output_format is Format.JSON:
        data = {"files": [report.as_dict() for report in reports]}
        typer.echo(orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode())
    else:
        for report in reports:
            typer.echo(report.file)
            for finding in report.findings:
                typer.echo(f"  {finding.mark:<8} {finding.text}")
    raise typer.Exit(EXIT_BROKEN if any(report.is_broken for report in reports) else 0)
