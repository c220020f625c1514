"""The named configurations of engine A: what needs nothing, what is bought, and what runs on one's own machine."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRESETS: dict[str, dict[str, Any]] = {
    # No key, no download, no reranker.
    "embedded": {"type": "hybrid", "legs": "bm25,vector", "embedder": "wordllama", "reranker": "none"},
    # OPENAI_API_KEY and COHERE_API_KEY.
    "online": {
        "type": "hybrid",
        "legs": "bm25,vector",
        "embedder": "openai:text-embedding-3-small",
        "reranker": "cohere:rerank-v3.5",
    },
    # The extra `offline`. The models are downloaded once; a folder in their place needs no network at all.
    "offline": {
        "type": "hybrid",
        "legs": "bm25,vector",
        "embedder": "sentence-transformers:nomic-ai/nomic-embed-text-v1.5",
        "reranker": "cross-encoder:BAAI/bge-reranker-v2-m3",
    },
}


def expand(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """The engine table with its ``preset`` written out: the preset's keys, and the table's own over them.

    Args:
        name: the engine's, for the message.
        table: an ``[engines.NAME]`` table, with or without ``preset``.

    Raises:
        KbevalError: a preset that is not known, or a ``type`` beside it that is another.
    """
    own = dict(table)
    if "preset" not in own:
        return own
    preset = own.pop("preset")
    if preset not in PRESETS:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1)
        hint = f" (nearest: {near[0]!r})" if near else ""
        raise KbevalError(f"[engines.{name}]: expected preset to be {', '.join(PRESETS)}, found {preset!r}{hint}")
    kind = PRESETS[preset]["type"]
    if own.get("type", kind) != kind:
        raise KbevalError(f"[engines.{name}]: expected type {kind!r} or none beside a preset, found {own['type']!r}")
    return {**PRESETS[preset], **own}


def with_presets(
    names: Sequence[str], tables: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], dict[str, Mapping[str, Any]]]:
    """The presets asked for, and the engine tables with one of each preset's name.

    Args:
        names: as given on the command line; each may hold several, split at commas.
        tables: the configured engines. One of a preset's name is taken as it is, if it is of that preset.

    Raises:
        KbevalError: a preset that is not known, one named twice, or a configured engine of its name that is
            something else.
    """
    asked = [part.strip() for name in names for part in name.split(",")]
    known = ", ".join(PRESETS)
    extended = dict(tables)
    for place, name in enumerate(asked):
        if name not in PRESETS:
            near = difflib.get_close_matches(name, PRESETS, n=1)
            hint = f" (nearest: {near[0]!r})" if near else ""
            raise KbevalError(f"--preset: expected some of {known}, found {name!r}{hint}")
        if name in asked[:place]:
            raise KbevalError(f"--preset: expected each preset once, found {name!r} twice")
        if name in tables and tables[name].get("preset") != name:
            raise KbevalError(
                f"--preset {name}: expected [engines.{name}] of the settings to be of that preset "
                f"(preset = {name!r}) or to have another name, found an engine of its own"
            )
        extended.setdefault(name, {"preset": name})
    return asked, extended
