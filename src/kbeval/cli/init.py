"""``kbeval init``: a commented settings file and the folders, and the example corpus if asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbeval.cli import options


def init(
    example: Annotated[
        bool,
        typer.Option("--example", help="Also write the seed corpus, its labelled questions, and the workflow."),
    ] = False,
    workflow: Annotated[
        bool, typer.Option("--workflow", help="Also write a GitHub workflow that gates pull requests.")
    ] = False,
    config: options.Config = None,
) -> None:
    """Makes this folder a kbeval project. What is there already stays as it is."""
    from kbeval.config import CONFIG_NAME
    from kbeval.scaffold import scaffold

    root = config.resolve().parent if config else Path.cwd()
    written = scaffold(root, config.name if config else CONFIG_NAME, example=example, workflow=workflow)
    for path in written:
        typer.echo(f"wrote {path}")
    if not written:
        typer.echo("nothing to write: everything is there already")
    ready = any((root / "corpus" / "seed_docs").glob("*.md")) and (root / "corpus" / "questions.cache.json").exists()
    typer.echo(
        "next: kbeval evaluate"
        if ready
        else "next: put documents into corpus/seed_docs and labelled questions into corpus/questions.cache.json "
        "(kbeval init --example writes some)"
    )
