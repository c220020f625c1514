"""What some embedding models want in front of a question and of a document: they were trained with it."""

from __future__ import annotations

import re

# What a model's own name begins with -> (before a question, before a document), as its model card says.
_KNOWN = {
    "nomic-embed-text": ("search_query: ", "search_document: "),
    "e5-": ("query: ", "passage: "),
    "multilingual-e5-": ("query: ", "passage: "),
    "bge-small-en": ("Represent this sentence for searching relevant passages: ", ""),
    "bge-base-en": ("Represent this sentence for searching relevant passages: ", ""),
    "bge-large-en": ("Represent this sentence for searching relevant passages: ", ""),
    "mxbai-embed-large": ("Represent this sentence for searching relevant passages: ", ""),
    "snowflake-arctic-embed": ("Represent this sentence for searching relevant passages: ", ""),
}
_INSTRUCTED = re.compile(r"instruct")  # these take a task description instead


def known_prefixes(model: str) -> tuple[str, str] | None:
    """The prefixes (question's, document's) of a model that is known by its name, None for any other.

    Args:
        model: a name such as ``nomic-ai/nomic-embed-text-v1.5``, or the folder that a model lies in.
    """
    own = re.split(r"[/\\]", model.rstrip("/\\"))[-1].lower()
    if _INSTRUCTED.search(own):
        return None
    return next((prefixes for start, prefixes in _KNOWN.items() if own.startswith(start)), None)
