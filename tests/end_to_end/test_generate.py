"""``kbeval generate`` against a server that speaks chat completions and misbehaves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import fake_writer
from chat_server import Asked, ChatServer, Cut, Hang, Reply, Say, Status, question, serve_chat
from kbeval.llm.journal import Journal
from preloaded import Preloaded, Running, preloaded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


KEY = "sk-or-v1-not-a-real-key-0123456789"
CONCURRENCY = 8
KILLS = 10


def misbehaving(asked: Asked) -> Reply:
    """Twenty kinds of behaviour, one a chunk by its place among the ten of a document and the document's number."""
    text = fake_writer.text_of(asked)
    good = fake_writer.good(asked)
    first = asked.before == 0
    a, b, c, d = fake_writer.words_of(text)[1::7][:4]
    match fake_writer.kind_of(text):
        case 0 if first:
            return Status(429, "slow down", headers={"Retry-After": "0.05"})
        case 1 if asked.before < 2:
            return Status(500)
        case 2 if first:
            return Hang()
        case 3 if first:
            return Cut(in_body=True)
        case 4 if first:
            return Cut(in_body=False)
        case 5:
            return Say(f'Of course!\n\n{{"question": "{good}"}}\n\nDoes that suit you?')
        case 6:
            return Say("")
        case 7:
            return Say("I'm sorry, but I can't help with that request.")
        case 8:
            return question(f"Comment puis-je avoir le {a} avec le {b} pour la {c} et les {d}?")
        case 9 if first:
            return Say("")
        case 10:
            return Say(f"```\n{good}\n```")
        case 11 if len(asked.messages) == 2:
            return question(fake_writer.far(text))
        case 12:
            return question(fake_writer.far(text))
        case 13:
            return question(f"What does the passage say about the {a} of the {b}?")
        case 14:
            return question(f"What is the {a} of the {b}? And who has the {c}?")
        case 15:
            return Say(None, refusal="I would rather not.")
        case _:
            return Say(json.dumps({"question": good}), delay_s=0.01)


# What the twenty kinds lead to, ten chunks each.
FAILED = {"unparsable": 10, "refused": 20}
REJECTED = {"language": 10, "overlap_band": 10, "refers": 10, "several": 10}
TAKEN = 200 - 30 - 40
# Paid for: each chunk once; the ever empty twice more, the once empty once more, two kinds a second time for their
# overlap. 429, 500, a hang and a cut connection are not paid for.
PAID = 200 + 10 * 2 + 10 + 10 + 10


class Project:
    """A folder, and ``kbeval`` run in it."""

    def __init__(self, folder: Path, programs: Preloaded) -> None:
        self.folder = folder
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("KBEVAL_", "OPENAI_", "OPENROUTER_"))
        }
        self._programs = programs

    def start(self, *arguments: object) -> Running:
        return self._programs.start(self.folder, self.environment, *arguments)

    def __call__(self, *arguments: object) -> Running:
        run = self.start(*arguments)
        assert run.code >= 0
        assert "Traceback" not in run.err, run.err
        assert KEY not in run.out + run.err
        return run

    def refused(self, *arguments: object) -> str:
        """Runs a command that must end with exit code 2 and one clear line, and returns that line."""
        run = self(*arguments)
        assert run.code == 2, (run.out, run.err)
        lines = [line for line in run.err.splitlines() if line.startswith("kbeval: error: ")]
        assert len(lines) == 1, run.err
        return lines[0].removeprefix("kbeval: error: ")


@pytest.fixture(scope="module")
def programs() -> Iterator[Preloaded]:
    with preloaded() as running:
        yield running


@pytest.fixture
def empty(tmp_path: Path, programs: Preloaded) -> Project:
    return Project(tmp_path, programs)


@pytest.fixture
def project(empty: Project) -> Project:
    """200 chunks in 20 documents."""
    fake_writer.corpus(empty.folder / "corpus" / "seed_docs", documents=20, chunks_each=10)
    return empty


