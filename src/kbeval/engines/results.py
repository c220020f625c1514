"""What an engine that the user brings may return, and where each result says which document it is of.

Results of Haystack, LlamaIndex and LangChain are recognised by their attributes, so that none of these packages is
imported.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbeval.engines.base import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ID = "id"
SOURCE_DOCUMENT = "ref_doc_id"
_METADATA = ("metadata.", "meta.")
_NO_MORE = 10_000
"""Results beyond which an engine is not asked for more, however few documents they are of."""


@dataclass(frozen=True)
class IdSource:
    """Where a result names its document.

    ``id`` is the result's own id; ``ref_doc_id`` is what LlamaIndex calls the document that a node was cut from;
    ``metadata.FIELD`` (or ``meta.FIELD``) is a field of its metadata, by its name or by a dotted path.

    Raises:
        ValueError: it is none of these.
    """

    path: str = ID

    def __post_init__(self) -> None:
        if self.path not in (ID, SOURCE_DOCUMENT) and not self.field:
            raise ValueError(f"expected id_from to be id, ref_doc_id or metadata.FIELD, found {self.path!r}")

    @property
    def field(self) -> str | None:
        """The metadata field, where it is one."""
        return next((self.path.removeprefix(head) for head in _METADATA if self.path.startswith(head)), None)

    @property
    def names_chunks(self) -> bool:
        """Whether several results may well be of one document: then that is no fault of the engine."""
        return self.path != ID


def to_answer(returned: Any, k: int, ids: IdSource | None = None) -> Answer:
    """What was returned as an answer of at most ``k`` documents; see :func:`to_pairs` and :func:`first_places`."""
    ids = ids or IdSource()
    return first_places(to_pairs(returned, ids), k, repeats_count=not ids.names_chunks)


def to_pairs(returned: Any, ids: IdSource | None = None) -> list[tuple[str, float]]:
    """Reads a list of ids, of (id, score) or of results, or a dict of id to score, as (document id, score) pairs.

    A list's order is its ranking; a dict is ordered by score, then id (METHOD 2). A result is an object of Haystack,
    LlamaIndex or LangChain, or a dict with ``id``, ``score`` and ``metadata``; (result, score) is understood as well.
    Scores that do not fall strictly are lowered when the run is written.

    Raises:
        TypeError: the value, or one of its items, is none of these, or does not say its document.
        ValueError: a score is not a finite number, or an id is empty.
    """
    ids = ids or IdSource()
    if isinstance(returned, Mapping):
        if ids.path != ID:
            raise TypeError(f"expected results with {ids.path}, found a dict")
        scored = [(_identifier(key), _score(value)) for key, value in returned.items()]
        return sorted(scored, key=lambda pair: (pair[1], pair[0]), reverse=True)
    if isinstance(returned, Iterable) and not isinstance(returned, (str, bytes, Set)):
        items = list(returned)
        return [_pair(item, place, len(items) - place, ids) for place, item in enumerate(items)]
    if isinstance(returned, Coroutine):
        returned.close()  # or Python complains that nobody awaited it
    kind = "an async generator" if isinstance(returned, AsyncIterator) else type(returned).__name__
    raise TypeError(f"expected a list of ids, a list of (id, score) or a dict of id to score, found {kind}")


def first_places(pairs: Sequence[tuple[str, float]], k: int, *, repeats_count: bool = True) -> Answer:
    """Each document once, at its first place (a document's best chunk), before the cut at ``k``.

    ``repeats_count`` says whether a second result of a document is worth counting as one.
    """
    first: dict[str, float] = {}
    for identifier, score in pairs:
        first.setdefault(identifier, score)
    return Answer(hits=list(first.items())[:k], repeats=len(pairs) - len(first) if repeats_count else 0)


def ask_for_documents(
    ask: Callable[[int], list[tuple[str, float]]], k: int, *, fetch: int | None, growing: bool, repeats_count: bool
) -> Answer:
    """Asks for results until they are of ``k`` documents or there are no more.

    Args:
        ask: takes a number of results and returns as many or fewer as (document id, score) pairs.
        fetch: the number asked for first; at least ``k``.
        growing: whether asking for more can help. If not, ``ask`` is called once.
    """
    wanted, before = max(k, fetch or k), -1
    while True:
        pairs = ask(wanted)
        answer = first_places(pairs, k, repeats_count=repeats_count)
        exhausted = len(pairs) < wanted or len(pairs) <= before
        if len(answer.hits) >= k or not growing or exhausted or wanted >= _NO_MORE:
            return answer
        wanted, before = min(2 * wanted, _NO_MORE), len(pairs)


def _pair(item: Any, place: int, default_score: float, ids: IdSource) -> tuple[str, float]:
    try:
        score = None
        if isinstance(item, (tuple, list)):
            if len(item) != 2:
                raise TypeError(f"expected (id, score), found {len(item)} values")
            item, score = item[0], _score(item[1])
        if isinstance(item, (str, int)) or item is None:
            if ids.path != ID:
                raise TypeError(f"expected a result with {ids.path}, found {type(item).__name__}")
            return _identifier(item), default_score if score is None else score
        result = _Result.of(item)
        if score is None:
            score = default_score if result.score is None else _score(result.score)
        return result.document(ids), score
    except (TypeError, ValueError) as error:
        raise type(error)(f"result {place + 1}: {error}") from None


@dataclass(frozen=True)
class _Result:
    """One result of any of the frameworks."""

    kind: str
    id: Any
    score: Any
    metadata: Any
    source: Any = None

    @classmethod
    def of(cls, item: Any) -> _Result:
        kind = type(item).__name__
        if isinstance(item, Mapping):
            metadata = item.get("metadata", item.get("meta"))
            return cls("dict", item.get("id"), item.get("score"), metadata, item.get(SOURCE_DOCUMENT))
        if hasattr(item, "node") and hasattr(item, "score"):  # LlamaIndex's NodeWithScore
            node = item.node
            identifier = getattr(node, "node_id", None)
            return cls(kind, identifier, item.score, node.metadata, getattr(node, SOURCE_DOCUMENT, None))
        if hasattr(item, "node_id") and hasattr(item, "metadata"):  # a LlamaIndex node without its score
            return cls(kind, item.node_id, None, item.metadata, getattr(item, SOURCE_DOCUMENT, None))
        for name in ("metadata", "meta"):  # LangChain's Document, Haystack's Document
            if hasattr(item, "id") and hasattr(item, name):
                return cls(kind, item.id, getattr(item, "score", None), getattr(item, name))
        raise TypeError(f"expected a document id as text, found {kind}")

    def document(self, ids: IdSource) -> str:
        """The id of the document that this is a result of."""
        if ids.path == ID:
            if self.id is None:
                raise TypeError(
                    f'expected {self.kind}.id as text, found None: name a field by id_from = "metadata.FIELD"'
                )
            return _identifier(self.id)
        value = self.source if ids.field is None else _lookup(self.metadata, ids.field)
        try:
            return _identifier(value)
        except TypeError:
            has = f"; it has {_names(self.metadata)}" if ids.field else ""
            raise TypeError(f"expected {ids.path} as text, found {type(value).__name__}{has}") from None


def _lookup(metadata: Any, field: str) -> Any:
    if isinstance(metadata, Mapping) and field in metadata:
        return metadata[field]
    for part in field.split("."):
        metadata = metadata.get(part) if isinstance(metadata, Mapping) else None
    return metadata


def _names(metadata: Any) -> str:
    names = sorted(map(str, metadata)) if isinstance(metadata, Mapping) else []
    more = ", ..." if len(names) > 8 else ""
    return ", ".join(name[:40] for name in names[:8]) + more if names else "no metadata"


def _identifier(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(f"expected a document id as text, found {type(value).__name__}")
    identifier = str(value)
    if not identifier:
        raise ValueError("expected a document id, found empty text")
    return identifier


def _score(value: Any) -> float:
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        score = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"expected a number as score, found {type(value).__name__}") from None
    if not math.isfinite(score):
        raise ValueError(f"expected a finite score, found {score}")
    return score
