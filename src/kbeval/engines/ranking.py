"""From scores to a ranking, for whatever scores a whole corpus at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def best_first(scores: NDArray[np.floating[Any]], top_k: int) -> NDArray[np.intp]:
    """Positions of the ``top_k`` highest scores above 0, highest first, equal ones by position.

    Who keeps ids in METHOD 2's order (as bytes, highest first) so gets equal scores in that order too. Only what
    can be among the best is sorted, so that a large corpus costs one pass.

    Args:
        scores: shape (texts,).
        top_k: at least 1.
    """
    matching = np.flatnonzero(scores > 0)
    if len(matching) > top_k:
        values = scores[matching]
        lowest_kept = np.partition(values, len(values) - top_k)[len(values) - top_k]
        matching = matching[values >= lowest_kept]
    return matching[np.argsort(-scores[matching], kind="stable")][:top_k]
