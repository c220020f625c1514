"""The pictures of a sweep: quality against what it costs, and what a score threshold trades."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from kbeval.report.page.pictures import Picture
from kbeval.report.page.svg import WIDTH, clean, drawing, element, label, line, marker, scale, tick_text
from kbeval.report.sentences import fixed
from kbeval.sweep.grid import BASE
from kbeval.sweep.sweeping import pareto

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kbeval.sweep.measuring import Measured
    from kbeval.sweep.sweeping import Sweep
    from kbeval.sweep.thresholds import Curve, Point

_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, WIDTH - 14.0, 40.0, 270.0
_HEIGHT = 312.0
_LOGARITHMIC = 8.0
_LETTER = 6.6
_PICKED, _FRONT = 1, 0


def pictures(sweep: Sweep) -> list[Picture]:
    """Those that the data can give."""
    made = [
        _trade(sweep, "latency", "95% of questions answered within, in ms", lambda each: each.p95),
        _trade(sweep, "cost", "cost of 1000 questions", lambda each: each.cost),
    ]
    for curve in sweep.curves:
        made += [_curve(curve), _thresholds(curve)]
    return [picture for picture in made if picture is not None]


@dataclass(frozen=True)
class _Axis:
    """A horizontal axis, logarithmic where values are far apart."""

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def over(cls, values: Sequence[float]) -> _Axis:
        least, most = min(values), max(values)
        if least > 0 and most / least > _LOGARITHMIC:
            return cls(least / 1.25, most * 1.25, True)
        found = scale([0.0, most], _LEFT, _RIGHT, low=0.0)
        return cls(found.low, found.high, False)

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(each) if self.logarithmic else each for each in (self.low, self.high, value))
        return _LEFT + (at - low) / (high - low) * (_RIGHT - _LEFT)

    def ticks(self) -> list[float]:
        if not self.logarithmic:
            return scale([self.low, self.high], _LEFT, _RIGHT, low=self.low, high=self.high).ticks()
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1, 2, 5) if self.high / self.low < 300 else (1,)
        return [t for power in powers for step in steps if self.low <= (t := step * 10.0**power) <= self.high]


def _trade(sweep: Sweep, name: str, what: str, price: Callable[[Measured], float | None]) -> Picture | None:
    """Dev quality against a price, the Pareto front joined."""
    primary = sweep.asked.primary
    dots = [
        (each, each.dev[primary.name], at) for each in sweep.measured if each.sound and (at := price(each)) is not None
    ]
    if len(dots) < 2 or max(at for _, _, at in dots) <= 0:
        return None
    across = _Axis.over([at for _, _, at in dots])
    up = scale([quality for _, quality, _ in dots], _BOTTOM, _TOP, low=0.0, high=1.0)
    parts = [_grid(across.ticks(), across, up.ticks(), up, what, f"dev {primary.label}")]
    front = pareto([(each.name, quality, at) for each, quality, at in dots])
    places = {each.name: (across(at), up(quality)) for each, quality, at in dots}
    steps = "".join(
        f"M{places[front[0]][0]:.1f} {places[front[0]][1]:.1f}" if i == 0 else f"H{places[n][0]:.1f}V{places[n][1]:.1f}"
        for i, n in enumerate(front)
    )
    parts.append(element("path", d=f"{steps}H{_RIGHT:.1f}", class_="c"))
    labelled = [*front, *(n for n in (sweep.picked.name, BASE) if n in places and n not in front)]
    shown = [each for each in dots if each[0].name not in labelled] + [d for d in dots if d[0].name in labelled]
    for each, quality, at in shown:
        x, y = places[each.name]
        words = f"{each.name}: {each.configuration.in_words()}; dev {primary.label} {fixed(quality)}, {at:.3g} ({what})"
        parts.append(_dot(each, x, y, words, sweep, front))
    parts += _labels([(n, *places[n]) for n in dict.fromkeys([sweep.picked.name, BASE, *front]) if n in places])
    parts.append(_legend())
    note = (
        f"Each dot is a configuration: {primary.label} on the dev split against {what}. Dashed: the Pareto front, "
        f"beyond which nothing is both better and {'faster' if name == 'latency' else 'cheaper'} ({len(front)} of "
        f"{len(dots)} configurations)."
    )
    title = f"Quality against {'latency' if name == 'latency' else 'cost'}"
    return Picture(name, title, note, drawing(_HEIGHT, title, note, *parts))


def _dot(one: Measured, x: float, y: float, words: str, sweep: Sweep, front: Sequence[str]) -> Markup:
    if one is sweep.picked:
        return marker(x, y, _PICKED, words, 6.0)
    if one.name == BASE:
        return marker(x, y, 2, words, 5.5)
    if one.name in front:
        return marker(x, y, _FRONT, words, 5.0)
    return element("circle", element("title", clean(words)), cx=x, cy=y, r=3.5, class_="h")


def _legend() -> Markup:
    parts = []
    x = _LEFT
    for kind, words in ((_PICKED, "picked"), (2, "as it is set"), (_FRONT, "Pareto front"), (None, "others")):
        parts.append(
            element("circle", cx=x + 4, cy=12.0, r=3.5, class_="h")
            if kind is None
            else marker(x + 4, 12.0, kind, words)
        )
        parts.append(label(x + 14, 16, words))
        x += 30 + _LETTER * len(words)
    return Markup("").join(parts)


def _labels(named: Sequence[tuple[str, float, float]]) -> list[Markup]:
    """Names beside dots, each where no other is; one that fits nowhere is left to the dot's own title."""
    taken: list[tuple[float, float, float, float]] = [(x - 5, y - 5, x + 5, y + 5) for _, x, y in named]
    found = []
    for name, x, y in named:
        width = _LETTER * len(name)
        for left, base in ((x + 8, y + 4), (x - 8 - width, y + 4), (x - width / 2, y - 9), (x - width / 2, y + 18)):
            box = (left, base - 10, left + width, base + 2)
            inside = box[0] >= _LEFT and box[2] <= _RIGHT + 8 and box[1] >= _TOP - 14 and box[3] <= _BOTTOM + 2
            own = (x - 5, y - 5, x + 5, y + 5)
            if inside and not any(_overlap(box, other) for other in taken if other != own):
                taken.append(box)
                found.append(label(left, base, name, kind="b"))
                break
    return found


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _grid(
    across: Sequence[float],
    x_of: Callable[[float], float],
    up: Sequence[float],
    y_of: Callable[[float], float],
    below: str,
    beside: str,
    *,
    percent: bool = False,
) -> Markup:
    def text(value: float) -> str:
        return f"{value * 100:.0f}%" if percent else tick_text(value)

    parts = []
    for tick in up:
        parts += [
            line(_LEFT, y_of(tick), _RIGHT, y_of(tick), "g"),
            label(_LEFT - 6, y_of(tick) + 4, text(tick), end=True),
        ]
    for tick in across:
        parts += [
            line(x_of(tick), _BOTTOM, x_of(tick), _BOTTOM + 4, "z"),
            label(x_of(tick), _BOTTOM + 17, f"{tick:g}" if not percent else text(tick), middle=True),
        ]
    parts += [
        line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "z"),
        label((_LEFT + _RIGHT) / 2, _BOTTOM + 34, below, middle=True, kind="s"),
        label(8, _TOP - 10, beside, kind="s"),
    ]
    return Markup("").join(parts)


