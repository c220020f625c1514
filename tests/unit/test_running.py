"""How questions are asked: again where that may help, side by side, and not for ever."""

from __future__ import annotations

import json
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kbeval.config import Price, RunSettings
from kbeval.engines.base import Answer, Engine, EngineSettings, TransientError, Usage, added
from kbeval.engines.components.estimates import estimate
from kbeval.engines.hybrid import HybridSettings
from kbeval.engines.metering import metering, one_call, retried, timed, used
from kbeval.engines.registry import EnginePlan
from kbeval.errors import KbevalError
from kbeval.formats.dataset import load_dataset, write_dataset
from kbeval.formats.sidecar import read_sidecar
from kbeval.model import Document, LabelledQuery
from kbeval.progress import Silent
from kbeval.report.latency import latency_table, run_sentences
from kbeval.running.answers import Answers
from kbeval.running.policy import Policy, policy_of
from kbeval.running.runner import ask_all, latency_summary
from kbeval.running.sample import sampled
from kbeval.running.session import run_engines
from kbeval.running.threads import hanging
from plain_trec import qrels_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kbeval.formats.dataset import Dataset
    from kbeval.running.runner import Outcomes

QUERIES = [LabelledQuery(id=f"q{number:02d}", text=f"question {number}") for number in range(12)]
PRICES = {"service": Price(per_thousand_rerank_units=1000.0)}  # 1 a unit


class Told(Engine):
    """An engine that does what a function says, and remembers what it was asked."""

    type = "told"
    thread_safe = True

    def __init__(self, does: Callable[[str], Any], **facts: Any) -> None:
        self.does = does
        self.asked: list[str] = []
        for name, value in facts.items():
            setattr(self, name, value)

    def retrieve(self, query: str, k: int) -> Answer:
        self.asked.append(query)
        found = self.does(query)
        return found if isinstance(found, Answer) else Answer(hits=[(query, 1.0)][:k])


def run(engine: Engine, queries: list[LabelledQuery] = QUERIES, **options: Any) -> Outcomes:
    policy = options.pop("policy", Policy(backoff_s=0.001))
    return ask_all(engine, "told", queries, 5, known_documents=set(), progress=Silent(), policy=policy, **options)


def busy(times: int, retry_after: float | None = None) -> Callable[[str], None]:
    left = {"n": times}

    def does(_: str) -> None:
        if left["n"]:
            left["n"] -= 1
            raise TransientError("busy", retry_after)

    return does


def test_a_transient_error_is_asked_again_and_its_pauses_are_the_totals() -> None:
    engine = Told(busy(2, retry_after=0.02))
    (outcome,) = run(engine, QUERIES[:1]).outcomes
    assert outcome.error is None
    assert engine.asked == ["question 0"] * 3
    assert (outcome.retries, outcome.waited) == (2, 0.04)
    assert outcome.seconds is not None
    assert outcome.seconds >= 0.04
    assert outcome.milliseconds()["waited"] == 40.0


@pytest.mark.parametrize(
    ("does", "asked", "error"),
    [
        (busy(9), 3, "TransientError: busy (asked 3 times)"),
        (busy(1, retry_after=61), 1, "TransientError: busy"),  # longer than max_wait_s
        (lambda _: 1 / 0, 1, "ZeroDivisionError: division by zero"),  # not called transient: not asked again
    ],
)
def test_what_is_not_asked_again_is_an_error(does: Callable[[str], Any], asked: int, error: str) -> None:
    engine = Told(does)
    (outcome,) = run(engine, QUERIES[:1]).outcomes
    assert (outcome.error, len(engine.asked)) == (error, asked)


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise KeyError("no message")


