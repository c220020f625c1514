"""Models on this machine by sentence-transformers (the extra ``offline``): Nomic, BGE, and any other.

A model is a name on the Hugging Face hub, downloaded on first use, or a folder. Code that comes with a model is run
only where the settings say so (``trust_remote_code``); transformers 5 itself knows Nomic's and BGE's architectures.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from haystack import Document, component

from kbeval.engines.components.services import ServiceError
from kbeval.errors import KbevalError
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

BATCH = 32

# One text at a time goes through a tokenizer: it fails ("Already borrowed") where two threads use it at once.
_one_at_a_time = threading.Lock()


def require_extra(purpose: str) -> None:
    """Makes sure that sentence-transformers is installed, without importing it.

    Raises:
        KbevalError: saying how to get it.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise KbevalError(f"{purpose} needs sentence-transformers: pip install 'kbeval[offline]'")


def locate(model: str, root: Path, purpose: str) -> str:
    """The folder of a model that lies in one, relative to the project's root; any other name as it is.

    Raises:
        KbevalError: it is spelled like a folder, and there is none.
    """
    folder = root / Path(model).expanduser()
    if folder.is_dir():
        return str(folder)
    if model.startswith((".", "/", "~")):
        raise KbevalError(f"{purpose}: expected a folder with a model, found nothing at {model}")
    return model


@component
class SentenceTransformersQueryEmbedder:
    """Embeds one text by a sentence-transformers model: unit length."""

    def __init__(
        self, model: str, prefix: str = "", trust_remote_code: bool = False, device: str | None = None
    ) -> None:
        """Args:
        model: a name on the hub, or a folder.
        prefix: what is put before each text.
        trust_remote_code: whether code that comes with the model may run.
        device: ``cpu``, ``cuda``, ``mps``; the best there is without it.
        """
        self.model = model
        self.prefix = prefix
        self.trust_remote_code = trust_remote_code
        self.device = device

    def warm_up(self) -> None:
        embedding_model(self.model, self.trust_remote_code, self.device)

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Returns ``{"embedding": [...]}``."""
        model = embedding_model(self.model, self.trust_remote_code, self.device)
        return {"embedding": _encoded(model, [text], self.prefix, batch_size=1)[0].tolist()}


@component
class SentenceTransformersChunkEmbedder:
    """Embeds documents by a sentence-transformers model: unit length."""

    def __init__(
        self,
        model: str,
        prefix: str = "",
        batch_size: int = BATCH,
        trust_remote_code: bool = False,
        device: str | None = None,
    ) -> None:
        """Args: as for :class:`SentenceTransformersQueryEmbedder`, and how many texts go through the model at once."""
        self.model = model
        self.prefix = prefix
        self.batch_size = batch_size
        self.trust_remote_code = trust_remote_code
        self.device = device

    def warm_up(self) -> None:
        embedding_model(self.model, self.trust_remote_code, self.device)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Returns the documents with their embeddings."""
        if not documents:
            return {"documents": []}
        model = embedding_model(self.model, self.trust_remote_code, self.device)
        vectors = _encoded(model, [d.content or "" for d in documents], self.prefix, batch_size=self.batch_size)
        return {
            "documents": [
                replace(document, embedding=vector.tolist())
                for document, vector in zip(documents, vectors, strict=True)
            ]
        }


