"""``kbeval generate``: has a language model write the labelled questions that the corpus still lacks."""

from __future__ import annotations

from typing import Annotated

import typer

from kbeval.cli import options


def generate(
    styles: Annotated[
        str | None,
        typer.Option(
            "--styles", metavar="LIST", help="Comma-separated: near, mid, far; as the settings say otherwise."
        ),
    ] = None,
    regenerate: Annotated[
        bool, typer.Option("--regenerate", help="Ask for every chunk anew, also where nothing has changed.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="Ask for this many questions at the most; 0 for all.")
    ] = 0,
    round_trip: Annotated[
        bool | None,
        typer.Option(
            "--round-trip/--no-round-trip",
            help="Reject questions whose document neither BM25 nor static word vectors find. Biased towards engines "
            "like these two, and so off unless the settings say otherwise.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many calls and tokens it would take, and ask nothing.")
    ] = False,
    config: options.Config = None,
) -> None:
    """Has a language model write the questions for chunks that have none yet, into the cache."""
    from kbeval.config import load_project
    from kbeval.errors import KbevalError
    from kbeval.progress import on_standard_error
    from kbeval.secrets import scrub
    from kbeval.testset.generation.summary import planned, summary
    from kbeval.testset.generation.work import Generation

    project = load_project(config)
    generation = Generation(
        project,
        styles=None if styles is None else [style.strip() for style in styles.split(",") if style.strip()],
        regenerate=regenerate,
        limit=limit,
        use_round_trip=round_trip,
        progress=on_standard_error(),
    )
    if dry_run:
        for line in planned(generation.plan()):
            typer.echo(line)
        return
    outcome = generation.run()
    for line in summary(outcome, generation.round_trip_k):
        typer.echo(scrub(line))
    if outcome.changed:
        typer.echo("")
        typer.echo(f"wrote {options.shown(generation.cache_path)}")
    if outcome.not_asked:
        options.warn(f"{outcome.not_asked} calls were not made: [llm] max_tokens_total is reached")
    if outcome.asked and not outcome.written_now:
        raise KbevalError(
            f"generate: expected at least one question of {outcome.asked} asked for, found none: "
            "all failed, were rejected or were not asked"
        )
    raise typer.Exit(1 if outcome.failed else 0)
