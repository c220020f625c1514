"""The metrics that kbeval knows, each in a file of its own, and how their names are read."""

from kbeval.evaluation.metrics.base import Cutoff, Family, Metric, Oracle
from kbeval.evaluation.metrics.parsing import parse_metric, parse_metrics
from kbeval.evaluation.metrics.registry import families, register

__all__ = ["Cutoff", "Family", "Metric", "Oracle", "families", "parse_metric", "parse_metrics", "register"]
