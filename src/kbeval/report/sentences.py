"""Verdicts as sentences: what a person reads first."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from kbeval.evaluation.partial import how_partial
from kbeval.evaluation.statistics import ALPHA
from kbeval.evaluation.strata import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.evaluation.comparison import Comparison, PairResult, RunResult
    from kbeval.evaluation.partial import AskedByBoth
    from kbeval.evaluation.statistics import PairStatistics
    from kbeval.evaluation.verdicts import TakenBack

LARGEST_LISTED = 8


def fixed(value: float | None, decimals: int = 3) -> str:
    """A value between 0 and 1 for reading; a dash where there is none."""
    return "–" if value is None or np.isnan(value) else f"{value + 0.0:.{decimals}f}"


def signed(value: float | None, decimals: int = 3) -> str:
    """A difference, with its sign."""
    if value is None:
        return "–"
    rounded = round(value, decimals) + 0.0
    return f"{rounded:+.{decimals}f}" if rounded else f"{0:.{decimals}f}"


def interval(of: PairStatistics, decimals: int = 3) -> str:
    """The 95% interval in brackets; nothing where there is none."""
    if of.ci95 is None:
        return ""
    low, high = (round(end, decimals) + 0.0 for end in of.ci95)
    return f"[{low:.{decimals}f}, {high:.{decimals}f}]"


def p_text(p: float | None) -> str:
    """A p-value in words: ``p = .032``, ``p < .001``."""
    if p is None:
        return "p undefined"
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)


def listed(names: Sequence[str]) -> str:
    """Names in a row, the rest counted."""
    shown = ", ".join(names[:LARGEST_LISTED])
    rest = len(names) - LARGEST_LISTED
    return f"{shown} and {rest} more" if rest > 0 else shown


def headline(comparison: Comparison, run: RunResult) -> float | None:
    """The mean that stands for a run: of the styles' means, equally weighted, or of the one stratum (METHOD 3)."""
    styles = deciding(comparison)
    if styles == (ALL,):
        return run.mean(comparison.options.primary.name)
    rows = comparison.test_set.stratum_rows
    means = [run.mean(comparison.options.primary.name, rows[style]) for style in styles]
    known = [mean for mean in means if mean is not None]
    return fsum(known) / len(known) if known else None


def deciding(comparison: Comparison) -> tuple[str, ...]:
    """The strata that verdicts are taken over."""
    from kbeval.evaluation.strata import deciding_strata

    return deciding_strata(comparison.test_set.strata)


def verdict_sentence(comparison: Comparison, pair: PairResult) -> str:
    """Which of the two finds the right document, by how much, and how sure that is."""
    verdict = pair.verdict
    a, b = comparison.run(pair.a), comparison.run(pair.b)
    label = comparison.options.primary.label
    if pair.asked_by_both is not None:
        return _partial_sentence(comparison, pair, pair.asked_by_both)
    if verdict.word == "identical":
        return f"{pair.a} and {pair.b} are identical in {label}: no question tells them apart."
    of = verdict.overall
    unit = " by clusters" if of.clusters < _questions_that_decide(comparison) else ""
    p = p_text(of.p)
    if pair.level < comparison.options.alpha:
        p += f"; Holm asks for {pair.level:.2g}".replace("0.", ".", 1)
    elif comparison.options.alpha != ALPHA:
        p += f"; held against {pair.level:.2g}".replace("0.", ".", 1)
    evidence = f"{label} {fixed(headline(comparison, a))} against {fixed(headline(comparison, b))}"
    if verdict.leader is not None:
        winner, loser = (pair.a, pair.b) if verdict.leader == "a" else (pair.b, pair.a)
        if verdict.leader == "b":
            evidence = f"{label} {fixed(headline(comparison, b))} against {fixed(headline(comparison, a))}"
        scope = {
            "in every style": f", in every style of question ({', '.join(verdict.styles)})",
            "on average": f", on average over the styles ({', '.join(verdict.styles)}) but not clearly in each",
        }.get(verdict.word, "")
        how_sure = f"difference{unit} {_difference(of, verdict.leader)} ({p})"
        return f"{winner} finds the right document higher than {loser}{scope}: {evidence}, {how_sure}."
    if verdict.word == "depends":
        names = {"a": pair.a, "b": pair.b, None: "neither"}
        leads = "; ".join(
            f"on {style} {names[side]} leads ({signed(verdict.by_stratum[style].delta)})"
            for style, side in verdict.leads.items()
        )
        return f"Whether {pair.a} or {pair.b} is better depends on the question: {leads}."
    could = (
        f"with these questions a difference of {fixed(verdict.detectable)} or more would probably have shown"
        if verdict.detectable is not None
        else "too few questions differ to say how large a difference could have been seen"
    )
    difference = f"difference{unit} {_difference(of, 'a')} ({p})"
    return f"Cannot tell {pair.a} from {pair.b}: {evidence}, {difference}; {could}."


