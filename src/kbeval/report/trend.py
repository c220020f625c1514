"""How a metric went from run to run, in plain characters and as a picture.

Where test set, corpus or questions changed the numbers before and after are of different things: the line breaks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from kbeval.report.tables import plain_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.history import Entry

# What no XML document can hold and plain_text leaves: surrogates and two that are no characters.
_IMPOSSIBLE = re.compile("[\ud800-\udfff\ufffe\uffff]")
BARS = "▁▂▃▄▅▆▇█"
BREAK = "┊"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 260, 56, 16, 34, 44


@dataclass(frozen=True)
class Trend:
    """One engine's values of a metric, oldest first, in pieces that may be joined by a line."""

    engine: str
    metric: str
    pieces: Sequence[Sequence[tuple[Entry, float]]]


def trends(entries: Sequence[Entry], metric: str) -> list[Trend]:
    """By engine; entries without the metric are left out."""
    by_engine: dict[str, list[list[tuple[Entry, float]]]] = {}
    for entry in entries:
        value = entry.metrics.get(metric)
        if value is None:
            continue
        pieces = by_engine.setdefault(entry.engine, [])
        if pieces and pieces[-1][-1][0].ground == entry.ground:
            pieces[-1].append((entry, value))
        else:
            pieces.append([(entry, value)])
    return [Trend(engine, metric, pieces) for engine, pieces in by_engine.items()]


def trend_text(found: Sequence[Trend]) -> str:
    """A bar a run from 0 to 1, a stroke where the ground changed, and the last value against the one before it."""
    width = max(len(plain_text(trend.engine)) for trend in found)
    lines = []
    for trend in found:
        bars = BREAK.join("".join(_bar(value) for _, value in piece) for piece in trend.pieces)
        last = trend.pieces[-1]
        said = f"{last[-1][1]:.4f}"
        if len(last) > 1:
            said += f" ({last[-1][1] - last[-2][1]:+.4f})"
        lines.append(f"{plain_text(trend.engine):<{width}}  {bars}  {said}")
    if any(len(trend.pieces) > 1 for trend in found):
        lines.append(f"{BREAK} the test set, the corpus or the questions changed: before and after do not compare")
    return "\n".join([f"{found[0].metric}, oldest first, bars from 0 to 1", *lines]) + "\n"


def trend_svg(found: Sequence[Trend]) -> str:
    """The same as a picture: a panel an engine, a point a run, a line where points compare."""
    total = TOP + HEIGHT * len(found)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" width="{WIDTH}" height="{total}" '
        f'role="img" font-family="sans-serif" font-size="12">',
        f"<title>{_xml(found[0].metric)} from run to run</title>",
        f'<rect width="{WIDTH}" height="{total}" fill="#ffffff"/>',
    ]
    for place, trend in enumerate(found):
        parts += _panel(trend, TOP + place * HEIGHT)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(trend: Trend, top: int) -> list[str]:
    points = [point for piece in trend.pieces for point in piece]
    floor, ceiling = top + HEIGHT - BOTTOM, top

    def x(place: int) -> float:
        step = (WIDTH - LEFT - RIGHT - 20) / max(len(points) - 1, 1)
        return round(LEFT + 10 + step * place, 1)

    def y(value: float) -> float:
        return round(floor - (floor - ceiling - 10) * min(max(value, 0.0), 1.0), 1)

    parts = [f'<text x="{LEFT}" y="{ceiling - 8}" font-weight="bold">{_xml(trend.engine)}: {_xml(trend.metric)}</text>']
    for mark in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark)}" y2="{y(mark)}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(mark) + 4}" text-anchor="end" fill="#555555">{mark:g}</text>')
    place = 0
    for number, piece in enumerate(trend.pieces):
        if number:
            at = round((x(place - 1) + x(place)) / 2, 1)
            parts.append(
                f'<line class="break" x1="{at}" x2="{at}" y1="{ceiling}" y2="{floor}" stroke="#777777" '
                f'stroke-dasharray="4 4"><title>the test set, the corpus or the questions changed</title></line>'
            )
        places = range(place, place + len(piece))
        if len(piece) > 1:
            joined = " ".join(f"{x(i)},{y(value)}" for i, (_, value) in zip(places, piece, strict=True))
            parts.append(f'<polyline points="{joined}" fill="none" stroke="#0072b2" stroke-width="2"/>')
        for i, (entry, value) in zip(places, piece, strict=True):
            commit = f", {entry.commit[:10]}{' and changes' if entry.dirty else ''}" if entry.commit else ""
            parts.append(
                f'<circle cx="{x(i)}" cy="{y(value)}" r="4" fill="#0072b2">'
                f"<title>{_xml(f'{value:.4f} on {entry.when}{commit}')}</title></circle>"
            )
        place += len(piece)
    for i, anchor in dict.fromkeys([(0, "start"), (len(points) - 1, "end")]):
        parts.append(
            f'<text x="{x(i)}" y="{floor + 18}" text-anchor="{anchor}" fill="#555555">'
            f"{_xml(points[i][0].when[:10])}</text>"
        )
        if len(points) == 1:
            break
    return parts


def _bar(value: float) -> str:
    return BARS[min(int(min(max(value, 0.0), 1.0) * len(BARS)), len(BARS) - 1)]


def _xml(text: str) -> str:
    return escape(_IMPOSSIBLE.sub(" ", plain_text(text)))