@component
class CrossEncoderRanker:
    """Orders documents by a model that reads each together with the question; a score is the sigmoid of its logit.

    Equal scores keep the order in which the documents came.
    """

    remote = False

    def __init__(
        self, model: str, batch_size: int = BATCH, trust_remote_code: bool = False, device: str | None = None
    ) -> None:
        """Args: as for :class:`SentenceTransformersChunkEmbedder`."""
        self.model = model
        self.batch_size = batch_size
        self.trust_remote_code = trust_remote_code
        self.device = device

    def warm_up(self) -> None:
        """Loads the model.

        Raises:
            KbevalError: it cannot be loaded, or gives more than one number for a pair.
        """
        ranking_model(self.model, self.trust_remote_code, self.device)

    @property
    def runs_on(self) -> str:
        """The kind of device that it runs on."""
        return _device(ranking_model(self.model, self.trust_remote_code, self.device))

    def close(self) -> None:
        """Nothing is held: the model stays for whoever is next."""

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, list[Document]]:
        """Returns ``{"documents": [...]}``, best first.

        Raises:
            ServiceError: the model gives a score that is no number.
        """
        if not documents:
            return {"documents": []}
        import torch

        model = ranking_model(self.model, self.trust_remote_code, self.device)
        pairs = [(query, document.content or "") for document in documents]
        with _one_at_a_time:
            logits = model.predict(
                pairs, batch_size=self.batch_size, show_progress_bar=False, activation_fn=torch.nn.Identity()
            )
        # The sigmoid in double precision: in single precision everything beyond 17 is the same 1.0.
        scores = 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64).reshape(-1)))
        if not np.isfinite(scores).all():
            raise ServiceError(f"cross-encoder:{Path(self.model).name}: answered with a score that is no number")
        order = np.argsort(-scores, kind="stable")
        return {"documents": [replace(documents[i], score=float(scores[i])) for i in order]}


@lru_cache(maxsize=2)
def embedding_model(model: str, trust_remote_code: bool = False, device: str | None = None) -> Any:
    """The loaded ``SentenceTransformer``; kept, so that its two components and several engines share it.

    Raises:
        KbevalError: it cannot be loaded.
    """
    with _loading(f"embedder sentence-transformers:{model}"):
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(model, trust_remote_code=trust_remote_code, device=device)


@lru_cache(maxsize=2)
def ranking_model(model: str, trust_remote_code: bool = False, device: str | None = None) -> Any:
    """The loaded ``CrossEncoder``.

    Raises:
        KbevalError: it cannot be loaded, or gives more than one number for a pair.
    """
    name = f"reranker cross-encoder:{model}"
    with _loading(name):
        from sentence_transformers import CrossEncoder

        loaded = CrossEncoder(model, trust_remote_code=trust_remote_code, device=device)
    if loaded.num_labels != 1:
        raise KbevalError(f"{name}: expected a model that gives one score for a pair, found {loaded.num_labels}")
    return loaded


def own_prefixes(model: Any) -> tuple[str, str]:
    """The prefixes that a loaded model brings along itself, empty where it has none."""
    prompts = model.prompts or {}
    document = next((prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), "")
    return prompts.get("query") or "", document


def facts(model: Any) -> dict[str, str]:
    """What a sidecar should know of a loaded model: the kind of its device, and its commit where the hub knows one."""
    found = {"device": _device(model)}
    commit = getattr(getattr(getattr(model[0], "auto_model", None), "config", None), "_commit_hash", None)
    if commit:
        found["revision"] = str(commit)
    return found


def _device(model: Any) -> str:
    return str(model.device.type)


def _encoded(model: Any, texts: Sequence[str], prefix: str, *, batch_size: int) -> NDArray[np.float32]:
    with _one_at_a_time:
        vectors: NDArray[np.float32] = model.encode(
            list(texts),
            prompt=prefix,
            batch_size=batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
    return vectors


@contextmanager
def _loading(what: str) -> Iterator[None]:
    """Loads quietly: no bars or advice on standard error; and a failure is one line."""
    # By name, for neither module exports these to a type checker.
    hub: Any = importlib.import_module("huggingface_hub.utils")
    log: Any = importlib.import_module("transformers").logging
    verbosity = log.get_verbosity()
    bars = log.is_progress_bar_enabled()
    hub_bars = not hub.are_progress_bars_disabled()
    log.set_verbosity(logging.CRITICAL)
    log.disable_progress_bar()
    hub.disable_progress_bars()
    try:
        yield
    except KbevalError:
        raise
    except Exception as error:
        hint = ""
        if "trust_remote_code" in str(error):
            hint = "; it brings code of its own, which runs with trust_remote_code = true alone"
        raise KbevalError(f"{what}: cannot be loaded: {one_line(error, 250)}{hint}") from error
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()
        if hub_bars:
            hub.enable_progress_bars()
