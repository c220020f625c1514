"""Runs' names as a page can show them: short and still apart, and none that turns the text around it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.evaluation.comparison import Comparison, PairResult

DIRECTING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Unicode's embeddings, overrides and isolates: they change the order in which what follows is read."""
_FIRST_STRONG, _POP = "\u2068", "\u2069"
_RIGHT_TO_LEFT = ("R", "AL", "AN")


def shortened(names: Sequence[str], limit: int) -> dict[str, str]:
    """The names, cut to ``limit`` letters where they are longer, each still another than the others.

    What is cut out is the middle, as names that share a beginning differ at their end; where that does not tell them
    apart it is what they share, and where nothing does they are numbered.
    """
    found = {name: _without_middle(name, limit) for name in dict.fromkeys(names)}
    for alike in _alike(found):
        shared = len(_common_beginning(alike))
        for name in alike:
            found[name] = _without_middle(f"…{name[shared:]}", limit)
    for alike in _alike(found):
        for number, name in enumerate(alike, start=1):
            ending = f"…{number}"
            found[name] = found[name][: max(limit - len(ending), 0)] + ending
    return found


def for_page(comparison: Comparison) -> Comparison:
    """The comparison with names that leave the sentences around them as they are.

    What directs text is taken out of them, and names that are written from right to left are isolated.
    """
    names: dict[str, str] = {}
    for run in comparison.runs:
        name = _isolated(run.name)
        while name in names.values():
            name += "′"
        names[run.name] = name
    if all(name == shown for name, shown in names.items()):
        return comparison
    return replace(
        comparison,
        runs=[replace(run, name=names[run.name]) for run in comparison.runs],
        pairs=[_renamed(pair, names) for pair in comparison.pairs],
    )


def _renamed(pair: PairResult, names: dict[str, str]) -> PairResult:
    verdict = pair.verdict
    if verdict.taken_back is not None:
        detail = verdict.taken_back.detail
        for name in (pair.a, pair.b):
            detail = detail.replace(name, names[name])
        verdict = replace(verdict, taken_back=replace(verdict.taken_back, detail=detail))
    return replace(pair, a=names[pair.a], b=names[pair.b], verdict=verdict)


def _isolated(name: str) -> str:
    if name[:1] == _FIRST_STRONG and name[-1:] == _POP and not DIRECTING.search(name[1:-1]):
        return name  # it is already
    plain = DIRECTING.sub(" ", name)
    if any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in plain):
        return f"{_FIRST_STRONG}{plain}{_POP}"
    return plain


def _without_middle(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    head = (limit - 1) // 3
    return f"{name[:head]}…{name[len(name) - (limit - 1 - head) :]}"


def _alike(shown: dict[str, str]) -> list[list[str]]:
    """The names that are shown alike, in groups."""
    twice = [short for short, times in Counter(shown.values()).items() if times > 1]
    return [[name for name, short in shown.items() if short == each] for each in twice]


def _common_beginning(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same]
