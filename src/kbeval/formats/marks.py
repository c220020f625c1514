"""What people say about whole questions: ``question_marks.jsonl``, one mark a line, sorted, beside the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbeval.config import explain
from kbeval.errors import InputError
from kbeval.formats.text import read_bytes, write_atomically
from kbeval.model import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE = "question_marks.jsonl"


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    query: str = Field(min_length=1)
    mark: Literal["unanswerable", "bad"]
    by: str = Field(min_length=1)
    why: str = ""
    when: str = ""


def marks_path(labels: Path) -> Path:
    """Where the marks lie: beside the labels."""
    return labels.parent / FILE


def read_marks(path: Path) -> list[Mark]:
    """Reads the marks; none where there is no file.

    Raises:
        InputError: a line is no mark, or a person marks a question twice.
    """
    if not path.exists():
        return []
    lines: dict[tuple[str, str], int] = {}
    found = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        mark = _parse(path, number, line)
        if mark.key in lines:
            raise InputError(
                path,
                line=number,
                expected="one mark of a question by each person",
                found=f"that of line {lines[mark.key]} again",
            )
        lines[mark.key] = number
        found.append(mark)
    return found


def _parse(path: Path, number: int, line: bytes) -> Mark:
    try:
        return Mark(**_Line.model_validate(orjson.loads(line)).model_dump())
    except orjson.JSONDecodeError:
        shown = line.decode(errors="backslashreplace")
        found = "a conflict that git left" if shown.startswith(("<<<<<<<", "=======", ">>>>>>>")) else "no JSON"
        raise InputError(path, line=number, expected="a mark as a JSON object", found=found) from None
    except ValidationError as error:
        words = explain(error, _Line)
        raise InputError(path, line=number, expected=words["expected"], found=words["found"]) from None


def write_marks(path: Path, marks: Iterable[Mark]) -> None:
    """Writes the marks, sorted by question and person."""
    lines = [orjson.dumps(as_dict(mark), option=orjson.OPT_SORT_KEYS) for mark in sorted(marks, key=lambda m: m.key)]
    write_atomically(path, b"".join(line + b"\n" for line in lines))


def as_dict(mark: Mark) -> dict[str, Any]:
    """The fields of a mark."""
    return {"query": mark.query, "mark": mark.mark, "by": mark.by, "why": mark.why, "when": mark.when}
