"""METHOD 2's one order, for those who rank. It lives in ``kbeval.order``, below: readers sort by it too."""

from __future__ import annotations

from kbeval.order import falling_scores, sort_run

__all__ = ["falling_scores", "sort_run"]
