"""Bytes in and out of files: what every format has in common."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from kbeval.errors import InputError, KbevalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

BLANKS = b" \t\r\n\v\f"
"""The six ASCII blanks: what separates ids (METHOD 2). No other blank does."""

BLOCK_BYTES = 8 * 2**20

_GZIP = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_OTHER_BOMS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class TextFile:
    """A text input, plain or gzipped (told by content), without its byte order mark.

    It can be read more than once, also where the path is a pipe: what cannot be opened twice is kept.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._kept: bytes | None = None

    def read(self) -> bytes:
        """The whole text.

        Raises:
            InputError: the file is missing, a folder, unreadable, damaged, or in another Unicode encoding.
        """
        with self._open() as stream:
            return self._without_mark(stream.read())

    def blocks(self) -> Iterator[bytes]:
        """The text in pieces of about ``BLOCK_BYTES`` bytes, each made of whole lines that end with LF.

        A final line without LF gets one. Raises as ``read`` does.
        """
        with self._open() as stream:
            first = True
            while chunk := stream.read(BLOCK_BYTES):
                block = b"".join((chunk, stream.readline()))
                if first:
                    block, first = self._without_mark(block), False
                if not block.endswith(b"\n"):
                    block += b"\n"
                yield block

    @contextlib.contextmanager
    def _open(self) -> Iterator[io.BufferedReader | gzip.GzipFile]:
        try:
            with self._open_raw() as raw:
                if raw.peek(2)[:2] == _GZIP:
                    with gzip.GzipFile(fileobj=raw) as stream:
                        yield stream
                else:
                    yield raw
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            detail = " ".join(str(error).split()) or type(error).__name__
            raise InputError(self.path, expected="a complete gzip file", found=f"a damaged one ({detail})") from error
        except OSError as error:
            found = error.strerror or type(error).__name__
            raise InputError(self.path, expected="a readable file", found=found.lower()) from error

    def _open_raw(self) -> io.BufferedReader:
        if self._kept is None:
            raw = self.path.open("rb")
            if stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
                return raw
            with raw:
                self._kept = raw.read()
        return io.BufferedReader(io.BytesIO(self._kept))

    def _without_mark(self, text: bytes) -> bytes:
        for mark, encoding in _OTHER_BOMS.items():
            if text.startswith(mark):
                raise InputError(self.path, expected="UTF-8 text", found=f"{encoding} text", line=1)
        return text.removeprefix(_UTF8_BOM)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Reads a text file: gunzipped where its content is gzip, without a UTF-8 byte order mark.

    Raises:
        InputError: the file is missing, a folder, unreadable, damaged, or in another Unicode encoding.
    """
    return TextFile(path).read()


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file so that its path holds either what it held before or all of ``data``; as ``AtomicFile`` does.

    Raises:
        KbevalError: the file cannot be written. Nothing half-written is left behind.
    """
    with AtomicFile(path) as file:
        file.write(data)


class AtomicFile:
    """A file in the making: its path holds what it held before until ``commit``, and then all that was written.

    The parent folder is made where there is none, and removed again where nothing comes of it. A link stays a link:
    the file that it points to is replaced. An existing file keeps its permissions; a new one gets those that the umask
    leaves. A pipe or device has nothing to replace: what is written goes there at once.

    As a context manager it commits at the end of the block, unless the block raises.

    Raises:
        KbevalError: from each method, where the file cannot be written. Nothing half-written is left behind.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._target = Path(os.path.realpath(path))
        self._beside: Path | None = None
        self._made: list[Path] = []
        with self._explained():
            mode = self._target.stat().st_mode if self._target.exists() else None
            if mode is not None and stat.S_ISDIR(mode):
                raise IsADirectoryError(0, "is a directory")
            if mode is not None and not stat.S_ISREG(mode):
                self._stream = self._target.open("wb")
                return
            self._make_folder()
            beside = self._target.parent / f".kbeval-{secrets.token_hex(8)}.tmp"
            # Not tempfile: it hides its files from everyone else, whatever the umask says.
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            self._beside = beside
            self._stream = os.fdopen(descriptor, "wb")
            if mode is not None:
                os.fchmod(descriptor, stat.S_IMODE(mode))

    def write(self, data: bytes) -> None:
        """Adds to what the file will hold."""
        with self._explained():
            self._stream.write(data)

    def commit(self) -> None:
        """Puts the file at its place."""
        with self._explained():
            self._stream.flush()
            if self._beside is not None:
                os.fsync(self._stream.fileno())
            self._stream.close()
            if self._beside is not None:
                self._beside.replace(self._target)
                self._beside = None
        self._made = []

    def discard(self) -> None:
        """Leaves everything as it was. After ``commit`` it does nothing."""
        with contextlib.suppress(OSError, AttributeError):  # no stream, where it could not be opened
            self._stream.close()
        with contextlib.suppress(OSError):
            if self._beside is not None:
                self._beside.unlink()
        with contextlib.suppress(OSError):  # somebody else's file is in it by now
            for folder in reversed(self._made):
                folder.rmdir()
        self._beside, self._made = None, []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def _make_folder(self) -> None:
        folder = self._target.parent
        self._made = [each for each in reversed((folder, *folder.parents)) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError):
                raise KbevalError(
                    f"{self._path}: cannot be written: {(error.strerror or str(error)).lower()}"
                ) from error
            raise
