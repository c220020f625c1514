"""BEIR's files: corpus.jsonl, queries.jsonl, and judgments as .tsv.

``metadata`` is where kbeval keeps what BEIR has no place for: of a document its description, filename and
domain, of a query its source, style, domain, provenance and filters. BEIR's own loader ignores it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from kbeval.errors import InputError, KbevalError
from kbeval.formats._fields import show
from kbeval.formats.text import BLANKS, AtomicFile, TextFile, write_atomically
from kbeval.model import Document, LabelledQuery

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from kbeval.model import Qrels

QRELS_HEADER = b"query-id\tcorpus-id\tscore\n"

_DOCUMENT_METADATA = ("description", "filename", "domain")
_NOT_IN_TSV = r"^[ \t\r\n\x0B\x0C]*$|[\t\r\n\x00]"
_JSON_TYPES = {
    bool: "a boolean",
    dict: "an object",
    float: "a decimal number",
    int: "a number",
    list: "a list",
    str: "a string",
    type(None): "null",
}

T = TypeVar("T", Document, LabelledQuery)


def read_documents(path: str | os.PathLike[str]) -> list[Document]:
    """Reads corpus.jsonl, plain or gzipped, in the file's order.

    An integer ``_id`` becomes a string. A missing title, and null as title, text, description, filename or
    domain, is read as none. Metadata that kbeval does not know is kept in ``Document.metadata``.

    Raises:
        InputError: a line is no JSON object, lacks ``_id`` or ``text``, holds a value of a wrong type, or has
            the id of another line.
    """
    return list(iter_documents(path))


def iter_documents(path: str | os.PathLike[str]) -> Iterator[Document]:
    """As ``read_documents``, one at a time: of what was read only the ids are kept."""

    def document(line: _Line) -> Document:
        metadata = line.inner("metadata") or _Line(line.path, line.number, {})
        return Document(
            id=line.identifier(),
            text=line.text("text", required=True) or "",
            title=line.text("title") or "",
            description=metadata.text("description") or "",
            filename=metadata.text("filename") or "",
            domain=metadata.text("domain"),
            metadata={key: value for key, value in metadata.values.items() if key not in _DOCUMENT_METADATA},
        )

    return _read(path, document)


def read_queries(path: str | os.PathLike[str]) -> list[LabelledQuery]:
    """Reads queries.jsonl, plain or gzipped, in the file's order; without judgments.

    Ids and null are treated as in ``read_documents``. Metadata that kbeval does not know is left out.

    Raises:
        InputError: as ``read_documents``; also where ``text`` is null.
    """

    def query(line: _Line) -> LabelledQuery:
        metadata = line.inner("metadata") or _Line(line.path, line.number, {})
        provenance = metadata.inner("provenance")
        filters = metadata.inner("filters")
        text = line.text("text", required=True)
        if text is None:
            raise line.error("a string as text", "null")
        return LabelledQuery(
            id=line.identifier(),
            text=text,
            source=metadata.text("source"),
            style=metadata.text("style"),
            domain=metadata.text("domain"),
            provenance=None if provenance is None else provenance.values,
            answerable=metadata.boolean("answerable", default=True),
            overlap=metadata.share("overlap"),
            added=metadata.strings("added"),
            left_out=metadata.boolean("left_out", default=False),
            filters={} if filters is None else filters.values,
        )

    return list(_read(path, query))


def write_documents(path: str | os.PathLike[str], documents: Iterable[Document]) -> None:
    """Writes corpus.jsonl in the order given. The same documents give the same bytes.

    Raises:
        KbevalError: the file cannot be written, or a metadata value has no JSON.
    """
    with AtomicFile(path) as file:
        for document in documents:
            file.write(document_as_jsonl(document))


def write_queries(path: str | os.PathLike[str], queries: Iterable[LabelledQuery]) -> None:
    """Writes queries.jsonl in the order given, without judgments. The same queries give the same bytes.

    Raises:
        KbevalError: the file cannot be written, or a provenance value has no JSON.
    """
    write_atomically(path, queries_as_jsonl(queries))


def write_qrels_tsv(path: str | os.PathLike[str], qrels: Qrels) -> None:
    """Writes judgments as BEIR's .tsv, with its header. Ids may hold blanks, but no tab and no line break.

    Raises:
        KbevalError: an id cannot be written, or the file cannot.
    """
    write_atomically(path, qrels_as_tsv(qrels))


def document_as_jsonl(document: Document) -> bytes:
    """The line that ``write_documents`` writes for a document.

    Raises:
        KbevalError: a metadata value has no JSON.
    """
    return _as_json(_document_values(document))


def queries_as_jsonl(queries: Iterable[LabelledQuery]) -> bytes:
    """What ``write_queries`` writes."""
    return b"".join(_as_json(_query_values(query)) for query in queries)


def qrels_as_tsv(qrels: Qrels) -> bytes:
    """What ``write_qrels_tsv`` writes."""
    for column in ("query", "document"):
        ids = qrels.frame[column]
        refused = ids.filter(ids.str.contains(_NOT_IN_TSV))
        if len(refused):
            raise KbevalError(f"a .tsv file cannot hold the id {show(refused[0])}")
    lines = qrels.frame.select("query", "document", "grade").write_csv(
        include_header=False, separator="\t", quote_style="never"
    )
    return QRELS_HEADER + lines.encode()


class _Line:
    """One JSON object of a file, and the words for what is wrong with it."""

    def __init__(self, path: object, number: int, values: dict[str, Any], place: str = "") -> None:
        self.path = path
        self.number = number
        self.values = values
        self._place = place

    def error(self, expected: str, found: str) -> InputError:
        return InputError(self.path, expected=expected, found=found, line=self.number)

    def identifier(self) -> str:
        if "_id" not in self.values:
            raise self.error("an object with _id", f"only {', '.join(map(repr, self.values)) or 'nothing'}")
        value = self.values["_id"]
        if type(value) is int:  # not bool, which is an int to isinstance
            return str(value)
        if not isinstance(value, str):
            raise self.error("a string or an integer as _id", _JSON_TYPES[type(value)])
        if not value.strip(BLANKS.decode()):
            raise self.error("an _id that is not empty", repr(value))
        return value

    def text(self, key: str, *, required: bool = False) -> str | None:
        if required and key not in self.values:
            raise self.error(f"an object with {key}", f"only {', '.join(map(repr, self.values))}")
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"a string as {self._place}{key}", _JSON_TYPES[type(value)])
        return value

    def boolean(self, key: str, *, default: bool) -> bool:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(f"a boolean as {self._place}{key}", _JSON_TYPES[type(value)])
        return value

    def share(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.error(f"a number from 0 to 1 as {self._place}{key}", repr(value))
        return float(value)

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(f"a list of strings as {self._place}{key}", repr(value))
        return tuple(value)

    def inner(self, key: str) -> _Line | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(f"an object as {self._place}{key}", _JSON_TYPES[type(value)])
        return _Line(self.path, self.number, value, f"{self._place}{key}.")


def _read(path: str | os.PathLike[str], build: Callable[[_Line], T]) -> Iterator[T]:
    first_lines: dict[str, int] = {}
    for line in _lines(path):
        item = build(line)
        first = first_lines.setdefault(item.id, line.number)
        if first != line.number:
            raise line.error("each _id once", f"{show(item.id)} again, after line {first}")
        yield item


def _lines(path: str | os.PathLike[str]) -> Iterator[_Line]:
    number = 0
    for block in TextFile(path).blocks():
        # Cut at LF alone: str.splitlines() also cuts at characters that JSON strings may hold.
        for text in block[:-1].split(b"\n"):
            number += 1
            if not text.strip(BLANKS):
                continue
            try:
                values = orjson.loads(text)
            except orjson.JSONDecodeError as error:
                found = f"{show(text)} ({error.msg}, column {error.colno})"
                raise InputError(path, expected="a JSON object", found=found, line=number) from None
            if not isinstance(values, dict):
                raise InputError(path, expected="a JSON object", found=_JSON_TYPES[type(values)], line=number)
            yield _Line(path, number, values)


def _document_values(document: Document) -> dict[str, Any]:
    known = {key: getattr(document, key) for key in _DOCUMENT_METADATA}
    return {
        "_id": document.id,
        "title": document.title,
        "text": document.text,
        "metadata": _sorted_by_key({**document.metadata, **{k: v for k, v in known.items() if v}}),
    }


def _query_values(query: LabelledQuery) -> dict[str, Any]:
    known = {
        "source": query.source,
        "style": query.style,
        "domain": query.domain,
        "provenance": query.provenance,
        "answerable": None if query.answerable else False,
        "overlap": query.overlap,
        "added": list(query.added) or None,
        "left_out": query.left_out or None,
        "filters": _sorted_by_key(dict(query.filters)) or None,
    }
    metadata = {key: value for key, value in known.items() if value is not None}
    return {"_id": query.id, "text": query.text, "metadata": _sorted_by_key(metadata)}


def _sorted_by_key(values: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(values.items()))


def _as_json(values: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)
    except (TypeError, ValueError) as error:
        raise KbevalError(f"{show(values['_id'])} cannot be written as JSON: {error}") from error
