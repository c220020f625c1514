"""What a score threshold costs and saves: answerable questions lost against unanswerable ones still answered."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.engines.base import EngineSettings

MOST_POINTS = 201


@dataclass(frozen=True)
class Scored:
    """What decides about one question: the top score (None: nothing was returned), and the best of a relevant document.

    ``gold`` is None where no relevant document was returned, and for a question that the corpus does not answer.
    """

    top: float | None
    gold: float | None = None


@dataclass(frozen=True)
class Point:
    """One threshold, and what is so of documents that score it or more.

    Attributes:
        lost: share of the answerable questions that had a relevant document and have none any more.
        silent: share of the answerable questions that get nothing.
        answered: share of the unanswerable questions that still get something.
    """

    threshold: float
    lost: float
    silent: float
    answered: float


@dataclass(frozen=True)
class Curve:
    """The curve of one configuration.

    Attributes:
        points: over all questions, the lowest threshold first.
        suggested: the threshold with the least sum of both shares on the dev split, the lowest of equal ones.
        dev, held_out: what it does there; None where there is no question of either kind.
    """

    configuration: str
    remark: str
    answerable: int
    unanswerable: int
    points: Sequence[Point]
    suggested: float | None
    dev: Point | None
    held_out: Point | None


def bearing(settings: EngineSettings) -> tuple[bool, str]:
    """Whether an engine's scores can bear a threshold, and what must be said about it."""
    reranker = getattr(settings, "reranker", None)
    if reranker is None:
        return True, "The scores are what the engine gives; whether they mean the same for every question is not known."
    if reranker.startswith("llm:"):
        return False, f"{reranker} gives an order alone: its score at rank r is 1 / r, whatever the question."
    if reranker != "none":
        return True, f"The scores are those of {reranker}, which are about one question and one chunk at a time."
    legs: Sequence[str] = getattr(settings, "legs", ())
    if len(legs) > 1:
        return False, "Fused scores are made of ranks: the first is as high where nothing answers the question."
    if "vector" in legs:
        return True, "The scores are cosines."
    return (
        True,
        "Such scores are sums over a question's words, and rise with their number: a threshold on them is rough.",
    )


def point_at(threshold: float, answerable: Sequence[Scored], unanswerable: Sequence[Scored]) -> Point | None:
    """What one threshold does; None where there is no question of either kind."""
    if not answerable or not unanswerable:
        return None
    lost = sum(each.gold is not None and each.gold < threshold for each in answerable)
    silent = sum(each.top is None or each.top < threshold for each in answerable)
    answered = sum(each.top is not None and each.top >= threshold for each in unanswerable)
    return Point(threshold, lost / len(answerable), silent / len(answerable), answered / len(unanswerable))


def curve(
    configuration: str,
    remark: str,
    scored: Mapping[str, Scored],
    dev: tuple[Sequence[str], Sequence[str]],
    held_out: tuple[Sequence[str], Sequence[str]],
) -> Curve | None:
    """The curve over all thresholds that make a difference, none where nothing can be said.

    Args:
        scored: by question.
        dev, held_out: the answerable and the unanswerable questions of each side.
    """
    sides = [([scored[q] for q in side[0]], [scored[q] for q in side[1]]) for side in (dev, held_out)]
    answerable, unanswerable = [*sides[0][0], *sides[1][0]], [*sides[0][1], *sides[1][1]]
    points = _points(answerable, unanswerable)
    if not points:
        return None
    on_dev = [found for point in points if (found := point_at(point.threshold, *sides[0])) is not None]
    best = min(on_dev, key=lambda point: (point.lost + point.answered, point.threshold)) if on_dev else None
    return Curve(
        configuration,
        remark,
        len(answerable),
        len(unanswerable),
        points,
        best.threshold if best else None,
        best,
        point_at(best.threshold, *sides[1]) if best else None,
    )


def _points(answerable: Sequence[Scored], unanswerable: Sequence[Scored]) -> list[Point]:
    tops = [each.top for each in (*answerable, *unanswerable) if each.top is not None]
    golds = sorted(each.gold for each in answerable if each.gold is not None)
    values = sorted({*tops, *golds})
    if not answerable or not unanswerable or not values:
        return []
    if len(values) > MOST_POINTS:
        last = len(values) - 1
        values = [values[round(place * last / (MOST_POINTS - 1))] for place in range(MOST_POINTS)]
    of_answerable = sorted(each.top for each in answerable if each.top is not None)
    of_others = sorted(each.top for each in unanswerable if each.top is not None)
    nothing = len(answerable) - len(of_answerable)
    return [
        Point(
            value,
            bisect_left(golds, value) / len(answerable),
            (nothing + bisect_left(of_answerable, value)) / len(answerable),
            (len(of_others) - bisect_left(of_others, value)) / len(unanswerable),
        )
        for value in values
    ]
