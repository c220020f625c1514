"""TREC runs and judgments, read exactly or refused, and written so that every tool reads the same."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.formats import _qrels, _runs
from kbeval.formats._qrels import qrels_as_trec
from kbeval.formats.ids import escape_id, unescape_id
from kbeval.formats.text import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from kbeval.model import Qrels, Run

__all__ = [
    "escape_id",
    "qrels_as_trec",
    "read_qrels",
    "read_run",
    "run_name",
    "run_names",
    "unescape_id",
    "write_run",
    "write_trec_qrels",
]

_RUN_SUFFIXES = (".trec", ".run", ".res", ".txt")


def read_run(path: str | os.PathLike[str], name: str | None = None) -> Run:
    """Reads a TREC run, plain or gzipped, and puts it into METHOD 2's one order.

    Fields are separated by any run of the six ASCII blanks; the second column is ignored, and the sixth (the
    tag) is the rest of the line. Skipped are blank lines, and lines that begin with ``#`` and cannot be data.

    Args:
        path: the file; also a pipe.
        name: the run's name; ``run_name(path)`` without it.

    Returns:
        The run, with a warning where a rank contradicts its score.

    Raises:
        InputError: the file cannot be read exactly: it is missing or damaged, holds no line, is not UTF-8,
            a line lacks a column, a rank is no whole number, a score is no finite decimal number, or a query
            has a document twice.
    """
    return _runs.read_run(path, run_name(path) if name is None else name)


def read_qrels(path: str | os.PathLike[str]) -> Qrels:
    """Reads judgments, plain or gzipped: TREC's four columns or BEIR's three, told apart by content.

    BEIR's columns are separated by tabs alone, so that ids may hold blanks; its header may be missing. A
    first line that is neither a judgment nor a header with known names is refused.

    Returns:
        The judgments, each once, with a warning where lines repeat one another.

    Raises:
        InputError: the file cannot be read exactly: it is missing or damaged, holds no judgment, is not
            UTF-8, a line has another number of columns, a grade is no whole number or beyond 32 bits, or a
            document has two grades in one query.
    """
    return _qrels.read_qrels(path)


def write_run(path: str | os.PathLike[str], frame: pl.DataFrame, tag: str, escape_ids: bool = False) -> None:
    """Writes a TREC run whose scores fall strictly, also as 32-bit floats, so that every tool agrees on it.

    Args:
        path: the file; replaced as a whole.
        frame: the columns query, document and score; the rows of each query in rank order. Scores that do not
            fall are lowered by ``kbeval.order.falling_scores``.
        tag: the run's tag, one word.
        escape_ids: percent-encode ids (``unescape_id`` undoes it).

    Raises:
        KbevalError: the tag is no word, an id cannot be written, or the file cannot.
    """
    _runs.write_run(path, frame, tag, escape_ids=escape_ids)


def write_trec_qrels(path: str | os.PathLike[str], qrels: Qrels, escape_ids: bool = False) -> None:
    """Writes judgments as TREC qrels.

    Raises:
        KbevalError: an id cannot be written without ``escape_ids``, or the file cannot.
    """
    write_atomically(path, qrels_as_trec(qrels, escape_ids=escape_ids))


def run_name(path: str | os.PathLike[str]) -> str:
    """A run's name: its file name without ``.gz`` and then ``.trec``, ``.run``, ``.res`` or ``.txt``."""
    file_name = Path(path).name
    stem = file_name.removesuffix(".gz")
    for suffix in _RUN_SUFFIXES:
        if stem.endswith(suffix):
            stem = stem.removesuffix(suffix)
            break
    return stem or file_name


def run_names(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The names of several runs, in their order; equal ones get as many of their parent folders in front as it takes.

    Raises:
        KbevalError: two runs have the same name even so, or a name is not one line of text.
    """
    plain = [run_name(path) for path in paths]
    for path, name in zip(paths, plain, strict=True):
        if not _is_one_line(name):
            raise KbevalError(f"{os.fspath(path)!r}: expected a file name of one line of UTF-8, found another")
    # Not resolved: the folders are those that the user sees, also where the file is a link.
    folders = [Path(os.path.abspath(path)).parent.parts for path in paths]  # noqa: PTH100
    names = plain
    for depth in range(1, max(map(len, folders), default=0) + 1):
        count = Counter(names)
        if max(count.values(), default=1) == 1:
            break
        names = [
            name if count[name] == 1 else "/".join([*parts[-depth:], first]).replace("//", "/")
            for name, first, parts in zip(names, plain, folders, strict=True)
        ]
    for name, times in Counter(names).items():
        if times > 1:
            same = ", ".join(str(path) for path, its_name in zip(paths, names, strict=True) if its_name == name)
            raise KbevalError(f"{times} runs are named {name!r} ({same}): rename one, or give it once")
    return names


def _is_one_line(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name.splitlines() == [name]
