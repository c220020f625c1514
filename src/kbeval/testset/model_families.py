"""Which models are related: a judge favours what its own family wrote or ranked.

Families are told from names alone. A name that says nothing is a family of its own, so that a model is always
related to itself.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kbeval.model import LabelledQuery, Question

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


_BIAS = {
    "judge": "a judge may favour what its own family wrote or ranked; [judge] model names another",
    "writer": "such questions may favour that ranking",
}


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


def generators(questions: Iterable[Question | LabelledQuery]) -> list[str]:
    """The models that wrote questions of a test set, as their provenance names them; sorted."""
    models = {str((question.provenance or {}).get("model") or "") for question in questions}
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
    by_model: dict[str, list[str]] = {}
    for run, model in rerankers.items():
        by_model.setdefault(model, []).append(run)
    parts = [
        *(("judge", model, f"the judge {model}") for model in sorted(set(judges))),
        *(("writer", model, f"{model}, which wrote questions,") for model in sorted(set(generators))),
        *(("reranker", model, f"the reranker {model} of {', '.join(runs)}") for model, runs in by_model.items()),
    ]
    return [
        f"{name} and {other_name} are of one model family ({common}): {_BIAS[part]}"
        for (part, model, name), (other_part, other, other_name) in combinations(parts, 2)
        if part != other_part and (common := ", ".join(sorted(families(model) & families(other))))
    ]