@pytest.fixture
def small(empty: Project) -> Project:
    """4 chunks in 2 documents."""
    fake_writer.corpus(empty.folder / "corpus" / "seed_docs", documents=2, chunks_each=2)
    return empty


def settings(project: Project, server: ChatServer, more: str = "", timeout_s: float = 30) -> None:
    (project.folder / "kbeval.toml").write_text(
        f'[llm]\nbase_url = "{server.url}"\nmodel = "some/model"\ntimeout_s = {timeout_s}\n'
        f"backoff_s = 0.02\nconcurrency = {CONCURRENCY}\n{more}"
    )
    project.environment["OPENROUTER_API_KEY"] = KEY


def cache(project: Project) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((project.folder / "corpus" / "questions.cache.json").read_text())
    return loaded


def told(project: Project) -> list[list[tuple[str, str]]]:
    """The cache without what differs from one time to another."""
    loaded = cache(project)
    return [[(entry["id"], entry["text"]) for entry in loaded[part]] for part in ("questions", "rejected")]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serve_chat(misbehaving) as running:
        yield running


def test_every_chunk_is_a_question_or_a_counted_reason_through_ten_kills(project: Project, server: ChatServer) -> None:
    settings(project, server, timeout_s=3)
    rng = random.Random(20261201)
    for _ in range(KILLS):
        asked = len(server.asked)
        process = project.start("generate", "--styles", "near")
        while len(server.asked) == asked and process.lives():
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.3))
        assert process.lives(), "it was to be killed at work"
        process.send(signal.SIGKILL)
        assert process.code == -signal.SIGKILL
    result = project("generate", "--styles", "near")
    assert result.code == 1, result.err
    killed_paid = server.paid
    assert PAID <= killed_paid <= PAID + KILLS * CONCURRENCY

    kept = cache(project)
    assert len(kept["questions"]) == TAKEN
    assert Counter(entry["reason"] for entry in kept["rejected"]) == REJECTED
    chunks = {
        chunk for part in kept.values() if isinstance(part, list) for entry in part for chunk in entry["gold_chunks"]
    }
    failed = [line.split()[0] for line in result.out.splitlines() if line.startswith("  doc-")]
    assert len(chunks) == 170
    assert "failed: refused 20, unparsable 10" in result.out
    assert len(failed) == 20, "the first twenty with their reason, the others by name"
    assert "and 10 more: doc-" in result.out
    assert "429" in server.kinds
    assert {"500", "Hang", "Cut"} <= set(server.kinds)
    assert sorted(path.name for path in (project.folder / "corpus").iterdir()) == ["questions.cache.json", "seed_docs"]

    # Asked again is for what has failed, and for nothing else.
    before = told(project)
    again = project("generate", "--styles", "near")
    assert again.code == 2, "asked for thirty, and none was written: an error"
    assert "found none" in again.err
    assert server.paid - killed_paid == 10 * 3 + 20
    assert told(project) == before


def test_a_wrong_key_is_one_line_and_the_cache_stays(project: Project, server: ChatServer) -> None:
    settings(project, server)
    server.answer = lambda asked: Status(401, f"Incorrect API key provided: {KEY}. Bearer {KEY}")
    path = project.folder / "corpus" / "questions.cache.json"
    path.write_text('{"format": 1, "questions": []}')
    result = project("generate")
    assert result.code == 2
    [line] = [line for line in result.err.splitlines() if line.startswith("kbeval: error:")]
    assert "the key in OPENROUTER_API_KEY is not accepted" in line
    assert path.read_text() == '{"format": 1, "questions": []}'
    assert KEY not in result.out + result.err
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["questions.cache.json", "seed_docs"]
    assert len(server.asked) <= CONCURRENCY


