"""Small pieces of SVG. Text and attributes are escaped; numbers have one decimal."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from kbeval.report.names import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 420
MOST_LETTERS = 22
SHAPES = 6

# Okabe and Ito's colours, which people with any colour vision tell apart; the darker of two for light paper.
LIGHT = ("#0072b2", "#c04f00", "#00795a", "#9c4f80", "#8a6d00", "#2b83ba", "#444444", "#7a3b00")
DARK = ("#56b4e9", "#f0a04b", "#3fc79a", "#e39ac5", "#f0e442", "#9ecae1", "#dddddd", "#d9a066")
STEPS_LIGHT = ("#08457e", "#1f6aa8", "#4a8fc4", "#7db1d8", "#aacde6", "#d0e3f0", "#ececec", "#c9c9c9", "#f2b8a0")
STEPS_DARK = ("#c6e2f7", "#94c6ec", "#65a8db", "#4488bd", "#306a98", "#245073", "#3a3a3a", "#555555", "#8a3f22")


# What no XML may hold, and what would turn the text around it; isolates are kept, for they protect it.
_NOT_SHOWN = "\ufffe\uffff\u202a\u202b\u202c\u202d\u202e"


def clean(text: str, limit: int | None = None) -> str:
    """Text that XML may hold, on one line, cut at ``limit`` letters."""
    line = "".join(
        " " if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in _NOT_SHOWN else letter
        for letter in (text if limit is None else text[: limit + 1])
    )
    return line if limit is None or len(text) <= limit else f"{line[: limit - 1]}…"


def element(name: str, *content: str, **attributes: object) -> Markup:
    """An element. Content that is no Markup is escaped; ``class_`` is class, ``a_b`` is a-b; None leaves one out."""
    shown = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _value(value))
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(piece if isinstance(piece, Markup) else escape(clean(piece)) for piece in content)
    opening = Markup("<") + Markup(name) + shown  # noqa: S704 - the name is the code's own
    return opening + Markup(">") + inner + Markup("</") + Markup(name) + Markup(">")  # noqa: S704


def label(x: float, y: float, words: str, *, end: bool = False, middle: bool = False, kind: str = "t") -> Markup:
    """A line of text."""
    anchor = "end" if end else "middle" if middle else None
    return element("text", clean(words), x=x, y=y, class_=kind, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def marker(x: float, y: float, run: int, title: str, size: float = 4.5) -> Markup:
    """A run's mark: its colour and its shape, so that colour is never alone."""
    shape = (run + run // len(LIGHT)) % SHAPES
    s = size
    paths = (
        None,
        f"M{_n(x - s)} {_n(y - s)}h{_n(2 * s)}v{_n(2 * s)}h{_n(-2 * s)}z",
        f"M{_n(x)} {_n(y - s * 1.2)}L{_n(x + s * 1.2)} {_n(y + s)}H{_n(x - s * 1.2)}z",
        f"M{_n(x)} {_n(y - s * 1.3)}L{_n(x + s * 1.3)} {_n(y)}L{_n(x)} {_n(y + s * 1.3)}L{_n(x - s * 1.3)} {_n(y)}z",
        f"M{_n(x)} {_n(y + s * 1.2)}L{_n(x + s * 1.2)} {_n(y - s)}H{_n(x - s * 1.2)}z",
        f"M{_n(x - s * 1.3)} {_n(y - s / 2)}h{_n(s * 2.6)}v{_n(s)}h{_n(-s * 2.6)}z",
    )
    kind = f"f{run % len(LIGHT)}"
    hint = element("title", clean(title))
    path = paths[shape]
    if path is None:
        return element("circle", hint, cx=x, cy=y, r=s, class_=kind)
    return element("path", hint, d=path, class_=kind)


def legend(runs: Sequence[tuple[int, str]], y: float) -> tuple[Markup, float]:
    """The runs with their marks, in as many lines as they need; and where the next thing may begin.

    Args:
        runs: the number, by which a run has its mark, and the name of each.
        y: of the first line.
    """
    parts = []
    x = 8.0
    short = shortened([name for _, name in runs], MOST_LETTERS)
    for run, name in runs:
        shown = clean(short[name])
        width = 24 + 7.6 * len(shown)
        if x > 8 and x + width > WIDTH:
            x, y = 8.0, y + 18
        parts += [marker(x + 5, y - 4, run, name), label(x + 15, y, shown)]
        x += width
    return Markup("").join(parts), y + 14


@dataclass(frozen=True)
class Scale:
    """Values on a line of pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Some four to seven round values."""
        step = _step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(step * count, 10) for count in range(first, last + 1)]


