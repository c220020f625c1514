"""How engines are asked: how many questions at once, how long, how often again, and when a run ends early."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbeval.config import Price, RunSettings
    from kbeval.engines.base import Usage


@dataclass(frozen=True)
class Policy:
    """How engines are asked.

    Attributes:
        concurrency: questions at once, of an engine that is made for it.
        timeout_s: how long one question may take, retries and all; None where the engine decides.
        retries: how often a question is asked again after a ``TransientError``.
        backoff_s: the first pause before that, in seconds; doubled each time up to ``max_wait_s``.
        max_wait_s: the longest pause that an engine may ask for.
        max_failures_in_a_row: after so many the run ends with what there is; None for no such end.
        max_cost: what one run may cost, in the currency of ``prices``; None for no limit.
        prices: by service.
        resume: whether answers of an earlier run that was not finished are taken over.
        limit: how many questions are asked, of a seeded sample; None for all.
    """

    concurrency: int = 1
    timeout_s: float | None = None
    default_timeout_s: float | None = None
    retries: int = 2
    backoff_s: float = 0.5
    max_wait_s: float = 60.0
    max_failures_in_a_row: int | None = 20
    max_cost: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    resume: bool = False
    limit: int | None = None

    def cost(self, usages: Iterable[Usage]) -> float:
        """What it costs; services without a price count with nothing: see :meth:`unpriced`."""
        return sum(
            (
                usage.tokens * price.per_million_tokens / 1e6
                + usage.completion_tokens * price.per_million_completion_tokens / 1e6
                + usage.rerank_units * price.per_thousand_rerank_units / 1e3
            )
            for usage in usages
            if (price := self.prices.get(usage.service)) is not None
        )

    def unpriced(self, usages: Iterable[Usage]) -> list[str]:
        """The services that have no price."""
        return sorted({usage.service for usage in usages} - set(self.prices))


def policy_of(
    settings: RunSettings,
    prices: Mapping[str, Price],
    *,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    max_failures_in_a_row: int | None = None,
    max_cost: float | None = None,
    resume: bool = False,
    limit: int | None = None,
) -> Policy:
    """What the settings say, overridden by what is given here; 0 means no limit for a timeout or failures in a row."""
    failures = settings.max_failures_in_a_row if max_failures_in_a_row is None else max_failures_in_a_row
    return Policy(
        concurrency=concurrency or settings.concurrency,
        timeout_s=timeout_s,
        default_timeout_s=settings.timeout_s or None,
        retries=settings.retries,
        backoff_s=settings.backoff_s,
        max_wait_s=settings.max_wait_s,
        max_failures_in_a_row=failures or None,
        max_cost=max_cost,
        prices=prices,
        resume=resume,
        limit=limit,
    )
