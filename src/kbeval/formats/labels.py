"""The judgments of people and models: ``labels.jsonl``, one a line, sorted, fit for git's diff and merge."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kbeval.config import explain
from kbeval.errors import InputError
from kbeval.formats.text import read_bytes, write_atomically
from kbeval.model import Label

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HIGHEST_GRADE = 3

_Vote = Annotated[int, Field(ge=0, le=HIGHEST_GRADE, strict=True)]
_KEY = re.compile(rb'"\s*:')


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, strict=True)
    document: str = Field(min_length=1, strict=True)
    chunk: str | None = None
    grade: int | None = Field(ge=0, le=HIGHEST_GRADE, strict=True)
    source: Literal["human", "llm"]
    by: str = Field(min_length=1, strict=True)
    confidence: float | None = Field(default=None, ge=0, le=1, strict=True)
    votes: tuple[_Vote | None, ...] | None = None
    runs: tuple[str, ...] = ()
    queue: str | None = None
    why: str = ""
    when: str = ""

    @model_validator(mode="after")
    def _people_know(self) -> _Line:
        if self.source == "human" and self.grade is None:
            raise ValueError("expected a grade from a person")
        return self


def read_labels(path: Path) -> list[Label]:
    """Reads the judgments; none where there is no file.

    Raises:
        InputError: a line is no judgment, or judges the same as a line before it.
    """
    if not path.exists():
        return []
    labels: dict[tuple[str, ...], int] = {}
    found = []
    for number, line in enumerate(read_bytes(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        label = _parse(path, number, line)
        if label.key in labels:
            raise InputError(
                path,
                line=number,
                expected="one judgment of a document for a query by each person or model",
                found=f"that of line {labels[label.key]} again",
            )
        labels[label.key] = number
        found.append(label)
    return found


def _parse(path: Path, number: int, line: bytes) -> Label:
    try:
        value = orjson.loads(line)
        if not isinstance(value, dict):
            found = "null" if value is None else f"a {type(value).__name__}"
            raise InputError(path, line=number, expected="a judgment as a JSON object", found=found)
        if len(_KEY.findall(line)) > len(value) and (key := _twice(line)) is not None:
            raise InputError(path, line=number, expected="each key once", found=f"{key!r} twice")
        return Label(**_Line.model_validate(value).model_dump())
    except orjson.JSONDecodeError:
        shown = line.decode(errors="backslashreplace")
        found = "a conflict that git left" if shown.startswith(("<<<<<<<", "=======", ">>>>>>>")) else "no JSON"
        raise InputError(path, line=number, expected="a judgment as a JSON object", found=found) from None
    except ValidationError as error:
        words = explain(error, _Line)
        raise InputError(path, line=number, expected=words["expected"], found=words["found"]) from None


def _twice(line: bytes) -> str | None:
    """A key that an object has twice, of which readers silently take one."""
    pairs: list[tuple[str, Any]] = json.loads(line, object_pairs_hook=list)
    return next((key for key, count in Counter(key for key, _ in pairs).items() if count > 1), None)


def write_labels(path: Path, labels: Iterable[Label]) -> None:
    """Writes the judgments in their order: by query, document, chunk, source and name."""
    write_atomically(path, b"".join(as_line(label) for label in sorted(labels, key=lambda label: label.key)))


def as_line(label: Label) -> bytes:
    """One judgment as its line, the keys sorted."""
    values: dict[str, Any] = asdict(label)
    return orjson.dumps(values, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def merge_labels(old: Iterable[Label], new: Iterable[Label]) -> list[Label]:
    """Both, where a new judgment replaces the old one of the same key; in the order of the file."""
    merged = {label.key: label for label in old} | {label.key: label for label in new}
    return [merged[key] for key in sorted(merged)]
