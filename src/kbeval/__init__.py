"""kbeval measures the retrieval quality of a knowledge base.

>>> import kbeval
>>> scores = kbeval.evaluate({"q1": {"d1": 1}}, {"q1": ["d2", "d1"]}, "mrr")
>>> scores.means
{'mrr': 0.5}
"""

from typing import TYPE_CHECKING, Any

from kbeval._version import __version__
from kbeval.errors import InputError, KbevalError

if TYPE_CHECKING:
    from kbeval.api import Domains, compare, evaluate, load_dataset, parse_metric, read_qrels, read_run
    from kbeval.model import Document, LabelledQuery, Qrels, Run

_HOMES = {
    "compare": "kbeval.api",
    "evaluate": "kbeval.api",
    "load_dataset": "kbeval.api",
    "parse_metric": "kbeval.api",
    "read_qrels": "kbeval.api",
    "read_run": "kbeval.api",
    "Domains": "kbeval.api",
    "Document": "kbeval.model",
    "LabelledQuery": "kbeval.model",
    "Qrels": "kbeval.model",
    "Run": "kbeval.model",
}

__all__ = [
    "Document",
    "Domains",
    "InputError",
    "KbevalError",
    "LabelledQuery",
    "Qrels",
    "Run",
    "__version__",
    "compare",
    "evaluate",
    "load_dataset",
    "parse_metric",
    "read_qrels",
    "read_run",
]


def __getattr__(name: str) -> Any:
    # Imported when first asked for, so that ``import kbeval`` and ``kbeval --help`` cost nothing.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
