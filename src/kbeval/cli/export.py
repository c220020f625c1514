"""``kbeval export``: the BEIR files and the TREC qrels of the project's own data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    from kbeval.formats.dataset import write_dataset
    from kbeval.testset.project import project_dataset

    project = load_project(config)
    dataset = project_dataset(project)
    for warning in dataset.warnings:
        options.warn(warning)
    written = write_dataset(
        out or project.root,
        dataset.documents,
        [*dataset.queries, *dataset.unanswerable],
        dataset.qrels,
        layout="plain" if out else "project",
        escape_ids=escape_ids,
    )
    judged = dataset.qrels.frame.height
    typer.echo(f"{len(dataset.documents)} documents, {len(dataset.queries)} questions, {judged} judgments")
    for path in written:
        typer.echo(f"wrote {options.shown(path)}")
