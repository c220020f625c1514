"""Documents from a folder: Markdown with front matter, plain text, HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from kbeval.corpus.html import read_html
from kbeval.errors import InputError, KbevalError
from kbeval.formats.text import read_bytes
from kbeval.model import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_FENCE = "---"


class FilesProvider:
    """Every ``.md``, ``.txt``, ``.html`` and ``.htm`` file below a folder, in byte order of its path.

    A document's id is its path below the folder, with ``/`` between folders and without the ending. Files and folders
    whose name begins with a dot are left out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_documents(self) -> Iterator[Document]:
        """Yields the documents.

        Raises:
            KbevalError: the folder is missing or holds no document, or two files differ in their ending alone.
            InputError: a file is not UTF-8 (pages may be otherwise), its front matter is not a YAML mapping, or it is
                a page and the extra ``html`` is not installed.
        """
        if not self._folder.is_dir():
            found = "a file" if self._folder.exists() else "nothing there"
            raise KbevalError(f"{self._folder}: expected a folder of documents, found {found}")
        names: dict[str, str] = {}
        for name, file in sorted(self._files()):
            identifier = name[: -len(file.suffix)]
            other = names.setdefault(identifier, name)
            if other != name:
                raise KbevalError(
                    f"{self._folder}: expected one file for the document {identifier!r}, found {other} and {name}"
                )
            yield _READERS[file.suffix.lower()](file, identifier)
        if not names:
            endings = ", ".join(_READERS)
            raise KbevalError(f"{self._folder}: expected at least one document ({endings}), found an empty corpus")

    def _files(self) -> Iterator[tuple[str, Path]]:
        for file in self._folder.rglob("*"):
            inner = file.relative_to(self._folder)
            hidden = any(part.startswith(".") for part in inner.parts)
            if file.suffix.lower() in _READERS and not hidden and file.is_file():
                yield inner.as_posix(), file


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


def read_text(file: Path, identifier: str) -> Document:
    """Reads one plain text file: all of it is the text, and the file's name is all that is known besides."""
    return Document(id=identifier, text=_decoded(file).replace("\r\n", "\n").strip(), filename=file.name)


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


_READERS: dict[str, Callable[[Path, str], Document]] = {
    ".md": read_document,
    ".txt": read_text,
    ".html": read_html,
    ".htm": read_html,
}
