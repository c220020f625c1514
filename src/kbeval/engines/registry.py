"""From a name or a SPEC to an engine that is ready to be built."""

from __future__ import annotations

import difflib
import importlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kbeval.config import explain
from kbeval.engines.presets import expand
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.engines.base import BuildContext, Engine, EngineSettings

# type -> (module, settings class, engine class); imported when one is used, for Haystack alone takes a second.
_TYPES = {
    "hybrid": ("kbeval.engines.hybrid", "HybridSettings", "HybridEngine"),
    "keyword": ("kbeval.engines.keyword", "KeywordSettings", "KeywordEngine"),
    "bm25": ("kbeval.engines.bm25", "Bm25Settings", "Bm25Engine"),
    "python": ("kbeval.engines.python", "PythonSettings", "PythonEngine"),
}
_PREFIXED = {"python": "object"}  # type "python:module:object": the rest is this setting
_KNOWN = "hybrid, keyword, bm25, python:MODULE:OBJECT"

_NAMED_SPEC = re.compile(r"(?P<name>[^=:]+)=(?P<spec>.+)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class EnginePlan:
    """An engine that was asked for: its name, its validated settings, and how to build it."""

    name: str
    settings: EngineSettings
    engine_class: Any

    def build(self, context: BuildContext) -> Engine:
        """Builds it: imports, indexes, embeds. May take long; reports to ``context.progress``."""
        engine: Engine = self.engine_class.build(self.settings, context)
        return engine


def plan_engines(
    specs: Sequence[str],
    tables: Mapping[str, Mapping[str, Any]],
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[EnginePlan]:
    """Resolves ``[NAME=]SPEC`` arguments against the ``[engines.NAME]`` tables.

    Args:
        specs: as given by the user; empty means every configured engine.
        tables: the configured engines.
        overrides: settings by engine name, which replace those of the tables.

    Raises:
        KbevalError: an unknown engine, type, key or value, or the same name twice.
    """
    plans: dict[str, EnginePlan] = {}
    for name, table in named_tables(specs, tables).items():
        plans[name] = _plan(name, {**table, **(overrides or {}).get(name, {})})
    return list(plans.values())


def named_tables(specs: Sequence[str], tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The settings table of each engine asked for, by its name, in the order asked."""
    for name in tables:
        if not _NAME.fullmatch(name):
            raise KbevalError(f"[engines]: expected names of letters, digits, - and _, found {name!r}")
    if not specs and not tables:
        raise KbevalError("[engines]: expected at least one engine, found none")
    named: dict[str, Mapping[str, Any]] = {}
    for argument in specs or list(tables):
        match = _NAMED_SPEC.fullmatch(argument)
        spec = match["spec"] if match else argument
        if spec in tables:
            name, table = spec, tables[spec]
        else:
            name, table = default_name(spec), {"type": spec}
            _module_of(spec, known=tables)
        if match:
            name = match["name"]
            if not _NAME.fullmatch(name):
                raise KbevalError(f"--engine {argument}: expected a name of letters, digits, - and _, found {name!r}")
        if name in named:
            raise KbevalError(f"--engine {argument}: expected names that differ, found {name!r} twice")
        named[name] = table
    return named


def default_name(spec: str) -> str:
    """The object's or type's own name; anything but letters, digits, ``-`` and ``_`` becomes ``_``."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", spec.rpartition(":")[2])


def _module_of(kind: str, known: Mapping[str, Any]) -> tuple[str, str, str]:
    head = kind.partition(":")[0]
    if head in _TYPES and (":" in kind) == (head in _PREFIXED):
        return _TYPES[head]
    near = difflib.get_close_matches(kind, [*known, *_TYPES], n=1)
    hint = f" (nearest: {near[0]!r})" if near else ""
    names = f"{', '.join(known)}, or a type: " if known else ""
    raise KbevalError(f"engine {kind!r}: expected one of {names}{_KNOWN}; found none of that name{hint}")


def _plan(name: str, table: Mapping[str, Any]) -> EnginePlan:
    options = expand(name, table)
    kind = options.pop("type", None)
    if not isinstance(kind, str):
        raise KbevalError(f"[engines.{name}]: expected a type ({_KNOWN}), found {kind!r}")
    module_name, settings_name, engine_name = _module_of(kind, known={})
    head, _, rest = kind.partition(":")
    if head in _PREFIXED:
        options[_PREFIXED[head]] = rest
    module = importlib.import_module(module_name)
    settings_class = getattr(module, settings_name)
    try:
        settings = settings_class.model_validate(options)
    except ValidationError as error:
        words = explain(error, settings_class)
        raise KbevalError(f"[engines.{name}]: expected {words['expected']}, found {words['found']}") from None
    return EnginePlan(name=name, settings=settings, engine_class=getattr(module, engine_name))
