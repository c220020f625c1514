"""Statistics to decide by (METHOD 4): pure functions on aligned arrays, with frozen results.

Everything here is free of the order in which questions, clusters or threads come: sums are exact, and what is
drawn at random is drawn for sorted values. Swapping the two engines negates every difference and keeps every
p.
"""

from kbeval.evaluation.statistics.bca import bca_interval, intervals_differ
from kbeval.evaluation.statistics.crossing import Crossing, gail_simon
from kbeval.evaluation.statistics.family import Detectable, detectable, holm, holm_levels
from kbeval.evaluation.statistics.non_inferiority import non_inferior, probability_unchanged_passes
from kbeval.evaluation.statistics.paired import ALPHA, MIN_NONZERO_CLUSTERS, PairStatistics, paired, plain_paired_t
from kbeval.evaluation.statistics.proportion import clopper_pearson
from kbeval.evaluation.statistics.sign_flip import SEED, sign_flip
from kbeval.evaluation.statistics.units import cluster_means

__all__ = [
    "ALPHA",
    "MIN_NONZERO_CLUSTERS",
    "SEED",
    "Crossing",
    "Detectable",
    "PairStatistics",
    "bca_interval",
    "clopper_pearson",
    "cluster_means",
    "detectable",
    "gail_simon",
    "holm",
    "holm_levels",
    "intervals_differ",
    "non_inferior",
    "paired",
    "plain_paired_t",
    "probability_unchanged_passes",
    "sign_flip",
]
