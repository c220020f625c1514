"""The rerankers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.engines.components.services import checked_base_url, require_key
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from kbeval.engines.components.cohere_ranker import PunctualCohereRanker

KNOWN = "none, cohere:MODEL (such as cohere:rerank-v3.5)"


def make_reranker(
    name: str, *, base_url: str | None, top_k: int, timeout_s: float, retries: int
) -> PunctualCohereRanker | None:
    """The reranker of that name, None for ``none``; nothing is called yet.

    Args:
        name: as the settings spell it.
        base_url: where the API is, the service's own address where it is None.
        top_k: how many chunks come back: as many as go in.
        timeout_s: seconds without a sign of the server after which a request is given up.
        retries: how often a request is repeated that met 408, 409, 429, 5xx or no server at all.

    Raises:
        KbevalError: for a name that is not known, an address that is none, and where the environment lacks
            the key.
    """
    if name == "none":
        return None
    kind, _, model = name.partition(":")
    if kind != "cohere" or not model:
        raise KbevalError(f"reranker: expected one of {KNOWN}, found {name!r}")
    require_key("COHERE_API_KEY", f"reranker {name}")
    if base_url is not None:
        base_url = checked_base_url("reranker_base_url", base_url)
    # Cohere's client takes most of a second to import: only who asks for it pays.
    from kbeval.engines.components.cohere_ranker import COHERE_URL, PunctualCohereRanker

    try:
        return PunctualCohereRanker(
            model=model,
            top_k=top_k,
            api_base_url=base_url or COHERE_URL,
            timeout_s=timeout_s,
            retries=retries,
        )
    except ValueError as error:  # Haystack refuses the address of an endpoint where a base is wanted
        raise KbevalError(f"reranker_base_url: {error}") from error
