"""Data in tables is shown as text, whatever it holds."""

from __future__ import annotations

import csv
import io

import pytest

from kbeval.report.tables import Table, as_csv, as_latex, as_markdown, as_text, escape_latex, escape_markdown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<script>alert(1)</script>", "&lt;script>alert(1)&lt;/script>"),
        ("p < .001", "p < .001"),
        ("[click](http://x) [a][b]", r"[click\](http://x) [a\][b]"),
        ("difference [+0.1, +0.2]", "difference [+0.1, +0.2]"),
        ("*bold* `code`", r"\*bold\* \`code\`"),
        ("snake_case and _emphasis_", r"snake_case and \_emphasis\_"),
        ("two\nlines\r\nand\ttabs", "two lines and tabs"),
        ("# heading", r"\# heading"),
        ("1. list", r"1\. list"),
        ("&lt; as it is", "&amp;lt; as it is"),
        ("R&D", "R&D"),
        ("a\u2028b", "a b"),
        (r"back\slash", r"back\\slash"),
    ],
)
def test_markdown(text: str, shown: str) -> None:
    assert escape_markdown(text) == shown


def test_long_text_is_cut() -> None:
    assert escape_markdown("x" * 500) == "x" * 159 + "…"


def test_latex() -> None:
    assert escape_latex(r"50% of a_b & $c \ {d}~^#") == (
        r"50\% of a\_b \& \$c \textbackslash{} \{d\}\textasciitilde{}\textasciicircum{}\#"
    )


TABLE = Table(["name", "value"], [["a", "0.5"], ["wide 漢字", "10.25"]], title="T")


def test_text_is_aligned_by_width_on_screen() -> None:
    assert as_text(TABLE) == "T\nname       value\na            0.5\nwide 漢字  10.25\n"


def test_markdown_and_latex_tables() -> None:
    assert as_markdown(TABLE) == "| name | value |\n| --- | ---: |\n| a | 0.5 |\n| wide 漢字 | 10.25 |\n"
    assert as_latex(TABLE).splitlines()[:4] == ["% T", r"\begin{tabular}{lr}", r"\toprule", r"name & value \\"]


def test_csv_holds_no_formula_for_a_spreadsheet_to_run() -> None:
    table = Table(["name", "v"], [["=HYPERLINK(1)", "-0.25"], ['say "x", y', "+0.5"], ["@sum", "1e-05"]], title="T")
    rows = list(csv.reader(io.StringIO(as_csv([table]))))
    assert rows == [
        ["table", "name", "v"],
        ["T", "'=HYPERLINK(1)", "-0.25"],
        ["T", 'say "x", y', "+0.5"],
        ["T", "'@sum", "1e-05"],
    ]


def test_headers_of_csv_are_no_formulas_either() -> None:
    table = Table(["=1+cmd|calc MRR", "n"], [["x", "1"]])
    assert next(csv.reader(io.StringIO(as_csv([table])))) == ["table", "'=1+cmd|calc MRR", "n"]


def test_a_row_of_latex_is_no_argument_of_the_row_before() -> None:
    rows = as_latex(Table(["Run", "n"], [["[v2] x", "[1"], ["*star", "2"]])).splitlines()
    assert rows[4:6] == [r"{}[v2] x & {}[1 \\", r"{}*star & 2 \\"]


def test_nothing_turns_the_text_around_it() -> None:
    assert escape_markdown("a\u202eb \u2066c\u2069") == "a b c"
