"""What a metric is: a family (``precision``), and one member of it (``precision(rel=2)@5``)."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from kbeval.evaluation.alignment import Alignment, Judgments
    from kbeval.evaluation.chance import RandomOrder

    PerQuery = NDArray[np.float64]


class Cutoff(Enum):
    """Whether a name has a cut-off behind it (``@k``)."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Oracle:
    """How trec_eval is asked for it: ``-m measure``, and ``-M depth`` where the cut is made that way."""

    measure: str
    depth: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One row of METHOD's table of metrics.

    Attributes:
        name: the canonical name, without cut-off.
        label: how reports show it.
        aliases: other spellings, in lower case, and the cut-off that each takes: ``ndcg_cut`` needs one.
        definition: what one query's value is, at relevance level L.
        source: where the definition comes from.
        compute: the values of all queries of the test set, shape (queries,), float64, no nan; at a level.
        chance: the same in expectation over random orders of the corpus.
        cutoff: whether members name a cut-off.
        takes_level: whether a relevance level changes the value.
        takes_persistence: whether members name a persistence (``rbp.8``).
        oracle: how trec_eval is asked for a member; None where it has no such measure.
        by_ranx: whether ranx computes it.
        needs_domains: whether it is about domains and not about judgments: queries without a domain are left
            out of its mean.
        remark: a sentence to show beside the value on these judgments at a level; empty where there is
            none to say.
        lowest: the lowest value that a query can have.
        highest: the highest one.
        higher_is_better: the direction.
    """

    name: str
    label: str
    aliases: Mapping[str, Cutoff]
    definition: str
    source: str
    compute: Callable[[Alignment, Metric, int], PerQuery]
    chance: Callable[[RandomOrder, Metric, int], PerQuery]
    cutoff: Cutoff
    takes_level: bool = True
    takes_persistence: bool = False
    oracle: Callable[[Metric], Oracle | None] = lambda metric: None  # noqa: ARG005
    by_ranx: bool = True
    needs_domains: bool = False
    remark: Callable[[Judgments, int], str] | None = None
    lowest: float = 0.0
    highest: float = 1.0
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Metric:
    """One member of a family. Made by ``parse_metric``, which checks that the family takes what is set.

    Attributes:
        family: what it is a member of.
        k: the cut-off, at least 1.
        level: the relevance level that its name states; None: the test set's.
        persistence: of rbp, between 0 and 1.
    """

    family: Family
    k: int | None = None
    level: int | None = None
    persistence: float | None = None

    @property
    def cut(self) -> int:
        """The cut-off, and 0 where there is none: as ranx's kernels want it."""
        return self.k or 0

    @property
    def name(self) -> str:
        """The canonical name: ``mrr``, ``precision@5``, ``map(rel=2)@10``, ``rbp.95``."""
        return self._spell(self.family.name)

    @property
    def label(self) -> str:
        """The name as reports show it: ``MRR``, ``Hit@5``."""
        return self._spell(self.family.label)

    def _spell(self, base: str) -> str:
        level = "" if self.level is None else f"(rel={self.level})"
        cut = "" if self.k is None else f"@{self.k}"
        # 0.95 is written .95, never 9.5e-01
        fraction = "" if self.persistence is None else f"{Decimal(repr(self.persistence)):f}".lstrip("0")
        return f"{base}{level}{cut}{fraction}"

    def at_level(self, default: int) -> int:
        """The relevance level that it is computed at, where the test set's is ``default``."""
        return default if self.level is None else self.level

    def oracle_command(self, *, level: int = 1, depth: int | None = None) -> str | None:
        """The trec_eval command whose values this metric's are equal to; None where there is none.

        Args:
            level: the test set's relevance level.
            depth: the depth that every run is cut to first.
        """
        oracle = self.family.oracle(self)
        if oracle is None:
            return None
        cuts = [cut for cut in (oracle.depth, depth) if cut is not None]
        words = ["trec_eval", "-c", "-q"]
        if self.family.takes_level and self.at_level(level) != 1:
            words.append(f"-l{self.at_level(level)}")
        if cuts:
            words.append(f"-M{min(cuts)}")
        return " ".join([*words, "-m", oracle.measure, "QRELS", "RUN"])
