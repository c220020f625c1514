"""ranx's metrics on kbeval's arrays: the only place that touches ranx.

What is called are the functions that compute one query, which ranx's public ones run in a parallel loop. One
query at a time costs 3 microseconds of calling, and gives: a third of the time to compile (16 s for 45 s, all
metrics), no thread pool and no threading layer in the caller's process, values that cannot depend on the
number of threads, and lists of their own length, where one padded array would make f1 divide by the padding.

On small inputs the kernels run uncompiled: as ranx wrote them, by the interpreter. Values agree to the last
bit or the one beside it, so which way is taken depends on the size of the input alone. Nothing of numba's
settings is read or changed.
"""

from __future__ import annotations

import builtins
from functools import cache
from itertools import repeat
from types import FunctionType
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

UNCOMPILED_UP_TO = 100_000


def pays_to_compile(queries: int, rows: int) -> bool:
    """Whether compiled kernels are the faster way for runs of this size (all runs together).

    Args:
        queries: how many lists are scored.
        rows: how many lines they hold.
    """
    return queries * 20 + rows > UNCOMPILED_UP_TO


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


def paired_t_test() -> Callable[[Any, Any], tuple[float, bool]]:
    """ranx's paired Student's t-test: two arrays give (two-sided p, whether it is at most .01)."""
    test: Callable[[Any, Any], tuple[float, bool]] = import_alone(
        "ranx.statistical_tests.paired_student_t_test"
    ).paired_student_t_test
    return test


@cache
def _kernel(name: Kernel, *, compiled: bool) -> Callable[..., float]:
    kernel = getattr(import_alone(f"ranx.metrics.{name}"), f"_{name}")
    return kernel if compiled else _uncompiled(kernel)


def _uncompiled(kernel: Any) -> Callable[..., float]:
    """The function that numba would compile, also in whatever it calls."""
    function: FunctionType = getattr(kernel, "py_func", kernel)
    used = {
        name: function.__globals__[name]
        for name in function.__code__.co_names
        if name in function.__globals__
    }
    scope = {name: _uncompiled(value) if hasattr(value, "py_func") else value for name, value in used.items()}
    return FunctionType(function.__code__, {"__builtins__": builtins, **scope}, function.__name__)
