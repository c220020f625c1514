"""``--preset`` on the command line: what needs nothing against what is bought, the servers played by a local one."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from scripted_server import Reply, ScriptedServer

from chat_server import Asked, Say, serve_chat

if TYPE_CHECKING:
    from conftest import Kbeval

KEYS = {"OPENAI_API_KEY": "sk-secret-0815", "COHERE_API_KEY": "co-secret-4711"}


def both_services(_: int, request: Any) -> Reply:
    """OpenAI's embeddings and Cohere's rerank: vectors of letters, and the order in which chunks were sent."""
    if "documents" in request:
        count = len(request["documents"])
        return Reply({"results": [{"index": i, "relevance_score": 1 - i / 100} for i in range(count)]})
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
    data = [
        {"object": "embedding", "index": i, "embedding": [1.0 + text.lower().count(letter) for letter in "aeiourst"]}
        for i, text in enumerate(texts)
    ]
    return Reply({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}})


def as_sent(asked: Asked) -> Say:
    numbers = {int(number) for number in re.findall(r"<passage (\d+) ", asked.text)}
    return Say(json.dumps({"ranking": sorted(numbers)}))


def test_presets_are_compared_with_an_engine_made_from_one(tiny: Kbeval, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = both_services
    with serve_chat(as_sent) as chat:
        (tiny.folder / "kbeval.toml").write_text(
            f'[llm]\nbase_url = "{chat.url}"\n'
            '[engines.near]\npreset = "embedded"\nsearch = "hnsw"\nreranker = "llm:some/model"\n'
        )
        result = tiny(
            "evaluate", "--preset", "embedded,online", "--engine", "near", "--set", "online.candidates=50",
            "--out", "out",
            KBEVAL_EMBED_BASE_URL=scripted_server.url + "/v1", KBEVAL_COHERE_BASE_URL=scripted_server.url, **KEYS,
        )  # fmt: skip
        assert result.code == 0, (result.out, result.err)
        assert len(chat.asked) == 4  # a question each
    assert {path for path, _, _ in scripted_server.requests} == {"/v1/embeddings", "/v2/rerank"}
    runs = tiny.folder / "out" / "runs"
    names = sorted(path.name for path in runs.iterdir())
    assert names == [f"{name}.{kind}" for name in ("embedded", "near", "online") for kind in ("json", "trec")]

    engine = json.loads((runs / "online.json").read_text())["engine"]
    assert engine["type"] == "hybrid"
    assert not engine["deterministic"]
    configuration = engine["configuration"]
    assert configuration["embedder"] == "openai:text-embedding-3-small"
    assert configuration["reranker"] == "cohere:rerank-v3.5"
    assert configuration["candidates"] == 50

    near = json.loads((runs / "near.json").read_text())
    assert not near["engine"]["deterministic"]
    assert near["counts"]["exact_nearest_chunks"] == 16  # four questions, four chunks
    report = (tiny.folder / "out" / "results" / "results.md").read_text()
    assert "HNSW finds 100.0% of the exact 100 nearest chunks (4 questions)." in report

    written = "".join(
        path.read_bytes().decode(errors="replace") for path in (tiny.folder / "out").rglob("*") if path.is_file()
    )
    for key in KEYS.values():
        assert key not in written + result.out + result.err


def test_keys_are_asked_for_before_any_work(tiny: Kbeval) -> None:
    line = tiny.refused("run", "--preset", "online", COHERE_API_KEY="k-secret")
    assert line == "embedder openai:text-embedding-3-small needs a key: set the environment variable OPENAI_API_KEY"
    assert not (tiny.folder / "runs").exists()


def test_run_without_an_engine_names_both_ways(tiny: Kbeval) -> None:
    assert tiny.refused("run").endswith("or --preset, found none")