def _curve(curve: Curve) -> Picture:
    """Answerable questions lost against unanswerable ones still answered: every threshold is a point."""
    title = f"What a score threshold trades ({curve.configuration})"
    across = scale([0.0, 1.0], _LEFT, _RIGHT, low=0.0, high=1.0)
    up = scale([0.0, max(max(point.lost for point in curve.points), 0.1)], _BOTTOM, _TOP, low=0.0, high=1.0)
    parts = [
        _grid(
            across.ticks(),
            across,
            up.ticks(),
            up,
            "unanswerable questions that are still answered",
            "answerable questions that lose their document",
            percent=True,
        ),
        _line([(across(point.answered), up(point.lost)) for point in curve.points], 0),
    ]
    if curve.suggested is not None:
        at = min(curve.points, key=lambda point: abs(point.threshold - (curve.suggested or 0.0)))
        x, y = across(at.answered), up(at.lost)
        words = f"threshold {curve.suggested:.3g}"
        right = x + 14 + _LETTER * len(words) < _RIGHT
        parts += [
            marker(x, y, _PICKED, words, 6.0),
            label(x + 11 if right else x - 11, max(y - 6, _TOP + 8), words, end=not right, kind="b"),
        ]
    note = (
        f"Every threshold is a point of the line, over {curve.answerable} answerable and {curve.unanswerable} "
        "unanswerable questions. Towards the lower left is better."
    )
    return Picture("threshold-trade", title, note, drawing(_HEIGHT, title, note, *parts))


def _thresholds(curve: Curve) -> Picture:
    """The shares by threshold."""
    title = f"Shares by score threshold ({curve.configuration})"
    values = [point.threshold for point in curve.points]
    across = scale(values, _LEFT, _RIGHT)
    up = scale([0.0, 1.0], _BOTTOM, _TOP, low=0.0, high=1.0)
    lines: list[tuple[str, Callable[[Point], float]]] = [
        ("lose their document", lambda point: point.lost),
        ("get nothing", lambda point: point.silent),
        ("unanswerable, answered", lambda point: point.answered),
    ]
    grid = Markup("").join(
        [
            *(line(_LEFT, up(tick), _RIGHT, up(tick), "g") for tick in up.ticks()),
            *(label(_LEFT - 6, up(tick) + 4, f"{tick * 100:.0f}%", end=True) for tick in up.ticks()),
            *(label(across(tick), _BOTTOM + 17, tick_text(tick), middle=True) for tick in across.ticks()),
            line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "z"),
            label((_LEFT + _RIGHT) / 2, _BOTTOM + 34, "score threshold", middle=True, kind="s"),
        ]
    )
    parts = [grid]
    x = 8.0
    for number, (words, share) in enumerate(lines):
        parts.append(_line([(across(point.threshold), up(share(point))) for point in curve.points], number))
        parts += [marker(x + 5, 12.0, number, words), label(x + 14, 16, words)]
        x += 26 + _LETTER * len(words)
    if curve.suggested is not None:
        parts.append(line(across(curve.suggested), _TOP, across(curve.suggested), _BOTTOM, "c"))
    note = (
        "Shares of the answerable questions that lose their relevant document and that get nothing at all, and of the "
        "unanswerable ones that still get something. Dashed: the threshold picked on the dev split."
    )
    return Picture("thresholds", title, note, drawing(_HEIGHT, title, note, *parts))


def _line(points: Sequence[tuple[float, float]], colour: int) -> Markup:
    path = "".join(f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
    return element("path", d=path, class_=f"l{colour}")
