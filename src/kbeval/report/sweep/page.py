"""sweep.html: the pictures and the table on one page that needs nothing else, and no script."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from kbeval.report.page.svg import style
from kbeval.report.sweep import tables
from kbeval.report.sweep.pictures import pictures

if TYPE_CHECKING:
    from kbeval.report.tables import Table
    from kbeval.sweep.sweeping import Sweep

_SHEET = """
.configurations tr.picked td{background:var(--gold);font-weight:600}
.configurations tr.out td{color:var(--quiet)}
.configurations td{white-space:nowrap}
.tag{display:inline-block;border:1px solid var(--rule);border-radius:4px;padding:0 .3rem;margin-inline-start:.3rem}
pre{background:var(--card);padding:.5rem .75rem;border-radius:6px;white-space:pre-wrap;font-size:.9rem}
"""


def sweep_html(sweep: Sweep) -> bytes:
    """The page. Everything in it that came from data is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    static = files("kbeval.report.page") / "static"
    sheet = (
        (static / "report.css").read_text("utf-8")
        + style(dark=False)
        + f"@media screen and (prefers-color-scheme:dark){{{style(dark=True)}}}"
        + _SHEET
    )
    environment = Environment(
        loader=PackageLoader("kbeval.report.sweep"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    table = tables.configurations_table(sweep)
    rendered = environment.get_template("sweep.html").render(
        title=f"Which settings of {sweep.grid.engine} find the right document",
        sheet=Markup(sheet),  # noqa: S704 - the package's own files
        sheet_hash="sha256-" + base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode(),
        picked=tables.picked_sentence(sweep),
        tested=tables.test_sentences(sweep),
        command=tables.command(sweep),
        pictures=pictures(sweep),
        headers=table.headers,
        left=table.left,
        rows=_rows(sweep, table),
        notes=tables.notes(sweep),
        thresholds=tables.threshold_sentences(sweep),
        curves=[tables.thresholds_table(curve) for curve in sweep.curves],
    )
    return rendered.encode("utf-8", "replace")


def _rows(sweep: Sweep, table: Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for one, cells in zip(tables.ordered(sweep), table.rows, strict=True):
        kind = "picked" if one is sweep.picked else "" if one.sound else "out"
        rows.append({"kind": kind, "name": one.name, "tags": tables.marks(sweep, one), "cells": cells[1:]})
    return rows
