"""Pairs a run with the judgments: what every metric is computed from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.errors import KbevalError
from kbeval.evaluation import ranx_kernels

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from kbeval.model import Qrels, Run

    Integers = NDArray[np.int64]
    Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Domains:
    """The domain of each query and of each document; whatever has none is absent, None or empty."""

    queries: Mapping[str, str | None]
    documents: Mapping[str, str | None]


@dataclass(frozen=True)
class Judgments:
    """The qrels as aligned arrays, one element a judged pair, in the order of the qrels frame.

    Attributes:
        queries: the queries of the test set, ascending by bytes.
        query: for each pair, the index of its query.
        grade: its grade; below 0 means unjudged.
        frame: the columns query (index), document and judgment (row number), for joins.
    """

    queries: tuple[str, ...]
    query: Integers
    grade: Integers
    frame: pl.DataFrame

    @cached_property
    def starts(self) -> Integers:
        """The row at which each query begins."""
        return np.searchsorted(self.query, np.arange(len(self.queries)))

    @cached_property
    def place(self) -> Integers:
        """For each pair, its place in its query's list, from 0: the ideal order, as grades fall."""
        return np.arange(len(self.query)) - self.starts[self.query]

    def count(self, lowest: int, below: int | None = None) -> Integers:
        """For each query, how many documents have a grade of at least ``lowest`` and under ``below``."""
        chosen = self.grade >= lowest
        if below is not None:
            chosen &= self.grade < below
        return np.bincount(self.query[chosen], minlength=len(self.queries))

    @cached_property
    def relevant(self) -> list[Reals]:
        """For each query its documents of grade 1 or more as ranx wants them: rows of (place + 1, grade)."""
        return self._relevant(1, self.grade)

    def relevant_alike(self, level: int) -> list[Reals]:
        """The same for a grade of at least ``level``, all with grade 1."""
        return self._relevant(level, np.ones_like(self.grade))

    def _relevant(self, level: int, grade: Integers) -> list[Reals]:
        table = np.column_stack([self.place + 1, grade]).astype(np.float64)
        # Grades fall, so that the relevant documents are the first ones.
        ends = self.starts + self.count(level)
        return [table[start:end] for start, end in zip(self.starts.tolist(), ends.tolist(), strict=True)]


@dataclass(frozen=True)
class Hits:
    """Retrieved documents that matter, by query and then by rank.

    Attributes:
        query: the index of the query.
        rank: 1 for the first document of its list.
        judgment: the row of ``Judgments``; 0 throughout where the hits are about domains.
    """

    query: Integers
    rank: Integers
    judgment: Integers

    def within(self, depth: int) -> Hits:
        """Those of the first ``depth`` ranks."""
        kept = self.rank <= depth
        return Hits(self.query[kept], self.rank[kept], self.judgment[kept])

    def ranked(self, rank: Integers) -> Hits:
        """The same documents at other ranks."""
        order = np.lexsort((rank, self.query))
        return Hits(self.query[order], rank[order], self.judgment[order])


@dataclass(frozen=True)
class DomainHits:
    """Retrieved documents of their query's domain.

    Attributes:
        has_domain: for each query of the test set, whether it has a domain at all.
        hits: the documents.
    """

    has_domain: NDArray[np.bool_]
    hits: Hits


