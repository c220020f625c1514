"""``kbeval twins``: passages that stand nearly the same in two documents, for a person to look at."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kbeval.cli import options


class Format(StrEnum):
    """How the pairs are printed."""

    TABLE = "table"
    JSON = "json"


def twins(
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", min=0.01, max=1.0, help="Which share of a passage must be found again; .5 otherwise."
        ),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.TABLE,
    config: options.Config = None,
) -> None:
    """Lists near-duplicate passages of different documents, and the questions that a second document may answer.

    They are candidates: they become right answers by judgment, in `kbeval judge` and `kbeval review`.
    """
    from kbeval.config import load_project
    from kbeval.formats.questions import read_questions
    from kbeval.report.twins import twins_json, twins_text
    from kbeval.testset.project import project_chunks, project_documents
    from kbeval.testset.twins import THRESHOLD, candidates_among, find_near_duplicates

    project = load_project(config)
    chunks = project_chunks(project, project_documents(project).values())
    cache = project.path(project.settings.test_set.questions)
    questions = read_questions(cache) if cache.exists() else []
    at = threshold or THRESHOLD
    found = find_near_duplicates(chunks, at)
    candidates = candidates_among(questions, chunks, found.pairs, at)
    if found.crowded:
        options.warn(
            f"{len(found.crowded)} passages are made mostly of phrases that many documents share, such as a footer; "
            f"not all their pairs were looked for: {', '.join(found.crowded[:5])}"
            f"{', ...' if len(found.crowded) > 5 else ''}"
        )
    show = twins_json if output_format is Format.JSON else twins_text
    typer.echo(show(found.pairs, candidates, at), nl=False)
