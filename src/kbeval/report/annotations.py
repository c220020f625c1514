"""A check as GitHub's workflow commands, which become annotations of the job.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions; escaping as its toolkit does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kbeval.report.gate_words import counts, error_lines, sentence, summary, title

if TYPE_CHECKING:
    from kbeval.evaluation.gates import Check

_CONTROL = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
LIMIT = 1000


def gate_annotations(check: Check) -> str:
    """A line for each gate that needs attention, an error where it fails, a warning where not; then a notice."""
    lines = []
    for run in check.runs:
        if run.errors:
            said = "\n".join([counts(check, run), *error_lines(run)])
            lines.append(_command("error", f"{run.name}: the engine failed", said))
    lines += [
        _command("error", f"{base.name}: the baseline failed", f"on {base.errors} questions")
        for base in {base.name: base for base in check.baselines.values() if base.errors}.values()
    ]
    for line in check.lines:
        if line.word not in ("met", "not worse"):
            kind = "error" if check.policy.fails(line.word) else "warning"
            lines.append(_command(kind, f"{line.run}: {line.word}", f"{title(line)}: {sentence(line)}"))
        elif line.rarely_passes:
            lines.append(_command("warning", f"{line.run}: a narrow margin", f"{title(line)}: {sentence(line)}"))
    lines.append(_command("notice", "kbeval check", summary(check)))
    return "".join(f"{line}\n" for line in lines)


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    text = _CONTROL.sub(" ", text)[:LIMIT]
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
