"""Several pairs at once: Holm's correction, and what a test set can detect at all."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Detectable:
    """The minimum detectable differences of a test set's pairs; ``pairs`` counts those that have one."""

    median: float
    lowest: float
    highest: float
    pairs: int


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjusted p-values, in the order given (Holm 1979): below alpha where Holm rejects at alpha.

    The family is whatever is passed: one p a pair on the primary metric or, with a baseline, one a run other
    than it. An undefined p stays undefined and still counts in the family's size: the test was meant to be
    made.

    Raises:
        ValueError: for a p outside [0, 1].
    """
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for step, (p, position) in enumerate(_ascending(p_values)):
        highest = max(highest, min(1.0, (len(p_values) - step) * p))
        adjusted[position] = highest
    return tuple(adjusted)


def holm_levels(p_values: Sequence[float | None], alpha: float) -> tuple[float, ...]:
    """The level that Holm's procedure tests each pair at: a p is below its level where Holm rejects.

    The k-th smallest of m is tested at alpha / (m - k + 1) as long as all before it were rejected; all that
    follow stand against the level at which the first one failed. So that a pair's other tests (the sign-flip,
    the styles) can be held against the same level as its t test.

    Raises:
        ValueError: for a p outside [0, 1].
    """
    family = len(p_values)
    ordered = _ascending(p_values)
    rejected = 0
    while rejected < len(ordered) and ordered[rejected][0] < alpha / (family - rejected):
        rejected += 1
    levels = [alpha / max(family - rejected, 1)] * family
    for step, (_, position) in enumerate(ordered[:rejected]):
        levels[position] = alpha / (family - step)
    return tuple(levels)


def detectable(differences: Iterable[float | None]) -> Detectable | None:
    """Median and range of the pairs' minimum detectable differences; None where no pair has one."""
    known = sorted(value for value in differences if value is not None)
    if not known:
        return None
    return Detectable(median=median(known), lowest=known[0], highest=known[-1], pairs=len(known))


def _ascending(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """The defined p-values with their positions, smallest first."""
    defined = [(p, position) for position, p in enumerate(p_values) if p is not None]
    impossible = [p for p, _ in defined if not 0 <= p <= 1]
    if impossible:
        raise ValueError(f"expected p-values from 0 to 1, found {impossible}")
    return sorted(defined)
