"""How a notebook shows a frame: all of its rows and columns, whatever polars is set to."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


def html_table(frame: pl.DataFrame) -> str:
    """A frame as an HTML table: numbers with 4 decimals, a dash where there is none."""

    def cell(value: object) -> str:
        if value is None:
            return "<td>–</td>"
        if isinstance(value, float):
            return f'<td style="text-align: right">{value:.4f}</td>'
        return f'<td style="text-align: left">{escape(str(value))}</td>'

    head = "".join(f"<th>{escape(column)}</th>" for column in frame.columns)
    rows = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in frame.iter_rows())
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