@dataclass(frozen=True)
class Alignment:
    """A run paired with the judgments.

    Attributes:
        judgments: what it is paired with.
        hits: the retrieved documents that are named in the qrels.
        returned: for each query, how many documents the run holds.
        starts: for each query, the row of the run's frame at which it begins; meaningless where none is
            returned.
        strangers: the run's queries that are not in the test set, which are left out.
        compiled: whether ranx's kernels are compiled for it.
        domains: what was retrieved of each query's domain; None where domains are not known.
    """

    judgments: Judgments
    hits: Hits
    returned: Integers
    starts: Integers
    strangers: tuple[str, ...]
    compiled: bool
    domains: DomainHits | None = None

    def cut(self, depth: int) -> Alignment:
        """The same run with each list cut to its first ``depth`` documents."""
        domains = self.domains and replace(self.domains, hits=self.domains.hits.within(depth))
        return replace(self, hits=self.hits.within(depth), returned=np.minimum(self.returned, depth), domains=domains)

    @cached_property
    def grade(self) -> Integers:
        """The grade of each hit."""
        return self.judgments.grade[self.hits.judgment]

    def first_ranks(self, level: int) -> Integers:
        """For each query, the rank of its first document of at least this grade; 0 where there is none."""
        relevant = self.grade >= level
        ranks = np.zeros(len(self.returned), dtype=np.int64)
        # Hits are in order of rank: of several that are assigned to one query, the last to be assigned stays.
        ranks[self.hits.query[relevant][::-1]] = self.hits.rank[relevant][::-1]
        return ranks

    def by_ranx(
        self, kernel: ranx_kernels.Kernel, *arguments: float | Integers, relevant: list[Reals] | None = None
    ) -> Reals:
        """Each query's value by one of ranx's kernels.

        Args:
            kernel: which one.
            arguments: what it takes besides the judgments and the run.
            relevant: the judgments, where not ``Judgments.relevant``.
        """
        relevant = self.judgments.relevant if relevant is None else relevant
        return ranx_kernels.evaluate(kernel, relevant, self.rankings, *arguments, compiled=self.compiled)

    @cached_property
    def rankings(self) -> list[Reals]:
        """For each query its list as ranx wants it, down to the last relevant document: a column of ids.

        A document's id is its place among the query's judgments, plus 1; 0 matches nothing. What follows the
        last relevant document changes no metric that ranx computes, and is not there. The order is in the
        array: ranx's kernels never look at scores.
        """
        relevant = self.grade >= 1
        query, rank = self.hits.query[relevant], self.hits.rank[relevant]
        widths = np.zeros(len(self.returned), dtype=np.int64)
        widths[query] = rank  # hits are in order of rank: the last one stays
        ends = np.cumsum(widths)
        starts = ends - widths
        ids = np.zeros((int(ends[-1]), 1))
        ids[starts[query] + rank - 1, 0] = self.judgments.place[self.hits.judgment[relevant]] + 1
        return [ids[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def qrels_queries(qrels: Qrels) -> list[str]:
    """The test set: the queries named in the qrels, with those that have no judgment, ascending by bytes."""
    return sorted({*qrels.frame["query"].unique().to_list(), *qrels.unjudged})


def judge(qrels: Qrels) -> Judgments:
    """Prepares the judgments, once for all runs.

    Raises:
        KbevalError: there are none.
        ValueError: the frame is not in the order that ``Qrels`` promises.
    """
    frame = qrels.frame
    if frame.is_empty():
        raise KbevalError("the test set is empty: the qrels hold no judgment")
    judged, lengths = _groups(frame["query"])
    query = np.repeat(np.arange(len(judged)), lengths)
    grade = frame["grade"].to_numpy().astype(np.int64)
    if judged.n_unique() != len(judged) or np.any((np.diff(query) == 0) & (np.diff(grade) > 0)):
        raise ValueError("the judgments must be sorted by query, and in each query by falling grade")
    queries = judged.to_list()
    if qrels.unjudged:
        queries = qrels_queries(qrels)
        query = np.searchsorted(np.array(queries, dtype=object), judged.to_numpy())[query]
    rows = pl.DataFrame({"query": query, "document": frame["document"], "judgment": np.arange(len(query))})
    return Judgments(tuple(queries), query, grade, rows)


def align(
    judgments: Judgments,
    run: Run,
    domains: Domains | None = None,
    *,
    compiled: bool | None = None,
    may_be_empty: bool = False,
) -> Alignment:
    """Pairs a run with the judgments.

    Args:
        judgments: of the test set.
        run: the run.
        domains: of queries and documents, for domain_accuracy.
        compiled: whether ranx's kernels are compiled for it. Unless told, the size of this run alone decides;
            who scores several runs decides once, on their common size (``ranx_kernels.pays_to_compile``).
        may_be_empty: whether a run without a line is the answer of an engine that found nothing.

    Raises:
        KbevalError: the run and the test set have no query in common.
        ValueError: the frame is not in the order that ``Run`` promises.
    """
    names, lengths = _groups(run.frame["query"])
    if names.n_unique() != len(names):
        raise ValueError(f"the lines of run {run.name} must be sorted by query")
    # The index of each of the run's queries in the test set, -1 for one that is not there.
    index = _looked_up(names, judgments.queries, range(len(judgments.queries)), default=-1)
    known = index >= 0
    if not (known.any() or (may_be_empty and run.frame.is_empty())):
        raise KbevalError(
            f"run {run.name} has no query in common with the test set: it answers "
            f"{names[0]!r} and so on, the test set asks {judgments.queries[0]!r} and so on"
            if len(names)
            else f"run {run.name} is empty"
        )
    ends = np.cumsum(lengths)
    returned = np.zeros(len(judgments.queries), dtype=np.int64)
    starts = np.zeros_like(returned)
    returned[index[known]] = lengths[known]
    starts[index[known]] = (ends - lengths)[known]
    documents = run.frame["document"]
    # Few lines are about a judged document: with the others out of the way the join by two columns is cheap.
    is_judged = documents.is_in(judgments.frame["document"].unique().implode())
    rows = is_judged.arg_true().to_numpy().astype(np.int64)
    query = index[np.searchsorted(ends, rows, side="right")]
    judged = (
        pl.DataFrame({"query": query, "document": documents.gather(rows), "row": rows})
        .join(judgments.frame, on=["query", "document"])
        .sort("row")
    )
    query = judged["query"].to_numpy()
    domain_hits = None
    if domains is not None:
        domain_hits = _domain_hits(judgments.queries, documents, np.repeat(index, lengths), starts, domains)
    return Alignment(
        judgments=judgments,
        hits=Hits(query, judged["row"].to_numpy() - starts[query] + 1, judged["judgment"].to_numpy()),
        returned=returned,
        starts=starts,
        strangers=tuple(names.filter(pl.Series(~known)).to_list()),
        compiled=ranx_kernels.pays_to_compile(len(names), run.frame.height) if compiled is None else compiled,
        domains=domain_hits,
    )


def _domain_hits(
    queries: tuple[str, ...], documents: pl.Series, query: Integers, starts: Integers, domains: Domains
) -> DomainHits:
    """Finds the lines whose document is of their query's domain; ``query`` is -1 outside the test set."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(domains.documents.values())) if name}
    # A query's domain that no document has is a domain all the same: -2 matches nothing, -1 is none.
    wanted = np.array([numbers.get(name, -2) if (name := domains.queries.get(q)) else -1 for q in queries])
    domain_of = [numbers.get(name or "", -3) for name in domains.documents.values()]
    is_hit = (query >= 0) & (wanted[query] == _looked_up(documents, domains.documents, domain_of, default=-3))
    rows = np.flatnonzero(is_hit)
    hits = Hits(query[rows], rows - starts[query[rows]] + 1, np.zeros_like(rows))
    return DomainHits(has_domain=wanted != -1, hits=hits)


def _looked_up(column: pl.Series, old: Iterable[str], new: Iterable[int], *, default: int) -> Integers:
    return column.replace_strict(
        pl.Series(list(old), dtype=pl.String), pl.Series(list(new), dtype=pl.Int64), default=default
    ).to_numpy()


def _groups(column: pl.Series) -> tuple[pl.Series, Integers]:
    """The values of a column in which equal ones stand together, and how often each stands there."""
    runs = column.rle().struct.unnest()
    return runs["value"], runs["len"].to_numpy().astype(np.int64)