def _partial_sentence(comparison: Comparison, pair: PairResult, shared: AskedByBoth) -> str:
    """Why there is no verdict on a pair of which one was not asked every question, and what there is instead."""
    a, b = comparison.run(pair.a), comparison.run(pair.b)
    total = len(comparison.test_set.queries)
    asked = " and ".join(
        f"{run.name} was asked {len(run.asked)} of {total} questions" for run in (a, b) if run.asked is not None
    )
    start = f"No verdict on {pair.a} and {pair.b}: {asked}, and what is missing counts with 0."
    of = shared.difference
    if of is None:
        return f"{start} There is no question that both were asked."
    name, label = comparison.options.primary.name, comparison.options.primary.label
    unit = " by clusters" if of.clusters < of.queries else ""
    return (
        f"{start} On the {of.queries} that both were asked: {label} {fixed(a.mean(name, shared.rows))} against "
        f"{fixed(b.mean(name, shared.rows))}, difference{unit} {_difference(of, 'a')} ({p_text(of.p)})."
    )


def verdict_remarks(comparison: Comparison, pair: PairResult) -> list[str]:
    """What must be said beside a verdict."""
    verdict = pair.verdict
    remarks: list[str] = []
    if pair.asked_by_both is not None:
        return remarks
    if verdict.uninformative:
        remarks.append(
            f"Uninformative, as fewer than 10 clusters tell the two apart there: {', '.join(verdict.uninformative)}."
        )
    overall = verdict.overall
    if overall.tests_disagree:
        remarks.append(
            f"The two tests disagree: t test {p_text(overall.p)}, sign-flip randomisation "
            f"{p_text(overall.p_sign_flip)}; a difference needs both."
        )
    if verdict.taken_back is not None:
        remarks.append(_taken_back(pair, verdict.taken_back))
    check = verdict.text_check
    if check is not None:
        never = [name for name in (pair.a, pair.b) if not comparison.run(name).reads_text]
        reads = "reads" if len(never) == 1 else "read"
        subject = f"{' and '.join(never)} never {reads} the text that the questions were written from"
        if check.outcome == "no such questions":
            remarks.append(f"{subject}, and there are no historical questions or messages to check this verdict on.")
        else:
            # As the verdict was stated: from its leader's side, or from the one that it had.
            sign = -1 if _favoured(pair) == "b" else 1
            delta = signed(sign * check.delta) if check.delta is not None else "–"
            substitute = " (there are no historical questions)" if check.stratum != "historical" else ""
            ending = (
                f"the {check.stratum} questions{substitute} do not point the other way "
                f"({delta}), so the verdict stands."
                if check.outcome == "agrees"
                else f"the {check.stratum} questions{substitute} point the other way ({delta}), "
                f"so '{check.overruled}' is taken back."
            )
            remarks.append(f"{subject}; {ending}")
    return remarks


def _taken_back(pair: PairResult, taken_back: TakenBack) -> str:
    leader = {"a": f"{pair.a} led", "b": f"{pair.b} led", None: "the verdict was"}[taken_back.leader]
    was = f"Taken back, for {leader} ({taken_back.word})"
    if taken_back.why == "added gold":
        return f"{was} only with the gold that labels added: without it the verdict is '{taken_back.detail}'."
    return (
        f"{was}, but {taken_back.detail} was not pooled and has fewer of its documents judged: judge its answers "
        "(kbeval judge), and compare again."
    )


def counts_sentence(comparison: Comparison, run: RunResult) -> str:
    """N questions, M errored, K missing."""
    partial = how_partial(run.sidecar)
    return (
        f"{run.name}: {len(comparison.test_set.queries)} questions, {len(run.errors)} errored, "
        f"{len(run.missing)} missing" + (f" ({partial})" if partial else "")
    )


def _favoured(pair: PairResult) -> str:
    return pair.verdict.leader or ("a" if pair.verdict.overall.cluster_delta > 0 else "b")


def _questions_that_decide(comparison: Comparison) -> int:
    styles = deciding(comparison)
    strata = comparison.test_set.strata
    return len(strata) if styles == (ALL,) else sum(stratum in styles for stratum in strata)


def _difference(of: PairStatistics, leader: str) -> str:
    """The difference with its interval, as seen from the leader."""
    sign = 1 if leader == "a" else -1
    if of.ci95 is None:
        return signed(sign * of.cluster_delta)
    low, high = sorted(sign * end for end in of.ci95)
    return f"{signed(sign * of.cluster_delta)} [{signed(low)}, {signed(high)}]"
