"""Engine A's settings, and what importing it costs and changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from kbeval.engines.base import BuildContext
from kbeval.engines.hybrid import HybridEngine, HybridSettings
from kbeval.errors import KbevalError
from kbeval.progress import Silent


def no_store() -> None:
    raise AssertionError("work was done before the settings were judged")


CONTEXT = BuildContext(documents=[], store=no_store, progress=Silent(), root=Path())  # type: ignore[arg-type]


def test_defaults_are_the_embedded_ones() -> None:
    settings = HybridSettings()
    assert settings.model_dump() == {
        "legs": ("bm25", "vector"), "embedder": "wordllama", "embedder_base_url": None, "candidates": 100,
        "fusion_k": 60, "fusion_top_k": None, "reranker": "none", "reranker_base_url": None,
        "rerank_candidates": 20, "top_n": None, "score_threshold": None,
        "timeout_s": 30.0, "retries": 2, "chunker": "words", "heading_path": True,
        "chunk_words": 120, "chunk_overlap": 20, "query_prefix": None, "document_prefix": None, "search": "exact",
        "m": 16, "ef_construction": 64, "ef_search": 40, "device": None, "batch_size": 32, "trust_remote_code": False,
    }  # fmt: skip


@pytest.mark.parametrize("legs", ["bm25,vector", "vector, bm25", ["vector", "bm25"], ("bm25", "vector")])
def test_legs_have_one_order(legs: object) -> None:
    assert HybridSettings(legs=legs).legs == ("bm25", "vector")


@pytest.mark.parametrize(
    "wrong",
    [
        {"legs": []},
        {"legs": "bm25,bm25"},
        {"legs": "bm26"},
        {"candidates": 0},
        {"fusion_k": 0},
        {"fusion_top_k": 0},
        {"fusion_top_k": 10, "legs": "bm25"},
        {"rerank_candidates": 1001},
        {"timeout_s": 0},
        {"retries": -1},
        {"chunk_words": 20, "chunk_overlap": 20},
        {"reranked": "none"},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        HybridSettings(**wrong)


def test_both_spellings_of_coheres_model() -> None:
    assert HybridSettings(reranker="cohere/rerank-v3.5").reranker == "cohere:rerank-v3.5"


@pytest.mark.parametrize("name", ["cohere", "cohere:", "bge"])
def test_an_unknown_reranker_is_told_the_known_ones(name: str) -> None:
    with pytest.raises(KbevalError, match=f"none, cohere:MODEL.*found '{name}'"):
        HybridEngine.build(HybridSettings(reranker=name), CONTEXT)


@pytest.mark.parametrize("key", [None, "", " "])
def test_cohere_needs_its_key(monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("COHERE_API_KEY", key)
    with pytest.raises(KbevalError, match="COHERE_API_KEY"):
        HybridEngine.build(HybridSettings(reranker="cohere:rerank-v3.5"), CONTEXT)


def test_an_endpoint_is_no_base_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "k")
    monkeypatch.setenv("KBEVAL_COHERE_BASE_URL", "https://api.cohere.com/v2/rerank")
    with pytest.raises(KbevalError, match=r"reranker_base_url: .*base URL"):
        HybridEngine.build(HybridSettings(reranker="cohere:rerank-v3.5"), CONTEXT)


def test_unknown_embedder_before_any_work() -> None:
    with pytest.raises(KbevalError, match="embedder: expected one of wordllama"):
        HybridEngine.build(HybridSettings(embedder="bge"), CONTEXT)


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    variables.pop("HAYSTACK_TELEMETRY_ENABLED", None)
    return subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True, timeout=60
    )


def test_settings_cost_no_heavy_import() -> None:
    heavy = ("haystack", "bm25s", "numba", "numpy", "psycopg")
    code = f"import sys, kbeval.engines.hybrid; print([m for m in {heavy} if m in sys.modules])"
    assert python(code).stdout == "[]\n"


def test_components_are_silent_and_leave_their_caller_as_it_was(tmp_path: Path) -> None:
    code = """
import logging
logging.getLogger("theirs").setLevel(logging.DEBUG)
before = (logging.getLogger().handlers[:], logging.getLogger().level)
import kbeval.engines.components.pipeline
from kbeval.engines.components.embedders import make_embedder
from kbeval.engines.components.lexical import BM25Retriever
from kbeval.engines.components.chunks import haystack_chunks
from kbeval.model import Document
import haystack.telemetry._telemetry
make_embedder("wordllama", base_url=None, timeout_s=1, retries=0).embed_query("a word")
lexical = BM25Retriever(document_store=None)
lexical.index(list(haystack_chunks([Document(id="d", text="a word")], words=5, overlap=1)))
assert lexical.run(query="word")["documents"]
assert haystack.telemetry._telemetry.telemetry is None
assert before == (logging.getLogger().handlers, logging.getLogger().level)
"""
    done = python(code, HOME=str(tmp_path))
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []
