"""A sweep over a real database and rerankers behind local servers."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from scripted_server import Reply, ScriptedServer, serve

from kbeval.cli.engines import chosen_engines
from kbeval.config import Price, Project, Settings
from kbeval.engines.base import BuildContext
from kbeval.errors import KbevalError
from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.test_set import from_dataset
from kbeval.formats.dataset import load_dataset, write_dataset
from kbeval.model import Document, LabelledQuery, Qrels
from kbeval.order import sort_run
from kbeval.progress import Silent
from kbeval.running.policy import Policy
from kbeval.running.runner import ask_all
from kbeval.running.save import run_frame
from kbeval.sweep.grid import make_grid
from kbeval.sweep.memory import StageMemory
from kbeval.sweep.sweeping import Asked, Sweep, sweep

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Kbeval, Within
    from kbeval.engines.registry import EnginePlan
    from kbeval.store import Store

ANIMALS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "co-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for name in ("KBEVAL_COHERE_BASE_URL", "KBEVAL_EMBED_BASE_URL", "KBEVAL_DSN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


def zoo(folder: Path, unanswerable: bool = True) -> Path:
    """Eight documents of some chunks each, eight questions, and two that nothing answers."""
    import polars as pl

    documents = [
        Document(
            id=name,
            title=f"The {name}",
            text=" ".join(
                f"{name} likes food number {i} and sleeps under the {ANIMALS[(place + i) % 8]} tree." for i in range(4)
            ),
        )
        for place, name in enumerate(ANIMALS)
    ]
    queries = [
        LabelledQuery(f"q{i}", f"where does the {name} sleep after food {i}?", {name: 1})
        for i, name in enumerate(ANIMALS)
    ]
    nobody = [LabelledQuery(f"u{i}", f"how much is invoice {i}?", answerable=False) for i in range(2 * unanswerable)]
    frame = pl.DataFrame({"query": [q.id for q in queries], "document": list(ANIMALS), "grade": [1] * 8})
    write_dataset(folder, documents, [*queries, *nobody], Qrels(frame), layout="plain")
    return folder


def cohere(_: int, request: Any) -> Reply:
    """Scores each pair by itself, by the hash of both texts: no order of the documents makes a difference."""
    scores = {
        place: int.from_bytes(hashlib.sha256(f"{request['query']}|{text}".encode()).digest()[:4]) / 2**32
        for place, text in enumerate(request["documents"])
    }
    best = sorted(scores, key=lambda place: -scores[place])[: request["top_n"]]
    return Reply(
        {
            "id": "1",
            "results": [{"index": place, "relevance_score": scores[place]} for place in best],
            "meta": {"billed_units": {"search_units": 1}},
        }
    )


def swept(
    folder: Path,
    values: dict[str, list[Any]],
    memory: StageMemory,
    root: Path,
    policy: Policy | None = None,
    **engine: object,
) -> tuple[Sweep, list[EnginePlan]]:
    project = Project(
        root, Settings(engines={"a": {"type": "hybrid", "chunk_words": 20, "chunk_overlap": 5, **engine}})
    )
    data = load_dataset(folder)
    grid = make_grid(values, lambda o: chosen_engines(project, ["a"], None, None, o)[0], sample=0, seed=0)
    found = sweep(
        grid,
        data,
        from_dataset(data, level=1),
        memory,
        Asked(k=5, primary=parse_metric("mrr"), alpha=0.05, share=0.5, seed=0),
        root=root,
        dsn=None,
        progress=Silent(),
        policy=policy or Policy(),
    )
    return found, [each.plan for each in grid.configurations]


def test_a_swept_configuration_answers_as_the_engine_itself(
    tmp_path: Path, store: Store, scripted_server: ScriptedServer
) -> None:
    scripted_server.answer = cohere
    data = load_dataset(zoo(tmp_path / "zoo"))
    values: dict[str, list[Any]] = {
        "legs": ["bm25,vector", "fulltext,vector", "vector"],
        "chunk_words": [12],
        "candidates": [3, 50],  # 3 are doubled until five documents are found
        "reranker": ["none", "cohere:rerank-v3.5"],
    }
    fixed = {"reranker_base_url": scripted_server.url, "rerank_candidates": 6, "fusion_k": 7}
    memory = StageMemory(tmp_path / "memory")
    found, plans = swept(tmp_path / "zoo", values, memory, tmp_path, **fixed)
    memory.close()
    assert len(found.measured) == 13  # 12 of the grid, and the base with 20 words and 100 candidates
    paid = len(scripted_server.requests)

    context = BuildContext(documents=data.documents, store=lambda: store, progress=Silent(), root=tmp_path)
    known = {document.id for document in data.documents}
    lists = set()
    for plan, one in zip(plans, found.measured, strict=True):
        engine = plan.build(context)
        outcomes = ask_all(engine, "x", data.asked, 5, known_documents=known, progress=Silent())
        engine.close()
        assert not outcomes.errors
        assert sort_run(run_frame(outcomes)).equals(one.run.frame), one.configuration.in_words()
    for _, _, request in scripted_server.requests[paid:]:
        lists.add((request["query"], *sorted(request["documents"])))
    # The sweep asked once for every distinct question and set of candidates; the engines asked for each of theirs.
    assert paid == len(lists)
    assert len(scripted_server.requests) - paid == 6 * 10  # 6 reranked configurations, 10 questions


def test_the_next_sweep_does_nothing_again(tmp_path: Path, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = cohere
    zoo(tmp_path / "zoo")
    values: dict[str, list[Any]] = {"rerank_candidates": [2, 6], "fusion_k": [7, 60]}
    fixed = {"reranker_base_url": scripted_server.url, "reranker": "cohere:rerank-v3.5"}
    first = StageMemory(tmp_path / "memory")
    one, _ = swept(tmp_path / "zoo", values, first, tmp_path, **fixed)
    first.close()
    asked = len(scripted_server.requests)
    assert one.done["rerank"] == asked
    assert one.done["leg"] == 2 * 10
    assert one.done["embed"] == 10
    again = StageMemory(tmp_path / "memory")
    two, _ = swept(tmp_path / "zoo", values, again, tmp_path, **fixed)
    again.close()
    assert len(scripted_server.requests) == asked
    assert two.done == {}
    assert [each.run.frame.to_dicts() for each in two.measured] == [each.run.frame.to_dicts() for each in one.measured]
    for before, after in zip(one.measured, two.measured, strict=True):
        for stage in ("embed", "lexical", "vector", "rerank"):  # kept with the values; fusion is timed anew
            assert after.latency_ms[stage] == before.latency_ms[stage]
        assert before.usage == after.usage
        assert [(u.service, u.calls, u.rerank_units) for u in before.usage] == [("cohere:rerank-v3.5", 10, 10)]


def test_gain_and_ceiling_of_a_reranker_and_the_curve_of_a_threshold(
    tmp_path: Path, scripted_server: ScriptedServer
) -> None:
    def gold_last(number: int, request: Any) -> Reply:
        """Puts the animal that is asked about behind all others, and scores what nothing answers low."""
        of = request["query"].split()[3]
        top = 0.1 if "invoice" in request["query"] else 0.9
        order = sorted(range(len(request["documents"])), key=lambda i: request["documents"][i].startswith(f"The {of}"))
        results = [{"index": place, "relevance_score": top - rank / 100} for rank, place in enumerate(order)]
        return Reply({"id": "1", "results": results})

    scripted_server.answer = gold_last
    zoo(tmp_path / "zoo")
    memory = StageMemory(tmp_path / "memory")
    fixed = {"reranker_base_url": scripted_server.url, "reranker": "cohere:x", "chunk_words": 200, "legs": "bm25"}
    found, _ = swept(tmp_path / "zoo", {"rerank_candidates": [1, 8], "chunk_overlap": [5]}, memory, tmp_path, **fixed)
    memory.close()
    by_k = {each.configuration.changed["rerank_candidates"]: each for each in found.measured}
    # Whole documents, each with its own name most often: BM25 has every one first.
    alone = by_k[1].gain
    assert alone is not None
    assert (alone.before, alone.after, alone.ceiling) == (1.0, 1.0, 1.0)
    last = by_k[8].gain
    assert last is not None
    assert (last.before, last.ceiling) == (1.0, 1.0)
    assert last.after < 0.2  # behind the others, of which five are returned
    assert found.picked is by_k[1]
    [curve] = found.curves
    assert (curve.answerable, curve.unanswerable) == (8, 2)
    # One chunk is reranked: .9 for what is answered, .1 for what is not (or nothing, where no word is shared).
    assert curve.suggested == pytest.approx(0.9)
    assert curve.held_out is not None
    assert (curve.held_out.lost, curve.held_out.answered) == (0.0, 0.0)


def test_what_fails_costs_its_configuration_the_pick(
    tmp_path: Path, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def partly(number: int, request: Any) -> Reply:
        return Reply({"message": "no"}, status=400) if "ant" in request["query"] else cohere(number, request)

    scripted_server.answer = partly
    monkeypatch.setenv("KBEVAL_COHERE_BASE_URL", scripted_server.url)
    zoo(tmp_path / "zoo")
    memory = StageMemory(tmp_path / "memory")
    values: dict[str, list[Any]] = {
        "reranker": ["none", "cohere:x", "cross-encoder:./nowhere"],
        "rerank_candidates": [50, 60],
    }
    found, _ = swept(tmp_path / "zoo", values, memory, tmp_path)
    memory.close()
    by_reranker = {each.configuration.changed["reranker"]: each for each in found.measured}
    assert set(by_reranker) == set(values["reranker"])
    assert by_reranker["none"].sound
    assert found.picked.configuration.changed["reranker"] == "none"
    failing = by_reranker["cohere:x"]
    assert list(failing.errors) == ["q0"]
    assert "answered 400: no" in failing.errors["q0"]
    assert not failing.sound
    broken = by_reranker["cross-encoder:./nowhere"]
    assert broken.failure is not None
    assert "cross-encoder:./nowhere" in broken.failure
    # All the chunks go to the reranker for 50 and for 60: what failed for the one is not asked again for the other.
    assert sum("ant" in request["query"] for _, _, request in scripted_server.requests) == 1


def test_it_ends_before_it_costs_too_much(tmp_path: Path, scripted_server: ScriptedServer) -> None:
    scripted_server.answer = cohere
    zoo(tmp_path / "zoo")
    fixed = {"reranker_base_url": scripted_server.url, "reranker": "cohere:x"}
    values: dict[str, list[Any]] = {"rerank_candidates": [3, 6]}
    priced = {"cohere:x": Price(per_thousand_rerank_units=1000.0)}  # a call costs 1
    for number in (1, 2):  # four calls each: what the first paid for is not paid for again
        memory = StageMemory(tmp_path / "memory")
        with pytest.raises(
            KbevalError, match="ended early: the next call might have cost more than --max-cost 4 allows"
        ):
            swept(tmp_path / "zoo", values, memory, tmp_path, policy=Policy(max_cost=4.0, prices=priced), **fixed)
        memory.close()
        assert len(scripted_server.requests) == 4 * number
    memory = StageMemory(tmp_path / "memory")
    with pytest.raises(
        KbevalError, match=r"--max-cost: expected a price of cohere:x, which the sweep uses, found none"
    ):
        swept(tmp_path / "zoo", values, memory, tmp_path, policy=Policy(max_cost=4.0), **fixed)
    memory.close()


def test_what_was_billed_for_nothing_counts_towards_the_limit(tmp_path: Path, scripted_server: ScriptedServer) -> None:
    def unusable(_: int, request: Any) -> Reply:
        return Reply({"id": "1", "results": [], "meta": {"billed_units": {"search_units": 1}}})

    scripted_server.answer = unusable
    zoo(tmp_path / "zoo")
    fixed = {"reranker_base_url": scripted_server.url, "reranker": "cohere:x"}
    priced = {"cohere:x": Price(per_thousand_rerank_units=1000.0)}
    memory = StageMemory(tmp_path / "memory")
    with pytest.raises(KbevalError, match="ended early"):
        swept(
            tmp_path / "zoo",
            {"rerank_candidates": [3, 6]},
            memory,
            tmp_path,
            policy=Policy(max_cost=4.0, prices=priced),
            **fixed,
        )
    memory.close()
    assert len(scripted_server.requests) == 4


def test_embedding_the_corpus_counts_towards_the_limit(tmp_path: Path, scripted_server: ScriptedServer) -> None:
    zoo(tmp_path / "zoo")
    fixed = {"embedder_base_url": scripted_server.url, "embedder": "openai:x", "legs": "vector"}
    priced = {"openai:x": Price(per_million_tokens=1e6)}  # a token costs 1; a question has some ten
    scripted_server.answer = lambda _, request: Reply(
        {
            "object": "list",
            "model": "x",
            "data": [
                {"object": "embedding", "index": place, "embedding": [1.0, float(place)]}
                for place in range(len(request["input"]) if isinstance(request["input"], list) else 1)
            ],
            "usage": {"prompt_tokens": 5, "total_tokens": 5},
        }
    )
    memory = StageMemory(tmp_path / "memory")
    with pytest.raises(KbevalError, match="more than --max-cost 30 allows"):
        swept(
            tmp_path / "zoo", {"candidates": [3, 6]}, memory, tmp_path,
            policy=Policy(max_cost=30.0, prices=priced), **fixed,
        )  # fmt: skip
    memory.close()
    # A word, to know the dimension; the corpus of some hundred tokens was not sent.
    assert all(len(request["input"]) < 60 for _, _, request in scripted_server.requests)


def test_a_damaged_memory_ends_the_sweep_and_is_named(tmp_path: Path) -> None:
    zoo(tmp_path / "zoo")
    memory = StageMemory(tmp_path / "memory")
    swept(tmp_path / "zoo", {"legs": ["bm25"], "candidates": [50, 60]}, memory, tmp_path)
    memory.close()
    with sqlite3.connect(tmp_path / "memory") as plain:
        plain.execute("UPDATE stage SET value = x'00' WHERE kind = 'leg'")
    plain.close()
    memory = StageMemory(tmp_path / "memory")
    with pytest.raises(KbevalError, match="memory: expected the rows that kbeval wrote, found one that was changed"):
        swept(tmp_path / "zoo", {"legs": ["bm25"], "candidates": [50, 60]}, memory, tmp_path)
    memory.close()


def test_a_servers_order_of_equal_scores_is_kept(tmp_path: Path, store: Store, scripted_server: ScriptedServer) -> None:
    def backwards(_: int, request: Any) -> Reply:
        places = range(len(request["documents"]))[::-1][: request["top_n"]]
        found = [{"index": place, "relevance_score": 0.5} for place in places]
        return Reply({"id": "1", "results": found, "meta": {"billed_units": {"search_units": 1}}})

    scripted_server.answer = backwards
    data = load_dataset(zoo(tmp_path / "zoo"))
    memory = StageMemory(tmp_path / "memory")
    fixed = {"reranker_base_url": scripted_server.url, "reranker": "cohere:x"}
    found, plans = swept(tmp_path / "zoo", {"rerank_candidates": [4]}, memory, tmp_path, **fixed)
    memory.close()
    context = BuildContext(documents=data.documents, store=lambda: store, progress=Silent(), root=tmp_path)
    store.load_documents(data.documents)
    primary = parse_metric("mrr")
    for measured, plan in zip(found.measured, plans, strict=True):
        engine = plan.build(context)
        wanted = [query for query in data.asked if query.id in found.split.dev.queries]
        ranks = []
        for query in wanted:
            documents = [document for document, _ in engine.answer(query, 5).hits]
            gold = next(iter(query.relevant))
            ranks.append(1 / (documents.index(gold) + 1) if gold in documents else 0.0)
        engine.close()
        assert measured.dev[primary.name] == pytest.approx(sum(ranks) / len(ranks))


def test_a_model_that_is_shown_a_list_is_known_by_the_list(tmp_path: Path) -> None:
    def backwards(request: Any) -> Reply:
        text = request["messages"][1]["content"]
        count = len(re.findall(r"^<passage ", text, re.MULTILINE))
        content = json.dumps({"ranking": list(range(count, 0, -1))})
        message = {"role": "assistant", "content": content}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return Reply(
            {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
        )

    zoo(tmp_path / "zoo")
    with serve() as server:
        server.answer = lambda _, request: backwards(request)
        fixed = {"reranker_base_url": server.url, "reranker": "llm:m", "rerank_candidates": 4}
        memory = StageMemory(tmp_path / "memory")
        found, _ = swept(tmp_path / "zoo", {"fusion_k": [1, 60]}, memory, tmp_path, **fixed)
        memory.close()
        lists = {request["messages"][1]["content"] for _, _, request in server.requests}
        assert len(lists) == len(server.requests) == found.done["rerank"]
        for one in found.measured:
            first = one.run.frame.group_by("query", maintain_order=True).first()
            assert set(first["score"].to_list()) == {1.0}  # rank 1 of the model's list
        assert "cannot have a score threshold. llm:m gives an order alone" in found.no_curve
        again = StageMemory(tmp_path / "memory")
        repeated, _ = swept(tmp_path / "zoo", {"fusion_k": [1, 60]}, again, tmp_path, **fixed)
        again.close()
        assert len(server.requests) == len(lists)
        for before, after in zip(found.measured, repeated.measured, strict=True):
            assert before.run.frame.equals(after.run.frame)


# --- the command ------------------------------------------------------------------------------------------------------


def results(kbeval: Kbeval, name: str = "results") -> dict[str, Any]:
    data = orjson.loads((kbeval.folder / name / "sweep.json").read_bytes())
    data.pop("latency")
    return data


def test_the_command_from_end_to_end(kbeval: Kbeval, tmp_path: Path) -> None:
    zoo(tmp_path / "zoo")
    (kbeval.folder / "kbeval.toml").write_text(
        '[engines.a]\ntype = "hybrid"\n[sweep]\nengine = "a"\nseed = 2\n'
        '[sweep.grid]\nlegs = ["bm25", "bm25,vector"]\nchunk_words = [30, 60]\n'
    )
    done = kbeval("sweep", "--dataset", tmp_path / "zoo", "--out", "results")
    assert done.code == 0, done.err
    assert "Picked on 4 dev questions" in done.out
    command = next(line for line in done.out.splitlines() if line.startswith("To use it: kbeval run"))
    assert kbeval(*shlex.split(command.removeprefix("To use it: kbeval ")), "--out", "used").code == 0
    data = results(kbeval)
    assert len(data["configurations"]) == 5  # the base has 120 words
    assert len(data["test_set"]["dev"]) == len(data["test_set"]["held_out"]) == 4
    assert set(data["configurations"]["c1"]["dev"]) == {"mrr", "recall@10", "ndcg@10"}
    page = (kbeval.folder / "results" / "sweep.html").read_text()
    assert 'data-picture="latency"' in page
    assert "<script" not in page
    assert "| base (as it is set" in (kbeval.folder / "results" / "sweep.md").read_text()

    again = kbeval("sweep", "--dataset", tmp_path / "zoo", "--out", "again", "--sample", 9)
    assert "the grid has 4 combinations, fewer than were to be drawn: all are tried" in again.err
    assert "nothing, all of it was remembered" in again.out
    assert results(kbeval, "again") == data


def test_other_engines_are_swept_too(kbeval: Kbeval, tmp_path: Path) -> None:
    zoo(tmp_path / "zoo", unanswerable=False)
    (kbeval.folder / "mine.py").write_text(
        "class Found:\n    def __init__(self, name):\n        self.id, self.score = name, 1.0\n"
        "        self.metadata = {'doc': name, 'other': 'hen'}\n"
        "def find(query, k):\n    return [Found(w) for w in ('ant', 'bee', 'cat', 'dog') if w in query][:k]\n"
    )
    arguments = ("sweep", "--engine", "python:mine:find", "--dataset", tmp_path / "zoo", "--out", "results")
    done = kbeval(*arguments, "--set", "id_from=metadata.other,metadata.doc,metadata.none")
    assert done.code == 1, done.err  # there is no metadata.none
    data = results(kbeval)
    assert data["picked"] == "base"  # by id, as good as c2: the first of equal ones
    errors = {name: len(each["errors"]) for name, each in data["configurations"].items()}
    assert errors == {"base": 0, "c1": 0, "c2": 0, "c3": 4}
    assert data["no_thresholds"].startswith("The test set has no question that the corpus does not answer")
    line = kbeval.refused(*arguments, "--set", "object=mine:find,mine:other")
    assert "expected a setting of the engine, found what says which engine it is" in line


def test_bad_settings_are_one_line_before_any_work(within: Within, tmp_path: Path) -> None:
    zoo(tmp_path / "zoo")
    assert "nearest: 'fusion_k'" in within.refused("sweep", "--dataset", tmp_path / "zoo", "--set", "fusionk=1,2")
    line = within.refused("sweep", "--dataset", tmp_path / "zoo", "--set", "reranker=none,cohere:x")
    assert "COHERE_API_KEY" in line
    assert "nothing can be set here" in within.refused(
        "sweep", "--engine", "bm25", "--set", "k1=1", "--dataset", tmp_path / "zoo"
    )
    assert not (within.folder / "out").exists()


def test_killed_in_the_middle_and_nothing_is_paid_twice(
    kbeval: Kbeval, tmp_path: Path, scripted_server: ScriptedServer
) -> None:
    zoo(tmp_path / "zoo")
    answered: list[tuple[str, ...]] = []
    stop_at = 7

    def once(number: int, request: Any) -> Reply:
        if number == stop_at:
            return Reply(hang=True)  # the sweep is killed while it waits for this one
        answered.append((request["query"], *sorted(request["documents"])))
        return cohere(number, request)

    scripted_server.answer = once
    (kbeval.folder / "kbeval.toml").write_text(
        '[engines.a]\ntype = "hybrid"\nchunk_words = 20\nchunk_overlap = 5\nreranker = "cohere:x"\n'
        f'reranker_base_url = "{scripted_server.url}"\n'
        '[sweep.grid]\nrerank_candidates = [3, 6]\nfusion_k = [7, 60]\n'
    )  # fmt: skip
    environment = {"COHERE_API_KEY": "co-secret"}
    command = kbeval.command("sweep", "--dataset", tmp_path / "zoo", "--out", "results")
    process = subprocess.Popen(
        command,
        cwd=kbeval.folder,
        env={**kbeval.environment, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 90
    while len(scripted_server.requests) <= stop_at and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    scripted_server.released.set()
    assert len(answered) == stop_at

    done = kbeval("sweep", "--dataset", tmp_path / "zoo", "--out", "results", **environment)
    assert done.code == 0, done.err
    assert len(answered) == len(set(answered)) > stop_at
    whole = len(answered)
    (kbeval.folder / ".kbeval" / "stages.sqlite").unlink()
    for beside in (kbeval.folder / ".kbeval").glob("stages.sqlite-*"):
        beside.unlink()
    scripted_server.answer = cohere
    fresh = kbeval("sweep", "--dataset", tmp_path / "zoo", "--out", "fresh", **environment)
    assert fresh.code == 0, fresh.err
    assert len(scripted_server.requests) - stop_at - 1 == whole - stop_at + whole
    assert results(kbeval) == results(kbeval, "fresh")
