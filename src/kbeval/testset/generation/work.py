"""Has a model write the questions that are missing: asks, writes each answer down as it arrives, builds the cache."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kbeval.corpus.chunking import cutter
from kbeval.errors import KbevalError
from kbeval.formats.questions import write_questions
from kbeval.llm.calls import Result, run_calls
from kbeval.llm.client import ChatModel, estimated_tokens
from kbeval.llm.errors import Fatal, Permanent, Refused, Unparsable
from kbeval.llm.journal import Journal
from kbeval.llm.parsing import looks_refused, parse_object
from kbeval.progress import Silent
from kbeval.testset.generation import prompts
from kbeval.testset.generation.cache import BAND, Built, Cache, build, first_look, read_cache
from kbeval.testset.generation.sources import read_corpus
from kbeval.testset.generation.written import Writer, Written
from kbeval.testset.overlap import overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from kbeval.config import Project
    from kbeval.llm.client import Answer
    from kbeval.progress import Progress
    from kbeval.testset.generation.sources import Corpus, Source

TEMPERATURE = 0.0

MOST_UNPARSED = 3
"""After so many answers to one call without a question in them it has failed: more would not differ."""

EXPECTED_ANSWER_TOKENS = 40

# Failures that have been paid for, or that would be the same again: a work that goes on after a kill keeps them.
_KEPT = frozenset({"refused", "unparsable", "bad_request"})


@dataclass(frozen=True, slots=True)
class Call:
    """One question to be asked for: the first time, or once more because of its overlap."""

    written: Written
    source: Source
    messages: Sequence[dict[str, str]]
    attempt: int

    @property
    def label(self) -> str:
        """For people: the chunk and the style."""
        return f"{self.source.chunks[0].id} {self.written.style}"

    def expected(self, answer: int) -> int:
        """About how many tokens it costs with an answer of so many."""
        return sum(estimated_tokens(message["content"]) for message in self.messages) + answer


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be asked, and what it would cost.

    Attributes:
        calls: one a text and style that has no question yet. Each may be followed by a second one.
        expected, most: tokens of these calls, with answers of ordinary length and with the longest allowed.
        token_limit: of the settings, 0 for none.
        within_limit: how many calls the limit allows.
        empty: chunks without a word.
        there: how many texts and styles have their question already.
    """

    calls: list[Call]
    expected: int
    most: int
    token_limit: int
    within_limit: int
    empty: list[str]
    there: int


@dataclass
class Outcome:
    """How a ``generate`` ended.

    Attributes:
        built: the cache as it is now.
        asked: first calls that were to be made in this run, an interrupted one before it included.
        resumed: answers that an interrupted run had left.
        second: calls made once more because of the overlap.
        failed: (chunk and style, reason, detail) of each call that finally failed.
        not_asked: calls that the token limit left.
        retries, busy, lowest_rate, prompt_tokens, completion_tokens: as in :class:`kbeval.llm.calls.Tally`.
        written_now: questions among those of this run that were taken.
        empty: chunks without a word.
        changed: whether the cache's file is another now.
    """

    built: Built
    asked: int = 0
    resumed: int = 0
    second: int = 0
    failed: list[tuple[str, str, str]] = field(default_factory=list)
    not_asked: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    busy: int = 0
    lowest_rate: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    written_now: int = 0
    empty: list[str] = field(default_factory=list)
    changed: bool = False


