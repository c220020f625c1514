"""Has a model grade what runs found, twice in different words, and turns its votes into labels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from kbeval.llm.calls import run_calls
from kbeval.llm.client import estimated_tokens
from kbeval.llm.errors import Refused
from kbeval.model import Label
from kbeval.testset.judge_prompts import SCHEMA, WORDINGS, ask_again, ask_for_grade
from kbeval.testset.judgments import confidence_of, grade_of
from kbeval.testset.votes import Vote, as_entry, read_vote, refused_vote, vote_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kbeval.llm.calls import Result, Tally
    from kbeval.llm.client import Answer, ChatModel
    from kbeval.llm.journal import Journal
    from kbeval.model import Document, Question
    from kbeval.progress import Progress
    from kbeval.testset.excerpts import Excerpt, Excerpts
    from kbeval.testset.judge_prompts import Message, Wording
    from kbeval.testset.pool import Candidate
    from kbeval.testset.votes import Judge

    Pair = tuple[str, str]

ANSWER_TOKENS = 45
"""About what an answer comes to: for estimates."""


class Again(Enum):
    """Which votes are asked for although they are known."""

    NOTHING = "nothing"
    UNPARSED = "unparsed"
    EVERYTHING = "everything"


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote that is wanted: a wording for a pair."""

    key: str
    wording: Wording
    question: Question
    document: Document
    excerpt: Excerpt

    def messages(self) -> list[Message]:
        """What is sent. Made when it is needed: thousands of them would be all documents many times over."""
        return ask_for_grade(self.wording, self.question.text, self.document.title, self.excerpt)


@dataclass(frozen=True, slots=True)
class Case:
    """A pair to be judged, with its ballots in the order of the wordings."""

    candidate: Candidate
    ballots: tuple[Ballot, ...]

    @property
    def pair(self) -> Pair:
        """The question's and the document's id."""
        return self.candidate.query, self.candidate.document


@dataclass(frozen=True, slots=True)
class Docket:
    """Everything that is to be judged, and what is left out of it.

    Attributes:
        cases: in the order in which they are asked.
        by_people: pairs left out because a person has labelled them.
        absent: documents that were returned and are not in the corpus.
        textless: documents without a title and without text: there is nothing to judge.
        excerpts: pairs of which an excerpt is shown and not the whole document.
    """

    cases: Sequence[Case]
    by_people: int
    absent: tuple[str, ...]
    textless: tuple[str, ...]
    excerpts: int


def make_docket(
    candidates: Iterable[Candidate],
    questions: Iterable[Question],
    documents: Mapping[str, Document],
    labels: Iterable[Label],
    judge: Judge,
    *,
    votes: int,
    excerpts: Excerpts,
    include_human: bool = False,
) -> Docket:
    """Puts the candidates before the judge.

    Args:
        candidates: the pool.
        questions: the test set, unanswerable ones included: that a model finds an answer is worth knowing.
        documents: the corpus by id.
        labels: those that there are: what a person has decided is not asked, unless ``include_human``.
        votes: how many wordings are asked.
        excerpts: picks what is shown of long documents.
    """
    texts = {question.id: question for question in questions}
    decided = set() if include_human else {(label.query, label.document) for label in labels if label.source == "human"}
    cases: list[Case] = []
    absent, textless = set(), set()
    by_people = shortened = 0
    for candidate in candidates:
        document = documents.get(candidate.document)
        if document is None:
            absent.add(candidate.document)
        elif not document.title.strip() and not document.text.strip():
            textless.add(candidate.document)
        elif (candidate.query, candidate.document) in decided:
            by_people += 1
        else:
            question = texts[candidate.query]
            first = {*question.gold_chunks.values(), *([candidate.passage] if candidate.passage else [])}
            excerpt = excerpts.of(document, question.text, first)
            shortened += not excerpt.whole
            ballots = tuple(
                Ballot(vote_key(judge, wording, question.text, document, excerpt), wording, question, document, excerpt)
                for wording in WORDINGS[:votes]
            )
            cases.append(Case(candidate, ballots))
    return Docket(cases, by_people, tuple(sorted(absent)), tuple(sorted(textless)), shortened)


