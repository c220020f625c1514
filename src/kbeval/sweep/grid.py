"""Which configurations a sweep tries: a grid over settings of one engine, or a random sample of it."""

from __future__ import annotations

import math
import random
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kbeval.engines.registry import CombinationError
from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kbeval.engines.registry import EnginePlan

BASE = "base"
MOST = 10_000
_NAMED_BY_TYPE = ("object", "file")  # of python:MODULE:OBJECT and the like


@dataclass(frozen=True)
class Configuration:
    """One configuration of the engine.

    Attributes:
        name: ``base``, or its place in the grid (``c01``).
        changed: the swept keys with its values, as JSON has them.
        plan: how to build it.
        in_grid: whether it is one of the grid; the base may be beside it.
    """

    name: str
    changed: Mapping[str, Any]
    plan: EnginePlan
    in_grid: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting, as JSON has them."""
        return self.plan.settings.model_dump(mode="json")

    @property
    def work(self) -> tuple[int, ...]:
        """How much it does for a question, as far as its settings tell: what decides between equal ones.

        Measured seconds would pick another one in another run.
        """
        own = self.settings
        reranked = own.get("reranker", "none") != "none"
        return (
            int(reranked),
            own.get("rerank_candidates", 0) if reranked else 0,
            len(own.get("legs", ())),
            own.get("candidates", 0),
        )

    def in_words(self) -> str:
        """The swept keys with its values, in a row."""
        return ", ".join(f"{key}={shown(value)}" for key, value in self.changed.items())


@dataclass(frozen=True)
class Grid:
    """The configurations of a sweep.

    Attributes:
        keys: that are swept, in the order given.
        configurations: of the grid or its sample, in the grid's order; the base is the first where it is not in it.
        size: how many combinations the grid has.
        left_out: combinations that no engine can have, with the reason.
    """

    engine: str
    keys: Sequence[str]
    configurations: Sequence[Configuration]
    size: int
    sample: int = 0
    seed: int = 0
    left_out: Sequence[tuple[str, str]] = field(default_factory=tuple)

    @property
    def base(self) -> Configuration:
        """The engine as it is set."""
        return next(each for each in self.configurations if each.name == BASE)


def shown(value: Any) -> str:
    """A setting's value for people."""
    if isinstance(value, list):
        return "+".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def parse_grid(assignments: Sequence[str]) -> dict[str, list[Any]]:
    """``KEY=VALUE,VALUE`` arguments: the values of each key.

    Values are split at commas; a list in brackets is read as TOML, for values that hold one.

    Raises:
        KbevalError: no equals sign, no value, a key twice, or no TOML.
    """
    grid: dict[str, list[Any]] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key.strip():
            raise KbevalError(f"--set {assignment}: expected KEY=VALUE,VALUE, found no equals sign")
        key = key.strip()
        if key in grid:
            raise KbevalError(f"--set {assignment}: expected each key once, found {key!r} again")
        values: Any = [part.strip() for part in text.split(",") if part.strip()]
        if text.startswith("["):
            try:
                values = tomllib.loads(f"value = {text}")["value"]
            except tomllib.TOMLDecodeError:
                raise KbevalError(f"--set {assignment}: expected a TOML list, found {text!r}") from None
        if not values:
            raise KbevalError(f"--set {assignment}: expected at least one value, found none")
        grid[key] = values
    return grid


def make_grid(
    values: Mapping[str, Sequence[Any]], plan: Callable[[Mapping[str, Any]], EnginePlan], *, sample: int, seed: int
) -> Grid:
    """Every combination of the values, or ``sample`` of them drawn without replacement.

    A combination whose values do not go together (an overlap as long as the chunk) is left out, with its reason. One
    that equals another is tried once.

    Args:
        values: of each key.
        plan: the engine with some settings replaced.
        sample: how many; 0 for all.
        seed: of the draw.

    Raises:
        KbevalError: nothing to sweep, an unknown key, a value that its key cannot have, or too many combinations.
    """
    if not values:
        raise KbevalError(
            "nothing to sweep: expected --set KEY=VALUE,VALUE or a table [sweep.grid] in the settings, found neither"
        )
    base = plan({})
    for key, of_key in values.items():
        if not isinstance(of_key, list | tuple) or not of_key:
            raise KbevalError(f"[sweep.grid] {key}: expected a list of values, found {of_key!r}")
        if key in ("type", "preset") or (key in _NAMED_BY_TYPE and key in type(base.settings).model_fields):
            raise KbevalError(
                f"[sweep.grid] {key}: expected a setting of the engine, found what says which engine it is"
            )
        for value in of_key:
            _tolerant(plan, {key: value})
    size = math.prod(len(of_key) for of_key in values.values())
    places: Sequence[int] = range(size)
    if 0 < sample < size:
        # Python's own generator: its sample() has given the same numbers since 3.2.
        places = sorted(random.Random(seed).sample(range(size), sample))  # noqa: S311 - no secret
    if len(places) > MOST:
        raise KbevalError(
            f"the grid: expected at most {MOST:,} configurations, found {len(places):,}; --sample N draws N"
        )
    found: dict[str, tuple[dict[str, Any], EnginePlan]] = {}
    left_out = []
    for place in places:
        asked = _combination(values, place)
        try:
            made = plan(asked)
        except CombinationError as error:
            words = ", ".join(f"{key}={shown(value)}" for key, value in asked.items())
            left_out.append((words, str(error).partition(": ")[2]))
            continue
        found.setdefault(repr(made.settings), (_values(made, values), made))
    if not found:
        raise KbevalError(f"the grid: expected a combination that an engine can have, found none: {left_out[0][1]}")
    width = len(str(len(found)))
    configurations = [
        Configuration(BASE if key == repr(base.settings) else f"c{number:0{width}d}", changed, made)
        for number, (key, (changed, made)) in enumerate(found.items(), 1)
    ]
    if repr(base.settings) not in found:
        configurations.insert(0, Configuration(BASE, _values(base, values), base, in_grid=False))
    return Grid(
        engine=base.name,
        keys=list(values),
        configurations=configurations,
        size=size,
        sample=sample if sample < size else 0,
        seed=seed,
        left_out=left_out,
    )


def _combination(values: Mapping[str, Sequence[Any]], place: int) -> dict[str, Any]:
    """The combination at a place of the grid; the last key changes fastest."""
    found: dict[str, Any] = {}
    for key in reversed(list(values)):
        place, at = divmod(place, len(values[key]))
        found[key] = values[key][at]
    return {key: found[key] for key in values}


def _values(plan: EnginePlan, keys: Mapping[str, Any]) -> dict[str, Any]:
    settings = plan.settings.model_dump(mode="json")
    return {key: settings.get(key) for key in keys}


def _tolerant(plan: Callable[[Mapping[str, Any]], EnginePlan], overrides: Mapping[str, Any]) -> None:
    try:
        plan(overrides)
    except CombinationError:
        return  # beside other values it may be right
