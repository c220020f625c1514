"""``kbeval judge`` against a server that misbehaves, as its users run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from chat_server import Asked, Cut, Hang, Reply, Say, Status, grade, serve_chat
from kbeval.cli import main
from kbeval.formats.labels import read_labels, write_labels
from kbeval.formats.pool import read_pools
from kbeval.formats.trec import read_run
from kbeval.model import Label
from kbeval.testset.pool import in_pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval

    from chat_server import ChatServer

KEY = "sk-this-key-is-nowhere"
QUESTION = re.compile(r"<question (\w+)>\n(.*?)\n</question \1>", re.DOTALL)
DOCUMENT = re.compile(r"<document (\w+)>\n(?:Title: [^\n]*\n\n)?(.*?)\n</document \1>", re.DOTALL)


class Result(NamedTuple):
    """What a finished command said."""

    code: int
    out: str
    err: str


def material(asked: Asked) -> tuple[str, str]:
    """The question and the document, from the frames that they stand in."""
    user = asked.messages[1]["content"]
    question, document = QUESTION.search(user), DOCUMENT.search(user)
    assert question is not None
    assert document is not None
    return question[2], document[2]


def overlap_grade(question: str, document: str) -> int:
    """A judge whose rule is known: quarters of the question's distinct words that the text holds, 3 at most."""
    words = set(re.findall(r"\w+", question.lower()))
    return min(3, 4 * len(words & set(re.findall(r"\w+", document.lower()))) // len(words))


def by_overlap(asked: Asked) -> Reply:
    return grade(overlap_grade(*material(asked)))


class Judging:
    """A small project, two runs over it, and a server that judges."""

    def __init__(self, kbeval: Kbeval, server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
        self.kbeval = kbeval
        self.capsys = capsys
        self.server = server
        self.folder = kbeval.folder
        self.labels_file = self.folder / "corpus" / "labels.jsonl"
        cache = json.loads((self.folder / "corpus" / "questions.cache.json").read_text())
        self.questions = {question["id"]: question["text"] for question in cache["questions"]}
        self.configure()
        self.write_run("one", {"q1": ["refunds", "payouts"], "q2": ["payouts"], "q3": ["sign-in"], "q4": ["sign-in"]})
        self.write_run("two", {"q1": ["refunds"], "q2": ["refunds", "payouts"], "q3": ["refunds", "payouts"]})

    # Pooled: q1 refunds payouts, q2 payouts refunds, q3 sign-in refunds payouts, q4 sign-in; and q3's gold, printer.
    PAIRS = 9

    def configure(self, judge: str = "", llm: str = "") -> None:
        (self.folder / "kbeval.toml").write_text(
            f'[llm]\nbase_url = "{self.server.url}"\nmodel = "stub"\nbackoff_s = 0.01\n{llm}\n[judge]\n{judge}\n'
        )

    def write_run(self, name: str, answers: dict[str, list[str]]) -> None:
        lines = [
            f"{query} Q0 {document} {rank} {1 - rank / 10} {name}\n"
            for query, documents in answers.items()
            for rank, document in enumerate(documents, start=1)
        ]
        (self.folder / "runs").mkdir(exist_ok=True)
        (self.folder / "runs" / f"{name}.trec").write_text("".join(lines))

    def __call__(self, *arguments: object, code: int = 0, runs: Sequence[str] = ("one", "two")) -> Result:
        """Runs the program here: a process of its own for each would take minutes to say the same."""
        files = [f"runs/{name}.trec" for name in runs]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            patch.setattr("sys.argv", ["kbeval", "judge", *files, *map(str, arguments)])
            with pytest.raises(SystemExit) as ended:
                main()
        result = Result(int(ended.value.code or 0), *self.capsys.readouterr())
        assert result.code == code, (result.out, result.err)
        written = [path.read_text() for path in (self.folder / "corpus").glob("*.json*")]
        assert not any(KEY in text for text in (result.out, result.err, *written))
        return result

    def refused(self, *arguments: object, runs: Sequence[str] = ("one", "two")) -> str:
        said = self(*arguments, runs=runs, code=2).err.splitlines()
        lines = [line for line in said if not line.startswith("judging: ")]
        assert [line.startswith("kbeval: error: ") for line in lines] == [True]
        return lines[0]

    def labels(self) -> dict[tuple[str, str], Label]:
        return {(label.query, label.document): label for label in read_labels(self.labels_file)}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serve_chat(by_overlap) as serving:
        yield serving


@pytest.fixture
def judging(
    tiny: Kbeval, server: ChatServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Judging:
    for variable in ("KBEVAL_LLM_BASE_URL", "KBEVAL_LLM_MODEL", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return Judging(tiny, server, capsys)


def test_labels_say_what_the_judge_says_and_the_pool_is_on_record(judging: Judging) -> None:
    result = judging()
    labels = judging.labels()
    assert len(labels) == judging.PAIRS
    for (query, document), label in labels.items():
        text = (judging.folder / "corpus" / "seed_docs" / f"{document}.md").read_text().split("---\n")[2].strip()
        expected = overlap_grade(judging.questions[query], text)
        assert (label.grade, label.votes, label.confidence) == (expected, (expected, expected), 1.0)
        assert (label.source, label.by, label.chunk, label.why) == ("llm", "stub", None, "because")
    assert labels["q1", "refunds"].runs == ("one", "two")
    assert labels["q1", "payouts"].runs == ("one",)
    assert labels["q3", "printer"].runs == ()
    lines = judging.labels_file.read_text().splitlines()
    assert [json.loads(line)["query"] for line in lines] == sorted(json.loads(line)["query"] for line in lines)
    assert judging.server.paid == 2 * judging.PAIRS
    assert (
        "pool: 9 pairs of question and document; 2 runs, 10 documents deep (1 by their own labels alone)" in result.out
    )
    assert "votes: 100.0% equal over 9 pairs, kappa 1.000, quadratic 1.000" in result.out
    assert "asked: 18 answers, 1,800 tokens sent, 360 received" in result.out  # the server says 100 and 20 each
    (pool,) = read_pools(judging.folder / "corpus" / "pool.json")
    assert (pool.depth, set(pool.runs)) == (10, {"one", "two"})
    one = read_run(judging.folder / "runs" / "one.trec")
    assert in_pool([pool], one, {"q1", "q2", "q3", "q4"})


def test_what_is_known_is_not_paid_again_and_every_file_stays_as_it_is(judging: Judging) -> None:
    judging()
    before = {path: path.read_bytes() for path in (judging.folder / "corpus").glob("*.json*")}
    again = judging()
    assert judging.server.paid == 2 * judging.PAIRS
    assert {path: path.read_bytes() for path in (judging.folder / "corpus").glob("*.json*")} == before
    assert "asked: 0 answers" in again.out
    assert "wrote" not in again.out
    judging("--rejudge")
    assert judging.server.paid == 4 * judging.PAIRS


def test_a_changed_text_is_judged_again_and_nothing_else(judging: Judging) -> None:
    judging()
    document = judging.folder / "corpus" / "seed_docs" / "sign-in.md"
    document.write_text(document.read_text().replace("Six digits unlock", "A passcode has how many digits? Six unlock"))
    judging()
    assert judging.server.paid == 2 * judging.PAIRS + 2 * 2, "sign-in stands for q3 and q4, two votes each"
    assert judging.labels()["q4", "sign-in"].grade == 3


def test_a_dry_run_counts_and_asks_nothing_and_needs_no_key(judging: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    judging("--queries", "q1")
    monkeypatch.delenv("OPENAI_API_KEY")
    result = judging("--dry-run")
    assert re.search(r"to ask: 14 calls about 7 pairs, roughly [\d,]+ tokens .*; 4 votes are known", result.out)
    assert judging.server.paid == 4
    assert len(judging.labels()) == 2
    assert not (judging.folder / "corpus" / "pool.json").exists()


def test_a_limit_goes_to_the_best_ranks_first_and_the_pool_waits_for_the_rest(judging: Judging) -> None:
    # Rank 1 in some run: q1 refunds, q2 payouts, q2 refunds, q3 refunds, q3 sign-in, q4 sign-in.
    first = judging("--limit", 6)
    assert set(judging.labels()) == {
        ("q1", "refunds"), ("q2", "payouts"), ("q2", "refunds"), ("q3", "refunds"), ("q3", "sign-in"), ("q4", "sign-in")
    }  # fmt: skip
    assert "not judged yet: 3 pairs" in first.out
    assert not (judging.folder / "corpus" / "pool.json").exists()
    judging("--limit", 6)
    assert judging.server.paid == 2 * judging.PAIRS
    assert (judging.folder / "corpus" / "pool.json").exists()


def test_what_a_person_has_labelled_is_left_alone(judging: Judging) -> None:
    person = Label("q1", "refunds", 1, "human", "ana", why="half of it", when="2026-12-01T10:00:00Z")
    write_labels(judging.labels_file, [person])
    result = judging()
    assert judging.server.paid == 2 * (judging.PAIRS - 1)
    assert "1 left out: a person has labelled them" in result.out
    assert judging.labels()["q1", "refunds"] == person
    judging("--include-human")
    both = [label for label in read_labels(judging.labels_file) if (label.query, label.document) == ("q1", "refunds")]
    assert [label.source for label in both] == ["human", "llm"]
    assert both[0] == person
    assert judging.server.paid == 2 * judging.PAIRS


def test_votes_that_differ_give_the_lower_grade_and_go_to_review(judging: Judging) -> None:
    judging.server.answer = lambda asked: grade(3 if "assess" in asked.messages[0]["content"] else 1)
    result = judging()
    assert {(label.grade, label.votes) for label in judging.labels().values()} == {(1, (3, 1))}
    assert {label.confidence for label in judging.labels().values()} == {0.3333}
    assert {label.why for label in judging.labels().values()} == {"3: because | 1: because"}
    assert "votes: 0.0% equal over 9 pairs, kappa 0.000" in result.out
    assert "low confidence (the votes differ, or the model was not sure): 9 (" in result.out
    # Gold is q1 refunds, q2 payouts, q3 printer, q4 sign-in: 1 is below the level, 2.
    assert (
        "disputed (below the level on generated gold): 4 (q1 refunds; q2 payouts; q3 printer; q4 sign-in)" in result.out
    )


def test_log_probabilities_lower_the_confidence(judging: Judging) -> None:
    tokens = [{"token": "2", "logprob": -0.6931471805599453, "bytes": None, "top_logprobs": []}]
    judging.server.answer = lambda asked: Say("2", logprobs=tokens)
    judging()
    assert {label.confidence for label in judging.labels().values()} == {0.5}, "exp(-ln 2) = 1/2, the votes agree"


def test_errors_and_a_busy_server_are_survived(judging: Judging) -> None:
    def answer(asked: Asked) -> Reply:
        faults: list[Reply] = [
            Status(500), Status(429, headers={"Retry-After": "0"}), Cut(), Cut(in_body=False), Say(""),
            Say("Well, that depends on what you mean."),
        ]  # fmt: skip
        fault = asked.number % 2 == 0 and asked.number < 2 * len(faults)
        return faults[asked.number // 2] if fault else by_overlap(asked)

    judging.server.answer = answer
    result = judging()
    assert len(judging.labels()) == judging.PAIRS
    assert None not in {vote for label in judging.labels().values() for vote in label.votes or ()}
    assert "2 asked again, as they could not be read" in result.out
    assert "too busy" in result.out
    assert judging.server.paid == 2 * judging.PAIRS + 2, "the two that could not be read were paid for too"


def test_what_cannot_be_read_is_null_and_counted_and_fails_above_the_share(judging: Judging) -> None:
    def answer(asked: Asked) -> Reply:
        question, document = material(asked)
        return Say("It is good.") if "blink" in question and "paper" in document else by_overlap(asked)

    judging.server.answer = answer
    result = judging(code=1)
    label = judging.labels()["q3", "printer"]
    assert (label.grade, label.votes, label.confidence) == (None, (None, None), None)
    assert label.why == "could not be read as a grade: It is good."
    assert len(judging.labels()) == judging.PAIRS
    assert re.search(r"null \(unreadable\) +1 +11.1%", result.out)
    assert "null, as no vote could be read: 1 (q3 printer)" in result.out
    assert "11.1% of the votes could not be read as a grade, and [judge] max_unparsed is 5.0%" in result.err  # 2 of 18
    assert not (judging.folder / "corpus" / "pool.json").exists()
    assert judging.server.paid == 16 + 2 * 3, "three answers each until it is given up"

    judging(code=1)
    assert judging.server.paid == 16 + 2 * 3, "what could not be read is paid for once"

    judging.configure("max_unparsed = 0.12")
    judging()
    assert (judging.folder / "corpus" / "pool.json").exists()

    judging.server.answer = by_overlap
    judging("--retry-unparsed")
    assert judging.server.paid == 16 + 2 * 3 + 2
    assert judging.labels()["q3", "printer"].grade == 0


def test_one_vote_of_two_that_could_not_be_read_leaves_the_other_with_little_confidence(judging: Judging) -> None:
    judging.configure("max_unparsed = 0.5")
    judging.server.answer = lambda asked: grade(2) if "assess" in asked.messages[0]["content"] else Say("maybe")
    judging()
    assert {(label.grade, label.votes, label.confidence) for label in judging.labels().values()} == {
        (2, (2, None), 0.5)
    }


def test_answers_that_were_cut_are_asked_again_with_more_room_and_the_others_are_not(judging: Judging) -> None:
    def answer(asked: Asked) -> Reply:
        thinks = "blink" in material(asked)[0] and asked.body["max_tokens"] < 900
        return Say("Let me think", finish_reason="length") if thinks else by_overlap(asked)

    judging.server.answer = answer
    result = judging(code=1)
    assert "8 ended at [judge] max_answer_tokens = 300" in result.err  # q3 has four documents, two votes each
    paid = judging.server.paid
    judging.configure("max_answer_tokens = 900")
    judging("--retry-unparsed")
    assert judging.server.paid == paid + 8
    assert None not in {label.grade for label in judging.labels().values()}


def test_a_refusal_is_null_at_once(judging: Judging) -> None:
    judging.configure("max_unparsed = 1.0")
    judging.server.answer = lambda asked: Say(None, refusal="I would rather not.")
    judging()
    assert judging.server.paid == 2 * judging.PAIRS
    assert {label.grade for label in judging.labels().values()} == {None}


def test_a_call_that_finally_fails_fails_the_command_and_the_rest_is_kept(judging: Judging) -> None:
    judging.configure(llm="retries = 1")
    judging.server.answer = lambda asked: Status(500) if "blink" in material(asked)[0] else by_overlap(asked)
    result = judging(code=1)
    assert {query for query, _ in judging.labels()} == {"q1", "q2", "q4"}
    assert "8 of 18 votes could not be had (8 server_error; " in result.err  # q3 has four documents
    assert "not judged yet: 4 pairs" in result.out
    judging.server.answer = by_overlap
    judging()
    assert judging.server.paid == 2 * judging.PAIRS
    assert len(judging.labels()) == judging.PAIRS


def test_a_wrong_key_is_one_line_and_touches_nothing(judging: Judging) -> None:
    judging.server.answer = lambda asked: Status(401, f"Incorrect API key provided: {KEY}")
    result = judging(code=2)
    lines = [line for line in result.err.splitlines() if "error" in line]
    assert len(lines) == 1
    assert "the key in OPENAI_API_KEY is not accepted" in lines[0]
    assert not judging.labels_file.exists()


def test_no_credit_left_is_one_line_and_what_came_in_has_its_labels(judging: Judging) -> None:
    judging.configure(llm="concurrency = 1")
    judging.server.answer = lambda asked: by_overlap(asked) if asked.number < 6 else Status(402, "Insufficient credits")
    assert "no credit left" in judging.refused()
    assert len(judging.labels()) == 3, "two votes each"
    judging.server.answer = by_overlap
    judging()
    assert judging.server.paid == 2 * judging.PAIRS


def test_ctrl_c_keeps_what_came_in(judging: Judging) -> None:
    judging.configure(llm="concurrency = 1")

    def answer(asked: Asked) -> Reply:
        if asked.number == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return by_overlap(asked)

    judging.server.answer = answer
    judging(code=130)
    assert len(judging.labels()) == 3, "two votes each"
    judging()
    assert 2 * judging.PAIRS <= judging.server.paid <= 2 * judging.PAIRS + 1


def test_the_token_limit_ends_the_work_and_the_next_goes_on(judging: Judging) -> None:
    judging.configure("votes = 1\nmax_answer_tokens = 20", llm="max_tokens_total = 1200\nconcurrency = 1")
    result = judging()
    asked = judging.server.paid
    assert 0 < asked < judging.PAIRS
    assert asked * 120 <= 1200  # what the server says that each has cost
    assert f"not asked, as [llm] max_tokens_total was reached: {judging.PAIRS - asked} votes" in result.out
    assert not (judging.folder / "corpus" / "pool.json").exists()
    judging.configure("votes = 1\nmax_answer_tokens = 20")
    judging()
    assert judging.server.paid == judging.PAIRS


def test_kill_9_loses_nothing_but_calls_in_flight(judging: Judging) -> None:
    at_once = 3
    judging.configure(llm=f"concurrency = {at_once}")
    gate = {"open": 4}

    def answer(asked: Asked) -> Reply:
        # The server goes quiet after so many answers: whatever else is asked then is in flight when the kill comes.
        return by_overlap(asked) if judging.server.paid < gate["open"] else Hang()

    judging.server.answer = answer
    kills = 2
    for kill in range(kills):
        gate["open"] = judging.server.paid + 4
        process = subprocess.Popen(
            judging.kbeval.command("judge", "runs/one.trec", "runs/two.trec"),
            cwd=judging.folder,
            env={**judging.kbeval.environment, "OPENAI_API_KEY": KEY},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + 60
            while judging.server.kinds["Hang"] < at_once * (kill + 1):
                assert time.monotonic() < deadline, judging.server.kinds
                assert process.poll() is None
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
    votes = judging.folder / "corpus" / "labels.votes.jsonl"
    votes.write_bytes(votes.read_bytes() + b'{"key": "torn')
    judging.server.answer = by_overlap
    judging()
    # A killed session has paid at most for what was on its way and could not be written down any more.
    assert 2 * judging.PAIRS <= judging.server.paid <= 2 * judging.PAIRS + kills * at_once
    assert len(judging.labels()) == judging.PAIRS
    assert b"torn" not in votes.read_bytes()


def test_related_models_are_named(judging: Judging) -> None:
    cache = judging.folder / "corpus" / "questions.cache.json"
    data = json.loads(cache.read_text())
    data["questions"][0]["provenance"] = {"model": "openai/gpt-4.1"}
    cache.write_text(json.dumps(data))
    judging.configure('model = "openai/gpt-4o-mini"')
    result = judging("--dry-run")
    assert (
        "kbeval: warning: the judge openai/gpt-4o-mini and openai/gpt-4.1, which wrote questions, are of one model "
        "family (OpenAI)"
    ) in result.err


def test_questions_without_gold_are_judged_too(judging: Judging) -> None:
    cache = judging.folder / "corpus" / "questions.cache.json"
    data = json.loads(cache.read_text())
    more = {"text": "May a cashier give money back?", "gold_chunks": {}, "gold_documents": {}, "source": "historical"}
    data["questions"] += [{"id": "real", **more}, {"id": "none", **more, "answerable": False}]
    cache.write_text(json.dumps(data))
    judging.write_run("one", {"real": ["refunds"], "none": ["refunds"]})
    result = judging(runs=["one"])
    # may, a, cashier, give, money, back: all six words are in the text.
    assert {judging.labels()[query, "refunds"].grade for query in ("real", "none")} == {3}
    assert "answers to questions that are said to have none: 1 (none refunds)" in result.out
    assert judging.server.paid == 2 * (4 + 1), "the four gold documents, and one question in two guises, asked once"


def test_documents_that_cannot_be_judged_are_named(judging: Judging) -> None:
    (judging.folder / "corpus" / "seed_docs" / "blank.md").write_text("---\ndescription: nothing\n---\n")
    judging.write_run("two", {"q1": ["gone", "blank"]})
    result = judging("--dry-run")
    assert "left out, as the corpus does not hold them: 1 (gone)" in result.out
    assert "left out, as they have no text: 1 (blank)" in result.out


@pytest.mark.parametrize(
    ("runs", "arguments", "message"),
    [
        (["nothing"], [], "nothing.trec: expected a readable file"),
        (["foreign"], [], "run foreign: expected answers to questions of corpus/questions.cache.json, found none"),
        (["one"], ["--queries", "q1,q9"], "expected ids of questions in corpus/questions.cache.json, found 'q9'"),
        (["one"], ["--votes", "3"], "--votes"),
        (["one"], ["--limit", "0"], "--limit"),
    ],
)
def test_bad_usage_is_one_line(judging: Judging, runs: list[str], arguments: list[str], message: str) -> None:
    judging.write_run("foreign", {"x9": ["refunds"]})
    assert message in judging.refused(*arguments, runs=runs)
    assert judging.server.asked == []


def test_a_remote_server_needs_a_key(judging: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    (judging.folder / "kbeval.toml").write_text('[llm]\nbase_url = "https://llm.example/v1"\n')
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "needs a key: set the environment variable OPENROUTER_API_KEY or OPENAI_API_KEY" in judging.refused()


def test_real_runs_of_a_real_corpus(kbeval: Kbeval, server: ChatServer, shared_data: Path) -> None:
    source = shared_data / "docs-qa"
    (kbeval.folder / "corpus").mkdir()
    shutil.copytree(source / "runs", kbeval.folder / "runs")
    (kbeval.folder / "kbeval.toml").write_text(
        f'[corpus]\nprovider = "beir"\npath = "{source}"\n[llm]\nbase_url = "{server.url}"\nmodel = "stub"\n'
    )
    texts = {line["_id"]: line["text"] for line in map(json.loads, (source / "queries.jsonl").open())}
    gold: dict[str, dict[str, int]] = {query: {} for query in texts}
    for line in (source / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, value = line.split("\t")
        gold[query][document] = int(value)
    questions = [
        {"id": query, "text": text, "gold_chunks": {}, "gold_documents": gold[query], "source": "synthetic"}
        for query, text in texts.items()
    ]
    cache = kbeval.folder / "corpus" / "questions.cache.json"
    cache.write_text(json.dumps({"format": 1, "questions": questions}))

    runs = sorted((kbeval.folder / "runs").iterdir())
    result = kbeval("judge", *runs, "--votes", "1", OPENAI_API_KEY=KEY)
    assert result.code == 0, result.err

    found: dict[tuple[str, str], set[str]] = {(q, d): set() for q, documents in gold.items() for d in documents}
    for path in runs:
        for line in path.read_text().splitlines():
            query, _, document, *_ = line.split()
            found.setdefault((query, document), set()).add(path.stem)
    labels = {(label.query, label.document): label for label in read_labels(kbeval.folder / "corpus" / "labels.jsonl")}
    assert {pair: set(label.runs) for pair, label in labels.items()} == found
    assert server.paid == len(found)
    documents = {line["_id"]: line for line in map(json.loads, (source / "corpus.jsonl").open())}
    whole = {pair for pair in labels if len(documents[pair[1]]["text"]) <= 8000}
    assert 0.9 * len(labels) < len(whole) < len(labels), "some are shown by their best chunks"
    for query, document in whole:
        assert labels[query, document].grade == overlap_grade(texts[query], documents[document]["text"])
    disputed = sum((labels[pair].grade or 0) < 2 for pair in found if pair[1] in gold[pair[0]])
    assert f"disputed (below the level on generated gold): {disputed} (" in result.out
    assert KEY not in result.out + result.err
