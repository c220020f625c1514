"""Writes what became of a run: the TREC file and its sidecar."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kbeval._version import __version__
from kbeval.formats.sidecar import EngineFacts, Partial, Sidecar, sidecar_bytes, sidecar_path
from kbeval.formats.text import AtomicFile
from kbeval.formats.trec import write_run
from kbeval.order import falling_scores
from kbeval.running.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kbeval.engines.base import Engine, Usage
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
    policy: Policy = Policy(),  # noqa: B008 - frozen
) -> Path:
    """Writes ``folder/NAME.trec`` and ``folder/NAME.json`` and returns the first.

    Both are complete in memory before either is written; each replaces its predecessor in one step.

    Raises:
        KbevalError: an id holds a blank and ``escape_ids`` is off: nothing is written then.
    """
    name = outcomes.engine
    path, sidecar_file = run_paths(folder, name)
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
        partial=None
        if outcomes.whole is None
        else Partial(of=outcomes.whole, queries=[outcome.query.id for outcome in outcomes.outcomes]),
        incomplete=outcomes.incomplete,
        latencies_ms=outcomes.latencies_ms(),
        latency_ms=outcomes.summary_ms(),
        cold_start={"build_ms": round(outcomes.building_s * 1000, 3), "first_ms": outcomes.first_ms()},
        throughput=_throughput(outcomes),
        usage=_usage(outcomes, policy),
        usage_by_query={
            outcome.query.id: _by_service(outcome.usage, policy) for outcome in outcomes.outcomes if outcome.usage
        },
        gold_ranks=outcomes.gold_ranks(level),
    )
    with AtomicFile(sidecar_file) as beside:  # in the making before the run is replaced: never one without the other
        beside.write(sidecar_bytes(sidecar))
        write_run(path, run_frame(outcomes), tag=name, escape_ids=escape_ids)
    return path


def run_paths(folder: Path, name: str) -> tuple[Path, Path]:
    """Where a run and its sidecar are written."""
    path = folder / f"{name}.trec"
    return path, sidecar_path(path, name)


def _throughput(outcomes: Outcomes) -> dict[str, float]:
    found: dict[str, float] = {
        "concurrency": outcomes.concurrency,
        "seconds": round(outcomes.asking_s, 3),
        "resumed": sum(outcome.resumed for outcome in outcomes.outcomes),
    }
    if (rate := outcomes.per_second()) is not None:
        found["per_second"] = round(rate, 3)
    return found


def _usage(outcomes: Outcomes, policy: Policy) -> dict[str, Any]:
    found = _by_service(outcomes.usage(), policy)
    if outcomes.building:
        found["building"] = _by_service(outcomes.building, policy)
    return found


def _by_service(usages: Iterable[Usage], policy: Policy) -> dict[str, Any]:
    """What each service was used for, with its cost where it has a price."""
    found: dict[str, Any] = {}
    for usage in usages:
        facts: dict[str, Any] = asdict(usage)
        found[facts.pop("service")] = facts
        if not policy.unpriced([usage]):
            facts["cost"] = round(policy.cost([usage]), 9)
    return found


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
