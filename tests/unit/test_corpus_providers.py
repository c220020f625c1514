"""Documents from a folder, from BEIR, and from a class of the user's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from kbeval.corpus.chunking import chunk_document
from kbeval.corpus.providers import provider
from kbeval.errors import KbevalError
from kbeval.formats.questions import read_questions, write_questions
from kbeval.model import Document, Question

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_of_markdown(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.md").write_bytes(
        b"\xef\xbb\xbf---\r\ntitle: 'Two: a title'\r\ndomain: x\r\nowner: me\r\n---\r\n\r\nText.\r\n"
    )
    (tmp_path / "one.md").write_text("No front matter.\n")
    (tmp_path / "other.txt").write_text("not a document")
    assert list(provider("files", tmp_path).get_documents()) == [
        Document("b/two", "Text.", title="Two: a title", filename="two.md", domain="x", metadata={"owner": "me"}),
        Document("one", "No front matter.", filename="one.md"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"---\ntitle: x\nno end\n", "one.md, line 1: expected front matter closed by a line ---"),
        (b"---\ntitle: [x\n---\n", "one.md, line 2: expected YAML front matter"),
        (b"---\n- a\n- b\n---\n", "one.md, line 2: expected front matter of KEY: VALUE lines, found list"),
        (b"---\ntitle: {a: b}\n---\n", "expected title to be text, found dict"),
        (b"fine\nnot \xff utf-8\n", "one.md, line 2: expected UTF-8 text, found byte 0xFF"),
    ],
)
def test_a_document_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "one.md").write_bytes(content)
    with pytest.raises(KbevalError) as caught:
        list(provider("files", tmp_path).get_documents())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_folders_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(KbevalError, match="empty corpus"):
        list(provider("files", tmp_path).get_documents())
    with pytest.raises(KbevalError, match="found nothing there"):
        list(provider("files", tmp_path / "missing").get_documents())


def test_beir_and_a_class_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "title": "T", "text": "x"}\n')
    assert list(provider("beir", tmp_path).get_documents()) == [Document("d1", "x", title="T")]
    (tmp_path / "rows_of_a_test.py").write_text(
        "from kbeval import Document\n\n"
        "class Rows:\n"
        "    def __init__(self, path): self.path = path\n"
        "    def get_documents(self): return [Document('row-1', str(self.path.name))]\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert list(provider("rows_of_a_test:Rows", tmp_path / "table").get_documents()) == [Document("row-1", "table")]
    for name, message in (("postgrse", "expected files, beir"), ("rows_of_a_test:Missing", "cannot be loaded")):
        with pytest.raises(KbevalError, match=message):
            provider(name, tmp_path)


def test_chunks_are_windows_of_words_that_keep_the_text_as_it_is() -> None:
    text = "| a  b |\n| c | d e f g"
    chunks = list(chunk_document(Document("x#1", text), words=5, overlap=2))
    # Words: | a b | | c | d e f g, eleven of them; windows of five begin every three words.
    assert [(chunk.id, chunk.text) for chunk in chunks] == [
        ("x#1#0", "| a  b |\n|"),
        ("x#1#1", "|\n| c | d"),
        ("x#1#2", "| d e f g"),
    ]
    assert {chunk.document_id for chunk in chunks} == {"x#1"}
    assert [chunk.text for chunk in chunk_document(Document("e", " \n "))] == [""]
    with pytest.raises(ValueError, match="overlap must be"):
        list(chunk_document(Document("x", text), words=5, overlap=5))


def test_questions_are_read_as_they_were_written(tmp_path: Path) -> None:
    questions = [
        Question("q1", "Why?", {"d#0": "abc"}, {"d": 1}, "authored", style="far", domain="x", provenance={"by": "me"}),
        Question("q2", "Wo? Straße!", {}, {"d": 2, "e": 1}, "historical"),
    ]
    write_questions(tmp_path / "q.json", questions)
    assert read_questions(tmp_path / "q.json") == questions


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 1,\n "questions": [}', "q.json, line 2: expected JSON"),
        ('{"format": 9, "questions": []}', 'expected an object with "format": 1'),
        ('{"format": 1, "questions": [{"id": "q1"}]}', "in question 1: the key 'text', found none"),
        (
            '{"format": 1, "questions": [{"id": "q", "txet": "x", "text": "x", "gold_chunks": {}, '
            '"gold_documents": {"d": 1}, "source": "authored"}]}',
            "in question 1: a known key (nearest: 'text')",
        ),
    ],
)
def test_a_cache_that_cannot_be_read_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "q.json").write_text(content)
    with pytest.raises(KbevalError) as caught:
        read_questions(tmp_path / "q.json")
    assert message in str(caught.value)
