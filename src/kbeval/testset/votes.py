"""One vote of a judge: what it is known by, how it is read, and how it is kept.

Votes are kept in a file beside the labels, a JSON line each, appended and synced as they arrive. It belongs under
version control: whoever has it pays for no vote twice.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.llm.errors import Unparsable
from kbeval.llm.parsing import parse_object
from kbeval.secrets import scrub
from kbeval.testset.judge_prompts import GRADES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.llm.client import Answer, TokenLogprob
    from kbeval.model import Document
    from kbeval.testset.excerpts import Excerpt
    from kbeval.testset.judge_prompts import Wording

ATTEMPTS = 3
"""How often a vote is asked for until an answer can be read; from the second time on with a reminder of the form."""

_KEPT_CHARACTERS = 400
_BARE = re.compile(r"[0-3]")
_GRADE_IN_JSON = re.compile(r"""["']grade["']\s*:\s*["']?([0-3])""", re.IGNORECASE)
_GRADE_IN_TEXT = re.compile(r"[0-3]")


@dataclass(frozen=True, slots=True)
class Judge:
    """Who judges, with everything that can change what it says beside the wording."""

    model: str
    max_answer_tokens: int
    temperature: float = 0.0


@dataclass(frozen=True, slots=True)
class Vote:
    """What one wording brought for a pair.

    Attributes:
        key: see ``vote_key``.
        grade: 0 to 3; None where the answer could not be read as one.
        reason: the model's own, one line.
        probability: what the model gave to the token of its grade; None where the server does not tell.
        attempt: the how manieth answer it is, from 1.
        refused: the model, or a filter before it, does not grade this pair: asking again would not help.
        cut: the answer ended at the longest that was asked for.
        answer: the beginning of an answer that could not be read.
        when: the time, ISO 8601 in UTC.
    """

    key: str
    grade: int | None
    reason: str = ""
    probability: float | None = None
    attempt: int = 1
    refused: bool = False
    cut: bool = False
    answer: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    when: str = ""

    @property
    def final(self) -> bool:
        """Whether asking once more is pointless."""
        return self.grade is not None or self.refused or self.attempt >= ATTEMPTS


def vote_key(judge: Judge, wording: Wording, question: str, document: Document, excerpt: Excerpt) -> str:
    """What a vote is known by: the wording's version, the model and its temperature, the question's and the document's
    text, and what of it was shown. The first 32 hexadecimal digits of SHA-256.

    The longest answer is not part of it: it cuts an answer and does not change what was said before the cut, and
    whoever raises it since some were cut shall not pay for all the others again.
    """
    parts = [
        wording.version,
        [judge.model, judge.temperature],
        question,
        [document.title, document.text],
        None if excerpt.whole else excerpt.text,
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:32]


def read_vote(key: str, answer: Answer, attempt: int) -> Vote:
    """An answer as a vote; without a grade where none, or more than one, can be read in it."""
    grade, reason = None, ""
    try:
        found = parse_object(answer.text, "grade")
    except Unparsable:
        pass
    else:
        grade = _grade(found.get("grade"))
        reason = _line(str(found.get("reason") or ""))
    return Vote(
        key=key,
        grade=grade,
        reason=reason if grade is not None else "",
        probability=None if grade is None else _probability(answer.text, answer.logprobs, grade),
        attempt=attempt,
        cut=grade is None and answer.finish_reason == "length",
        answer=_line(answer.text) if grade is None else "",
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        when=now(),
    )


def refused_vote(key: str, words: str, attempt: int, prompt_tokens: int, completion_tokens: int) -> Vote:
    """The vote that a refusal comes to: none, for good."""
    return Vote(
        key=key,
        grade=None,
        attempt=attempt,
        refused=True,
        answer=_line(words),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        when=now(),
    )


def as_entry(vote: Vote, *, query: str, document: str, wording: str, model: str) -> dict[str, Any]:
    """A vote as it is kept; with what it is about, for people who read the file."""
    entry: dict[str, Any] = {
        "key": vote.key,
        "query": query,
        "document": document,
        "prompt": wording,
        "model": model,
        "grade": vote.grade,
        "attempt": vote.attempt,
        "prompt_tokens": vote.prompt_tokens,
        "completion_tokens": vote.completion_tokens,
        "when": vote.when,
    }
    optional = {
        "reason": vote.reason,
        "probability": vote.probability,
        "refused": vote.refused,
        "cut": vote.cut,
        "answer": vote.answer,
    }
    return entry | {name: value for name, value in optional.items() if value not in ("", None, False)}


def replay(entries: Sequence[Mapping[str, Any]]) -> dict[str, Vote]:
    """The votes of a file by key, the last of each; lines that are no votes are left out."""
    votes: dict[str, Vote] = {}
    for entry in entries:
        grade, key = entry.get("grade"), entry.get("key")
        if not isinstance(key, str) or not (grade is None or _grade(grade) == grade):
            continue
        probability = entry.get("probability")
        votes[key] = Vote(
            key=key,
            grade=grade,
            reason=str(entry.get("reason", "")),
            probability=float(probability) if isinstance(probability, int | float) else None,
            attempt=int(entry.get("attempt", 1)),
            refused=bool(entry.get("refused", False)),
            cut=bool(entry.get("cut", False)),
            answer=str(entry.get("answer", "")),
            prompt_tokens=int(entry.get("prompt_tokens", 0)),
            completion_tokens=int(entry.get("completion_tokens", 0)),
            when=str(entry.get("when", "")),
        )
    return votes


def now() -> str:
    """The time in UTC, to the second. No metric reads it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _grade(value: object) -> int | None:
    """A whole number from 0 to 3, also as text or as 2.0; nothing else is taken for a grade."""
    if isinstance(value, str) and _BARE.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value in GRADES:
        return int(value)
    return None


def _probability(text: str, logprobs: Sequence[TokenLogprob] | None, grade: int) -> float | None:
    """The probability of the token that the grade is in; None where it cannot be told which that is."""
    if not logprobs:
        return None
    said = "".join(token.token for token in logprobs)
    places = [match.start(1) for match in _GRADE_IN_JSON.finditer(said) if match[1] == str(grade)]
    if not places and _BARE.fullmatch(text.strip()):
        places = [match.start() for match in _GRADE_IN_TEXT.finditer(said)]
    if not places:
        return None
    end = 0
    for token in logprobs:
        end += len(token.token)
        if places[-1] < end:
            return round(math.exp(min(token.logprob, 0.0)), 6)
    return None


def _line(text: str) -> str:
    """One line of bounded length without secrets: a server may repeat the key that it was sent."""
    line = scrub(" ".join(text.split()))
    return line if len(line) <= _KEPT_CHARACTERS else f"{line[:_KEPT_CHARACTERS]}..."
