"""trec_eval's own values, by pytrec_eval (an extra): the second opinion on every number.

pytrec_eval reads scores as 32-bit floats, so it is given n .. 1 in kbeval's order; and it leaves out queries that a
run lacks, which count 0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kbeval.evaluation.metrics import Cutoff, Metric, families
from kbeval.evaluation.scoring import score_aligned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from kbeval.evaluation.alignment import Alignment
    from kbeval.model import Qrels, Run

CUTOFFS = (1, 3, 5, 10, 20, 100)
TOLERANCE = 1e-9

# For ndcg it counts through all pairs of grades: a query takes 0.2 ms with grades up to 1,000, 23 ms up to 10,000;
# and it crashes on the highest that a file may hold.
HIGHEST_GRADE = 1_000


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


def is_installed() -> bool:
    """Whether pytrec_eval can be imported."""
    try:
        import pytrec_eval  # noqa: F401
    except ImportError:
        return False
    return True


def shared_metrics() -> tuple[Metric, ...]:
    """Every metric that both have: those with an oracle that pytrec_eval knows, at each of ``CUTOFFS``.

    trec_eval 10 has rbp, pytrec_eval has not.
    """
    import pytrec_eval

    cuts: dict[Cutoff, tuple[int | None, ...]] = {
        Cutoff.NONE: (None,),
        Cutoff.OPTIONAL: (None, *CUTOFFS),
        Cutoff.REQUIRED: CUTOFFS,
    }
    metrics = [Metric(family, k) for family in families() for k in cuts[family.cutoff] if not family.takes_persistence]
    return tuple(
        metric
        for metric in metrics
        if (oracle := metric.family.oracle(metric))
        and oracle.measure.partition(".")[0] in pytrec_eval.supported_measures
    )


def values_by_pytrec_eval(
    qrels: Qrels, run: Run, metrics: Iterable[Metric], *, level: int = 1
) -> Mapping[str, NDArray[np.float64]]:
    """What pytrec_eval says.

    Args:
        qrels: the judgments; no grade above ``HIGHEST_GRADE``.
        run: the run.
        metrics: of ``shared_metrics``.
        level: from which grade on a document is relevant.

    Returns:
        For each metric, by canonical name, one value a query in the order of the qrels frame; 0 where the run lacks it.
    """
    judged: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.frame.iter_rows():
        judged.setdefault(query, {})[document] = grade
    # trec_eval -M cuts the run itself: what has such an oracle is evaluated on lists of that length.
    by_depth: dict[int | None, dict[str, str]] = defaultdict(dict)
    for metric in metrics:
        oracle = metric.family.oracle(metric)
        if oracle is None:
            raise ValueError(f"{metric.name} has no oracle")
        by_depth[oracle.depth][metric.name] = oracle.measure
    evaluators = {depth: _evaluator(judged, names.values(), level) for depth, names in by_depth.items()}
    place = {query: index for index, query in enumerate(judged)}
    values = {name: np.zeros(len(place)) for names in by_depth.values() for name in names}
    lists = run.frame.group_by("query", maintain_order=True).agg("document")
    # One query at a time: all at once would be a dict of every line of the run.
    for query, documents in lists.iter_rows():
        if query not in place:
            continue
        for depth, names in by_depth.items():
            shown = documents[:depth]
            ranked = {document: float(len(shown) - above) for above, document in enumerate(shown)}
            found = evaluators[depth].evaluate({query: ranked})[query]
            for name, measure in names.items():
                values[name][place[query]] = found[measure.replace(".", "_")]
    return values


def largest_difference(qrels: Qrels, run: Run, alignment: Alignment, *, level: int = 1) -> Difference:
    """Compares every metric that both have, on every query of the test set.

    Args:
        qrels: the judgments; no grade above ``HIGHEST_GRADE``.
        run: the run.
        alignment: of the two.
        level: from which grade on a document is relevant.

    Raises:
        ImportError: pytrec_eval is not installed.
    """
    metrics = shared_metrics()
    theirs = values_by_pytrec_eval(qrels, run, metrics, level=level)
    ours = score_aligned(alignment, metrics, level=level)
    worst = Difference(0.0, metrics[0].name, ours.queries[0], len(metrics), len(ours.queries))
    for metric in metrics:
        off = np.abs(ours.values[metric.name] - theirs[metric.name])
        off[np.isnan(off)] = np.inf  # else nothing would be greater, and the two would seem to agree
        at = int(off.argmax())
        if off[at] > worst.largest:
            worst = Difference(float(off[at]), metric.name, ours.queries[at], len(metrics), len(ours.queries))
    return worst


def _evaluator(judged: dict[str, dict[str, int]], measures: Iterable[str], level: int) -> Any:
    import pytrec_eval

    # A level above every grade is one like another, but a very high one crashes it.
    return pytrec_eval.RelevanceEvaluator(judged, set(measures), relevance_level=min(level, HIGHEST_GRADE + 1))