@pytest.mark.parametrize(
    ("hits", "error"),
    [
        ([("d1", 2.0), ("\ud800", 1.0)], "ValueError: expected a document id in Unicode, found half of a surrogate"),
        ([("d1", 2.0), ("", 1.0)], "ValueError: expected a document id, found empty text"),
        ([("d1", 2.0), (7, 1.0)], "TypeError: expected a document id as text, found int"),
        ([("d1", 2.0), ("d2", float("nan"))], "ValueError: expected a finite score of d2, found nan"),
        ([("d1", 2.0), ("d1", 1.0)], "ValueError: expected each document once, found d1 twice"),
        (None, "TypeError: 'NoneType' object is not iterable"),
        (SpeechlessError(), "SpeechlessError: its message cannot be had, for that raises KeyError"),
        (RuntimeError("half \ud800"), "RuntimeError: half ?"),
        (SystemExit(), "SystemExit"),
    ],
)
def test_an_engine_that_breaks_its_promise_has_failed_on_that_question_alone(
    hits: Any, error: str, dataset: Dataset, tmp_path: Path
) -> None:
    def does(query: str) -> Any:
        if query != "question 3":
            return Answer(hits=[(f"d{n}", -float(n)) for n in range(5)])  # more than the three asked for
        if isinstance(hits, BaseException):
            raise hits
        return SimpleNamespace(hits=None) if hits is None else Answer(hits=hits)

    engine = Told(does)
    engine.retrieve = lambda query, k: does(query)  # type: ignore[method-assign]
    run = written(engine, dataset, tmp_path / "runs", Policy())
    sidecar = json.loads(run.with_suffix(".json").read_bytes())
    assert list(sidecar["errors"]) == ["q03"]
    assert sidecar["errors"]["q03"].startswith(error)
    assert len(run.read_text().splitlines()) == 11 * 3


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"usage": (Usage("s", tokens=12.5),)}, "ValueError: expected a number of tokens of s, found 12.5"),  # type: ignore[arg-type]
        ({"usage": (Usage("s", tokens=-1),)}, "ValueError: expected a number of tokens of s, found -1"),
        ({"usage": (Usage("s", calls=2**70),)}, "ValueError: expected a number of calls of s, found 1180591"),
        ({"retries": 2**70}, "ValueError: expected a number of retries, found 1180591"),
        ({"seconds": {"vector": float("nan")}}, "ValueError: expected seconds of vector, found nan"),
        ({"waited": -1.0}, "ValueError: expected seconds of waited, found -1.0"),
    ],
)
def test_odd_numbers_of_an_engine_are_that_questions_error(
    more: dict[str, Any], error: str, dataset: Dataset, tmp_path: Path
) -> None:
    def does(query: str) -> Answer:
        return Answer(hits=[("d1", 1.0)], **(more if query == "question 3" else {}))

    run = written(Told(does), dataset, tmp_path / "runs", Policy())
    sidecar = read_sidecar(run.with_suffix(".json"))
    assert sidecar is not None
    assert list(sidecar.errors) == ["q03"]
    assert sidecar.errors["q03"].startswith(error)


def test_a_pause_that_is_no_number_is_the_usual_one() -> None:
    (outcome,) = run(Told(busy(1, retry_after="soon")), QUERIES[:1]).outcomes  # type: ignore[arg-type]
    assert outcome.error is None


def test_nothing_is_built_where_nothing_can_be_written(dataset: Dataset, tmp_path: Path) -> None:
    built = []
    builder = SimpleNamespace(build=lambda settings, context: built.append(1))
    plan = EnginePlan(name="told", settings=EngineSettings(), engine_class=builder)
    folder = tmp_path / "runs"
    for name, content in (("told.trec", None), ("told.journal", None), ("told.journal", b"no journal\nnor this\n")):
        (folder / name).mkdir(parents=True) if content is None else (folder / name).write_bytes(content)
        with pytest.raises(KbevalError, match=name):
            run_engines([plan], dataset, folder, root=folder, k=3, level=1, dsn=None, progress=Silent())
        (folder / name).rmdir() if content is None else (folder / name).unlink()
    assert built == []


def test_a_run_is_never_there_without_its_sidecar(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "told.json").mkdir()  # a folder where the sidecar is to be
    with pytest.raises(KbevalError, match=r"told\.json"):
        written(Told(lambda _: None), dataset, tmp_path / "runs", Policy())
    assert not (tmp_path / "runs" / "told.trec").exists()

    (tmp_path / "runs" / "told.json").rmdir()
    engine = Told(lambda _: Answer(hits=[("an id", 1.0)]))
    with pytest.raises(KbevalError, match=r"'an id', which holds a blank .*its answers are kept in .*--resume"):
        written(engine, dataset, tmp_path / "runs", Policy())
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["told.journal"]


