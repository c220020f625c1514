"""From ``--workers`` and ``--scheduler`` to processes that take work."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbeval.workers import Workers


@contextmanager
def other_processes(count: int | None, scheduler: str | None, concurrency: int | None) -> Iterator[Workers | None]:
    """The processes asked for; None where none are.

    Raises:
        KbevalError: two ways to ask at once were asked for, or the cluster is not to be had.
    """
    from kbeval.errors import KbevalError
    from kbeval.workers import dask_cluster, local_processes

    given = {"--workers": count, "--scheduler": scheduler, "--concurrency": concurrency}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise KbevalError(f"expected one of --workers, --scheduler and --concurrency, found {' and '.join(named)}")
    if scheduler is not None:
        with dask_cluster(scheduler) as workers:
            yield workers
    elif count is not None:
        with local_processes(count) as workers:
            yield workers
    else:
        yield None
