"""Which inputs of a Haystack pipeline take the query, and which output holds the documents."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, get_origin

from haystack import Document

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from haystack import Pipeline

_QUERY_NAMES = ("query", "text", "question")
"""What Haystack's retrievers and rankers, text embedders, and readers call the query."""


@dataclass(frozen=True)
class Socket:
    """One input or output of one component."""

    component: str
    name: str

    def __str__(self) -> str:
        return f"{self.component}.{self.name}"


def named_inputs(label: str, key: str, names: Iterable[str], pipeline: Pipeline) -> list[Socket]:
    """The inputs that a setting names, each free to be given.

    Raises:
        KbevalError: there is no such input, or another component feeds it; with the nearest name.
    """
    return [_named(label, key, name, _sockets(pipeline.inputs())) for name in names]


def query_inputs(label: str, pipeline: Pipeline, given: Sequence[Socket]) -> list[Socket]:
    """The inputs that must be given, are text, and are called ``query``, ``text`` or ``question``.

    Args:
        given: inputs that get a value from the settings.

    Raises:
        KbevalError: there is none.
    """
    found = [
        socket
        for socket, (wanted, mandatory) in _sockets(pipeline.inputs()).items()
        if mandatory and wanted is str and socket.name in _QUERY_NAMES and socket not in given
    ]
    if not found:
        names = _listed(_sockets(pipeline.inputs()))
        raise KbevalError(f"{label}: expected an input that takes the query, found {names}: name it (query_input)")
    return found


def check_all_given(label: str, pipeline: Pipeline, given: Iterable[Socket]) -> None:
    """Refuses a pipeline of which an input that must be given is not.

    Raises:
        KbevalError: naming the inputs.
    """
    missing = [
        socket
        for socket, (_, mandatory) in _sockets(pipeline.inputs()).items()
        if mandatory and socket not in set(given)
    ]
    if missing:
        raise KbevalError(
            f"{label}: expected a value for each input that must be given, found none for {_listed(missing)}: "
            "name those that take the query (query_input), and give the others (inputs)"
        )


def documents_output(label: str, pipeline: Pipeline, name: str | None) -> Socket:
    """The output named, which may also feed other components; else the one open output that is a list of documents.

    Raises:
        KbevalError: there is none, it is of another type, or there are several to choose from.
    """
    if name is not None:
        every = _sockets(pipeline.outputs(include_components_with_connected_outputs=True))
        socket = _named(label, "documents_output", name, every)
        if not _is_documents(every[socket][0]):
            raise KbevalError(f"{label}: expected documents_output to be a list of documents, found {name!r}")
        return socket
    open_outputs = _sockets(pipeline.outputs())
    found = [socket for socket, (kind, _) in open_outputs.items() if _is_documents(kind)]
    if len(found) != 1:
        shown = _listed(found or open_outputs)
        raise KbevalError(f"{label}: expected one output with documents, found {shown}: name it (documents_output)")
    return found[0]


def _sockets(described: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[Socket, tuple[Any, bool]]:
    return {
        Socket(component, name): (facts["type"], bool(facts.get("is_mandatory")))
        for component, sockets in described.items()
        for name, facts in sockets.items()
    }


def _named(label: str, key: str, name: str, known: Mapping[Socket, Any]) -> Socket:
    for socket in known:
        if str(socket) == name:
            return socket
    near = difflib.get_close_matches(name, map(str, known), n=1, cutoff=0.0)
    hint = f" (nearest: {near[0]!r})" if near else ""
    raise KbevalError(f"{label}: expected {key} to name COMPONENT.SOCKET of the pipeline, found {name!r}{hint}")


def _is_documents(kind: Any) -> bool:
    parts = get_args(kind)
    return (
        get_origin(kind) is list and len(parts) == 1 and isinstance(parts[0], type) and issubclass(parts[0], Document)
    )


def _listed(sockets: Iterable[Socket]) -> str:
    names = sorted(map(str, sockets))
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "") if names else "none"