def test_a_run_declares_no_more_than_its_engine_can_give(dataset: Dataset, tmp_path: Path) -> None:
    for depth, declared in ((None, 3), (2, 2), (9, 3)):
        run = written(Told(lambda _: Answer(hits=[("d1", 1.0)]), depth=depth), dataset, tmp_path / str(depth), Policy())
        assert json.loads(run.with_suffix(".json").read_bytes())["k"] == declared


def test_scores_that_rise_are_counted_and_the_order_is_the_ranking(dataset: Dataset, tmp_path: Path) -> None:
    run = written(Told(lambda _: Answer(hits=[("d1", 1.0), ("d2", 3.0)])), dataset, tmp_path / "runs", Policy())
    assert [line.split()[2] for line in run.read_text().splitlines()[:2]] == ["d1", "d2"]
    assert json.loads(run.with_suffix(".json").read_bytes())["counts"]["rising_scores"] == 12


def test_no_pause_is_begun_that_ends_after_the_timeout() -> None:
    (outcome,) = run(Told(busy(1, retry_after=5)), QUERIES[:1], policy=Policy(timeout_s=2)).outcomes
    assert (outcome.error, outcome.timed_out) == ("TransientError: busy", False)


def test_nothing_is_asked_twice_and_the_first_question_stands_apart() -> None:
    engine = Told(lambda _: None)
    outcomes = run(engine)
    assert engine.asked == [query.text for query in QUERIES]
    assert list(outcomes.first_ms()) == ["q00"]
    assert list(outcomes.latencies_ms()) == [query.id for query in QUERIES]
    assert outcomes.summary_ms()["total"]["n"] == 11


@pytest.mark.parametrize(("thread_safe", "at_once"), [(True, 3), (False, 1)])
def test_questions_are_asked_side_by_side_of_an_engine_that_is_made_for_it(thread_safe: bool, at_once: int) -> None:
    inside, most = [0], [0]
    lock = threading.Lock()
    together = threading.Barrier(3)

    def does(query: str) -> None:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        if thread_safe and query in ("question 1", "question 2", "question 3"):
            together.wait(10)  # only three that are in it at once get past
        with lock:
            inside[0] -= 1

    outcomes = run(Told(does, thread_safe=thread_safe), policy=Policy(concurrency=3))
    assert most[0] == at_once
    assert outcomes.concurrency == at_once
    assert not outcomes.errors
    assert [outcome.query.id for outcome in outcomes.outcomes] == [query.id for query in QUERIES]
    said = " ".join(run_sentences(outcomes, Policy(concurrency=3)))
    assert ("3 at once" if thread_safe else "one at a time, as the engine is not made for 3 at once") in said


