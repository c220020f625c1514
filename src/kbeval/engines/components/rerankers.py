"""The rerankers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kbeval.engines.components.services import checked_base_url, require_key
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from pathlib import Path

    from haystack import Document

KNOWN = (
    "none, cohere:MODEL (such as cohere:rerank-v3.5), cross-encoder:MODEL (such as "
    "cross-encoder:BAAI/bge-reranker-v2-m3, or a folder), llm:MODEL"
)

LLM_URL = "https://openrouter.ai/api/v1"


class Reranker(Protocol):
    """A Haystack component that orders documents for a query.

    Attributes:
        remote: whether a server does it, which may answer differently tomorrow.
    """

    remote: bool

    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """Returns ``{"documents": [...]}``: all of them, best first, with scores.

        Raises:
            ServiceError: there is no complete answer.
        """

    def warm_up(self) -> None:
        """Loads or prepares what is needed."""

    def close(self) -> None:
        """Releases what is held."""


def make_reranker(
    name: str,
    *,
    base_url: str | None,
    top_k: int,
    timeout_s: float,
    retries: int,
    root: Path,
    batch_size: int,
    trust_remote_code: bool,
    device: str | None,
) -> Reranker | None:
    """The reranker of that name, None for ``none``. No server is called; a model on this machine is loaded.

    Args:
        name: as the settings spell it.
        base_url: where the API is, the service's own address where it is None.
        top_k: how many chunks come back: as many as go in.
        timeout_s: seconds without a sign of the server after which a request is given up.
        retries: how often a request is repeated that met 408, 409, 429, 5xx or no server at all.
        root: what a model's folder is relative to.
        batch_size, trust_remote_code, device: of a cross-encoder.

    Raises:
        KbevalError: for a name that is not known, an address that is none, where the environment lacks the key, and
            where a model cannot be loaded.
    """
    if name == "none":
        return None
    kind, _, model = name.partition(":")
    if kind not in ("cohere", "cross-encoder", "llm") or not model:
        raise KbevalError(f"reranker: expected one of {KNOWN}, found {name!r}")
    if kind == "cross-encoder":
        if base_url is not None:
            raise KbevalError(f"reranker_base_url: expected none, as {name} runs on this machine, found one")
        return _cross_encoder(model, name, root, batch_size, trust_remote_code, device)
    if base_url is not None:
        base_url = checked_base_url("reranker_base_url", base_url)
    if kind == "llm":
        from kbeval.engines.components.llm_ranker import ListwiseRanker

        ranker: Reranker = ListwiseRanker(
            model=model, base_url=base_url or LLM_URL, timeout_s=timeout_s, retries=retries
        )
        ranker.warm_up()
        return ranker
    require_key("COHERE_API_KEY", f"reranker {name}")
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


def _cross_encoder(
    model: str, name: str, root: Path, batch_size: int, trust_remote_code: bool, device: str | None
) -> Reranker:
    from kbeval.engines.components.local_models import CrossEncoderRanker, locate, require_extra

    require_extra(f"reranker {name}")
    ranker: Reranker = CrossEncoderRanker(
        model=locate(model, root, f"reranker {name}"),
        batch_size=batch_size,
        trust_remote_code=trust_remote_code,
        device=device,
    )
    ranker.warm_up()
    return ranker
