"""The embedders by name: wordllama, which needs no key and no download, and any OpenAI-compatible server."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from haystack import Document, component

from kbeval.engines.base import Usage
from kbeval.engines.components.services import calling, checked_base_url, require_key
from kbeval.engines.metering import timed, used
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

OPENAI_KEY = "OPENAI_API_KEY"
KNOWN = "wordllama, openai:MODEL (such as openai:text-embedding-3-small)"

# Texts in one request: 128 chunks of 120 words are some 25,000 tokens, well below OpenAI's limit for one.
_OPENAI_BATCH = 128


@dataclass(frozen=True)
class Embedder:
    """How texts become vectors.

    Attributes:
        name: as the settings spell it.
        remote: whether a server does it, which may answer differently tomorrow.
        query: the Haystack component for one text: ``run(text=...)`` gives ``{"embedding": [float, ...]}``,
            without ``embedding`` where the text has no vector.
        chunks: the Haystack component for many: ``run(documents=[...])`` gives them with their embeddings.
        timeout_s: seconds that a remote one is waited for.
        retries: how often a failed request is repeated.
    """

    name: str
    remote: bool
    query: Any
    chunks: Any
    timeout_s: float
    retries: int

    def embed_query(self, text: str) -> list[float] | None:
        """The vector of a query, None where it has none.

        Raises:
            ServiceError: where a remote embedder gives no usable answer.
        """
        if not text.strip():
            return None
        with self._calling():
            found = self.query.run(text=text)
        self._note_usage(found)
        embedding: list[float] | None = found.get("embedding")
        return embedding if embedding and _usable(embedding) else None

    def embed_chunks(self, documents: list[Document]) -> list[Document]:
        """The chunks in their order, each with its vector; ``embedding`` is None where a chunk has none.

        A vector that pgvector could not compare by cosine (zero, or not finite) counts as none.

        Raises:
            ServiceError: where a remote embedder gives no usable answer.
        """
        worded = [document for document in documents if (document.content or "").strip()]
        vectors: dict[str, list[float] | None] = {}
        if worded:
            with self._calling():
                found = self.chunks.run(documents=worded)
            self._note_usage(found)
            vectors = {d.id: d.embedding for d in found["documents"]}
        return [
            replace(
                document,
                embedding=vector if (vector := vectors.get(document.id)) and _usable(vector) else None,
            )
            for document in documents
        ]

    def dimension(self) -> int:
        """Length of a vector, found by embedding a word: also the first sign that a server answers."""
        embedding = self.embed_query("dimension")
        if not embedding:
            raise KbevalError(f"embedder {self.name}: expected a vector, found none")
        return len(embedding)

    def _note_usage(self, found: dict[str, Any]) -> None:
        """Tells the meter of the tokens that a server says it was sent."""
        if self.remote:
            tokens = found.get("meta", {}).get("usage", {}).get("prompt_tokens", 0)
            used(Usage(self.name, calls=1, tokens=tokens if isinstance(tokens, int) else 0))

    def _calling(self) -> AbstractContextManager[None]:
        return calling(f"embedder {self.name}", timeout_s=self.timeout_s, retries=self.retries)

    def close(self) -> None:
        """Closes the connections of a remote one."""
        for part in (self.query, self.chunks):
            client = getattr(part, "client", None)
            if client is not None:
                client.close()


def make_embedder(name: str, *, base_url: str | None, timeout_s: float, retries: int) -> Embedder:
    """The embedder of that name; nothing is loaded or called yet.

    Raises:
        KbevalError: for a name that is not known, and where the environment lacks the key of a remote one.
    """
    kind, _, model = name.partition(":")
    if name == "wordllama":
        return Embedder(
            name=name,
            remote=False,
            query=WordLlamaTextEmbedder(),
            chunks=WordLlamaDocumentEmbedder(),
            timeout_s=timeout_s,
            retries=retries,
        )
    if kind == "openai" and model:
        require_key(OPENAI_KEY, f"embedder {name}")
        from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
        from haystack.utils import Secret

        common: dict[str, Any] = {
            "api_key": Secret.from_env_var(OPENAI_KEY),
            "model": model,
            "api_base_url": checked_base_url("embedder_base_url", base_url) if base_url else None,
            "timeout": timeout_s,
            "max_retries": retries,
        }
        # Without raise_on_failure a failed batch would only be logged, and its chunks left without vectors.
        chunks = OpenAIDocumentEmbedder(batch_size=_OPENAI_BATCH, progress_bar=False, raise_on_failure=True, **common)
        return Embedder(
            name=name,
            remote=True,
            query=_timed_client(OpenAITextEmbedder(**common)),
            chunks=chunks,
            timeout_s=timeout_s,
            retries=retries,
        )
    raise KbevalError(f"embedder: expected one of {KNOWN}, found {name!r}")


def _timed_client(embedder: Any) -> Any:
    """The component, with a client that tells the meter of requests that repeat another."""
    from openai import DefaultHttpxClient

    class TimedClient(DefaultHttpxClient):
        def send(self, request: Any, **options: Any) -> Any:
            return timed(super().send, request, **options)

    embedder.warm_up()
    embedder.client, plain = embedder.client.with_options(http_client=TimedClient()), embedder.client
    plain.close()
    return embedder


@component
class WordLlamaTextEmbedder:
    """Embeds one text by wordllama: static vectors of 256 dimensions, unit length."""

    def warm_up(self) -> None:
        _wordllama()

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Returns ``{"embedding": [...]}``, and nothing for a text without a token."""
        vector = wordllama_vector(text)
        return {} if vector is None else {"embedding": vector.tolist()}


@component
class WordLlamaDocumentEmbedder:
    """Embeds documents by wordllama."""

    def warm_up(self) -> None:
        _wordllama()

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Returns the documents with their embeddings, None for a text without a token."""
        vectors = (wordllama_vector(document.content or "") for document in documents)
        return {
            "documents": [
                replace(document, embedding=None if vector is None else vector.tolist())
                for document, vector in zip(documents, vectors, strict=True)
            ]
        }


def wordllama_vector(text: str) -> NDArray[np.float32] | None:
    """The mean of the text's token vectors, shape (256,), unit length; None where there is no direction.

    The same as ``WordLlama.embed(text, norm=True)``, which pads a batch to its longest text: here neither
    time nor the last bit of a vector depends on what else is embedded, and equal texts are equal to the
    bit.
    """
    tokenizer, table = _wordllama()
    tokens = tokenizer.encode(text, add_special_tokens=False).ids
    if not tokens:
        return None
    vector = np.add.reduce(table[np.asarray(tokens)]) / np.float32(len(tokens))
    length = np.linalg.norm(vector)
    return vector / length if length > 0 else None


@lru_cache(maxsize=1)
def _wordllama() -> tuple[Any, NDArray[np.float32]]:
    """The tokenizer and the table of token vectors, shape (32000, 256): from the wheel, not from the net."""
    with _root_logger_as_it_was():  # wordllama calls logging.basicConfig when it is imported
        import wordllama
    try:
        # 0.4.0 looks for its tokenizer in a folder that does not exist, and then in the cache folder.
        model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    except FileNotFoundError as error:
        raise KbevalError(f"embedder wordllama: the installed package lacks its weights ({error})") from error
    model.tokenizer.no_padding()
    return model.tokenizer, model.embedding


@contextmanager
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _usable(vector: list[float]) -> bool:
    length = float(np.linalg.norm(vector))
    return bool(np.isfinite(length)) and length > 0
