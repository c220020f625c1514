"""Reads a metric's name as kbeval, ir_measures, trec_eval or ranx spell it, in any case."""

from __future__ import annotations

import difflib
import re

from kbeval.errors import KbevalError
from kbeval.evaluation.metrics.base import Cutoff, Family, Metric
from kbeval.evaluation.metrics.registry import families, spellings

# precision(rel=2)@5, rbp(p=0.8), rbp.p=0.8, P_5, ndcg_cut.10, map@10-l2
_SPELLING = re.compile(
    r"""
    (?P<base>[a-z][a-z0-9_-]*?)
    (?:\((?P<parameters>[^()]*)\))?
    (?:@(?P<cut>.*?)|[._](?P<argument>(?:p=)?[+-]?[0-9]*\.?[0-9]*))?
    (?:-l(?P<level>.*))?
    """,
    re.VERBOSE,
)
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


def parse_metrics(text: str) -> tuple[Metric, ...]:
    """Reads a comma-separated list; a metric that is named twice, in whatever spelling, is kept once.

    Raises:
        KbevalError: one of them is not known, or none is named.
    """
    named = [part for part in _COMMA_OUTSIDE_PARENTHESES.split(text) if part.strip()]
    if not named:
        raise KbevalError(f"expected metrics separated by commas, found {text!r}; known: {_known()}")
    return tuple(dict.fromkeys(parse_metric(part) for part in named))


def parse_metric(text: str) -> Metric:
    """Reads one metric's name.

    Raises:
        KbevalError: it is not known, or lacks a cut-off or persistence that it needs, or has a cut-off, level
        or
            parameter that it does not take.
    """
    if not isinstance(text, str):
        raise KbevalError(f"expected the name of a metric, found {type(text).__name__}")
    name = text.strip()
    match = _SPELLING.fullmatch(name.lower())
    if match is None or match["base"] not in spellings():
        raise KbevalError(f"unknown metric {name!r}{_nearest(name.lower())}; known: {_known()}")
    try:
        return _build(match)
    except ValueError as error:
        raise KbevalError(f"metric {name!r}: {error}") from None


def _build(match: re.Match[str]) -> Metric:
    family, takes = spellings()[match["base"]]
    parameters = _parameters(family, match["parameters"])
    levels = [text for text in (parameters.get("rel"), match["level"]) if text is not None]
    persistences = [text for text in (parameters.get("p"),) if text is not None]
    cuts = [text for text in (match["cut"],) if text is not None]
    if (argument := match["argument"]) is not None and family.takes_persistence:
        # ranx's rbp.95 is .95; trec_eval writes rbp.p=0.95
        persistences.append(f".{argument}" if argument.isdigit() else argument.removeprefix("p="))
    elif argument is not None:
        cuts.append(argument)
    if max(len(levels), len(persistences)) > 1:
        raise ValueError("the same parameter is stated twice")
    if cuts and takes is Cutoff.NONE:
        raise ValueError(f"{match['base']} takes no cut-off")
    if not cuts and takes is Cutoff.REQUIRED:
        raise ValueError(f"{match['base']} needs a cut-off, as in {family.name}@10")
    if levels and not family.takes_level:
        raise ValueError(f"a relevance level never changes {family.name}")
    if not persistences and family.takes_persistence:
        raise ValueError(f"state the persistence, as in {family.name}.8 or {family.name}(p=0.8)")
    return Metric(
        family,
        k=_whole("the cut-off", cuts[0]) if cuts else None,
        level=_whole("the relevance level", levels[0]) if levels else None,
        persistence=_fraction(persistences[0]) if persistences else None,
    )


def _parameters(family: Family, text: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for parameter in [] if text is None else text.split(","):
        key, _, value = (part.strip() for part in parameter.partition("="))
        if key not in ({"rel", "p"} if family.takes_persistence else {"rel"}) or key in found:
            takes = "rel=N and p=P, each once" if family.takes_persistence else "rel=N"
            raise ValueError(f"expected {takes} in the parentheses, found {parameter.strip()!r}")
        found[key] = value
    return found


def _whole(what: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise ValueError(f"{what} must be a whole number from 1 to 999999999, found {text!r}")
    return int(text)


def _fraction(text: str) -> float:
    if not re.fullmatch(r"[0-9]*\.[0-9]+", text) or not 0 < float(text) < 1:
        raise ValueError(
            f"the persistence must be between 0 and 1, and not so close that it is read as either, found {text!r}"
        )
    return float(text)


def _nearest(name: str) -> str:
    base = re.split(r"[@(.]|_[0-9]", name)[0]
    near = difflib.get_close_matches(base, list(spellings()), n=1)
    return f" (nearest: {spellings()[near[0]][0].name})" if near else ""


def _known() -> str:
    forms = {Cutoff.REQUIRED: "{0}@k", Cutoff.OPTIONAL: "{0}, {0}@k", Cutoff.NONE: "{0}"}
    return ", ".join(
        f"{family.name}.P" if family.takes_persistence else forms[family.cutoff].format(family.name)
        for family in families()
    )
