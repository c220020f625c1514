"""The project's own data set: its corpus, and the labelled questions of its cache."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from kbeval.corpus.chunking import cutter, find_slices, text_hash
from kbeval.corpus.providers import corpus_documents
from kbeval.errors import KbevalError
from kbeval.formats.dataset import Dataset, load_dataset
from kbeval.formats.label_journal import LabelJournal
from kbeval.formats.labels import read_labels
from kbeval.formats.marks import marks_path, read_marks
from kbeval.formats.pool import pool_path, read_pools
from kbeval.formats.questions import read_questions
from kbeval.model import LabelledQuery, Qrels
from kbeval.testset.labels import JUDGED_LEVEL, judged
from kbeval.testset.marks import heed_marks
from kbeval.testset.overlap import best_overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kbeval.config import CorpusSettings, Project
    from kbeval.model import Chunk, Document, Label, Question
    from kbeval.testset.labels import Judged
    from kbeval.testset.marks import Marked


def open_dataset(project: Project, folder: Path | None, split: str = "test") -> Dataset:
    """The data set in ``folder``, or the project's own.

    The project's own is made from its corpus and its cache of questions; where there is no cache, its exported
    files are read.
    """
    if folder is not None:
        return with_overlaps(load_dataset(folder, split))
    cache = project.path(project.settings.test_set.questions)
    if not cache.exists() and (project.root / "qrels").is_dir() and any((project.root / "qrels").iterdir()):
        return with_overlaps(load_dataset(project.root, split))
    if project.file is None and not cache.exists():
        raise KbevalError(
            f"{project.root}: expected a kbeval project (a kbeval.toml, or {project.settings.test_set.questions}), "
            "found neither; `kbeval init --example` makes one, --dataset names a BEIR folder"
        )
    return project_dataset(project)


def level_of(project: Project, dataset: Dataset, asked: int | None = None) -> int:
    """From which grade on a document is relevant: what the user asks for, else the settings, else the data set."""
    return asked or project.settings.test_set.level or dataset.level


def project_documents(project: Project) -> dict[str, Document]:
    """The corpus that the settings name, by id, in the provider's order.

    Raises:
        KbevalError: it is empty or holds an id twice.
    """
    return {document.id: document for document in corpus_documents(project.settings.corpus, project.root)}


def project_chunks(project: Project, documents: Iterable[Document]) -> list[Chunk]:
    """The chunks that questions are written from, cut as the settings say."""
    cut = cutter(project.settings.corpus)
    return [chunk for document in documents for chunk in cut(document)]


def project_dataset(project: Project, on_document: Callable[[Document], None] | None = None) -> Dataset:
    """Builds the data set from the corpus provider, the cache of questions, and the labels beside it.

    Args:
        project: whose corpus, questions and labels.
        on_document: is handed each document as it is read. The data set then holds none of them, so that a corpus of
            any size fits into memory.

    Raises:
        KbevalError: the corpus is empty or holds an id twice, a question names a document that is not there, or
            a question's id is a document's.
    """
    settings = project.settings
    corpus = corpus_documents(settings.corpus, project.root)
    first = next(corpus)  # an empty corpus is said before missing questions are
    asked = sorted(read_questions(project.path(settings.test_set.questions)), key=lambda question: question.id)
    if not asked:
        raise KbevalError(f"{settings.test_set.questions}: expected at least one question, found none")
    labels_file = project.path(settings.test_set.labels)
    labels = read_labels(labels_file)
    known = {question.id for question in asked}
    gold_ids = {document for question in asked for document in question.gold_documents}
    named = gold_ids | known | {label.document for label in labels}
    documents: list[Document] = []
    present: set[str] = set()
    gold: dict[str, Document] = {}
    for document in chain([first], corpus):
        (on_document or documents.append)(document)
        if document.id in named:
            present.add(document.id)
        if document.id in gold_ids:
            gold[document.id] = document
    there = [label for label in labels if label.document in present]
    level = settings.test_set.level or JUDGED_LEVEL
    marked = heed_marks(asked, read_marks(marks_path(labels_file)), there, level=level)
    questions = list(marked.questions)
    weighed = judged(questions, there, level=settings.test_set.level)
    for question in questions:
        _check(question, present, settings.test_set.questions)
    warnings = [*_odd_labels(labels, there, known), *_marks_heeded(marked)]
    if waiting := LabelJournal(labels_file).waiting():
        warnings.append(
            f"{waiting} lines of a review that was not ended wait in the journal beside {labels_file.name} and are not "
            "used: `kbeval review` takes them in"
        )
    chunks = _GoldChunks(questions, gold, settings.corpus)
    moved = [question.id for question in questions if not chunks.holds(question)]
    if moved:
        warnings.append(
            f"the text of the gold chunks of {len(moved)} questions has changed since they were written: {_some(moved)}"
        )
    judged_queries = {query for query, _ in weighed.grades}
    unlabelled = [q.id for q in questions if q.answerable and q.id not in judged_queries]
    if unlabelled:
        warnings.append(
            f"{len(unlabelled)} questions are in no metric, as nobody has said yet what answers them: "
            f"{_some(unlabelled)}"
        )
    bad = [replace(each, gold_documents={}, gold_chunks={}) for each in asked if each.id in set(marked.bad)]
    open_ones = [question for question in questions if question.id in set(unlabelled)]
    return Dataset(
        folder=project.root,
        name=project.root.name,
        documents=documents,
        queries=[_labelled(question, weighed, chunks) for question in questions if question.id in judged_queries],
        qrels=_qrels(weighed),
        warnings=tuple(warnings),
        unanswerable=[_labelled(question, weighed, chunks) for question in questions if not question.answerable],
        left_out=[
            _labelled(each, weighed, chunks, left_out=True)
            for each in sorted([*bad, *open_ones], key=lambda each: each.id)
        ],
        level=weighed.level,
        judged_by_runs=weighed.by_runs,
        disputed=weighed.disputed,
        people=weighed.people,
        pools=read_pools(pool_path(project.path(project.settings.test_set.labels))),
        judges=sorted({label.by for label in labels if label.source == "llm"}),
    )


def require_judgments(dataset: Dataset) -> None:
    """Refuses a data set that nothing can be measured on. Engines can be asked its questions all the same.

    Raises:
        KbevalError: no question has a gold document or a label.
    """
    if dataset.qrels.frame.is_empty():
        raise KbevalError(
            f"{dataset.name}: expected at least one question with a gold document or a label, found none in "
            f"{len(dataset.asked)}; `kbeval run`, then `kbeval judge` or `kbeval review`, label them"
        )


def _some(ids: Sequence[str]) -> str:
    return f"{', '.join(ids[:5])}{', ...' if len(ids) > 5 else ''}"


def _odd_labels(labels: Sequence[Label], there: Sequence[Label], questions: set[str]) -> Iterator[str]:
    if gone := sorted({label.document for label in labels} - {label.document for label in there}):
        yield f"labels of {len(gone)} documents that are not in the corpus are not used: {_some(gone)}"
    if gone := sorted({label.query for label in labels} - questions):
        yield f"labels of {len(gone)} questions that are not in the cache are not used: {_some(gone)}"


def _marks_heeded(marked: Marked) -> Iterator[str]:
    if marked.bad:
        yield f"{len(marked.bad)} questions are left out, as a person says that they are bad: {_some(marked.bad)}"
    if marked.contested:
        yield (
            f"{len(marked.contested)} questions were marked by one person and answered by another, and stand as they "
            f"were: {_some(marked.contested)}"
        )


def _check(question: Question, documents: set[str], cache: str) -> None:
    if question.id in documents:
        raise KbevalError(
            f"{cache}: expected question ids that are no document's, found {question.id!r}, which is both"
        )
    missing = [document for document in question.gold_documents if document not in documents]
    if missing:
        raise KbevalError(
            f"{cache}: expected the gold documents of question {question.id} in the corpus, found no {missing[0]!r}"
        )


class _GoldChunks:
    """The texts that questions were written from, found by their hashes, wherever in their documents they are now."""

    def __init__(self, questions: Sequence[Question], documents: Mapping[str, Document], cut: CorpusSettings) -> None:
        self._documents = documents
        self._texts = {name: _chunks_by_hash(document, cut) for name, document in documents.items()}
        shifted: dict[str, set[str]] = defaultdict(set)
        for question in questions:
            if missing := set(question.gold_chunks.values()) - self._of(question).keys():
                for document in question.gold_documents:
                    shifted[document] |= missing
        for document, hashes in shifted.items():
            # No chunk of today, as after an edit further up that shifted them all: then anywhere in the text.
            self._texts[document] |= find_slices(documents[document].text, hashes, words=cut.chunk_words)

    def holds(self, question: Question) -> bool:
        """Whether every gold chunk of the question is still in one of its gold documents."""
        return set(question.gold_chunks.values()) <= self._of(question).keys()

    def texts(self, question: Question) -> list[str]:
        """The gold chunks' texts; where none is found, the gold documents'."""
        there = self._of(question)
        found = [there[hashed] for hashed in question.gold_chunks.values() if hashed in there]
        return found or [self._documents[document].text for document in question.gold_documents]

    def _of(self, question: Question) -> dict[str, str]:
        return {hashed: text for document in question.gold_documents for hashed, text in self._texts[document].items()}


def _chunks_by_hash(document: Document, cut: CorpusSettings) -> dict[str, str]:
    return {text_hash(chunk.text): chunk.text for chunk in cutter(cut)(document)}


def with_overlaps(dataset: Dataset) -> Dataset:
    """The data set with each question's lexical overlap with its gold documents, where its file does not say it."""
    texts = {document.id: document.text for document in dataset.documents}
    queries = [
        query
        if query.overlap is not None
        else replace(query, overlap=_overlap(query.text, [texts[d] for d in query.relevant if d in texts]))
        for query in dataset.queries
    ]
    return replace(dataset, queries=queries)


def _overlap(question: str, texts: Sequence[str]) -> float | None:
    """The overlap with the gold text that shares the most, to the 4 decimals that a file holds; none without gold."""
    return round(best_overlap(question, texts), 4) if texts else None


def _labelled(question: Question, weighed: Judged, chunks: _GoldChunks, *, left_out: bool = False) -> LabelledQuery:
    relevant = weighed.relevant.get(question.id, {})
    return LabelledQuery(
        id=question.id,
        text=question.text,
        relevant=relevant,
        source=question.source,
        style=question.style,
        domain=question.domain,
        provenance={**question.provenance, "gold_chunks": dict(question.gold_chunks)},
        answerable=question.answerable,
        overlap=question.overlap if question.overlap is not None else _overlap(question.text, chunks.texts(question)),
        added=weighed.added.get(question.id, ()),
        left_out=left_out,
        filters=question.filters,
    )


def _qrels(weighed: Judged) -> Qrels:
    rows = [(query, document, grade) for (query, document), grade in weighed.grades.items()]
    frame = pl.DataFrame(rows, schema={"query": pl.String, "document": pl.String, "grade": pl.Int64}, orient="row")
    return Qrels(frame.sort(["query", "grade", "document"], descending=[False, True, True]))
