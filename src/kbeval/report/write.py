"""Writes the three results files, the page beside them, and pictures."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.formats.text import write_atomically
from kbeval.report.latex import results_tex
from kbeval.report.markdown import results_md
from kbeval.report.page.page import report_html
from kbeval.report.results_json import per_query_jsonl, results_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kbeval.evaluation.comparison import Comparison


RESULTS = ("results.md", "results.json", "per_query.jsonl", "report.html")


def refuse_overwriting(folder: Path, parquet: Path | None, inputs: Iterable[Path]) -> None:
    """Refuses to write two things into one file, or over what is compared.

    Raises:
        KbevalError: naming the file.
    """
    outputs = [(folder / name).resolve() for name in RESULTS] + ([parquet.resolve()] if parquet else [])
    taken = {path.resolve() for path in inputs}
    for number, path in enumerate(outputs):
        if path in taken:
            raise KbevalError(f"{path.name}: expected another file to write to, found one that is compared: {path}")
        if path in outputs[:number]:
            raise KbevalError(f"--parquet: expected a file of its own, found one of the results files: {path}")


def write_results(comparison: Comparison, folder: Path) -> list[Path]:
    """Writes results.md, results.json, per_query.jsonl and report.html into ``folder``.

    All are complete in memory before the first is written, so that a failure leaves the old ones together.
    """
    files = {
        "results.md": results_md(comparison).encode(),
        "results.json": results_json(comparison),
        "per_query.jsonl": b"".join(per_query_jsonl(comparison)),
        "report.html": report_html(comparison),
    }
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [folder / name for name in files]


def write_parquet(comparison: Comparison, path: Path) -> Path:
    """Writes every value as Parquet, one row a query, run and metric: see ``Comparison.per_query``."""
    buffer = io.BytesIO()
    comparison.per_query().write_parquet(buffer)
    write_atomically(path, buffer.getvalue())
    return path


def write_pictures(comparison: Comparison, folder: Path) -> list[Path]:
    """Writes every picture of the page as SVG, and as PNG where ``kbeval[pictures]`` is installed; and results.tex.

    Raises:
        KbevalError: a file cannot be written.
    """
    from kbeval.report.page.pictures import pictures
    from kbeval.report.page.svg import as_png, standalone

    files = {"results.tex": results_tex(comparison).encode()}
    for picture in pictures(comparison):
        svg = standalone(picture.svg)
        files[f"{picture.name}.svg"] = svg
        png = as_png(svg)
        if png is not None:
            files[f"{picture.name}.png"] = png
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [folder / name for name in files]
