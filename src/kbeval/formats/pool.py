"""corpus/pool.json: which runs the judgments were pooled from, how deep, and when (METHOD 6).

A run is known by its content and not by its name: a run that was made anew under an old name is another run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kbeval.config import explain
from kbeval.errors import InputError
from kbeval.formats.text import read_bytes, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FORMAT = 1

_Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]


class PoolRecord(BaseModel):
    """Runs that were pooled together, and every pair of which got a judgment.

    Attributes:
        depth: how many documents of each answer went into the pool.
        when: the time, ISO 8601 in UTC. For people: nothing that is computed reads it.
        runs: the hash of each run's pooled part (``testset.pool.run_hash``), by the name that the run had.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    depth: int = Field(ge=1)
    when: str
    runs: dict[str, _Hash] = Field(min_length=1)


def read_pools(path: Path) -> list[PoolRecord]:
    """Reads the record, oldest pool first; empty where there is no file.

    Raises:
        InputError: the file is no JSON of this format.
    """
    if not path.exists():
        return []
    try:
        data: Any = orjson.loads(read_bytes(path))
    except orjson.JSONDecodeError as error:
        raise InputError(path, line=error.lineno, expected="JSON", found=str(error.msg)) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("pools"), list):
        raise InputError(
            path, expected=f'an object with "format": {FORMAT} and a list of "pools"', found="another shape"
        )
    pools = []
    for number, entry in enumerate(data["pools"], start=1):
        try:
            pools.append(PoolRecord.model_validate(entry))
        except ValidationError as error:
            words = explain(error, PoolRecord)
            raise InputError(path, expected=f"in pool {number}: {words['expected']}", found=words["found"]) from None
    return pools


def write_pools(path: Path, pools: Iterable[PoolRecord]) -> None:
    """Writes the record in the order given, one field a line so that a change reads well in a diff."""
    data = {"format": FORMAT, "pools": [pool.model_dump() for pool in pools]}
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    write_atomically(path, orjson.dumps(data, option=options))


def with_pool(pools: Iterable[PoolRecord], new: PoolRecord) -> list[PoolRecord]:
    """``pools`` and the new one; unchanged where the same runs were pooled to the same depth before."""
    known = list(pools)
    if any((pool.depth, pool.runs) == (new.depth, new.runs) for pool in known):
        return known
    return [*known, new]
