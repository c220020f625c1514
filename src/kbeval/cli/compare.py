"""``kbeval compare``: runs side by side, whoever made them."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbeval.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.config import Project
    from kbeval.evaluation.comparison import Comparison, RunSource
    from kbeval.evaluation.test_set import TestSet


class Format(StrEnum):
    """How the comparison is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    CSV = "csv"
    LATEX = "latex"


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="TREC run files, plain or gzipped.")],
    qrels: Annotated[Path | None, typer.Option("--qrels", help="Judgments: a BEIR .tsv or a TREC qrels file.")] = None,
    dataset: options.DatasetFolder = None,
    split: options.Split = "test",
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="Comma-separated, in any tool's spelling: mrr,nDCG@10,P_5.")
    ] = None,
    primary: Annotated[
        str | None, typer.Option("--primary", help="The one metric that verdicts are about; mrr otherwise.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Compare every run with this one, instead of all pairs.")
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", min=1, max=options.MOST, help="Cut every run to N documents.")
    ] = None,
    level: Annotated[
        int | None,
        typer.Option("--relevance-level", min=1, max=options.MOST, help="From which grade on a document is relevant."),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option("--alpha", min=1e-6, max=0.5, help="The level of significance; .05 otherwise.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where the results files go; results/ otherwise.")] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", help="Also write every value, by query, run and metric, as Parquet.")
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            "--pictures",
            help="Also write the report's pictures as SVG (PNG too with kbeval[pictures]), and results.tex.",
        ),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to print the comparison.")] = Format.TABLE,
    force: options.Force = False,
    config: options.Config = None,
) -> None:
    """Puts runs side by side: metrics, statistics, verdicts; writes results.md, .json, per_query.jsonl, report.html."""
    from kbeval.config import load_project
    from kbeval.errors import KbevalError
    from kbeval.report.write import refuse_overwriting, write_parquet, write_pictures, write_results

    project = load_project(config)
    refuse_overwriting(out or project.root / "results", parquet, [*runs, *([qrels] if qrels else [])])
    if qrels is not None and dataset is None and split != "test":
        raise KbevalError("--split: expected --dataset with it, found --qrels alone, which is the judgments to use")
    test_set = open_test_set(project, qrels, dataset, split, level)
    sources = open_runs(runs, test_set, force=force)
    comparison = compare_sources(
        project, test_set, sources, metrics=metrics, primary=primary, baseline=baseline, depth=depth, alpha=alpha
    )
    written = write_results(comparison, out or project.root / "results")
    if parquet is not None:
        written.append(write_parquet(comparison, parquet))
    if pictures is not None:
        written += write_pictures(comparison, pictures)
    show(comparison, output_format)
    if output_format is Format.TABLE:
        for path in written:
            typer.echo(f"wrote {options.shown(path)}")
    raise typer.Exit(1 if any(run.errors for run in comparison.runs) else 0)


def open_test_set(project: Project, qrels: Path | None, dataset: Path | None, split: str, level: int | None) -> TestSet:
    """The judgments to compare on: ``--qrels``, else those of the data set; with what the data set knows."""
    from kbeval.evaluation.test_set import TestSet, from_dataset
    from kbeval.formats.trec import read_qrels
    from kbeval.testset.project import level_of, open_dataset, require_judgments

    judgments = read_qrels(qrels) if qrels else None
    if judgments is not None and dataset is None:
        for warning in judgments.warnings:
            options.warn(f"{qrels}: {warning}")
        return TestSet(qrels=judgments, level=level or project.settings.test_set.level or 1)
    data = open_dataset(project, dataset, split)
    if judgments is None:
        require_judgments(data)
    for warning in [*data.warnings, *(judgments.warnings if judgments else ())]:
        options.warn(warning)
    at = level_of(project, data, level)
    return from_dataset(data, level=at, qrels=judgments)


def open_runs(paths: Sequence[Path], test_set: TestSet, *, force: bool) -> list[RunSource]:
    """The runs with their sidecars, refused where a sidecar names another corpus or other questions."""
    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.provenance import check_provenance
    from kbeval.formats.sidecar import read_sidecar, sidecar_path
    from kbeval.formats.trec import run_name, run_names

    sources = [
        RunSource(name, path, read_sidecar(sidecar_path(path, run_name(path))))
        for name, path in zip(run_names(paths), paths, strict=True)
    ]
    for warning in check_provenance(sources, test_set, force=force):
        options.warn(warning)
    return sources


def compare_sources(
    project: Project,
    test_set: TestSet,
    sources: Sequence[RunSource],
    *,
    metrics: str | None = None,
    primary: str | None = None,
    baseline: str | None = None,
    depth: int | None = None,
    alpha: float | None = None,
) -> Comparison:
    """Compares, with what the settings say where the command line says nothing."""
    from kbeval.errors import KbevalError
    from kbeval.evaluation.comparison import Options, compare_runs
    from kbeval.evaluation.default_metrics import choose_metrics
    from kbeval.progress import on_standard_error

    settings = project.settings.compare
    chosen, main = choose_metrics(metrics, settings.metrics, settings.primary if primary is None else primary)
    lacking = [metric.name for metric in chosen if metric.family.needs_domains and test_set.domains is None]
    if metrics is not None and lacking:
        raise KbevalError(
            f"--metrics {lacking[0]}: expected queries and documents with domains (--dataset), found none"
        )
    asked = Options(metrics=chosen, primary=main, baseline=baseline, depth=depth, alpha=alpha or settings.alpha)
    with on_standard_error().task("measuring runs", total=len(sources)) as advance:
        comparison = compare_runs(test_set, sources, asked, done=lambda _: advance(1))
    for warning in comparison.warnings:
        options.warn(warning)
    return comparison


def show(comparison: Comparison, output_format: Format) -> None:
    """Prints the comparison on standard output."""
    from kbeval.report.latex import main_tables, results_tex
    from kbeval.report.markdown import results_md
    from kbeval.report.results_json import results_json
    from kbeval.report.tables import as_csv
    from kbeval.report.terminal import as_terminal

    text = {
        Format.TABLE: lambda: as_terminal(comparison),
        Format.MARKDOWN: lambda: results_md(comparison),
        Format.JSON: lambda: results_json(comparison).decode(),
        Format.CSV: lambda: as_csv(main_tables(comparison)),
        Format.LATEX: lambda: results_tex(comparison),
    }[output_format]()
    sys.stdout.write(text)
    sys.stdout.flush()
