"""trec_eval's own values, by pytrec_eval: the second opinion on every number (an extra)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.scoring import score_aligned

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Alignment
    from kbeval.model import Qrels, Run

TOLERANCE = 1e-9

# Every measure of trec_eval that kbeval has. Cut-offs ascend: trec_eval wants them so.
MEASURES = (
    "success.1,3,5,10,20",
    "P.1,5,10,20",
    "recall.1,5,10,20,100",
    "recip_rank",
    "map",
    "map_cut.5,10,100",
    "ndcg",
    "ndcg_cut.1,5,10,100",
    "Rprec",
    "bpref",
    "set_F",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest difference between kbeval and pytrec_eval, and where it is."""

    largest: float
    metric: str
    query: str
    metrics: int
    queries: int

    @property
    def agrees(self) -> bool:
        """Whether it is no more than rounding."""
        return self.largest <= TOLERANCE


def largest_difference(qrels: Qrels, run: Run, alignment: Alignment, *, level: int = 1) -> Difference:
    """Compares every metric on every query of the test set.

    pytrec_eval reads scores as 32-bit floats, so it is given n .. 1 in kbeval's order; and it leaves out queries that
    the run lacks, which count 0.

    Raises:
        ImportError: pytrec_eval is not installed.
    """
    import pytrec_eval

    judged: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.frame.iter_rows():
        judged.setdefault(query, {})[document] = grade
    ranked: dict[str, dict[str, float]] = {}
    for query, documents in run.frame.group_by("query", maintain_order=True).agg("document").iter_rows():
        ranked[query] = {document: float(len(documents) - place) for place, document in enumerate(documents)}
    theirs = pytrec_eval.RelevanceEvaluator(judged, set(MEASURES), relevance_level=level).evaluate(ranked)
    names = list(next(iter(theirs.values())))
    metrics = {name: parse_metric(name) for name in names}
    ours = score_aligned(alignment, metrics.values(), level=level)
    worst = Difference(0.0, names[0], ours.queries[0], len(names), len(ours.queries))
    for name, metric in metrics.items():
        expected = np.array([theirs.get(query, {}).get(name, 0.0) for query in ours.queries])
        off = np.abs(ours.values[metric.name] - expected)
        at = int(off.argmax())
        if off[at] > worst.largest:
            worst = Difference(float(off[at]), metric.name, ours.queries[at], len(names), len(ours.queries))
    return worst
