"""Engines that users bring, on the command line and in kbeval.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from scripted_server import Reply

if TYPE_CHECKING:
    from scripted_server import ScriptedServer

    from conftest import Kbeval, Within

PIPELINE = """
components:
  retriever:
    type: haystack.components.retrievers.in_memory.bm25_retriever.InMemoryBM25Retriever
    init_parameters:
      document_store:
        type: haystack.document_stores.in_memory.document_store.InMemoryDocumentStore
        init_parameters: {index: in-production}
      top_k: 2
"""


def test_a_pipeline_an_endpoint_and_the_replay_of_a_run(tiny: Kbeval, scripted_server: ScriptedServer) -> None:
    (tiny.folder / "pipelines").mkdir()
    (tiny.folder / "pipelines" / "bm25.v1.yaml").write_text(PIPELINE)
    scripted_server.answer = lambda number, request: (
        Reply(status=503, headers={"Retry-After": "0"}) if number == 1 else Reply({"ids": ["refunds", "printer"]})
    )
    (tiny.folder / "kbeval.toml").write_text(
        '[engines.shop]\ntype = "http"\n'
        f'url = "{scripted_server.url}/find"\nbody = {{ q = "{{query}}", k = "{{k}}" }}\nids = "ids"\n'
        'headers = { Authorization = "Bearer ${SHOP_TOKEN}" }\n'
    )
    done = tiny(
        *("run", "--k", 2, "--engine", "shop", "--engine", "haystack:pipelines/bm25.v1.yaml"),
        *("--set", "bm25_v1.documents=corpus", "--set", "shop.timeout_s=20"),
        SHOP_TOKEN="open-sesame-1",
    )
    assert done.code == 0, done.err
    assert "shop: 1 of 5 requests repeated another" in done.err
    runs = tiny.folder / "runs"
    shop = orjson.loads((runs / "shop.json").read_bytes())
    assert shop["counts"]["retries"] == 1
    assert shop["counts"]["requests"] == 5  # four questions, one of them asked twice
    assert shop["counts"]["repeated_requests"] == 1
    assert shop["engine"]["configuration"]["headers"] == {"Authorization": "Bearer ${SHOP_TOKEN}"}
    assert shop["engine"]["configuration"]["timeout_s"] == 20
    assert scripted_server.requests[0][1]["authorization"] == "Bearer open-sesame-1"
    assert not [file for file in runs.iterdir() if b"open-sesame" in file.read_bytes()]
    pipeline = orjson.loads((runs / "bm25_v1.json").read_bytes())
    assert pipeline["engine"]["type"] == "haystack"
    assert pipeline["engine"]["configuration"]["file"] == "pipelines/bm25.v1.yaml"
    # "How much money may a cashier give back?": only one document has any of these but for "how" and "a".
    lines = [line.split() for line in (runs / "bm25_v1.trec").read_text().splitlines()]
    assert next(line[2] for line in lines if line[0] == "q1") == "refunds"

    # Replayed from another working folder: the file is relative to it, and what it reads is not written over.
    before = {file.name: file.read_bytes() for file in runs.iterdir()}
    line = tiny.refused("run", "--engine", "run:runs/bm25_v1.trec")
    assert "would replace" in line
    assert {file.name: file.read_bytes() for file in runs.iterdir()} == before
    replayed = tiny("run", "--k", 2, "--engine", "again=run:runs/bm25_v1.trec")
    assert replayed.code == 0, replayed.err
    same = [line.rsplit(" ", 1)[0] for line in (runs / "bm25_v1.trec").read_text().splitlines()]
    assert [line.rsplit(" ", 1)[0] for line in (runs / "again.trec").read_text().splitlines()] == same


def test_what_is_wrong_with_an_engine_of_ones_own_is_one_line(tiny: Kbeval, within: Within) -> None:
    assert "the key 'url'" in within.refused("run", "--engine", "http")
    (tiny.folder / "evil.yaml").write_text("components:\n  x: {type: os.system}\n")
    assert "evil.yaml, line 2" in within.refused("run", "--engine", "haystack:evil.yaml")
    assert "none.trec" in within.refused("run", "--engine", "run:none.trec")
