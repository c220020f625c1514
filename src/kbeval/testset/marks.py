"""What people's marks on whole questions do to the test set."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbeval.testset.labels import JUDGED_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbeval.model import Label, Mark, Question


@dataclass(frozen=True)
class Marked:
    """The questions once people's marks are heeded.

    Attributes:
        questions: those that stay; ``answerable`` is false where a person says that no document answers it.
        bad: ids of questions that a person says cannot be judged; they are not among ``questions``.
        contested: ids of questions whose mark changes nothing, as another person found a document that answers.
    """

    questions: Sequence[Question]
    bad: Sequence[str] = ()
    contested: Sequence[str] = ()


def heed_marks(
    questions: Iterable[Question], marks: Iterable[Mark], labels: Iterable[Label], *, level: int = JUDGED_LEVEL
) -> Marked:
    """Applies marks: a person is believed over generated gold and models, but not over another person's find."""
    finders: dict[str, set[str]] = defaultdict(set)
    for label in labels:
        if label.source == "human" and label.grade is not None and label.grade >= level:
            finders[label.query].add(label.by)
    said: dict[str, set[str]] = defaultdict(set)
    contested: set[str] = set()
    for mark in marks:
        if finders[mark.query] - {mark.by}:
            contested.add(mark.query)
        else:
            said[mark.query].add(mark.mark)
    kept, bad = [], []
    for question in questions:
        if "bad" in said[question.id]:
            bad.append(question.id)
        elif "unanswerable" in said[question.id]:
            kept.append(replace(question, answerable=False, gold_documents={}, gold_chunks={}))
        else:
            kept.append(question)
    known = {question.id for question in kept}
    return Marked(kept, bad, sorted(contested & known))
