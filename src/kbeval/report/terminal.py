"""A comparison on a terminal: the verdict first, then what it rests on."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from kbeval.report import sections
from kbeval.report.sentences import counts_sentence, verdict_remarks, verdict_sentence
from kbeval.report.tables import as_text

if TYPE_CHECKING:
    from kbeval.evaluation.comparison import Comparison

WIDTH = 110
MOST_PAIRS = 10
MOST_COLUMNS = 8


def as_terminal(comparison: Comparison) -> str:
    """The comparison as text."""
    parts = ["; ".join(counts_sentence(comparison, run) for run in comparison.runs)]
    verdicts = []
    for pair in comparison.pairs[:MOST_PAIRS]:
        verdicts.append(_wrapped(verdict_sentence(comparison, pair)))
        verdicts += [_wrapped(remark, indent="  ") for remark in verdict_remarks(comparison, pair)]
    hidden = len(comparison.pairs) - MOST_PAIRS
    if hidden > 0:
        verdicts.append(f"and {hidden} more pairs: see results.md")
    if verdicts:
        parts.append("\n".join(verdicts))
    wide = len(comparison.runs) > MOST_COLUMNS
    parts.append(as_text(sections.metrics_table(comparison) if wide else sections.metrics_by_run(comparison)))
    if not wide and len(comparison.test_set.stratum_rows) > 1:
        parts.append(as_text(sections.strata_table(comparison, narrow=True)))
    if not wide and (by_slice := sections.slices_table(comparison, brief=True)) is not None:
        parts.append(as_text(by_slice))
    if not wide and (asked := sections.partial_table(comparison)) is not None:
        parts.append(as_text(asked))
    notes = sections.legs_sentences(comparison)
    large = sections.large_k_sentence(comparison)
    if large:
        notes.append(large)
    for run in comparison.runs:
        if run.sidecar:
            notes += [f"{run.name}: {note}" for note in run.sidecar.engine.notes]
    if notes:
        parts.append("\n".join(_wrapped(f"- {note}", indent="  ") for note in notes))
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n\n"


def _wrapped(text: str, indent: str = "") -> str:
    first = "" if text.startswith("- ") else indent
    return textwrap.fill(" ".join(text.split()), WIDTH, initial_indent=first, subsequent_indent=indent or "  ")
