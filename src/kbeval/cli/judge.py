"""``kbeval judge``: has a model grade what runs found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbeval.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.evaluation.comparison import RunSource
    from kbeval.testset.judge_session import Plan


def judge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="TREC run files to pool, plain or gzipped.")],
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=1, max=options.MOST, help="Documents of each answer to judge; 10 otherwise."),
    ] = None,
    votes: Annotated[
        int | None, typer.Option("--votes", min=1, max=2, help="Differently worded votes a pair; 2 otherwise.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, max=options.MOST, help="Ask about N pairs at most, best ranks first."),
    ] = None,
    queries: Annotated[
        str | None, typer.Option("--queries", metavar="IDS", help="Ask about these questions alone; comma-separated.")
    ] = None,
    include_human: Annotated[
        bool, typer.Option("--include-human", help="Judge also what a person has labelled, to measure agreement.")
    ] = False,
    retry_unparsed: Annotated[
        bool, typer.Option("--retry-unparsed", help="Ask again for votes that could not be read.")
    ] = False,
    rejudge: Annotated[bool, typer.Option("--rejudge", help="Ask again for every vote, and pay for it again.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many calls and tokens it would take, and ask nothing.")
    ] = False,
    config: options.Config = None,
) -> None:
    """Has a model grade, from 0 to 3, how well the documents that runs found answer the questions."""
    from kbeval.config import load_project
    from kbeval.evaluation.comparison import read_source
    from kbeval.progress import on_standard_error
    from kbeval.report.judging import outcome_text, plan_text, shortfalls
    from kbeval.testset.judge import Again
    from kbeval.testset.judge_session import judge_pool, plan_judging

    project = load_project(config)
    sources = _sources(runs)
    again = Again.EVERYTHING if rejudge else Again.UNPARSED if retry_unparsed else Again.NOTHING
    plan = plan_judging(
        project,
        [read_source(source) for source in sources],
        depth=depth,
        votes=votes,
        only=None if queries is None else [one for part in queries.split(",") if (one := part.strip())],
        limit=limit,
        again=again,
        include_human=include_human,
    )
    _warn(plan, sources)
    if dry_run:
        typer.echo(plan_text(plan), nl=False)
        return
    outcome = judge_pool(project, plan, fresh=again is not Again.NOTHING, progress=on_standard_error())
    typer.echo(outcome_text(plan, outcome), nl=False)
    for path in outcome.written:
        typer.echo(f"wrote {options.shown(path)}")
    failed = shortfalls(plan, outcome, project.settings.judge.max_unparsed)
    for sentence in failed:
        options.warn(sentence)
    raise typer.Exit(1 if failed else 0)


def _sources(paths: Sequence[Path]) -> list[RunSource]:
    from kbeval.evaluation.comparison import RunSource
    from kbeval.formats.sidecar import read_sidecar, sidecar_path
    from kbeval.formats.trec import run_name, run_names

    return [
        RunSource(name, path, read_sidecar(sidecar_path(path, run_name(path))))
        for name, path in zip(run_names(paths), paths, strict=True)
    ]


def _warn(plan: Plan, sources: Sequence[RunSource]) -> None:
    from kbeval.formats.dataset import corpus_hash
    from kbeval.testset.model_families import generators, reranker, same_family_warnings

    rerankers = {
        source.name: model
        for source in sources
        if source.sidecar and (model := reranker(source.sidecar.engine.configuration))
    }
    for warning in same_family_warnings(
        judges=[plan.judge.model], generators=generators(plan.questions), rerankers=rerankers
    ):
        options.warn(warning)
    own = corpus_hash(plan.documents.values())
    for source in sources:
        if source.sidecar and source.sidecar.corpus_hash != own:
            # Not refused, as compare does: what is judged is today's text, whichever run named the document.
            options.warn(f"run {source.name} was made on another corpus: its documents are judged as they are now")
