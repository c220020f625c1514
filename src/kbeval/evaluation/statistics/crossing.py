"""Whether two engines change places between strata, or only lead by different amounts."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

from kbeval.evaluation.statistics.distributions import chi_squared_tail

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Crossing:
    """Gail and Simon's test for a qualitative interaction."""

    statistic: float
    p: float


def gail_simon(deltas: Sequence[float], standard_errors: Sequence[float]) -> Crossing:
    """Tests that some stratum truly favours one engine and some other the other (Gail & Simon 1985).

    The statistic is the smaller of the sums of (delta / standard error) squared over the strata above and
    below 0. Its null distribution, worst where all but one of the true differences are 0, is a binomial
    mixture of chi squared: p < .05 from 2.71 on for two strata, from 4.23 for three. The strata are taken as
    independent. Styles that share documents go up and down together, which makes a crossing by chance rarer
    than p says.

    Args:
        deltas: the difference in each stratum; 0 for one that is not to count for either side.
        standard_errors: of each; 0 is allowed, and makes a difference that is not 0 infinitely clear.

    Returns:
        The statistic, and p: 1 where the statistic is 0 (no stratum on one of the sides).

    Raises:
        ValueError: for sequences of different lengths, fewer than two strata, or a negative standard error.
    """
    if len(deltas) != len(standard_errors) or len(deltas) < 2 or any(error < 0 for error in standard_errors):
        raise ValueError(
            "expected two or more strata with a standard error of at least 0 each, "
            f"found differences {list(deltas)} and standard errors {list(standard_errors)}"
        )
    above = below = 0.0
    for delta, error in zip(deltas, standard_errors, strict=True):
        if delta == 0:
            continue
        squared = (delta / error) ** 2 if error > 0 else float("inf")
        if delta > 0:
            above += squared
        else:
            below += squared
    statistic = min(above, below)
    if statistic == 0:
        return Crossing(statistic=0.0, p=1.0)
    others = len(deltas) - 1
    mixture = (comb(others, h) * chi_squared_tail(statistic, h) for h in range(1, others + 1))
    return Crossing(statistic=statistic, p=sum(mixture) / 2**others)
