"""``kbeval init``: a commented settings file and the folders, and the example corpus if asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    example: Annotated[
        bool, typer.Option("--example", help="Also write the seed corpus and its labelled questions.")
    ] = False,
) -> None:
    """Makes this folder a kbeval project. What is there already stays as it is."""
    from kbeval.scaffold import scaffold

    written = scaffold(Path.cwd(), example=example)
    for path in written:
        typer.echo(f"wrote {path}")
    if not written:
        typer.echo("nothing to write: everything is there already")
    typer.echo("next: kbeval evaluate")
