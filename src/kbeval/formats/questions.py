"""The cache of labelled questions: a committed JSON file that every run replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kbeval.config import explain
from kbeval.errors import InputError
from kbeval.formats.text import read_bytes, write_atomically
from kbeval.model import Question, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FORMAT = 1


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    gold_chunks: dict[str, str]
    gold_documents: dict[str, int]
    source: str
    style: str | None = None
    domain: str | None = None
    provenance: dict[str, Any] = {}
    answerable: bool = True
    overlap: float | None = Field(default=None, ge=0, le=1)
    filters: dict[str, Any] = {}

    @model_validator(mode="after")
    def _gold_answers(self) -> _Entry:
        if not self.answerable and self.gold_documents:
            raise ValueError("expected no gold_documents where answerable is false")
        return self


class _RejectedEntry(_Entry):
    text: str  # may be empty: that is what it can be rejected for
    reason: str = Field(min_length=1)
    detail: str = ""


def read_questions(path: Path) -> list[Question]:
    """Reads the questions of the cache.

    Raises:
        InputError: it is missing, is no JSON of this format, or holds an id twice.
    """
    questions: dict[str, Question] = {}
    for number, entry in enumerate(_read(path)["questions"], start=1):
        question = Question(**_checked(path, f"question {number}", entry, _Entry))
        if question.id in questions:
            raise InputError(path, expected="each id once", found=f"question {number}: {question.id!r} again")
        questions[question.id] = question
    return list(questions.values())


def read_rejected(path: Path) -> list[Rejected]:
    """Reads the questions that were written and not taken. Raises as ``read_questions``."""
    rejected = []
    for number, entry in enumerate(_read(path).get("rejected", []), start=1):
        values = _checked(path, f"rejected question {number}", entry, _RejectedEntry)
        reason, detail = values.pop("reason"), values.pop("detail")
        rejected.append(Rejected(Question(**values), reason, detail))
    return rejected


def _read(path: Path) -> dict[str, Any]:
    try:
        data = orjson.loads(read_bytes(path))
    except orjson.JSONDecodeError as error:
        raise InputError(path, line=error.lineno, expected="JSON", found=str(error.msg)) from None
    whole = isinstance(data, dict) and data.get("format") == FORMAT and isinstance(data.get("questions"), list)
    if not whole or not isinstance(data.get("rejected", []), list):
        raise InputError(
            path, expected=f'an object with "format": {FORMAT} and a list of "questions"', found="another shape"
        )
    return dict(data)


def _checked(path: Path, which: str, entry: object, model: type[_Entry]) -> dict[str, Any]:
    try:
        return model.model_validate(entry).model_dump()
    except ValidationError as error:
        words = explain(error, model)
        raise InputError(path, expected=f"in {which}: {words['expected']}", found=words["found"]) from None


def write_questions(path: Path, questions: Iterable[Question], rejected: Iterable[Rejected] = ()) -> None:
    """Writes the cache, in the order given, one field a line so that a change reads well in a diff."""
    data: dict[str, Any] = {"format": FORMAT, "questions": [_entry(question) for question in questions]}
    refused = [{**_entry(each.question), "reason": each.reason, "detail": each.detail} for each in rejected]
    if refused:
        data["rejected"] = refused
    write_atomically(path, orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")


def _entry(question: Question) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": question.id,
        "text": question.text,
        "style": question.style,
        "source": question.source,
        "domain": question.domain,
        "gold_chunks": dict(question.gold_chunks),
        "gold_documents": dict(question.gold_documents),
        "provenance": dict(question.provenance),
    }
    if not question.answerable:
        entry["answerable"] = False
    if question.overlap is not None:
        entry["overlap"] = question.overlap
    if question.filters:
        entry["filters"] = dict(question.filters)
    return entry
