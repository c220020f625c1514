"""What a model has written for one text in one style: as the cache and the journal keep it, and by which key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.testset.generation.prompts import STYLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbeval.model import Question
    from kbeval.testset.generation.sources import Source

GENERATOR = "kbeval generate"
"""By this in its provenance a question is known as one that ``generate`` may replace; it touches no other."""

SOURCE = "synthetic"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: what the cache's keys are made of, beside the text.

    Attributes:
        host: of the server; told in the provenance, and in no key.
        parameters: what the answer depends on: temperature, the longest answer.
    """

    model: str
    host: str
    parameters: Mapping[str, Any]

    def key(self, digest: str, prompt_version: str) -> str:
        """16 hexadecimal digits of SHA-256 over the text's hash, the prompt's version, the model and parameters."""
        parts = [digest, prompt_version, self.model, dict(self.parameters)]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


@dataclass(slots=True)
class Written:
    """The answers to one key.

    Attributes:
        chunks, documents: the gold when it was written: chunk ids with the text's hash, document ids.
        about: the provenance that all answers share: model, host, prompt version, parameters.
        answers: one, or two where the first missed its band; the last counts. Each with its question, tokens, finish
            reason, what the server calls its model, and when.
    """

    key: str
    style: str
    digest: str
    chunks: dict[str, str]
    documents: list[str]
    domain: str | None
    about: dict[str, Any]
    answers: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def begin(cls, key: str, style: str, source: Source, writer: Writer, prompt_version: str) -> Written:
        """One without an answer yet."""
        return cls(
            key=key,
            style=style,
            digest=source.digest,
            chunks={chunk.id: source.digest for chunk in source.chunks},
            documents=source.documents,
            domain=source.domain,
            about={
                "model": writer.model,
                "host": writer.host,
                "prompt_version": prompt_version,
                "parameters": dict(writer.parameters),
            },
        )

    @classmethod
    def from_question(cls, question: Question) -> Written | None:
        """What the cache keeps; None for a question that ``generate`` has not written."""
        about = dict(question.provenance)
        if question.style not in STYLES:
            return None
        if about.pop("generator", None) != GENERATOR or question.source != SOURCE:
            return None
        try:
            key, digest, answers = about.pop("key"), about.pop("chunk_hash"), about.pop("answers")
            whole = isinstance(key, str) and isinstance(digest, str) and answers
            if not whole or not all(isinstance(answer["question"], str) for answer in answers):
                return None
        except (KeyError, TypeError):
            return None  # edited by hand beyond recognition: somebody's own question by now
        # Whoever has corrected its words by hand has made it a question of his own.
        if answers[-1]["question"] != question.text:
            return None
        return cls(
            key=key,
            style=question.style,
            digest=digest,
            chunks=dict(question.gold_chunks),
            documents=list(question.gold_documents),
            domain=question.domain,
            about=about,
            answers=list(answers),
        )

    @property
    def text(self) -> str:
        """The question that counts."""
        return str(self.answers[-1]["question"])

    def provenance(self) -> dict[str, Any]:
        """As the cache keeps it."""
        return {
            "generator": GENERATOR,
            "key": self.key,
            "chunk_hash": self.digest,
            **self.about,
            "answers": self.answers,
        }

    def head(self) -> dict[str, Any]:
        """As a line of the journal begins: all but the answers."""
        return {
            "key": self.key,
            "style": self.style,
            "chunk_hash": self.digest,
            "chunks": self.chunks,
            "documents": self.documents,
            "domain": self.domain,
            "about": self.about,
        }

    @classmethod
    def from_head(cls, line: Mapping[str, Any]) -> Written:
        """What ``head`` wrote. Raises KeyError or TypeError where the line is another."""
        return cls(
            key=line["key"],
            style=line["style"],
            digest=line["chunk_hash"],
            chunks=dict(line["chunks"]),
            documents=list(line["documents"]),
            domain=line["domain"],
            about=dict(line["about"]),
        )
