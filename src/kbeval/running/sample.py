"""Which questions a partial run asks: a seeded sample, the same on every machine and for every engine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.model import LabelledQuery


def sampled(queries: Sequence[LabelledQuery], limit: int) -> list[LabelledQuery]:
    """``limit`` of the queries, in their order. A larger sample holds a smaller one."""
    taken = {query.id for query in sorted(queries, key=lambda query: _draw(query.id))[:limit]}
    return [query for query in queries if query.id in taken]


def _draw(identifier: str) -> bytes:
    return hashlib.sha256(f"kbeval limit {identifier}".encode()).digest()
