"""Every metric that trec_eval has, against what it printed, on each query and in the mean: all 4 digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kbeval.errors import KbevalError
from kbeval.evaluation.metrics import Metric, parse_metric
from kbeval.evaluation.scoring import score
from plain_trec import fields, qrels_from, run_from, text_of

if TYPE_CHECKING:
    from pathlib import Path

# In METHOD's table, and printed by trec_eval for every run here.
EXPECTED = {"hit_rate", "precision", "recall", "mrr", "map", "ndcg", "r-precision", "f1", "bpref"}
SHORT_LIST = {"precision", "mrr", "map", "r-precision", "bpref"}  # trec_eval without -m
WITH_CUTOFFS = {"hit_rate", "precision", "recall", "ndcg"}

RUNS = [
    "docs-qa/retrieve_base",
    "docs-qa/retrieve_level_two",
    "docs-qa/retrieve_level_three",
    "scifact/bm25",
    "cranfield/bm25",
]


def compare(
    qrels: Path,
    run: Path,
    printed: Path,
    *,
    level: int = 1,
    depth: int | None = None,
    families: set[str] = EXPECTED,
) -> None:
    """Holds one run's scores against a file that trec_eval printed."""
    lines = fields(text_of(printed))
    metrics: dict[str, Metric] = {}
    for spelled in dict.fromkeys(line[0] for line in lines):
        try:
            metrics[spelled] = parse_metric(spelled)
        except KbevalError:
            continue  # METHOD does not have it
    assert {metric.family.name for metric in metrics.values()} == families
    scores = score(qrels_from(text_of(qrels)), run_from(text_of(run)), metrics.values(), level=level, depth=depth)
    place = {query: index for index, query in enumerate(scores.queries)}
    wrong = []
    for spelled, query, value in lines:
        if metric := metrics.get(spelled):
            ours = scores.means[metric.name] if query == "all" else scores.values[metric.name][place[query]]
            if f"{ours:.4f}" != value:
                wrong.append((spelled, query, value, ours))
    assert not wrong


@pytest.mark.parametrize("depth", [None, 10], ids=["uncut", "M10"])
@pytest.mark.parametrize("name", RUNS)
def test_real_runs(shared_data: Path, name: str, depth: int | None) -> None:
    dataset, run = name.split("/")
    (file,) = (shared_data / dataset / "runs").glob(f"{run}.run*")
    cut = "" if depth is None else f".M{depth}"
    printed = shared_data / "reference" / f"{dataset}.{run}{cut}.txt.gz"
    compare(shared_data / dataset / "qrels" / "test.tsv", file, printed, depth=depth)


@pytest.mark.parametrize("level", [1, 2])
def test_graded_judgments_at_both_levels(shared_data: Path, level: int) -> None:
    folder = shared_data / "trec_eval"
    printed = shared_data / "reference" / f"trec_eval.rel_level.l{level}.txt.gz"
    compare(folder / "qrels.rel_level", folder / "results.test", printed, level=level)


@pytest.mark.parametrize(
    ("ending", "qrels", "run", "options"),
    [
        ("", "qrels.test", "results.test", {"families": SHORT_LIST}),
        (".aq", "qrels.test", "results.test", {}),
        (".aqc", "qrels.test", "results.trunc", {}),  # -c: query 302 is missing from the run
        (".aqcM", "qrels.test", "results.trunc", {"depth": 100}),
        (".aql", "qrels.rel_level", "results.test", {"level": 2}),
        (
            ".meas_params",
            "qrels.test",
            "results.test",
            {"families": WITH_CUTOFFS},
        ),
    ],
)
def test_trec_evals_own_tests(shared_data: Path, ending: str, qrels: str, run: str, options: dict) -> None:  # type: ignore[type-arg]
    folder = shared_data / "trec_eval"
    compare(folder / qrels, folder / run, folder / f"out.test{ending}", **options)


CASES = {
    # "Equal scores -> docid descending (c, b, a): RR 0.5, AP 0.5, nDCG@10 0.6309."
    "01-ties-by-docid": {"RR": 0.5, "AP": 0.5, "nDCG@10": 0.6309},
    "02-rank-contradicts-score": {"RR": 0.3333, "nDCG@10": 0.5},
    "03-query-missing-from-run": {"AP": 0.6250, "RR": 0.6250, "nDCG@10": 0.6577, "R@10": 0.75, "P@5": 0.15},
    "05-query-without-relevant-docs": {"AP": 0.5, "nDCG@10": 0.5},
    "09-negative-relevance": {"AP": 0.5, "RR": 0.5, "P@5": 0.4, "R@10": 1.0, "nDCG@10": 0.6433},
    "11-tabs-and-mixed-whitespace": {"AP": 0.75, "RR": 0.75, "nDCG@10": 0.8155, "P@5": 0.2},
    "20-query-id-equals-doc-id": {"AP": 1.0, "RR": 1.0, "R@10": 1.0, "nDCG@10": 1.0, "P@5": 0.8},
}


@pytest.mark.parametrize("case", CASES)
def test_awkward_inputs_that_people_met(shared_data: Path, case: str) -> None:
    folder = shared_data / "cases" / case
    metrics = {spelled: parse_metric(spelled) for spelled in CASES[case]}
    scores = score(qrels_from(text_of(folder / "qrels.txt")), run_from(text_of(folder / "run.txt")), metrics.values())
    for spelled, value in CASES[case].items():
        assert round(scores.means[metrics[spelled].name], 4) == value, spelled
    if case.startswith("03"):
        assert scores.missing == ("q3",)
    if case.startswith("05"):
        assert scores.without_relevant == ("q2",)
