"""From scores to a ranking, for engines that score every document of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def best_first(ids: Sequence[str], scores: NDArray[np.float64], k: int) -> list[tuple[str, float]]:
    """The ``k`` best (id, score) pairs: score descending, equal scores by id descending on bytes (METHOD 2).

    Only what can be among the best is sorted, so that a large corpus costs one pass.
    """
    if k <= 0 or len(ids) == 0:
        return []
    candidates = np.arange(len(ids))
    if len(ids) > k:
        threshold = np.partition(scores, len(ids) - k)[len(ids) - k]
        candidates = np.flatnonzero(scores >= threshold)
    # UTF-8 keeps the order of code points, so comparing str is comparing bytes.
    ranked = sorted(((float(scores[i]), ids[i]) for i in candidates), reverse=True)
    return [(document, score) for score, document in ranked[:k]]
