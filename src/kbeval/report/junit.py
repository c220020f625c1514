"""A check as JUnit XML: a test case a gate, and one a run for its errors.

It is valid against both schemas in use: Ant's (the stricter: it wants a time stamp, a host, properties and both
streams) and that of Jenkins' xUnit plugin. The host is never named, and the times are 0: neither is a measurement.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from kbeval.report.gate_words import counts, error_lines, failures, sentence, summary, title

if TYPE_CHECKING:
    from kbeval.evaluation.gates import Check, Line, Measured

# https://www.w3.org/TR/xml/#charsets: what no XML document can hold, escaped or not.
_IMPOSSIBLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LIMIT = 4000


def junit_xml(check: Check, now: datetime | None = None) -> bytes:
    """The document, UTF-8. ``now`` is its time stamp, without a zone as the schema asks: UTC."""
    stamp = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S")
    root = Xml.Element("testsuites")
    for place, run in enumerate(check.runs):
        lines = [line for line in check.lines if line.run == run.name]
        failures = sum(check.policy.fails(line.word) for line in lines)
        skipped = sum(_is_skipped(check, line) for line in lines)
        base = check.baselines.get(run.name)
        broken = bool(run.errors or (base is not None and base.errors))
        suite = Xml.SubElement(
            root,
            "testsuite",
            name=_token(run.name),
            package="kbeval.check",
            id=str(place),
            timestamp=stamp,
            hostname="localhost",
            tests=str(len(lines) + 1),
            failures=str(failures),
            errors=str(int(broken)),
            skipped=str(skipped),
            time="0",
        )
        properties = Xml.SubElement(suite, "properties")
        for name, value in (("test set", check.test_set.hash), ("questions", str(len(check.test_set.queries)))):
            Xml.SubElement(properties, "property", name=name, value=value)
        _answers(suite, check, run, base.errors if base else 0)
        for line in lines:
            _case(suite, check, line)
        Xml.SubElement(suite, "system-out").text = _text(summary(check))
        Xml.SubElement(suite, "system-err").text = _text("\n".join(run.warnings))
    Xml.indent(root)
    document: bytes = Xml.tostring(root, encoding="utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + document + b"\n"


def _answers(suite: Xml.Element, check: Check, run: Measured, of_baseline: int) -> None:
    case = Xml.SubElement(suite, "testcase", name="every question answered", classname=_class(run.name), time="0")
    said = []
    if run.errors:
        said += [f"{counts(check, run)}", *error_lines(run)]
    if of_baseline:
        said.append(f"the baseline {failures(of_baseline)}")
    if said:
        error = Xml.SubElement(case, "error", type="engine", message=_text(said[0]))
        error.text = _text("\n".join(said))


def _case(suite: Xml.Element, check: Check, line: Line) -> None:
    case = Xml.SubElement(suite, "testcase", name=_token(title(line)), classname=_class(line.run), time="0")
    said = f"{line.word}: {sentence(line)}"
    if check.policy.fails(line.word):
        Xml.SubElement(case, "failure", type=line.word, message=_text(said)).text = _text(f"{title(line)}\n{said}")
    elif _is_skipped(check, line):
        Xml.SubElement(case, "skipped", message=_text(said))


def _is_skipped(check: Check, line: Line) -> bool:
    return line.word in ("unreachable", "cannot tell") and not check.policy.fails(line.word)


def _class(run: str) -> str:
    return f"kbeval.check.{_token(run)}"


def _token(text: str) -> str:
    return " ".join(_text(text).split()) or "?"


def _text(text: str) -> str:
    return _IMPOSSIBLE.sub("\ufffd", text)[:LIMIT]
