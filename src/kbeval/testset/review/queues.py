"""What a person is asked, and in which order: METHOD 6's queues, and METHOD 7's misses."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kbeval.evaluation.misses import shuffle
from kbeval.testset.judgments import LOW_CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbeval.testset.review.material import Material, Pair

DISPUTED, AGREEMENT, MISSES, UNLABELLED, ALL = "disputed", "agreement", "misses", "unlabelled", "all"
QUEUES = (DISPUTED, AGREEMENT, MISSES, UNLABELLED, ALL)
SAMPLE = 100
"""Pairs in the random sample for agreement."""
SEEN = "seen"
"""The queue of a grade that was given after looking at what engines and models said: not blind, so in no sample."""


@dataclass(slots=True)
class Task:
    """A question, and the documents to grade for it in the order in which they are shown."""

    query: str
    documents: list[str]


@dataclass(frozen=True)
class Queue:
    """A list of tasks. Its order stays as it is for as long as a review lasts, so that places can be named."""

    name: str
    tasks: list[Task] = field(default_factory=list)

    @property
    def pairs(self) -> list[Pair]:
        """Everything that it asks."""
        return [(task.query, document) for task in self.tasks for document in task.documents]


def build_queues(material: Material, reviewer: str, *, sample: int | None = None, seed: int = 0) -> dict[str, Queue]:
    """The queues for one reviewer.

    What the reviewer has answered in a queue stays in it, so that it can be looked at again. Pairs of the random
    sample are asked there and nowhere else among the labels in doubt: who knows that a label is in doubt is not blind.
    Other people's grades settle what is in doubt, missed or unlabelled; the sample is for everybody.

    Args:
        material: what there is.
        reviewer: whose grades count as answers.
        sample: how many pairs the sample for agreement has.
        seed: of the sample and of every order.
    """
    drawn = agreement_sample(material, sample, seed)
    return {
        DISPUTED: _queue(DISPUTED, _in_doubt(material, reviewer, set(drawn)), reviewer, seed),
        AGREEMENT: _queue(AGREEMENT, drawn, reviewer, seed),
        MISSES: _queue(MISSES, _unsettled(material, reviewer, material.misses), reviewer, seed),
        UNLABELLED: _queue(UNLABELLED, _unlabelled(material, reviewer), reviewer, seed),
        ALL: _queue(ALL, _everything(material), reviewer, seed),
    }


def agreement_sample(material: Material, size: int | None, seed: int) -> list[Pair]:
    """A random sample of the pairs that a model has graded: the same for every reviewer.

    Pairs are ordered by a seeded hash and the first are taken, so that a sample stays what it was when pairs are
    added, but for those that these push out. Unless the reviewer says how many, at most half of the pairs are taken:
    what is in the sample is asked nowhere else, and of a small pool nothing in doubt would be left to ask about.
    """
    graded = [pair for pair in material.by_models if material.questions[pair[0]].answerable]
    if size is None:
        size = min(SAMPLE, -(-len(graded) // 2))
    return sorted(graded, key=lambda pair: shuffle(f"agreement {seed}", "\0".join(pair)))[: max(size, 0)]


def doubts(material: Material, pair: Pair) -> list[str]:
    """Why a pair's label is in doubt, in words; empty where it is not."""
    query, document = pair
    reasons = []
    gold = material.questions[query].gold_documents.get(document, 0) > 0
    models = [label for label in material.by_pair.get(pair, ()) if label.source == "llm"]
    grade = material.by_models.get(pair)
    if gold and grade is not None and grade < material.level:
        reasons.append("a model says that it does not answer the question that was written from it")
    if not material.questions[query].answerable and grade is not None and grade >= material.level:
        reasons.append("a model says that it answers a question that is said to have no answer")
    if any(label.grade is None for label in models):
        reasons.append("a model's answer could not be understood")
    if any(len({vote for vote in label.votes or () if vote is not None}) > 1 for label in models):
        reasons.append("a model's votes differ")
    elif any(label.confidence is not None and label.confidence < LOW_CONFIDENCE for label in models):
        reasons.append("a model is not sure")
    if not models and not gold and document in material.twins.get(query, ()):
        reasons.append("it says nearly the same as a right answer")
    sides = {label.grade >= material.level for label in material.people(pair) if label.grade is not None}
    if len(sides) > 1:
        reasons.append("people differ")
    return reasons


def _in_doubt(material: Material, reviewer: str, drawn: set[Pair]) -> list[Pair]:
    named = dict.fromkeys([*material.by_pair, *((q, d) for q, twins in material.twins.items() for d in sorted(twins))])
    there = [pair for pair in named if pair[0] in material.questions and pair[1] in material.documents]
    reasons = {pair: found for pair in there if pair not in drawn and (found := doubts(material, pair))}
    open_to_all = {pair for pair, found in reasons.items() if "people differ" in found}
    return [*open_to_all, *_unsettled(material, reviewer, [pair for pair in reasons if pair not in open_to_all])]


def _unsettled(material: Material, reviewer: str, pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs that no other person has graded, or that the reviewer has graded too; without repeats."""
    kept = []
    for pair in dict.fromkeys(pairs):
        by = {label.by for label in material.people(pair)}
        if not by or reviewer in by:
            kept.append(pair)
    return kept


def _unlabelled(material: Material, reviewer: str) -> list[Pair]:
    labelled_by_others = {
        pair[0]
        for pair, labels in material.by_pair.items()
        if any(label.source == "human" and label.by != reviewer for label in labels)
    } | {mark.query for mark in material.marks if mark.by != reviewer}
    return [
        (question.id, document)
        for question in material.questions.values()
        if question.answerable and not question.gold_documents and question.id not in labelled_by_others
        for document in material.candidates(question) or [""]
    ]


def _everything(material: Material) -> list[Pair]:
    return [
        (question.id, document)
        for question in material.questions.values()
        for document in material.candidates(question) or [""]
    ]


def _queue(name: str, pairs: Sequence[Pair], reviewer: str, seed: int) -> Queue:
    """Groups pairs by question: questions in an order of the reviewer's own, so that two do not do the same first."""
    documents: dict[str, list[str]] = defaultdict(list)
    for query, document in pairs:
        if document:
            documents[query].append(document)
        else:
            documents[query] = []
    order = sorted(documents, key=lambda query: shuffle(f"review {name} {reviewer} {seed}", query))
    return Queue(name, [Task(query, in_shown_order(query, documents[query], seed)) for query in order])


def in_shown_order(query: str, documents: Iterable[str], seed: int) -> list[str]:
    """The order in which a question's documents are shown: seeded, and no engine's."""
    return sorted(documents, key=lambda document: shuffle(f"candidates {seed} {query}", document))
