"""Gates: runs held against targets, and against a baseline within margins. What ``kbeval check`` decides."""

from kbeval.evaluation.gates.asked import Margin, Target, read_margins, read_targets
from kbeval.evaluation.gates.judging import Baseline, Check, Line, Policy, Word, check_run
from kbeval.evaluation.gates.measuring import Measured, measure_runs

__all__ = [
    "Baseline",
    "Check",
    "Line",
    "Margin",
    "Measured",
    "Policy",
    "Target",
    "Word",
    "check_run",
    "measure_runs",
    "read_margins",
    "read_targets",
]
