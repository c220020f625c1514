"""Runs engines over a data set: opens what they share, builds them, asks them, and closes everything again."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from kbeval.engines.base import BuildContext, added
from kbeval.engines.metering import metering
from kbeval.errors import KbevalError
from kbeval.formats.dataset import corpus_hash, queries_hash
from kbeval.formats.ids import trec_ids
from kbeval.running.answers import Answers
from kbeval.running.elsewhere import Batches, Recipe, new_session
from kbeval.running.policy import Policy
from kbeval.running.runner import ask_all
from kbeval.running.sample import sampled
from kbeval.running.save import run_paths, save
from kbeval.running.threads import hanging
from kbeval.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kbeval.engines.base import Engine, Estimate
    from kbeval.engines.registry import EnginePlan
    from kbeval.formats.dataset import Dataset
    from kbeval.model import LabelledQuery
    from kbeval.progress import Progress
    from kbeval.running.runner import Outcomes
    from kbeval.workers import Workers


CLOSING_S = 5.0
"""How long an engine may take to close while a call that was given up is still in it."""


@dataclass(frozen=True)
class Finished:
    """A run that was written.

    Attributes:
        facts: the engine's own counts.
        journal: the file that holds its answers, where some question has none yet.
    """

    name: str
    path: Path
    outcomes: Outcomes
    facts: Mapping[str, int] = field(default_factory=dict)
    journal: Path | None = None
    policy: Policy = Policy()  # noqa: RUF009 - frozen


class SharedStore:
    """The evaluation database, opened when the first engine asks for it, with the documents loaded."""

    def __init__(self, stack: ExitStack, dsn: str | None, dataset: Dataset, progress: Progress) -> None:
        self._stack = stack
        self._dsn = dsn
        self._dataset = dataset
        self._progress = progress
        self.opened: Store | None = None
        self.seconds = 0.0
        """How long it took to open: no engine's time."""

    def __call__(self) -> Store:
        if self.opened is None:
            began = time.perf_counter()
            with self._progress.task("starting the evaluation database"):
                store = self._stack.enter_context(open_store(self._dsn))
            documents = self._dataset.documents
            with self._progress.task("loading documents", total=len(documents)) as advance:
                advance(store.load_documents(documents))
            self.opened = store
            self.seconds = time.perf_counter() - began
        return self.opened


def run_engines(
    plans: Sequence[EnginePlan],
    dataset: Dataset,
    folder: Path,
    *,
    root: Path,
    k: int,
    level: int,
    dsn: str | None,
    progress: Progress,
    escape_ids: bool = False,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    say: Callable[[str], None] = lambda _: None,
    workers: Workers | None = None,
) -> list[Finished]:
    """Builds each engine, asks it every query of the data set, and writes its run into ``folder``.

    Queries that are in no metric are asked too, last: how sure an engine is of what the corpus does not answer is
    worth knowing, and what it finds for a question without labels is what there is to judge.

    The database is dropped when this returns or raises, also on an interruption. Answers are kept beside the run until
    every question has one.

    Args:
        say: told what a paid engine is expected to cost, before it starts.
        workers: other processes that embed and are asked, in this one's place.

    Raises:
        KbevalError: among others, ``policy.max_cost`` is below what building an engine will cost, or cannot be kept.
    """
    everything = dataset.asked
    asked = everything if policy.limit is None else sampled(everything, policy.limit)
    for ids in ([document.id for document in dataset.documents], [query.id for query in asked]):
        # Before anything is asked: what an engine may return must be writable, or escaped.
        trec_ids(pl.Series(ids, dtype=pl.String), escape=escape_ids)
    documents_hash, questions_hash = corpus_hash(dataset.documents), queries_hash(everything)
    known = {document.id for document in dataset.documents}
    _spare_what_is_read(plans, folder, root)
    for plan in plans if workers else ():
        if getattr(plan.settings, "search", None) == "hnsw":
            raise KbevalError(
                f'engine {plan.name}: expected search = "exact" with other processes, found "hnsw": what that loses is '
                f"measured where the questions are answered"
            )
    estimates = [_estimate(plan, dataset, asked, policy, say) for plan in plans]
    finished = []
    with ExitStack() as stack:
        store = SharedStore(stack, dsn, dataset, progress)
        context = BuildContext(documents=dataset.documents, store=store, progress=progress, root=root, workers=workers)
        session = new_session()
        for plan, estimate in zip(plans, estimates, strict=True):
            with ExitStack() as own:
                # Before anything is paid for: whether all that is to be written can be.
                for path in run_paths(folder, plan.name):
                    if path.is_dir():
                        raise KbevalError(f"{path}: expected a file or nothing, found a folder")
                answers = own.enter_context(Answers(Answers.path_of(folder, plan.name), paid=estimate is not None))
                began, others = time.perf_counter(), store.seconds
                with metering() as meter:
                    engine = plan.build(context)
                building_s = time.perf_counter() - began - (store.seconds - others)
                own.callback(_close, engine)
                answers.are_of(engine, documents_hash, k)
                elsewhere = _elsewhere(workers, session, plan, context, k, policy) if workers else None
                outcomes = ask_all(
                    engine,
                    plan.name,
                    asked,
                    k,
                    known_documents=known,
                    progress=progress,
                    policy=policy,
                    answers=answers,
                    expected=estimate.query if estimate else (),
                    spent=policy.cost(meter.usage),
                    elsewhere=elsewhere,
                )
                outcomes = replace(
                    outcomes,
                    building_s=building_s,
                    building=added(meter.usage),
                    whole=len(everything) if len(asked) < len(everything) else None,
                )
                try:
                    path = save(
                        folder,
                        engine,
                        outcomes,
                        k=k if engine.depth is None else min(k, engine.depth),
                        level=level,
                        corpus_hash=documents_hash,
                        queries_hash=questions_hash,
                        store=store.opened.describe() if store.opened else None,
                        escape_ids=escape_ids,
                        policy=policy,
                    )
                except KbevalError as error:
                    raise KbevalError(
                        f"engine {plan.name}: {error}; its answers are kept in {answers.path}: --resume goes on with "
                        "them"
                    ) from error
                whole = not outcomes.errors
                if whole:
                    answers.forget()
                facts = engine.counts()
            finished.append(Finished(plan.name, path, outcomes, facts, None if whole else answers.path, policy))
    return finished


