"""Picks the corpus provider that the settings name, and reads a corpus through it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kbeval.corpus.files import FilesProvider
from kbeval.errors import KbevalError
from kbeval.formats.beir import iter_documents
from kbeval.model import Document
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kbeval.config import CorpusSettings
    from kbeval.corpus.base import CorpusProvider

_KNOWN = "files, postgres, beir, ir_datasets or package.module:Class"
_OF_POSTGRES = ("table", "query", "columns", "dsn_env")


class BeirProvider:
    """The documents of a BEIR folder, or of a ``corpus.jsonl`` itself."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_documents(self) -> Iterable[Document]:
        """The documents in the order of the file."""
        return iter_documents(self._path / "corpus.jsonl" if self._path.is_dir() else self._path)


def provider(settings: CorpusSettings, root: Path) -> CorpusProvider:
    """The provider that ``[corpus]`` names.

    Args:
        settings: the table ``[corpus]``.
        root: the folder that its ``path`` is relative to.

    Raises:
        KbevalError: there is none of that name, it cannot be loaded, or lacks a setting.
    """
    name, path = settings.provider, root / settings.path
    if name == "postgres":
        from kbeval.corpus.postgres import DevKbCorpusProvider

        return DevKbCorpusProvider.from_settings(settings)
    if stray := [key for key in _OF_POSTGRES if getattr(settings, key)]:
        raise KbevalError(f"[corpus] {stray[0]}: expected with provider postgres, found with {name!r}")
    if name == "files":
        return FilesProvider(path)
    if name == "beir":
        return BeirProvider(path)
    if name == "ir_datasets":
        from kbeval.corpus.irds import IrDatasetsProvider

        return IrDatasetsProvider(settings.path)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise KbevalError(f"[corpus] provider: expected {_KNOWN}, found {name!r}")
    try:
        made: CorpusProvider = getattr(importlib.import_module(module), attribute)(path)
    except Exception as error:
        raise KbevalError(f"[corpus] provider {name}: cannot be loaded: {one_line(error)}") from error
    return made


def corpus_documents(settings: CorpusSettings, root: Path) -> Iterator[Document]:
    """The documents of the corpus that ``[corpus]`` describes, one at a time: of a million only the ids are kept.

    Raises:
        KbevalError: as ``provider``; the corpus cannot be read, holds an id twice, or is empty; or ``[corpus]`` asks
            for chunks that overlap by all of their words.
    """
    if settings.chunk_overlap >= settings.chunk_words:
        raise KbevalError(
            f"[corpus] chunk_overlap: expected less than chunk_words ({settings.chunk_words}), "
            f"found {settings.chunk_overlap}"
        )
    where = f"[corpus] {settings.path}"
    if settings.provider == "postgres":
        where = f"[corpus] {'query' if settings.table is None else f'table {settings.table}'}"
    seen: set[str] = set()
    for document in _read(provider(settings, root), settings.provider, seen):
        if document.id in seen:
            raise KbevalError(f"{where}: expected each document id once, found {document.id!r} twice")
        seen.add(document.id)
        yield document
    if not seen:
        raise KbevalError(f"{where}: expected at least one document, found an empty corpus")


def _read(source: CorpusProvider, name: str, seen: set[str]) -> Iterator[Document]:
    """What the provider gives, with its own errors as one line: it may be anybody's code."""
    try:
        for document in source.get_documents():
            if not isinstance(document, Document):
                raise KbevalError(
                    f"[corpus] provider {name}: expected kbeval.Document, found {type(document).__name__}"
                )
            yield document
    except KbevalError:
        raise
    except Exception as error:
        raise KbevalError(f"[corpus] provider {name}: failed after {len(seen)} documents: {one_line(error)}") from error
