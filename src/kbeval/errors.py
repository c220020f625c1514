"""The errors that kbeval raises on purpose, and the exit code that each stands for."""

from __future__ import annotations


class KbevalError(Exception):
    """Bad usage or input, or a broken environment: one line for the user, exit code 2.

    The message is complete in itself: what was expected, what was found, and what to do.
    """

    exit_code = 2


class InputError(KbevalError):
    """A file that cannot be read exactly.

    Args:
        path: the file, as the user named it.
        expected: what should have been there.
        found: what was there instead.
        line: 1-based line number, where there is one.
    """

    def __init__(self, path: object, *, expected: str, found: str, line: int | None = None) -> None:
        self.path = path
        self.line = line
        self.expected = expected
        self.found = found
        where = f"{path}" if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: expected {expected}, found {found}")
