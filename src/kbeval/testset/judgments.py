"""What a judge's votes amount to: a grade, how sure it is, and what a person should look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kbeval.testset.judge_prompts import GRADES
from kbeval.testset.labels import JUDGED_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from kbeval.model import Label, Question

LOW_CONFIDENCE = 0.75
"""Below this a label is one for a person. Two votes that differ are below it by their difference alone."""

_HALF_HEARD = 0.5


def grade_of(votes: Sequence[int | None]) -> int | None:
    """The grade of a pair: the lowest of the votes that could be read, None where none could.

    The lowest is the careful choice in both directions. A document that is not gold is credited to the engines that
    found it only where every vote says so; and gold about which one vote has doubts is disputed, which changes no
    number and asks a person. A mean would make a relevant document (2) of a 1 and a 3.
    """
    return min((vote for vote in votes if vote is not None), default=None)


def confidence_of(votes: Sequence[int | None], probabilities: Sequence[float | None]) -> float | None:
    """How sure a judge is of a pair, from 0 to 1; None where there is nothing to tell it from.

    The agreement of the votes, 1 - (highest - lowest) / 3, times the mean probability that the model gave to the
    tokens of its grades, where the server tells it for every vote. Where one of several votes could not be read,
    agreement is unknown and counts as one half. One vote alone has only its probability; a grade that could not be
    read at all has no confidence.
    """
    read = [vote for vote in votes if vote is not None]
    if not read:
        return None
    known = [p for vote, p in zip(votes, probabilities, strict=True) if vote is not None and p is not None]
    certainty = sum(known) / len(known) if len(known) == len(read) else None
    if len(votes) == 1:
        return certainty
    agreement = 1 - (max(read) - min(read)) / GRADES[-1] if len(read) == len(votes) else _HALF_HEARD
    return agreement * (1 if certainty is None else certainty)


def low_confidence(labels: Iterable[Label], below: float = LOW_CONFIDENCE) -> list[Label]:
    """A model's labels that a person should look at: the votes differ, or it was not sure.

    Pairs that a person has labelled are left out, and so are those without a grade: see ``unparsed``. The least sure
    come first.
    """
    doubtful = [
        label
        for label in _undecided(labels)
        if label.grade is not None
        and (len(set(label.votes or ())) > 1 or (label.confidence is not None and label.confidence < below))
    ]
    return sorted(doubtful, key=lambda label: (1.0 if label.confidence is None else label.confidence, label.key))


def unparsed(labels: Iterable[Label]) -> list[Label]:
    """A model's labels without a grade, as nothing that it said could be read; not those that a person decided."""
    return [label for label in _undecided(labels) if label.grade is None]


def answered_after_all(
    questions: Iterable[Question], labels: Iterable[Label], level: int = JUDGED_LEVEL
) -> list[Label]:
    """A model's labels at or above the level on questions that the corpus is said not to answer.

    They are for a person: until one decides, such a question stays out of the metrics.
    """
    unanswerable = {question.id for question in questions if not question.answerable}
    return [
        label
        for label in _undecided(labels)
        if label.query in unanswerable and label.grade is not None and label.grade >= level
    ]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two votes agree, over the pairs where both could be read.

    Attributes:
        pairs: how many those are.
        equal: the share with equal grades; None without pairs.
        kappa, quadratic: Cohen's kappa (1960), and with quadratic weights (1968); None where it is not defined, as
            every grade of both is the same.
    """

    pairs: int
    equal: float | None
    kappa: float | None
    quadratic: float | None


def agreement_of_votes(labels: Iterable[Label]) -> Agreement:
    """How far the first two votes of a model's labels agree."""
    both = [
        (label.votes[0], label.votes[1])
        for label in labels
        if label.votes is not None and len(label.votes) > 1 and None not in label.votes
    ]
    table = np.zeros((len(GRADES), len(GRADES)))
    for one, other in both:
        table[one, other] += 1
    distance = np.abs(np.subtract.outer(GRADES, GRADES)).astype(float)
    return Agreement(
        pairs=len(both),
        equal=float(np.trace(table) / len(both)) if both else None,
        kappa=_kappa(table, (distance > 0).astype(float)),
        quadratic=_kappa(table, distance**2),
    )


def _kappa(table: NDArray[np.float64], weights: NDArray[np.float64]) -> float | None:
    """1 - observed disagreement / disagreement by chance, each weighted. ``table``: shape (grades, grades)."""
    total = table.sum()
    by_chance = (np.outer(table.sum(axis=1), table.sum(axis=0)) * weights).sum() / total if total else 0.0
    return float(1 - (table * weights).sum() / by_chance) if by_chance else None


def _undecided(labels: Iterable[Label]) -> Iterator[Label]:
    everything = list(labels)
    decided = {(label.query, label.document) for label in everything if label.source == "human"}
    return (label for label in everything if label.source == "llm" and (label.query, label.document) not in decided)
