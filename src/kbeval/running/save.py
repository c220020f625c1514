"""Writes what became of a run: the TREC file and its sidecar."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kbeval._version import __version__
from kbeval.formats.sidecar import EngineFacts, Sidecar, sidecar_path, write_sidecar
from kbeval.formats.trec import write_run
from kbeval.order import falling_scores
from kbeval.running.runner import latency_summary

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.engines.base import Engine
    from kbeval.running.runner import Outcomes

# What can change a ranking: their versions are kept beside every run.
_VERSIONED = ("bm25s", "haystack-ai", "numpy", "pgvector-haystack", "PyStemmer", "ranx", "wordllama")


def save(
    folder: Path,
    engine: Engine,
    outcomes: Outcomes,
    *,
    k: int,
    level: int,
    corpus_hash: str,
    queries_hash: str,
    store: dict[str, Any] | None,
    escape_ids: bool = False,
) -> Path:
    """Writes ``folder/NAME.trec`` and ``folder/NAME.json`` and returns the first.

    Both are complete in memory before either is written; each replaces its predecessor in one step.

    Raises:
        KbevalError: an id holds a blank and ``escape_ids`` is off.
    """
    name = outcomes.engine
    path, sidecar_file = run_paths(folder, name)
    latencies = outcomes.latencies_ms()
    sidecar = Sidecar(
        engine=EngineFacts(
            name=name,
            type=engine.type,
            configuration=engine.configuration(),
            reads_text=engine.reads_text,
            deterministic=engine.deterministic,
            notes=list(engine.notes),
        ),
        k=k,
        corpus_hash=corpus_hash,
        queries_hash=queries_hash,
        versions=versions(),
        store=store,
        escaped_ids=escape_ids,
        counts={**engine.counts(), **outcomes.counts()},
        errors=outcomes.errors,
        latencies_ms=latencies,
        latency_ms=latency_summary(latencies),
        gold_ranks=outcomes.gold_ranks(level),
    )
    write_run(path, run_frame(outcomes), tag=name, escape_ids=escape_ids)
    write_sidecar(sidecar_file, sidecar)
    return path


def run_paths(folder: Path, name: str) -> tuple[Path, Path]:
    """Where a run and its sidecar are written."""
    path = folder / f"{name}.trec"
    return path, sidecar_path(path, name)


def run_frame(outcomes: Outcomes) -> pl.DataFrame:
    """The answers as rows of query, document and score: an engine's order, with scores that say the same."""
    queries: list[str] = []
    documents: list[str] = []
    scores: list[np.ndarray[Any, np.dtype[np.float64]]] = []
    for outcome in outcomes.outcomes:
        if outcome.answer is None or not outcome.answer.hits:
            continue
        found, raw = zip(*outcome.answer.hits, strict=True)
        queries += [outcome.query.id] * len(found)
        documents += found
        scores.append(falling_scores(np.array(raw, dtype=np.float64)))
    return pl.DataFrame(
        {
            "query": pl.Series(queries, dtype=pl.String),
            "document": pl.Series(documents, dtype=pl.String),
            "score": pl.Series(np.concatenate(scores) if scores else [], dtype=pl.Float64),
        }
    )


def versions() -> dict[str, str]:
    """Versions of kbeval, Python and the packages that can change a ranking."""
    found = {"kbeval": __version__, "python": platform.python_version()}
    for package in _VERSIONED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:  # pragma: no cover - a package without its metadata
            found[package] = "unknown"
    return found
