"""Pooling: what several runs found for each question, to be judged once for all of them (METHOD 6)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kbeval.formats.pool import PoolRecord
    from kbeval.model import Question, Run

JUDGED_DEPTH = 10
"""METHOD 6 holds runs to judged@10: a pool that is shallower cannot vouch for a run."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document to be judged for a question, and why it is one.

    Attributes:
        ranks: for each pooled run that returned it within the depth, its rank from 1; by name in the runs' order.
        gold: the question's own labels name it. It is judged whether or not a run found it: a label that is
            wrong is most likely on a document that nobody finds.
        twin: it holds nearly what a gold passage holds.
        passage: the hash of the text of the chunk that does, where it is known: a judge has to see that one.
    """

    query: str
    document: str
    ranks: Mapping[str, int] = field(default_factory=dict)
    gold: bool = False
    twin: bool = False
    passage: str | None = None

    @property
    def best_rank(self) -> int | None:
        """The best rank that a run gave it; none where no run returned it."""
        return min(self.ranks.values(), default=None)


def pool_candidates(
    runs: Sequence[Run],
    questions: Iterable[Question],
    depth: int,
    *,
    twins: Mapping[tuple[str, str], str | None] | None = None,
) -> list[Candidate]:
    """The union of the runs' first ``depth`` documents for each question, its gold, and the gold's twins.

    Args:
        runs: with distinct names.
        questions: the test set. What a run answers beyond it is left out.
        depth: how many documents of each answer are pooled.
        twins: pairs of a question and a near-duplicate of its gold (``testset.twins``), each with the hash of the chunk
            that is one, None where the whole document is.

    Returns:
        Each (question, document) once, best ranks first, so that a limited budget goes where it counts for
        every metric; what no run returned comes last. Equal ranks by question and document, ascending bytes.
    """
    wanted = {question.id: question for question in questions}
    ranks: dict[tuple[str, str], dict[str, int]] = {}
    for run in runs:
        for query, document, rank in _top(run, wanted, depth).iter_rows():
            ranks.setdefault((query, document), {})[run.name] = rank
    gold = {(q.id, document) for q in wanted.values() for document, grade in q.gold_documents.items() if grade > 0}
    near = {pair: chunk for pair, chunk in (twins or {}).items() if pair[0] in wanted and pair not in gold}
    candidates = [
        Candidate(*pair, ranks=ranks.get(pair, {}), gold=pair in gold, twin=pair in near, passage=near.get(pair))
        for pair in ranks.keys() | gold | near.keys()
    ]
    return sorted(candidates, key=lambda one: (one.best_rank or depth + 1, one.query, one.document))


def run_hash(run: Run, queries: Iterable[str], depth: int) -> str:
    """The hash of what a pool of this depth takes from a run.

    SHA-256 over one JSON line ``[query, [document, ...]]`` for each of ``queries`` that the run answers, queries
    in byte order, documents in rank order; the first 16 hexadecimal digits. Scores, the run's name, deeper ranks
    and queries outside the test set do not count.
    """
    digest = hashlib.sha256()
    grouped = _top(run, queries, depth).group_by("query", maintain_order=True).agg("document")
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


def _top(run: Run, queries: Iterable[str], depth: int) -> pl.DataFrame:
    """The columns query, document and rank: the first ``depth`` rows of each query that is wanted."""
    wanted = run.frame.filter(pl.col("query").is_in(list(queries)))
    ranked = wanted.select("query", "document", rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query"))
    return ranked.filter(pl.col("rank") <= depth)
