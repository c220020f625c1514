"""Mutated inputs: a reader gives what a slow and plain one gives, or refuses what that one refuses.

The plain readers below are written from METHOD 2 and share no code with the project. They know the line that
an error must name, too.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kbeval.errors import InputError
from kbeval.formats import text
from kbeval.formats.beir import read_documents, read_queries
from kbeval.formats.trec import read_qrels, read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXAMPLES = int(os.environ.get("KBEVAL_FUZZ_EXAMPLES", "200"))
quick = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])

BLANKS = b" \t\r\n\v\f"
NUMBER = rb"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"


class Refused(Exception):  # noqa: N818 - it is an answer here
    """What the plain reader does not read. ``line`` is None where the file as a whole is at fault."""

    def __init__(self, line: int | None = None) -> None:
        super().__init__(line)
        self.line = line


# --- the plain readers


def plain_lines(data: bytes) -> list[bytes]:
    for mark in (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff"):
        if data.startswith(mark):
            raise Refused(1)
    return data.removeprefix(b"\xef\xbb\xbf").split(b"\n")


def refuse_binary(lines: list[bytes]) -> None:
    for number, line in enumerate(lines, start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(number) from None
        if b"\0" in line or line.lstrip(BLANKS).startswith(b"\xef\xbb\xbf"):
            raise Refused(number)


def number_in(field: bytes) -> float | None:
    if re.fullmatch(NUMBER, field) is None or math.isinf(float(field)):
        return None
    return float(field)


def plain_fields(line: bytes) -> list[tuple[bytes, int]]:
    """Fields and the place behind each, by looking at every byte."""
    fields: list[tuple[bytes, int]] = []
    field = b""
    for place, byte in enumerate(line + b" "):
        if byte in BLANKS:
            if field:
                fields.append((field, place))
            field = b""
        else:
            field += bytes([byte])
    return fields


def plain_run(data: bytes) -> list[tuple[str, str, float]]:
    rows: dict[tuple[bytes, bytes], float] = {}
    twice: int | None = None
    for number, line in enumerate(plain_lines(data), start=1):
        refuse_binary_line(line, number)
        fields = plain_fields(line)
        if not fields:
            continue
        rank = number_in(fields[3][0]) if len(fields) > 3 else None
        score = number_in(fields[4][0]) if len(fields) > 4 else None
        good = len(fields) >= 6 and rank is not None and rank % 1 == 0 and score is not None
        if good and b"\r" in line[fields[4][1] :].strip(BLANKS):
            good = False
        if not good or score is None:
            if line.startswith(b"#"):
                continue
            raise Refused(number)
        pair = (fields[0][0], fields[2][0])
        if pair in rows and twice is None:
            twice = number
        rows.setdefault(pair, score)
    if twice is not None:
        raise Refused(twice)
    if not rows:
        raise Refused
    ordered = sorted(rows.items(), key=lambda row: row[0][1], reverse=True)
    ordered = sorted(ordered, key=lambda row: -row[1])
    ordered = sorted(ordered, key=lambda row: row[0][0])
    return [(query.decode(), document.decode(), score) for (query, document), score in ordered]


def refuse_binary_line(line: bytes, number: int) -> None:
    try:
        refuse_binary([line])
    except Refused:
        raise Refused(number) from None


# Copied from the reader's documentation of what it takes for a header, so that both accept the same.
QUERIES = {"q", "qid", "query", "queryid", "question", "questionid", "topic", "topicid", "topicno"}
DOCUMENTS = {
    "d", "did", "doc", "docid", "docno", "document", "documentid", "corpus", "corpusid", "pid", "passage",
    "passageid", "chunk", "chunkid", "entity", "entityid",
}  # fmt: skip
GRADES = {
    "score", "rel", "relevance", "relevancescore", "relevancelabel", "grade", "label", "judgment",
    "judgement", "rating", "gain", "value", "qrel",
}  # fmt: skip


def plain_header(cells: list[bytes]) -> bool:
    names = [cell.decode().lower().replace("-", "").replace("_", "").replace(" ", "") for cell in cells]
    return names[0] in QUERIES and names[-2] in DOCUMENTS and names[-1] in GRADES


def plain_qrels(data: bytes) -> list[tuple[str, str, int]]:
    lines = plain_lines(data)
    refuse_binary(lines)
    filled = [(number, line) for number, line in enumerate(lines, start=1) if line.strip(BLANKS)]
    deciding = [(number, line) for number, line in filled if not line.startswith(b"#")] or filled
    if not deciding:
        raise Refused
    first_number, first = deciding[0]

    def beir(line: bytes) -> list[bytes]:
        return line.rstrip(b"\r").split(b"\t")

    def trec(line: bytes) -> list[bytes]:
        return [field for field, _ in plain_fields(line)]

    header = True
    if len(beir(first)) == 3 and plain_header(beir(first)):
        tabs = True
    elif len(trec(first)) == 4 and plain_header(trec(first)):
        tabs = False
    else:
        header = False
        as_beir = [len(beir(line)) == 3 for _, line in deciding]
        as_trec = [len(trec(line)) == 4 for _, line in deciding]
        if all(as_beir) and all(as_trec):
            raise Refused(first_number)
        tabs = sum(as_beir) > sum(as_trec)

    grades: dict[tuple[bytes, bytes], int] = {}
    conflict: int | None = None
    for number, line in filled:
        if header and number == first_number:
            continue
        cells = beir(line) if tabs else trec(line)
        value = number_in(cells[-1].strip(BLANKS)) if cells else None
        good = len(cells) == (3 if tabs else 4) and value is not None and value % 1 == 0 and abs(value) < 2**31
        if good and tabs:
            good = all(cell.strip(BLANKS) and b"\r" not in cell for cell in cells[:2])
        if not good or value is None:
            if line.startswith(b"#") and not tabs:
                continue
            raise Refused(number)
        pair = (cells[0], cells[-2])
        if grades.setdefault(pair, int(value)) != int(value) and conflict is None:
            conflict = number
    if conflict is not None:
        raise Refused(conflict)
    if not grades:
        raise Refused
    ordered = sorted(grades.items(), key=lambda row: row[0][1], reverse=True)
    ordered = sorted(ordered, key=lambda row: -row[1])
    ordered = sorted(ordered, key=lambda row: row[0][0])
    return [(query.decode(), document.decode(), grade) for (query, document), grade in ordered]


# --- inputs: something like a file, and what befell it

blanks = st.sampled_from([" ", " ", " ", "\t", "\t", "  ", " \t", "\v", "\f", "\r"])
word = st.one_of(
    st.sampled_from(["q1", "q2", "d1", "d2", "d3", "#q", "007", "1e5", '"', "a\xa0b", "é", "x" * 20, "%", "nan"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n\v\f\0"), min_size=1, max_size=4),
)
value = st.one_of(
    st.sampled_from(["1", "2", "0", "1", "-1", "1.0", "+3", ".5", "5.", "1e-5", "1,5", "nan", "inf", "1e999", "0x1"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers().map(str),
)
whole = st.one_of(st.integers(-3, 9).map(str), value)
line_end = st.sampled_from(["\n", "\n", "\n", "\r\n", "\n\n", "\r\r\n", ""])


@st.composite
def table(draw: st.DrawFn, columns: list[st.SearchStrategy[str]], heads: list[str]) -> bytes:
    separator = draw(blanks)
    mixed = draw(st.booleans())
    lines = [draw(st.sampled_from(heads))]
    for _ in range(draw(st.integers(0, 8))):
        cells = [draw(column) for column in columns]
        joined = cells[0] + "".join((draw(blanks) if mixed else separator) + cell for cell in cells[1:])
        lines.append(draw(st.sampled_from(["", "", "", " ", "#"])) + joined + draw(line_end))
    return "".join(lines).encode()


injected = st.sampled_from(
    [b"\t", b" ", b"\r", b"\n", b"\0", b"\v", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\xc2\xa0", b"#", b'"',
     b"1e999", b"9" * 30, b"nan", b"\xe2\x80\xa8", b"\x85", b"\x1a", b",", b"\\", b"\xed\xa0\x80"]
)  # fmt: skip
mutation = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 400), st.integers(0, 7)),
    st.tuples(st.just("insert"), st.integers(0, 400), injected),
    st.tuples(st.just("delete"), st.integers(0, 400), st.integers(1, 6)),
)


def mutate(data: bytes, mutations: list[tuple[str, int, int | bytes]]) -> bytes:
    for kind, place, detail in mutations:
        place %= len(data) + 1
        if isinstance(detail, bytes):
            data = data[:place] + detail + data[place:]
        elif kind == "delete":
            data = data[:place] + data[place + detail :]
        elif place < len(data):
            data = data[:place] + bytes([data[place] ^ (1 << detail)]) + data[place + 1 :]
    return data


def mutated(columns: list[st.SearchStrategy[str]], heads: list[str]) -> st.SearchStrategy[bytes]:
    return st.builds(mutate, table(columns, heads), st.lists(mutation, max_size=3))


Rows = list[tuple[object, ...]]


def assert_agreement(read: Callable[[Path], Rows], plain: Callable[[bytes], Rows], data: bytes) -> None:
    """Both read the same rows, or both refuse the same line."""
    expected: Rows | None
    try:
        expected, line = plain(data), None
    except Refused as refused:
        expected, line = None, refused.line
    rows, error = outcome(read, data)
    if error is None:
        assert rows == expected
    else:
        assert expected is None, f"refused a good file: {error}"
        assert "\n" not in str(error)
        assert error.line == line


def outcome(read: Callable[[Path], Rows], data: bytes) -> tuple[Rows, InputError | None]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.write_bytes(data)
        try:
            return read(file), None
        except InputError as error:
            return [], error


def rows_of_run(file: Path) -> Rows:
    return list(read_run(file).frame.rows())


def rows_of_qrels(file: Path) -> Rows:
    return list(read_qrels(file).frame.rows())


@pytest.fixture(params=[None, 64], ids=["one block", "many blocks"], scope="module")
def block_size(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param is not None:
            patch.setattr(text, "BLOCK_BYTES", request.param)
        yield


RUN_COLUMNS = [word, st.just("Q0"), word, whole, value, st.sampled_from(["t", "t", "two words", "1 2"])]
RUN_HEADS = ["", "", "\ufeff", "# comment\n", "\n\n"]


@pytest.mark.usefixtures("block_size")
@quick
@given(mutated(RUN_COLUMNS, RUN_HEADS))
@example(b"q1  Q0 5 1 2.5 t\n")
@example(b"q1 Q0 d1 1 2.5 t\rq1 Q0 d2 2 1.5 t\r")
@example(b"q1 Q0 d1 1 2.5 \r\n")
@example("q1 Q0 d1 1 2.5 t\n".encode("utf-16"))
def test_runs(data: bytes) -> None:
    assert_agreement(rows_of_run, plain_run, data)


BEIR_HEADS = ["query-id\tcorpus-id\tscore\n", "query_id\tdoc_id\trelevance\r\n", "", "\ufeff", "\n"]
TREC_HEADS = ["", "", "\ufeff", "# comment\n", "qid 0 docid rel\n"]
id_with_blanks = st.builds(lambda a, b: f"{a} {b}", word, word)


@quick
@given(mutated([word, st.sampled_from(["0", "Q0"]), word, whole], TREC_HEADS))
def test_trec_qrels(data: bytes) -> None:
    assert_agreement(rows_of_qrels, plain_qrels, data)


@quick
@given(
    mutated(
        [st.one_of(word, id_with_blanks).map(lambda a: a + "\t"), word, whole.map(lambda a: "\t" + a)],
        BEIR_HEADS,
    )
)
def test_beir_qrels(data: bytes) -> None:
    assert_agreement(rows_of_qrels, plain_qrels, data)


json_value = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just({}), st.just([])
)
json_line = st.one_of(
    st.fixed_dictionaries(
        {
            "_id": st.one_of(word, st.integers(0, 3), json_value),
            "text": st.one_of(st.text(max_size=5), json_value),
        },
        optional={
            "title": json_value,
            "metadata": st.one_of(json_value, st.just({"domain": "x", "other": [1]})),
        },
    ).map(json.dumps),
    json_value.map(json.dumps),
    st.just(""),
)
jsonl = st.lists(json_line, max_size=6).map(lambda lines: "\n".join(lines).encode())


def plain_jsonl(data: bytes, text_may_be_null: bool) -> Rows:
    """Ids and texts, as Python's own json module reads them."""
    rows: dict[str, str] = {}
    for number, line in enumerate(plain_lines(data), start=1):
        if not line.strip(BLANKS):
            continue
        try:
            values = json.loads(line.decode("utf-8"), parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            raise Refused(number) from None
        good = isinstance(values, dict) and "text" in values
        if good:
            identifier, content, metadata = values.get("_id"), values["text"], values.get("metadata")
            good = (
                # A whole number beyond 64 bits could not be kept exactly, and is refused.
                (
                    (type(identifier) is int and -(2**63) <= identifier < 2**64)
                    or (isinstance(identifier, str) and identifier.strip(" \t\r\n\v\f") != "")
                )
                and (isinstance(content, str) or (content is None and text_may_be_null))
                and (metadata is None or isinstance(metadata, dict))
                and (not text_may_be_null or isinstance(values.get("title", ""), str | None))
                and (metadata is None or isinstance(metadata.get("domain"), str | None))
            )
        if not good or str(identifier) in rows:
            raise Refused(number)
        rows[str(identifier)] = content or ""
    return list(rows.items())


def refuse_constant(word: str) -> float:
    raise ValueError(word)


@quick
@given(st.builds(mutate, jsonl, st.lists(mutation, max_size=3)))
def test_jsonl(data: bytes) -> None:
    def documents(file: Path) -> Rows:
        return [(document.id, document.text) for document in read_documents(file)]

    def queries(file: Path) -> Rows:
        return [(query.id, query.text) for query in read_queries(file)]

    assert_agreement(documents, lambda data: plain_jsonl(data, True), data)
    assert_agreement(queries, lambda data: plain_jsonl(data, False), data)


@quick
@given(st.binary(max_size=60), st.lists(mutation, min_size=1, max_size=3))
def test_damaged_gzip_is_read_right_or_refused(content: bytes, mutations: list[tuple[str, int, int | bytes]]) -> None:
    rows = b"q1 Q0 d1 1 2.5 t\n" + b"# " + content.replace(b"\n", b"") + b"\n"
    whole_file = gzip.compress(rows, mtime=0)
    read, error = outcome(rows_of_run, mutate(whole_file, mutations))
    if error is None:
        assert read[0] == ("q1", "d1", 2.5)
    else:
        assert "\n" not in str(error)
