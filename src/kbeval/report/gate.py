"""A check as text, Markdown and JSON. What came from data is kept on its line, and escaped where it could be markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from kbeval.report.gate_words import counts, error_lines, failures, sentence, summary, title
from kbeval.report.results_json import number
from kbeval.report.tables import Table, as_markdown, escape_markdown, plain_text

if TYPE_CHECKING:
    from kbeval.evaluation.gates import Check, Line

MOST_CHARACTERS = 400


def gate_text(check: Check) -> str:
    """For a terminal: a block a run, and the summary last. What needs attention is in capitals."""
    width = max(len(line.word) for line in check.lines)
    parts = []
    for run in check.runs:
        lines = [f"{_cut(run.name)}: {counts(check, run)}"]
        lines += [f"  ERROR {_cut(error)}" for error in error_lines(run)]
        if (base := check.baselines.get(run.name)) is not None and base.errors:
            lines.append(f"  ERROR the baseline {_cut(base.name)} {failures(base.errors)}")
        for line in check.lines:
            if line.run == run.name:
                word = line.word if line.word in ("met", "not worse") else line.word.upper()
                lines.append(f"  {word:<{width}}  {_cut(f'{title(line)}: {sentence(line)}')}")
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, plain_text(summary(check))]) + "\n"


def gate_markdown(check: Check) -> str:
    """For a job's summary: a table."""
    rows = [
        [
            escape_markdown(line.run),
            escape_markdown(title(line)),
            f"**{line.word}**" if line.word not in ("met", "not worse") else line.word,
            escape_markdown(sentence(line), MOST_CHARACTERS),
        ]
        for line in check.lines
    ]
    parts = [
        f"## kbeval check: {escape_markdown(summary(check), MOST_CHARACTERS)}",
        as_markdown(Table(["Run", "Asked", "Outcome", "Found"], rows, left=4)).rstrip(),
        "\n".join(f"- {escape_markdown(run.name)}: {counts(check, run)}" for run in check.runs),
    ]
    errors = [f"- {escape_markdown(run.name)}: {escape_markdown(e)}" for run in check.runs for e in error_lines(run)]
    errors += [
        f"- {escape_markdown(base.name)} (a baseline): {failures(base.errors)}"
        for base in {base.name: base for base in check.baselines.values()}.values()
        if base.errors
    ]
    if errors:
        parts.append("\n".join(["Engines failed on these questions:", "", *errors]))
    return "\n\n".join(parts) + "\n"


def gate_json(check: Check) -> str:
    """For programs. Undefined is null."""
    data = {
        "passed": check.passed,
        "summary": summary(check),
        "test_set": {
            "queries": len(check.test_set.queries),
            "hash": check.test_set.hash,
            "level": check.test_set.level,
        },
        "runs": {
            run.name: {"errored": len(run.errors), "missing": run.missing, "errors": dict(run.errors)}
            for run in check.runs
        },
        "baselines": {
            name: {"name": base.name, "origin": base.origin, "errored": base.errors}
            for name, base in check.baselines.items()
        },
        "gates": [_gate(check, line) for line in check.lines],
    }
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode() + "\n"


def _gate(check: Check, line: Line) -> dict[str, Any]:
    return {
        "run": line.run,
        "gate": line.gate,
        "name": line.name,
        "word": line.word,
        "fails": check.policy.fails(line.word),
        "asked": line.asked,
        "value": number(line.value),
        "ci95": None if line.ci95 is None else [number(end) for end in line.ci95],
        "ceiling": number(line.ceiling),
        "baseline": line.baseline,
        "baseline_value": number(line.baseline_value),
        "delta": number(line.delta),
        "detectable": number(line.detectable),
        "unchanged_passes": number(line.unchanged_passes),
        "clusters": line.clusters,
        "asked_in_words": title(line),
        "found_in_words": sentence(line),
    }


def _cut(text: str) -> str:
    line = plain_text(text)
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
