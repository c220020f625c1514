"""Engine types that installed packages bring, by the entry-point group ``kbeval.engines``.

A package declares ``[project.entry-points."kbeval.engines"]`` with ``TYPE = "package.module:Factory"``. The factory has
``Settings``, an :class:`~kbeval.engines.base.EngineSettings`, and ``build(settings, context)``, which returns an
:class:`~kbeval.engines.base.Engine`; an ``Engine`` class with these two is one. Names are read from the packages'
metadata; code is loaded only when a configuration names its type.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbeval.engines.base import EngineSettings
from kbeval.errors import KbevalError
from kbeval.secrets import one_line
from kbeval.signals import Terminated

if TYPE_CHECKING:
    from collections.abc import Container

GROUP = "kbeval.engines"


def names() -> list[str]:
    """The types that packages bring."""
    return sorted({entry.name for entry in _installed(_path())})


def refuse_clash(kind: str) -> None:
    """Refuses a type of kbeval's own that a package brings as well: nobody could tell which one was measured.

    Raises:
        KbevalError: naming the packages.
    """
    rivals = _entries(kind)
    if rivals:
        raise KbevalError(
            f"engine {kind!r}: expected kbeval's own type alone, found one of that name in {_packages(rivals)}: "
            "that package must name it otherwise"
        )


def load(kind: str, built_in: Container[str]) -> tuple[type[EngineSettings], Any] | None:
    """The settings class and the factory of a type that a package brings; None where none does.

    Raises:
        KbevalError: two packages bring it, it does not load, or is no factory.
    """
    found = [] if kind in built_in else _entries(kind)
    if not found:
        return None
    if len({entry.value for entry in found}) > 1:
        raise KbevalError(f"engine {kind!r}: expected one package that brings it, found {_packages(found)}")
    where = f"engine {kind!r} of {_packages(found[:1])}"
    try:
        factory = found[0].load()
    except (KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:
        raise KbevalError(f"{where}: cannot be loaded: {one_line(error)}") from error
    settings = getattr(factory, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, EngineSettings)):
        raise KbevalError(f"{where}: expected a factory with Settings, an EngineSettings, found {settings!r:.80}")
    if not callable(getattr(factory, "build", None)):
        raise KbevalError(f"{where}: expected a factory with build(settings, context), found none")
    return settings, factory


def _entries(kind: str) -> list[EntryPoint]:
    return list(_installed(_path()).select(name=kind))


@lru_cache(maxsize=4)
def _installed(path: tuple[tuple[str, int], ...]) -> EntryPoints:  # noqa: ARG001 - what the answer depends on
    """The entry points of every package: read once, for a sweep looks for its engine's type ten thousand times."""
    return entry_points(group=GROUP)


def _path() -> tuple[tuple[str, int], ...]:
    """The folders that packages are looked for in, with the time of their last change."""
    found = []
    for folder in sys.path:
        try:
            found.append((folder, Path(folder or ".").stat().st_mtime_ns))
        except OSError:
            found.append((folder, 0))
    return tuple(found)


def _packages(found: list[EntryPoint]) -> str:
    return " and ".join(sorted({f"the package {entry.dist.name if entry.dist else '?'!s}" for entry in found}))