def _elsewhere(
    workers: Workers, session: str, plan: EnginePlan, context: BuildContext, k: int, policy: Policy
) -> Callable[[float | None], Batches]:
    """Asks the engine in other processes, which find the documents, and what was built of them, in the database."""
    store = context.store()
    store.publish_corpus(context.documents)

    def batches(timeout_s: float | None) -> Batches:
        root = plan.root or context.root
        return Batches(workers, Recipe(session, plan, root, store.attachment(), k, policy, timeout_s))

    return batches


def _estimate(
    plan: EnginePlan, dataset: Dataset, asked: Sequence[LabelledQuery], policy: Policy, say: Callable[[str], None]
) -> Estimate | None:
    """What a paid engine will use, said before anything is spent; None for one that is not known to be paid."""
    estimator = getattr(plan.engine_class, "estimate", None)
    estimate: Estimate | None = estimator(plan.settings, dataset.documents, asked) if estimator else None
    if estimate is None:
        return None
    queries = [usage.times(len(asked)) for usage in estimate.query]
    for purpose, usages in (("to build it", estimate.building), (f"for {len(asked)} questions", queries)):
        for usage in usages:
            price = "" if policy.unpriced([usage]) else f", at [prices] {policy.cost([usage]):.4g}"
            say(f"{plan.name}: {purpose}, about {usage.in_words()}{price}")
    everything = [*estimate.building, *queries]
    if policy.max_cost is not None:
        if missing := policy.unpriced(everything):
            raise KbevalError(
                f"--max-cost: expected a price of {missing[0]}, which engine {plan.name} uses, found none: "
                f'add [prices."{missing[0]}"] to the settings'
            )
        building, all_of_it = policy.cost(estimate.building), policy.cost(everything)
        if building > policy.max_cost:
            raise KbevalError(
                f"--max-cost {policy.max_cost:g}: expected enough to build engine {plan.name}, about {building:.4g}"
            )
        if all_of_it > policy.max_cost:
            say(f"{plan.name}: --max-cost {policy.max_cost:g} is less than the estimate: the run may end early")
    return estimate


def _close(engine: Engine) -> None:
    """Closes an engine; not for longer than a moment where a call is still in it, which may hold what closing needs."""
    if not hanging():
        engine.close()
        return

    def close() -> None:
        with suppress(Exception):  # whatever it says, it was broken before
            engine.close()

    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    thread.join(CLOSING_S)


def _spare_what_is_read(plans: Sequence[EnginePlan], folder: Path, root: Path) -> None:
    """Refuses to write a run over a file that an engine reads: one that replays a run, say."""
    written = {path: plan.name for plan in plans for path in run_paths(folder, plan.name)}
    for plan in plans:
        for file in plan.files(root):
            for path, name in written.items():
                if file.resolve() == path.resolve():
                    raise KbevalError(
                        f"engine {plan.name}: it reads {file}, which the run named {name!r} would replace: "
                        f"give another name (--engine NAME=SPEC) or another folder (--out)"
                    )
