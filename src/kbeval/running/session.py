"""Runs engines over a data set: opens what they share, builds them, asks them, and closes everything again."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from kbeval.engines.base import BuildContext
from kbeval.errors import KbevalError
from kbeval.formats.dataset import corpus_hash, queries_hash
from kbeval.formats.ids import trec_ids
from kbeval.running.runner import ask_all
from kbeval.running.save import run_paths, save
from kbeval.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kbeval.engines.registry import EnginePlan
    from kbeval.formats.dataset import Dataset
    from kbeval.progress import Progress
    from kbeval.running.runner import Outcomes


@dataclass(frozen=True)
class Finished:
    """A run that was written; ``facts`` are the engine's own counts."""

    name: str
    path: Path
    outcomes: Outcomes
    facts: Mapping[str, int] = field(default_factory=dict)


class SharedStore:
    """The evaluation database, opened when the first engine asks for it, with the documents loaded."""

    def __init__(self, stack: ExitStack, dsn: str | None, dataset: Dataset, progress: Progress) -> None:
        self._stack = stack
        self._dsn = dsn
        self._dataset = dataset
        self._progress = progress
        self.opened: Store | None = None

    def __call__(self) -> Store:
        if self.opened is None:
            with self._progress.task("starting the evaluation database"):
                store = self._stack.enter_context(open_store(self._dsn))
            documents = self._dataset.documents
            with self._progress.task("loading documents", total=len(documents)) as advance:
                advance(store.load_documents(documents))
            self.opened = store
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
) -> list[Finished]:
    """Builds each engine, asks it every query of the data set, and writes its run into ``folder``.

    Queries that are in no metric are asked too, last: how sure an engine is of what the corpus does not answer is
    worth knowing, and what it finds for a question without labels is what there is to judge.

    The database is dropped when this returns or raises, also on an interruption.
    """
    asked = dataset.asked
    for ids in ([document.id for document in dataset.documents], [query.id for query in asked]):
        # Before anything is asked: what an engine may return must be writable, or escaped.
        trec_ids(pl.Series(ids, dtype=pl.String), escape=escape_ids)
    documents_hash, questions_hash = corpus_hash(dataset.documents), queries_hash(asked)
    known = {document.id for document in dataset.documents}
    _spare_what_is_read(plans, folder, root)
    finished = []
    with ExitStack() as stack:
        store = SharedStore(stack, dsn, dataset, progress)
        context = BuildContext(documents=dataset.documents, store=store, progress=progress, root=root)
        for plan in plans:
            with ExitStack() as own:
                engine = plan.build(context)
                own.callback(engine.close)
                outcomes = ask_all(engine, plan.name, asked, k, known_documents=known, progress=progress)
                path = save(
                    folder,
                    engine,
                    outcomes,
                    k=k,
                    level=level,
                    corpus_hash=documents_hash,
                    queries_hash=questions_hash,
                    store=store.opened.describe() if store.opened else None,
                    escape_ids=escape_ids,
                )
                facts = engine.counts()
            finished.append(Finished(plan.name, path, outcomes, facts))
    return finished


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
