"""Which models are related: a judge favours what its own family wrote or ranked.

Families are told from names alone. A name that says nothing is a family of its own, so that a model is always
related to itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbeval.model import LabelledQuery

# A model's family by the words that its makers use, each at the beginning of a word: "ollama" is no Llama.
_WORDS = {
    "OpenAI": r"gpt|chatgpt|o[134](?=$|-)|davinci|text-embedding-(?:3|ada)|openai",
    "Anthropic": r"claude|anthropic",
    "Llama": r"(?:code|tiny)?llama|meta-llama",
    "Qwen": r"qwen|qwq|qvq|gte-qwen|alibaba",
    "Mistral": r"mistral|mixtral|ministral|codestral|magistral|devstral|pixtral",
    "Google": r"gemini|gemma|palm|google",
    "Cohere": r"cohere|command-(?:r|a|light|nightly)|command(?=$)|c4ai|aya-|rerank-(?:v\d|english|multilingual)",
    "DeepSeek": r"deepseek",
    "Microsoft": r"phi-?\d|wizardlm|microsoft",
    "xAI": r"grok|x-ai|xai",
    "Amazon": r"nova-(?:micro|lite|pro|premier)|titan|amazon",
    "GLM": r"glm|chatglm|zhipu|z-ai",
    "Kimi": r"kimi|moonshot",
    "BGE": r"bge-|baai",
    "Jina": r"jina",
    "Voyage": r"voyage|rerank-2",
    "Nomic": r"nomic",
    "Mixedbread": r"mxbai|mixedbread",
}
_PATTERNS = {family: re.compile(rf"(?<![a-z])(?:{words})", re.I) for family, words in _WORDS.items()}


def families(model: str) -> frozenset[str]:
    """The families that a model's name tells of: several for a mixture, such as a distillation.

    ``vendor/model:tag`` and ``provider:model`` are understood; the model's own words are asked first, its vendor
    where they say nothing. The vendor itself, or the whole name, where nothing is known.
    """
    segments = [segment for segment in model.strip().split("/") if segment]
    for segment in reversed(segments):
        found = frozenset(family for family, pattern in _PATTERNS.items() if pattern.search(segment))
        if found:
            return found
    return frozenset({segments[0].partition(":")[0].lower()}) if segments else frozenset()


def generators(queries: Iterable[LabelledQuery]) -> list[str]:
    """The models that wrote questions of a test set, as their provenance names them; sorted."""
    models = {str((query.provenance or {}).get("model") or "") for query in queries}
    return sorted(models - {""})


def reranker(configuration: Mapping[str, Any]) -> str | None:
    """The reranking model that an engine's configuration names, as a run's sidecar keeps it; none without one."""
    name = configuration.get("reranker")
    return name if isinstance(name, str) and name not in ("", "none") else None


def same_family_warnings(
    *, judges: Iterable[str], generators: Iterable[str], rerankers: Mapping[str, str]
) -> list[str]:
    """A line for each two of judge, question writer and reranker that are of one model family.

    Args:
        judges: the models that judged.
        generators: the models that wrote questions.
        rerankers: the reranking model of each run that has one, by the run's name.
    """
    judged, wrote = sorted(set(judges)), sorted(set(generators))
    ranked: dict[str, list[str]] = {}
    for run, model in rerankers.items():
        ranked.setdefault(model, []).append(run)
    lines = []
    for judge in judged:
        for writer in wrote:
            if common := _common(judge, writer):
                lines.append(
                    f"the judge {judge} and {writer}, which wrote questions, are of one model family ({common}): it may "
                    "take its own family's idea of an answer for the right one"
                )
        for model, runs in ranked.items():
            if common := _common(judge, model):
                lines.append(
                    f"the judge {judge} and the reranker {model} of {', '.join(runs)} are of one model family "
                    f"({common}): the judge may favour that ranking"
                )
    for writer in wrote:
        for model, runs in ranked.items():
            if common := _common(writer, model):
                lines.append(
                    f"{writer}, which wrote questions, and the reranker {model} of {', '.join(runs)} are of one model "
                    f"family ({common}): the questions may favour that ranking"
                )
    return lines


def _common(one: str, other: str) -> str:
    return ", ".join(sorted(families(one) & families(other)))
