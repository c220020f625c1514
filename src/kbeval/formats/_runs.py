"""TREC runs: ``query Q0 document rank score tag``, a line each."""

from __future__ import annotations

import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from kbeval.errors import InputError, KbevalError
from kbeval.formats import _fields
from kbeval.formats.ids import escape_id, trec_ids, trec_lines
from kbeval.formats.text import TextFile, write_atomically
from kbeval.model import Run
from kbeval.order import falling_scores, falls_strictly, one_order, query_codes, query_segments
from kbeval.repeats import first_repeat

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from kbeval.order import Rows

COLUMNS = "6 columns (query Q0 document rank score tag)"

_KEPT: dict[str, type[pl.DataType]] = {
    "query": pl.String,
    "document": pl.String,
    "rank": pl.Float64,
    "score": pl.Float64,
}
_WHOLE: dict[str, type[pl.DataType]] = {
    "query": pl.String,
    "q0": pl.String,
    "document": pl.String,
    "rank": pl.Float64,
    "score": pl.Float64,
    "tag": pl.String,
}
_KEPT_FIELDS = np.array([0, 2, 3, 4])
_LONE_CR = re.compile(rb"\r[^\r\n]")
_LARGEST_RANK = 2**31 - 1
_RANKS = (-_LARGEST_RANK, _LARGEST_RANK)  # beyond them ranks are not told apart

# Polars works on a block in parallel, but what stands around it does not: two blocks at a time fill the gaps,
# more would only cost memory.
_WORKERS = 2


@dataclass(frozen=True)
class _Part:
    """What one block of a run says, in file order. Queries are kept as segments, since they repeat."""

    lines: int
    names: pl.Series
    lengths: NDArray[np.int64]
    document: pl.Series
    rank: NDArray[np.int32]
    score: NDArray[np.float64]


def read_run(path: str | os.PathLike[str], name: str) -> Run:
    """Reads a run and puts it into the one order. See ``kbeval.formats.trec.read_run``."""
    file = TextFile(path)
    parts = [part for part in _parts(file) if len(part.score)]
    if not parts:
        raise InputError(file.path, expected="a run of at least one line", found="none")
    codes, queries = query_codes(pl.concat([part.names for part in parts]))
    lengths = np.concatenate([part.lengths for part in parts])
    rank = np.concatenate([part.rank for part in parts])
    score = np.concatenate([part.score for part in parts])
    documents = [part.document for part in parts]
    del parts
    # One piece of memory: gathering from the many that parsing leaves takes three times as long.
    document = pl.concat(documents, rechunk=True)
    del documents

    with ThreadPoolExecutor(1) as beside:
        # Sorting needs one processor; so does looking for documents that a query has twice.
        repeat = beside.submit(_repeated, np.repeat(codes.astype(np.uint32), lengths), document)
        rank_may_contradict = _leaves_rank_order(codes, lengths, rank, score)
        order = one_order(codes, lengths, document, score)
        if order is not None:
            document, score = document.gather(order), score[order]
            rank = rank[order] if rank_may_contradict else rank
    if (found := repeat.result()) is not None:
        raise _repeat_error(file, queries[found[0]], found[1])
    sizes = np.bincount(codes, weights=lengths).astype(np.int64)
    group = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)

    def in_file(rows: Rows) -> Rows:
        return rows if order is None else order[rows]

    warnings: tuple[str, ...] = ()
    if rank_may_contradict and len(rows := _contradictions(group, rank, score)):
        first = int(rows[np.argmin(in_file(rows))])
        warnings = (_rank_warning(file, name, len(rows), queries[int(group[first])], document[first]),)
    frame = pl.DataFrame({"query": queries.gather(group), "document": document, "score": score})
    return Run(name=name, frame=frame, warnings=warnings)


def _repeated(group: NDArray[np.uint32], document: pl.Series) -> tuple[int, str] | None:
    """The code of a query and the document that it has twice, the pair that is complete first; both in file order."""
    row = first_repeat(group, document)
    return None if row is None else (int(group[row]), document[row])


def _parts(file: TextFile) -> Iterator[_Part]:
    """Parses a file block by block, in order. Only blocks that need it are read line by line."""
    lines_before = 0
    with closing(_parsed_ahead(file.blocks())) as parsed:
        for block, part in parsed:
            part = part or _parse_lines(file.path, block, lines_before)
            yield part
            lines_before += part.lines


