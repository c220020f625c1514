"""Reads a serialised Haystack pipeline, and lets nothing be imported that nobody has allowed.

A pipeline file names classes, and loading it imports and builds them: it is a program. Haystack has a list of allowed
modules of its own; here every class path in the file is looked at before Haystack sees it, also where the environment
has widened Haystack's list, and a file is refused where the environment has switched Haystack's checks off.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import kbeval.engines.components  # tells Haystack not to send telemetry, before it is imported  # noqa: F401
from kbeval.errors import InputError, KbevalError
from kbeval.formats.text import read_bytes
from kbeval.secrets import one_line
from kbeval.signals import Terminated

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import yaml
    from haystack import Pipeline

IN_MEMORY_STORE = "haystack.document_stores.in_memory.document_store.InMemoryDocumentStore"

_ALLOWED = ("haystack", "haystack_integrations", "haystack_experimental", "kbeval.engines.components")
_TYPES_ALONE = ("builtins", "typing", "collections")  # what a type annotation may be of
_CLASS_PATH = re.compile(r"\w+(\.\w+)+")
_UNSAFE = "HAYSTACK_UNSAFE_DESERIALIZATION"


@dataclass(frozen=True)
class LoadedPipeline:
    """A pipeline, and what a sidecar says of it: the SHA-256 of its file and the class of each component."""

    pipeline: Pipeline
    sha256: str
    components: dict[str, str]


def load_pipeline(path: Path, shown: str, allow: Sequence[str], *, own_stores: bool) -> LoadedPipeline:
    """Loads a pipeline from a YAML file.

    Args:
        shown: the file, as messages name it.
        allow: packages besides Haystack's whose components may be imported.
        own_stores: give each in-memory document store a storage of its own instead of the one that its index names,
            which other pipelines of this process may share.

    Raises:
        InputError: no such file, no YAML, no pipeline, or a class that is not allowed: nothing was imported then.
        KbevalError: Haystack cannot build it, or its checks are switched off.
    """
    if os.environ.get(_UNSAFE, "").strip().lower() not in ("", "0", "false", "no", "off"):
        raise KbevalError(
            f"{shown}: expected Haystack to check what a pipeline file loads, found that switched off: unset "
            f"{_UNSAFE}, and name the packages to be loaded in allow"
        )
    text = read_bytes(path)
    packages = [*_ALLOWED, *(package.rstrip(".") for package in allow)]
    _check_classes(text, shown, packages)

    from haystack import Pipeline
    from haystack.marshal import YamlMarshaller

    try:
        data = YamlMarshaller().unmarshal(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(shown, expected="a serialised pipeline of plain values", found=one_line(error, 120)) from None
    components = data.get("components") if isinstance(data, dict) else None
    if not isinstance(components, dict) or not components:
        raise InputError(shown, expected="a serialised pipeline with components", found="none")
    if own_stores:
        _give_own_storage(data, {}, set())
    try:
        with redirect_stdout(sys.stderr):
            pipeline = Pipeline.from_dict(data, allowed_modules=packages)
            pipeline.warm_up()
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:
        raise KbevalError(f"{shown}: the pipeline cannot be built: {_root(error)}") from error
    return LoadedPipeline(
        pipeline=pipeline,
        sha256=hashlib.sha256(text).hexdigest(),
        components={str(name): str(part.get("type")) for name, part in components.items()},
    )


MOST_ALIASES = 50
"""A serialised pipeline has a few at most; some tens of them can stand for billions of values."""


def _check_classes(text: bytes, shown: str, packages: Sequence[str]) -> None:
    """Looks at every ``type`` in the file, on the tree that YAML makes before it makes any object."""
    import yaml

    try:
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader))
        if aliases > MOST_ALIASES:
            raise InputError(shown, expected=f"at most {MOST_ALIASES} YAML aliases", found=str(aliases))
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        for node in _type_nodes(root):
            path = str(node.value)
            if not _CLASS_PATH.fullmatch(path):
                continue
            if not any(_is_of(path, package) for package in (*packages, *_TYPES_ALONE)):
                raise InputError(
                    shown,
                    line=node.start_mark.line + 1,
                    expected=f"a type of {', '.join(packages)}, or of a package that allow names",
                    found=repr(path[:100]),
                )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else None
        raise InputError(shown, line=line, expected="YAML", found=str(error.problem)) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(shown, expected="YAML", found=one_line(error, 120)) from None


def _type_nodes(root: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    import yaml

    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:  # an alias is the node that it stands for
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                waiting += [key, value]
                if key.value == "type" and isinstance(value, yaml.ScalarNode):
                    yield value


def _is_of(path: str, package: str) -> bool:
    return path.startswith(f"{package}.")


def _give_own_storage(value: Any, names: dict[str, str], seen: set[int]) -> None:
    import uuid

    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parameters = value.get("init_parameters")
        if value.get("type") == IN_MEMORY_STORE and isinstance(parameters, dict):
            index = parameters.get("index")
            if isinstance(index, str):  # equal names stay equal: retrievers share a store by its index
                parameters["index"] = names.setdefault(index, f"kbeval-{uuid.uuid4()}")
        for part in value.values():
            _give_own_storage(part, names, seen)
    elif isinstance(value, list):
        for part in value:
            _give_own_storage(part, names, seen)


def _root(error: BaseException) -> str:
    """What went wrong first: Haystack's own words around it repeat the component's whole configuration."""
    while error.__cause__ is not None:
        error = error.__cause__
    return one_line(error, 300)
