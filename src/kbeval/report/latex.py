"""results.tex: the tables of a comparison for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.report import sections
from kbeval.report.tables import as_latex

if TYPE_CHECKING:
    from kbeval.evaluation.comparison import Comparison
    from kbeval.report.tables import Table


def main_tables(comparison: Comparison) -> list[Table]:
    """The tables that are printed for other programs."""
    shown = (
        sections.metrics_table,
        sections.counts_table,
        sections.verdicts_table,
        sections.strata_table,
        sections.slices_table,
        sections.pairs_table,
    )
    return [made for table in shown if (made := table(comparison)) is not None]


def results_tex(comparison: Comparison) -> str:
    """The tables as LaTeX, one after another."""
    return "\n".join(as_latex(table) for table in main_tables(comparison))
