"""Near-duplicate passages and the questions that they touch, as people and programs read them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import orjson

from kbeval.report.tables import Table, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.testset.twins import NearDuplicate, TwinCandidate


def twins_text(pairs: Sequence[NearDuplicate], candidates: Sequence[TwinCandidate], threshold: float) -> str:
    """One table of passages, and one of the documents that may answer more questions than they are gold for."""
    if not pairs and not candidates:
        return f"no passage stands to {threshold:.0%} or more in a second document\n"
    title = f"{_count(len(pairs), 'passage')} found again in another document (similarity {threshold:g} or more)"
    parts = [
        as_text(
            Table(
                headers=("passage", "nearly the same", "similarity"),
                rows=[(pair.chunk, pair.other, f"{pair.similarity:.2f}") for pair in pairs],
                left=2,
                title=title,
            )
        )
    ]
    if candidates:
        queries: dict[str, list[str]] = defaultdict(list)
        for candidate in candidates:
            queries[candidate.document].append(candidate.query)
        parts.append(
            as_text(
                Table(
                    headers=("document", "questions"),
                    rows=[(document, ", ".join(queries[document])) for document in sorted(queries)],
                    left=2,
                    title="documents that may answer these questions too, which are not gold for them",
                )
            )
        )
    return "\n".join(parts)


def twins_json(pairs: Sequence[NearDuplicate], candidates: Sequence[TwinCandidate], threshold: float) -> str:
    """``{"threshold", "pairs": [{"chunk", "other", "similarity"}], "candidates": [{"query", "document", ...}]}``."""
    data = {
        "threshold": threshold,
        "pairs": [{**pair._asdict(), "similarity": round(pair.similarity, 12)} for pair in pairs],
        "candidates": [{**one._asdict(), "similarity": round(one.similarity, 12)} for one in candidates],
    }
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
