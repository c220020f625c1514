"""Relevance judgments: TREC's ``query 0 document grade``, and BEIR's .tsv ``query-id corpus-id score``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.errors import InputError
from kbeval.formats import _fields
from kbeval.formats.ids import trec_ids, trec_lines
from kbeval.formats.text import BLANKS, TextFile
from kbeval.model import Qrels

if TYPE_CHECKING:
    import os
    from pathlib import Path

_COLUMNS: dict[str, type[pl.DataType]] = {"query": pl.String, "document": pl.String, "grade": pl.Float64}
_LONE_CR = re.compile(rb"\r[^\r\n]")
_LARGEST_GRADE = 2**31 - 1

# What a header's cells are called, in lower case and as one word. Other names are refused: a
# first line that cannot be read might as well be a judgment, and BEIR's own loader loses it.
_QUERY_NAMES = {"q", "qid", "query", "queryid", "question", "questionid", "topic", "topicid", "topicno"}
_DOCUMENT_NAMES = {
    "d", "did", "doc", "docid", "docno", "document", "documentid", "corpus", "corpusid", "pid", "passage",
    "passageid", "chunk", "chunkid", "entity", "entityid",
}  # fmt: skip
_GRADE_NAMES = {
    "score", "rel", "relevance", "relevancescore", "relevancelabel", "grade", "label", "judgment",
    "judgement", "rating", "gain", "value", "qrel",
}  # fmt: skip


@dataclass(frozen=True)
class _Layout:
    """Where the three things stand in a line, and what to say when they do not.

    Attributes:
        tabs: whether only tabs separate. Then ids may hold blanks, and no line is a comment.
        width: how many fields a line has.
        kept: the fields of query, document and grade.
        expected: the columns, for errors.
    """

    tabs: bool
    width: int
    kept: tuple[int, int, int]
    expected: str

    def is_header(self, cells: list[bytes]) -> bool:
        """Whether the cells of a first line are names and not a judgment."""
        if len(cells) != self.width or _fields.decimal(cells[-1]) is not None:
            return False
        query, document, grade = (re.sub("[-_ ]", "", cells[place].decode().lower()) for place in self.kept)
        return query in _QUERY_NAMES and document in _DOCUMENT_NAMES and grade in _GRADE_NAMES

    def cells(self, line: bytes) -> list[bytes]:
        """The fields of a line; none where it is blank."""
        if not self.tabs:
            return _fields.split(line)
        return line.rstrip(b"\r").split(b"\t") if line.strip(BLANKS) else []


_BEIR = _Layout(True, 3, (0, 1, 2), "3 columns separated by tabs (query-id corpus-id score)")
_TREC = _Layout(False, 4, (0, 2, 3), "4 columns (query 0 document grade)")


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Reads judgments in either layout. See ``kbeval.formats.trec.read_qrels``."""
    file = TextFile(path)
    text = file.read()
    if not text.endswith(b"\n"):
        text += b"\n"
    if not _fields.is_plain_text(text):
        for number, line in enumerate(text.split(b"\n")[:-1], start=1):
            _fields.check_plain_text(file.path, number, line)
    layout, header = _layout_of(file.path, text)
    frame = _parse_at_once(text, layout, header)
    if frame is None:
        frame = _parse_lines(file.path, text, layout, header)
    if frame.is_empty():
        raise InputError(file.path, expected="at least one judgment", found="none")
    return _qrels(file.path, frame)


def qrels_as_trec(qrels: Qrels, *, escape_ids: bool = False) -> bytes:
    """Judgments as TREC qrels. See ``kbeval.formats.trec.write_trec_qrels``."""
    table = qrels.frame.select(
        trec_ids(qrels.frame["query"], escape=escape_ids),
        pl.lit("0").alias("iteration"),
        trec_ids(qrels.frame["document"], escape=escape_ids),
        "grade",
    )
    return trec_lines(table)


def _layout_of(path: Path, text: bytes) -> tuple[_Layout, int | None]:
    """The layout of a file, by its content, and the number of its header line (from 0) where it has one."""
    table = _fields.FieldTable(text)
    filled = table.counts > 0
    lines = np.flatnonzero(filled & ~table.lines_beginning_with(b"#"))
    if not len(lines):
        lines = np.flatnonzero(filled)
    if not len(lines):
        return _TREC, None
    first = int(lines[0])
    first_line = table.text_of_line(first)
    for layout in (_BEIR, _TREC):
        if layout.is_header(layout.cells(first_line)):
            return layout, first
    as_trec = table.counts[lines] == _TREC.width
    as_beir = _fields.FieldTable(text, tabs_only=True).counts[lines] == _BEIR.width
    if (as_trec & as_beir).all():
        raise InputError(
            path,
            expected="a header (query-id corpus-id score) where ids hold blanks",
            found="lines that could be BEIR's 3 columns and TREC's 4",
            line=first + 1,
        )
    return (_BEIR if as_beir.sum() > as_trec.sum() else _TREC), None