def test_a_key_that_is_withdrawn_midway_loses_nothing(project: Project, server: ChatServer) -> None:
    for file in sorted((project.folder / "corpus" / "seed_docs").iterdir())[8:]:
        file.unlink()  # 80 chunks are enough
    settings(project, server)

    def answer(asked: Asked) -> Reply:
        return question(fake_writer.good(asked)) if server.paid < 30 else Status(401, f"no {KEY}")

    server.answer = answer
    line = project.refused("generate", "--styles", "near")
    assert "answers are kept" in line
    assert not (project.folder / "corpus" / "questions.cache.json").exists()
    journal = project.folder / "corpus" / "questions.cache.json.journal"
    assert KEY not in journal.read_text()
    paid = server.paid
    server.answer = lambda asked: question(fake_writer.good(asked))
    result = project("generate", "--styles", "near")
    assert result.code == 0, result.err
    assert server.paid == 80
    assert f"({paid} of them answered in an interrupted run before)" in result.out
    assert len(cache(project)["questions"]) == 80
    assert not journal.exists()


def test_429_for_a_while_fails_nothing(small: Project, server: ChatServer) -> None:
    settings(small, server, "retries = 0\n")
    until = time.monotonic() + 60
    busy = 0

    def answer(asked: Asked) -> Reply:
        nonlocal until, busy
        if not busy:
            until = time.monotonic() + 2
        busy += 1
        if time.monotonic() < until:
            return Status(429, "too many", headers={} if busy % 2 else {"Retry-After": "0.3"})
        return question(f"How do I get {fake_writer.made_up(fake_writer.text_of(asked), 1)[0]} going?")

    server.answer = answer
    result = small("generate", "--styles", "far")
    assert result.code == 0, result.out + result.err
    assert "4 taken, 0 calls failed" in result.out
    assert "to slow down (429); the rate fell to" in result.out
    assert server.kinds["429"] >= 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_keeps_what_was_paid_for(project: Project, server: ChatServer, number: signal.Signals) -> None:
    settings(project, server)
    server.answer = lambda asked: Hang() if server.paid >= 20 else question(fake_writer.good(asked))
    process = project.start("generate", "--styles", "near")
    while server.kinds["Hang"] < CONCURRENCY:  # then all that was answered has arrived
        assert process.lives(), process.err
        time.sleep(0.01)
    process.send(number)
    assert process.code == 128 + number
    assert "Traceback" not in process.err
    planned = project("generate", "--styles", "near", "--dry-run")
    paid = server.paid
    assert planned.out.startswith(f"{200 - paid} calls to make, {paid} questions there already\n")


def test_the_example_project_from_the_first_question_to_a_changed_document(empty: Project, server: ChatServer) -> None:
    assert empty("init", "--example").code == 0
    path = empty.folder / "corpus" / "questions.cache.json"
    authored = json.loads(path.read_text())["questions"]
    settings(empty, server)
    server.answer = lambda asked: question(fake_writer.far_of_anything(asked))

    planned = empty("generate", "--dry-run")
    assert planned.out.startswith("435 calls to make, 0 questions there already\n"), "145 chunks in three styles"
    assert not server.asked

    result = empty("generate", "--styles", "far", "--limit", "20")
    assert result.code == 0, result.out + result.err
    assert "20 questions asked for, 0 once more for their overlap: 20 taken, 0 calls failed" in result.out
    questions = json.loads(path.read_text())["questions"]
    assert questions[: len(authored)] == authored
    made = questions[len(authored) :]
    assert [entry["style"] for entry in made] == ["far"] * 20
    assert all(entry["source"] == "synthetic" and entry["domain"] and entry["overlap"] <= 0.35 for entry in made)
    assert server.paid == 20

    empty("generate", "--styles", "far", "--limit", "20")
    assert server.paid == 40, "the next twenty: nobody is asked twice"
    ids = [entry["id"] for entry in made]
    exported = empty("export")
    assert exported.code == 0, exported.err

    # The last words of a document change: its last chunk alone is asked for again, and the old question put aside.
    document = empty.folder / "corpus" / "seed_docs" / "api-authentication.md"
    document.write_text(document.read_text().rstrip("\n") + " It was so in zanzibar.\n")
    last = max(
        (entry for entry in made if "api-authentication" in entry["gold_documents"]), key=lambda e: [*e["gold_chunks"]]
    )
    changed = empty("generate", "--styles", "far", "--limit", "1")
    assert changed.code == 0, changed.err
    assert server.paid == 41
    assert f"{last['id']}: {next(iter(last['gold_chunks']))} (put aside)" in changed.out
    after = json.loads(path.read_text())
    assert set(ids) - {entry["id"] for entry in after["questions"]} == {last["id"]}
    assert [(entry["id"], entry["reason"]) for entry in after["rejected"]] == [(last["id"], "gold_changed")]
    # Where the old text comes back, so does its question, and nobody is asked.
    document.write_text(document.read_text().replace(" It was so in zanzibar.", ""))
    restored = empty("generate", "--styles", "far", "--limit", "1", "--dry-run")
    assert "40 questions there already" in restored.out


