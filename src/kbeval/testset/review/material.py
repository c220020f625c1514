"""What a review is about, gathered once when it starts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kbeval.testset.labels import JUDGED_LEVEL, grades_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kbeval.model import Document, Label, Mark, Question

Pair = tuple[str, str]
"""A question's id and a document's."""


@dataclass(frozen=True, slots=True)
class Finding:
    """That a run returned a document, and at which rank from 1."""

    run: str
    rank: int


@dataclass(frozen=True)
class Material:
    """Questions, documents, and what is known about pairs of them.

    Attributes:
        questions: by id.
        documents: the corpus by id.
        labels: every judgment there is.
        marks: what people said about whole questions.
        found: for each question the documents that the given runs returned near their top, and where.
        misses: first answers that count as wrong and are to be marked: question, document.
        twins: for each question, near-duplicates of its gold.
        near: documents that share a question's words, for questions for which nothing else is named.
        level: from which grade on a document is relevant.
    """

    questions: Mapping[str, Question]
    documents: Mapping[str, Document]
    labels: Sequence[Label] = ()
    marks: Sequence[Mark] = ()
    found: Mapping[str, Mapping[str, Sequence[Finding]]] = field(default_factory=dict)
    misses: Sequence[Pair] = ()
    twins: Mapping[str, Collection[str]] = field(default_factory=dict)
    near: Mapping[str, Sequence[str]] = field(default_factory=dict)
    level: int = JUDGED_LEVEL

    @cached_property
    def by_pair(self) -> dict[Pair, list[Label]]:
        """The labels of each pair whose question and document are there."""
        found: dict[Pair, list[Label]] = defaultdict(list)
        for label in self.labels:
            if label.query in self.questions and label.document in self.documents:
                found[label.query, label.document].append(label)
        return dict(found)

    @cached_property
    def by_models(self) -> dict[Pair, int]:
        """The models' grade of each pair: METHOD's lower median, the best chunk of a document."""
        return grades_of((label for labels in self.by_pair.values() for label in labels), "llm")

    def people(self, pair: Pair) -> list[Label]:
        """What people said about a pair."""
        return [label for label in self.by_pair.get(pair, ()) if label.source == "human"]

    def candidates(self, question: Question) -> list[str]:
        """Every document that somebody or something named for a question, in no order that means anything."""
        named = [
            *question.gold_documents,
            *self._labelled.get(question.id, ()),
            *self.found.get(question.id, ()),
            *self.twins.get(question.id, ()),
            *self.near.get(question.id, ()),
        ]
        return [document for document in dict.fromkeys(named) if document in self.documents]

    @cached_property
    def _labelled(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for query, document in self.by_pair:
            found[query].append(document)
        return found
