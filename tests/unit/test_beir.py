"""BEIR's JSONL files and .tsv judgments."""

from __future__ import annotations

import csv
import gzip
import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from kbeval.errors import InputError, KbevalError
from kbeval.formats.beir import (
    read_documents,
    read_queries,
    write_documents,
    write_qrels_tsv,
    write_queries,
)
from kbeval.model import Document, LabelledQuery, Qrels

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.jsonl"


def documents(file: Path, *lines: Any) -> list[Document]:
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return read_documents(file)


def document_error(file: Path, *lines: Any) -> InputError:
    with pytest.raises(InputError) as raised:
        documents(file, *lines)
    assert "\n" not in str(raised.value)
    return raised.value


def query_error(file: Path, *lines: Any) -> InputError:
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(InputError) as raised:
        read_queries(file)
    return raised.value


def test_a_document_has_its_fields_from_metadata(file: Path) -> None:
    [document] = documents(
        file,
        {
            "_id": "d1",
            "title": "T",
            "text": "body",
            "metadata": {"description": "D", "filename": "f.md", "domain": "billing", "url": "u", "n": [1]},
        },
    )
    assert document == Document(
        id="d1",
        title="T",
        text="body",
        description="D",
        filename="f.md",
        domain="billing",
        metadata={"url": "u", "n": [1]},
    )


def test_a_query_has_its_labels_from_metadata(file: Path) -> None:
    metadata = {"source": "authored", "style": "far", "domain": "d", "provenance": {"by": "x"}, "extra": 1}
    file.write_text(json.dumps({"_id": 7, "text": "why?", "metadata": metadata, "other": True}))
    assert read_queries(file) == [
        LabelledQuery(id="7", text="why?", source="authored", style="far", domain="d", provenance={"by": "x"})
    ]


def test_null_is_as_good_as_missing(file: Path) -> None:
    empty = {"title": None, "text": None, "metadata": None}
    inner = {"description": None, "filename": None, "domain": None}
    [one, two, three] = documents(
        file, {"_id": "1", **empty}, {"_id": "2", "text": "", "metadata": inner}, {"_id": "3", "text": ""}
    )
    assert one == Document(id="1", text="")
    assert two == Document(id="2", text="")
    assert three == Document(id="3", text="")


@pytest.mark.parametrize(("written", "read"), [(3, "3"), (-1, "-1"), (0, "0"), (2**63, str(2**63)), ("007", "007")])
def test_integer_ids_become_strings(file: Path, written: Any, read: str) -> None:
    assert documents(file, {"_id": written, "text": ""})[0].id == read


@pytest.mark.parametrize(
    ("identifier", "found"),
    [
        (True, "a boolean"), (None, "null"), (3.0, "a decimal number"), ([1], "a list"), ({}, "an object"),
        ("", "''"), (" ", "' '"), (2**64, "a decimal number"),
    ],
)  # fmt: skip
def test_anything_else_is_no_id(file: Path, identifier: Any, found: str) -> None:
    error = document_error(file, {"_id": "good", "text": ""}, {"_id": identifier, "text": ""})
    assert (error.line, error.found) == (2, found)


def test_lines_are_cut_at_line_feeds_alone(file: Path) -> None:
    separators = "a\u2028b\u2029c\x85d"
    file.write_bytes(f'\n{{"_id": "1", "text": "{separators}"}}\r\n \t\n{{"_id": "2", "text": ""}}'.encode())
    assert [document.text for document in read_documents(file)] == [separators, ""]


def test_marks_and_gzip_are_no_hindrance(file: Path) -> None:
    file.write_bytes(gzip.compress(b'\xef\xbb\xbf{"_id": "1", "text": "a"}\n'))
    assert read_documents(file) == [Document(id="1", text="a")]


@pytest.mark.parametrize(
    ("line", "expected", "found"),
    [
        ('{"_id": "2", "text": "cut', "a JSON object", "column"),
        ("not json", "a JSON object", "'not json' ("),
        ("[1]", "a JSON object", "a list"),
        ('"text"', "a JSON object", "a string"),
        ("{}", "an object with _id", "nothing"),
        ({"id": "2", "text": "t"}, "an object with _id", "only 'id', 'text'"),
        ({"_id": "2", "contents": "t"}, "an object with text", "only '_id', 'contents'"),
        ({"_id": "2", "text": 5}, "a string as text", "a number"),
        ({"_id": "2", "text": "", "title": ["t"]}, "a string as title", "a list"),
        ({"_id": "2", "text": "", "metadata": "m"}, "an object as metadata", "a string"),
        ({"_id": "2", "text": "", "metadata": {"domain": 5}}, "a string as metadata.domain", "a number"),
        ('{"_id": "2", "text": NaN}', "a JSON object", "NaN"),
        ('{"_id": "2", "text": "\ud800"}'.encode("utf-8", "surrogatepass").decode("latin-1"), "", ""),
    ],
)
def test_a_malformed_line_is_refused_with_its_number(file: Path, line: Any, expected: str, found: str) -> None:
    if expected == "":
        file.write_bytes(b'{"_id": "1", "text": ""}\n\n' + line.encode("latin-1"))
        with pytest.raises(InputError, match="line 3: expected a JSON object"):
            read_documents(file)
        return
    error = document_error(file, {"_id": "1", "text": ""}, "", line)
    assert (error.line, error.expected) == (3, expected)
    assert found in error.found


