"""Picks the corpus provider that the settings name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kbeval.corpus.files import FilesProvider
from kbeval.errors import KbevalError
from kbeval.formats.beir import read_documents
from kbeval.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kbeval.corpus.base import CorpusProvider
    from kbeval.model import Document


class BeirProvider:
    """The documents of a BEIR folder, or of a ``corpus.jsonl`` itself."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_documents(self) -> Iterable[Document]:
        """The documents in the order of the file."""
        return read_documents(self._path / "corpus.jsonl" if self._path.is_dir() else self._path)


def provider(name: str, path: Path) -> CorpusProvider:
    """The provider called ``name`` over ``path``: files, beir, or ``package.module:Class``.

    Raises:
        KbevalError: there is none of that name, or it cannot be loaded.
    """
    if name == "files":
        return FilesProvider(path)
    if name == "beir":
        return BeirProvider(path)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise KbevalError(f"[corpus] provider: expected files, beir or package.module:Class, found {name!r}")
    try:
        made: CorpusProvider = getattr(importlib.import_module(module), attribute)(path)
    except Exception as error:
        raise KbevalError(f"[corpus] provider {name}: cannot be loaded: {one_line(error)}") from error
    return made
