"""``python:module:object`` engines: a callable, or an object with ``retrieve``, that the user names."""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Coroutine, Iterable, Mapping, Set
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kbeval.engines.base import Answer, BuildContext, Engine, EngineSettings
from kbeval.errors import KbevalError
from kbeval.secrets import one_line
from kbeval.signals import Terminated

if TYPE_CHECKING:
    from collections.abc import Callable

    from kbeval.model import LabelledQuery


class PythonSettings(EngineSettings):
    """The object is named in the type itself: ``python:package.module:object``."""

    object: str


class PythonEngine(Engine):
    """Calls ``object(query, k)``, or its ``retrieve``; with ``filters=`` where it has such a parameter.

    An object that may be called while it is running says so: ``thread_safe = True``, as an attribute of it.
    """

    type: ClassVar[str] = "python"
    # Nothing is known about code that the user brings, so nothing is promised for it.
    deterministic = False

    def __init__(self, reference: str, function: Callable[..., Any]) -> None:
        self._reference = reference
        self._function = function
        self.takes_filters = has_filters(function)
        owner = getattr(function, "__self__", function)
        self.thread_safe = getattr(owner, "thread_safe", False) is True

    @classmethod
    def build(cls, settings: PythonSettings, context: BuildContext) -> PythonEngine:  # noqa: ARG003
        """Imports the object; the working folder is importable."""
        return cls(settings.object, load_callable(settings.object))

    def retrieve(self, query: str, k: int) -> Answer:
        # Whatever it prints goes to standard error: the runner sees to that, since threads share the stream.
        return to_answer(self._function(query, k), k)

    def answer(self, query: LabelledQuery, k: int) -> Answer:
        if not self.takes_filters:
            return self.retrieve(query.text, k)
        return to_answer(self._function(query.text, k, filters=dict(query.filters)), k)

    def configuration(self) -> dict[str, Any]:
        return {"object": self._reference}


def load_callable(reference: str) -> Callable[[str, int], Any]:
    """Imports ``module:object`` and returns what is to be called.

    Raises:
        KbevalError: the module or the object is not there, does not import, or cannot be called.
    """
    module_name, colon, path = reference.partition(":")
    if not (colon and module_name and path):
        raise KbevalError(f"engine python:{reference}: expected python:MODULE:OBJECT, found {reference!r}")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):
            target: Any = importlib.import_module(module_name)
            for attribute in path.split("."):
                target = getattr(target, attribute)
            if isinstance(target, type):
                target = target()
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:
        # Importing runs the user's own code: whatever it raises is theirs to see, in one line.
        raise KbevalError(f"engine python:{reference}: cannot be loaded: {one_line(error)}") from error
    function = getattr(target, "retrieve", target)
    if not callable(function):
        raise KbevalError(
            f"engine python:{reference}: expected a callable or an object with retrieve, found {type(target).__name__}"
        )
    return function  # type: ignore[no-any-return]


def has_filters(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter ``filters`` that can be given by name."""
    try:
        parameter = inspect.signature(function).parameters.get("filters")
    except (TypeError, ValueError):  # written in C, say
        return False
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return parameter is not None and parameter.kind in named


def to_answer(returned: Any, k: int) -> Answer:
    """Reads a list of ids, a list of (id, score), or a dict of id to score.

    A list's order is its ranking; a dict is ordered by score, then id (METHOD 2). The same id twice keeps its
    first place and is counted. Scores that do not fall strictly are lowered when the run is written.

    An ``Answer`` is taken as it is, so that an engine can report its stages, its retries and what it used.

    Raises:
        TypeError: the value, or one of its items, is none of these.
        ValueError: a score is not a finite number.
    """
    if isinstance(returned, Answer):
        ranked = to_answer(list(returned.hits), k)
        return replace(returned, hits=ranked.hits, repeats=returned.repeats + ranked.repeats)
    if isinstance(returned, Mapping):
        scored = [(_identifier(key), _score(value)) for key, value in returned.items()]
        pairs = sorted(scored, key=lambda pair: (pair[1], pair[0]), reverse=True)
    elif isinstance(returned, Iterable) and not isinstance(returned, (str, bytes, Set)):
        items = list(returned)
        pairs = [_pair(item, len(items) - place) for place, item in enumerate(items)]
    else:
        if isinstance(returned, Coroutine):
            returned.close()  # or Python complains that nobody awaited it
        raise TypeError(
            f"expected a list of ids, a list of (id, score) or a dict of id to score, found {type(returned).__name__}"
        )
    first: dict[str, float] = {}
    for identifier, score in pairs:
        first.setdefault(identifier, score)
    return Answer(hits=list(first.items())[:k], repeats=len(pairs) - len(first))


def _pair(item: Any, default_score: float) -> tuple[str, float]:
    if isinstance(item, (tuple, list)):
        if len(item) != 2:
            raise TypeError(f"expected (id, score), found {len(item)} values")
        return _identifier(item[0]), _score(item[1])
    return _identifier(item), float(default_score)


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
