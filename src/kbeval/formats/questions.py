"""The cache of labelled questions: a committed JSON file that every run replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbeval.config import explain
from kbeval.errors import InputError
from kbeval.formats.text import read_bytes, write_atomically
from kbeval.model import Question

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FORMAT = 1


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    gold_chunks: dict[str, str]
    gold_documents: dict[str, int] = Field(min_length=1)
    source: str
    style: str | None = None
    domain: str | None = None
    provenance: dict[str, Any] = {}


def read_questions(path: Path) -> list[Question]:
    """Reads the cache.

    Raises:
        InputError: it is missing, is no JSON of this format, or holds an id twice.
    """
    try:
        data = orjson.loads(read_bytes(path))
    except orjson.JSONDecodeError as error:
        raise InputError(path, line=error.lineno, expected="JSON", found=str(error.msg)) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("questions"), list):
        raise InputError(
            path, expected=f'an object with "format": {FORMAT} and a list of "questions"', found="another shape"
        )
    questions: dict[str, Question] = {}
    for number, entry in enumerate(data["questions"], start=1):
        try:
            question = Question(**_Entry.model_validate(entry).model_dump())
        except ValidationError as error:
            words = explain(error, _Entry)
            raise InputError(
                path, expected=f"in question {number}: {words['expected']}", found=words["found"]
            ) from None
        if question.id in questions:
            raise InputError(path, expected="each id once", found=f"question {number}: {question.id!r} again")
        questions[question.id] = question
    return list(questions.values())


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Writes the cache, in the order given, one field a line so that a change reads well in a diff."""
    entries = [
        {
            "id": question.id,
            "text": question.text,
            "style": question.style,
            "source": question.source,
            "domain": question.domain,
            "gold_chunks": dict(question.gold_chunks),
            "gold_documents": dict(question.gold_documents),
            "provenance": dict(question.provenance),
        }
        for question in questions
    ]
    data = {"format": FORMAT, "questions": entries}
    write_atomically(path, orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")
