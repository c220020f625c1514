"""A whole session of judging: from runs to labels and the pool's record."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbeval.corpus.chunking import cutter, text_hash
from kbeval.errors import KbevalError
from kbeval.evaluation.pooling import run_hash
from kbeval.formats.label_journal import LabelJournal
from kbeval.formats.labels import read_labels
from kbeval.formats.pool import PoolRecord, pool_path, read_pools, with_pool, write_pools
from kbeval.formats.questions import read_questions
from kbeval.llm.client import ChatModel
from kbeval.llm.journal import Journal
from kbeval.testset.excerpts import Excerpts
from kbeval.testset.judge import Again, Spent, ask_votes, estimate, make_docket, make_labels, unasked
from kbeval.testset.judgments import answered_after_all, low_confidence, unparsed
from kbeval.testset.labels import JUDGED_LEVEL, judged
from kbeval.testset.pool import pool_candidates
from kbeval.testset.project import project_chunks, project_documents
from kbeval.testset.twins import twin_candidates
from kbeval.testset.votes import Judge, now, replay

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from kbeval.config import Project
    from kbeval.model import Document, Label, Question, Run
    from kbeval.progress import Progress
    from kbeval.testset.judge import Ballot, Docket
    from kbeval.testset.pool import Candidate
    from kbeval.testset.votes import Vote


@dataclass(frozen=True, slots=True)
class Files:
    """Where a project keeps what belongs to its labels: beside them."""

    labels: Path
    votes: Path
    pool: Path

    @classmethod
    def of(cls, project: Project) -> Files:
        """The files of a project."""
        labels = project.path(project.settings.test_set.labels)
        return cls(labels, labels.with_name(f"{labels.stem}.votes.jsonl"), pool_path(labels))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, before anything is asked.

    Attributes:
        candidates: the whole pool.
        docket: what of it goes before the judge.
        ballots: the votes that have to be paid for.
        known: how many votes of the docket are known.
    """

    judge: Judge
    votes_a_pair: int
    depth: int
    runs: Sequence[Run]
    questions: Sequence[Question]
    documents: Mapping[str, Document]
    candidates: Sequence[Candidate]
    docket: Docket
    ballots: Sequence[Ballot]
    known: int

    @property
    def estimated_tokens(self) -> int:
        """About what the ballots cost, answers included."""
        return estimate(self.ballots)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a session came to.

    Attributes:
        labels: the labels of this judge for the pool, those that were known before included.
        spent: what was asked.
        open_pairs: pairs of the pool that have no label of this judge (or a person) yet.
        written: the files that have changed.
        unparsed_share: of the votes behind ``labels``, the share that could not be read.
        cut_votes: of these, how many ended at the longest answer that was asked for.
        disputed: pairs of question and generated gold below the level, for a person; of all labels of the project.
        doubtful: labels of low confidence, for a person; likewise.
        found_answers: labels that find an answer to a question that has none, for a person; likewise.
        unreadable: labels without a grade that no person has decided; likewise.
        recorded: whether the pool is on record.
    """

    labels: Sequence[Label]
    spent: Spent
    open_pairs: int
    written: Sequence[Path]
    unparsed_share: float
    cut_votes: int
    disputed: Sequence[tuple[str, str]]
    doubtful: Sequence[Label]
    found_answers: Sequence[Label]
    unreadable: Sequence[Label]
    recorded: bool


def plan_judging(
    project: Project,
    runs: Sequence[Run],
    *,
    depth: int | None = None,
    votes: int | None = None,
    only: Collection[str] | None = None,
    limit: int | None = None,
    again: Again = Again.NOTHING,
    include_human: bool = False,
) -> Plan:
    """Pools the runs and finds out what has to be asked. Asks nothing, and writes nothing.

    Args:
        runs: with distinct names, ids as the corpus has them.
        depth, votes: those of ``[judge]`` where they are not given.
        only: ids of questions: nothing is asked about others.
        limit: how many pairs are asked about at most.
        again: which votes are asked for although they are known.
        include_human: also pairs that a person has labelled, so that agreement can be measured.

    Raises:
        KbevalError: a run answers no question of the test set, or ``only`` names one that is not in it.
    """
    settings, files = project.settings.judge, Files.of(project)
    judge = Judge(settings.model or project.settings.llm.model, settings.max_answer_tokens)
    depth, votes = depth or settings.depth, votes or settings.votes
    questions = read_questions(project.path(project.settings.test_set.questions))
    _check(project, runs, questions, only)
    documents = project_documents(project)
    candidates = pool_candidates(runs, questions, depth, twins=_twins(project, questions, documents))
    excerpts = Excerpts(limit=settings.max_characters, cut=cutter(project.settings.corpus))
    docket = make_docket(
        candidates,
        questions,
        documents,
        read_labels(files.labels),
        judge,
        votes=votes,
        excerpts=excerpts,
        include_human=include_human,
    )
    cast = replay(Journal.read(files.votes))
    return Plan(
        judge=judge,
        votes_a_pair=votes,
        depth=depth,
        runs=runs,
        questions=questions,
        documents=documents,
        candidates=candidates,
        docket=docket,
        ballots=unasked(docket, cast, only=only, limit=limit, again=again),
        known=sum(ballot.key in cast and cast[ballot.key].final for case in docket.cases for ballot in case.ballots),
    )


def _check(project: Project, runs: Sequence[Run], questions: Sequence[Question], only: Collection[str] | None) -> None:
    ids = {question.id for question in questions}
    cache = project.settings.test_set.questions
    if not ids:
        raise KbevalError(f"{cache}: expected at least one question, found none")
    for run in runs:
        if not ids & set(run.frame["query"].unique().to_list()):
            raise KbevalError(f"run {run.name}: expected answers to questions of {cache}, found none")
    if unknown := sorted(set(only or ()) - ids):
        raise KbevalError(f"--queries: expected ids of questions in {cache}, found {unknown[0]!r}")


def _twins(
    project: Project, questions: Sequence[Question], documents: Mapping[str, Document]
) -> dict[tuple[str, str], str | None]:
    """Near-duplicates of gold, each with the hash of the chunk that is one."""
    chunks = project_chunks(project, documents.values())
    hashes = {chunk.id: text_hash(chunk.text) for chunk in chunks}
    return {
        (twin.query, twin.document): None if twin.chunk is None else hashes[twin.chunk]
        for twin in twin_candidates(questions, chunks)
    }


def judge_pool(project: Project, plan: Plan, *, fresh: bool = False, progress: Progress | None = None) -> Outcome:
    """Asks what the plan says, and writes the votes, the labels and, where every pair has one, the pool's record.

    Args:
        fresh: the plan asks for votes that are known: what is known of them is not built upon.

    Raises:
        Fatal: no call can go well. What came in until then is kept, and has its labels.
        KbevalError: a file cannot be read or written, or another session is at work.
    """
    files, llm = Files.of(project), project.settings.llm

    async def ask() -> Spent:
        async with ChatModel(llm.base_url, plan.judge.model, llm.timeout_s, concurrency=llm.concurrency) as model:
            return await ask_votes(
                ballots,
                model,
                plan.judge,
                journal,
                votes,
                fresh=fresh,
                concurrency=llm.concurrency,
                per_minute=llm.requests_per_minute,
                retries=llm.retries,
                token_limit=llm.max_tokens_total,
                backoff_s=llm.backoff_s,
                max_wait_s=llm.max_wait_s,
                progress=progress,
            )

    spent = Spent()
    ended: BaseException | None = None
    with Journal(files.votes) as journal:
        votes = replay(journal.replay())
        # Another session may have asked between the plan and the lock.
        ballots = [b for b in plan.ballots if fresh or b.key not in votes or not votes[b.key].final]
        try:
            if ballots:
                spent = asyncio.run(ask())
        except (KbevalError, KeyboardInterrupt, SystemExit) as error:
            ended = error  # What has come in until now is worth its labels: no credit left, say, or Ctrl-C.
        before = {label.key: label for label in read_labels(files.labels)}
        labels = make_labels(plan.docket.cases, votes, plan.judge, before.values())
        changed = [label for label in labels if before.get(label.key) != label]
        everything: Sequence[Label] = list(before.values())
        written = [files.votes] if spent.calls else []
        if changed:
            # By the review's journal: whoever labels meanwhile and this session do not write over one another.
            journal_of_labels = LabelJournal(files.labels)
            journal_of_labels.append(changed)
            everything = list(journal_of_labels.fold().labels.values())
            written.append(files.labels)
        if ended is not None:
            raise ended
        outcome = _outcome(project, plan, votes, labels, everything, spent)
        if outcome.recorded and _record(files.pool, plan):
            written.append(files.pool)
    return replace(outcome, written=written)


def _outcome(
    project: Project,
    plan: Plan,
    votes: Mapping[str, Vote],
    labels: Sequence[Label],
    everything: Sequence[Label],
    spent: Spent,
) -> Outcome:
    finished = {(label.query, label.document) for label in labels}
    open_pairs = sum(case.pair not in finished for case in plan.docket.cases)
    cast = [votes[ballot.key] for case in plan.docket.cases if case.pair in finished for ballot in case.ballots]
    unread = [vote for vote in cast if vote.grade is None]
    share = len(unread) / len(cast) if cast else 0.0
    level = project.settings.test_set.level
    here = [label for label in everything if label.document in plan.documents]
    return Outcome(
        labels=labels,
        spent=spent,
        open_pairs=open_pairs,
        written=(),
        unparsed_share=share,
        cut_votes=sum(vote.cut for vote in unread),
        disputed=judged(plan.questions, here, level=level).disputed,
        doubtful=low_confidence(here),
        found_answers=answered_after_all(plan.questions, here, level or JUDGED_LEVEL),
        unreadable=unparsed(here),
        recorded=not open_pairs and share <= project.settings.judge.max_unparsed,
    )


def _record(path: Path, plan: Plan) -> bool:
    """Puts the pool on record; whether that changed the file."""
    ids = [question.id for question in plan.questions]
    record = PoolRecord(
        depth=plan.depth, when=now(), runs={run.name: run_hash(run, ids, plan.depth) for run in plan.runs}
    )
    before = read_pools(path)
    after = with_pool(before, record)
    if after == before:
        return False
    write_pools(path, after)
    return True