def test_a_call_that_hangs_is_an_error_and_the_run_goes_on() -> None:
    released = threading.Event()

    def does(query: str) -> None:
        if query in ("question 0", "question 5"):
            released.wait(30)

    began = time.perf_counter()
    outcomes = run(Told(does), policy=Policy(timeout_s=0.5))
    assert time.perf_counter() - began < 20
    assert outcomes.errors == dict.fromkeys(("q00", "q05"), "TimeoutError: no answer within 0.5 s")
    counts = outcomes.counts()
    assert (counts["errored"], counts["timed_out"], counts["answered"]) == (2, 2, 10)
    # The one that hung is in the figures, with what was waited for it: nothing is dropped.
    assert outcomes.summary_ms()["total"]["n"] == 11
    assert outcomes.latencies_ms()["q05"]["total"] >= 500
    assert hanging()
    released.set()
    deadline = time.monotonic() + 10
    while hanging():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_engines_own_limit_is_overridden_by_the_command_line() -> None:
    def does(query: str) -> None:
        time.sleep(0.8 if query == "question 1" else 0)

    assert set(run(Told(does, query_timeout_s=0.4)).errors) == {"q01"}
    assert not run(Told(does, query_timeout_s=0.4), policy=Policy(timeout_s=0.0)).errors


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_run_ends_after_failures_in_a_row_whatever_runs_at_once(concurrency: int) -> None:
    def does(query: str) -> None:
        if query not in ("question 0", "question 2", "question 9"):
            raise RuntimeError("dead")

    outcomes = run(Told(does), policy=Policy(concurrency=concurrency, max_failures_in_a_row=3))
    # 1 fails, 2 does not, and then 3, 4 and 5 fail: nothing after it is in the run, although 9 would have answered.
    reason = "the run ended after 3 questions in a row failed"
    assert outcomes.incomplete == reason
    assert [outcome.error for outcome in outcomes.outcomes] == [
        None,
        "RuntimeError: dead",
        None,
        *["RuntimeError: dead"] * 3,
        *[f"not asked: {reason}"] * 6,
    ]
    assert outcomes.counts()["not_asked"] == 6


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_run_ends_before_it_may_cost_too_much_whatever_runs_at_once(concurrency: int) -> None:
    def does(query: str) -> Answer:
        return Answer(hits=[(query, 1.0)], usage=(Usage("service", calls=1, rerank_units=1),))

    # The index has cost 1, each question costs 1: four fit into 5.
    policy = Policy(concurrency=concurrency, max_cost=5.0, prices=PRICES)
    engine = Told(does)
    outcomes = run(engine, policy=policy, expected=(Usage("service", rerank_units=1),), spent=1.0)
    assert [outcome.error is None for outcome in outcomes.outcomes] == [True] * 4 + [False] * 8
    assert len(engine.asked) == 4  # and not one more was paid for
    assert outcomes.incomplete == "the next question might have cost more than --max-cost 5 allows"
    assert outcomes.usage() == (Usage("service", calls=4, rerank_units=4),)
    assert "for 4 questions 4 calls, 4 rerank units of service (1 rerank units a question), which cost 4" in (
        run_sentences(outcomes, policy)
    )


def test_a_limit_on_the_cost_of_a_service_without_a_price_cannot_be_kept() -> None:
    engine = Told(lambda query: Answer(hits=[(query, 1.0)], usage=(Usage("other", calls=1),)))
    outcomes = run(engine, policy=Policy(max_cost=5.0, prices=PRICES))
    assert len(engine.asked) == 1
    assert outcomes.incomplete == "[prices] has none for other, so --max-cost cannot be kept"


def test_answers_are_taken_over_and_errors_are_not(tmp_path: Path) -> None:
    usage = (Usage("service", calls=1, tokens=7),)

    def fails_once(query: str) -> Answer:
        if query == "question 3" and query not in engine.asked[:-1]:
            raise RuntimeError("once")
        return Answer(hits=[(query, 0.1 + 0.2)], stages={"vector": [query]}, seconds={"vector": 0.5}, usage=usage)

    engine = Told(fails_once)
    for resume, asked in ((False, 12), (True, 1)):
        with Answers(tmp_path / "told.journal", paid=True) as answers:
            answers.are_of(engine, "corpus", 5)
            before = len(engine.asked)
            outcomes = run(engine, policy=Policy(resume=resume), answers=answers)
            assert len(engine.asked) - before == asked
    assert not outcomes.errors
    first = outcomes.outcomes[0]
    assert first.answer is not None
    assert first.answer.hits == [("question 0", 0.1 + 0.2)]  # to the last bit
    assert (first.resumed, first.usage, first.answer.stages) == (True, usage, {"vector": ["question 0"]})
    # Another k, corpus or configuration is another answer; the journal of a whole run is removed.
    for corpus, k in (("other", 5), ("corpus", 6)):
        with Answers(tmp_path / "told.journal", paid=True) as answers:
            answers.are_of(engine, corpus, k)
            assert answers.recall(QUERIES[0]) is None
    with Answers(tmp_path / "told.journal", paid=True) as answers:
        answers.are_of(engine, "corpus", 5)
        assert answers.recall(LabelledQuery("q00", "question 0", filters={"tenant": "x"})) is None
        answers.forget()
    assert not (tmp_path / "told.journal").exists()


