"""Gates: runs held against targets, and against a baseline within margins. What ``kbeval check`` decides."""

from kbeval.evaluation.gates.asked import Margin, Target, read_margins, read_targets
from kbeval.evaluation.gates.judging import Baseline, Check, Line, Policy, Word, check_run
from kbeval.evaluation.gates.measuring import Measured, measure_runs
from kbeval.evaluation.gates.pairing import MeasuredPairs, measure_pairs

__all__ = [
    "Baseline",
    "Check",
    "Line",
    "Margin",
    "Measured",
    "MeasuredPairs",
    "Policy",
    "Target",
    "Word",
    "check_run",
    "measure_pairs",
    "measure_runs",
    "read_margins",
    "read_targets",
]
