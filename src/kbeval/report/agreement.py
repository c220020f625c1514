"""Agreement as tables, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from kbeval.report.sentences import fixed, interval, signed
from kbeval.report.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kbeval.evaluation.agreement import Estimate
    from kbeval.evaluation.label_sets import PairUnderBoth
    from kbeval.evaluation.statistics import PairStatistics
    from kbeval.testset.agreement import Raters

GATE_NOTE = (
    "In brackets the 95 % interval by questions (BCa bootstrap over whole questions); a gate uses its lower end. "
    "No interval: fewer than two questions, or no spread."
)
LABEL_SETS_NOTE = (
    "Under people: their grades of the sample in place of the model's, all else equal; so the two differ on the "
    "sampled pairs alone."
)


def agreement_table(raters: Sequence[Raters]) -> Table:
    """A line for each two raters."""
    rows = [
        [
            f"{each.first} – {each.second}",
            str(each.agreement.pairs),
            str(each.agreement.queries),
            fixed(each.agreement.observed),
            *(_cell(of) for of in (each.agreement.kappa, each.agreement.quadratic, each.agreement.positive)),
        ]
        for each in raters
    ]
    level = raters[0].agreement.level
    headers = ["Raters", "pairs", "questions", "same grade", "kappa", "quadratic kappa", f"positive (grade {level}+)"]
    return Table(headers, rows, title="Agreement on the random sample")


def label_sets_table(pairs: Sequence[PairUnderBoth], label: str) -> Table:
    """Each pair of runs under either label set."""
    rows = [
        [f"{pair.a} − {pair.b}", str(pair.people.queries), _difference(pair.people), _difference(pair.models)]
        for pair in pairs
    ]
    headers = ["Pair", "questions", "under people", "under models"]
    return Table(headers, rows, title=f"Differences in {label} under both label sets")


def agreement_json(raters: Sequence[Raters], pairs: Sequence[PairUnderBoth], metric: str) -> bytes:
    """Everything, keys sorted, undefined null; ``lower`` is what a gate uses."""
    data: dict[str, Any] = {
        "agreement": [
            {
                "first": each.first,
                "second": each.second,
                "kind": each.kind,
                "pairs": each.agreement.pairs,
                "questions": each.agreement.queries,
                "level": each.agreement.level,
                "table": each.agreement.table,
                "observed": round(each.agreement.observed, 12),
                "kappa": _estimate(each.agreement.kappa),
                "kappa_quadratic": _estimate(each.agreement.quadratic),
                "positive_agreement": _estimate(each.agreement.positive),
            }
            for each in raters
        ],
        "pairs": [
            {"a": pair.a, "b": pair.b, "metric": metric, "people": _side(pair.people), "models": _side(pair.models)}
            for pair in pairs
        ],
    }
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def _cell(of: Estimate) -> str:
    if of.interval is None:
        return fixed(of.value)
    return f"{fixed(of.value)} [{fixed(of.interval[0])}, {fixed(of.interval[1])}]"


def _difference(of: PairStatistics) -> str:
    return f"{signed(of.cluster_delta)} {interval(of)}".strip()


def _estimate(of: Estimate) -> dict[str, float | None]:
    low, high = of.interval or (None, None)
    return {"value": _number(of.value), "lower": _number(low), "upper": _number(high)}


def _side(of: PairStatistics) -> dict[str, Any]:
    return {
        "delta": _number(of.delta),
        "ci95": None if of.ci95 is None else [_number(end) for end in of.ci95],
        "questions": of.queries,
    }


def _number(value: float | None) -> float | None:
    return None if value is None else round(value, 12)
