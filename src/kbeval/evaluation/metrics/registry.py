"""Which metrics there are. Every module of this package that registers a family adds one."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kbeval.evaluation.metrics.base import Cutoff, Family

_by_spelling: dict[str, tuple[Family, Cutoff]] = {}


def register(family: Family) -> Family:
    """Makes a family known by its name and its aliases, in any case.

    Raises:
        ValueError: one of them is taken.
    """
    takes = {family.name: family.cutoff, **family.aliases}
    for spelling in takes:
        if spelling in _by_spelling:
            raise ValueError(f"{family.name}: the name {spelling!r} is taken")
    _by_spelling.update({spelling: (family, cutoff) for spelling, cutoff in takes.items()})
    return family


@cache
def spellings() -> Mapping[str, tuple[Family, Cutoff]]:
    """Every spelling: its family and the cut-off that it takes. Imports the modules that register them."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        import_module(module.name)
    return MappingProxyType(_by_spelling)


def families() -> tuple[Family, ...]:
    """All families, each once, by name."""
    return tuple(sorted({family for family, _ in spellings().values()}, key=lambda family: family.name))
