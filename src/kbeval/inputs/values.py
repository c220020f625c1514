"""Single values from a caller: ids, numbers, names and limits, each accepted where its meaning is plain."""

from __future__ import annotations

import math
import numbers
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kbeval.errors import InputError, KbevalError
from kbeval.formats._fields import show

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_GRADE = 2**31 - 1
"""As in files: what every tool can hold."""
_IDS = range(-(2**63), 2**64)
_SHOWN = 80
_NUMBERS = {int, float, np.float64, np.float32, np.int64, np.int32}


def found(value: Any) -> str:
    """Any value as a message can hold it: on one line, and cut where it is long."""
    if isinstance(value, str):
        return show(str.__str__(value))
    try:
        shown = " ".join(repr(value).split())
    except Exception:  # an object of the caller's, or a whole number of too many digits to be written
        shown = f"of type {type(value).__name__}"
    else:
        if value is not None and not isinstance(value, (bool, numbers.Number)):
            shown = f"{type(value).__name__} {shown}"
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


def id_of(what: str, value: Any) -> str:
    """An id as text: a whole number becomes its decimals.

    Raises:
        KbevalError: it is neither text nor a whole number of 64 bits, or is empty.
    """
    if isinstance(value, str):
        text = str.__str__(value)
        if not text:
            raise KbevalError(f"{what}: expected ids, found an empty one")
        if not is_unicode(text):
            raise KbevalError(f"{what}: expected ids that UTF-8 can hold, found {found(text)}")
        return text
    number = _integer(value)
    if number is not None and number in _IDS:
        return str(number)
    raise KbevalError(f"{what}: expected ids as text or whole numbers of 64 bits, found {found(value)}")


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None


def ids_of(what: str, values: Sequence[Any]) -> pl.Series:
    """The same for many: a column of text."""
    if set(map(type, values)) <= {str} and all(values):
        try:
            return pl.Series(values, dtype=pl.String)
        except UnicodeEncodeError:
            pass  # what cannot be encoded is looked for
    return pl.Series([id_of(what, value) for value in values], dtype=pl.String)


def numbers_of(what: str, values: Sequence[Any], *, name: str, truths: bool = False) -> pl.Series:
    """Numbers as a column of floats, finite or not.

    Args:
        what: whose they are, for errors.
        values: the numbers.
        name: what one of them is called.
        truths: whether True and False are 1 and 0.

    Raises:
        KbevalError: something is no number.
    """
    kinds = set(map(type, values))
    if not kinds <= _NUMBERS or int in kinds:
        values = [_number(what, value, name, truths=truths) for value in values]
    return pl.Series(name, values, dtype=pl.Float64)


def _number(what: str, value: Any, name: str, *, truths: bool) -> float:
    try:
        if isinstance(value, (bool, np.bool_)):
            if truths:
                return float(value)
        elif not isinstance(value, (str, bytes, bytearray)) and hasattr(value, "__float__"):
            return float(value)
    except OverflowError:
        raise KbevalError(f"{what}: expected a finite {name}, found {found(value)}") from None
    except Exception as error:  # whatever the object's own conversion raises
        raise KbevalError(f"{what}: expected a number as {name}, found {found(value)}") from error
    raise KbevalError(f"{what}: expected a number as {name}, found {found(value)}")


def is_unicode(text: str) -> bool:
    """Whether text can be written as UTF-8: it holds no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def name_of(value: Any) -> str:
    """A run's name: text of one line; a whole number becomes its decimals.

    Raises:
        KbevalError: it is not.
    """
    text = id_of("the name of a run", value)
    if text.splitlines() != [text]:
        raise KbevalError(f"the name of a run: expected one line, found {found(text)}")
    return text


def whole(what: str, value: Any, *, most: int) -> int:
    """A whole number from 1 to ``most``.

    Raises:
        KbevalError: it is not.
    """
    number = _integer(value)
    if number is not None and 1 <= number <= most:
        return number
    raise KbevalError(f"{what}: expected a whole number from 1 to {most}, found {found(value)}")


def share(what: str, value: Any, *, least: float, most: float) -> float:
    """A number from ``least`` to ``most``.

    Raises:
        KbevalError: it is not.
    """
    number = _number("the arguments", value, what, truths=False)
    if math.isfinite(number) and least <= number <= most:
        return number
    raise KbevalError(f"{what}: expected a number from {least} to {most}, found {found(value)}")


def path_of(what: str, value: Any, *, forms: str = "a path") -> Path:
    """A path of something that is there, or that can at least be looked for.

    Args:
        what: what it is the path of, for errors.
        value: what was given.
        forms: what could have been given.

    Raises:
        KbevalError: it is no path.
        InputError: it cannot be looked at.
    """
    try:
        path = Path(value)
        text = os.fspath(path)
        if len(text.splitlines()) > 1 or "\0" in text or b"\0" in os.fsencode(text):
            raise ValueError
    except (TypeError, ValueError):
        raise KbevalError(f"{what}: expected {forms}, found {found(value)}") from None
    try:
        path.stat()
    except OSError as error:
        strerror = (error.strerror or type(error).__name__).lower()
        raise InputError(path, expected="a readable file", found=strerror) from None
    return path
