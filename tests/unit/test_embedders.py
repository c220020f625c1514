"""Embedders without a network."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from kbeval.engines.components.embedders import make_embedder, wordllama_vector
from kbeval.errors import KbevalError

# After ours: importing kbeval's components first is what keeps Haystack's telemetry off.
from haystack import Document  # isort: skip

TEXTS = [
    "How do I reset the password of a shared mailbox?",
    "Résumé: naïve café, 東京 and 🙂 in one line",
    "a",
    "one two three four five six seven eight nine ten " * 20,
    "line one\nline two\ttabbed",
]


def make(name: str = "wordllama", base_url: str | None = None):
    return make_embedder(name, base_url=base_url, timeout_s=1, retries=0)


def test_vectors_are_wordllamas() -> None:
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    expected = model.embed(TEXTS, norm=True)

    np.testing.assert_allclose(np.stack([wordllama_vector(text) for text in TEXTS]), expected, atol=1e-6)


def test_a_vector_does_not_depend_on_its_company() -> None:
    embedder = make()
    together = embedder.embed_chunks([Document(id=str(i), content=text) for i, text in enumerate(TEXTS)])
    alone = [embedder.embed_query(text) for text in TEXTS]
    assert [chunk.embedding for chunk in together] == alone


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_word_no_vector(text: str) -> None:
    embedder = make()
    assert embedder.embed_query(text) is None
    worded, blank = embedder.embed_chunks([Document(id="1", content="word"), Document(id="2", content=text)])
    assert worded.embedding
    assert blank.embedding is None


def test_loading_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    from kbeval.engines.components import embedders

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    embedders._wordllama.cache_clear()
    embedder = make()
    assert embedder.dimension() == 256


@pytest.mark.parametrize("name", ["wordlama", "openai", "openai:", "nomic"])
def test_an_unknown_name_is_told_the_known_ones(name: str) -> None:
    with pytest.raises(KbevalError, match=rf"wordllama, openai:MODEL.*found '{name}'"):
        make(name)


def test_a_remote_one_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(KbevalError, match="OPENAI_API_KEY"):
        make("openai:text-embedding-3-small")


@pytest.mark.parametrize("address", ["ftp://host/", "host:80", "http://", "https://me:hunter2@host/v1"])
def test_an_address_is_checked_and_never_shown(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(KbevalError, match=r"^embedder_base_url: expected") as raised:
        make("openai:m", base_url=address)
    assert "hunter2" not in str(raised.value)
