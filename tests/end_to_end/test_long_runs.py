"""Long and paid runs: killed and resumed, cut short, limited, asked by several threads; by real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from scripted_server import Reply, ScriptedServer

from kbeval.config import Price, load_project
from kbeval.engines.registry import plan_engines
from kbeval.errors import KbevalError
from kbeval.progress import Silent
from kbeval.running.policy import Policy
from kbeval.running.session import run_engines
from kbeval.testset.project import open_dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.end_to_end.conftest import Kbeval

    from kbeval.running.session import Finished

COUNT = 30
ENGINES = """
import hashlib, os, threading, time
from pathlib import Path

LOG = Path("asked.txt")

def ranked(query):
    order = sorted(range(5), key=lambda n: hashlib.sha256(f"{query} {n}".encode()).digest())
    return [(f"d{n}", 1 / (7 + place)) for place, n in enumerate(order)]

def paid(query, k, filters=None):
    with LOG.open("a") as log:
        log.write(query + "\\n")
    if query == "question 12" and os.environ.get("HANG"):
        time.sleep(60)
    if query == "question 20":
        raise RuntimeError("never answered")
    return ranked(query)[:k]

def at_once(query, k):
    time.sleep(int(query.split()[-1]) % 3 / 500)
    if query == "question 7":
        raise RuntimeError("broken")
    return ranked(query)[:k]

at_once.thread_safe = True

def hangs(query, k):
    if query in ("question 3", "question 4"):
        threading.Thread(target=time.sleep, args=(600,)).start()  # and Python waits for it
        time.sleep(600)
    return ranked(query)[:k]

def dies(query, k):
    if int(query.split()[-1]) >= 5:
        raise RuntimeError("dead")
    return ranked(query)[:k]
