"""Writes two runs and their qrels, the size of MS MARCO's dev set: the same bytes on every machine.

    python benchmarks/make_runs.py [--queries 6980] [--documents 1000] [--out benchmarks/data]

As in real files, queries stand in no order, document ids are numbers, tied scores are in no order either, and
the two runs share about half of what they return. Writes a.trec and b.trec, 300 MB each, and qrels.trec.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

SEED = 20_240_607
PASSAGES = 8_841_823  # in the MS MARCO passage collection
LAST_QUERY = 1_102_432


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=6_980)
    parser.add_argument("--documents", type=int, default=1_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    chance = np.random.default_rng(SEED)
    depth = options.documents
    queries = chance.choice(LAST_QUERY, options.queries, replace=False)
    pool = np.stack([chance.choice(PASSAGES, 2 * depth, replace=False) for _ in queries])
    # BM25-like scores of four decimals, and similarities of which many are equal.
    scores = {
        "a": np.round(chance.gamma(8.0, 1.5, (len(queries), depth)), 4),
        "b": np.round(chance.beta(5.0, 3.0, (len(queries), depth)), 4),
    }
    starts = {"a": 0, "b": depth // 2}
    for name, its_scores in scores.items():
        ranking = -np.sort(-its_scores, axis=1)
        documents = chance.permuted(pool[:, starts[name] : starts[name] + depth], axis=1)
        write(options.out / f"{name}.trec", queries, documents, ranking, f"generated-{name}")
    # What both return is relevant now and then, so that the two can be told apart.
    relevant = pool[:, depth // 2 + chance.integers(0, depth // 2)]
    lines = pl.DataFrame({"query": queries, "q0": 0, "document": relevant, "grade": 1})
    lines.write_csv(options.out / "qrels.trec", include_header=False, separator=" ")


def write(path: Path, queries: np.ndarray, documents: np.ndarray, ranking: np.ndarray, tag: str) -> None:
    depth = documents.shape[1]
    table = pl.DataFrame(
        {
            "query": np.repeat(queries, depth),
            "document": documents.ravel(),
            "rank": np.tile(np.arange(1, depth + 1), len(queries)),
            "score": ranking.ravel(),
        }
    ).select("query", pl.lit("Q0"), "document", "rank", "score", pl.lit(tag).alias("tag"))
    table.write_csv(path, include_header=False, separator=" ", float_precision=6)


if __name__ == "__main__":
    main()