def scale(
    values: list[float], start: float, end: float, *, low: float | None = None, high: float | None = None
) -> Scale:
    """A scale around some values, ending at round ones and never beyond ``low`` and ``high``."""
    least, most = min(values), max(values)
    step = _step(max(most - least, 0.02) / 5)
    bottom = math.floor(least / step + 1e-9) * step
    top = math.ceil(most / step - 1e-9) * step
    if top <= bottom:
        top = bottom + step
    bottom = bottom if low is None else max(low, bottom)
    top = top if high is None else min(high, top)
    if top <= bottom:
        bottom, top = (bottom - step, top) if top == high else (bottom, bottom + step)
    return Scale(bottom, top, start, end)


def drawing(height: float, title: str, description: str, *parts: Markup) -> Markup:
    """The picture itself."""
    return element(
        "svg",
        element("title", clean(title)),
        element("desc", clean(description)),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {_n(height)}",
        role="img",
        class_="picture",
    )


def tick_text(value: float) -> str:
    """A tick's value, short."""
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return {"-0": "0", "": "0"}.get(text, text).replace("-", "−")


def style(*, dark: bool) -> str:
    """The rules of the pictures, for light paper or a dark screen."""
    ink, faint, grid, paper = (
        ("#e8e8e8", "#a8a8a8", "#3a3f47", "#14171c") if dark else ("#1a1a1a", "#595959", "#dcdcdc", "#ffffff")
    )
    rules = [
        f".picture text{{font:12px system-ui,'DejaVu Sans',sans-serif;fill:{ink}}}",
        f".picture .s{{font-size:11px;fill:{faint}}}.picture .b{{font-weight:600}}",
        f".picture .g{{stroke:{grid};stroke-width:1}}.picture .z{{stroke:{faint};stroke-width:1.5}}",
        f".picture .c{{stroke:{faint};stroke-width:1.5;stroke-dasharray:4 3;fill:none}}",
        f".picture .h{{fill:{grid};stroke:{faint};stroke-width:1}}",
        f".picture .o{{stroke:{paper};stroke-width:1}}",
        f".picture .i{{fill:{paper}}}.picture .d{{fill:{ink}}}",
    ]
    for number, colour in enumerate(DARK if dark else LIGHT):
        rules.append(
            f".picture .f{number}{{fill:{colour}}}.picture .l{number}{{stroke:{colour};stroke-width:2;fill:none}}"
        )
    for number, colour in enumerate(STEPS_DARK if dark else STEPS_LIGHT):
        rules.append(f".picture .q{number}{{fill:{colour}}}")
    return "".join(rules)


def standalone(picture: Markup) -> bytes:
    """A picture as a file of its own, on white paper."""
    head, rest = str(picture).split(">", 1)
    height = head.split('viewBox="0 0 ')[1].split('"')[0].split()[1]
    sized = head.replace("<svg", f'<svg width="{WIDTH}" height="{height}"', 1)
    paper = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    title, after = rest.split("</desc>", 1)
    return f"{sized}>{title}</desc><style>{style(dark=False)}</style>{paper}{after}\n".encode()


def as_png(svg: bytes) -> bytes | None:
    """The picture in twice its size in pixels; None without ``kbeval[pictures]``."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        return None
    return bytes(svg_to_bytes(svg_string=svg.decode(), zoom=2, font_family="DejaVu Sans"))


def _value(value: object) -> str:
    return _n(value) if isinstance(value, float) else clean(str(value))


def _n(value: float) -> str:
    return (
        f"{value + 0.0:.1f}".removesuffix(".0").replace("-0", "0")
        if abs(value) < 0.05
        else f"{value:.1f}".removesuffix(".0")
    )


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    for factor in (1, 2, 5, 10):
        if factor * power >= rough * 0.999:
            return factor * power
    return 10 * power
