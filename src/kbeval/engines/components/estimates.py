"""What engine A will use of paid services, from its settings alone: before anything is asked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kbeval.engines.base import Estimate, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.engines.hybrid import HybridSettings
    from kbeval.model import Document, LabelledQuery

CHARACTERS_A_TOKEN = 4
"""What OpenAI says of English text; other tokenizers and languages take more tokens."""

TOKENS_A_NUMBER = 2
"""A number of an order, and the comma after it."""

_DOCUMENTS_A_UNIT = 100  # https://docs.cohere.com/docs/rerank-overview: a search unit is a query with up to so many
_CHUNKS_A_REQUEST = 128


def estimate(
    settings: HybridSettings, documents: Sequence[Document], queries: Sequence[LabelledQuery]
) -> Estimate | None:
    """What the corpus and a query will take; None where no server is asked."""
    building, query = [], []
    embeds = "vector" in settings.legs and settings.embedder.startswith("openai:")
    if embeds:
        words = sum(len(document.text.split()) for document in documents)
        step = settings.chunk_words - settings.chunk_overlap
        chunks = words / step + len(documents)
        text = sum(len(document.text) for document in documents) * settings.chunk_words / step
        titles = chunks * sum(len(document.title) for document in documents) / max(len(documents), 1)
        calls = math.ceil(chunks / _CHUNKS_A_REQUEST)
        building.append(Usage(settings.embedder, calls=calls, tokens=math.ceil((text + titles) / CHARACTERS_A_TOKEN)))
        asked = sum(len(each.text) for each in queries) / max(len(queries), 1)
        query.append(Usage(settings.embedder, calls=1, tokens=math.ceil(asked / CHARACTERS_A_TOKEN)))
    if settings.reranker.startswith("cohere:"):
        units = math.ceil(settings.rerank_candidates / _DOCUMENTS_A_UNIT)
        query.append(Usage(settings.reranker, calls=1, rerank_units=units))
    if settings.reranker.startswith("llm:"):
        query.append(_listwise(settings, documents, queries))
    return Estimate(building, query) if query else None


def _listwise(settings: HybridSettings, documents: Sequence[Document], queries: Sequence[LabelledQuery]) -> Usage:
    """Windows over the candidates, each with its instructions, its question and its passages at their full length."""
    from kbeval.engines.components.llm_ranker import STEP, WINDOW, messages

    windows = 1 + max(0, math.ceil((settings.rerank_candidates - WINDOW) / STEP))
    passages = min(settings.rerank_candidates, WINDOW)
    words = sum(len(document.text.split()) for document in documents)
    a_word = sum(len(document.text) for document in documents) / max(words, 1)
    asked = sum(len(each.text) for each in queries) / max(len(queries), 1)
    around = sum(len(message["content"]) for message in messages("", [""] * passages))
    sent = around + asked + passages * settings.chunk_words * a_word
    return Usage(
        settings.reranker,
        calls=windows,
        tokens=math.ceil(windows * sent / CHARACTERS_A_TOKEN),
        completion_tokens=windows * passages * TOKENS_A_NUMBER,
    )
