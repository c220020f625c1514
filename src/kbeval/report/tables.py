"""One table, five looks: for a terminal, Markdown, CSV and LaTeX. Cells are text; data in them is escaped."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbeval.report.names import DIRECTING

if TYPE_CHECKING:
    from collections.abc import Sequence

# What acts as markup wherever it stands; "_" inside a word, "<" before a blank and "[" without a link do not.
_MARKDOWN_SPECIAL = re.compile(r"[\\`*|]|(?<!\w)_|_(?!\w)|~~|^[#>+=-](?=\s|$)|(?<=^\d)[.)](?=\s)|\](?=[(\[:])")
_MARKDOWN_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
}
# A spreadsheet runs a cell that begins like this as a formula.
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?( \[[-+\d., ]+\])?(; [\d/]+; [\d.–]+)?")


@dataclass(frozen=True)
class Table:
    """Rows of text under a header. ``left`` counts the leading columns that hold words."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    title: str = ""


def as_text(table: Table) -> str:
    """Aligned columns, two blanks apart."""
    rows = [[plain_text(cell) for cell in row] for row in (table.headers, *table.rows)]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(table.headers))]
    lines = ["  ".join(_pad(cell, widths[i], i < table.left) for i, cell in enumerate(row)).rstrip() for row in rows]
    return "\n".join(([table.title] if table.title else []) + lines) + "\n"


def as_markdown(table: Table) -> str:
    """A table of GitHub's Markdown. Cells are escaped by whoever fills in data: see ``escape_markdown``."""
    marks = ["---" if column < table.left else "---:" for column in range(len(table.headers))]
    lines = ["| " + " | ".join(row) + " |" for row in (table.headers, marks, *table.rows)]
    return "\n".join(lines) + "\n"


def as_csv(tables: Sequence[Table]) -> str:
    """The tables as CSV, one after another with the table's title in the first column."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for table in tables:
        writer.writerow(["table", *(_defuse(plain_text(header)) for header in table.headers)])
        writer.writerows([_defuse(plain_text(cell)) for cell in (table.title, *row)] for row in table.rows)
    return stream.getvalue()


def as_latex(table: Table) -> str:
    """A tabular with booktabs rules."""
    columns = "l" * table.left + "r" * (len(table.headers) - table.left)
    lines = [
        " & ".join(_first_in_latex(escape_latex(cell)) for cell in row) + r" \\" for row in (table.headers, *table.rows)
    ]
    head = [rf"% {' '.join(table.title.split())}"] if table.title else []
    body = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def escape_markdown(text: str, limit: int = 160) -> str:
    """Text from data as Markdown shows it: on one line, nothing in it acting as markup, cut at ``limit``."""
    line = plain_text(text)
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    escaped = _MARKDOWN_SPECIAL.sub(lambda match: "".join(f"\\{character}" for character in match[0]), line)
    return _MARKDOWN_TAG.sub("&lt;", _ENTITY.sub("&amp;", escaped))


def escape_latex(text: str) -> str:
    """Text as LaTeX shows it."""
    return "".join(_LATEX_SPECIAL.get(character, character) for character in plain_text(text))


def _first_in_latex(cell: str) -> str:
    """A cell that the end of the row before it does not take for its own argument."""
    return f"{{}}{cell}" if cell.startswith(("[", "*")) else cell


def plain_text(text: str) -> str:
    """Text from data on one line: blanks for control characters, line breaks, and what turns the text around it."""
    if text.isascii() and text.isprintable():  # nearly every cell, and a tenth of the time
        return re.sub(" +", " ", text).strip(" ")
    text = DIRECTING.sub(" ", text)
    kept = (" " if unicodedata.category(character) in ("Cc", "Zl", "Zp") else character for character in text)
    return re.sub(" +", " ", "".join(kept)).strip(" ")


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _pad(text: str, width: int, left: bool) -> str:
    blanks = " " * (width - _width(text))
    return text + blanks if left else blanks + text


def _defuse(text: str) -> str:
    if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return "'" + text
    return text
