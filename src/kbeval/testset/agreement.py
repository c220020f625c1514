"""Who graded the random sample, and how far they agree (METHOD 6)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.evaluation.agreement import Agreement, agreement
from kbeval.evaluation.label_sets import FEWER_THAN, pairs_under_both
from kbeval.evaluation.test_set import from_dataset
from kbeval.formats.label_journal import LabelJournal
from kbeval.formats.labels import read_labels
from kbeval.formats.questions import read_questions
from kbeval.testset.labels import JUDGED_LEVEL, grades_of, judged
from kbeval.testset.project import project_dataset
from kbeval.testset.review.opening import run_sources
from kbeval.testset.review.queues import AGREEMENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kbeval.config import Project
    from kbeval.evaluation.label_sets import PairUnderBoth
    from kbeval.evaluation.metrics import Metric
    from kbeval.model import Label
    from kbeval.testset.labels import Judged
    from kbeval.testset.review.material import Pair

PEOPLE, MODELS = "people", "models"


@dataclass(frozen=True, slots=True)
class Raters:
    """Two raters and their agreement.

    Attributes:
        first, second: a name, or ``people`` and ``models``: the lower median of all of them.
        kind: ``people and models``, ``person and model`` or ``two people``.
    """

    first: str
    second: str
    kind: str
    agreement: Agreement


def sampled(labels: Iterable[Label]) -> list[Label]:
    """The labels that agreement is taken on: people's blind grades of the random sample, and the models' of those.

    What makes a grade one of the sample is written in the label itself (``queue``), so that it survives a git merge,
    and a sample that would be drawn otherwise today. A grade that was given in another queue, or after looking at
    the model's, is not among them.
    """
    listed = list(labels)
    people = [label for label in listed if label.source == "human" and label.queue == AGREEMENT]
    pairs = {(label.query, label.document) for label in people}
    models = [label for label in listed if label.source == "llm" and (label.query, label.document) in pairs]
    return [*people, *models]


def measure(labels: Iterable[Label], *, level: int) -> list[Raters]:
    """Everybody's agreement with everybody: people and models as wholes, each person with each model, two people.

    Raises:
        KbevalError: no person has graded a pair of the sample, or no two raters have graded the same one.
    """
    known = sampled(labels)
    people, models = _by_name(known, "human"), _by_name(known, "llm")
    if not people:
        raise KbevalError(
            "agreement: expected grades of people on the random sample, found none in the labels; "
            "`kbeval review --queue agreement` asks for them"
        )
    found = []
    everybody, every_model = grades_of(known, "human"), grades_of(known, "llm")
    found += _pair(PEOPLE, everybody, MODELS, every_model, "people and models", level)
    if len(people) > 1 or len(models) > 1:
        for person, grades in people.items():
            for model, others in models.items():
                found += _pair(person, grades, model, others, "person and model", level)
    for (first, grades), (second, others) in combinations(people.items(), 2):
        found += _pair(first, grades, second, others, "two people", level)
    if not found:
        raise KbevalError("agreement: expected a pair that two have graded, found none in the random sample")
    return found


def _by_name(labels: Sequence[Label], source: str) -> dict[str, Mapping[Pair, int]]:
    names = sorted({label.by for label in labels if label.source == source and label.grade is not None})
    return {name: grades_of((each for each in labels if each.by == name), source) for name in names}


def _pair(
    first: str, grades: Mapping[Pair, int], second: str, others: Mapping[Pair, int], kind: str, level: int
) -> list[Raters]:
    both = sorted(grades.keys() & others.keys())
    if not both:
        return []
    measured = agreement(
        [grades[pair] for pair in both], [others[pair] for pair in both], [pair[0] for pair in both], level=level
    )
    return [Raters(first, second, kind, measured)]


@dataclass(frozen=True)
class Measured:
    """What ``kbeval agreement`` shows."""

    raters: Sequence[Raters]
    pairs: Sequence[PairUnderBoth]
    metric: Metric
    warnings: Sequence[str]


def measure_project(
    project: Project, runs: Sequence[Path], *, primary: str | None, level: int | None, force: bool
) -> Measured:
    """Agreement in a project's labels, and its runs under both label sets.

    Raises:
        KbevalError: as ``measure``; a run cannot be read or names another corpus, unless ``force``.
    """
    from kbeval.evaluation.default_metrics import choose_metrics
    from kbeval.evaluation.provenance import check_provenance

    labels_file = project.path(project.settings.test_set.labels)
    labels = read_labels(labels_file)
    warnings = []
    if waiting := LabelJournal(labels_file).waiting():
        warnings.append(
            f"{waiting} answers are still in the journal of a review that did not end; `kbeval review` folds them in"
        )
    at = level or project.settings.test_set.level or JUDGED_LEVEL
    raters = measure(labels, level=at)
    _, metric = choose_metrics(None, project.settings.compare.metrics, primary or project.settings.compare.primary)
    if not 2 <= len(runs) < FEWER_THAN:
        return Measured(raters, [], metric, warnings)
    sources, _ = run_sources(runs)
    dataset = project_dataset(project)  # its warnings are those of compare; the one that matters here is given above
    test_set = from_dataset(dataset, level=at)
    warnings += check_provenance(sources, test_set, force=force)
    questions = read_questions(project.path(project.settings.test_set.questions))
    of_sample = sampled(labels)
    asked = {label.query for label in of_sample}
    models_alone = [label for label in labels if label.source == "llm"]
    people = judged(questions, [*models_alone, *(label for label in of_sample if label.source == "human")], level=at)
    models = judged(questions, models_alone, level=at)
    both = [_grades(of, asked, set(test_set.documents)) for of in (people, models)]
    return Measured(raters, pairs_under_both(test_set, both[0], both[1], sources, metric), metric, warnings)


def _grades(of: Judged, queries: set[str], documents: set[str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (query, document), grade in of.grades.items():
        if query in queries and document in documents:
            found.setdefault(query, {})[document] = grade
    return found
