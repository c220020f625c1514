"""``python:module:object`` engines: a function, or a retriever of any framework, that the user names."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from kbeval.engines.base import Answer, BuildContext, Engine, EngineSettings, added
from kbeval.engines.calling import Brought
from kbeval.engines.event_loop import EngineLoop
from kbeval.engines.results import IdSource, ask_for_documents, to_pairs
from kbeval.errors import KbevalError
from kbeval.secrets import one_line
from kbeval.signals import Terminated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kbeval.model import LabelledQuery

FIXED = "It takes no k: it returns as many results as it is set to, so that fewer than k documents may be left of them."


class PythonSettings(EngineSettings):
    """The object is named in the type itself: ``python:package.module:object``.

    Attributes:
        object: a callable, or anything with ``retrieve`` or ``invoke``; their async forms as well.
        id_from: where a result names its document: ``id``, ``metadata.FIELD``, or LlamaIndex's ``ref_doc_id``.
        fetch: results asked for first, where it takes a number; doubled until they are of k documents.
        k_attribute: the attribute that holds how many results it returns, where it takes no number.
    """

    object: str
    id_from: str = "id"
    fetch: int | None = Field(default=None, ge=1)
    k_attribute: str | None = None

    @field_validator("id_from")
    @classmethod
    def _known(cls, value: str) -> str:
        return IdSource(value).path


class PythonEngine(Engine):
    """Asks an object that the user brought; with ``filters=`` where it has such a parameter.

    It may return an ``Answer``, to report its stages, its retries and what it used. One that may be called while it is
    running says so: ``thread_safe = True``, as an attribute of it.
    """

    type: ClassVar[str] = "python"
    # Nothing is known about code that the user brings, so nothing is promised for it.
    deterministic = False

    def __init__(self, settings: PythonSettings, target: Any) -> None:
        label = f"python:{settings.object}"
        self._settings = settings
        self._ids = IdSource(settings.id_from)
        self._loop = EngineLoop(settings.object)
        self._brought = Brought(label, target, settings.k_attribute, self._loop)
        self._below_k: set[str] = set()
        self.takes_filters = self._brought.takes_filters
        self.thread_safe = self._brought.thread_safe
        if not self._brought.takes_count:
            if settings.fetch is not None:
                raise KbevalError(f"engine {label}: expected no fetch, as it takes no k, found {settings.fetch}")
            self.notes = (FIXED,)

    @classmethod
    def build(cls, settings: PythonSettings, context: BuildContext) -> PythonEngine:  # noqa: ARG003
        """Imports the object; the working folder is importable.

        Raises:
            KbevalError: it is not there, does not import, or cannot be asked.
        """
        return cls(settings, load_object(settings.object))

    def retrieve(self, query: str, k: int) -> Answer:
        return self._answer(query, k, {})

    def answer(self, query: LabelledQuery, k: int) -> Answer:
        return self._answer(query.text, k, query.filters)

    def _answer(self, query: str, k: int, filters: Mapping[str, Any]) -> Answer:
        reported: list[Answer] = []

        # Whatever it prints goes to standard error: the runner sees to that, since threads share the stream.
        def ask(count: int) -> list[tuple[str, float]]:
            returned = self._brought(query, count, filters)
            if isinstance(returned, Answer):
                reported.append(returned)
                returned = list(returned.hits)
            return to_pairs(returned, self._ids)

        answer = ask_for_documents(
            ask,
            k,
            fetch=self._settings.fetch,
            growing=self._brought.takes_count,
            repeats_count=not self._ids.names_chunks,
        )
        if not self._brought.takes_count and len(answer.hits) < k:
            self._below_k.add(query)
        return _with_reports(answer, reported) if reported else answer

    def configuration(self) -> dict[str, Any]:
        return self._settings.model_dump(mode="json")

    def counts(self) -> dict[str, int]:
        """How many questions got fewer than k documents from an object that cannot be asked for more."""
        return {} if self._brought.takes_count else {"questions_below_k": len(self._below_k)}

    def close(self) -> None:
        self._brought.close()
        self._loop.close()


def _with_reports(answer: Answer, reported: Sequence[Answer]) -> Answer:
    """The answer with what was reported beside it: the last one's stages, and the sum of what it took to get there."""
    seconds: dict[str, float] = {}
    for each in reported:
        for stage, spent in each.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    return replace(
        answer,
        stages=reported[-1].stages,
        seconds=seconds,
        repeats=answer.repeats + reported[-1].repeats,
        retries=sum(each.retries for each in reported),
        waited=sum(each.waited for each in reported),
        usage=added(usage for each in reported for usage in each.usage),
    )


def load_object(reference: str) -> Any:
    """Imports ``module:object``; a class is called without arguments.

    Raises:
        KbevalError: the module or the object is not there, or does not import.
    """
    module_name, colon, path = reference.partition(":")
    if not (colon and module_name and path):
        raise KbevalError(f"engine python:{reference}: expected python:MODULE:OBJECT, found {reference!r}")
    import_from_working_folder()
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
    return target


def load_callable(reference: str) -> Callable[[str, int], Any]:
    """What :func:`load_object` finds, as a function of a query and a number of results.

    Raises:
        KbevalError: it cannot be loaded, or cannot be called.
    """
    return Brought(f"python:{reference}", load_object(reference), None, EngineLoop(reference))


def import_from_working_folder() -> None:
    """Makes modules in the working folder importable, as for ``python -m``."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
