"""The nouns that every part of kbeval shares. Data only: no input or output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl


@dataclass(frozen=True, slots=True)
class Document:
    """One knowledge-base entry. ``text`` is the body alone; the title is not repeated in it by kbeval."""

    id: str
    text: str
    title: str = ""
    description: str = ""
    filename: str = ""
    domain: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of one document. ``id`` is ``DOCID#N`` with N from 0, and is never parsed back.

    ``headings`` are those that it stands under and does not hold, outermost first, where it was cut at headings.
    """

    id: str
    document_id: str
    text: str
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A question and the documents that answer it, with their grades.

    ``answerable`` is false where the corpus is known not to answer it: such a question is in no metric.
    ``overlap`` is the share of its content words that its gold text holds; ``added`` names the relevant documents
    that are so by a judgment alone, and were not what the question was written from. ``left_out`` is true where the
    question is asked and in no metric, as nobody has said what answers it, or it cannot be judged. ``filters`` is what
    comes with the question when somebody asks it (a tenant, an access group): engines that take filters get them, and
    no metric knows of them.
    """

    id: str
    text: str
    relevant: Mapping[str, int] = field(default_factory=dict)
    source: str | None = None
    style: str | None = None
    domain: str | None = None
    provenance: Mapping[str, Any] | None = None
    answerable: bool = True
    overlap: float | None = None
    added: tuple[str, ...] = ()
    left_out: bool = False
    filters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """A labelled question as the cache keeps it: with the chunks that it was written from.

    ``gold_chunks`` maps a chunk's id to the hash of its text, by which it is found again after an edit;
    ``gold_documents`` maps a document's id to its grade; it is empty where nobody has said yet what answers the
    question, and where it is known that nothing does (``answerable`` false).
    """

    id: str
    text: str
    gold_chunks: Mapping[str, str]
    gold_documents: Mapping[str, int]
    source: str
    style: str | None = None
    domain: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    answerable: bool = True
    overlap: float | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A question that was written and not taken: why in a word, and in a sentence."""

    question: Question
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """One judgment of one document (or chunk of it) for one query, by a person or a model.

    Attributes:
        grade: 0 (nothing to do with it) to 3 (answers it); None where a model's answer could not be understood.
        source: ``human`` or ``llm``.
        by: the person's name, or the model's.
        confidence: of a model, from 0 to 1.
        votes: a model's single grades.
        runs: the pooled runs that returned the document.
        queue: the review queue that asked for it: ``agreement`` for the random sample.
        why, when: for people to read; no metric does.
    """

    query: str
    document: str
    grade: int | None
    source: str
    by: str
    chunk: str | None = None
    confidence: float | None = None
    votes: tuple[int | None, ...] | None = None
    runs: tuple[str, ...] = ()
    queue: str | None = None
    why: str = ""
    when: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What a later judgment replaces, and the order of the file."""
        return (self.query, self.document, self.chunk or "", self.source, self.by)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a person says about a whole question.

    ``mark`` is ``unanswerable`` (no document of the knowledge base answers it) or ``bad`` (it is not a question that
    can be judged, and should not be in the test set).
    """

    query: str
    mark: str
    by: str
    why: str = ""
    when: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What a later mark replaces, and the order of the file."""
        return (self.query, self.by)


@dataclass(frozen=True)
class Qrels:
    """Relevance judgments.

    ``frame`` has the columns query (String), document (String), grade (Int64), one row a pair, sorted by
    query (bytes, ascending), then grade (descending: ranx takes its ideal in the order given), then document
    (bytes, descending). ``unjudged`` names queries of the test set without any judgment: they count with 0.

    ``kbeval.evaluate`` and ``kbeval.compare`` check one that was made by hand, and take its rows in any order.
    """

    frame: pl.DataFrame
    warnings: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """What one engine returned for every query.

    ``frame`` has the columns query (String), document (String), score (Float64), one row a pair, sorted by
    query (bytes, ascending) and then in METHOD's one order: score descending, document id descending by bytes.

    ``kbeval.evaluate`` and ``kbeval.compare`` check one that they are handed, and take its rows in any order.
    """

    name: str
    frame: pl.DataFrame
    warnings: tuple[str, ...] = ()
