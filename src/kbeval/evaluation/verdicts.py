"""What a pair of engines comes to in a word (METHOD 5).

A verdict is taken over styles because one style of question is not enough: questions in a document's own
words flatter engines that match words, questions in other words flatter vectors. The decisions that METHOD
leaves open are taken here:

- **Which strata decide**: ``strata.deciding_strata``.
- **Which way a style points** is the sign of its mean over clusters, the quantity that is tested.
- **A style in which fewer than 10 clusters differ** is uninformative. It rules out ``in every style`` and
  nothing else: ``on average`` asks that no style points the other way, and a style without any difference
  does not.
- **A style in which fewer than 6 clusters differ** is no lead: by METHOD 4 that is no difference, so it
  counts for neither side of the Gail-Simon test, and stays in its number of strata.
- **The words exclude each other**: the first two ask for one sign, ``depends`` for both. They are tried in
  METHOD's order, after ``identical``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kbeval.evaluation.statistics import (
    ALPHA,
    MIN_NONZERO_CLUSTERS,
    SEED,
    Crossing,
    PairStatistics,
    cluster_means,
    gail_simon,
    paired,
)
from kbeval.evaluation.statistics.units import aligned
from kbeval.evaluation.strata import REAL_QUESTIONS, deciding_strata, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray


Side = Literal["a", "b"]
Word = Literal["in every style", "on average", "depends", "cannot tell", "identical", "significant"]
Reason = Literal["added gold", "unpooled", "not asked"]

MIN_INFORMATIVE = 10
"""Non-zero cluster differences below which a style is uninformative."""


@dataclass(frozen=True, slots=True)
class TextCheck:
    """Questions not written from the documents, asked about a verdict on an engine that never reads the text.

    Attributes:
        stratum: ``historical``, or ``message`` where there are none; None where there are neither.
        delta: that stratum's mean(a) - mean(b) over clusters.
        outcome: ``agrees``: they do not point the other way. ``contradicts``: they do, and the verdict became
            ``cannot tell``. ``no such questions``: nothing could be asked; the verdict stands, unchecked.
        overruled: the word that was taken back.
    """

    stratum: str | None
    delta: float | None
    outcome: Literal["agrees", "contradicts", "no such questions"]
    overruled: Word | None = None


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Why a verdict became ``cannot tell``.

    Attributes:
        word, leader: what it was.
        why: ``added gold``: without the gold that labels added it would be another. ``unpooled``: a run outside the
            pool has too few of its documents judged. ``not asked``: a run was not asked every question.
        detail: the verdict without added gold, or the name of the run.
    """

    word: Word
    leader: str | None
    why: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a pair comes to, and everything that it rests on.

    Attributes:
        word: the verdict.
        leader: the engine that it is in favour of; None for ``depends``, ``cannot tell`` and ``identical``.
        styles: the strata that decided, in the order near, mid, far, message, historical, others by name.
        leads: for ``depends``, the engine that each of them favours (None: neither); else empty.
        uninformative: those of several deciding styles in which fewer than 10 clusters differ.
        by_stratum: the statistics of every stratum, those that stand beside included, in the same order.
        overall: the statistics that speak for the pair: of the per-cluster mean over the deciding styles, or
            of the one stratum.
        crossing: the Gail-Simon test over the deciding styles; None where there is but one.
        detectable: for ``cannot tell``, the smallest difference that could have been seen (``overall.mdd``);
            None where too few questions differ to say.
        text_check: for a pair in which one engine never reads the text, and a verdict that has a leader.
        taken_back: why a verdict that had a leader was made ``cannot tell`` afterwards; None where it was not.
    """

    word: Word
    leader: Side | None
    styles: tuple[str, ...]
    leads: Mapping[str, Side | None]
    uninformative: tuple[str, ...]
    by_stratum: Mapping[str, PairStatistics]
    overall: PairStatistics
    crossing: Crossing | None
    detectable: float | None
    text_check: TextCheck | None
    taken_back: TakenBack | None = None


def verdict(
    a: ArrayLike,
    b: ArrayLike,
    strata: Sequence[str],
    clusters: ArrayLike,
    *,
    alpha: float = ALPHA,
    level: float | None = None,
    family: int = 1,
    metadata_only: bool = False,
    seed: int = SEED,
) -> Verdict:
    """Judges engine a against engine b on the primary metric.

    Args:
        a, b: shape (questions,): the metric's values for either engine, aligned.
        strata: shape (questions,): the style of each question, or its source where it has none.
        clusters: shape (questions,): the cluster of each question (``clusters.clusters``).
        alpha: of the Gail-Simon test, which is corrected for nothing.
        level: what significance is held against: the pair's own in its family (``holm_levels``), ``alpha``
            where none is given. There is no correction over styles: all of them have to agree.
        family: the number of pairs, for the detectable difference (``paired``).
        metadata_only: whether one of the two engines never reads the text. Generated questions are written
            from the text, so such an engine can lose in every style for that reason alone: a verdict with a
            leader stands only if the historical questions (or messages) do not point the other way.
        seed: of the sign-flip draws.

    Raises:
        ValueError: for arrays that are not aligned, empty, or hold nan.
    """
    names = np.asarray(strata, dtype=object)
    labels = np.asarray(clusters)
    differences = aligned(a, b, names, labels)

    def statistics(values: NDArray[np.float64], units: NDArray[Any]) -> PairStatistics:
        return paired(values, np.zeros_like(values), units, alpha=alpha, family=family, seed=seed)

    by_stratum = {name: statistics(differences[names == name], labels[names == name]) for name in in_order(strata)}
    styles = deciding_strata(strata)
    if len(styles) == 1:
        overall = by_stratum.get(styles[0]) or statistics(differences, labels)
    else:
        means = mean_over_styles(differences, names, labels, styles)
        overall = statistics(means, np.arange(means.size))
    by_style = {name: by_stratum.get(name, overall) for name in styles}
    level = alpha if level is None else level
    crossing = _crossing(list(by_style.values())) if len(styles) > 1 else None
    uninformative = tuple(
        name for name, of in by_style.items() if len(styles) > 1 and of.nonzero_clusters < MIN_INFORMATIVE
    )

    word: Word
    sign = 0
    if not differences.any():
        word = "identical"
    elif len(styles) == 1:
        word, sign = ("significant", overall.sign) if overall.significant_at(level) else ("cannot tell", 0)
    elif not uninformative and (sign := _sign_in_every_style(list(by_style.values()), level)):
        word = "in every style"
    elif sign := _sign_on_average(list(by_style.values()), overall, level):
        word = "on average"
    elif crossing is not None and crossing.p < alpha:
        word = "depends"
    else:
        word = "cannot tell"

    text_check: TextCheck | None = None
    if metadata_only and sign:
        text_check = _ask_real_questions(by_stratum, word, sign)
        if text_check.outcome == "contradicts":
            word, sign = "cannot tell", 0
    return Verdict(
        word=word,
        leader=_side(sign),
        styles=styles,
        leads={name: _side(_lead(of)) for name, of in by_style.items()} if word == "depends" else {},
        uninformative=uninformative,
        by_stratum=by_stratum,
        overall=overall,
        crossing=crossing,
        detectable=overall.mdd if word == "cannot tell" else None,
        text_check=text_check,
    )


def taken_back(verdict: Verdict, why: Reason, detail: str) -> Verdict:
    """The verdict made ``cannot tell``, with what it was and why it is not."""
    return replace(
        verdict,
        word="cannot tell",
        leader=None,
        leads={},
        detectable=verdict.overall.mdd,
        taken_back=TakenBack(verdict.word, verdict.leader, why, detail),
    )


def mean_over_styles(
    differences: NDArray[np.float64], strata: NDArray[Any], clusters: NDArray[Any], styles: Sequence[str]
) -> NDArray[np.float64]:
    """In each cluster, the mean over the styles that it has of that style's mean difference (METHOD 5).

    Args:
        differences: shape (questions,).
        strata, clusters: shape (questions,): the style and the cluster of each.
        styles: those to average over; questions of other strata are left out.

    Returns:
        shape (clusters with a question in one of the styles,), in the order of their labels.
    """
    labels, index = np.unique(clusters, return_inverse=True)
    sums, counts = np.zeros(labels.size), np.zeros(labels.size, dtype=np.int64)
    for style in styles:
        chosen = strata == style
        has_style = np.unique(index[chosen])
        sums[has_style] += cluster_means(differences[chosen], index[chosen])
        counts[has_style] += 1
    held = counts > 0
    means: NDArray[np.float64] = sums[held] / counts[held]
    return means


def _sign_in_every_style(styles: Sequence[PairStatistics], level: float) -> int:
    """The sign that all styles have significantly; 0 where there is none."""
    signs = {of.sign if of.significant_at(level) else 0 for of in styles}
    return signs.pop() if len(signs) == 1 else 0


def _sign_on_average(styles: Sequence[PairStatistics], overall: PairStatistics, level: float) -> int:
    """The significant sign of the mean over styles, if no style points the other way; else 0."""
    opposed = any(of.sign == -overall.sign for of in styles)
    return overall.sign if overall.significant_at(level) and not opposed else 0


def _crossing(styles: Sequence[PairStatistics]) -> Crossing:
    deltas = [of.cluster_delta if _lead(of) else 0.0 for of in styles]
    # a style without a standard error has a single cluster, so no lead, and its error is not looked at
    return gail_simon(deltas, [of.standard_error or 0.0 for of in styles])


def _lead(of: PairStatistics) -> int:
    """The sign of a style in which enough clusters differ for it to have one; else 0."""
    return of.sign if of.nonzero_clusters >= MIN_NONZERO_CLUSTERS else 0


def _ask_real_questions(by_stratum: Mapping[str, PairStatistics], word: Word, sign: int) -> TextCheck:
    for stratum in REAL_QUESTIONS:
        if stratum in by_stratum:
            asked = by_stratum[stratum]
            if asked.sign == -sign:
                return TextCheck(stratum, asked.cluster_delta, "contradicts", overruled=word)
            return TextCheck(stratum, asked.cluster_delta, "agrees")
    return TextCheck(None, None, "no such questions")


def _side(sign: int) -> Side | None:
    if sign == 0:
        return None
    return "a" if sign > 0 else "b"
