"""Recorded runs as a table, JSON, CSV and Parquet."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from kbeval.report.tables import Table, as_csv, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.history import Entry

SHOWN_METRICS = 3
_TEXTS = ("key", "when", "engine", "run", "commit", "corpus_hash", "queries_hash", "test_set_hash", "kbeval")
_COUNTS = ("k", "queries", "errored", "missing")
_PARQUET: dict[str, Any] = {
    **dict.fromkeys((*_TEXTS, "configuration"), pl.String),
    **dict.fromkeys(_COUNTS, pl.Int64),
    "dirty": pl.Boolean,
}


def history_text(entries: Sequence[Entry], metrics: Sequence[str]) -> str:
    """A line a run, oldest first, with the metrics named."""
    return as_text(_table(entries, metrics, brief=True))


def history_csv(entries: Sequence[Entry]) -> str:
    """Every metric in a column of its own; cells that a spreadsheet would run are made text."""
    return as_csv([_table(entries, _names(entries), brief=False)])


def history_json(entries: Sequence[Entry]) -> str:
    """A list of objects, oldest first."""
    data = [_record(entry) for entry in entries]
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"


def history_parquet(entries: Sequence[Entry]) -> bytes:
    """One row a run; metrics and latencies in columns named ``metric.NAME`` and ``latency_ms.NAME``."""
    rows = []
    for entry in entries:
        record = _record(entry)
        of_metrics, latencies = record.pop("metrics"), record.pop("latency_ms")
        record["configuration"] = orjson.dumps(record["configuration"], option=orjson.OPT_SORT_KEYS).decode()
        record |= {f"metric.{name}": of_metrics.get(name) for name in _names(entries)}
        record |= {f"latency_ms.{name}": latencies.get(name) for name in ("p50", "p95", "p99")}
        rows.append(record)
    buffer = io.BytesIO()
    # Named, so that a column has its type also where it is empty throughout, or there is no row.
    names = [f"metric.{name}" for name in _names(entries)] + [f"latency_ms.{name}" for name in ("p50", "p95", "p99")]
    schema = {**_PARQUET, **dict.fromkeys(names, pl.Float64)}
    pl.DataFrame(rows, schema=schema).write_parquet(buffer)
    return buffer.getvalue()


def _names(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(name for entry in entries for name in entry.metrics))


def _record(entry: Entry) -> dict[str, Any]:
    return {
        "key": entry.key,
        "when": entry.when,
        "engine": entry.engine,
        "run": entry.run,
        "commit": entry.commit,
        "dirty": entry.dirty,
        "k": entry.k,
        "corpus_hash": entry.corpus_hash,
        "queries_hash": entry.queries_hash,
        "test_set_hash": entry.test_set_hash,
        "queries": entry.queries,
        "errored": entry.errored,
        "missing": entry.missing,
        "kbeval": entry.kbeval,
        "configuration": dict(entry.configuration),
        "metrics": dict(entry.metrics),
        "latency_ms": dict(entry.latency_ms),
    }


def _table(entries: Sequence[Entry], metrics: Sequence[str], *, brief: bool) -> Table:
    length = 8 if brief else None
    headers = ["When", "Engine", "Commit", "Test set", "Corpus", "Questions", "Errored", *metrics, "p50 ms", "p95 ms"]
    rows = [
        [
            entry.when,
            entry.engine,
            (entry.commit or "–")[:length] + ("+" if entry.dirty else ""),
            entry.test_set_hash[:length],
            (entry.corpus_hash or "–")[:length],
            str(entry.queries),
            str(entry.errored),
            *(f"{entry.metrics[name]:.4f}" if name in entry.metrics else "–" for name in metrics),
            *(f"{entry.latency_ms[p]:.1f}" if p in entry.latency_ms else "–" for p in ("p50", "p95")),
        ]
        for entry in entries
    ]
    return Table(headers, rows, left=5)