def _parsed_ahead(blocks: Iterator[bytes]) -> Generator[tuple[bytes, _Part | None]]:
    with ThreadPoolExecutor(_WORKERS) as pool:
        ahead: deque[tuple[bytes, Future[_Part | None]]] = deque()
        for block in blocks:
            ahead.append((block, pool.submit(_parse_block, block)))
            if len(ahead) > _WORKERS:
                first, future = ahead.popleft()
                yield first, future.result()
        for last, future in ahead:
            yield last, future.result()


def _parse_block(block: bytes) -> _Part | None:
    """Parses a block at once; None where it holds anything that only a look at each line can judge."""
    if not _fields.is_plain_text(block):
        return None
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    frame, lines = None, None
    separator = _fields.sole_separator(block)
    if separator is not None:
        frame = _fields.read_columns(block, _WHOLE, separator=separator, kept=list(_KEPT))
    if frame is None and not _LONE_CR.search(block):
        table = _fields.FieldTable(block)
        if ((table.counts == 0) | (table.counts >= len(_WHOLE))).all():
            fields = table.firsts()[:, None] + _KEPT_FIELDS
            frame, lines = _fields.read_columns(table.compact(fields), _KEPT, separator="\t"), table.lines
    if frame is None:
        return None
    rank = frame["rank"].to_numpy()
    if (np.floor(rank) != rank).any():
        return None
    return _part(frame, len(frame) if lines is None else lines)


def _parse_lines(path: Path, block: bytes, lines_before: int) -> _Part:
    rows = [row[1:] for row in _rows(path, block, lines_before)]
    return _part(pl.DataFrame(rows, schema=_KEPT, orient="row"), block.count(b"\n"))


def _part(frame: pl.DataFrame, lines: int) -> _Part:
    names, lengths = query_segments(frame["query"])
    rank = frame["rank"].clip(*_RANKS).to_numpy().astype(np.int32)
    return _Part(lines, names, lengths, frame["document"], rank, frame["score"].to_numpy())


def _rows(path: Path, block: bytes, lines_before: int) -> Iterator[tuple[int, str, str, float, float]]:
    """Line number, query, document, rank and score of each line that is data.

    Raises:
        InputError: a line is neither data nor blank nor a comment.
    """
    for number, line in enumerate(block.split(b"\n")[:-1], start=lines_before + 1):
        _fields.check_plain_text(path, number, line)
        fields = _fields.split(line, len(_WHOLE))
        if not fields:
            continue
        try:
            rank, score = _numbers(path, number, fields)
        except InputError:
            # Only what cannot be data is a comment (METHOD 2): ids may begin with "#".
            if line.startswith(b"#"):
                continue
            raise
        yield number, fields[0].decode(), fields[2].decode(), rank, score


def _numbers(path: Path, number: int, fields: list[bytes]) -> tuple[float, float]:
    """Rank and score of a line, once it is known to be data."""
    if len(fields) < len(_WHOLE):
        columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        raise InputError(path, expected=COLUMNS, found=columns, line=number)
    query, _, _, rank_field, score_field, tag = fields
    rank = _fields.whole(rank_field)
    if rank is None:
        found = f"{_fields.show(rank_field)} (query {_fields.show(query)})"
        raise InputError(path, expected="a whole number as rank (column 4)", found=found, line=number)
    score = _fields.decimal(score_field)
    if score is None:
        found = f"{_fields.show(score_field)} (query {_fields.show(query)})"
        raise InputError(path, expected="a finite decimal number as score (column 5)", found=found, line=number)
    if b"\r" in tag:  # the file of another system would be a single line, and its rest a tag
        expected, found = "lines that end with LF or CRLF", "a lone CR in the tag"
        raise InputError(path, expected=expected, found=found, line=number)
    return float(rank), score


def _leaves_rank_order(
    codes: NDArray[np.int64], lengths: NDArray[np.int64], rank: NDArray[np.int32], score: NDArray[np.float64]
) -> bool:
    """Whether a run could have a rank that contradicts its score: cheap, and right if it says no.

    All arrays are in file order. Where each query stands in one piece, its ranks never fall and its scores
    never rise, nothing contradicts.
    """
    changes = np.concatenate(([True], codes[1:] != codes[:-1]))
    if int(changes.sum()) > len(np.unique(codes)):
        return True
    starts = np.cumsum(lengths)[:-1][changes[1:]]  # a query may go on in the next block
    disorder = (rank[1:] < rank[:-1]) | (score[1:] > score[:-1])
    disorder[starts - 1] = False
    return bool(disorder.any())


