"""How long engines took. Shown on the screen and kept in sidecars; never in the three results files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.formats.sidecar import TOTAL
from kbeval.report.tables import Table
from kbeval.running.runner import latency_summary

if TYPE_CHECKING:
    from collections.abc import Mapping


def latency_table(latencies: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """p50 and p95 in milliseconds by engine and stage, the warm-up query left out."""
    rows = []
    for name, by_query in latencies.items():
        summary = latency_summary(by_query)
        stages = [TOTAL, *(stage for stage in summary if stage != TOTAL)]
        for stage in stages:
            if stage in summary:
                figures = summary[stage]
                rows.append(
                    [
                        name if stage == TOTAL else "",
                        stage,
                        f"{figures['p50']:.1f}",
                        f"{figures['p95']:.1f}",
                        str(int(figures["n"])),
                    ]
                )
    return Table(["Latency", "stage", "p50 ms", "p95 ms", "n"], rows, left=2)
