"""``haystack:pipeline.yaml`` engines: a Haystack pipeline, serialised as it is deployed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from kbeval.engines.base import Answer, BuildContext, Engine, EngineSettings
from kbeval.engines.python import import_from_working_folder
from kbeval.engines.results import IdSource, ask_for_documents, to_pairs
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from haystack import Pipeline

    from kbeval.engines.haystack_loading import LoadedPipeline
    from kbeval.engines.haystack_sockets import Socket

CORPUS = "corpus"
_PACKAGE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\.?")
_FIXED = (
    "No input of the pipeline gets k (k_input): it returns as many chunks as it is set to, so that fewer than k "
    "documents may be left of them."
)


class HaystackSettings(EngineSettings):
    """The pipeline is named in the type itself: ``haystack:pipeline.yaml``.

    Attributes:
        file: the serialised pipeline.
        allow: packages besides Haystack's whose components it may load (``["my_package."]``); from the working folder
            as well.
        query_input: the inputs that take the query (``embedder.text``), one or several; found where it is not said.
        documents_output: the output with the documents (``joiner.documents``); found where it is not said.
        k_input: the inputs that take the number of results (``retriever.top_k``). Without it the pipeline runs as it is
            set.
        inputs: other inputs and their values.
        documents: what its in-memory document stores hold: ``corpus`` for the documents of the test set, whole, or a
            file that ``InMemoryDocumentStore.save_to_disk`` wrote. Nothing else is ever written to a store.
        id_from: where a result names its document: ``id``, or ``meta.FIELD``.
        fetch: results asked for first, where ``k_input`` is given; doubled until they are of k documents.
    """

    file: str
    allow: tuple[str, ...] = ()
    query_input: tuple[str, ...] = ()
    documents_output: str | None = None
    k_input: tuple[str, ...] = ()
    inputs: dict[str, Any] = Field(default={})
    documents: str | None = None
    id_from: str = "id"
    fetch: int | None = Field(default=None, ge=1)

    @field_validator("allow", "query_input", "k_input", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",")] if isinstance(value, str) else value

    @field_validator("allow")
    @classmethod
    def _packages(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for package in value:
            if not _PACKAGE.fullmatch(package):
                raise ValueError(f"expected allow to name packages like my_package., found {package!r}")
        return value

    @field_validator("id_from")
    @classmethod
    def _known(cls, value: str) -> str:
        return IdSource(value).path

    @model_validator(mode="after")
    def _fit(self) -> HaystackSettings:
        if self.fetch is not None and not self.k_input:
            raise ValueError("fetch needs k_input: without it the pipeline cannot be asked for more, found none")
        return self

    def files(self) -> tuple[str, ...]:
        return (self.file,)


class HaystackEngine(Engine):
    """Runs a pipeline that was loaded from its file."""

    type: ClassVar[str] = "haystack"
    deterministic = False  # nothing is known about its components

    def __init__(self, settings: HaystackSettings, loaded: LoadedPipeline, documents: int | None) -> None:
        from kbeval.engines import haystack_sockets as sockets

        label = f"haystack:{settings.file}"
        pipeline = loaded.pipeline
        values = dict(
            zip(sockets.named_inputs(label, "inputs", settings.inputs, pipeline), settings.inputs.values(), strict=True)
        )
        self._k = sockets.named_inputs(label, "k_input", settings.k_input, pipeline)
        named = sockets.named_inputs(label, "query_input", settings.query_input, pipeline)
        self._query = named or sockets.query_inputs(label, pipeline, [*values, *self._k])
        self._output: Socket = sockets.documents_output(label, pipeline, settings.documents_output)
        sockets.check_all_given(label, pipeline, [*values, *self._k, *self._query])
        self._values = values
        self._settings = settings
        self._loaded = loaded
        self._pipeline: Pipeline = pipeline
        self._ids = IdSource(settings.id_from)
        self._documents = documents
        self._below_k: set[str] = set()
        if not self._k:
            self.notes = (_FIXED,)

    @classmethod
    def build(cls, settings: HaystackSettings, context: BuildContext) -> HaystackEngine:
        """Loads and warms up the pipeline, and fills its in-memory stores where that is asked for.

        Raises:
            InputError: a file is not what it should be, or names a class that is not allowed.
            KbevalError: Haystack cannot build it, its inputs and outputs are not clear, or its store is empty.
        """
        from kbeval.engines import haystack_documents
        from kbeval.engines.haystack_loading import load_pipeline

        if settings.allow:
            import_from_working_folder()
        own = settings.documents is not None
        loaded = load_pipeline(context.root / settings.file, settings.file, settings.allow, own_stores=own)
        try:
            count = _fill(settings, loaded, context, haystack_documents)
            return cls(settings, loaded, count)
        except BaseException:
            loaded.pipeline.close()
            raise

    def retrieve(self, query: str, k: int) -> Answer:
        """Ranks as the pipeline does.

        Raises:
            Exception: whatever one of its components raises.
        """

        def ask(count: int) -> list[tuple[str, float]]:
            return to_pairs(self._run(query, count), self._ids)

        # What its components print goes to standard error: the runner sees to that, since threads share the stream.
        answer = ask_for_documents(
            ask,
            k,
            fetch=self._settings.fetch,
            growing=bool(self._k),
            repeats_count=not self._ids.names_chunks,
        )
        if not self._k and len(answer.hits) < k:
            self._below_k.add(query)
        return answer

    def configuration(self) -> dict[str, Any]:
        """The settings, the inputs and output that were found, the SHA-256 of the file, and its components' classes."""
        return {
            **self._settings.model_dump(mode="json"),
            "query_input": [str(socket) for socket in self._query],
            "documents_output": str(self._output),
            "sha256": self._loaded.sha256,
            "components": self._loaded.components,
        }

    def counts(self) -> dict[str, int]:
        """Documents in its in-memory stores, and questions with fewer than k documents where it cannot give more."""
        counts = {} if self._documents is None else {"store_documents": self._documents}
        return counts if self._k else {**counts, "questions_below_k": len(self._below_k)}

    def close(self) -> None:
        from kbeval.engines.haystack_documents import in_memory_stores

        if self._settings.documents is not None:
            for store in in_memory_stores(self._pipeline):
                store.delete_all_documents()
        self._pipeline.close()

    def _run(self, query: str, count: int) -> Any:
        data: dict[str, dict[str, Any]] = {}
        for sockets, value in ((self._query, query), (self._k, count)):
            for socket in sockets:
                data.setdefault(socket.component, {})[socket.name] = value
        for socket, value in self._values.items():
            data.setdefault(socket.component, {})[socket.name] = value
        result = self._pipeline.run(data, include_outputs_from={self._output.component})
        try:
            return result[self._output.component][self._output.name]
        except KeyError:
            raise LookupError(f"the pipeline ended without {self._output}") from None


def _fill(settings: HaystackSettings, loaded: LoadedPipeline, context: BuildContext, documents: Any) -> int | None:
    """Fills its in-memory stores; returns how many documents each holds, or None where it has no such store."""
    label = f"haystack:{settings.file}"
    stores = documents.in_memory_stores(loaded.pipeline)
    if settings.documents is None:
        if stores and not any(store.count_documents() for store in stores):
            raise KbevalError(
                f'{label}: expected documents = "corpus", or a file that save_to_disk wrote, as its in-memory document '
                "store is serialised without any, found none"
            )
        return sum(store.count_documents() for store in stores) if stores else None
    if not stores:
        raise KbevalError(f"{label}: expected no documents, as it has no in-memory document store, found some")
    if settings.documents == CORPUS:
        if any(kind.endswith("InMemoryEmbeddingRetriever") for kind in loaded.components.values()):
            raise KbevalError(
                f"{label}: expected documents with their vectors, as it searches by vectors, found documents = "
                '"corpus", which has none: name a file that save_to_disk wrote'
            )
        return int(documents.fill(label, stores, documents.from_corpus(context.documents)))
    path = context.root / settings.documents
    return int(documents.fill(label, stores, documents.from_file(path, settings.documents)))
