"""Cohere's reranker: Haystack's component and Cohere's own client, held to a timeout and to its protocol."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import httpx
from haystack import component, default_from_dict, default_to_dict
from haystack.utils import Secret
from haystack_integrations.components.rankers.cohere import CohereRanker

from kbeval.engines.base import Usage
from kbeval.engines.components.services import ServiceError, calling
from kbeval.engines.metering import timed, used

COHERE_KEY = "COHERE_API_KEY"
COHERE_URL = "https://api.cohere.com"
DOCUMENTS_A_UNIT = 100


@component
class PunctualCohereRanker(CohereRanker):
    """Haystack's ``CohereRanker`` whose client keeps our timeout and our number of retries.

    The component has no argument for either; left alone, its client waits 300 s and sends three requests. And
    it trusts the answer: an index of -1 would silently be the last chunk, a missing one a lost chunk. Here
    ``run`` raises a ServiceError for whatever is not a complete, well-formed answer in time, and asks nothing
    about no documents. (``run_async`` is as Haystack made it.)
    """

    remote = True

    def __init__(
        self,
        model: str = "rerank-v3.5",
        top_k: int = 10,
        api_key: Secret = Secret.from_env_var(COHERE_KEY),  # noqa: B008 - Haystack's idiom
        api_base_url: str = COHERE_URL,
        timeout_s: float = 30.0,
        retries: int = 2,
    ) -> None:
        # Not super(): Haystack's decorator makes a second class of this one.
        CohereRanker.__init__(self, model=model, top_k=top_k, api_key=api_key, api_base_url=api_base_url)
        self.timeout_s = timeout_s
        self.retries = retries

    def warm_up(self) -> None:
        """Builds the client."""
        if self._cohere_client is None:
            from cohere import ClientV2

            client = ClientV2(
                api_key=self.api_key.resolve_value(),
                base_url=self.api_base_url,
                client_name="kbeval",
                timeout=self.timeout_s,
                max_retries=self.retries,
                httpx_client=_TimedClient(timeout=self.timeout_s, follow_redirects=True),
            )
            checked: Any = _CheckedClient(client, f"cohere:{self.model_name}", self.timeout_s, self.retries)
            self._cohere_client = checked

    def close(self) -> None:
        """Closes the connections. A later call opens new ones."""
        if self._cohere_client is not None:
            cast("_CheckedClient", self._cohere_client).close()
            self._cohere_client = None

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(
            self,
            model=self.model_name,
            top_k=self.top_k,
            api_key=self.api_key.to_dict(),
            api_base_url=self.api_base_url,
            timeout_s=self.timeout_s,
            retries=self.retries,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> PunctualCohereRanker:
        return default_from_dict(cls, data)


class _TimedClient(httpx.Client):
    """Tells the meter of requests that repeat another, and of the pause before."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        return timed(super().send, request, **options)


class _CheckedClient:
    """Cohere's client, of which the component only uses ``rerank``; every failure is a ServiceError."""

    def __init__(self, client: Any, service: str, timeout_s: float, retries: int) -> None:
        self._client = client
        self._service = service
        self._timeout_s = timeout_s
        self._retries = retries

    def rerank(self, *, documents: list[str], top_n: int, **arguments: Any) -> Any:
        if not documents:
            return SimpleNamespace(results=[])
        with calling(self._service, timeout_s=self._timeout_s, retries=self._retries):
            answer = self._client.rerank(documents=documents, top_n=top_n, **arguments)
            used(Usage(self._service, calls=1, rerank_units=_units(answer, len(documents))))
            self._check(answer, len(documents), min(top_n, len(documents)))
        return answer

    def close(self) -> None:
        # Cohere's client closes its connections only as a context manager.
        self._client.__exit__(None, None, None)

    def _check(self, answer: Any, sent: int, wanted: int) -> None:
        # Cohere's client builds its answer without checking the types in it.
        results = getattr(answer, "results", None)
        if not isinstance(results, list):
            raise ServiceError(f"{self._service}: answered without a list of results")
        indices = [getattr(result, "index", None) for result in results]
        for index in indices:
            if not isinstance(index, int) or not 0 <= index < sent:
                raise ServiceError(f"{self._service}: answered with index {index!r} for {sent} documents")
        if len(set(indices)) != wanted or len(indices) != wanted:
            raise ServiceError(
                f"{self._service}: answered with {len(indices)} results for {len(set(indices))} documents, "
                f"where {wanted} were asked for"
            )
        for result in results:
            score = getattr(result, "relevance_score", None)
            if not isinstance(score, int | float) or not math.isfinite(score):
                raise ServiceError(f"{self._service}: answered with relevance_score {score!r}")


MOST_BILLED = 10**9
"""More than one answer takes: what says more, or less than nothing, says nothing."""


def _units(answer: Any, documents: int) -> int:
    """The search units that the answer says were billed; one for each hundred documents where it does not say."""
    billed = getattr(getattr(getattr(answer, "meta", None), "billed_units", None), "search_units", None)
    if isinstance(billed, int | float) and 0 <= billed <= MOST_BILLED:
        return math.ceil(billed)
    return math.ceil(documents / DOCUMENTS_A_UNIT)
