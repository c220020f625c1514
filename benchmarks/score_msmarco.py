"""Times scoring on generated frames of MS MARCO dev's size (6,980 queries x 1,000 documents), stage by stage.

    python benchmarks/score_msmarco.py              two runs, compiled, with peak memory
    python benchmarks/score_msmarco.py --runs 10    memory must not grow with the number of runs
    python benchmarks/score_msmarco.py --switch     where compiling begins to pay

Reading files is not timed here: the frames are what the readers give. The first compiled run after an install
also pays for compiling; NUMBA_CACHE_DIR=$(mktemp -d) shows that.
"""

from __future__ import annotations

import argparse
import resource
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.model import Qrels, Run

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENTS = 8_841_823
COMPARED = (
    "hit_rate@1,hit_rate@3,hit_rate@5,hit_rate@10,hit_rate@20,recall@1,recall@3,recall@5,recall@10,recall@20,"
    "mrr,precision@5,precision@10,ndcg@10"
)
EVERY = f"{COMPARED},mrr@10,map,map@10,ndcg,r-precision,f1,f1@10,bpref,rbp.8,judged@10"


def generate(queries: int, depth: int, seed: int) -> Run:
    """A run whose one relevant document (the query's number) stands at a geometric rank, or nowhere."""
    rng = np.random.default_rng(seed)
    others = DOCUMENTS - queries
    first = rng.integers(others, size=(queries, 1))
    step = rng.integers(1, others // depth, size=(queries, 1))  # never around to the first again
    documents = queries + (first + step * np.arange(depth)) % others
    rank = rng.geometric(0.02, size=queries) - 1
    found = np.flatnonzero(rank < depth)
    documents[found, rank[found]] = found
    frame = pl.DataFrame(
        {
            "query": np.repeat(np.arange(queries), depth),
            "document": documents.ravel(),
            "score": np.tile(np.arange(depth, 0, -1) / 7, queries),
        }
    )
    frame = frame.with_columns(pl.col("query").cast(pl.String).str.zfill(7), pl.col("document").cast(pl.String))
    return Run(f"run{seed}", frame)


def judgments(queries: int) -> Qrels:
    number = pl.Series("query", np.arange(queries))
    frame = pl.DataFrame({"query": number.cast(pl.String).str.zfill(7), "document": number.cast(pl.String)})
    return Qrels(frame.with_columns(grade=pl.lit(1, pl.Int64)))


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{what:44} {time.perf_counter() - start:8.3f} s   peak {peak} MB", flush=True)


def score_runs(count: int, queries: int, depth: int, metrics: str) -> None:
    from kbeval.evaluation.alignment import align, judge
    from kbeval.evaluation.metrics import parse_metrics
    from kbeval.evaluation.scoring import score_aligned
    from kbeval.evaluation.ties import find_ties

    parsed = parse_metrics(metrics)
    with timed("judge"):
        prepared = judge(judgments(queries))
    for seed in range(count):
        with timed(f"generate {queries} x {depth}"):
            run = generate(queries, depth, seed)
        with timed("  align"):
            alignment = align(prepared, run)
        with timed(f"  score, {len(parsed)} metrics"):
            score_aligned(alignment, parsed)
        with timed("  ties"):
            find_ties(run, alignment, parsed)
        del run, alignment


def show_switch() -> None:
    from kbeval.evaluation.alignment import align, judge
    from kbeval.evaluation.metrics import parse_metrics
    from kbeval.evaluation.scoring import score_aligned

    for name, metrics in (("14 metrics of compare", COMPARED), ("24 metrics", EVERY)):
        parsed = parse_metrics(metrics)
        score_aligned(align(judge(judgments(10)), generate(10, 10, 0), compiled=True), parsed)  # warm
        for queries, depth in ((100, 20), (300, 1000), (1000, 20), (1000, 1000), (3000, 1000), (6980, 20)):
            run, prepared = generate(queries, depth, 1), judge(judgments(queries))
            for compiled in (False, True):
                with timed(f"{name}: {queries} x {depth}, {'compiled' if compiled else 'uncompiled'}"):
                    score_aligned(align(prepared, run, compiled=compiled), parsed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--queries", type=int, default=6980)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--metrics", default=COMPARED)
    parser.add_argument("--switch", action="store_true")
    options = parser.parse_args()
    if options.switch:
        show_switch()
    else:
        score_runs(options.runs, options.queries, options.depth, options.metrics)


if __name__ == "__main__":
    main()