"""


@pytest.fixture
def thirty(kbeval: Kbeval) -> Kbeval:
    """A folder with engines, and beside it a data set of thirty questions."""
    folder = kbeval.folder.parent / "thirty"
    (folder / "qrels").mkdir(parents=True)
    lines = [{"_id": f"d{n}", "title": "", "text": f"text {n}"} for n in range(5)]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    questions: list[dict[str, Any]] = [{"_id": f"q{n:02d}", "text": f"question {n}"} for n in range(COUNT)]
    questions[2]["metadata"] = {"filters": {"tenant": "acme"}}
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in questions))
    judged = "".join(f"q{n:02d}\td{n % 5}\t1\n" for n in range(COUNT))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    (kbeval.folder / "mine.py").write_text(ENGINES)
    return kbeval


def command(name: str, *options: object) -> tuple[object, ...]:
    return ("run", "--engine", f"python:mine:{name}", "--dataset", "../thirty", *options)


def sidecar(at: Kbeval, name: str, folder: str = "runs") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((at.folder / folder / f"{name}.json").read_bytes())
    return found


def asked(at: Kbeval) -> list[str]:
    return (at.folder / "asked.txt").read_text().split("\n")[:-1]


def test_a_killed_run_goes_on_and_nothing_is_asked_twice(thirty: Kbeval) -> None:
    whole = thirty(*command("paid", "--out", "whole"))
    assert whole.code == 1
    assert len(asked(thirty)) == COUNT
    (thirty.folder / "asked.txt").unlink()

    process = subprocess.Popen(
        thirty.command(*command("paid")),
        cwd=thirty.folder,
        env={**thirty.environment, "HANG": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not (thirty.folder / "asked.txt").exists() or len(asked(thirty)) < 13:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (thirty.folder / "runs" / "paid.trec").exists()
    (thirty.folder / "runs" / "paid.journal").open("ab").write(b'{"key": "torn')

    resumed = thirty(*command("paid", "--resume"))
    assert resumed.code == 1
    # 0 to 12 the first time, of which 12 never came back; then 12 to 29.
    numbers = [int(line.split()[-1]) for line in asked(thirty)]
    assert numbers == [*range(13), *range(12, COUNT)]
    assert (thirty.folder / "runs" / "paid.trec").read_bytes() == (thirty.folder / "whole" / "paid.trec").read_bytes()
    one, other = sidecar(thirty, "paid"), sidecar(thirty, "paid", "whole")
    measured = ("latencies_ms", "latency_ms", "cold_start", "throughput")
    assert {key: one[key] for key in one if key not in measured} == {
        key: other[key] for key in other if key not in measured
    }
    assert (one["throughput"]["resumed"], other["throughput"]["resumed"]) == (12, 0)
    assert len(one["latencies_ms"]) == COUNT
    assert list(one["cold_start"]["first_ms"]) == ["q00", "q12"]  # each process had a first one

    # One question has no answer yet: what was paid for the others is not thrown away.
    assert "runs/paid.journal: with --resume" in resumed.err
    assert (thirty.folder / "runs" / "paid.journal").exists()
    assert "filters" not in whole.err + resumed.err  # it takes them


def test_a_hanging_call_is_an_error_and_the_process_ends(thirty: Kbeval) -> None:
    done = thirty(*command("hangs", "--timeout", "1"), timeout=60)
    assert done.code == 1
    assert sidecar(thirty, "hangs")["errors"] == dict.fromkeys(("q03", "q04"), "TimeoutError: no answer within 1 s")
    assert sidecar(thirty, "hangs")["counts"]["timed_out"] == 2
    (total,) = (line.split() for line in done.out.splitlines() if line.startswith("hangs  "))
    assert total[-3:] == ["29", "2", "2"]  # n, errors, timeouts
    assert "p99 ms" in done.out
    assert "wrote runs/hangs.trec" in done.out


def test_a_dead_engine_ends_the_run_and_every_question_is_named(thirty: Kbeval) -> None:
    done = thirty(*command("dies", "--max-failures-in-a-row", "4"))
    assert done.code == 1
    assert "incomplete: the run ended after 4 questions in a row failed; 21 questions were not asked" in done.err
    found = sidecar(thirty, "dies")
    assert found["incomplete"] == "the run ended after 4 questions in a row failed"
    assert len(found["errors"]) == COUNT - 5
    assert found["errors"]["q08"] == "RuntimeError: dead"
    assert found["errors"]["q09"] == "not asked: the run ended after 4 questions in a row failed"
    compared = thirty("compare", "runs/dies.trec", "--dataset", "../thirty")
    assert compared.code == 1
    assert "25 errored, 0 missing (incomplete" in compared.out
    # One question has filters, of which this engine knows nothing.
    assert done.err.count("it takes no filters: 1 questions that have some were asked without") == 1
    assert found["counts"]["filters_not_taken"] == 1


def test_a_sample_is_marked_and_compared_with_care(thirty: Kbeval) -> None:
    done = thirty(
        *("evaluate", "--engine", "part=bm25", "--engine", "python:mine:at_once", "--dataset", "../thirty"),
        *("--concurrency", "4", "--limit", "10", "--timeout", "20", "--max-failures-in-a-row", "5", "--resume"),
    )
    assert "part: partial: 10 of 30 questions, seeded sample" in done.err
    assert "20 missing (partial: 10 of 30 questions, seeded sample)" in done.out
    assert "No verdict on part and at_once" in done.out
    for words in ("p99 ms", "the first question took", "questions a second, 4 at once"):
        assert words in done.out
    out = thirty.folder / "out" / "thirty"
    found = json.loads((out / "runs" / "part.json").read_bytes())
    assert (found["partial"]["of"], len(found["partial"]["queries"]), found["counts"]["queries"]) == (30, 10, 10)
    assert json.loads((out / "results" / "results.json").read_bytes())["verdicts"][0]["verdict"] == "cannot tell"
    for file in ("results.md", "results.json", "per_query.jsonl"):
        assert "p99" not in (out / "results" / file).read_text()
    # Neither a gate nor a trend takes it for a whole run.
    (thirty.folder / "kbeval.toml").write_text("[targets]\nmrr = 0.5\n")
    run = str(out / "runs" / "part.trec")
    line = "run part: expected a run that was asked every question, found partial: 10 of 30 questions, seeded sample"
    assert thirty.refused("check", run, "--dataset", "../thirty") == line
    assert thirty.refused("history", "add", run, "--dataset", "../thirty") == line


PRICE = Price(per_thousand_rerank_units=2.0)
RERANKED = {"type": "hybrid", "reranker": "cohere:rerank-v3.5"}


@pytest.fixture
def ask_reranked(
    tiny: Kbeval, scripted_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Finished, list[str]]]:
    """Runs engine A with a reranker on the project of four questions, and gives what it said before."""
    for proxy in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setenv("COHERE_API_KEY", "not-a-real-key-4711")
    monkeypatch.setenv("KBEVAL_COHERE_BASE_URL", scripted_server.url)
    project = load_project(tiny.folder / "kbeval.toml")

    def ask(**policy: Any) -> tuple[Finished, list[str]]:
        said: list[str] = []
        (finished,) = run_engines(
            plan_engines(["a"], {"a": RERANKED}),
            open_dataset(project, None),
            tiny.folder / "runs",
            root=tiny.folder,
            k=20,
            level=1,
            dsn=None,
            progress=Silent(),
            policy=Policy(**policy),
            say=said.append,
        )
        return finished, said

    return ask


def reversed_order(request: Any) -> Reply:
    sent = len(request["documents"])
    found = [{"index": sent - 1 - place, "relevance_score": 0.9 - place / 100} for place in range(sent)]
    return Reply({"id": "x", "results": found, "meta": {"billed_units": {"search_units": 1}}})


def test_a_paid_reranker_is_estimated_metered_limited_and_resumed(
    ask_reranked: Callable[..., tuple[Finished, list[str]]], scripted_server: ScriptedServer
) -> None:
    def answer(number: int, request: Any) -> Reply:
        if number == 1:
            return Reply({"message": "slow down"}, status=429, headers={"retry-after": "1"})
        return reversed_order(request)

    scripted_server.answer = answer
    prices = {"cohere:rerank-v3.5": PRICE}
    # .002 a question: .005 are two, and not a third.
    finished, said = ask_reranked(max_cost=0.005, prices=prices)
    assert said == [
        "a: for 4 questions, about 4 calls, 4 rerank units of cohere:rerank-v3.5, at [prices] 0.008",
        "a: --max-cost 0.005 is less than the estimate: the run may end early",
    ]
    assert [request[2]["query"] for request in scripted_server.requests] == [
        "How much money may a cashier give back?",
        "When do takings reach the bank?",
        "When do takings reach the bank?",
    ]
    text = finished.path.with_suffix(".json").read_text()
    found = json.loads(text)
    assert "not-a-real-key-4711" not in text
    assert found["errors"]["q4"].startswith("not asked: the next question might have cost more than --max-cost")
    assert found["usage"] == {
        "cohere:rerank-v3.5": {"calls": 2, "tokens": 0, "completion_tokens": 0, "rerank_units": 2, "cost": 0.004}
    }
    assert found["usage_by_query"]["q1"]["cohere:rerank-v3.5"]["rerank_units"] == 1
    assert found["counts"]["repeated_requests"] == 1
    # The pause is in the total and in no stage.
    latency = found["latencies_ms"]["q2"]
    assert latency["total"] > latency["waited"] >= 1000 > latency["rerank"]

    finished, _ = ask_reranked(max_cost=0.005, prices=prices, resume=True)
    assert not finished.outcomes.errors
    assert len(scripted_server.requests) == 5
    assert finished.journal is None
    assert not list(finished.path.parent.glob("*.journal"))


def test_a_limit_on_the_cost_needs_a_price(ask_reranked: Callable[..., object]) -> None:
    with pytest.raises(KbevalError, match=r'add \[prices\."cohere:rerank-v3\.5"\]'):
        ask_reranked(max_cost=1.0)


def test_a_reranker_that_fails_ends_the_run(
    ask_reranked: Callable[..., tuple[Finished, list[str]]], scripted_server: ScriptedServer
) -> None:
    scripted_server.answer = lambda number, request: (
        reversed_order(request) if number == 0 else Reply({"message": "no such model"}, status=404)
    )
    finished, said = ask_reranked(max_failures_in_a_row=2)
    assert said == ["a: for 4 questions, about 4 calls, 4 rerank units of cohere:rerank-v3.5"]  # no price, no sum
    assert len(scripted_server.requests) == 3
    assert "no such model" in finished.outcomes.errors["q2"]
    assert finished.outcomes.errors["q4"] == "not asked: the run ended after 2 questions in a row failed"
    assert finished.outcomes.incomplete is not None
