"""``kbeval export``: the project's own data set for other tools, as BEIR files and TREC qrels, JSON or Parquet."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbeval.cli import options
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from kbeval.config import Project
    from kbeval.formats.dataset import Dataset


class Granularity(StrEnum):
    """What is judged."""

    DOCUMENT = "document"
    CHUNK = "chunk"


class Format(StrEnum):
    """How the test set is written."""

    BEIR = "beir"
    JSON = "json"
    PARQUET = "parquet"


def export(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write a plain BEIR folder there, or the JSON or Parquet file; the project's layout, or "
            "corpus/testset.json or .parquet, otherwise.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="NAME[,NAME]", help="Only questions of these sources, such as historical."),
    ] = None,
    granularity: Annotated[
        Granularity, typer.Option("--granularity", help="Judgments of documents, or of the chunks that answer.")
    ] = Granularity.DOCUMENT,
    output_format: Annotated[
        Format, typer.Option("--format", help="BEIR files and TREC qrels, or one table of questions.")
    ] = Format.BEIR,
    escape_ids: Annotated[
        bool, typer.Option("--escape-ids", help="Percent-encode blanks in ids, which TREC files cannot hold.")
    ] = False,
    config: options.Config = None,
) -> None:
    """Writes the corpus and the labelled questions in BEIR format, and the judgments for trec_eval too.

    With --format json or parquet: one table, a row a question, with what answers it as documents and as chunks.
    """
    from kbeval.config import load_project
    from kbeval.testset.project import project_dataset, require_judgments
    from kbeval.testset.views import at_chunk_level, of_sources

    by_chunk = granularity is Granularity.CHUNK
    if by_chunk and output_format is not Format.BEIR:
        raise KbevalError(f"--granularity chunk: expected --format beir, as {output_format.value} holds chunks anyway")
    if out is None and output_format is Format.BEIR and (source or by_chunk):
        option = "--source" if source else "--granularity chunk"
        raise KbevalError(f"{option}: expected --out DIR with it, as the project's own files hold the whole test set")
    project = load_project(config)
    dataset = project_dataset(project)
    require_judgments(dataset)
    if source is not None:
        dataset = of_sources(dataset, [name.strip() for name in source.split(",") if name.strip()])
    if by_chunk:
        dataset = at_chunk_level(project, dataset)
    for warning in dataset.warnings:
        options.warn(warning)
    if output_format is Format.BEIR:
        written = _beir(project, dataset, out, escape_ids)
    else:
        written = [_table(project, dataset, out, output_format)]
    what = "chunks" if by_chunk else "documents"
    judged = dataset.qrels.frame.height
    typer.echo(f"{len(dataset.documents)} {what}, {len(dataset.queries)} questions, {judged} judgments")
    for path in written:
        typer.echo(f"wrote {options.shown(path)}")


def _beir(project: Project, dataset: Dataset, out: Path | None, escape_ids: bool) -> list[Path]:
    from kbeval.formats.dataset import write_dataset

    return write_dataset(
        out or project.root,
        dataset.documents,
        dataset.asked,
        dataset.qrels,
        layout="plain" if out else "project",
        escape_ids=escape_ids,
    )


def _table(project: Project, dataset: Dataset, out: Path | None, output_format: Format) -> Path:
    from kbeval.formats.flat import questions_as_json, questions_as_parquet
    from kbeval.formats.text import write_atomically
    from kbeval.testset.views import as_table

    name = f"testset.{output_format.value}"
    path = project.root / "corpus" / name if out is None else out
    if path.is_dir():
        path = path / name
    as_bytes = questions_as_json if output_format is Format.JSON else questions_as_parquet
    write_atomically(path, as_bytes(as_table(project, dataset)))
    return path