def _contradictions(group: NDArray[np.uint32], rank: NDArray[np.int32], score: NDArray[np.float64]) -> Rows:
    """Rows that have a better rank than a row of the same query with a higher score.

    All arrays are in the one order. Equal scores contradict no rank.
    """
    rank_falls = (group[1:] == group[:-1]) & (rank[1:] < rank[:-1])
    if not rank_falls.any():
        return np.empty(0, dtype=np.uint32)
    suspect = np.zeros(int(group[-1]) + 1, dtype=bool)
    suspect[group[1:][rank_falls]] = True
    rows = np.flatnonzero(suspect[group]).astype(np.uint32)
    query, its_score = group[rows].astype(np.int64), score[rows]
    # One running maximum serves all queries: each has a range of numbers of its own, above those before it.
    its_rank = rank[rows].astype(np.int64) + _LARGEST_RANK + query * 2**33
    worst_so_far = np.maximum.accumulate(its_rank)
    new_level = np.ones(len(rows), dtype=bool)
    new_level[1:] = (query[1:] != query[:-1]) | (its_score[1:] != its_score[:-1])
    level_start = np.maximum.accumulate(np.where(new_level, np.arange(len(rows)), 0))
    worst_above = worst_so_far[level_start - 1]
    worst_above[level_start == 0] = -1  # nothing stands above the first row
    same_query = worst_above >= query * 2**33
    contradicting: Rows = rows[same_query & (its_rank < worst_above)]
    return contradicting


def _rank_warning(file: TextFile, name: str, count: int, query: str, document: str) -> str:
    line = next(_lines_of(file, query, document))
    lines = "1 line" if count == 1 else f"{count} lines"
    where = f"first: query {_fields.show(query)}, line {line}"
    return f"{name}: the rank contradicts the score on {lines} ({where}); the score decides"


def _lines_of(file: TextFile, query: str, document: str) -> Iterator[int]:
    """The numbers of the lines that hold a document of a query. Reads the file again, as far as is asked."""
    lines_before = 0
    for block in file.blocks():
        if document.encode() in block:
            for number, its_query, its_document, _, _ in _rows(file.path, block, lines_before):
                if (its_query, its_document) == (query, document):
                    yield number
        lines_before += block.count(b"\n")


def _repeat_error(file: TextFile, query: str, document: str) -> InputError:
    first, second = islice(_lines_of(file, query, document), 2)
    found = f"{_fields.show_pair(query, document)} again, after line {first}"
    return InputError(file.path, expected="each document once in a query", found=found, line=second)


def write_run(path: str | os.PathLike[str], frame: pl.DataFrame, tag: str, *, escape_ids: bool = False) -> None:
    """Writes a run. See ``kbeval.formats.trec.write_run``."""
    if not tag or tag != escape_id(tag):
        raise KbevalError(f"the tag of a run must be one word without a percent sign, found {_fields.show(tag)}")
    frame = frame.sort("query", maintain_order=True)
    _, lengths = query_segments(frame["query"])
    table = pl.DataFrame(
        {
            "query": trec_ids(frame["query"], escape=escape_ids),
            "q0": pl.repeat("Q0", len(frame), eager=True),
            "document": trec_ids(frame["document"], escape=escape_ids),
            "rank": _ranks(lengths),
            "score": _falling(frame["score"].cast(pl.Float64).to_numpy(), lengths),
            "tag": pl.repeat(tag, len(frame), eager=True),
        }
    )
    write_atomically(path, trec_lines(table))


def _ranks(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    first = np.cumsum(lengths) - lengths
    return np.arange(1, int(lengths.sum()) + 1) - np.repeat(first, lengths)


def _falling(score: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """The scores, made to fall strictly in those queries where they do not."""
    first = np.cumsum(lengths) - lengths
    query = np.repeat(np.arange(len(lengths)), lengths)
    written = score.copy()
    for number in np.unique(query[~falls_strictly(score, first)]):
        rows = slice(first[number], first[number] + lengths[number])
        written[rows] = falling_scores(score[rows])
    return written
