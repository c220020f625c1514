"""Whether runs may be compared at all: they must be about one corpus and one set of questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.errors import KbevalError
from kbeval.evaluation.partial import how_partial

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kbeval.evaluation.comparison import RunSource
    from kbeval.evaluation.test_set import TestSet


def check_provenance(sources: Sequence[RunSource], test_set: TestSet, *, force: bool) -> list[str]:
    """Holds what the sidecars name against the data set, and against each other.

    Returns:
        Warnings; with ``force`` also what would have been refused.

    Raises:
        KbevalError: a sidecar names another corpus or other questions, and ``force`` is off.
    """
    problems = []
    for what, field, own in (
        ("corpus", "corpus_hash", test_set.corpus_hash),
        ("questions", "queries_hash", test_set.queries_hash),
    ):
        named = {source.name: str(getattr(source.sidecar, field)) for source in sources if source.sidecar}
        if not named:
            continue
        first = next(iter(named))
        expected, owner = (own, "the data set") if own else (named[first], f"run {first}")
        other = next((name for name, found in named.items() if found != expected), None)
        if other is not None:
            problems.append(f"run {other}: expected the {what} of {owner} ({expected}), found {named[other]}")
    if problems and not force:
        raise KbevalError(f"{problems[0]}; run it again, or compare all the same with --force")
    return problems


def require_whole(sources: Iterable[RunSource]) -> None:
    """Refuses runs that were not asked every question: as whole ones they would say something about the engine.

    Raises:
        KbevalError: naming the first one.
    """
    for source in sources:
        if (words := how_partial(source.sidecar)) is not None:
            raise KbevalError(f"run {source.name}: expected a run that was asked every question, found {words}")
