"""Other views of the project's data set: fewer sources, chunks instead of documents, one flat table."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from kbeval.corpus.chunking import text_hash
from kbeval.errors import KbevalError
from kbeval.formats.flat import FlatQuestion
from kbeval.formats.labels import read_labels
from kbeval.formats.questions import read_questions
from kbeval.model import Document, Qrels
from kbeval.testset.labels import grades_of
from kbeval.testset.project import project_chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kbeval.config import Project
    from kbeval.formats.dataset import Dataset
    from kbeval.model import Chunk

    Grades = Mapping[tuple[str, str], int]


def of_sources(dataset: Dataset, sources: Sequence[str]) -> Dataset:
    """The data set with the questions of these sources alone.

    Raises:
        KbevalError: no question has one of them.
    """
    there = sorted({query.source for query in dataset.queries if query.source})
    for source in sources:
        if source not in there:
            raise KbevalError(
                f"--source {source}: expected one of {', '.join(there) or 'none'}, found no such question"
            )
    queries = [query for query in dataset.queries if query.source in sources]
    kept = [query.id for query in queries]
    return replace(
        dataset,
        queries=queries,
        unanswerable=[query for query in dataset.unanswerable if query.source in sources],
        left_out=[query for query in dataset.left_out if query.source in sources],
        qrels=Qrels(dataset.qrels.frame.filter(pl.col("query").is_in(kept))),
    )


def chunk_grades(project: Project, dataset: Dataset) -> Grades:
    """The grade of each judged pair of query and chunk.

    A gold chunk, found again by its text, has the grade of its document; a judgment of a chunk itself goes before
    that, a person's before a model's, and a model's below the level changes nothing (METHOD 6). A judgment of a
    document does not say which of its chunks is meant.
    """
    documents = {document.id: document for document in dataset.documents}
    now: dict[str, dict[str, str]] = defaultdict(dict)
    chunks = project_chunks(project, dataset.documents)
    for chunk in chunks:
        now[chunk.document_id].setdefault(text_hash(chunk.text), chunk.id)
    of_document = {(query, document): grade for query, document, grade in dataset.qrels.frame.iter_rows()}
    queries = {query.id for query in dataset.queries}
    gold: dict[tuple[str, str], int] = {}
    for question in read_questions(project.path(project.settings.test_set.questions)):
        for document in question.gold_documents:
            for hashed in question.gold_chunks.values():
                if (question.id, document) in of_document and hashed in now[document]:
                    gold[question.id, now[document][hashed]] = of_document[question.id, document]
    there = {chunk.id for chunk in chunks}
    labels = [
        replace(label, document=label.chunk)
        for label in read_labels(project.path(project.settings.test_set.labels))
        if label.chunk in there and label.query in queries and label.document in documents
    ]
    models = {
        pair: grade
        for pair, grade in grades_of(labels, "llm").items()
        if not (gold.get(pair, 0) > 0 and grade < dataset.level)
    }
    return {**gold, **models, **grades_of(labels, "human")}


def at_chunk_level(project: Project, dataset: Dataset) -> Dataset:
    """The data set with chunks as its documents. Questions without a judged chunk are left out, and counted.

    Raises:
        KbevalError: no question has one.
    """
    grades = chunk_grades(project, dataset)
    relevant: dict[str, dict[str, int]] = defaultdict(dict)
    for (query, chunk), grade in sorted(grades.items()):
        if grade > 0:
            relevant[query][chunk] = grade
    judged = {query for query, _ in grades}
    without = [query.id for query in dataset.queries if query.id not in judged]
    if len(without) == len(dataset.queries):
        raise KbevalError("--granularity chunk: expected questions with gold chunks, found documents alone as gold")
    warnings = list(dataset.warnings)
    if without:
        named = f"{', '.join(without[:5])}{', ...' if len(without) > 5 else ''}"
        warnings.append(f"{len(without)} questions are left out, as it is not known which chunk answers them: {named}")
    documents = {document.id: document for document in dataset.documents}
    rows = [(query, chunk, grade) for (query, chunk), grade in grades.items()]
    frame = pl.DataFrame(rows, schema={"query": pl.String, "document": pl.String, "grade": pl.Int64}, orient="row")
    return replace(
        dataset,
        documents=[
            _as_document(chunk, documents[chunk.document_id]) for chunk in project_chunks(project, dataset.documents)
        ],
        queries=[
            replace(query, relevant=relevant[query.id], added=()) for query in dataset.queries if query.id in judged
        ],
        qrels=Qrels(frame.sort(["query", "grade", "document"], descending=[False, True, True])),
        warnings=tuple(warnings),
    )


def _as_document(chunk: Chunk, document: Document) -> Document:
    return Document(
        id=chunk.id,
        text=chunk.text,
        title=document.title,
        description=document.description,
        filename=document.filename,
        domain=document.domain,
        metadata={"document_id": document.id},
    )


def as_table(project: Project, dataset: Dataset) -> list[FlatQuestion]:
    """A row a question, by id; those that the corpus does not answer too."""
    chunks: dict[str, list[str]] = defaultdict(list)
    for (query, chunk), grade in sorted(chunk_grades(project, dataset).items()):
        if grade >= dataset.level:
            chunks[query].append(chunk)
    return [
        FlatQuestion(
            id=query.id,
            query=query.text,
            relevant_chunk_ids=chunks[query.id],
            relevant_document_ids=(
                best := _best_first((d, grade) for d, grade in query.relevant.items() if grade >= dataset.level)
            ),
            grades=[query.relevant[document] for document in best],
            level=dataset.level,
            domain=query.domain,
            source=query.source,
            style=query.style,
            answerable=query.answerable,
            overlap=query.overlap,
        )
        for query in sorted([*dataset.queries, *dataset.unanswerable], key=lambda query: query.id)
    ]


def _best_first(relevant: Iterable[tuple[str, int]]) -> list[str]:
    return [document for document, _ in sorted(relevant, key=lambda pair: (-pair[1], pair[0]))]
