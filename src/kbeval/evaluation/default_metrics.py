"""The metrics that are reported unless others are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.evaluation.metrics import parse_metric, parse_metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.evaluation.metrics import Metric

DEFAULT_METRICS = (
    "hit_rate@1,hit_rate@3,hit_rate@5,hit_rate@10,hit_rate@20,"
    "recall@1,recall@3,recall@5,recall@10,recall@20,"
    "mrr,precision@5,precision@10,ndcg@10,domain_accuracy@5"
)


def choose_metrics(asked: str | None, configured: Sequence[str] | None, primary: str) -> tuple[list[Metric], Metric]:
    """The metrics to report and the primary one, which is always among them.

    Args:
        asked: a comma-separated list; it wins over ``configured``, which wins over the defaults.
        configured: the names in the settings.
        primary: the name of the primary metric.

    Raises:
        KbevalError: a name is no metric's, or the primary one cannot be tested by pairs of all queries.
    """
    text = asked if asked is not None else ",".join(configured or ()) or DEFAULT_METRICS
    metrics = list(parse_metrics(text))
    main = parse_metric(primary)
    if main.family.needs_domains:
        raise KbevalError(f"primary metric: expected one that every question has a value for, found {main.name}")
    if main not in metrics:
        metrics.append(main)
    return metrics, main