def unasked(
    docket: Docket,
    votes: Mapping[str, Vote],
    *,
    only: Collection[str] | None = None,
    limit: int | None = None,
    again: Again = Again.NOTHING,
) -> list[Ballot]:
    """The ballots that have to be paid for, each once.

    Args:
        votes: what is known, by key.
        only: the ids of the questions to ask about; all without it.
        limit: how many pairs are asked about at most, beyond those that cost nothing.
        again: what of the known is asked for again.
    """

    def missing(ballot: Ballot) -> bool:
        vote = votes.get(ballot.key)
        if vote is None or not vote.final:
            return True
        return again is Again.EVERYTHING or (again is Again.UNPARSED and vote.grade is None)

    wanted: dict[str, Ballot] = {}
    pairs = 0
    for case in docket.cases:
        if only is not None and case.candidate.query not in only:
            continue
        open_ballots = [ballot for ballot in case.ballots if missing(ballot)]
        if not open_ballots:
            continue
        if limit is not None and pairs >= limit:
            break
        pairs += 1
        wanted.update((ballot.key, ballot) for ballot in open_ballots)
    return list(wanted.values())


def estimate(ballots: Iterable[Ballot]) -> int:
    """About how many tokens asking them comes to, answers included."""
    return sum(_prompt_tokens(ballot.messages()) + ANSWER_TOKENS for ballot in ballots)


def _prompt_tokens(messages: Iterable[Message]) -> int:
    return sum(estimated_tokens(message["content"]) for message in messages)


@dataclass(slots=True)
class Spent:
    """What asking came to.

    Attributes:
        calls: answers that were paid for, unreadable ones included.
        failed: votes for which no answer could be had.
        reasons: how often each kind of failure was the end of a vote.
        examples: one failure's words for each kind.
        not_asked: votes left when the token limit was reached.
        again: answers that could not be read, and were asked for again.
        busy, lowest_rate, retries: how the server behaved, see ``llm.calls.Tally``.
    """

    calls: int = 0
    failed: int = 0
    not_asked: int = 0
    again: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    busy: int = 0
    retries: int = 0
    lowest_rate: float | None = None
    reasons: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, tally: Tally) -> None:
        """Adds what a schedule came to."""
        self.calls += tally.answered
        self.failed += tally.failed
        self.not_asked += tally.not_asked
        self.prompt_tokens += tally.prompt_tokens
        self.completion_tokens += tally.completion_tokens
        self.busy += tally.busy
        self.retries += sum(tally.retries.values())
        rates = [rate for rate in (self.lowest_rate, tally.lowest_rate) if rate is not None]
        self.lowest_rate = min(rates, default=None)
        for reason, count in tally.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count


