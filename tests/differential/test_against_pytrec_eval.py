"""Every metric that pytrec_eval has, on every query, to 1e-9; after re-scoring: it ties 32-bit floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.scoring import score_aligned
from plain_trec import qrels_from, run_from, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.model import Qrels, Run

pytrec_eval = pytest.importorskip("pytrec_eval")

# Cut-offs ascend: trec_eval wants them so.
MEASURES = {
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
}


def rescored(run: Run) -> dict[str, dict[str, float]]:
    """The run with scores n .. 1 in kbeval's order."""
    found: dict[str, dict[str, float]] = {}
    for (query,), lines in run.frame.group_by("query", maintain_order=True):
        found[str(query)] = {document: float(len(lines) - i) for i, document in enumerate(lines["document"])}
    return found


def as_dict(qrels: Qrels) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for query, document, grade in qrels.frame.iter_rows():
        found.setdefault(query, {})[document] = grade
    return found


def agree(qrels: Qrels, run: Run, level: int = 1) -> None:
    evaluator = pytrec_eval.RelevanceEvaluator(as_dict(qrels), MEASURES, relevance_level=level)
    theirs = evaluator.evaluate(rescored(run))
    names = list(next(iter(theirs.values())))
    assert len(names) == 27
    metrics = [parse_metric(name) for name in names]
    for compiled in (False, True):
        ours = score_aligned(align(judge(qrels), run, compiled=compiled), metrics, level=level)
        for name, metric in zip(names, metrics, strict=True):
            # It leaves out queries that the run misses.
            expected = [theirs.get(query, {}).get(name, 0.0) for query in ours.queries]
            np.testing.assert_allclose(ours.values[metric.name], expected, rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize(
    "name",
    [
        "docs-qa/retrieve_base",
        "docs-qa/retrieve_level_two",
        "docs-qa/retrieve_level_three",
        "scifact/bm25",
        "cranfield/bm25",
    ],
)
def test_real_runs(shared_data: Path, name: str) -> None:
    dataset, run = name.split("/")
    (file,) = (shared_data / dataset / "runs").glob(f"{run}.run*")
    agree(qrels_from(text_of(shared_data / dataset / "qrels" / "test.tsv")), run_from(text_of(file)))


@pytest.mark.parametrize("level", [1, 2, 3])
def test_graded_judgments(shared_data: Path, level: int) -> None:
    folder = shared_data / "trec_eval"
    agree(qrels_from(text_of(folder / "qrels.rel_level")), run_from(text_of(folder / "results.test")), level)


@pytest.mark.parametrize("seed", range(5))
def test_made_up_runs_with_ties_negative_grades_and_gaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    qrels, run = [], []
    for query in range(30):
        documents = rng.permutation(40)
        qrels += [f"q{query} 0 d{d} {rng.integers(-1, 5)}" for d in documents[: rng.integers(1, 25)]]
        if query % 7:  # some queries are missing from the run
            shown = rng.permutation(40)[: rng.integers(1, 40)]
            run += [f"q{query} Q0 d{d} 0 {rng.integers(0, 9)} t" for d in shown]
    agree(qrels_from("\n".join(qrels)), run_from("\n".join(run)), level=1 + seed % 2)
