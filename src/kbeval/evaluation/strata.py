"""The strata of a test set, and which of them decide (METHOD 3 and 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

GENERATED_STYLES = ("near", "mid", "far")
"""The styles of questions that are written from a document's text, from its own words to none of them."""
REAL_QUESTIONS = ("historical", "message")
"""Strata of questions that nobody wrote from a document's text, the most trusted first."""
SOURCES = ("authored", "synthetic", "historical", "judged")
UNLABELLED = "unlabelled"
"""The stratum of questions with neither style nor source."""
ALL = "all questions"
"""The one deciding stratum of a test set without styles that has several sources."""

_PLACES = {name: place for place, name in enumerate((*GENERATED_STYLES, "message", "historical"))}


def stratum(style: str | None, source: str | None) -> str:
    """A question's stratum: its style, or its source where it has no style."""
    return style or source or UNLABELLED


def in_order(strata: Iterable[str]) -> tuple[str, ...]:
    """Each stratum once: near, mid, far, message, historical, then others by name."""
    return tuple(sorted(set(strata), key=lambda name: (_PLACES.get(name, len(_PLACES)), name)))


def deciding_strata(strata: Iterable[str]) -> tuple[str, ...]:
    """The strata that a test set's verdicts are taken over.

    The generated styles, where there are any: all others stand beside (METHOD 3). One stratum (``ALL`` where there are
    several sources) for a test set without styles. Otherwise every stratum, taken as a style.
    """
    present = in_order(strata)
    generated = tuple(name for name in present if name in GENERATED_STYLES)
    if generated:
        return generated
    if len(present) > 1 and all(name in (*SOURCES, UNLABELLED) for name in present):
        return (ALL,)
    return present
