"""The pictures of a comparison, drawn once: the page shows them, ``--pictures`` writes them as files."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from kbeval.evaluation.comparison import RANKED_IDS
from kbeval.evaluation.slices import further_slices, slices
from kbeval.evaluation.statistics import paired
from kbeval.formats.sidecar import TOTAL, WAITED
from kbeval.report.latency import stage_order
from kbeval.report.names import for_page, shortened
from kbeval.report.page.svg import (
    LIGHT,
    MOST_LETTERS,
    WIDTH,
    Scale,
    clean,
    drawing,
    element,
    label,
    legend,
    line,
    marker,
    scale,
    tick_text,
)
from kbeval.report.sentences import fixed, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kbeval.evaluation.comparison import Comparison, PairResult, RunResult
    from kbeval.evaluation.metrics import Metric
    from kbeval.evaluation.statistics import PairStatistics

MOST_RUNS = 12
MOST_PAIRS = 15
MOST_SORTED = 6
MOST_SLICES = 12
LEFT = 132
RIGHT = WIDTH - 12
BUCKETS = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, 20))


Numbered = tuple[int, "RunResult"]
"""A run with the number by which it has its mark."""


@dataclass(frozen=True)
class Picture:
    """One picture: a file's name without ending, a title, what it says in a sentence or two, and the SVG."""

    name: str
    title: str
    note: str
    svg: Markup


def pictures(comparison: Comparison) -> list[Picture]:
    """Every picture that the data can give, the most telling first."""
    comparison = for_page(comparison)
    every = list(enumerate(comparison.runs[:MOST_RUNS]))
    numbers = {run.name: number for number, run in enumerate(comparison.runs)}
    comparison = _of_whole_runs(comparison)
    # A run has the same mark in every picture, also where others are left out.
    runs = [(numbers[run.name], run) for run in comparison.runs[:MOST_RUNS]]
    if not runs:
        return [picture for picture in [_latency(every)] if picture is not None]
    made = [_differences(comparison), _metrics(comparison, runs)]
    made += _by_k(comparison, runs)
    made += _sorted(comparison)
    made += [_first_ranks(comparison, runs)]
    made += _slices(comparison, runs)
    made += [_latency(every)]
    return [picture for picture in made if picture is not None]


def left_out(comparison: Comparison) -> str:
    """What the pictures leave out; empty where that is nothing."""
    words = []
    if partial := [run.name for run in comparison.runs if run.asked is not None]:
        words.append(f"runs that were not asked every question are in no picture but the last ({listed(partial)})")
    comparison = _of_whole_runs(comparison)
    if len(comparison.runs) > MOST_RUNS:
        words.append(f"pictures show the first {MOST_RUNS} of {len(comparison.runs)} runs")
    if len(comparison.pairs) > MOST_SORTED:
        words.append(
            f"the first {MOST_PAIRS} of {len(comparison.pairs)} pairs" if len(comparison.pairs) > MOST_PAIRS else ""
        )
        words.append(f"the differences by query are those of the first {MOST_SORTED} pairs")
    shown = "; ".join(word for word in words if word)
    return f"{shown[:1].upper()}{shown[1:]}. The tables have them all." if shown else ""


def _of_whole_runs(comparison: Comparison) -> Comparison:
    """Without the runs that were not asked every question: what they were not asked would be drawn as losses."""
    whole = [run for run in comparison.runs if run.asked is None]
    pairs = [pair for pair in comparison.pairs if pair.asked_by_both is None]
    return replace(comparison, runs=whole, pairs=pairs)


def _level(
    comparison: Comparison, run: RunResult, metric: Metric, rows: NDArray[np.int64] | None = None
) -> PairStatistics | None:
    """A run's metric as a difference to 0, for its interval; none where it has no value."""
    values, clusters = run.values[metric.name], comparison.test_set.clusters
    if rows is not None:
        values, clusters = values[rows], clusters[rows]
    known = ~np.isnan(values)
    if not known.any():
        return None
    zeros = np.zeros(int(known.sum()))
    return paired(values[known], zeros, clusters[known], alpha=comparison.options.alpha, randomise=False)


