"""ranx's metrics on kbeval's arrays: the only place that touches ranx.

What is called are the functions that compute one query, which ranx's public ones run in a parallel loop. One
query at a time costs 3 microseconds of calling, and gives: a third of the time to compile (16 s for 45 s, all
nine), no thread pool and no threading layer in the caller's process, values that cannot depend on the
number of threads, and lists of their own length, where one padded array would make f1 divide by the padding.

On small inputs the kernels run uncompiled: as ranx wrote them, by the interpreter, adding up in numba's
order. Values are the same bits but for rbp, whose powers differ in the last one or two; so which way is taken
depends on the size of the input alone. Nothing of numba's settings is read or changed.
"""

from __future__ import annotations

import builtins
from functools import cache
from itertools import repeat
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kbeval.evaluation.deferred import import_alone

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Kernel = Literal[
    "average_precision",
    "f1",
    "hit_rate",
    "ndcg",
    "precision",
    "r_precision",
    "rank_biased_precision",
    "recall",
    "reciprocal_rank",
]

# Uncompiled, the 14 metrics of a comparison take 0.4 ms a query, and 0.2 microseconds a line (a list is
# walked down to its last relevant document). Compiled they take a thirtieth, after 0.4 s to load them from
# numba's cache or 7 s to fill it, the first time after an install. The switch lies between these two, at
# about 2 s (benchmarks/score_msmarco.py --switch).
_LINES_A_QUERY = 2_000
_UNCOMPILED_LINES = 10_000_000


def pays_to_compile(queries: int, lines: int) -> bool:
    """Whether compiled kernels are the better way to score lists of this size.

    Args:
        queries: how many lists there are, in all runs together.
        lines: how many documents they hold.
    """
    return queries * _LINES_A_QUERY + lines > _UNCOMPILED_LINES


def evaluate(
    kernel: Kernel,
    relevant: list[NDArray[np.float64]],
    rankings: list[NDArray[np.float64]],
    *arguments: float | NDArray[np.int64],
    compiled: bool,
) -> NDArray[np.float64]:
    """One value a query.

    Args:
        kernel: the name that ranx gives the metric's module.
        relevant: for each query rows of (id, grade), highest grade first, shape (relevant, 2): ranx takes its
            ideal in the order given.
        rankings: for each query the ids in the order of the run, shape (retrieved, 1); 0 matches nothing.
        arguments: what the kernel takes besides: the cut-off (0 for none), the relevance level and so on;
            an array holds one for each query.
        compiled: whether numba compiles it; see ``pays_to_compile``.
    """
    function = _kernel(kernel, compiled=compiled)
    columns = [value.tolist() if isinstance(value, np.ndarray) else repeat(value) for value in arguments]
    return np.fromiter(map(function, relevant, rankings, *columns), dtype=np.float64, count=len(relevant))


@cache
def _kernel(name: Kernel, *, compiled: bool) -> Callable[..., float]:
    kernel = getattr(import_alone(f"ranx.metrics.{name}"), f"_{name}")
    return kernel if compiled else _uncompiled(kernel)


def _sum_in_order(values: NDArray[np.float64]) -> float:
    """``np.sum`` as numba compiles it and as trec_eval adds up: one by one. numpy adds halves in pairs."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


def _at_level(qrels: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """ranx's ``clean_qrels``, without its detour by ``argwhere``, which takes half of the time of a kernel."""
    rows: NDArray[np.float64] = qrels[qrels[:, 1] >= level]
    return rows


# Average precision .18375 is printed as .1837 or .1838 according to its last bit, so that one counts.
_NUMPY = SimpleNamespace(**{**vars(np), "sum": _sum_in_order})
_REPLACED = {"clean_qrels": _at_level}


def _uncompiled(kernel: Any) -> Callable[..., float]:
    """The function that numba would compile, also in whatever it calls."""
    # Where the caller has turned numba's compiler off, they are plain functions already.
    function: FunctionType = getattr(kernel, "py_func", kernel)
    used = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    scope: dict[str, Any] = {"__builtins__": builtins}
    for name, value in used.items():
        if name in _REPLACED:
            scope[name] = _REPLACED[name]
        elif hasattr(value, "py_func") or isinstance(value, FunctionType):
            scope[name] = _uncompiled(value)
        else:
            scope[name] = _NUMPY if value is np else value
    return FunctionType(function.__code__, scope, function.__name__)