def _parse_at_once(text: bytes, layout: _Layout, header: int | None) -> pl.DataFrame | None:
    """Parses all lines at once; None where there is anything that only a look at each line can judge."""
    if layout.tabs and _LONE_CR.search(text):
        return None
    table = _fields.FieldTable(text, tabs_only=layout.tabs)
    filled = table.counts > 0
    if header is not None:
        filled[header] = False
    complete = filled & (table.counts == layout.width)
    rest = filled & ~complete
    if rest.any() and (layout.tabs or (rest & ~table.lines_beginning_with(b"#")).any()):
        return None
    lines = np.flatnonzero(complete)
    first_fields = (np.cumsum(table.counts) - table.counts)[lines]
    frame = _fields.read_columns(table.compact(first_fields[:, None] + np.array(layout.kept)), _COLUMNS, separator="\t")
    if frame is None:
        return None
    grade = frame["grade"]
    if (grade % 1 != 0).any() or (grade.abs() > _LARGEST_GRADE).any():
        return None
    only_blanks = pl.col("query", "document").str.strip_chars(BLANKS.decode()) == ""
    if layout.tabs and not frame.filter(pl.any_horizontal(only_blanks)).is_empty():
        return None
    return frame.with_columns(pl.col("grade").cast(pl.Int64), line=pl.Series(lines + 1))


def _parse_lines(path: Path, text: bytes, layout: _Layout, header: int | None) -> pl.DataFrame:
    rows: list[tuple[str, str, int, int]] = []
    for number, line in enumerate(text.split(b"\n")[:-1]):
        cells = layout.cells(line)
        if not cells or number == header:
            continue
        try:
            rows.append((*_judgment(path, number + 1, cells, layout), number + 1))
        except InputError:
            # Only what cannot be data is a comment (METHOD 2): ids may begin with "#".
            if layout.tabs or not line.startswith(b"#"):
                raise
    schema = {"query": pl.String, "document": pl.String, "grade": pl.Int64, "line": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _judgment(path: Path, number: int, cells: list[bytes], layout: _Layout) -> tuple[str, str, int]:
    """Query, document and grade of a line, once it is known to be data."""
    if len(cells) != layout.width:
        columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        raise InputError(path, expected=layout.expected, found=columns, line=number)
    query, document, grade_cell = (cells[place] for place in layout.kept)
    for cell in (query, document):
        if not cell.strip(BLANKS):
            raise InputError(path, expected=layout.expected, found="an empty id", line=number)
        if b"\r" in cell:
            found = f"a lone CR in {_fields.show(cell)}"
            raise InputError(path, expected="lines that end with LF or CRLF", found=found, line=number)
    grade = _fields.whole(grade_cell.strip(BLANKS))
    if grade is None:
        expected = f"a whole number as grade (column {layout.kept[-1] + 1})"
        raise InputError(path, expected=expected, found=_fields.show(grade_cell), line=number)
    if abs(grade) > _LARGEST_GRADE:
        expected = f"a grade between -{_LARGEST_GRADE} and {_LARGEST_GRADE}"
        raise InputError(path, expected=expected, found=_fields.show(grade_cell), line=number)
    return query.decode(), document.decode(), grade


def _qrels(path: Path, frame: pl.DataFrame) -> Qrels:
    """Judgments in their order, each once.

    Args:
        path: the file, for errors and warnings.
        frame: query, document, grade and line, in file order.
    """
    pair = ("query", "document")
    warnings: tuple[str, ...] = ()
    repeats = (
        frame.filter(pl.struct(pair).is_duplicated())
        .with_columns(pl.col("grade", "line").first().over(pair).name.prefix("first_"))
        .filter(pl.col("line") != pl.col("first_line"))
    )
    if not repeats.is_empty():
        _refuse_conflicts(path, repeats)
        warnings = (_repeats_warning(path, repeats),)
        frame = frame.unique(pair, keep="first")
    ordered = frame.drop("line").sort("query", "grade", "document", descending=[False, True, True])
    return Qrels(frame=ordered, warnings=warnings)


def _refuse_conflicts(path: Path, repeats: pl.DataFrame) -> None:
    conflicts = repeats.filter(pl.col("grade") != pl.col("first_grade"))
    if not conflicts.is_empty():
        row = conflicts.row(0, named=True)
        raise InputError(
            path,
            expected=f"one grade for {_fields.show_pair(row['query'], row['document'])}",
            found=f"{row['grade']}, after {row['first_grade']} on line {row['first_line']}",
            line=row["line"],
        )


def _repeats_warning(path: Path, repeats: pl.DataFrame) -> str:
    row = repeats.row(0, named=True)
    count = "1 judgment is" if len(repeats) == 1 else f"{len(repeats)} judgments are"
    first = _fields.show_pair(row["query"], row["document"])
    lines = f"lines {row['first_line']} and {row['line']}"
    return f"{path.name}: {count} repeated, and counted once (first: {first}, {lines})"
