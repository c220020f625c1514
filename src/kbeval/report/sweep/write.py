"""Writes what came out of a sweep."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.formats.text import write_atomically
from kbeval.report.sweep import tables
from kbeval.report.tables import Table, as_markdown, as_text, escape_markdown

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.sweep.sweeping import Sweep


def write_sweep(sweep: Sweep, folder: Path) -> list[Path]:
    """Writes sweep.md, sweep.json and sweep.html, and returns their paths."""
    from kbeval.report.sweep.page import sweep_html

    files = {
        folder / "sweep.md": sweep_md(sweep).encode("utf-8", "replace"),
        folder / "sweep.json": sweep_json(sweep),
        folder / "sweep.html": sweep_html(sweep),
    }
    for path, data in files.items():
        write_atomically(path, data)
    return list(files)


def as_terminal(sweep: Sweep) -> str:
    """The table and the sentences, for a terminal."""
    lines = [tables.picked_sentence(sweep), *tables.test_sentences(sweep), *tables.threshold_sentences(sweep)]
    lines += [*work_sentences(sweep), "To use it: " + tables.command(sweep)]
    return as_text(tables.configurations_table(sweep)) + "\n" + "\n".join(lines) + "\n\n"


def work_sentences(sweep: Sweep) -> list[str]:
    """What was done and what was remembered: of this run, and so in no file."""
    names = {"chunk": "chunks embedded", "embed": "questions embedded", "leg": "searches", "rerank": "lists reranked"}
    done = ", ".join(f"{sweep.done[kind]:,} {words}" for kind, words in names.items() if sweep.done.get(kind))
    words = [f"Done in this run: {done or 'nothing, all of it was remembered'}."]
    words += [f"Asked of services: {usage.in_words()}." for usage in sweep.asked_of_services]
    return words


def sweep_md(sweep: Sweep) -> str:
    """The same for people who read Markdown."""
    table = tables.configurations_table(sweep)
    parts = [
        f"# Sweep of {escape_markdown(sweep.grid.engine)}",
        *(escape_markdown(line) for line in [tables.picked_sentence(sweep), *tables.test_sentences(sweep)]),
        f"    {tables.command(sweep)}",
        as_markdown(_escaped(table)).rstrip(),
        "\n".join(f"- {escape_markdown(line)}" for line in tables.notes(sweep)),
        "## Score thresholds",
        *(escape_markdown(line) for line in tables.threshold_sentences(sweep)),
        *(as_markdown(tables.thresholds_table(curve)).rstrip() for curve in sweep.curves),
    ]
    return "\n\n".join(parts) + "\n"


def _escaped(table: Table) -> Table:
    rows = [[escape_markdown(cell) for cell in row] for row in table.rows]
    return Table([escape_markdown(header) for header in table.headers], rows, table.left, table.title)


def sweep_json(sweep: Sweep) -> bytes:
    """sweep.json: keys sorted, numbers with 12 decimals, the same bytes for the same answers.

    What is measured in seconds stands under ``latency`` and nowhere else: it is another in another run.
    """
    primary = sweep.asked.primary
    data: dict[str, Any] = {
        "engine": sweep.grid.engine,
        "grid": {
            "keys": list(sweep.grid.keys),
            "size": sweep.grid.size,
            "sample": sweep.grid.sample,
            "left_out": [{"combination": words, "why": why} for words, why in sweep.grid.left_out],
        },
        "seed": sweep.asked.seed,
        "k": sweep.asked.k,
        "primary": primary.name,
        "test_set": {
            "hash": sweep.split.dev.hash + sweep.split.held_out.hash,
            **{f"{name}_hash": value for name, value in sweep.hashes.items()},
            "dev": sweep.split.dev.queries,
            "held_out": sweep.split.held_out.queries,
        },
        "configurations": {each.name: _configuration(each) for each in sweep.measured},
        "picked": sweep.picked.name,
        "held_out": _held_out(sweep),
        "thresholds": [asdict(curve) for curve in sweep.curves],
        "no_thresholds": sweep.no_curve or None,
        "latency": {
            "ms": {each.name: each.latency_ms for each in sweep.measured},
            "of_stages": {each.name: each.of_stages for each in sweep.measured},
            "pareto_front": list(sweep.front),
        },
    }
    return orjson.dumps(_rounded(data), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _configuration(one: Any) -> dict[str, Any]:
    return {
        "changed": dict(one.configuration.changed),
        "settings": one.configuration.settings,
        "in_grid": one.configuration.in_grid,
        "dev": dict(one.dev),
        "reranker": asdict(one.gain) if one.gain else None,
        "errors": dict(one.errors),
        "failure": one.failure,
        "incomplete": one.incomplete,
        "cost_of_1000": one.cost,
    }


def _held_out(sweep: Sweep) -> dict[str, Any] | None:
    if sweep.comparison is None:
        return None
    from kbeval.report.results_json import results_json

    full = orjson.loads(results_json(sweep.comparison))
    return {"runs": full["runs"], "pairs": full["pairs"], "verdicts": full["verdicts"]}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 12)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