def _dots(
    title: str,
    about: str,
    rows: Sequence[tuple[str, Sequence[tuple[int, str, float, tuple[float, float] | None]], float | None]],
    names: Sequence[tuple[int, str]],
    *,
    zero: bool = False,
    ends: tuple[str, str] | None = None,
    bounds: tuple[float | None, float | None] = (0.0, 1.0),
) -> Markup:
    """Rows of dots with whiskers: (what, [(run, its name, value, interval)], what chance would score)."""
    shown = [value for _, dots, _ in rows for _, _, value, _ in dots]
    shown += [end for _, dots, _ in rows for _, _, _, ci in dots if ci for end in ci]
    shown += [expected for _, _, expected in rows if expected is not None] + ([0.0] if zero else [])
    low, high = bounds
    axis = scale(shown, LEFT, RIGHT, low=low, high=high)
    parts, y = legend(names, 16) if names else (Markup(""), 8.0)
    pieces = [parts]
    top = y
    gap = 13 if max(len(dots) for _, dots, _ in rows) > 1 else 16
    body: list[Markup] = []
    for what, dots, expected in rows:
        height = gap * len(dots) + 8
        if len(what) > 20:  # a line of its own
            body.append(element("g", element("title", clean(what)), label(8, y + 14, clean(what, 60))))
            y += 15
        else:
            body.append(label(LEFT - 10, y + height / 2 + 4, clean(what), end=True))
        body.append(line(8, y + height, RIGHT, y + height, "g"))
        if expected is not None:
            body.append(line(axis(expected), y + 2, axis(expected), y + height - 2, "c"))
        for place, (run, name, value, ci) in enumerate(dots):
            at = y + 4 + gap * (place + 0.5)
            words = f"{name} {what}: {fixed(value)}"
            if ci:
                words += f" [{fixed(ci[0])}, {fixed(ci[1])}]"
                start, stop = (min(max(end, axis.low), axis.high) for end in ci)
                body.append(line(axis(start), at, axis(stop), at, f"l{run % len(LIGHT)}"))
            body.append(marker(axis(value), at, run, words))
        y += height
    for tick in axis.ticks():
        kind = "z" if zero and tick == 0 else "g"
        pieces += [
            line(axis(tick), top, axis(tick), y, kind),
            label(axis(tick), y + 15, tick_text(tick), middle=True, kind="s"),
        ]
    y += 22
    if ends:
        y += 14
        pieces += [
            label(LEFT, y, f"← {ends[0]}", kind="s"),
            label(RIGHT, y, f"{ends[1]} →", end=True, kind="s"),
        ]
    return drawing(y + 8, title, about, *pieces, *body)


def _metrics(comparison: Comparison, runs: Sequence[Numbered]) -> Picture:
    primary = comparison.options.primary
    ordered = [primary, *(metric for metric in comparison.metrics if metric != primary)]
    rows = []
    for metric in ordered:
        dots = []
        for place, run in runs:
            mean, of = run.mean(metric.name), _level(comparison, run, metric)
            if mean is not None and of is not None:
                dots.append((place, run.name, mean, of.ci95))
        if dots:
            rows.append((metric.label, dots, comparison.chance.get(metric.name)))
    note = (
        "Dots are means over all questions, whiskers 95 % intervals by clusters (every cluster counts once in them, "
        "so that a dot need not lie in the middle)."
    )
    if comparison.chance:
        note += " Dashed: what a random order of the documents would score."
    svg = _dots("Every metric by engine", note, rows, _names(runs))
    return Picture("metrics", "Every metric by engine", note, svg)


def _differences(comparison: Comparison) -> Picture | None:
    pairs = comparison.pairs[:MOST_PAIRS]
    if not pairs:
        return None
    label_ = comparison.options.primary.label
    rows = []
    short = shortened([run.name for run in comparison.runs], 28)
    for pair in pairs:
        of = pair.verdict.overall
        name = f"{short[pair.a]} − {short[pair.b]}"
        rows.append((name, [(0, f"{name}, verdict", of.cluster_delta, of.ci95)], None))
        if len(pair.verdict.by_stratum) > 1 and len(pairs) <= MOST_SORTED:
            rows += [
                (stratum, [(6, f"{name}, {stratum}", each.cluster_delta, each.ci95)], None)
                for stratum, each in pair.verdict.by_stratum.items()
            ]
    one = pairs[0]
    ends = (
        (f"{short[one.b]} better", f"{short[one.a]} better") if len(pairs) == 1 else ("second better", "first better")
    )
    note = f"The difference in {label_} that each verdict rests on, by clusters, with its 95 % interval"
    note += ", and below it by kind of question." if len(rows) > len(pairs) else "."
    svg = _dots(f"Differences in {label_}", note, rows, [], zero=True, ends=ends, bounds=(None, None))
    return Picture("differences", f"Differences in {label_}", note, svg)


