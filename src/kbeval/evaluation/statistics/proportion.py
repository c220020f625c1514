"""The interval of a share."""

from __future__ import annotations

from kbeval.evaluation.statistics.distributions import beta_quantile


def clopper_pearson(successes: int, trials: int, *, alpha: float = 0.05) -> tuple[float, float]:
    """The exact interval of a binomial share (Clopper & Pearson 1934).

    Not Wilson's, which is shorter and covers less than it says for some shares: this one is there to bound something
    from twenty marks, and never covers less than ``1 - alpha``.

    Returns:
        (low, high), each between 0 and 1; (0, 1) without a trial.

    Raises:
        ValueError: unless ``0 <= successes <= trials``.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials, found {successes} of {trials}")
    low = 0.0 if successes == 0 else beta_quantile(alpha / 2, successes, trials - successes + 1)
    high = 1.0 if successes == trials else beta_quantile(1 - alpha / 2, successes + 1, trials - successes)
    return low, high
