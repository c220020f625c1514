"""A gate in words: one sentence a line, the same in every format. Nothing in it is escaped yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbeval.evaluation.gates import Check, Line, Measured

MOST_ERRORS = 5


def title(line: Line) -> str:
    """What was asked: ``MRR at least 0.85``."""
    if line.gate == "margin":
        return f"{line.label} at most {_plain(line.asked)} worse than {line.baseline}"
    if line.is_latency:
        return f"{line.label} at most {_plain(line.asked)} ms"
    return f"{line.label} at least {_plain(line.asked)}"


def sentence(line: Line) -> str:
    """What was found."""
    parts = [_margin(line) if line.gate == "margin" else _target(line)]
    if line.why:
        parts.append(line.why)
    return "; ".join(part for part in parts if part)


def counts(check: Check, run: Measured) -> str:
    """How the questions went."""
    return f"{len(check.test_set.queries)} questions, {len(run.errors)} errored, {run.missing} missing"


def error_lines(run: Measured) -> list[str]:
    """The first questions on which the engine failed, and why."""
    shown = [f"{query}: {error}" for query, error in sorted(run.errors.items())[:MOST_ERRORS]]
    hidden = len(run.errors) - len(shown)
    return shown + ([f"and {hidden} more"] if hidden else [])


def failures(count: int) -> str:
    """On how many questions an engine failed."""
    return f"failed on {count} {'question' if count == 1 else 'questions'}"


def summary(check: Check) -> str:
    """The whole check in a line."""
    failed = check.failed()
    loud = [line for line in check.lines if line.word in ("unreachable", "cannot tell") and line not in failed]
    said = [f"{_count(failed, word)} {word}" for word in dict.fromkeys(line.word for line in failed)]
    if broken := check.broken():
        said.append(f"errors in {', '.join(broken)}")
    beside = [f"{_count(loud, word)} {word}" for word in dict.fromkeys(line.word for line in loud)]
    total = f"{len(check.lines)} {'gate' if len(check.lines) == 1 else 'gates'}"
    word = "passed" if check.passed else f"FAILED ({', '.join(said)})"
    return f"{total}: {word}" + (f"; {', '.join(beside)}, which fails nothing here" if beside else "")


def _count(lines: list[Line], word: str) -> int:
    return sum(line.word == word for line in lines)


def _target(line: Line) -> str:
    if line.value is None:
        return ""
    if line.is_latency:
        return f"{_apart(line.value, line.asked, 0)} ms"
    said = _apart(line.value, line.asked, 3)
    if line.ci95 is not None:
        # The interval is of the clusters' means, each counting once: that mean is said where it is another.
        if line.delta is not None and f"{line.delta:.3f}" != f"{line.value:.3f}":
            said += f", by clusters {line.delta:.3f}"
        said += f" [{line.ci95[0]:.3f}, {line.ci95[1]:.3f}]"
    if line.word == "unreachable":
        return f"{said}; no ranking can pass {_below(line.ceiling or 0.0)} on this test set"
    if line.word == "met" and line.ci95 is not None and line.ci95[0] < line.asked:
        return f"{said}; the interval reaches below the target, so other questions may tell otherwise"
    if line.word == "missed" and line.ci95 is not None and line.ci95[1] >= line.asked:
        if line.ci95[0] > line.asked:
            return f"{said}; by clusters it would be met: few documents hold most of the questions"
        return f"{said}; the interval reaches the target, so it may be chance"
    return said


def _margin(line: Line) -> str:
    if line.value is None or line.baseline_value is None or line.delta is None:
        return ""
    said = f"{line.value:.3f} against {line.baseline_value:.3f}, difference by clusters {line.delta:+.3f}"
    if line.ci95 is not None:
        said += f" [{line.ci95[0]:+.3f}, {line.ci95[1]:+.3f}]"
    if line.word == "cannot tell":
        if line.detectable is not None:
            said += f"; a difference of {line.detectable:.3f} or more would probably have shown"
        elif line.clusters is not None:
            said += f"; {line.clusters} independent {'question' if line.clusters == 1 else 'questions'} are too few"
    if line.unchanged_passes is not None:
        said += f"; an engine that is no better and no worse would pass {line.unchanged_passes:.0%} of the time"
        if line.rarely_passes:
            said += ": ask more questions, or a wider margin"
    return said


def _plain(number: float) -> str:
    return f"{number:.6g}"


def _apart(value: float, asked: float, decimals: int) -> str:
    """A value, with as many decimals as it takes not to look like what was asked where it is another."""
    for more in range(decimals, 13):
        text = f"{value:.{more}f}"
        if value == asked or float(text) != round(asked, 12):
            return text
    return f"{value:.{decimals}f}"


def _below(number: float) -> str:
    # A ceiling is cut and not rounded: rounded up it could look like the target.
    return f"{int(number * 10000 + 1e-6) / 10000:.4f}"
