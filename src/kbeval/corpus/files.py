"""Documents from a folder of Markdown files with front matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from kbeval.errors import InputError, KbevalError
from kbeval.formats.text import read_bytes
from kbeval.model import Document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FENCE = "---"


class FilesProvider:
    """Every ``*.md`` file below a folder, in byte order of its path.

    A document's id is its path below the folder, with ``/`` between folders and without ``.md``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_documents(self) -> Iterator[Document]:
        """Yields the documents.

        Raises:
            KbevalError: the folder is missing or holds no document.
            InputError: a file is not UTF-8 or its front matter is not a YAML mapping.
        """
        if not self._folder.is_dir():
            found = "a file" if self._folder.exists() else "nothing there"
            raise KbevalError(f"{self._folder}: expected a folder of Markdown documents, found {found}")
        files = {file.relative_to(self._folder).as_posix(): file for file in self._folder.rglob("*.md")}
        if not files:
            raise KbevalError(f"{self._folder}: expected at least one .md document, found an empty corpus")
        for name in sorted(files):
            yield read_document(files[name], identifier=name.removesuffix(".md"))


def read_document(file: Path, identifier: str) -> Document:
    """Reads one Markdown file: front matter (title, description, domain, anything else), then the text."""
    text = _decoded(file).replace("\r\n", "\n") + "\n"
    fields: dict[str, Any] = {}
    if text.startswith(_FENCE + "\n"):
        head, fence, body = text[len(_FENCE) + 1 :].partition(f"\n{_FENCE}\n")
        if not fence:
            raise InputError(file, line=1, expected="front matter closed by a line ---", found="no such line")
        fields = _front_matter(file, head)
        text = body
    known = {key: _text(file, key, fields.pop(key, None)) for key in ("title", "description", "domain")}
    return Document(
        id=identifier,
        text=text.strip(),
        title=known["title"],
        description=known["description"],
        domain=known["domain"] or None,
        filename=file.name,
        metadata=fields,
    )


def _decoded(file: Path) -> str:
    data = read_bytes(file)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(file, line=line, expected="UTF-8 text", found=f"byte 0x{data[error.start]:02X}") from None


def _front_matter(file: Path, head: str) -> dict[str, Any]:
    try:
        fields = yaml.safe_load(head)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else None
        raise InputError(
            file, line=line, expected="YAML front matter", found=" ".join(str(error.problem).split())
        ) from None
    except yaml.YAMLError as error:
        raise InputError(file, expected="YAML front matter", found=" ".join(str(error).split())) from None
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise InputError(file, line=2, expected="front matter of KEY: VALUE lines", found=type(fields).__name__)
    return {str(key): value for key, value in fields.items()}


def _text(file: Path, key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        raise InputError(file, expected=f"{key} to be text", found=type(value).__name__)
    return str(value)