def _by_k(comparison: Comparison, runs: Sequence[Numbered]) -> list[Picture]:
    families: dict[str, list[Metric]] = {}
    for metric in comparison.metrics:
        if metric.k is not None:
            families.setdefault(re.sub(r"@\d+", "", metric.label), []).append(metric)
    made = []
    for family, members in families.items():
        if len(members) < 3:
            continue
        members.sort(key=lambda metric: metric.k or 0)
        columns = [[run.mean(metric.name) or 0.0 for metric in members] for _, run in runs]
        expected = [comparison.chance[metric.name] for metric in members if metric.name in comparison.chance]
        parts, top = legend(_names(runs), 16)
        bottom = top + 190
        axis = scale([value for column in [*columns, expected] for value in column], bottom, top + 6, low=0.0)
        across = [60 + (RIGHT - 80) * place / (len(members) - 1) for place in range(len(members))]
        pieces = [parts]
        for tick in axis.ticks():
            pieces += [
                line(44, axis(tick), RIGHT, axis(tick), "g"),
                label(38, axis(tick) + 4, tick_text(tick), end=True, kind="s"),
            ]
        pieces += [
            label(x, bottom + 18, str(metric.k), middle=True, kind="s")
            for x, metric in zip(across, members, strict=True)
        ]
        pieces.append(label((44 + RIGHT) / 2, bottom + 36, "k", middle=True, kind="s"))
        if len(expected) == len(members):
            pieces.append(element("polyline", points=_points(across, [axis(value) for value in expected]), class_="c"))
        for (place, run), column in zip(runs, columns, strict=True):
            heights = [axis(value) for value in column]
            pieces.append(element("polyline", points=_points(across, heights), class_=f"l{place % len(LIGHT)}"))
            pieces += [
                marker(x, y, place, f"{run.name} {metric.label}: {fixed(value, 4)}")
                for x, y, metric, value in zip(across, heights, members, column, strict=True)
            ]
        note = f"{family}@k as the list grows; the steps between the k are not to scale."
        if expected:
            note += " Dashed: chance."
        name = re.sub(r"\W+", "-", family.lower()).strip("-")
        made.append(
            Picture(f"by-k-{name}", f"{family} by k", note, drawing(bottom + 46, f"{family} by k", note, *pieces))
        )
    return made


def _sorted(comparison: Comparison) -> list[Picture]:
    made = []
    label_ = comparison.options.primary.label
    for number, pair in enumerate(comparison.pairs[:MOST_SORTED]):
        a, b = comparison.run(pair.a), comparison.run(pair.b)
        name = comparison.options.primary.name
        differences = np.sort(a.values[name] - b.values[name])[::-1]
        made.append(_sorted_one(pair, differences, label_, number))
    return made


