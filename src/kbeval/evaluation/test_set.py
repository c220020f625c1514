"""What runs are measured against: judgments, and what is known about their queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.evaluation.alignment import Domains, qrels_queries
from kbeval.evaluation.clusters import clusters
from kbeval.evaluation.strata import in_order, stratum
from kbeval.formats.dataset import corpus_hash, qrels_hash, queries_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kbeval.formats.dataset import Dataset
    from kbeval.formats.pool import PoolRecord
    from kbeval.model import Document, LabelledQuery, Qrels


@dataclass(frozen=True)
class TestSet:
    """The queries named in the qrels, in byte order of their ids: the order of every array about them.

    Attributes:
        qrels: the judgments.
        level: from which grade on a document counts as relevant.
        labelled: what a data set knows about the queries, by id; empty where only qrels are at hand.
        documents: the corpus by id; empty where only qrels are at hand.
        corpus_hash, queries_hash: of the data set; none where only qrels are at hand.
        unanswerable: queries that the corpus does not answer, by id: asked, shown, and in no metric.
        left_out: ids of further queries that runs may answer, and that are in no metric.
        judged_by_runs: for judged pairs that were found by pooling runs, the names of these runs.
        people: the grade of each pair that a person has judged.
        pools: what was pooled to be judged.
        judges: the models that judged.
    """

    __test__ = False  # the name is the field's, and pytest would collect it

    qrels: Qrels
    level: int = 1
    labelled: Mapping[str, LabelledQuery] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
    corpus_hash: str | None = None
    queries_hash: str | None = None
    unanswerable: Mapping[str, LabelledQuery] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    judged_by_runs: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    people: Mapping[tuple[str, str], int] = field(default_factory=dict)
    pools: Sequence[PoolRecord] = ()
    judges: Sequence[str] = ()

    @cached_property
    def queries(self) -> list[str]:
        """The ids of all queries, also of those without a relevant document."""
        return qrels_queries(self.qrels)

    @cached_property
    def strata(self) -> list[str]:
        """Each query's stratum: its style, or its source where it has no style."""
        return [
            stratum(known.style, known.source) if (known := self.labelled.get(query)) else stratum(None, None)
            for query in self.queries
        ]

    @cached_property
    def stratum_rows(self) -> dict[str, NDArray[np.int64]]:
        """The positions of each stratum's queries, in the order in which strata are shown."""
        names = np.array(self.strata, dtype=object)
        return {name: np.flatnonzero(names == name) for name in in_order(self.strata)}

    @cached_property
    def domains(self) -> Domains | None:
        """The domains of queries and documents; none where either side has none."""
        of_queries = {query.id: query.domain for query in self.labelled.values() if query.domain}
        of_documents = {document.id: document.domain for document in self.documents.values() if document.domain}
        return Domains(of_queries, of_documents) if of_queries and of_documents else None

    @cached_property
    def gold(self) -> dict[str, list[str]]:
        """For each query its relevant documents, best grade first."""
        relevant = self.qrels.frame.filter(pl.col("grade") >= self.level)
        grouped = relevant.group_by("query", maintain_order=True).agg(pl.col("document"))
        found = dict(zip(grouped["query"].to_list(), grouped["document"].to_list(), strict=True))
        return {query: found.get(query, []) for query in self.queries}

    @cached_property
    def clusters(self) -> NDArray[np.int64]:
        """Each query's cluster, the unit of METHOD 4."""
        return clusters(
            [
                (query, known.style if (known := self.labelled.get(query)) else None, self.gold[query])
                for query in self.queries
            ]
        )

    @cached_property
    def overlaps(self) -> NDArray[np.float64]:
        """Each query's lexical overlap with its gold text, nan where it is not known."""
        known = [self.labelled.get(query) for query in self.queries]
        return np.array([np.nan if of is None or of.overlap is None else of.overlap for of in known])

    @cached_property
    def hash(self) -> str:
        """Tells test sets apart: a hash of every judgment, and of the level."""
        return qrels_hash(self.qrels, self.level)


def from_dataset(dataset: Dataset, *, level: int, qrels: Qrels | None = None) -> TestSet:
    """The test set of a data set, optionally with other judgments over the same documents."""
    return TestSet(
        qrels=qrels or dataset.qrels,
        level=level,
        labelled={query.id: query for query in dataset.queries},
        documents={document.id: document for document in dataset.documents},
        corpus_hash=corpus_hash(dataset.documents),
        queries_hash=queries_hash(dataset.asked),
        unanswerable={query.id: query for query in dataset.unanswerable},
        left_out=frozenset(query.id for query in dataset.left_out),
        judged_by_runs=dataset.judged_by_runs,
        people=dataset.people,
        pools=dataset.pools,
        judges=dataset.judges,
    )