def test_a_key_is_asked_for_before_anything(empty: Project) -> None:
    empty("init", "--example")
    empty.environment.pop("OPENROUTER_API_KEY", None)
    line = empty.refused("generate")
    assert line.startswith("[llm] openrouter.ai needs a key: set the environment variable OPENROUTER_API_KEY or")


def test_the_cache_is_read_before_anything_is_paid_for(small: Project, server: ChatServer) -> None:
    settings(small, server)
    (small.folder / "corpus" / "questions.cache.json").write_text("{")
    assert "questions.cache.json, line 1: expected JSON" in small.refused("generate")
    assert not server.asked


def test_the_token_limit(small: Project, server: ChatServer) -> None:
    settings(small, server, "max_tokens_total = 1500\n")
    server.answer = lambda asked: Say(json.dumps({"question": fake_writer.far_of_anything(asked)}), usage=(400, 30))
    planned = small("generate", "--styles", "far", "--dry-run")
    # A call is about 400 tokens and allowed 300 of answer, where an answer of 40 is expected.
    assert "the limit of 1500 tokens allows about 3 of these calls\n" in planned.out
    result = small("generate", "--styles", "far")
    assert result.code == 0
    spent = 430 * server.paid
    assert 0 < spent <= 1500
    assert f"{spent} tokens spent" in result.out
    assert f"{4 - server.paid} calls were not made: [llm] max_tokens_total is reached" in result.err


def test_unknown_styles_and_settings_are_one_line(small: Project) -> None:
    assert small.refused("generate", "--styles", "close") == "--styles: expected some of near, mid, far, found 'close'"
    (small.folder / "kbeval.toml").write_text("[generate.bands]\nnear = [0.9, 0.2]\n")
    assert "two numbers from 0 to 1, the smaller one first" in small.refused("generate")


def test_two_at_once_are_refused_in_one_line(small: Project, server: ChatServer) -> None:
    settings(small, server)
    with Journal(small.folder / "corpus" / "questions.cache.json.journal"):  # as the first of two holds it
        assert "found another kbeval that is writing" in small.refused("generate")
        assert small("generate", "--dry-run").code == 0
    assert not server.asked


def test_as_a_program_of_its_own(small: Project, server: ChatServer) -> None:
    settings(small, server)
    server.answer = lambda asked: question(fake_writer.good(asked))
    finished = subprocess.run(
        [sys.executable, "-m", "kbeval", "generate"],
        cwd=small.folder,
        env=small.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, "12 taken" in finished.stdout) == (0, True), finished.stderr
    program = "import sys; import kbeval.cli; print(sorted({'openai', 'polars', 'bm25s'} & set(sys.modules)))"
    light = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert light.stdout == "[]\n"
