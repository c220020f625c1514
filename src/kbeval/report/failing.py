"""What a failing test says: every gate, and the questions that were lost, with what was found instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.evaluation.metrics import parse_metric
from kbeval.report.gate import gate_text
from kbeval.report.gate_words import title
from kbeval.report.tables import plain_text

if TYPE_CHECKING:
    from kbeval.evaluation.gates import Check, Line
    from kbeval.evaluation.test_set import TestSet
    from kbeval.model import Run

WORST = 5
FOUND = 3
MOST_CHARACTERS = 100


def failing_text(check: Check, run: Run) -> str:
    """The gates of a check of one run, and the worst questions of the first gate that failed.

    Args:
        check: of this run alone.
        run: its rankings, in METHOD's order.
    """
    failed = [f"{line.word}: {title(line)}" for line in check.failed()]
    # First what pytest repeats in its summary.
    parts = [plain_text("; ".join([*failed, *(f"errors in {name}" for name in check.broken())]))]
    parts.append(gate_text(check).rstrip())
    line = next((line for line in check.failed() if not line.is_latency), None)
    if line is not None:
        parts.append(_worst(check, line, run))
    return "\n\n".join(part for part in parts if part)


def _worst(check: Check, line: Line, run: Run) -> str:
    measured, test_set = check.runs[0], check.test_set
    values = measured.values[line.name]
    if line.gate == "margin":
        before = check.baselines[line.run].values[line.name]
        losses, what = values - before, f"losses in {line.label} against {line.baseline}"
    else:
        highest = parse_metric(line.name).family.highest
        before, losses, what = None, values - highest, f"questions on {line.label}"
    lost = np.flatnonzero(losses < 0)  # nan is no loss
    worst = sorted(lost.tolist(), key=lambda i: (losses[i], test_set.queries[i]))[:WORST]
    if not worst:
        return ""
    rankings = _rankings(run, [test_set.queries[i] for i in worst])
    entries = []
    for i in worst:
        query = test_set.queries[i]
        scored = f"{values[i]:.2f}" if before is None else f"{before[i]:.2f} before, {values[i]:.2f} now"
        known = test_set.labelled.get(query)
        text = f'{_short(query)} "{_short(known.text)}"' if known else _short(query)
        error = measured.errors.get(query)
        entries.append(
            "\n".join([f"  {text}: {scored}", *_wanted_and_found(test_set, query, rankings.get(query, []), error)])
        )
    return "\n".join([f"The {len(worst)} worst of {len(lost)} {plain_text(what)}:", *entries])


def _rankings(run: Run, queries: list[str]) -> dict[str, list[str]]:
    rows = run.frame.filter(pl.col("query").is_in(queries))
    grouped = rows.group_by("query", maintain_order=True).agg(pl.col("document"))
    return dict(zip(grouped["query"].to_list(), grouped["document"].to_list(), strict=True))


def _wanted_and_found(test_set: TestSet, query: str, ranking: list[str], error: str | None) -> list[str]:
    gold = test_set.gold[query]
    ranks = {document: rank for rank, document in enumerate(ranking, start=1)}
    wanted = [
        f"{_document(test_set, document)} ({f'at {ranks[document]}' if document in ranks else 'not found'})"
        for document in gold[:FOUND]
    ]
    if len(gold) > FOUND:
        wanted.append(f"and {len(gold) - FOUND} more")
    lines = [f"    wanted  {', '.join(wanted) or 'nothing: no document is relevant'}"]
    if error is not None:
        return [*lines, f"    error   {plain_text(error)[: 3 * MOST_CHARACTERS]}"]
    found = [f"{rank} {_document(test_set, document)}" for rank, document in enumerate(ranking[:FOUND], start=1)]
    return [*lines, f"    found   {', '.join(found) or 'nothing'}"]


def _document(test_set: TestSet, document: str) -> str:
    known = test_set.documents.get(document)
    return f"{_short(document)} ({_short(known.title)})" if known and known.title else _short(document)


def _short(text: str) -> str:
    text = plain_text(text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