async def ask_votes(
    ballots: Sequence[Ballot],
    model: ChatModel,
    judge: Judge,
    journal: Journal,
    votes: dict[str, Vote],
    *,
    fresh: bool = False,
    concurrency: int = 8,
    per_minute: float = 0,
    retries: int = 5,
    token_limit: int = 0,
    backoff_s: float = 1.0,
    max_wait_s: float = 900.0,
    progress: Progress | None = None,
) -> Spent:
    """Asks for votes, writes each answer to the journal as it arrives, and puts it into ``votes``.

    An answer that cannot be read is asked for again with a reminder, ``ATTEMPTS`` times in all; after that, and after
    a refusal, the vote stands without a grade.

    Args:
        fresh: what ``votes`` holds is not built upon.
        token_limit: what may be spent; 0 for no limit.
        concurrency, per_minute, retries, backoff_s, max_wait_s: as ``run_calls`` takes them.

    Raises:
        Fatal: no call can go well (a wrong key, say). What was answered until then is in the journal.
    """
    spent = Spent()
    before: dict[str, Vote] = {} if fresh else {b.key: votes[b.key] for b in ballots if b.key in votes}

    def attempt_of(ballot: Ballot) -> int:
        return before[ballot.key].attempt + 1 if ballot.key in before else 1

    def messages_of(ballot: Ballot) -> list[Message]:
        messages = ballot.messages()
        return ask_again(messages, before[ballot.key].answer) if ballot.key in before else messages

    async def ask(ballot: Ballot) -> Vote:
        try:
            answer: Answer = await model.ask(
                messages_of(ballot),
                schema=SCHEMA,
                temperature=judge.temperature,
                logprobs=True,
                max_tokens=judge.max_answer_tokens,
            )
        except Refused as error:
            attempt = attempt_of(ballot)
            return refused_vote(ballot.key, str(error), attempt, error.prompt_tokens, error.completion_tokens)
        return read_vote(ballot.key, answer, attempt_of(ballot))

    def record(result: Result[Ballot, Vote]) -> None:
        vote, ballot = result.answer, result.request
        if vote is not None:
            journal.append(
                as_entry(
                    vote,
                    query=ballot.question.id,
                    document=ballot.document.id,
                    wording=ballot.wording.version,
                    model=judge.model,
                )
            )
            votes[vote.key] = vote
            unread[vote.key] = vote
        elif result.error is not None:
            spent.examples.setdefault(result.error.reason, str(result.error))

    def most(ballot: Ballot) -> int:
        return _prompt_tokens(messages_of(ballot)) + judge.max_answer_tokens

    left = list(ballots)
    label = "judging"
    while left:
        unread: dict[str, Vote] = {}
        remaining = token_limit - spent.prompt_tokens - spent.completion_tokens
        if token_limit and remaining <= 0:
            spent.not_asked += len(left)
            break
        tally = await run_calls(
            left,
            ask,
            concurrency=concurrency,
            per_minute=per_minute,
            retries=retries,
            backoff_s=backoff_s,
            max_wait_s=max_wait_s,
            token_limit=remaining if token_limit else 0,
            on_result=record,
            progress=progress,
            label=label,
            estimate=most,
        )
        spent.add(tally)
        left = [ballot for ballot in left if ballot.key in unread and not unread[ballot.key].final]
        before = {key: vote for key, vote in unread.items() if not vote.final}
        spent.again += len(left)
        label = "asking again for answers that could not be read"
    return spent


def make_labels(cases: Iterable[Case], votes: Mapping[str, Vote], judge: Judge, old: Iterable[Label]) -> list[Label]:
    """The labels of all cases whose votes are complete, in the cases' order.

    The names of runs that an older label of the same pair held are kept: they found it too.
    """
    before = {label.key: label for label in old}
    labels = []
    for case in cases:
        cast = [votes[ballot.key] for ballot in case.ballots if ballot.key in votes]
        if len(cast) < len(case.ballots) or not all(vote.final for vote in cast):
            continue
        grades = tuple(vote.grade for vote in cast)
        label = Label(
            query=case.candidate.query,
            document=case.candidate.document,
            grade=grade_of(grades),
            source="llm",
            by=judge.model,
            confidence=_rounded(confidence_of(grades, [vote.probability for vote in cast])),
            votes=grades,
            why=_why(cast),
            when=max(vote.when for vote in cast),
        )
        known = before[label.key].runs if label.key in before else ()
        labels.append(replace(label, runs=tuple(sorted({*known, *case.candidate.ranks}))))
    return labels


def _rounded(confidence: float | None) -> float | None:
    return None if confidence is None else round(confidence, 4)


def _why(votes: Sequence[Vote]) -> str:
    """The model's reasons: one where the votes agree, each with its grade where they do not."""
    if all(vote.grade is None for vote in votes):
        return f"could not be read as a grade: {votes[-1].answer or 'an empty answer'}"
    if len({vote.grade for vote in votes}) == 1:
        return next((vote.reason for vote in votes if vote.reason), "")
    return " | ".join(
        f"{'unreadable' if vote.grade is None else vote.grade}: {vote.reason or vote.answer}" for vote in votes
    )
