"""How an object that the user brings is asked: which of its methods, with the number of results or without."""

from __future__ import annotations

import inspect
import threading
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kbeval.engines.event_loop import EngineLoop

# In this order: what is there first is asked. LlamaIndex's retrievers have (a)retrieve, LangChain's (a)invoke.
_METHODS = ("retrieve", "invoke", "aretrieve", "ainvoke")
_COUNT_NAMES = ("k", "top_k", "limit", "n_results", "num_results")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Brought:
    """An object that the user brought, ready to be called.

    Attributes:
        takes_count: whether it can be told how many results to return.
        takes_filters: whether it has a parameter ``filters`` that can be given by name.
        thread_safe: whether it says, by an attribute of that name, that it may be called while it is running.

    Args:
        label: what it is called in messages.
        target: a callable, or anything with ``retrieve`` or ``invoke``, or their async forms.
        k_attribute: the attribute, or key of a dict, that holds how many results it returns, as a dotted path
            (``similarity_top_k``, ``search_kwargs.k``). It is set before each call, and put back by ``close``.
        loop: where awaitables run.

    Raises:
        KbevalError: it cannot be called, or has no such attribute.
    """

    def __init__(self, label: str, target: Any, k_attribute: str | None, loop: EngineLoop) -> None:
        self._label = label
        self._loop = loop
        self._function = _function_of(label, target)
        self._count = _count_parameter(self._function)
        self._setting = None
        if k_attribute is not None:
            owner = getattr(target, "__self__", target)
            self._setting = _Setting(label, owner, k_attribute)
        self._lock = threading.Lock()
        filters = _named_parameter(self._function, "filters")
        self.takes_filters = filters is not None
        self._wants_filters = filters is not None and filters.default is inspect.Parameter.empty
        self.thread_safe = any(
            getattr(each, "thread_safe", False) is True for each in (target, getattr(target, "__self__", target))
        )
        self.takes_count = self._count is not None or self._setting is not None

    def __call__(self, query: str, count: int, filters: Mapping[str, Any] | None = None) -> Any:
        """What it returns for ``query``, awaited where that has to be.

        ``filters`` are handed over where it takes some and there are some: to other frameworks they are objects of
        their own, which an empty dict is not.
        """
        if self._setting is None:
            return self._ask(query, count, filters)
        with self._lock:  # two queries at once may ask for different numbers
            self._setting.set(count)
            return self._ask(query, count, filters)

    def close(self) -> None:
        """Puts the attribute back."""
        if self._setting is not None:
            self._setting.restore()

    def _ask(self, query: str, count: int, filters: Mapping[str, Any] | None) -> Any:
        positional: tuple[Any, ...] = (query, count) if self._count == "" else (query,)
        named: dict[str, Any] = {self._count: count} if self._count else {}
        if self._wants_filters or (self.takes_filters and filters):
            named["filters"] = dict(filters or {})
        if inspect.iscoroutinefunction(self._function):
            return self._loop.run(self._function(*positional, **named))
        returned = self._function(*positional, **named)
        return self._loop.run(_waited(returned)) if inspect.isawaitable(returned) else returned


async def _waited(awaitable: Any) -> Any:
    return await awaitable


def _function_of(label: str, target: Any) -> Callable[..., Any]:
    for name in _METHODS:
        function = getattr(target, name, None)
        if callable(function):
            return function  # type: ignore[no-any-return]
    if callable(target):
        return target  # type: ignore[no-any-return]
    raise KbevalError(
        f"engine {label}: expected a callable or an object with retrieve or invoke, found {type(target).__name__}"
    )


def _named_parameter(function: Callable[..., Any], name: str) -> inspect.Parameter | None:
    """The parameter of that name, where it can be given by name."""
    try:
        parameter = inspect.signature(function).parameters.get(name)
    except (TypeError, ValueError):  # written in C, say
        return None
    return parameter if parameter is not None and parameter.kind in _NAMED else None


def _count_parameter(function: Callable[..., Any]) -> str | None:
    """How it is told the number of results: by that name, in second place (``""``), or not at all (None)."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ""  # written in C, say: kbeval's own convention is (query, k)
    named = {parameter.name for parameter in parameters[1:] if parameter.kind in _NAMED}
    for name in _COUNT_NAMES:
        if name in named:
            return name
    positional = [each for each in parameters if each.kind in _POSITIONAL and each.name != "filters"]
    if len(positional) > 1:
        # LangChain's second argument is its configuration, others' a filter: a number is no guess for these.
        default = positional[1].default
        is_count = default is inspect.Parameter.empty or (isinstance(default, int) and not isinstance(default, bool))
        return "" if is_count else None
    return "" if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters) else None


class _Setting:
    """An attribute of the user's object that says how many results it returns."""

    def __init__(self, label: str, owner: Any, path: str) -> None:
        *way, self._name = path.split(".")
        for part in way:
            owner = owner.get(part) if isinstance(owner, MutableMapping) else getattr(owner, part, None)
        self._owner = owner
        self._keyed = isinstance(owner, MutableMapping)
        if not self._keyed and not hasattr(owner, self._name):
            raise KbevalError(
                f"engine {label}: expected k_attribute to be an attribute of it, or a key in one, found {path!r}"
            )
        self._had = self._name in owner if self._keyed else True
        self._before = (owner.get(self._name) if self._keyed else getattr(owner, self._name)) if self._had else None

    def set(self, value: Any) -> None:
        if self._keyed:
            self._owner[self._name] = value
        else:
            setattr(self._owner, self._name, value)

    def restore(self) -> None:
        if self._had:
            self.set(self._before)
        else:
            self._owner.pop(self._name, None)
