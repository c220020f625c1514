"""The options that several commands share, so that they read and behave the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kbeval.terminal import printable

Config = Annotated[
    Path | None,
    typer.Option("--config", help="The settings file; kbeval.toml is looked for upwards from here otherwise."),
]
DatasetFolder = Annotated[
    Path | None,
    typer.Option("--dataset", help="A data set in BEIR format; the project's own otherwise."),
]
Split = Annotated[str, typer.Option("--split", help="Which qrels/SPLIT of the data set to use.")]
Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        envvar="KBEVAL_DSN",
        show_envvar=True,
        help="A PostgreSQL server with pgvector to work on, in a schema of its own; an embedded one otherwise.",
    ),
]
Engines = Annotated[
    list[str] | None,
    typer.Option(
        "--engine",
        metavar="[NAME=]SPEC",
        help="A configured engine, or a type: hybrid, keyword, bm25, python:MODULE:OBJECT, haystack:FILE.yaml, "
        "run:FILE.trec. May repeat.",
    ),
]
Presets = Annotated[
    list[str] | None,
    typer.Option(
        "--preset",
        metavar="NAME[,NAME...]",
        help="Ready-made engines: embedded (wordllama + BM25), online (OpenAI + Cohere), offline (Nomic + BGE).",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="[NAME.]KEY=VALUE", help="Replaces one of an engine's settings. May repeat."),
]
MOST = 1_000_000_000  # a number that no list reaches, and that every library can hold
K = Annotated[int, typer.Option("--k", min=1, max=1_000_000, help="How many documents to ask for per question.")]
Force = Annotated[
    bool, typer.Option("--force", help="Compare runs although they name another corpus or other questions.")
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", min=1, max=256, help="Questions at once; [run] concurrency, else 1."),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, max=MOST, help="Ask a seeded sample of so many questions: a partial run."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Take over the answers of a run that was not finished; ask only the rest.")
]
MaxCost = Annotated[
    float | None,
    typer.Option("--max-cost", min=0.0, help="End a run before it may cost more than this, at [prices]."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0.0, max=1_000_000.0, help="Seconds for one question, retries and all; 0 for no limit."
    ),
]
MaxFailures = Annotated[
    int | None,
    typer.Option("--max-failures-in-a-row", min=0, help="End a run after so many; 20 otherwise, 0 for never."),
]


def say(message: str) -> None:
    """Something to know before it happens, on standard error."""
    print(f"kbeval: {' '.join(message.split())}", file=sys.stderr)


Processes = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=512, help="Embed and answer in N processes of this machine."),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Embed and answer on a Dask cluster: tcp://host:8786."),
]


def warn(message: str) -> None:
    """One warning, on standard error, where it does not mix with the answer."""
    print(f"kbeval: warning: {printable(' '.join(message.split()))}", file=sys.stderr)


def shown(path: Path) -> str:
    """A path as the user would type it: relative where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd().resolve()))
    except ValueError:
        return str(path)
