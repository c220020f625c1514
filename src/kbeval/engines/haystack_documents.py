"""Fills the in-memory document stores of a pipeline file, which are serialised without their documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from haystack import Document as HaystackDocument
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy

from kbeval.errors import InputError, KbevalError
from kbeval.formats.text import read_bytes
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from haystack import Pipeline

    from kbeval.model import Document


def in_memory_stores(pipeline: Pipeline) -> list[InMemoryDocumentStore]:
    """The in-memory document stores of its components, each storage once."""
    stores: dict[str, InMemoryDocumentStore] = {}
    for _, component in pipeline.walk():
        store = getattr(component, "document_store", None)
        if isinstance(store, InMemoryDocumentStore):
            stores.setdefault(store.index, store)
    return list(stores.values())


def fill(label: str, stores: Iterable[InMemoryDocumentStore], documents: list[HaystackDocument]) -> int:
    """Writes documents into each store and returns how many there are.

    Raises:
        KbevalError: a store refuses them.
    """
    try:
        for store in stores:
            store.write_documents(documents, policy=DuplicatePolicy.FAIL)
    except Exception as error:
        raise KbevalError(f"{label}: its documents cannot be loaded: {one_line(error)}") from error
    return len(documents)


def from_corpus(documents: Iterable[Document]) -> list[HaystackDocument]:
    """Whole documents, title and text, with the fields of kbeval's in ``meta``, under kbeval's ids."""
    return [
        HaystackDocument(
            id=document.id,
            content=f"{document.title}\n{document.text}".strip(),
            meta={
                **document.metadata,
                "document_id": document.id,
                "title": document.title,
                "description": document.description,
                "filename": document.filename,
                "domain": document.domain,
            },
        )
        for document in documents
    ]


def from_file(path: Path, shown: str) -> list[HaystackDocument]:
    """The documents of a file that ``InMemoryDocumentStore.save_to_disk`` wrote: chunks, vectors and all.

    Raises:
        InputError: it is none.
    """
    expected = "a document store in JSON, as save_to_disk writes it"
    try:
        data = orjson.loads(read_bytes(path))
        return [HaystackDocument.from_dict(each) for each in data["documents"]]
    except orjson.JSONDecodeError as error:
        raise InputError(shown, line=error.lineno, expected=expected, found=error.msg) from None
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(shown, expected=expected, found=one_line(error, 120)) from None
