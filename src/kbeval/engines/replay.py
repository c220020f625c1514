"""``run:file.trec`` engines: what some engine answered before, answered again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, ClassVar

from kbeval.engines.base import Answer, BuildContext, Engine, EngineSettings
from kbeval.errors import InputError
from kbeval.formats.beir import read_queries
from kbeval.formats.dataset import corpus_hash
from kbeval.formats.ids import unescape_id
from kbeval.formats.sidecar import Sidecar, read_sidecar, sidecar_path
from kbeval.formats.text import read_bytes
from kbeval.formats.trec import read_run, run_name
from kbeval.order import query_segments

if TYPE_CHECKING:
    from kbeval.model import LabelledQuery, Run


class ReplaySettings(EngineSettings):
    """The run file is named in the type itself: ``run:file.trec``.

    Attributes:
        file: a TREC run, gzipped or not; its sidecar is read where there is one.
        queries: a BEIR ``queries.jsonl`` with the ids that the run uses, where they are not the test set's own: a
            query is then found by its text.
        other_corpus: take a run although its sidecar says that it is about another corpus.
    """

    file: str
    queries: str | None = None
    other_corpus: bool = False

    def files(self) -> tuple[str, ...]:
        return (self.file,)


class NotAnsweredError(LookupError):
    """A query that the run file does not answer, or on which its engine failed."""


class ReplayEngine(Engine):
    """Answers from a run file, by query id."""

    type: ClassVar[str] = "run"

    def __init__(
        self, settings: ReplaySettings, run: Run, sidecar: Sidecar | None, ids_by_text: dict[str, str], content: str
    ) -> None:
        self._settings = settings
        self._content = content
        self._sidecar = sidecar
        self._ids_by_text = ids_by_text
        plain = unescape_id if sidecar is not None and sidecar.escaped_ids else str
        documents, scores = run.frame["document"], run.frame["score"]
        self._answers: dict[str, list[tuple[str, float]]] = {}
        start = 0
        for query, length in zip(*query_segments(run.frame["query"]), strict=True):
            part = slice(start, start + int(length))
            found = [plain(document) for document in documents[part]]
            self._answers[plain(query)] = list(zip(found, scores[part], strict=True))
            start += int(length)
        self.depth = sidecar.k if sidecar else None
        goes = sidecar.k if sidecar else max(map(len, self._answers.values()), default=0)
        self.notes = (
            f"It replays a run that goes {goes} documents deep: its latencies are those of looking answers up.",
        )
        if sidecar is not None:
            self.reads_text = sidecar.engine.reads_text
            self.notes += tuple(sidecar.engine.notes)

    @classmethod
    def build(cls, settings: ReplaySettings, context: BuildContext) -> ReplayEngine:
        """Reads the run, its sidecar, and the queries where they are named.

        Raises:
            InputError: a file cannot be read exactly, or the run is about another corpus.
        """
        path = context.root / settings.file
        sidecar = read_sidecar(sidecar_path(path, run_name(path)))
        if sidecar is not None and not settings.other_corpus:
            known = corpus_hash(context.documents)
            if sidecar.corpus_hash != known:
                raise InputError(
                    settings.file,
                    expected=f"a run about this corpus ({known}), or other_corpus = true",
                    found=f"one about another ({sidecar.corpus_hash})",
                )
        ids_by_text: dict[str, str] = {}
        if settings.queries is not None:
            for query in read_queries(context.root / settings.queries):
                if ids_by_text.setdefault(query.text, query.id) != query.id:
                    raise InputError(
                        settings.queries,
                        expected="queries of different texts",
                        found=f"{ids_by_text[query.text]!r} and {query.id!r} of one",
                    )
        digest = hashlib.sha256(read_bytes(path))
        if (beside := sidecar_path(path, run_name(path))).is_file():
            digest.update(hashlib.sha256(beside.read_bytes()).digest())
        return cls(settings, read_run(path), sidecar, ids_by_text, digest.hexdigest()[:32])

    def answer(self, query: LabelledQuery, k: int) -> Answer:
        """What the run holds for this query: by its id, or by its text where the settings name the run's queries.

        Raises:
            NotAnsweredError: it has no line for it, and its sidecar does not say that nothing was found; or its sidecar
                says that the engine failed on it.
        """
        return self.retrieve(query.text, k) if self._settings.queries is not None else self._look_up(query.id, k)

    def retrieve(self, query: str, k: int) -> Answer:
        """As :meth:`answer`, for a text alone."""
        if query not in self._ids_by_text:
            where = self._settings.queries
            raise NotAnsweredError(f"no query of this text in {where}" if where else "a run is looked up by query id")
        return self._look_up(self._ids_by_text[query], k)

    def configuration(self) -> dict[str, Any]:
        made_by = self._sidecar.engine.model_dump() if self._sidecar else None
        # With what the file holds: answers out of another one are not this one's.
        return {**self._settings.model_dump(mode="json"), "replayed": made_by, "content": self._content}

    def _look_up(self, query_id: str, k: int) -> Answer:
        if query_id in self._answers:
            return Answer(hits=self._answers[query_id][:k])
        if self._sidecar is not None and query_id in self._sidecar.errors:
            raise NotAnsweredError(
                f"the engine that made {self._settings.file} failed: {self._sidecar.errors[query_id]}"
            )
        if self._sidecar is not None and query_id in self._sidecar.latencies_ms:
            return Answer(hits=[])  # asked, and answered with nothing
        raise NotAnsweredError(f"{self._settings.file} has no line for query {query_id!r}")
