"""Runs measured for a gate: each at its own depth, since no other run may move its numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.comparison import JUDGED, found_nothing, read_source
from kbeval.evaluation.pooling import in_pool
from kbeval.evaluation.ranx_kernels import pays_to_compile
from kbeval.evaluation.scoring import score_aligned
from kbeval.model import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.test_set import TestSet
    from kbeval.formats.sidecar import Sidecar


@dataclass(frozen=True)
class Measured:
    """One run on the test set.

    Attributes:
        values: for each metric its value per query, in the order of the test set's queries; nan where it has none.
        means: their means.
        errors: the error of each query of the test set on which the engine failed.
        missing: how many queries have no line and no error.
        depth: where its lists were cut: its sidecar's k, or none.
        longest: its longest list.
        judged: the mean judged@10.
        pooled: whether its first ten documents were pooled to be judged; None where there is no pool.
        remarks: for some metrics, what must be said beside it.
        warnings: sentences about the run.
    """

    name: str
    sidecar: Sidecar | None
    values: Mapping[str, NDArray[np.float64]]
    means: Mapping[str, float]
    errors: Mapping[str, str]
    missing: int
    depth: int | None
    longest: int
    judged: float
    pooled: bool | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    @property
    def engine(self) -> str:
        """The engine's name where a sidecar tells it, the run's otherwise."""
        return self.sidecar.engine.name if self.sidecar else self.name


def measure_runs(
    test_set: TestSet, sources: Sequence[RunSource], metrics: Sequence[Metric], *, depth: int | None = None
) -> list[Measured]:
    """Measures runs one after another; ``depth`` is for those whose sidecar names none.

    Raises:
        KbevalError: nothing in the test set is relevant, or a run has no query in common with it.
    """
    judgments = judge(test_set.qrels)
    if not judgments.count(test_set.level).any():
        raise KbevalError(
            f"the test set: expected a document of grade {test_set.level} or more for at least one query, found none "
            f"in {len(judgments.queries)} queries, so nothing can be judged"
        )
    compiled = pays_to_compile(len(judgments.queries) * len(sources), sum(source.lines() for source in sources))
    known = {*test_set.queries, *test_set.unanswerable, *test_set.left_out}
    wanted = list(dict.fromkeys([*metrics, JUDGED]))
    in_test_set = set(test_set.queries)
    found = []
    for source in sources:
        run = read_source(source)
        may_be_empty = isinstance(source.origin, Run) or found_nothing(source.sidecar)
        alignment = align(judgments, run, test_set.domains, compiled=compiled, may_be_empty=may_be_empty)
        cut = source.sidecar.k if source.sidecar else depth
        scores = score_aligned(alignment, wanted, level=test_set.level, depth=cut)
        errors = {q: line for q, line in (source.sidecar.errors if source.sidecar else {}).items() if q in in_test_set}
        strangers = sum(query not in known for query in alignment.strangers)
        warnings = [*run.warnings]
        if strangers:
            warnings.append(f"{strangers} of its queries are not in the test set and are left out")
        asked = [*test_set.queries, *test_set.unanswerable, *test_set.left_out]
        found.append(
            Measured(
                name=source.name,
                sidecar=source.sidecar,
                values={m.name: scores.values[m.name] for m in metrics if m.name in scores.values},
                means={m.name: scores.means[m.name] for m in metrics if m.name in scores.means},
                errors=errors,
                missing=sum(query not in errors for query in scores.missing),
                depth=cut,
                longest=int(alignment.returned.max()),
                judged=scores.means[JUDGED.name],
                pooled=in_pool(test_set.pools, run, asked) if test_set.pools else None,
                remarks=scores.remarks,
                warnings=warnings,
            )
        )
        del run, alignment
    return found
