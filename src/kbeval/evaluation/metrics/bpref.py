"""bpref: how often an answer stands above a document that was judged not to be one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric, Oracle
from kbeval.evaluation.metrics.registry import register

if TYPE_CHECKING:
    from kbeval.evaluation.alignment import Alignment, Judgments, Reals
    from kbeval.evaluation.chance import RandomOrder


def _compute(run: Alignment, metric: Metric, level: int) -> Reals:  # noqa: ARG001 - takes no cut-off
    judgments, queries = run.judgments, len(run.returned)
    relevant = judgments.count(level)
    bound = np.minimum(relevant, judgments.count(0, level))
    judged = run.grade >= 0
    query, is_relevant = run.hits.query[judged], run.grade[judged] >= level
    # Irrelevant ones up to here, minus those of the queries before.
    irrelevant = np.cumsum(~is_relevant)
    before = np.concatenate([[0], irrelevant])[np.searchsorted(query, query)]
    query, above = query[is_relevant], (irrelevant - before)[is_relevant]
    preferred = 1 - np.minimum(above, relevant[query]) / np.maximum(bound[query], 1)
    return np.bincount(query, preferred, minlength=queries) / np.maximum(relevant, 1)


def _chance(order: RandomOrder, metric: Metric, level: int) -> Reals:  # noqa: ARG001
    judgments = order.judgments
    pairs = np.column_stack([judgments.count(level), judgments.count(0, level)])
    distinct, where = np.unique(pairs, axis=0, return_inverse=True)
    values = [_expected(int(r), int(m), order.documents, order.depth) for r, m in distinct]
    return np.array(values)[where.ravel()]


def _expected(relevant: int, irrelevant: int, documents: int, depth: int) -> float:
    """What one relevant document adds, times R: 1 - min(n, R) / min(R, M) for n irrelevant ones above it.

    Args:
        relevant: R.
        irrelevant: M.
        documents: how many the corpus holds.
        depth: how many of them the list holds; where the document is not among them it adds nothing.
    """
    if relevant == 0:
        return 0.0
    if irrelevant == 0:
        return depth / documents
    bound = min(relevant, irrelevant)
    if depth == documents:  # n is any of 0 .. M, with equal probability
        return 1 - float(np.mean(np.minimum(np.arange(irrelevant + 1), relevant))) / bound
    # probability[n]: that n of the documents drawn so far are irrelevant; from R on it does not matter how
    # many.
    count = np.arange(relevant)
    probability = (count == 0).astype(np.float64)
    total = 0.0
    for drawn in range(depth):  # the relevant document stands at rank drawn + 1
        total += 1 - (relevant - float(probability @ (relevant - count))) / bound
        if drawn < documents - 1:
            another = np.clip(irrelevant - count, 0, None) / (documents - 1 - drawn)
            moved = probability * another
            probability = probability - moved
            probability[1:] += moved[:-1]
    return total / documents


def _remark(judgments: Judgments, level: int) -> str:
    unopposed = int(np.sum((judgments.count(level) > 0) & (judgments.count(0, level) == 0)))
    if not unopposed:
        return ""
    of_all = f"{unopposed} of {len(judgments.queries)} queries"
    return f"equals recall on {of_all}: nothing is judged irrelevant there"


BPREF = register(
    Family(
        name="bpref",
        label="bpref",
        aliases={},
        definition="Sum of 1 - min(n, R) / min(R, M) over the relevant documents retrieved, divided by R: "
        "n judged irrelevant ones stand above the document, M there are in all, R relevant ones. A negative "
        "grade is unjudged. 0 if R is 0; where M is 0 it equals recall.",
        source="Buckley and Voorhees, SIGIR 2004; trec_eval 10, m_bpref.c (ranx divides by 0 where M is 0)",
        compute=_compute,
        chance=_chance,
        cutoff=Cutoff.NONE,
        oracle=lambda metric: Oracle("bpref"),  # noqa: ARG005
        by_ranx=False,
        remark=_remark,
    )
)
