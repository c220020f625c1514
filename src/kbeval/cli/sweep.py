"""``kbeval sweep``: the best settings of an engine, picked on one half of the questions and tested on the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbeval.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbeval.engines.registry import EnginePlan


def sweep(
    engine: Annotated[
        str | None,
        typer.Option("--engine", metavar="[NAME=]SPEC", help="The engine; [sweep] engine, else the first configured."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE,VALUE",
            help="A setting of the engine and the values to try; may repeat. Replaces [sweep.grid].",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, max=options.MOST, help="Draw so many combinations; 0 for all.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, max=options.MOST, help="Of the draw and of the dev split; 0 otherwise."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="Pick by this metric; [compare] primary, else mrr, otherwise.")
    ] = None,
    dev: Annotated[
        float | None, typer.Option("--dev", min=0.01, max=0.99, help="The share of the questions that it picks on; .5.")
    ] = None,
    dataset: options.DatasetFolder = None,
    split: options.Split = "test",
    k: options.K = 20,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where the results go; results/ otherwise, or out/NAME/results for --dataset."),
    ] = None,
    dsn: options.Dsn = None,
    concurrency: options.Concurrency = None,
    timeout: options.Timeout = None,
    max_failures: options.MaxFailures = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0.0, help="End the sweep before it may cost more, at [prices].")
    ] = None,
    config: options.Config = None,
) -> None:
    """Tries a grid of settings of one engine, picks the best on the dev split and tests it on the held-out split.

    Stages are remembered on disk: none is done or paid twice, in this sweep or in the next.
    """
    from kbeval.cli.engines import chosen_engines
    from kbeval.config import load_project
    from kbeval.evaluation.default_metrics import choose_metrics
    from kbeval.evaluation.test_set import from_dataset
    from kbeval.progress import on_standard_error
    from kbeval.report.sweep.write import as_terminal, write_sweep
    from kbeval.running.policy import policy_of
    from kbeval.sweep.grid import make_grid, parse_grid
    from kbeval.sweep.memory import StageMemory
    from kbeval.sweep.sweeping import Asked
    from kbeval.sweep.sweeping import sweep as do_sweep
    from kbeval.testset.project import level_of, open_dataset, require_judgments

    project = load_project(config)
    settings = project.settings.sweep
    spec = engine or settings.engine or next(iter(project.settings.engines), "hybrid")

    def plan(overrides: Mapping[str, Any]) -> EnginePlan:
        return chosen_engines(project, [spec], None, None, overrides)[0]

    drawn = settings.seed if seed is None else seed
    grid = make_grid(
        parse_grid(assignments) if assignments else settings.grid,
        plan,
        sample=settings.sample if sample is None else sample,
        seed=drawn,
    )
    if grid.size < (settings.sample if sample is None else sample):
        options.warn(f"sweep: the grid has {grid.size} combinations, fewer than were to be drawn: all are tried")
    for words, why in grid.left_out:
        options.warn(f"sweep: {words} is left out: {why}")
    compare = project.settings.compare
    _, primary = choose_metrics(None, None, metric or settings.metric or compare.primary)
    policy = policy_of(
        project.settings.run,
        project.settings.prices,
        concurrency=concurrency,
        timeout_s=timeout,
        max_failures_in_a_row=max_failures,
        max_cost=max_cost,
    )
    data = open_dataset(project, dataset, split)
    for warning in data.warnings:
        options.warn(warning)
    require_judgments(data)
    foreign = dataset is not None and dataset.resolve() != project.root
    home = project.root / "out" / dataset.resolve().name if foreign and dataset else project.root
    memory = StageMemory(project.path(settings.cache))
    try:
        found = do_sweep(
            grid,
            data,
            from_dataset(data, level=level_of(project, data)),
            memory,
            Asked(k, primary, compare.alpha, dev or settings.dev, drawn, named_by=_named_by(dataset, split, config)),
            root=project.root,
            dsn=dsn or project.settings.store.dsn,
            progress=on_standard_error(),
            policy=policy,
            say=options.say,
        )
    finally:
        memory.close()
    written = write_sweep(found, out or home / "results")
    typer.echo(as_terminal(found), nl=False)
    typer.echo(f"wrote {', '.join(options.shown(path) for path in written)}")
    raise typer.Exit(0 if all(each.sound for each in found.measured) else 1)


def _named_by(dataset: Path | None, split: str, config: Path | None) -> tuple[str, ...]:
    """The options that named the data, for another command on the same."""
    found: list[str] = []
    if dataset is not None:
        found += ["--dataset", str(dataset)]
    if split != "test":
        found += ["--split", split]
    if config is not None:
        found += ["--config", str(config)]
    return tuple(found)