class Generation:
    """One project's questions and the corpus that they are written from.

    Args:
        styles: what to ask for; the settings' without it.
        regenerate: ask for everything anew.
        limit: the most first calls, 0 for all.
        use_round_trip: whether neither of two retrievers finding its document rejects a question; as the settings say
            without it.

    Raises:
        KbevalError: an unknown style, an empty corpus.
    """

    def __init__(
        self,
        project: Project,
        *,
        styles: Sequence[str] | None = None,
        regenerate: bool = False,
        limit: int = 0,
        use_round_trip: bool | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._progress = progress or Silent()
        self._llm, self._settings = project.settings.llm, project.settings.generate
        self.styles = _checked_styles(list(self._settings.styles) if styles is None else list(styles))
        self._regenerate = regenerate
        self._limit = limit
        self.cache_path = project.path(project.settings.test_set.questions)
        self.journal_path = self.cache_path.with_name(f"{self.cache_path.name}.journal")
        self.corpus: Corpus = read_corpus(project)
        self._bands = self._settings.bands.by_style()
        parameters = {"temperature": TEMPERATURE, "max_tokens": self._settings.max_answer_tokens}
        self._writer = Writer(self._llm.model, "", parameters)
        self._versions = {style: prompts.version(style) for style in prompts.STYLES}
        self._current = {
            self._writer.key(digest, version) for digest in self.corpus.sources for version in self._versions.values()
        }
        self._round_trip = self._settings.round_trip if use_round_trip is None else use_round_trip
        self._cut = cutter(project.settings.corpus)
        self._headed = False
        self._found: Callable[[str, Collection[str]], bool] | None = None

    @property
    def round_trip_k(self) -> int | None:
        """The depth of the round trip, None where there is none."""
        return self._settings.round_trip_k if self._round_trip else None

    def plan(self) -> Plan:
        """What would be asked. Changes nothing, and needs neither key nor server."""
        state = _State(read_cache(self.cache_path), self._regenerate)
        state.replay(Journal.read(self.journal_path))
        if state.another_work:
            # As at a start: what that work has had written is in the cache by then, and its failures are forgotten.
            state.cache.written |= state.fresh
            state.fresh, state.failed = {}, {}
        calls, there = self._calls(state)
        costs = [call.expected(EXPECTED_ANSWER_TOKENS) for call in calls]
        limit, within, spent = self._llm.max_tokens_total, 0, 0
        for cost in costs:
            if limit and spent + cost > limit:
                break
            spent += cost
            within += 1
        most = sum(call.expected(self._settings.max_answer_tokens) for call in calls)
        return Plan(calls, sum(costs), most, limit, within, self.corpus.empty, there)

    def run(self) -> Outcome:
        """Asks, and writes the cache.

        Raises:
            Fatal: no call can go well; the cache is as it was, and the journal keeps the answers so far.
            KbevalError: another one is at work here.
        """
        read_cache(self.cache_path)  # a damaged one is found before anything is paid for
        model = ChatModel(self._llm.base_url, self._llm.model, self._llm.timeout_s, concurrency=self._llm.concurrency)
        with Journal(self.journal_path) as journal:
            return asyncio.run(self._work(model, journal))

    async def _work(self, model: ChatModel, journal: Journal) -> Outcome:
        self._writer = Writer(self._llm.model, model.host, self._writer.parameters)
        state = self._begin(journal)
        outcome = Outcome(Built(), resumed=len(state.fresh), empty=self.corpus.empty)
        outcome.prompt_tokens, outcome.completion_tokens = state.spent
        calls, _ = self._calls(state)
        outcome.asked = len(calls) + len(state.fresh) + len(state.failed)
        async with model:
            try:
                await self._ask(model, journal, state, calls, outcome, "writing questions")
                await self._ask(model, journal, state, self._outside(state), outcome, "once more, for the overlap")
            except Fatal as error:
                raise _with_hint(error, len(state.fresh)) from None
        outcome.failed = [*state.failed.values()]
        self._finish(state, journal, outcome)
        return outcome

    def _begin(self, journal: Journal) -> _State:
        """Takes up what an interrupted run has left, and puts it into the cache at once."""
        lines = journal.replay()
        state = _State(read_cache(self.cache_path), self._regenerate)
        state.replay(lines)
        self._headed = bool(lines)
        if lines:
            self._write(state)
        if state.another_work:
            journal.clear()
            self._headed = False
            return _State(read_cache(self.cache_path), self._regenerate)
        return state

    def _calls(self, state: _State) -> tuple[list[Call], int]:
        """What is to be asked for the first time, and how many are there already."""
        calls: list[Call] = []
        there = 0
        for source in self.corpus.sources.values():
            for style in self.styles:
                version = self._versions[style]
                key = self._writer.key(source.digest, version)
                if state.has(key, source.digest, style):
                    there += 1
                    continue
                written = Written.begin(key, style, source, self._writer, version)
                calls.append(Call(written, source, prompts.first(style, source.text), 0))
        return (calls[: self._limit] if self._limit else calls), there

    def _outside(self, state: _State) -> list[Call]:
        """Questions of today's keys that missed their band, and have not been asked for again."""
        calls = []
        for key, written in state.every().items():
            source = self.corpus.sources.get(written.digest)
            if key not in self._current or source is None or written.style not in self.styles:
                continue
            if len(written.answers) != 1 or (key, 1) in state.failed:
                continue
            wrong = first_look(written, source, self._bands, self._settings.max_words)
            if wrong is not None and wrong.reason == BAND:
                said = str(written.answers[0].get("said") or written.text)
                share, band = overlap(written.text, source.text), self._bands[written.style]
                messages = prompts.again(written.style, source.text, written.text, share=share, band=band, said=said)
                calls.append(Call(written, source, messages, 1))
        return calls

    async def _ask(
        self,
        model: ChatModel,
        journal: Journal,
        state: _State,
        calls: list[Call],
        outcome: Outcome,
        label: str,
    ) -> None:
        if not calls:
            return
        limit = self._llm.max_tokens_total
        if limit and outcome.prompt_tokens + outcome.completion_tokens >= limit:
            outcome.not_asked += len(calls)
            return

        async def ask(call: Call) -> Answer:
            answer = await model.ask(
                call.messages,
                schema=prompts.SCHEMA,
                temperature=TEMPERATURE,
                max_tokens=self._settings.max_answer_tokens,
            )
            self._keep(call, answer, journal, state)
            return answer

        def on_result(result: Result[Call, Answer]) -> None:
            if result.error is not None:
                reason, detail = result.error.reason, str(result.error)
                state.fail(result.request, reason, detail)
                if reason in _KEPT:
                    line = {**result.request.written.head(), "attempt": result.request.attempt}
                    self._note(journal, {**line, "failed": [reason, detail]})

        tally = await run_calls(
            calls,
            ask,
            concurrency=self._llm.concurrency,
            per_minute=self._llm.requests_per_minute,
            retries=self._llm.retries,
            max_wait_s=self._llm.max_wait_s,
            token_limit=limit - outcome.prompt_tokens - outcome.completion_tokens if limit else 0,
            on_result=on_result,
            progress=self._progress,
            label=label,
            estimate=lambda call: call.expected(self._settings.max_answer_tokens),
            backoff_s=self._llm.backoff_s,
        )
        if calls[0].attempt:
            outcome.second += len(calls) - tally.not_asked
        outcome.not_asked += tally.not_asked
        outcome.retries += tally.retries
        outcome.busy += tally.busy
        outcome.prompt_tokens += tally.prompt_tokens
        outcome.completion_tokens += tally.completion_tokens
        lowest = [rate for rate in (outcome.lowest_rate, tally.lowest_rate) if rate is not None]
        outcome.lowest_rate = min(lowest, default=None)

    def _keep(self, call: Call, answer: Answer, journal: Journal, state: _State) -> None:
        """Writes down an answer that was paid for, whatever it says.

        Raises:
            Unparsable, Permanent, Refused: there is no question in it.
        """
        entry: dict[str, Any] = {
            "question": "",
            "finish_reason": answer.finish_reason,
            "structured": answer.structured,
            "answered_by": answer.model,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        line = {**call.written.head(), "attempt": call.attempt}
        cost = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
        try:
            question = parse_object(answer.text, "question")["question"]
            if not isinstance(question, str):
                raise Unparsable(f"the question is no text: {question!r:.80}")
        except Unparsable as error:
            if looks_refused(answer.text):
                raise Refused(f"the model refused: {' '.join(answer.text.split())[:120]}", **cost) from None
            state.unparsed[call.written.key, call.attempt] += 1
            self._note(journal, {**line, "unparsed": {**entry, "question": None, "said": answer.text[:500]}})
            if state.unparsed[call.written.key, call.attempt] >= MOST_UNPARSED:
                raise _Unparsable(str(error), **cost) from None
            raise Unparsable(str(error), **cost) from None
        question = " ".join(question.split())
        if looks_refused(question):
            raise Refused(f"the model refused: {question[:120]}", **cost)
        entry["question"] = question
        self._note(journal, {**line, "answer": entry})
        state.take(call.written, call.attempt, entry)

    def _note(self, journal: Journal, line: dict[str, Any]) -> None:
        if not self._headed:
            journal.append({"work": {"regenerate": self._regenerate}})
            self._headed = True
        journal.append(line)

    def _build_round_trip(self) -> None:
        from kbeval.testset.generation.round_trip import round_trip

        with self._progress.task("indexing for the round trip"):
            self._found = round_trip(
                list(self.corpus.documents.values()),
                k=self._settings.round_trip_k,
                cut=self._cut,
            )

    def _finish(self, state: _State, journal: Journal, outcome: Outcome) -> None:
        before = (state.cache.questions, state.cache.rejected)
        outcome.built = self._write(state)
        outcome.changed = (outcome.built.questions, outcome.built.rejected) != before
        taken = {question.provenance.get("key") for question in outcome.built.questions}
        outcome.written_now = sum(key in taken for key in state.fresh)
        journal.clear()

    def _write(self, state: _State) -> Built:
        """Puts what is known into the cache's file, as it is by now: somebody may have added to it meanwhile."""
        cache = read_cache(self.cache_path)
        cache.written |= state.fresh
        if self._round_trip and self._found is None and cache.written:
            self._build_round_trip()
        built = build(
            cache,
            self.corpus,
            current=self._current,
            bands=self._bands,
            max_words=self._settings.max_words,
            found=self._found,
        )
        if (built.questions, built.rejected) != (cache.questions, cache.rejected):
            write_questions(self.cache_path, built.questions, built.rejected)
        return built


class _Unparsable(Permanent):
    """No question in any of its answers: to be counted as such, and not asked again."""

    reason = "unparsable"


class _State:
    """What is known while the work goes on: the cache, and what has been written since.

    Attributes:
        fresh: what this work has had written, by key.
        failed: its calls that finally failed, by key and attempt.
        unparsed: answers without a question, by key and attempt.
        spent: tokens that the journal's answers have cost, sent and received.
        another_work: whether the journal is of a work that wanted something else.
    """

    def __init__(self, cache: Cache, regenerate: bool) -> None:
        self.cache = cache
        self._regenerate = regenerate
        self.fresh: dict[str, Written] = {}
        self.failed: dict[tuple[str, int], tuple[str, str, str]] = {}
        self.unparsed: Counter[tuple[str, int]] = Counter()
        self.spent = (0, 0)
        self.another_work = False

    def has(self, key: str, digest: str, style: str) -> bool:
        """Whether there is an answer, or none to be had in this work."""
        if key in self.fresh or (key, 0) in self.failed or (digest, style) in self.cache.covered:
            return True
        return not self._regenerate and key in self.cache.written

    def every(self) -> dict[str, Written]:
        """All that was written, this work's first."""
        return {**self.fresh, **{k: w for k, w in self.cache.written.items() if k not in self.fresh}}

    def take(self, written: Written, attempt: int, answer: dict[str, Any]) -> None:
        """Adds an answer: the first to a key, or the one after it."""
        known = self.fresh.get(written.key) or (self.cache.written.get(written.key) if attempt else None)
        answers = known.answers[:attempt] if known else []
        written.answers = [*answers, answer]
        self.fresh[written.key] = written

    def fail(self, call: Call, reason: str, detail: str) -> None:
        """Notes that a call has finally failed."""
        self.failed[call.written.key, call.attempt] = (call.label, reason, detail)

    def replay(self, lines: Iterable[dict[str, Any]]) -> None:
        """Takes up a journal. Lines that say nothing to this version are passed over."""
        for line in lines:
            if isinstance(work := line.get("work"), dict):
                self.another_work = bool(work.get("regenerate")) != self._regenerate
                continue
            try:
                written, attempt = Written.from_head(line), int(line["attempt"])
                if "answer" in line:
                    self.take(written, attempt, dict(line["answer"]))
                    self._spend(line["answer"])
                elif "unparsed" in line:
                    self._spend(line["unparsed"])
                    self.unparsed[written.key, attempt] += 1
                elif "failed" in line:
                    reason, detail = line["failed"]
                    label = f"{next(iter(written.chunks), '?')} {written.style}"
                    self.failed[written.key, attempt] = (label, str(reason), str(detail))
            except (KeyError, TypeError, ValueError):
                continue

    def _spend(self, answer: dict[str, Any]) -> None:
        prompt, written = self.spent
        self.spent = prompt + int(answer["prompt_tokens"]), written + int(answer["completion_tokens"])


def _checked_styles(styles: list[str]) -> list[str]:
    if unknown := [style for style in styles if style not in prompts.STYLES]:
        raise KbevalError(f"--styles: expected some of {', '.join(prompts.STYLES)}, found {unknown[0]!r}")
    if not styles:
        raise KbevalError(f"--styles: expected some of {', '.join(prompts.STYLES)}, found none")
    return [style for style in prompts.STYLES if style in styles]


def _with_hint(error: Fatal, kept: int) -> Fatal:
    if not kept:
        return error
    return Fatal(f"{error}; {kept} answers are kept, and the next `kbeval generate` goes on from there")
