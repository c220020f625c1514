"""A component of the user's own, as a pipeline file may name one."""

from __future__ import annotations

from brought import embed
from haystack import component


@component
class WordEmbedder:
    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        return {"embedding": embed(text)}