def _sorted_one(pair: PairResult, differences: NDArray[np.float64], label_: str, number: int) -> Picture:
    count = len(differences)
    wins, losses = int(np.sum(differences > 0)), int(np.sum(differences < 0))
    extent = max(float(np.abs(differences).max()), 0.1)
    axis = Scale(-extent, extent, 208, 20)
    across = Scale(0, count, 48, RIGHT)
    pieces = []
    for tick in axis.ticks():
        pieces += [
            line(44, axis(tick), RIGHT, axis(tick), "z" if tick == 0 else "g"),
            label(40, axis(tick) + 4, tick_text(tick), end=True, kind="s"),
        ]
    # One step a run of equal values; at most some four hundred fit between the edges, which is all that shows.
    points = np.unique(np.linspace(0, count - 1, min(count, 360)).astype(np.int64))
    edges = np.append(points, count)
    for sign, kind in ((1, "f0"), (-1, "f1")):
        path = []
        for start, end in itertools.pairwise(edges):
            value = float(differences[start])
            if value * sign > 0:
                left, width = across(start), across(end) - across(start)
                path.append(f"M{left:.1f} {axis(0):.1f}V{axis(value):.1f}h{width:.1f}V{axis(0):.1f}z")
        if path:
            pieces.append(element("path", d="".join(path), class_=kind))
    same = count - wins - losses
    short = shortened([pair.a, pair.b], 2 * MOST_LETTERS)
    pieces.append(label(48, 12, f"▲ {short[pair.a]} better: {wins}", kind="b"))
    pieces.append(label(RIGHT, 226, f"▼ {short[pair.b]} better: {losses}", end=True, kind="b"))
    pieces.append(label(48, 244, f"{count} questions, sorted; {same} equal", kind="s"))
    title = f"{pair.a} − {pair.b}, query by query"
    counts = f"{wins} for {pair.a}, {losses} for {pair.b}, {same} equal"
    note = f"The difference in {label_} on each question, largest first: {counts}."
    return Picture(f"by-query-{number + 1}", title, note, drawing(250, title, note, *pieces))


def _first_ranks(comparison: Comparison, runs: Sequence[Numbered]) -> Picture:
    names = [f"{low}" if low == high else f"{low}–{high}" for low, high in BUCKETS] + [
        f"over {RANKED_IDS}",
        "none",
        "error",
    ]
    pieces: list[Markup] = []
    x, y = 8.0, 16.0
    for step, name in enumerate(names):
        width = 20 + 7 * len(name) + 8
        if x + width > WIDTH:
            x, y = 8.0, y + 18
        pieces += [element("rect", x=x, y=y - 10, width=11, height=11, class_=f"q{step} o"), label(x + 16, y, name)]
        x += width
    y += 16
    total = len(comparison.test_set.queries)
    across = Scale(0, 1, LEFT, RIGHT)
    short = shortened([run.name for _, run in runs], 15)
    for _, run in runs:
        counts = _bucketed(comparison, run)
        pieces.append(label(LEFT - 10, y + 16, short[run.name], end=True))
        done = 0
        for step, count in enumerate(counts):
            if count:
                start, end = across(done / total), across((done + count) / total)
                hint = element("title", clean(f"{run.name}, first relevant at {names[step]}: {count} of {total}"))
                pieces.append(
                    element("rect", hint, x=start, y=y + 2, width=end - start, height=20, class_=f"q{step} o")
                )
                if end - start > 9 * len(str(count)) + 6:
                    light = step in (0, 1, 2)
                    pieces.append(label((start + end) / 2, y + 16, str(count), middle=True, kind="i" if light else "d"))
            done += count
        y += 28
    for tick in (0, 0.25, 0.5, 0.75, 1):
        pieces.append(label(across(tick), y + 14, f"{tick:.0%}", middle=tick < 1, end=tick == 1, kind="s"))
    note = "Where each engine has the first relevant document: the share of questions by its rank, with counts."
    svg = drawing(y + 24, "Rank of the first relevant document", note, *pieces)
    return Picture("first-ranks", "Rank of the first relevant document", note, svg)


def _bucketed(comparison: Comparison, run: RunResult) -> list[int]:
    failed = np.array([query in run.errors for query in comparison.test_set.queries], dtype=np.bool_)
    ranks = run.first_ranks[~failed]
    counts = [int(np.sum((ranks >= low) & (ranks <= high))) for low, high in BUCKETS]
    return [*counts, int(np.sum(ranks > RANKED_IDS)), int(np.sum(ranks == 0)), int(failed.sum())]


