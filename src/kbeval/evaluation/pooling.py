"""Whether a run was part of a pool that was judged (METHOD 6). A run is known by what it found, not by its name."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kbeval.formats.pool import PoolRecord
    from kbeval.model import Run

JUDGED_DEPTH = 10
"""METHOD 6 holds runs to judged@10: a pool that is shallower cannot vouch for a run."""


def run_hash(run: Run, queries: Iterable[str], depth: int) -> str:
    """The hash of what a pool of this depth takes from a run.

    SHA-256 over one JSON line ``[query, [document, ...]]`` for each of ``queries`` that the run answers, queries
    in byte order, documents in rank order; the first 16 hexadecimal digits. Scores, the run's name, deeper ranks
    and queries outside the test set do not count.
    """
    digest = hashlib.sha256()
    grouped = top(run, queries, depth).group_by("query", maintain_order=True).agg("document")
    for query, documents in grouped.sort("query").iter_rows():
        digest.update(orjson.dumps([query, documents], option=orjson.OPT_APPEND_NEWLINE))
    return digest.hexdigest()[:16]


def in_pool(pools: Iterable[PoolRecord], run: Run, queries: Collection[str], least_depth: int = JUDGED_DEPTH) -> bool:
    """Whether a run's first documents were all judged: it was part of a pool, whatever its name was there.

    Args:
        pools: as ``formats.pool.read_pools`` gives them.
        run: the run as it is now. One that has changed within a pool's depth is outside of that pool.
        queries: the ids of the test set's questions. After new questions every run that answers them is outside.
        least_depth: pools that are shallower do not count.
    """
    hashes: dict[int, set[str]] = {}
    for pool in pools:
        if pool.depth >= least_depth:
            hashes.setdefault(pool.depth, set()).update(pool.runs.values())
    return any(run_hash(run, queries, depth) in known for depth, known in hashes.items())


def top(run: Run, queries: Iterable[str], depth: int) -> pl.DataFrame:
    """The columns query, document and rank: the first ``depth`` rows of each query that is wanted."""
    wanted = run.frame.filter(pl.col("query").is_in(list(queries)))
    ranked = wanted.select("query", "document", rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query"))
    return ranked.filter(pl.col("rank") <= depth)
