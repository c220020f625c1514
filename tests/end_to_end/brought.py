"""A few documents in chunks, and one way of scoring them that every framework's retriever here is given.

A text's vector has a dimension for each word of the corpus and holds how often the word occurs, at length 1. A chunk's
score is the cosine, which is simple enough to be worked out by hand in a test.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from kbeval.model import Document

CHUNKS = {
    "refunds": ("a cashier may give money back", "above fifty pounds a manager signs the refund", "money money money"),
    "payouts": ("takings arrive on the bank account", "the bank needs two working days for money"),
    "printer": ("a red light means that the paper has run out", "paper rolls are in the office"),
    "sign-in": ("six digits unlock the till", "a hardware key unlocks the office"),
}
"""By document; ``refunds`` has the best chunk for money and another one close behind."""

QUERIES = {
    "q1": "money back",
    "q2": "bank account money",
    "q3": "paper in the office",
}


def documents() -> list[Document]:
    return [Document(id=name, text=" ".join(chunks)) for name, chunks in CHUNKS.items()]


def chunks() -> list[tuple[str, str, str]]:
    """(chunk id, document id, text). The ids hold no hint of the document: only the metadata has it."""
    every = [(name, text) for name, texts in CHUNKS.items() for text in texts]
    return [(f"chunk-{place}", name, text) for place, (name, text) in enumerate(every)]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


VOCABULARY = sorted({word for _, _, text in chunks() for word in words(text)})


def embed(text: str) -> list[float]:
    counts = Counter(words(text))
    vector = [float(counts[word]) for word in VOCABULARY]
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


VECTORS = {chunk: embed(text) for chunk, _, text in chunks()}


def best_chunks(query: str) -> list[tuple[str, str, float]]:
    """Every chunk, best first, as (chunk id, document id, score)."""
    vector = embed(query)
    scored = [
        (chunk, document, sum(a * b for a, b in zip(vector, VECTORS[chunk], strict=True)))
        for chunk, document, _ in chunks()
    ]
    return sorted(scored, key=lambda each: -each[2])


class Result:
    """A result as a home-made retriever may have it."""

    def __init__(self, chunk: str, document: str, score: float) -> None:
        self.id = chunk
        self.score = score
        self.metadata = {"doc_id": document}


def function(query: str, k: int) -> list[Result]:
    return [Result(*each) for each in best_chunks(query)[:k]]


async def async_function(query: str, top_k: int = 3) -> list[Result]:
    import asyncio

    await asyncio.sleep(0)
    return function(query, top_k)
