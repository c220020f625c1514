"""Reads what a model was asked for out of what it said: JSON, JSON in prose or in a code fence, or the bare value."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from kbeval.llm.errors import Unparsable
from kbeval.secrets import well_formed

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_FENCE = re.compile(r"^\s*```[\w-]*\s*$", re.MULTILINE)
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,9})?")
_MOST_OBJECTS = 100
"""Places that are looked at: a list of braces is no answer, and would be read from each of them."""
_LONGEST_LITERAL = 10_000
_LONGEST_LABELLED = 2_000
_QUOTES = "\"'`“”‘’„«»*_ "
_DECODER = json.JSONDecoder(strict=False)  # line breaks within strings are common
_REFUSAL = re.compile(
    r"^\W*(?:i['’]?m|i am|we['’]?re)?\s*(?:very |so |truly )?(?:sorry|afraid|unable to)\b"
    r"|\b(?:i|we) (?:can(?:no|['’])t|can not|won['’]t|am (?:not able|unable) to|must decline to|have to decline to) "
    r"(?:\w+ )?(?:assist|help with (?:this|that|your)|comply|fulfil+|do that"
    r"|(?:provide|create|generate|produce|write|answer)(?: \w+){0,3} (?:question|content|request|text|passage)s?\b)"
    r"|\bas an ai\b",
    re.IGNORECASE,
)


def parse_object(text: str, key: str) -> dict[str, Any]:
    """The one JSON object with ``key`` in what a model said.

    Understood are the object alone, in a code fence, with prose around it, or as a Python literal; and a bare value:
    a number, a line ``KEY: value``, or the one line that is a question. A value is given as it is found: what type it
    must have is for the caller to check.

    Raises:
        Unparsable: there is no such object, or there are several that do not say the same.
    """
    text = _THINKING.sub("", text).strip()
    if not text:
        raise Unparsable("the answer is empty")
    found = [entry for entry in _objects(text) if key in entry]
    if found:
        if any(entry[key] != found[0][key] for entry in found):
            raise Unparsable(f"the answer holds {len(found)} objects with different values of {key!r}")
        return {name: well_formed(value) if isinstance(value, str) else value for name, value in found[0].items()}
    value = _bare(_FENCE.sub("", text), key)
    if value is None:
        raise Unparsable(f"the answer holds no {key!r}: {_shown(text)}")
    return {key: value}


def looks_refused(text: str) -> bool:
    """Whether a model says that it does not want to: an apology where a question was asked for."""
    return _REFUSAL.search(text) is not None and not text.rstrip(_QUOTES).endswith("?")


def _objects(text: str) -> list[dict[str, Any]]:
    found = []
    place = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if place < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):  # JSON that is none, numbers of thousands of digits, and nests
            value, end = _literal(text, place)
        if isinstance(value, dict):
            found.append(value)
        place = text.find("{", end)
    return found


def _literal(text: str, place: int) -> tuple[Any, int]:
    """A Python dict at ``place``, as some models write them; None where it is none."""
    end = text.find("}", place) + 1
    if not end:
        return None, len(text)
    if end - place > _LONGEST_LITERAL:
        return None, place + 1
    try:
        return ast.literal_eval(text[place:end]), end
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None, place + 1


def _bare(text: str, key: str) -> Any:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    label = re.compile(rf"^[\W_]*{re.escape(key)}[\W_]*?[:=][\W_]*?\s*(?P<value>\S.*)$", re.IGNORECASE)
    labelled = [
        match["value"].strip()
        for line in lines
        if len(line) <= _LONGEST_LABELLED and "{" not in line and (match := label.match(line))
    ]
    values = labelled or (lines if len(lines) == 1 else [line for line in lines if line.rstrip(_QUOTES).endswith("?")])
    if len(values) != 1:
        return None
    value = values[0].strip(_QUOTES)
    if _NUMBER.fullmatch(value.rstrip(".")):
        number = value.rstrip(".")
        return float(number) if "." in number else int(number)
    if "{" in value or not (value.endswith("?") or labelled):
        return None
    return value


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
