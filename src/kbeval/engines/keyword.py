"""Engine B: keywords over title, description and file name, and never the text.

A port of a service that is not at hand. What it does is a BM25-like sum over three weighted fields::

    score(q, d) = sum over distinct terms t of q: idf(t) * sum over fields f of
                  w_f * tf * (k1 + 1) / (tf + k1 * (1 - b + b * |f| / mean |f|))
    idf(t)      = ln(1 + (N - df + 0.5) / (df + 0.5)),  df = documents with t in any field

The term saturation is Robertson and Zaragoza's (The Probabilistic Relevance Framework, 2009); summing
saturated fields instead of saturating their sum is the service's own way and is kept.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kbeval.engines.base import Answer, BuildContext, Engine, EngineSettings
from kbeval.engines.ranking import best_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Which lines of the production service this mirrors. Whoever owns that service fills the place in; until then
# every report says that the port is unchecked.
MIRRORED_SOURCE: str | None = None

WEIGHTS = {"title": 4.0, "filename": 3.0, "description": 2.0}
K1 = 1.2
B = 0.75

_NO_LETTER_OR_DIGIT = re.compile(r"[\W_]+")


def tokenize(text: str) -> list[str]:
    """Lower-cased, split at anything that is no letter or digit. No stop words, no stemming."""
    return [token for token in _NO_LETTER_OR_DIGIT.split(text.lower()) if token]


def fidelity_note() -> str:
    """What a report must say about how far this port can be trusted."""
    checked = (
        f"It mirrors {MIRRORED_SOURCE}."
        if MIRRORED_SOURCE
        else "The source file and line that it mirrors are not filled in yet, so nobody has checked it against the "
        "production service."
    )
    return f"The keyword engine is a port of a service that is not at hand. {checked}"


class KeywordSettings(EngineSettings):
    """Engine B has nothing to set: its weights are the service's."""


class KeywordEngine(Engine):
    """Engine B over (id, title, filename, description) rows."""

    type: ClassVar[str] = "keyword"
    thread_safe = True
    reads_text = False

    def __init__(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        self.notes = (fidelity_note(),)
        fields: dict[str, list[Counter[str]]] = {name: [] for name in WEIGHTS}
        self._ids: list[str] = []
        for row in sorted(rows, key=lambda row: row[0], reverse=True):
            self._ids.append(row[0])
            for name, text in zip(WEIGHTS, row[1:], strict=True):
                fields[name].append(Counter(tokenize(text)))
        self._postings = _postings(fields)

    @classmethod
    def build(cls, settings: KeywordSettings, context: BuildContext) -> KeywordEngine:  # noqa: ARG003
        """Reads the ``kb_documents`` rows from the evaluation database."""
        with context.store().connect() as connection:
            rows = connection.execute(
                'SELECT id, title, filename, description FROM kb_documents ORDER BY id COLLATE "C"'
            ).fetchall()
        return cls(rows)

    def retrieve(self, query: str, k: int) -> Answer:
        scores = np.zeros(len(self._ids))
        for term in dict.fromkeys(tokenize(query)):
            if term in self._postings:
                documents, parts = self._postings[term]
                scores[documents] += parts
        return Answer(hits=[(self._ids[i], float(scores[i])) for i in best_first(scores, k)])

    def configuration(self) -> dict[str, object]:
        return {"k1": K1, "b": B, "weights": dict(WEIGHTS), "mirrors": MIRRORED_SOURCE}

    def counts(self) -> dict[str, int]:
        return {"documents": len(self._ids)}


def _postings(fields: Mapping[str, Sequence[Counter[str]]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each term the documents that hold it, and what it adds to each one's score."""
    total = len(next(iter(fields.values())))
    parts: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for name, counters in fields.items():
        lengths = [counter.total() for counter in counters]
        mean = sum(lengths) / total if total else 0.0
        if mean == 0:
            continue
        for document, (counter, length) in enumerate(zip(counters, lengths, strict=True)):
            norm = K1 * (1 - B + B * length / mean)
            for term, tf in counter.items():
                parts[term][document] += WEIGHTS[name] * tf * (K1 + 1) / (tf + norm)
    return {
        term: (
            np.fromiter(by_document, dtype=np.int64, count=len(by_document)),
            np.fromiter(by_document.values(), dtype=np.float64, count=len(by_document))
            * math.log(1 + (total - len(by_document) + 0.5) / (len(by_document) + 0.5)),
        )
        for term, by_document in parts.items()
    }
