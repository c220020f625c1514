"""Documents from a folder, from BEIR, and from a class of the user's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kbeval.config import CorpusSettings
from kbeval.corpus.chunking import chunk_document
from kbeval.corpus.providers import corpus_documents
from kbeval.corpus.providers import provider as provider_of
from kbeval.errors import KbevalError
from kbeval.formats.questions import read_questions, write_questions
from kbeval.model import Document, Question

if TYPE_CHECKING:
    from kbeval.corpus.base import CorpusProvider


def provider(name: str, path: Path | str, root: Path | None = None) -> CorpusProvider:
    return provider_of(CorpusSettings(provider=name, path=str(path)), root or Path())


def test_a_folder_of_markdown(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.md").write_bytes(
        b"\xef\xbb\xbf---\r\ntitle: 'Two: a title'\r\ndomain: x\r\nowner: me\r\n---\r\n\r\nText.\r\n"
    )
    (tmp_path / "one.md").write_text("No front matter.\n")
    (tmp_path / "other.rst").write_text("not a document")
    (tmp_path / ".trash").mkdir()
    (tmp_path / ".trash" / "old.md").write_text("hidden")
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


def test_text_and_pages_are_documents_too(tmp_path: Path) -> None:
    (tmp_path / "notes.TXT").write_bytes(b"\xef\xbb\xbfOne line.\r\n---\r\nAnother.\r\n")
    (tmp_path / "page.html").write_text("<title>A page</title><p>Words")
    assert list(provider("files", tmp_path).get_documents()) == [
        Document("notes", "One line.\n---\nAnother.", filename="notes.TXT"),
        Document("page", "Words", title="A page", filename="page.html"),
    ]
    (tmp_path / "page.md").write_text("The same again")
    with pytest.raises(KbevalError, match=r"expected one file for the document 'page', found page\.html and page\.md"):
        list(provider("files", tmp_path).get_documents())
    (tmp_path / "notes.TXT").write_bytes("näh".encode("utf-16"))
    with pytest.raises(KbevalError, match=r"notes\.TXT, line 1: expected UTF-8 text, found UTF-16"):
        list(provider("files", tmp_path).get_documents())


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
    for name, message in (
        ("postgrse", "expected files, postgres, beir"),
        ("rows_of_a_test:Missing", "cannot be loaded"),
    ):
        with pytest.raises(KbevalError, match=message):
            provider(name, tmp_path)


def test_what_a_provider_must_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "giving_of_a_test.py").write_text(
        "from kbeval import Document\n\n"
        "class Giving:\n"
        "    def __init__(self, path): self.what = path.name\n"
        "    def get_documents(self):\n"
        "        if self.what == 'nothing': return\n"
        "        yield Document('a', 'x')\n"
        "        if self.what == 'again': yield Document('a', 'y')\n"
        "        if self.what == 'text': yield 'a text'\n"
        "        raise OSError('the\\nlink is down')\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for path, message in (
        ("nothing", "[corpus] nothing: expected at least one document, found an empty corpus"),
        ("again", "[corpus] again: expected each document id once, found 'a' twice"),
        ("text", "[corpus] provider giving_of_a_test:Giving: expected kbeval.Document, found str"),
        (
            "broken",
            "[corpus] provider giving_of_a_test:Giving: failed after 1 documents: OSError: the link is down",
        ),
    ):
        settings = CorpusSettings(provider="giving_of_a_test:Giving", path=path)
        with pytest.raises(KbevalError) as caught:
            list(corpus_documents(settings, tmp_path))
        assert str(caught.value) == message


def test_settings_that_do_not_go_together(tmp_path: Path) -> None:
    for settings, message in (
        ({"table": "t"}, r"\[corpus\] table: expected with provider postgres, found with 'files'"),
        ({"chunk_words": 20, "chunk_overlap": 20}, r"chunk_overlap: expected less than chunk_words \(20\), found 20"),
        ({"provider": "postgres"}, "expected either table or query, found neither"),
        ({"provider": "postgres", "table": "t", "query": "SELECT 1"}, "expected either table or query, found both"),
        ({"provider": "postgres", "table": "t", "dsn_env": "NO_SUCH"}, "a DSN in the variable NO_SUCH, found none"),
        ({"provider": "postgres", "table": "t", "dsn": "host"}, "the DSN cannot be read"),
    ):
        with pytest.raises(KbevalError, match=message):
            list(corpus_documents(CorpusSettings(**settings), tmp_path))


def test_a_data_set_of_ir_datasets(tmp_path: Path) -> None:
    import ir_datasets
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.datasets.beir import BeirTitleUrlDoc
    from ir_datasets.formats import JsonlDocs, TsvDocs
    from ir_datasets.formats.trec import TrecParsedDoc
    from ir_datasets.util import LocalDownload

    (tmp_path / "docs.jsonl").write_text('{"i": "d1", "x": "The text.", "t": "T", "u": "http://x"}\n')
    (tmp_path / "docs.tsv").write_text("7\tA passage.\n8\tAnother.\n")
    (tmp_path / "parsed.tsv").write_text("9\tA title\tA body\tmarked up\n")
    mapping = {"doc_id": "i", "text": "x", "title": "t", "url": "u"}
    for name, docs in {
        "titled": JsonlDocs(LocalDownload(tmp_path / "docs.jsonl"), BeirTitleUrlDoc, mapping),
        "passages": TsvDocs(LocalDownload(tmp_path / "docs.tsv")),
        "parsed": TsvDocs(LocalDownload(tmp_path / "parsed.tsv"), TrecParsedDoc),
    }.items():
        ir_datasets.registry.register(f"kbeval-{name}", Dataset(docs))
    assert list(provider("ir_datasets", "kbeval-titled").get_documents()) == [
        Document("d1", "The text.", title="T", metadata={"url": "http://x"})
    ]
    assert list(provider("ir_datasets", "kbeval-passages").get_documents()) == [
        Document("7", "A passage."),
        Document("8", "Another."),
    ]
    [parsed] = provider("ir_datasets", "kbeval-parsed").get_documents()
    assert (parsed.title, parsed.text) == ("", "A title A body")  # what TrecParsedDoc says is its default text
    with pytest.raises(KbevalError, match=r"\[corpus\] ir_datasets no/such: cannot be read: KeyError"):
        list(provider("ir_datasets", "no/such").get_documents())


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
