"""``kbeval history``: what was measured when. ``kbeval trend``: how it went."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kbeval.cli import options

app = typer.Typer(
    name="history",
    help="Lists the evaluated runs that were recorded; `kbeval history add RUN...` records more.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Engine = Annotated[str | None, typer.Option("--engine", help="Of this engine alone.")]


class Format(StrEnum):
    """How recorded runs are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@app.callback(invoke_without_command=True)
def history(
    context: typer.Context,
    engine: Engine = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="Also write them as Parquet.")] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.TABLE,
    config: options.Config = None,
) -> None:
    """Lists the evaluated runs that were recorded, oldest first."""
    if context.invoked_subcommand is not None:
        return
    from kbeval.config import load_project
    from kbeval.formats.text import write_atomically
    from kbeval.history import open_history
    from kbeval.history.recording import store_of
    from kbeval.report.history import history_csv, history_json, history_parquet, history_text

    project = load_project(config)
    with open_history(store_of(project), create=False) as store:
        entries = store.entries(engine=engine)
    if parquet is not None:
        write_atomically(parquet, history_parquet(entries))
    shown = list(dict.fromkeys([project.settings.compare.primary, "recall@10", "ndcg@10"]))
    text = {
        Format.TABLE: lambda: history_text(entries, shown),
        Format.JSON: lambda: history_json(entries),
        Format.CSV: lambda: history_csv(entries),
    }[output_format]()
    sys.stdout.write(text)
    sys.stdout.flush()


@app.command("add")
def add(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="TREC run files, plain or gzipped.")],
    qrels: Annotated[Path | None, typer.Option("--qrels", help="Judgments: a BEIR .tsv or a TREC qrels file.")] = None,
    dataset: options.DatasetFolder = None,
    split: options.Split = "test",
    level: Annotated[
        int | None,
        typer.Option("--relevance-level", min=1, max=options.MOST, help="From which grade on a document is relevant."),
    ] = None,
    config: options.Config = None,
) -> None:
    """Measures runs and records them; a run that is recorded already is left as it is."""
    from kbeval.cli.compare import open_runs, open_test_set
    from kbeval.config import load_project
    from kbeval.history import revision_of
    from kbeval.history.recording import record_runs, recorded_metrics, store_of

    project = load_project(config)
    test_set = open_test_set(project, qrels, dataset, split, level)
    sources = open_runs(runs, test_set, force=False)
    revision = revision_of(project.root)
    new = record_runs(store_of(project), sources, test_set, recorded_metrics(project.settings), revision)
    typer.echo(f"recorded {new} of {len(sources)} runs" + ("" if new == len(sources) else "; the others were already"))


def trend(
    metric: Annotated[str | None, typer.Option("--metric", help="Which metric; the primary one otherwise.")] = None,
    engine: Engine = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Also draw it as a picture.")] = None,
    config: options.Config = None,
) -> None:
    """Draws how a metric went from recorded run to run; the line breaks where test set or corpus changed."""
    from kbeval.config import load_project
    from kbeval.errors import KbevalError
    from kbeval.evaluation.metrics import parse_metric
    from kbeval.formats.text import write_atomically
    from kbeval.history import open_history
    from kbeval.history.recording import store_of
    from kbeval.report.trend import trend_svg, trend_text, trends

    project = load_project(config)
    name = parse_metric(metric or project.settings.compare.primary).name
    with open_history(store_of(project), create=False) as store:
        found = trends(store.entries(engine=engine), name)
        recorded = [] if found else [entry.engine for entry in store.entries()]
    if not found:
        engines = ", ".join(dict.fromkeys(recorded)) or "no run at all"
        raise KbevalError(f"expected recorded runs{f' of {engine}' if engine else ''} with {name}, found {engines}")
    if svg is not None:
        write_atomically(svg, trend_svg(found).encode())
    sys.stdout.write(trend_text(found))
    sys.stdout.flush()
