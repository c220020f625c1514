"""The table of a sweep, and its sentences."""

from __future__ import annotations

import shlex
from decimal import ROUND_FLOOR, Context
from typing import TYPE_CHECKING

from kbeval.report.sentences import fixed, signed, verdict_remarks, verdict_sentence
from kbeval.report.tables import Table
from kbeval.sweep.grid import BASE, shown

if TYPE_CHECKING:
    from kbeval.sweep.measuring import Measured
    from kbeval.sweep.sweeping import Sweep
    from kbeval.sweep.thresholds import Curve

_DASH = "–"


def configurations_table(sweep: Sweep) -> Table:
    """A row a configuration, the best on the dev split first; those that cannot be picked last."""
    primary = sweep.asked.primary
    metrics = [primary, *(metric for metric in sweep.asked.metrics if metric != primary)]
    gains = any(each.gain for each in sweep.measured)
    priced = any(each.cost is not None for each in sweep.measured)
    headers = ["Configuration", *sweep.grid.keys, *(f"dev {metric.label}" for metric in metrics)]
    headers += ["reranker gain", "ceiling"] if gains else []
    headers += ["p50 ms", "p95 ms"] + (["cost of 1000"] if priced else [])
    rows = [_row(sweep, each, [metric.name for metric in metrics], gains, priced) for each in ordered(sweep)]
    return Table(headers, rows, left=1 + len(sweep.grid.keys), title="Configurations")


def ordered(sweep: Sweep) -> list[Measured]:
    """The configurations as the table has them."""
    name = sweep.asked.primary.name
    return sorted(
        sweep.measured,
        key=lambda each: (not each.sound, each is not sweep.picked, -each.dev.get(name, 0.0), each.configuration.work),
    )


def marks(sweep: Sweep, one: Measured) -> list[str]:
    """What is to be said of a configuration in a word or two."""
    found = [
        ("picked", one is sweep.picked),
        ("as it is set", one.name == BASE),
        ("Pareto front", one.name in sweep.front),
        ("cannot be built", one.failure is not None),
        (f"{len(one.errors)} errors, cannot be picked", bool(one.errors)),
    ]
    return [words for words, holds in found if holds]


def _row(sweep: Sweep, one: Measured, metrics: list[str], gains: bool, priced: bool) -> list[str]:
    of_one = marks(sweep, one)
    row = [one.name + (f" ({', '.join(of_one)})" if of_one else "")]
    row += [shown(one.configuration.changed.get(key)) for key in sweep.grid.keys]
    row += [fixed(one.dev.get(name)) for name in metrics]
    if gains:
        row += [signed(one.gain.after - one.gain.before), fixed(one.gain.ceiling)] if one.gain else [_DASH, _DASH]
    total = one.latency_ms.get("total", {})
    row += [f"{total[share]:.1f}" if share in total else _DASH for share in ("p50", "p95")]
    return row + ([_DASH if one.cost is None else f"{one.cost:.4g}"] if priced else [])


def picked_sentence(sweep: Sweep) -> str:
    """What was picked, on what."""
    primary, one = sweep.asked.primary, sweep.picked
    questions = len(sweep.split.dev.queries)
    words = one.configuration.in_words()
    return (
        f"Picked on {questions} dev questions: {one.name} ({words}), with {primary.label} "
        f"{fixed(one.dev[primary.name])}; engine {sweep.grid.engine} as it is set has "
        f"{fixed(sweep.base.dev.get(primary.name))}."
    )


def test_sentences(sweep: Sweep) -> list[str]:
    """The one test on the held-out split, and what must be said beside it."""
    questions = len(sweep.split.held_out.queries)
    if sweep.picked.name == BASE:
        return [f"No configuration is better on the dev split than {sweep.grid.engine} as it is set: nothing to test."]
    if sweep.comparison is None:
        return [f"There is no test: {sweep.grid.engine} as it is set cannot be built."]
    [pair] = sweep.comparison.pairs
    found = [
        f"Tested once, on {questions} held-out questions that had no part in the pick: "
        f"{verdict_sentence(sweep.comparison, pair)}"
    ]
    found += verdict_remarks(sweep.comparison, pair)
    if sweep.base.errors:
        found.append(f"{BASE} failed on {len(sweep.base.errors)} questions, which count as misses.")
    return found


