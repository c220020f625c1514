"""``kbeval export``: the BEIR files and the TREC qrels of the project's own data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from kbeval.cli import options


def export(
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a plain BEIR folder there; the project's layout otherwise.")
    ] = None,
    escape_ids: Annotated[
        bool, typer.Option("--escape-ids", help="Percent-encode blanks in ids, which TREC files cannot hold.")
    ] = False,
    config: options.Config = None,
) -> None:
    """Writes the corpus and the labelled questions in BEIR format, and the judgments for trec_eval too."""
    from kbeval.config import load_project
    from kbeval.formats.dataset import DatasetWriter
    from kbeval.testset.project import project_dataset

    project = load_project(config)
    layout: Literal["plain", "project"] = "plain" if out else "project"
    with DatasetWriter(out or project.root, layout=layout, escape_ids=escape_ids) as writer:
        dataset = project_dataset(project, on_document=writer.add)
        for warning in dataset.warnings:
            options.warn(warning)
        written = writer.finish([*dataset.queries, *dataset.unanswerable], dataset.qrels)
    judged = dataset.qrels.frame.height
    typer.echo(f"{writer.documents} documents, {len(dataset.queries)} questions, {judged} judgments")
    for path in written:
        typer.echo(f"wrote {options.shown(path)}")
