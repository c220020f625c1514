"""Writes the three results files."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from kbeval.formats.text import write_atomically
from kbeval.report.markdown import results_md
from kbeval.report.results_json import per_query_jsonl, results_json

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.evaluation.comparison import Comparison


def write_results(comparison: Comparison, folder: Path) -> list[Path]:
    """Writes results.md, results.json and per_query.jsonl into ``folder``.

    All three are complete in memory before the first is written, so that a failure leaves the old ones together.
    """
    files = {
        "results.md": results_md(comparison).encode(),
        "results.json": results_json(comparison),
        "per_query.jsonl": b"".join(per_query_jsonl(comparison)),
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
