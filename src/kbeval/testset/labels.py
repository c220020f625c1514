"""Which grade holds for a document (METHOD 6): a person's before a model's before what the question was made with."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kbeval.model import Label, Question

    Pair = tuple[str, str]

GENERATED_GRADE = 3
"""What generated gold counts as where judged grades, 0 to 3, are in the test set."""
JUDGED_LEVEL = 2
"""From which grade on a document is relevant there."""


@dataclass(frozen=True)
class Judged:
    """The test set's judgments, once every label is weighed.

    Attributes:
        grades: of each judged pair of query and document; 0 is judged irrelevant.
        level: from which of them on a document is relevant.
        added: for each query the documents that are relevant by a label alone.
        disputed: gold to which a model gave less than the level and about which no person has decided; the gold
            stands until then.
        by_runs: for pairs that pooled runs found, the names of these runs.
        people: the grade of each pair that a person has judged.
    """

    grades: Mapping[Pair, int]
    level: int = 1
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    disputed: tuple[Pair, ...] = ()
    by_runs: Mapping[Pair, tuple[str, ...]] = field(default_factory=dict)
    people: Mapping[Pair, int] = field(default_factory=dict)

    @cached_property
    def relevant(self) -> dict[str, dict[str, int]]:
        """For each query its documents with a grade above 0."""
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for (query, document), grade in self.grades.items():
            if grade > 0:
                found[query][document] = grade
        return found


def judged(questions: Iterable[Question], labels: Iterable[Label], *, level: int | None = None) -> Judged:
    """Weighs the labels of the given questions; those of other queries are not looked at.

    Without a grade in any label the gold stands as it is: a binary test set. With one, gold counts as 3 and the
    level is 2 unless ``level`` says otherwise; gold that has grades of its own keeps them. Several people (or models)
    on one pair count as their lower median; a document counts as the best of its judged chunks.

    A question without gold has no judgment until a document reaches the level: a few that do not answer it are no sign
    that nothing does, and would make every engine miss.
    """
    answerable = {question.id: question for question in questions if question.answerable}
    gold = {(q.id, document): grade for q in answerable.values() for document, grade in q.gold_documents.items()}
    known = [label for label in labels if label.query in answerable and label.grade is not None]
    if not known:
        return Judged(grades=gold, level=level or 1)
    at = level or JUDGED_LEVEL
    people, models = grades_of(known, "human"), grades_of(known, "llm")
    binary = all(grade <= 1 for grade in gold.values())
    grades = {pair: GENERATED_GRADE if binary and grade > 0 else grade for pair, grade in gold.items()}
    disputed = []
    for pair, grade in models.items():
        if gold.get(pair, 0) > 0 and grade < at:
            if pair not in people:
                disputed.append(pair)
        else:
            grades[pair] = grade
    grades |= people
    answered = {query for query, _ in gold} | {query for (query, _), grade in grades.items() if grade >= at}
    grades = {pair: grade for pair, grade in grades.items() if pair[0] in answered}
    added: dict[str, list[str]] = defaultdict(list)
    for (query, document), grade in sorted(grades.items()):
        if grade >= at and gold.get((query, document), 0) <= 0 and answerable[query].gold_documents:
            added[query].append(document)
    by_runs: dict[Pair, set[str]] = defaultdict(set)
    for label in known:
        by_runs[label.query, label.document].update(label.runs)
    return Judged(
        grades=grades,
        level=at,
        added={query: tuple(documents) for query, documents in added.items()},
        disputed=tuple(sorted(disputed)),
        by_runs={pair: tuple(sorted(runs)) for pair, runs in by_runs.items() if runs},
        people=people,
    )


def grades_of(labels: Iterable[Label], source: str) -> dict[Pair, int]:
    """The grade of each pair by people (``human``) or models (``llm``): the lower median of whoever judged it."""
    best: dict[tuple[Pair, str], int] = {}
    for label in labels:
        if label.source == source and label.grade is not None:
            key = ((label.query, label.document), label.by)
            best[key] = max(label.grade, best.get(key, 0))
    given: dict[Pair, list[int]] = defaultdict(list)
    for (pair, _), grade in best.items():
        given[pair].append(grade)
    return {pair: lower_median(grades) for pair, grades in given.items()}


def lower_median(grades: Sequence[int]) -> int:
    """The middle grade, and of two middle ones the lower."""
    return sorted(grades)[(len(grades) - 1) // 2]
