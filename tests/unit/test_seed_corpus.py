"""The committed corpus and its questions: what they promise, counted by the test itself."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kbeval.config import load_project
from kbeval.corpus.chunking import chunk_document, text_hash
from kbeval.corpus.files import FilesProvider
from kbeval.formats.questions import read_questions
from kbeval.testset.project import open_dataset

if TYPE_CHECKING:
    from kbeval.model import Chunk, Document, Question

CORPUS = Path(__file__).resolve().parents[2] / "corpus"


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    return {document.id: document for document in FilesProvider(CORPUS / "seed_docs").get_documents()}


@pytest.fixture(scope="module")
def chunks(documents: dict[str, Document]) -> dict[str, Chunk]:
    return {chunk.id: chunk for document in documents.values() for chunk in chunk_document(document)}


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return read_questions(CORPUS / "questions.cache.json")


def test_size_and_variety(documents: dict[str, Document], chunks: dict[str, Chunk]) -> None:
    assert 24 <= len(documents) <= 30
    assert len({document.domain for document in documents.values()}) >= 5
    assert len(chunks) >= 120
    assert all(document.title and document.description and document.text for document in documents.values())
    texts = [document.text for document in documents.values()]
    assert sum("\n|" in text for text in texts) >= 3, "tables"
    assert sum("```" in text for text in texts) >= 3, "code"
    assert sum(bool(re.search(r"^1\. ", text, re.MULTILINE)) for text in texts) >= 3, "step lists"
    assert sum(text.count("\n\n") == 0 for text in texts) >= 1, "one-paragraph answers"


def test_every_chunk_has_a_question_in_each_of_three_styles(
    chunks: dict[str, Chunk], questions: list[Question]
) -> None:
    asked = {(chunk, question.style) for question in questions for chunk in question.gold_chunks}
    assert asked >= {(chunk, style) for chunk in chunks for style in ("near", "mid", "far")}


def test_fifty_messages_some_with_several_right_documents(questions: list[Question]) -> None:
    messages = [question for question in questions if question.style == "message"]
    assert len(messages) >= 50
    assert sum(len(question.gold_documents) > 1 for question in messages) >= 5


def test_nothing_pretends_to_be_a_models_or_a_real_users(questions: list[Question]) -> None:
    assert {question.source for question in questions} == {"authored"}
    assert {question.style for question in questions} == {"near", "mid", "far", "message"}


def test_gold_is_there_with_the_text_that_the_question_was_written_from(
    documents: dict[str, Document], chunks: dict[str, Chunk], questions: list[Question]
) -> None:
    for question in questions:
        assert question.gold_chunks
        assert {chunks[chunk].document_id for chunk in question.gold_chunks} == set(question.gold_documents)
        for chunk, digest in question.gold_chunks.items():
            assert text_hash(chunks[chunk].text) == digest, (question.id, chunk)
        assert question.domain in {documents[document].domain for document in question.gold_documents}


def test_no_question_quotes_five_words_of_its_source(chunks: dict[str, Chunk], questions: list[Question]) -> None:
    def five_grams(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return {tuple(words[i : i + 5]) for i in range(len(words) - 4)}

    quoting = [
        question.id
        for question in questions
        for chunk in question.gold_chunks
        if five_grams(question.text) & five_grams(chunks[chunk].text)
    ]
    assert quoting == []


def test_ids_and_texts_are_unique_and_no_question_has_a_documents_id(
    documents: dict[str, Document], questions: list[Question]
) -> None:
    assert [i for i, n in Counter(question.id for question in questions).items() if n > 1] == []
    assert [t for t, n in Counter(question.text.lower() for question in questions).items() if n > 1] == []
    assert not {question.id for question in questions} & set(documents)


def test_styles_differ_in_the_words_they_share_with_their_gold_and_compare_shows_it() -> None:
    dataset = open_dataset(load_project(CORPUS.parent / "kbeval.toml"), None)
    overlaps: dict[str | None, list[float]] = {}
    for query in dataset.queries:
        assert query.overlap is not None
        overlaps.setdefault(query.style, []).append(query.overlap)
    means = {style: round(sum(values) / len(values), 2) for style, values in overlaps.items()}
    # METHOD 5's generated questions had .86 to .93 near, .65 mid, and .18 to .23 far.
    assert means == {"near": 0.89, "mid": 0.57, "far": 0.11, "message": 0.24}
    report = (CORPUS.parent / "results" / "results.md").read_text()
    slices = report.partition("## Every metric by slice")[2].partition("\n## ")[0]
    thirds = re.findall(r"^\| overlap \| (low|middle|high) \([^|]*\) \| (\d+) \| a \|", slices, re.MULTILINE)
    assert [name for name, _ in thirds] == ["low", "middle", "high"]
    assert sum(int(count) for _, count in thirds) == len(dataset.queries) == 486
    assert re.findall(r"^\| kind \| (\w+) ", slices, re.MULTILINE) == ["near", "mid", "far", "message"]
