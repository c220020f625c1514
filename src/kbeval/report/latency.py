"""How long engines took. Shown on the screen and kept in sidecars; never in the three results files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.formats.sidecar import TOTAL, WAITED
from kbeval.report.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.engines.base import Usage
    from kbeval.running.policy import Policy
    from kbeval.running.runner import Outcomes

_STAGES = (TOTAL, "embed", "lexical", "fulltext", "vector", "fusion", "rerank")


def latency_table(runs: Sequence[Outcomes]) -> Table:
    """p50, p95 and p99 in milliseconds by engine and stage, the first question left out.

    Errors and timeouts are in the total's figures, and counted beside them.
    """
    rows = []
    for run in runs:
        summary = run.summary_ms()
        counts = run.counts()
        failed = [str(counts["errored"] - counts["not_asked"]), str(counts["timed_out"])]
        for stage in sorted(summary, key=stage_order):
            figures = summary[stage]
            rows.append(
                [
                    run.engine if stage == TOTAL else "",
                    stage,
                    *(f"{figures[share]:.1f}" for share in ("p50", "p95", "p99")),
                    str(int(figures["n"])),
                    *(failed if stage == TOTAL else ["", ""]),
                ]
            )
    return Table(["Latency", "stage", "p50 ms", "p95 ms", "p99 ms", "n", "errors", "timeouts"], rows, left=2)


def run_sentences(run: Outcomes, policy: Policy) -> list[str]:
    """The cold start, the throughput, retries and what was used."""
    first = [f"{stages[TOTAL]:.1f} ms" for stages in run.first_ms().values()]
    sentences = [
        f"built in {run.building_s:.1f} s" + (f", the first question took {' and '.join(first)}" if first else "")
    ]
    resumed = sum(outcome.resumed for outcome in run.outcomes)
    rate = run.per_second()
    if rate is not None:
        at_once = "one at a time" if run.concurrency == 1 else f"{run.concurrency} at once"
        if run.concurrency < policy.concurrency:
            at_once = f"one at a time, as the engine is not made for {policy.concurrency} at once"
        sentences.append(f"{rate:.1f} questions a second, {at_once}")
    if resumed:
        sentences.append(f"{resumed} answers taken over from a run that was not finished")
    counts = run.counts()
    if counts["repeated_requests"]:
        waited = sum(outcome.waited for outcome in run.outcomes)
        sentences.append(f"{counts['repeated_requests']} requests repeated, {waited:.1f} s waited before them")
    asked = sum(1 for outcome in run.outcomes if outcome.seconds is not None)
    for purpose, usages in (("to build it", run.building), (f"for {asked} questions", run.usage())):
        for usage in usages:
            each = f" ({_each(usage, asked)} a question)" if usages is not run.building and asked else ""
            price = "" if policy.unpriced([usage]) else f", which cost {policy.cost([usage]):.4g}"
            sentences.append(f"{purpose} {usage.in_words()}{each}{price}")
    return sentences


def _each(usage: Usage, asked: int) -> str:
    return ", ".join(f"{count / asked:.4g} {name}" for name, count in usage.counted() if name != "calls")


def stage_order(stage: str) -> tuple[int, str]:
    """The total, the stages in their order, those of other engines by name, and last what was waited."""
    if stage == WAITED:
        return (len(_STAGES) + 1, stage)
    return (_STAGES.index(stage) if stage in _STAGES else len(_STAGES), stage)
