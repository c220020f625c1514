"""An embedder that remembers the vectors of chunks, by their text."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbeval.engines.base import Usage
from kbeval.engines.components.embedders import Embedder
from kbeval.engines.components.estimates import CHARACTERS_A_TOKEN
from kbeval.engines.metering import metering
from kbeval.sweep.memory import Kept, StageMemory, key_of

if TYPE_CHECKING:
    from haystack import Document

    from kbeval.sweep.budget import Budget

_FLOAT32 = np.dtype("<f4")


@dataclass(frozen=True)
class RememberingEmbedder(Embedder):
    """The same embedder; a chunk whose text had a vector before, in whatever chunking or run, is not embedded again.

    Attributes:
        memory: where vectors are kept, as the 32-bit floats that pgvector stores.
        identity: what a vector depends on besides the text.
        budget: asked before a server is.
    """

    memory: StageMemory | None = None
    identity: list[Any] = field(default_factory=list)
    budget: Budget | None = None

    @classmethod
    def of(
        cls, embedder: Embedder, memory: StageMemory, identity: list[Any], budget: Budget | None = None
    ) -> RememberingEmbedder:
        """``embedder``, with a memory and a budget."""
        same = {each.name: getattr(embedder, each.name) for each in fields(Embedder)}
        return cls(**same, memory=memory, identity=identity, budget=budget)

    def dimension(self) -> int:
        """Length of a vector, asked once."""
        if self.memory is None:
            return super().dimension()
        key = key_of("dimension", self.identity)
        with self.memory.once(key):
            kept = self.memory.get("dimension", key)
            if kept is None:
                with metering() as meter:
                    found = super().dimension()
                kept = self.memory.keep(
                    "dimension", key, Kept(str(found).encode(), 0.0, tuple(meter.usage)), now=self.remote
                )
        return int(kept.value)

    def embed_chunks(self, documents: list[Document]) -> list[Document]:
        """The chunks with their vectors, the unknown ones embedded."""
        if self.memory is None:
            return super().embed_chunks(documents)
        keys = [key_of("chunk", self.identity, text_digest(each.content or "")) for each in documents]
        known = self.memory.get_many("chunk", keys)
        missing = {key: each for key, each in zip(keys, documents, strict=True) if key not in known}
        if missing:
            if self.remote and self.budget is not None:
                letters = sum(len(each.content or "") for each in missing.values())
                self.budget.check([Usage(self.name, calls=1, tokens=math.ceil(letters / CHARACTERS_A_TOKEN))])
            try:
                with metering() as meter:
                    made = super().embed_chunks(list(missing.values()))
            except Exception:
                self.memory.spent(meter.usage)
                raise
            usage = tuple(meter.usage)  # of the whole batch: told once, with its first vector
            answers = {}
            for place, (key, each) in enumerate(zip(missing, made, strict=True)):
                vector = np.asarray(each.embedding if each.embedding is not None else [], dtype=_FLOAT32)
                answers[key] = Kept(vector.tobytes(), 0.0, usage if place == 0 else ())
            kept = self.memory.keep_many("chunk", answers, now=self.remote)
            known = {**known, **{key: each.value for key, each in kept.items()}}

        def vector_of(key: bytes) -> Any:
            # An array where a list is promised: whoever loads it makes one of it anyway.
            return np.frombuffer(known[key], dtype=_FLOAT32) if known[key] else None

        return [replace(each, embedding=vector_of(key)) for key, each in zip(keys, documents, strict=True)]


def text_digest(text: str) -> str:
    """What stands for a text in keys."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def local_model(name: str, root: Path, packages: tuple[str, ...]) -> list[Any]:
    """What a model on this machine depends on besides its name: packages, and the files where it is a folder.

    A remote one depends on nothing that is known here: an update of a package must not make anybody pay again.
    """
    found: list[Any] = installed(*packages)
    folder = root / Path(name).expanduser()
    if folder.is_dir():
        stats = sorted((str(each.relative_to(folder)), each.stat()) for each in folder.rglob("*") if each.is_file())
        found += [[path, stat.st_size, stat.st_mtime_ns] for path, stat in stats]
    return found


def installed(*packages: str) -> list[str]:
    """The packages with their versions."""
    return [f"{package} {_version(package)}" for package in packages]


@lru_cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # pragma: no cover - a package without its metadata
        return "unknown"
