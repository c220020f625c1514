"""Models' families by their names, and the warnings that come of them."""

from __future__ import annotations

import pytest

from kbeval.model import Question
from kbeval.testset.model_families import families, generators, reranker, same_family_warnings


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("openai/gpt-4o-mini", {"OpenAI"}),
        ("o3-mini", {"OpenAI"}),
        ("openai/gpt-oss-20b:free", {"OpenAI"}),
        ("azure/gpt-4.1", {"OpenAI"}),
        ("anthropic/claude-sonnet-4", {"Anthropic"}),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", {"Anthropic"}),
        ("meta-llama/llama-3.3-70b-instruct", {"Llama"}),
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", {"Llama"}),
        ("nvidia/llama-3.1-nemotron-70b-instruct", {"Llama"}),
        ("ollama/qwen2.5:7b", {"Qwen"}),
        ("qwen/qwq-32b", {"Qwen"}),
        ("mistralai/mixtral-8x7b-instruct", {"Mistral"}),
        ("google/gemini-2.5-flash", {"Google"}),
        ("gemma3:4b", {"Google"}),
        ("cohere:rerank-v3.5", {"Cohere"}),
        ("cohere/command-a", {"Cohere"}),
        ("deepseek/deepseek-r1-distill-llama-70b", {"DeepSeek", "Llama"}),
        ("microsoft/phi-4", {"Microsoft"}),
        ("x-ai/grok-4", {"xAI"}),
        ("acme/oracle-9000", {"acme"}),
        ("stub", {"stub"}),
        ("", set()),
    ],
)
def test_a_name_tells_its_families(model: str, family: set[str]) -> None:
    assert families(model) == family


def test_each_two_of_one_family_are_named() -> None:
    lines = same_family_warnings(
        judges=["openai/gpt-4o-mini"],
        generators=["gpt-4.1", "anthropic/claude-sonnet-4"],
        rerankers={"a": "cohere:rerank-v3.5", "x": "claude-haiku", "y": "claude-haiku"},
    )
    assert [line.partition(":")[0] for line in lines] == [
        "the judge openai/gpt-4o-mini and gpt-4.1, which wrote questions, are of one model family (OpenAI)",
        "anthropic/claude-sonnet-4, which wrote questions, and the reranker claude-haiku of x, y are of one model "
        "family (Anthropic)",
    ]


def test_the_judge_and_a_reranker() -> None:
    lines = same_family_warnings(judges=["cohere/command-a"], generators=[], rerankers={"a": "cohere:rerank-v3.5"})
    assert len(lines) == 1
    assert lines[0].startswith("the judge cohere/command-a and the reranker cohere:rerank-v3.5 of a are of one")
    assert same_family_warnings(judges=["gpt-4o"], generators=["mistral-large"], rerankers={"a": "bge-base"}) == []


def test_who_wrote_and_who_ranks_is_read_from_provenance_and_configuration() -> None:
    questions = [
        Question("q1", "?", {}, {"d": 1}, "synthetic", provenance={"model": "qwen/qwen3-8b"}),
        Question("q2", "?", {}, {"d": 1}, "synthetic", provenance={"model": "qwen/qwen3-8b"}),
        Question("q3", "?", {}, {"d": 1}, "authored"),
    ]
    assert generators(questions) == ["qwen/qwen3-8b"]
    assert reranker({"reranker": "cohere:rerank-v3.5"}) == "cohere:rerank-v3.5"
    assert reranker({"reranker": "none"}) is None
    assert reranker({}) is None