def _slices(comparison: Comparison, runs: Sequence[Numbered]) -> list[Picture]:
    primary = comparison.options.primary
    by: dict[str, list[tuple[str, NDArray[np.int64]]]] = {}
    for each in [*slices(comparison.test_set), *further_slices(comparison.test_set)]:
        by.setdefault(each.by, []).append((each.name, each.rows))
    made = []
    for what, found in by.items():
        if len(found) < 2:
            continue
        kept = found
        if len(found) > MOST_SLICES:
            largest = {name for name, _ in sorted(found, key=lambda one: (-len(one[1]), one[0]))[:MOST_SLICES]}
            kept = [one for one in found if one[0] in largest]
        rows = []
        for name, at in kept:
            dots = []
            for place, run in runs:
                mean, of = run.mean(primary.name, at), _level(comparison, run, primary, at)
                if mean is not None and of is not None:
                    dots.append((place, run.name, mean, of.ci95))
            short = name if len(name) <= 14 else f"{name.split(' (')[0][:13]}"
            rows.append((f"{short} ({len(at)})", dots, None))
        note = f"{primary.label} by {what} (questions), with 95 % intervals by clusters."
        note += " Slices describe; no verdict rests on them."
        if len(kept) < len(found):
            note += f" The {len(kept)} largest of {len(found)}."
        ranges = [name for name, _ in kept if " (" in name] if what == "overlap" else []
        if ranges:
            note += f" {'; '.join(ranges)}: the share of a question's words in its gold text."
        title = f"{primary.label} by {what}"
        svg = _dots(title, note, rows, _names(runs))
        made.append(Picture(f"by-{what.replace(' ', '-')}", title, note, svg))
    return made


def _latency(runs: Sequence[Numbered]) -> Picture | None:
    rows: list[tuple[int, str, str, list[float]]] = []
    for place, run in runs:
        if run.sidecar is None:
            continue
        known = {stage for stages in run.sidecar.latencies_ms.values() for stage in stages} - {WAITED}
        for stage in sorted(known, key=stage_order):
            if not (milliseconds := run.sidecar.warm_ms(stage)):
                continue
            quantiles = [float(value) for value in np.percentile(milliseconds, [5, 25, 50, 75, 95])]
            rows.append((place, run.name, stage, quantiles))
    if not rows:
        return None
    short = shortened([run.name for _, run in runs], 2 * MOST_LETTERS)
    lowest = max(min(row[3][0] for row in rows), 0.001)
    highest = max(max(row[3][4] for row in rows), lowest * 10)
    axis = Scale(np.floor(np.log10(lowest)), np.ceil(np.log10(highest)), LEFT, RIGHT - 34)
    pieces: list[Markup] = []
    y = 16.0
    body: list[Markup] = []
    for place, name, stage, quantiles in rows:
        if stage == TOTAL or not body:
            body.append(label(8, y + 13, short[name], kind="b"))
            y += 18
        low, first, median, third, high = (axis(np.log10(max(value, lowest))) for value in quantiles)
        hint = element(
            "title",
            clean(
                f"{name} {stage}: median {quantiles[2]:.1f} ms, 5 to 95 %: {quantiles[0]:.1f} to {quantiles[4]:.1f} ms"
            ),
        )
        body += [
            label(LEFT - 10, y + 13, clean(stage, 18), end=True),
            line(low, y + 9, high, y + 9, f"l{place % len(LIGHT)}"),
            element("rect", hint, x=first, y=y + 4, width=max(third - first, 1.0), height=10, class_="h"),
            marker(median, y + 9, place, f"{name} {stage}: median {quantiles[2]:.1f} ms", 3.5),
            label(
                RIGHT,
                y + 13,
                f"{quantiles[4]:.3g}" if not 1000 <= quantiles[4] < 1e6 else f"{quantiles[4]:.0f}",
                end=True,
                kind="s",
            ),
        ]
        y += 18
    every = 1 + int(axis.high - axis.low) // 5  # so that labels have room
    for power in range(int(axis.low), int(axis.high) + 1):
        pieces.append(line(axis(power), 16, axis(power), y + 4, "g"))
        if (power - int(axis.low)) % every == 0:
            pieces.append(label(axis(power), y + 18, f"{10.0**power:g} ms", middle=True, kind="s"))
    pieces.append(label(RIGHT, 11, "p95 in ms", end=True, kind="s"))
    note = (
        "How long a question took, by stage, as measured when the run was made (from its sidecar): the mark is the "
        "median, the box holds the middle half, the line goes from 5 % to 95 %. Each step of the scale is ten times "
        "the one before."
    )
    return Picture("latency", "Latency by stage", note, drawing(y + 28, "Latency by stage", note, *pieces, *body))


def _names(runs: Sequence[Numbered]) -> list[tuple[int, str]]:
    return [(number, run.name) for number, run in runs]


def _points(across: Sequence[float], heights: Sequence[float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, heights, strict=True))
