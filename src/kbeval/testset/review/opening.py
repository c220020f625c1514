"""Gathers what a review of a project is about."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from kbeval.corpus.chunking import cutter
from kbeval.errors import KbevalError
from kbeval.evaluation.comparison import RunSource, read_source
from kbeval.evaluation.misses import sampled_misses
from kbeval.evaluation.test_set import from_dataset
from kbeval.formats.label_journal import LabelJournal
from kbeval.formats.questions import read_questions
from kbeval.formats.sidecar import read_sidecar, sidecar_path
from kbeval.formats.trec import run_name, run_names
from kbeval.testset.labels import JUDGED_LEVEL
from kbeval.testset.project import level_of, project_chunks, project_dataset, project_documents
from kbeval.testset.review.material import Finding, Material
from kbeval.testset.review.passages import Passages
from kbeval.testset.review.queues import build_queues
from kbeval.testset.review.session import Session
from kbeval.testset.twins import twin_candidates

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from kbeval.config import Project
    from kbeval.evaluation.test_set import TestSet
    from kbeval.model import Document, Question, Run

POOL_DEPTH = 10
"""How far down a run's documents become candidates, as the judge pools them."""


@dataclass(frozen=True)
class Opened:
    """A review that can begin."""

    session: Session
    passages: Passages
    warnings: Sequence[str]


def open_review(
    project: Project,
    sources: Sequence[RunSource],
    *,
    reviewer: str,
    sample: int,
    seed: int,
) -> Opened:
    """Reads the project and the runs, folds in what a review before left in its journal, and builds the queues.

    Args:
        project: whose questions, documents and labels.
        sources: runs whose first documents are candidates, and whose misses are marked.
        reviewer: who answers.
        sample, seed: of the random sample for agreement.

    Raises:
        KbevalError: a file cannot be read, or there is no question or document.
    """
    corpus = project.settings.corpus
    documents = project_documents(project)
    questions = {each.id: each for each in read_questions(project.path(project.settings.test_set.questions))}
    if not questions:
        raise KbevalError(f"{project.settings.test_set.questions}: expected at least one question, found none")
    journal = LabelJournal(project.path(project.settings.test_set.labels))
    state = journal.fold()
    warnings: list[str] = []
    test_set = _test_set(project, questions.values(), bool(state.labels), warnings) if sources else None
    found: dict[str, dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    misses: list[tuple[str, str]] = []
    for source in sources:
        run = read_source(source)
        for query, document, rank in _first(run, POOL_DEPTH).iter_rows():
            found[query][document].append(Finding(source.name, rank))
        if test_set is not None:
            misses += _misses(test_set, run)
    unknown = {document for by_document in found.values() for document in by_document} - set(documents)
    if unknown:
        warnings.append(f"{len(unknown)} documents of the runs are not in the corpus and cannot be shown")
    material = Material(
        questions=questions,
        documents=documents,
        labels=list(state.labels.values()),
        marks=list(state.marks.values()),
        found={query: dict(by_document) for query, by_document in found.items()},
        misses=[pair for pair in misses if pair[1] in documents],
        twins=_twins(project, questions.values(), documents),
        # The first grade of a person makes the test set a graded one.
        level=project.settings.test_set.level or JUDGED_LEVEL,
    )
    passages = Passages(documents, cut=cutter(corpus))
    material = _with_candidates(material, passages)
    queues = build_queues(material, reviewer, sample=sample, seed=seed)
    return Opened(Session(material, queues, state, journal, reviewer), passages, warnings)


def run_sources(paths: Sequence[Path]) -> tuple[list[RunSource], list[str]]:
    """The runs with their sidecars, and a warning where they are not about one corpus and one set of questions.

    Labels are about pairs of a question and a document, whatever the run says that returned them.
    """
    sources = [
        RunSource(name, path, read_sidecar(sidecar_path(path, run_name(path))))
        for name, path in zip(run_names(paths), paths, strict=True)
    ]
    hashes = {source.sidecar.corpus_hash for source in sources if source.sidecar}
    return sources, ["the runs were made on different corpora"] if len(hashes) > 1 else []


def _test_set(project: Project, questions: Collection[Question], labelled: bool, warnings: list[str]) -> TestSet | None:
    """What ``compare`` measures the runs on, so that the misses are those of its report; none where nothing is gold."""
    if not labelled and not any(question.gold_documents for question in questions):
        return None
    dataset = project_dataset(project)
    warnings += dataset.warnings
    return from_dataset(dataset, level=level_of(project, dataset))


def _twins(project: Project, questions: Iterable[Question], documents: Mapping[str, Document]) -> dict[str, list[str]]:
    """For each question, the documents that hold nearly what its gold holds."""
    found: dict[str, list[str]] = defaultdict(list)
    for candidate in twin_candidates(questions, project_chunks(project, documents.values())):
        found[candidate.query].append(candidate.document)
    return dict(found)


def _first(run: Run, depth: int) -> pl.DataFrame:
    """The first documents of each query: columns query, document, rank from 1."""
    rank = (pl.int_range(pl.len()).over("query") + 1).alias("rank")
    return run.frame.with_columns(rank).filter(pl.col("rank") <= depth).select("query", "document", "rank")


def _misses(test_set: TestSet, run: Run) -> list[tuple[str, str]]:
    firsts = dict(_first(run, 1).select("query", "document").iter_rows())
    first = [firsts.get(query) for query in test_set.queries]
    return [(test_set.queries[at], first[at] or "") for at in sampled_misses(test_set, first)]


def _with_candidates(material: Material, passages: Passages) -> Material:
    """Gives questions for which nothing was named the documents that share their words, so that there is a start."""
    bare = [each for each in material.questions.values() if each.answerable and not material.candidates(each)]
    if not bare:
        return material
    return replace(material, near={each.id: passages.search(each.text, POOL_DEPTH) for each in bare})


def summary(session: Session) -> list[str]:
    """What was answered since it began, and what is left, in lines to print."""
    lines = [f"{session.answers} answers by {session.reviewer}"]
    for name in session.queues:
        progress = session.progress(name)
        if progress.total:
            lines.append(f"{name}: {progress.done} of {progress.total} done")
    return lines
