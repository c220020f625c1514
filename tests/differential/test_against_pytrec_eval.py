"""Every metric that pytrec_eval has, on every query, to 1e-9; after re-scoring: it ties 32-bit floats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbeval.evaluation.alignment import align, judge
from kbeval.evaluation.metrics import parse_metrics
from kbeval.evaluation.scoring import score_aligned
from kbeval.evaluation.second_opinion import shared_metrics, values_by_pytrec_eval
from plain_trec import qrels_from, run_from, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.model import Qrels, Run

pytest.importorskip("pytrec_eval")


# METHOD's metrics that pytrec_eval has: without a cut-off, and with each one. It has no rbp.
EXPECTED = {"mrr", "map", "ndcg", "r-precision", "f1", "bpref"} | {
    f"{family}@{k}"
    for family in ("hit_rate", "precision", "recall", "mrr", "map", "ndcg")
    for k in (1, 3, 5, 10, 20, 100)
}


def agree(qrels: Qrels, run: Run, level: int = 1) -> None:
    metrics = shared_metrics()
    assert {metric.name for metric in metrics} == EXPECTED
    theirs = values_by_pytrec_eval(qrels, run, metrics, level=level)
    for compiled in (False, True):
        ours = score_aligned(align(judge(qrels), run, compiled=compiled), metrics, level=level)
        for name in EXPECTED:
            np.testing.assert_allclose(ours.values[name], theirs[name], rtol=0, atol=1e-9, err_msg=name)


def test_what_pytrec_eval_says_on_a_list_worked_out_by_hand() -> None:
    # q1: d9 stands above d1 by its id, and d2 follows; d1 and d2 are its relevant ones. q2 is missing. z is no query.
    qrels = qrels_from("q1 0 d1 2\nq1 0 d2 1\nq2 0 d3 1")
    run = run_from("q1 Q0 d1 0 2 t\nq1 Q0 d9 0 2 t\nq1 Q0 d2 0 1 t\nz Q0 d1 0 1 t")
    values = values_by_pytrec_eval(qrels, run, parse_metrics("mrr,mrr@1,mrr@3,recall@3,map,P_1,ndcg"))
    ndcg = (2 / np.log2(3) + 1 / np.log2(4)) / (2 / np.log2(2) + 1 / np.log2(3))
    assert {name: column.tolist() for name, column in values.items()} == {
        "mrr": [0.5, 0],
        "mrr@1": [0, 0],
        "mrr@3": [0.5, 0],
        "recall@3": [1, 0],
        "map": [pytest.approx((1 / 2 + 2 / 3) / 2), 0],
        "precision@1": [0, 0],
        "ndcg": [pytest.approx(ndcg), 0],
    }


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
