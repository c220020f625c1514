"""The embedders by name: wordllama, which needs no key and no download, any OpenAI-compatible server, and any model
that sentence-transformers runs."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from haystack import Document, component

from kbeval.engines.base import Usage
from kbeval.engines.components.prefixes import known_prefixes
from kbeval.engines.components.services import ServiceError, calling, checked_base_url, require_key
from kbeval.engines.metering import timed, used
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

OPENAI_KEY = "OPENAI_API_KEY"
KNOWN = (
    "wordllama, openai:MODEL (such as openai:text-embedding-3-small), sentence-transformers:MODEL "
    "(such as sentence-transformers:nomic-ai/nomic-embed-text-v1.5, or a folder)"
)

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
        query_prefix, document_prefix: what goes before each text.
        deterministic: whether the same text has the same vector every time.
        facts: what a sidecar should know besides the settings.
    """

    name: str
    remote: bool
    query: Any
    chunks: Any
    timeout_s: float
    retries: int
    query_prefix: str = ""
    document_prefix: str = ""
    deterministic: bool = True
    facts: Mapping[str, str] = field(default_factory=dict)

    def embed_query(self, text: str) -> list[float] | None:
        """The vector of a query, None where it has none.

        Raises:
            ServiceError: where a remote embedder gives no usable answer, and where a vector is not finite.
        """
        if not text.strip():
            return None
        with self._calling():
            found = self.query.run(text=text)
        self._note_usage(found)
        embedding: list[float] | None = found.get("embedding")
        if embedding and not np.isfinite(embedding).all():
            raise ServiceError(f"embedder {self.name}: gives a vector that is not finite")
        return embedding if embedding and _usable(embedding) else None

    def embed_chunks(self, documents: list[Document]) -> list[Document]:
        """The chunks in their order, each with its vector; ``embedding`` is None where a chunk has none.

        A vector that pgvector could not compare by cosine (zero, or not finite) counts as none; one from a server
        that is not finite is no usable answer.

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
            used(Usage(self.name, calls=1, tokens=tokens if isinstance(tokens, int) and 0 <= tokens <= 10**12 else 0))

    def _calling(self) -> AbstractContextManager[None]:
        return calling(f"embedder {self.name}", timeout_s=self.timeout_s, retries=self.retries)

    def close(self) -> None:
        """Closes the connections of a remote one."""
        for part in (self.query, self.chunks):
            client = getattr(part, "client", None)
            if client is not None:
                client.close()


def make_embedder(
    name: str,
    *,
    base_url: str | None,
    timeout_s: float,
    retries: int,
    root: Path = Path(),
    query_prefix: str | None = None,
    document_prefix: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
    device: str | None = None,
) -> Embedder:
    """The embedder of that name. No server is called; a sentence-transformers model is loaded.

    Args:
        name: as the settings spell it.
        base_url: where a server is, OpenAI's own address where it is None.
        timeout_s, retries: how long a server is waited for, and how often a failed request is repeated.
        root: what a model's folder is relative to.
        query_prefix, document_prefix: what goes before each text; None for what the model is known to want, or says
            that it wants.
        batch_size, trust_remote_code, device: of a model on this machine.

    Raises:
        KbevalError: for a name that is not known, where the environment lacks the key of a remote one, and where a
            model cannot be loaded.
    """
    kind, _, model = name.partition(":")
    if name == "wordllama":
        if query_prefix or document_prefix:
            raise KbevalError("embedder wordllama: expected no query_prefix or document_prefix, found one")
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

        before = _prefixes(query_prefix, document_prefix, known_prefixes(model))
        common: dict[str, Any] = {
            "api_key": Secret.from_env_var(OPENAI_KEY),
            "model": model,
            "api_base_url": checked_base_url("embedder_base_url", base_url) if base_url else None,
            "timeout": timeout_s,
            "max_retries": retries,
        }
        # Without raise_on_failure a failed batch would only be logged, and its chunks left without vectors.
        chunks = OpenAIDocumentEmbedder(
            prefix=before[1], batch_size=_OPENAI_BATCH, progress_bar=False, raise_on_failure=True, **common
        )
        return Embedder(
            name=name,
            remote=True,
            query=_checked_client(OpenAITextEmbedder(prefix=before[0], **common), f"embedder {name}"),
            chunks=_checked_client(chunks, f"embedder {name}"),
            timeout_s=timeout_s,
            retries=retries,
            query_prefix=before[0],
            document_prefix=before[1],
            deterministic=False,
        )
    if kind == "sentence-transformers" and model:
        from kbeval.engines.components import local_models

        local_models.require_extra(f"embedder {name}")
        place = local_models.locate(model, root, f"embedder {name}")
        loaded = local_models.embedding_model(place, trust_remote_code, device)
        facts = local_models.facts(loaded)
        before = _prefixes(query_prefix, document_prefix, known_prefixes(model) or local_models.own_prefixes(loaded))
        how: dict[str, Any] = {"model": place, "trust_remote_code": trust_remote_code, "device": device}
        return Embedder(
            name=name,
            remote=False,
            query=local_models.SentenceTransformersQueryEmbedder(prefix=before[0], **how),
            chunks=local_models.SentenceTransformersChunkEmbedder(prefix=before[1], batch_size=batch_size, **how),
            timeout_s=timeout_s,
            retries=retries,
            query_prefix=before[0],
            document_prefix=before[1],
            deterministic=facts["device"] == "cpu",
            facts=facts,
        )
    raise KbevalError(f"embedder: expected one of {KNOWN}, found {name!r}")


def _prefixes(query: str | None, document: str | None, known: tuple[str, str] | None) -> tuple[str, str]:
    """What is set, else what is known, else nothing."""
    wanted = known or ("", "")
    return wanted[0] if query is None else query, wanted[1] if document is None else document


class CheckedEmbeddings:
    """OpenAI's client, of which the components only use ``embeddings.create``; it believes whatever it is told.

    As many vectors as texts, each at its text's place, all of finite numbers: anything else is a ServiceError.
    """

    def __init__(self, client: Any, service: str) -> None:
        self._client = client
        self._service = service
        self.embeddings = self

    def create(self, *, input: str | list[str], **arguments: Any) -> Any:  # noqa: A002 - the client's own name
        """Asks, and checks what comes back."""
        answer = self._client.embeddings.create(input=input, **arguments)
        texts = 1 if isinstance(input, str) else len(input)
        data = answer.data
        if not isinstance(data, list) or len(data) != texts:
            found = f"{len(data)} vectors" if isinstance(data, list) else "no list of vectors"
            raise ServiceError(f"{self._service}: answered with {found} for {texts} texts")
        # Some servers leave the place out; where it is there it counts, not the order in which vectors arrive.
        places = [getattr(entry, "index", None) for entry in data]
        if any(place is not None for place in places):
            if sorted(place for place in places if isinstance(place, int)) != list(range(texts)):
                raise ServiceError(f"{self._service}: answered with vectors that are not each at a text's place")
            data.sort(key=lambda entry: entry.index)
        for entry in data:
            try:
                finite = bool(entry.embedding) and bool(np.isfinite(np.asarray(entry.embedding, np.float64)).all())
            except (TypeError, ValueError):
                finite = False
            if not finite:
                raise ServiceError(f"{self._service}: answered with a vector that is not of finite numbers")
        return answer

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def _checked_client(embedder: Any, service: str) -> Any:
    """The component with a client that checks answers, and tells the meter of requests that repeat another."""
    from openai import DefaultHttpxClient

    class TimedClient(DefaultHttpxClient):
        def send(self, request: Any, **options: Any) -> Any:
            return timed(super().send, request, **options)

    embedder.warm_up()
    plain = embedder.client
    embedder.client = CheckedEmbeddings(plain.with_options(http_client=TimedClient()), service)
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