def test_two_runs_cannot_write_one_journal(tmp_path: Path) -> None:
    with (
        Answers(tmp_path / "a.journal", paid=False),
        pytest.raises(KbevalError, match="another kbeval"),
        Answers(tmp_path / "a.journal", paid=False),
    ):
        pass


def test_a_sample_is_the_same_whatever_the_order_and_grows_by_adding() -> None:
    five = [query.id for query in sampled(QUERIES, 5)]
    assert five == sorted(five)
    assert {query.id for query in sampled(QUERIES[::-1], 5)} == set(five)
    assert set(five) < {query.id for query in sampled(QUERIES, 6)}
    assert sampled(QUERIES, 50) == QUERIES


def test_an_engine_that_takes_no_filters_is_counted() -> None:
    queries = [LabelledQuery("q1", "x", filters={"tenant": "a"}), LabelledQuery("q2", "y")]
    assert run(Told(lambda _: None), queries).filtered == 1
    assert run(Told(lambda _: None, takes_filters=True), queries).filtered == 0


def test_percentiles_are_those_of_linear_interpolation() -> None:
    # 1 to 101: the p-th percentile of 101 equally spaced values is 1 + p.
    summary = latency_summary({str(n): {"total": float(n)} for n in range(1, 102)})
    assert summary == {"total": {"p50": 51.0, "p95": 96.0, "p99": 100.0, "n": 101}}


def test_the_table_of_latencies_counts_errors_and_timeouts() -> None:
    def does(query: str) -> Answer:
        if query == "question 2":
            raise RuntimeError
        return Answer(hits=[], seconds={"rerank": 0.002, "embed": 0.001})

    table = latency_table([run(Told(does))])
    assert [row[:2] for row in table.rows] == [["told", "total"], ["", "embed"], ["", "rerank"]]
    assert [row[5:] for row in table.rows] == [["11", "1", "0"], ["10", "", ""], ["10", "", ""]]
    assert table.rows[2][2] == "2.0"


def test_a_meter_hears_of_repeated_requests_and_passes_on_what_failed() -> None:
    sent: list[int] = []

    def fails() -> None:
        with metering():
            with one_call():
                for number in range(3):
                    timed(sent.append, number)
                    time.sleep(0.01)
            timed(sent.append, 9)  # outside a call nothing repeats anything
            used(Usage("s", calls=1))
            raise RuntimeError

    with metering() as outer:
        with pytest.raises(RuntimeError):
            fails()
        used(Usage("s", tokens=2))
    assert sent == [0, 1, 2, 9]
    assert outer.retries == 2
    assert outer.waited >= 0.02
    assert outer.usage == (Usage("s", calls=1, tokens=2),)
    retried(1.0)  # and where nobody listens it is nothing
    assert outer.retries == 2


def test_usage_is_added_up_by_service() -> None:
    both = [Usage("b", calls=1, tokens=2), Usage("a", rerank_units=3), Usage("b", calls=1, completion_tokens=4)]
    assert added(both) == (Usage("a", rerank_units=3), Usage("b", 2, 2, 4))
    assert Usage("b", 1, 2, 3, 4).times(3) == Usage("b", 3, 6, 9, 12)


def test_prices_are_a_million_tokens_and_a_thousand_units() -> None:
    prices = {
        "e": Price(per_million_tokens=0.02),
        "c": Price(per_thousand_rerank_units=2.0),
        "m": Price(per_million_tokens=0.15, per_million_completion_tokens=0.6),
    }
    policy = Policy(prices=prices)
    # 500,000 * .02 / 1,000,000 = .01; 250 * 2 / 1000 = .5; 2 * .15 + 1 * .6 = .9
    assert policy.cost([Usage("e", tokens=500_000)]) == pytest.approx(0.01)
    assert policy.cost([Usage("c", rerank_units=250)]) == pytest.approx(0.5)
    assert policy.cost([Usage("m", tokens=2_000_000, completion_tokens=1_000_000)]) == pytest.approx(0.9)
    assert policy.unpriced([Usage("m"), Usage("x"), Usage("y")]) == ["x", "y"]