def notes(sweep: Sweep) -> list[str]:
    """How to read the numbers."""
    grid, primary = sweep.grid, sweep.asked.primary
    tried = len([each for each in sweep.measured if each.configuration.in_grid])
    drawn = (
        f"a sample drawn with seed {grid.seed} from the {grid.size} combinations" if grid.sample else "the whole grid"
    )
    found = [
        f"{tried} configurations, {drawn}; the questions are cut by clusters with seed {sweep.asked.seed}, "
        f"{len(sweep.split.dev.queries)} for the pick and {len(sweep.split.held_out.queries)} held out.",
        f"Values in the table are of the dev split and have no intervals on purpose: the best of {tried} looks better "
        f"than it is, and the held-out split alone says by how much. {primary.label} is the mean over the generated "
        "styles of questions, each weighing the same, where there are any.",
    ]
    if any(each.of_stages for each in sweep.measured):
        found.append(
            "Milliseconds are sums of stages, each as long as it took when it was really done, on this machine or an "
            "earlier run's; nothing was timed that came from the memory. Fusion is done and timed anew each time."
        )
    else:
        found.append("Milliseconds are what a question took in this run, on this machine.")
    if any(each.gain for each in sweep.measured):
        found.append(
            "A reranker's gain is the difference that its order makes on the dev split; its ceiling is the recall of "
            "the candidates that it was given: no order of them finds more."
        )
    found += [f"Left out: {words}: {why}." for words, why in grid.left_out]
    for each in sweep.measured:
        if each.failure is not None:
            found.append(f"{each.name} cannot be built: {each.failure}")
        elif each.errors:
            query, line = next(iter(sorted(each.errors.items())))
            found.append(f"{each.name} failed on {len(each.errors)} questions, on {query} for one: {line}")
    return found


def threshold_sentences(sweep: Sweep) -> list[str]:
    """What a score threshold would do."""
    found = [sweep.no_curve] if sweep.no_curve else []
    return found + [_threshold_sentence(curve) for curve in sweep.curves]


def _threshold_sentence(curve: Curve) -> str:
    words = f"{curve.configuration}: {curve.remark}"
    if curve.suggested is None or curve.dev is None:
        return f"{words} There are too few questions of either kind on the dev split to pick a threshold."
    words += (
        f" On the dev split a threshold of {threshold_text(curve.suggested)} has the least sum of both: "
        f"{curve.dev.lost:.1%} of the answerable questions lose their document, {curve.dev.answered:.1%} of the "
        "unanswerable ones are still answered"
    )
    if curve.held_out is None:
        return f"{words}."
    return f"{words}; on the held-out split {curve.held_out.lost:.1%} and {curve.held_out.answered:.1%}."


def threshold_text(value: float) -> str:
    """Six digits, rounded down: rounded up, it would be above the score that it is to let through."""
    return f"{float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal_from_float(value)):.6g}"


def thresholds_table(curve: Curve) -> Table:
    """Some twenty thresholds of a curve."""
    step = max(1, len(curve.points) // 20)
    rows = [
        [threshold_text(point.threshold), f"{point.lost:.1%}", f"{point.silent:.1%}", f"{point.answered:.1%}"]
        for point in curve.points[::step]
    ]
    headers = ["Threshold", "answerable that lose their document", "that get nothing", "unanswerable still answered"]
    return Table(headers, rows, title=f"Score thresholds of {curve.configuration}")


def command(sweep: Sweep) -> str:
    """The command that runs the picked configuration on the same data."""
    changed = sweep.picked.configuration.changed.items()
    settings = [part for key, value in changed for part in ("--set", f"{key}={shown(value)}")]
    return shlex.join(["kbeval", "run", "--engine", sweep.grid.engine, *settings, *sweep.asked.named_by])
