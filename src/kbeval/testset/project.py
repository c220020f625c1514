"""The project's own data set: its corpus, and the labelled questions of its cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from kbeval.corpus.chunking import chunk_document, text_hash
from kbeval.corpus.providers import provider
from kbeval.errors import KbevalError
from kbeval.formats.dataset import Dataset, load_dataset
from kbeval.formats.questions import read_questions
from kbeval.model import LabelledQuery, Qrels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kbeval.config import Project
    from kbeval.model import Document, Question


def open_dataset(project: Project, folder: Path | None, split: str = "test") -> Dataset:
    """The data set in ``folder``, or the project's own.

    The project's own is made from its corpus and its cache of questions; where there is no cache, its exported
    files are read.
    """
    if folder is not None:
        return load_dataset(folder, split)
    cache = project.path(project.settings.test_set.questions)
    if not cache.exists() and (project.root / "qrels").is_dir() and any((project.root / "qrels").iterdir()):
        return load_dataset(project.root, split)
    if project.file is None and not cache.exists():
        raise KbevalError(
            f"{project.root}: expected a kbeval project (a kbeval.toml, or {project.settings.test_set.questions}), "
            "found neither; `kbeval init --example` makes one, --dataset names a BEIR folder"
        )
    return project_dataset(project)


def project_dataset(project: Project) -> Dataset:
    """Builds the data set from the corpus provider and the cache of questions.

    Raises:
        KbevalError: the corpus is empty or holds an id twice, a question names a document that is not there, or
            a question's id is a document's.
    """
    corpus = project.settings.corpus
    documents: dict[str, Document] = {}
    for document in provider(corpus.provider, project.path(corpus.path)).get_documents():
        if document.id in documents:
            raise KbevalError(f"[corpus] {corpus.path}: expected each document id once, found {document.id!r} twice")
        documents[document.id] = document
    if not documents:
        raise KbevalError(f"[corpus] {corpus.path}: expected at least one document, found an empty corpus")
    cache = project.path(project.settings.test_set.questions)
    questions = sorted(read_questions(cache), key=lambda question: question.id)
    if not questions:
        raise KbevalError(f"{project.settings.test_set.questions}: expected at least one question, found none")
    for question in questions:
        _check(question, documents, project.settings.test_set.questions)
    moved = _moved(questions, documents, corpus.chunk_words, corpus.chunk_overlap)
    warnings: tuple[str, ...] = ()
    if moved:
        warnings = (
            f"the text of the gold chunks of {len(moved)} questions has changed since they were written: "
            f"{', '.join(moved[:5])}{', ...' if len(moved) > 5 else ''}",
        )
    return Dataset(
        folder=project.root,
        name=project.root.name,
        documents=list(documents.values()),
        queries=[_labelled(question) for question in questions],
        qrels=_qrels(questions),
        warnings=warnings,
    )


def _check(question: Question, documents: dict[str, Document], cache: str) -> None:
    if question.id in documents:
        raise KbevalError(
            f"{cache}: expected question ids that are no document's, found {question.id!r}, which is both"
        )
    missing = [document for document in question.gold_documents if document not in documents]
    if missing:
        raise KbevalError(
            f"{cache}: expected the gold documents of question {question.id} in the corpus, found no {missing[0]!r}"
        )


def _moved(questions: Sequence[Question], documents: dict[str, Document], words: int, overlap: int) -> list[str]:
    """The questions with a gold chunk whose text is no longer in its document."""
    hashes: dict[str, set[str]] = {}
    moved = []
    for question in questions:
        gold = [document for document in question.gold_documents if document in documents]
        for document in gold:
            if document not in hashes:
                chunks = chunk_document(documents[document], words=words, overlap=overlap)
                hashes[document] = {text_hash(chunk.text) for chunk in chunks}
        there = set().union(*(hashes[document] for document in gold))
        if not set(question.gold_chunks.values()) <= there:
            moved.append(question.id)
    return moved


def _labelled(question: Question) -> LabelledQuery:
    return LabelledQuery(
        id=question.id,
        text=question.text,
        relevant=question.gold_documents,
        source=question.source,
        style=question.style,
        domain=question.domain,
        provenance={**question.provenance, "gold_chunks": dict(question.gold_chunks)},
    )


def _qrels(questions: Sequence[Question]) -> Qrels:
    rows = [(q.id, document, grade) for q in questions for document, grade in q.gold_documents.items()]
    frame = pl.DataFrame(rows, schema={"query": pl.String, "document": pl.String, "grade": pl.Int64}, orient="row")
    return Qrels(frame.sort(["query", "grade", "document"], descending=[False, True, True]))
