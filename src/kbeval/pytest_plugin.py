"""The fixture ``kbeval_evaluate`` for pytest. Nothing is imported before a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from kbeval.testing import Evaluated


@pytest.fixture(scope="session")
def kbeval_evaluate(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Evaluated]:
    """Evaluates an engine: ``kbeval_evaluate(search).assert_targets({"mrr": 0.8})``.

    It takes what ``kbeval.testing.evaluate_engine`` takes, and gives what it gives; runs are written to a temporary
    folder.
    """
    from kbeval.testing import evaluate_engine

    def evaluate(engine: Any, dataset: str | os.PathLike[str] | None = None, **options: Any) -> Evaluated:
        return evaluate_engine(engine, dataset, folder=tmp_path_factory.mktemp("kbeval"), **options)

    return evaluate
