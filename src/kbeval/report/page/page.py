"""Puts report.html together. Its bytes are a function of the run files, their sidecars and the data set alone."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from kbeval.report import sections
from kbeval.report.markdown import caveats, configuration_lines
from kbeval.report.names import for_page
from kbeval.report.page.explorer import as_data_block, explorer
from kbeval.report.page.losses import REASONS, count_reasons
from kbeval.report.page.pictures import left_out, pictures
from kbeval.report.page.svg import style
from kbeval.report.sentences import counts_sentence, verdict_remarks, verdict_sentence
from kbeval.report.tables import Table

if TYPE_CHECKING:
    from kbeval.evaluation.comparison import Comparison
    from kbeval.report.page.losses import Losses
    from kbeval.report.page.pictures import Picture

MOST_ERRORS = 200
LONGEST_CELL = 300


def report_html(comparison: Comparison, drawn: list[Picture] | None = None) -> bytes:
    """report.html: everything in it that came from data is escaped, or set as text by its script.

    Args:
        comparison: what it shows.
        drawn: its pictures, where they are at hand.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    comparison = for_page(comparison)
    data, why = explorer(comparison)
    static = files("kbeval.report.page") / "static"
    script = (static / "report.js").read_text("utf-8")
    sheet = (
        (static / "report.css").read_text("utf-8")
        + style(dark=False)
        + f"@media screen and (prefers-color-scheme:dark){{{style(dark=True)}}}"
    )
    environment = Environment(
        loader=PackageLoader("kbeval.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    verdicts = [
        {"sentence": verdict_sentence(comparison, pair), "remarks": verdict_remarks(comparison, pair)}
        for pair in comparison.pairs
    ]
    rendered = environment.get_template("report.html").render(
        script=Markup(script),  # noqa: S704 - the package's own file
        sheet=Markup(sheet),  # noqa: S704 - the package's own file
        script_hash=_source_hash(script),
        sheet_hash=_source_hash(sheet),
        verdicts=verdicts,
        counts=[counts_sentence(comparison, run) for run in comparison.runs],
        level=comparison.test_set.level,
        family=sections.family_sentence(comparison) if comparison.pairs else "",
        pictures=drawn if drawn is not None else pictures(comparison),
        left_out=left_out(comparison),
        tables=_tables(comparison, why),
        caveats=caveats(comparison),
        configuration=configuration_lines(comparison),
        questions=len(comparison.test_set.queries),
        data=Markup(as_data_block(data)),  # noqa: S704 - nothing in it can end the element
    )
    return rendered.encode("utf-8", "replace")


def _tables(comparison: Comparison, why: Losses) -> list[dict[str, object]]:
    """The tables below the pictures."""
    made = [
        _reasons(comparison, why),
        sections.strata_table(comparison),
        sections.partial_table(comparison),
        sections.metrics_by_run(comparison),
        sections.pairs_table(comparison) if comparison.pairs else None,
        sections.without_errors_table(comparison),
        sections.slices_table(comparison, brief=True),
        sections.added_gold_table(comparison),
        sections.labels_table(comparison),
        sections.legs_table(comparison),
        sections.lost_table(comparison),
        _errors(comparison),
        sections.unanswerable_table(comparison),
    ]
    return [
        {
            "title": table.title,
            "headers": table.headers,
            "left": table.left,
            "rows": [
                [cell if len(cell) <= LONGEST_CELL else f"{cell[:LONGEST_CELL]}…" for cell in row] for row in table.rows
            ],
        }
        for table in made
        if table is not None
    ]


def _reasons(comparison: Comparison, why: Losses) -> Table:
    counts = [count_reasons(flags) for flags in why.flags]
    rows = [
        [words, *(str(of_run[name]) for of_run in counts)]
        for name, words in REASONS.items()
        if any(of_run[name] for of_run in counts)
    ]
    headers = ["Questions without a relevant document first", *(run.name for run in comparison.runs)]
    return Table(headers, rows, title="Why questions were lost (several reasons can hold for one)")


def _errors(comparison: Comparison) -> Table | None:
    rows = sections.error_rows(comparison)
    if not rows:
        return None
    title = "Questions on which an engine failed"
    if len(rows) > MOST_ERRORS:
        title += f" (the first {MOST_ERRORS} of {len(rows)})"
    return Table(["Engine", "query", "error"], rows[:MOST_ERRORS], left=3, title=title)


def _source_hash(text: str) -> str:
    """What the content security policy knows the page's own script and style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
