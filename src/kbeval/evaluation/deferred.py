"""Imports a module of a package without running the package's own ``__init__``, until somebody asks for it.

``import ranx`` takes 1.5 to 4 seconds and sets numba's threading layer for the whole process; the few modules
of it that kbeval needs take 0.1 and set nothing. ``importlib.util.LazyLoader`` does not help: it runs
``__init__`` as soon as a submodule asks for the package's ``__path__``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any

_lock = RLock()
_running: set[str] = set()


class _Deferred(ModuleType):
    """A package that runs its ``__init__``, in place, when a name is wanted that it does not hold yet."""

    def __getattr__(self, name: str) -> Any:
        # Tools that look through sys.modules ask every module for its __file__, __warningregistry__ and so
        # on.
        if not name.startswith("__") or name in {"__all__", "__version__"}:
            with _lock:  # another thread waits until the package is whole
                # What the package imports while it runs sees it half done, as always.
                if type(self) is _Deferred and self.__name__ not in _running:
                    self._run()
            if name in vars(self):
                return vars(self)[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _run(self) -> None:
        _running.add(self.__name__)
        try:
            if self.__spec__ is None or self.__spec__.loader is None:
                raise ImportError(f"package {self.__name__!r} cannot be run", name=self.__name__)
            self.__spec__.loader.exec_module(self)
        finally:
            _running.remove(self.__name__)
        for full_name, module in list(sys.modules.items()):
            parent, _, child = full_name.rpartition(".")
            if parent == self.__name__:
                vars(self).setdefault(child, module)
        self.__class__ = ModuleType  # type: ignore[assignment]


def import_alone(name: str) -> ModuleType:
    """Imports the module ``name``; the packages that it lies in stay deferred unless they are imported
    already.

    A later ``import`` of those packages finds them whole: their first use runs them.

    Raises:
        ImportError: there is no such module.
    """
    parents = [name[:end] for end, letter in enumerate(name) if letter == "."]
    with _lock:
        for parent in parents:
            if parent not in sys.modules:
                spec = find_spec(parent)
                if spec is None:
                    raise ModuleNotFoundError(f"No module named {parent!r}", name=parent)
                package = module_from_spec(spec)
                package.__class__ = _Deferred
                sys.modules[parent] = package
        module = import_module(name)
        # The import has set each module as an attribute of its package. __init__ may bind that name otherwise
        # (ranx.metrics.ndcg is a function of the module of that name), so it must be asked.
        for full_name in [*parents[1:], name]:
            parent, _, child = full_name.rpartition(".")
            package = sys.modules[parent]
            if isinstance(package, _Deferred):
                vars(package).pop(child, None)
    return module
