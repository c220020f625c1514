"""``kbeval export``: the project's own data set for other tools, as BEIR files and TREC qrels, JSON or Parquet."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
    from kbeval.formats.dataset import write_dataset
    from kbeval.testset.project import project_dataset
    from kbeval.testset.views import at_chunk_level

    by_chunk = granularity is Granularity.CHUNK
    if by_chunk and output_format is not Format.BEIR:
        raise KbevalError(f"--granularity chunk: expected --format beir, as {output_format.value} holds chunks anyway")
    if out is None and output_format is Format.BEIR and (source or by_chunk):
        option = "--source" if source else "--granularity chunk"
        raise KbevalError(f"{option}: expected --out DIR with it, as the project's own files hold the whole test set")
    project = load_project(config)
    if output_format is Format.BEIR and not by_chunk:
        dataset, written, documents = _beir(project, source, out, escape_ids)
    else:
        dataset = _of_sources(_judged(project_dataset(project)), source)
        if by_chunk:
            dataset = at_chunk_level(project, dataset)
        documents = len(dataset.documents)
        if output_format is Format.BEIR:
            written = write_dataset(
                out or project.root,
                dataset.documents,
                dataset.asked,
                dataset.qrels,
                layout="plain",
                escape_ids=escape_ids,
            )
        else:
            written = [_table(project, dataset, out, output_format)]
    for warning in dataset.warnings:
        options.warn(warning)
    what = "chunks" if by_chunk else "documents"
    judged = dataset.qrels.frame.height
    typer.echo(f"{documents} {what}, {len(dataset.queries)} questions, {judged} judgments")
    for path in written:
        typer.echo(f"wrote {options.shown(path)}")


def _beir(project: Project, source: str | None, out: Path | None, escape_ids: bool) -> tuple[Dataset, list[Path], int]:
    """Writes documents as they are read: a corpus of any size fits into memory."""
    from kbeval.formats.dataset import DatasetWriter
    from kbeval.testset.project import project_dataset

    layout: Literal["plain", "project"] = "plain" if out else "project"
    with DatasetWriter(out or project.root, layout=layout, escape_ids=escape_ids) as writer:
        dataset = _of_sources(_judged(project_dataset(project, on_document=writer.add)), source)
        return dataset, writer.finish(dataset.asked, dataset.qrels), writer.documents


def _judged(dataset: Dataset) -> Dataset:
    from kbeval.testset.project import require_judgments

    require_judgments(dataset)
    return dataset


def _of_sources(dataset: Dataset, source: str | None) -> Dataset:
    from kbeval.testset.views import of_sources

    return dataset if source is None else of_sources(dataset, [n.strip() for n in source.split(",") if n.strip()])


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