def test_what_engine_a_is_expected_to_use() -> None:
    documents = [Document(id=f"d{n}", text="word " * 100, title="") for n in range(4)]
    queries = [LabelledQuery("q1", "x" * 40), LabelledQuery("q2", "x" * 80)]
    assert estimate(HybridSettings(), documents, queries) is None
    cohere = estimate(HybridSettings(reranker="cohere:m", rerank_candidates=150), documents, queries)
    assert cohere is not None
    assert list(cohere.query) == [Usage("cohere:m", calls=1, rerank_units=2)]  # one unit a hundred documents
    assert list(cohere.building) == []
    settings = HybridSettings(embedder="openai:m", chunk_words=100, chunk_overlap=0)
    openai = estimate(settings, documents, queries)
    assert openai is not None
    # 4 x 500 characters are 500 tokens; the questions are 60 characters on average: 15.
    assert [usage.tokens for usage in openai.building] == [500]
    assert list(openai.query) == [Usage("openai:m", calls=1, tokens=15)]
    assert estimate(HybridSettings(embedder="openai:m", legs=("bm25",)), documents, queries) is None
    settings = HybridSettings(reranker="llm:m", rerank_candidates=35, chunk_words=100, chunk_overlap=0)
    listwise = estimate(settings, documents, queries)
    assert listwise is not None
    [of] = listwise.query
    # Windows of 20 that slide by 10 over 35: 16 to 35, 6 to 25, 1 to 15. An order of 20 is some 40 tokens.
    assert (of.service, of.calls, of.completion_tokens) == ("llm:m", 3, 120)
    # Each window: 20 passages of 100 words of 5 characters, the question of 60, and what stands around them.
    assert 3 * (20 * 500 + 60) / 4 < of.tokens < 3 * (20 * 500 + 60 + 20 * 100 + 2000) / 4


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    folder = tmp_path / "data"
    write_dataset(
        folder,
        [Document(id=f"d{n}", text=f"text {n}") for n in range(5)],
        QUERIES,
        qrels_of([(query.id, "d1", 1) for query in QUERIES]),
        layout="plain",
    )
    return load_dataset(folder)


def written(engine: Engine, dataset: Dataset, folder: Path, policy: Policy) -> Path:
    builder = SimpleNamespace(build=lambda settings, context: engine)
    plan = EnginePlan(name="told", settings=EngineSettings(), engine_class=builder)
    (finished,) = run_engines(
        [plan], dataset, folder, root=folder, k=3, level=1, dsn=None, progress=Silent(), policy=policy
    )
    return finished.path


def test_the_bytes_are_the_same_however_many_are_asked_at_once(dataset: Dataset, tmp_path: Path) -> None:
    def does(query: str) -> Answer:
        number = int(query.split()[-1])
        time.sleep(number % 3 / 100)  # they come back in another order than they start
        if number == 7:
            raise RuntimeError("broken")
        return Answer(hits=[(f"d{(number + place) % 5}", 1 / (7 + place)) for place in range(3)])

    runs = [written(Told(does), dataset, tmp_path / str(n), Policy(concurrency=n)) for n in (1, 4)]
    assert runs[0].read_bytes() == runs[1].read_bytes()
    assert len(runs[0].read_bytes().splitlines()) == 33
    sidecars = [json.loads(run.with_suffix(".json").read_bytes()) for run in runs]
    measured = ("latencies_ms", "latency_ms", "cold_start", "throughput")
    one, four = ({key: of[key] for key in of if key not in measured} for of in sidecars)
    assert one == four
    assert [of["throughput"]["concurrency"] for of in sidecars] == [1, 4]


def test_settings_are_overridden_by_options_and_0_is_no_limit() -> None:
    settings = RunSettings(concurrency=3, timeout_s=2, max_failures_in_a_row=5)
    policy = policy_of(settings, {})
    assert (policy.concurrency, policy.timeout_s, policy.default_timeout_s) == (3, None, 2)
    assert policy.max_failures_in_a_row == 5
    policy = policy_of(settings, {}, concurrency=1, timeout_s=0.0, max_failures_in_a_row=0)
    assert (policy.concurrency, policy.timeout_s, policy.max_failures_in_a_row) == (1, 0.0, None)
