"""Presets: what they are, how settings override them, and how the command line names them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from kbeval.cli.engines import chosen_engines
from kbeval.config import Project, Settings
from kbeval.engines.components.prefixes import known_prefixes
from kbeval.engines.presets import PRESETS
from kbeval.errors import KbevalError


def plans(
    engines: dict[str, dict[str, Any]] | None = None,
    *,
    specs: list[str] | None = None,
    presets: list[str] | None = None,
    assignments: list[str] | None = None,
    **tables: Any,
) -> dict[str, Any]:
    """The settings of the engines chosen, by name."""
    settings = Settings.model_validate({"engines": engines or {}, **tables})
    chosen = chosen_engines(Project(root=Path(), settings=settings), specs, presets, assignments)
    return {plan.name: plan.settings for plan in chosen}


def test_what_the_presets_are() -> None:
    found = plans(presets=["embedded,online", "offline"])
    assert {name: (s.embedder, s.reranker, s.legs) for name, s in found.items()} == {
        "embedded": ("wordllama", "none", ("bm25", "vector")),
        "online": ("openai:text-embedding-3-small", "cohere:rerank-v3.5", ("bm25", "vector")),
        "offline": (
            "sentence-transformers:nomic-ai/nomic-embed-text-v1.5",
            "cross-encoder:BAAI/bge-reranker-v2-m3",
            ("bm25", "vector"),
        ),
    }
    assert not any(settings.trust_remote_code for settings in found.values())


def test_own_keys_override_a_preset_and_the_command_line_both() -> None:
    tables = {"x": {"preset": "offline", "reranker": "none", "candidates": 7}}
    found = plans(tables, specs=["x"], assignments=["candidates=9"])
    assert (found["x"].embedder, found["x"].reranker, found["x"].candidates) == (
        PRESETS["offline"]["embedder"],
        "none",
        9,
    )
    assert plans(presets=["online,offline"], assignments=["offline.reranker=none"])["online"].reranker != "none"


def test_a_configured_engine_of_that_name_and_preset_is_the_preset() -> None:
    found = plans({"offline": {"preset": "offline", "candidates": 7}, "b": {"type": "bm25"}}, presets=["offline"])
    assert list(found) == ["offline"]
    assert found["offline"].candidates == 7


def test_presets_stand_beside_engines() -> None:
    assert list(plans({"b": {"type": "bm25"}}, specs=["b"], presets=["embedded"])) == ["b", "embedded"]
    assert list(plans({"b": {"type": "bm25"}})) == ["b"]


@pytest.mark.parametrize(
    ("engines", "arguments", "message"),
    [
        (
            {},
            {"presets": ["onlin"]},
            "--preset: expected some of embedded, online, offline, found 'onlin' (nearest: 'online')",
        ),
        ({}, {"presets": ["online,"]}, "--preset: expected some of embedded, online, offline, found ''"),
        ({}, {"presets": ["online", "online"]}, "--preset: expected each preset once, found 'online' twice"),
        (
            {"online": {"type": "bm25"}},
            {"presets": ["online"]},
            "--preset online: expected [engines.online] of the settings to be of that preset (preset = 'online') or to "
            "have another name, found an engine of its own",
        ),
        (
            {"x": {"preset": "ofline"}},
            {},
            "[engines.x]: expected preset to be embedded, online, offline, found 'ofline' (nearest: 'offline')",
        ),
        ({"x": {"preset": 3}}, {}, "[engines.x]: expected preset to be embedded, online, offline, found 3"),
        (
            {"x": {"preset": "offline", "type": "bm25"}},
            {},
            "[engines.x]: expected type 'hybrid' or none beside a preset, found 'bm25'",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(engines: dict[str, dict[str, Any]], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(KbevalError) as raised:
        plans(engines, **arguments)
    assert str(raised.value) == message


def test_a_model_that_reranks_is_asked_at_the_server_of_the_settings() -> None:
    engines = {
        "a": {"preset": "embedded", "reranker": "llm:m"},
        "b": {"preset": "embedded", "reranker": "llm:m", "reranker_base_url": "http://localhost:2/v1"},
        "c": {"type": "bm25"},
    }
    found = plans(engines, llm={"base_url": "http://localhost:1/v1"})
    assert found["a"].reranker_base_url == "http://localhost:1/v1"
    assert found["b"].reranker_base_url == "http://localhost:2/v1"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("nomic-ai/nomic-embed-text-v1.5", ("search_query: ", "search_document: ")),
        ("/models/nomic-embed-text-v1.5/", ("search_query: ", "search_document: ")),
        ("intfloat/multilingual-e5-base", ("query: ", "passage: ")),
        ("intfloat/multilingual-e5-large-instruct", None),
        ("BAAI/bge-base-en-v1.5", ("Represent this sentence for searching relevant passages: ", "")),
        ("BAAI/bge-m3", None),
        ("nomic-ai/modernbert-embed-base", None),
        ("text-embedding-3-small", None),
    ],
)
def test_prefixes_by_name(model: str, expected: tuple[str, str] | None) -> None:
    assert known_prefixes(model) == expected


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from kbeval.engines.components.embedders import make_embedder
    from kbeval.engines.components.rerankers import make_reranker

    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    wanted = r":.* needs sentence-transformers: pip install 'kbeval\[offline\]'$"
    with pytest.raises(KbevalError, match="^embedder sentence-transformers" + wanted):
        make_embedder(PRESETS["offline"]["embedder"], base_url=None, timeout_s=1, retries=0)
    with pytest.raises(KbevalError, match="^reranker cross-encoder" + wanted):
        make_reranker(
            PRESETS["offline"]["reranker"], base_url=None, top_k=5, timeout_s=1, retries=0, root=Path(),
            batch_size=1, trust_remote_code=False, device=None,
        )  # fmt: skip


def test_a_model_on_this_machine_has_no_address() -> None:
    from kbeval.engines.components.rerankers import make_reranker

    with pytest.raises(KbevalError, match=r"^reranker_base_url: expected none, as cross-encoder:m runs on"):
        make_reranker(
            "cross-encoder:m", base_url="http://h", top_k=5, timeout_s=1, retries=0, root=Path(), batch_size=1,
            trust_remote_code=False, device=None,
        )  # fmt: skip
