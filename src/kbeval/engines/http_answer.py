"""Where in an HTTP engine's answer the ids and scores are, and one clear line where they are not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.engines.components.services import ServiceError
from kbeval.secrets import scrub

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN = 120


class Picker:
    """A JMESPath expression that yields a list, such as ``results[*].doc.id``.

    JMESPath drops what is null from a list. An item without the field would so vanish from a ranking in silence, and
    scores would slide to other ids: where the expression ends in a projection, each item is looked at by itself.

    Raises:
        ValueError: the expression is none.
    """

    def __init__(self, key: str, expression: str) -> None:
        import jmespath
        import jmespath.exceptions
        from jmespath.visitor import TreeInterpreter

        self.key = key
        self.expression = expression
        try:
            tree = jmespath.compile(expression).parsed
        except jmespath.exceptions.JMESPathError as error:
            found = str(error).splitlines()[0]
            raise ValueError(
                f"expected {key} to be a JMESPath like results[*].id, found {expression!r} ({found})"
            ) from None
        self._items, self._field = _split(tree)
        self._visit: Callable[[Any, Any], Any] = TreeInterpreter().visit

    def pick(self, answer: Any) -> list[Any]:
        """What the expression finds, in order; None where an item lacks it.

        Raises:
            ValueError: it finds no list, or cannot be applied.
        """
        import jmespath.exceptions

        try:
            found = self._visit(self._items, answer)
            if isinstance(found, list) and self._field is not None:
                found = [self._visit(self._field, item) for item in found]
        except (jmespath.exceptions.JMESPathError, TypeError) as error:
            raise ValueError(f"{self} cannot be applied ({str(error).splitlines()[0][:_SHOWN]})") from None
        if not isinstance(found, list):
            raise ValueError(f"{self} expected a list, found {shown(found)} in {shown(answer)}")
        return found

    def __str__(self) -> str:
        return f"{self.key} ({self.expression}):"


def _split(tree: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """An expression as what makes the list of items, and what is taken from each."""
    if tree["type"] not in ("projection", "filter_projection"):
        return tree, None
    source, field, *condition = tree["children"]
    identity = {"type": "identity", "children": []}
    return {**tree, "children": [source, identity, *condition]}, field


def read_answer(body: bytes, ids: Picker, scores: Picker | None) -> list[tuple[str, float]]:
    """The (document id, score) pairs of an answer, best first; without ``scores`` their order is the ranking.

    Raises:
        ValueError: it is no JSON, or what the expressions find is not what a ranking is made of. One line, which names
            the key, what was expected, and what came.
    """
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise ValueError(f"expected JSON, found {shown_bytes(body)}") from None
    found = ids.pick(answer)
    for place, value in enumerate(found):
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise ValueError(f"{ids} expected an id as text or whole number, found {shown(value)} at place {place}")
    if scores is None:
        return [(str(value), float(len(found) - place)) for place, value in enumerate(found)]
    values = scores.pick(answer)
    if len(values) != len(found):
        raise ValueError(f"{scores} expected {len(found)} scores, one an id, found {len(values)}")
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{scores} expected a number, found {shown(value)} at place {place}")
    return [(str(value), float(score)) for value, score in zip(found, values, strict=True)]


def shown(value: Any) -> str:
    """A JSON value as a message can hold it: as JSON, on one line, without secrets, and cut where it is long."""
    if value is None:
        return "nothing"
    return shown_bytes(orjson.dumps(value))


def shown_bytes(body: bytes) -> str:
    """A body as a message can hold it."""
    if not body:
        return "an empty body"
    # As far as is looked at, a secret is whole: what is cut is cut after it is hidden.
    text = scrub(" ".join(body[:100_000].decode(errors="replace").split()))
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def unusable(service: str, error: ValueError) -> ServiceError:
    """The error of a query whose answer cannot be used."""
    return ServiceError(f"{service}: answer unusable: {error}")