def test_bytes_that_are_not_utf8_are_refused(file: Path) -> None:
    file.write_bytes(b'{"_id": "1", "text": "a"}\n{"_id": "2", "text": "caf\xe9"}\n')
    with pytest.raises(InputError, match="line 2"):
        read_documents(file)


def test_an_id_twice_is_refused_with_both_lines(file: Path) -> None:
    error = document_error(file, {"_id": "3", "text": "a"}, "", {"_id": "4", "text": ""}, {"_id": 3, "text": "b"})
    assert (error.line, error.found) == (4, "'3' again, after line 1")
    assert query_error(file, {"_id": "q", "text": "a"}, {"_id": "q", "text": "a"}).line == 2


def test_a_query_without_text_is_refused(file: Path) -> None:
    assert query_error(file, {"_id": "q"}).expected == "an object with text"
    assert query_error(file, {"_id": "q", "text": None}).found == "null"
    assert query_error(file, {"_id": "q", "text": "", "metadata": {"source": 1}}).found == "a number"
    assert query_error(file, {"_id": "q", "text": "", "metadata": {"provenance": "x"}}).found == "a string"


def test_documents_are_written_as_beir_and_read_back(file: Path) -> None:
    original = [
        Document(id="b", text="l1\nl2 \u2028 é", title="T", domain="x", filename="f", metadata={"z": 1, "a": None}),
        Document(id="a b", text=""),
    ]
    write_documents(file, original)
    assert file.read_bytes().decode() == (
        '{"_id":"b","title":"T","text":"l1\\nl2 \u2028 é",'
        '"metadata":{"a":null,"domain":"x","filename":"f","z":1}}\n'
        '{"_id":"a b","title":"","text":"","metadata":{}}\n'
    )
    assert read_documents(file) == original


def test_queries_are_written_as_beir_and_read_back(file: Path) -> None:
    original = [
        LabelledQuery(id="q2", text="t", source="authored", style="near", domain="d", provenance={"x": [1]}),
        LabelledQuery(id="q1", text="u"),
    ]
    write_queries(file, original)
    assert file.read_text() == (
        '{"_id":"q2","text":"t","metadata":{"domain":"d","provenance":{"x":[1]},"source":"authored","style":"near"}}\n'
        '{"_id":"q1","text":"u","metadata":{}}\n'
    )
    assert read_queries(file) == original


def test_what_has_no_json_is_one_clear_line(file: Path) -> None:
    for metadata in ({"when": object()}, {"text": "\ud800"}):
        with pytest.raises(KbevalError, match="'d' cannot be written as JSON"):
            write_documents(file, [Document(id="d", text="", metadata=metadata)])
    assert not file.exists()


def qrels_of(*rows: tuple[str, str, int]) -> Qrels:
    schema = {"query": pl.String, "document": pl.String, "grade": pl.Int64}
    return Qrels(pl.DataFrame(rows, schema=schema, orient="row"))


def test_judgments_are_read_by_another_csv_reader(file: Path) -> None:
    write_qrels_tsv(file, qrels_of(("q 1", "a b, c", 2), ("q2", "d", 0)))
    with file.open(encoding="utf-8", newline="") as stream:
        assert list(csv.reader(stream, delimiter="\t")) == [
            ["query-id", "corpus-id", "score"], ["q 1", "a b, c", "2"], ["q2", "d", "0"]
        ]  # fmt: skip


@pytest.mark.parametrize("identifier", ["a\tb", "a\nb", "a\rb", "", " ", "a\0"])
def test_an_id_that_a_tsv_cannot_hold_is_refused(file: Path, identifier: str) -> None:
    with pytest.raises(KbevalError, match=r"a \.tsv file cannot hold the id"):
        write_qrels_tsv(file, qrels_of(("q", identifier, 1)))
    assert not file.exists()


def test_filters_of_a_query_are_read_and_written(file: Path) -> None:
    query = LabelledQuery(id="q1", text="?", filters={"tenant": "acme", "access": ["staff", 2]})
    write_queries(file, [query, LabelledQuery(id="q2", text="!")])
    assert read_queries(file)[0] == query
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["metadata"] == {"filters": {"access": ["staff", 2], "tenant": "acme"}}
    assert lines[1]["metadata"] == {}
    error = query_error(file, {"_id": "q1", "text": "?", "metadata": {"filters": "acme"}})
    assert "an object as metadata.filters" in str(error)
