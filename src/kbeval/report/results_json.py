"""results.json and per_query.jsonl: the same bytes for the same inputs, whatever the machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import orjson

from kbeval.evaluation.statistics import ALPHA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kbeval.evaluation.comparison import Comparison, PairResult, RunResult
    from kbeval.evaluation.statistics import PairStatistics

DECIMALS = 12


def results(comparison: Comparison) -> dict[str, Any]:
    """The content of results.json."""
    test_set = comparison.test_set
    return {
        "test_set": {
            "queries": len(test_set.queries),
            "hash": test_set.hash,
            "level": test_set.level,
            "primary": comparison.options.primary.name,
            "strata": {name: len(rows) for name, rows in test_set.stratum_rows.items()},
            # Verdicts rest on it: the file says it where it is not the usual one.
            **({"alpha": comparison.options.alpha} if comparison.options.alpha != ALPHA else {}),
        },
        "runs": {run.name: _run(run, comparison) for run in comparison.runs},
        "pairs": [row for pair in comparison.pairs for row in _pair(pair, comparison)],
        "verdicts": [
            {
                "a": pair.a,
                "b": pair.b,
                "verdict": pair.verdict.word,
                "by_stratum": {
                    name: {"delta": number(of.delta), "ci95": _interval(of), "p": p_value(of.p)}
                    for name, of in pair.verdict.by_stratum.items()
                },
            }
            for pair in comparison.pairs
        ],
    }


def results_json(comparison: Comparison) -> bytes:
    """results.json: keys sorted, p-values with 6 significant digits, other numbers with 12 decimals."""
    return orjson.dumps(results(comparison), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def per_query_jsonl(comparison: Comparison) -> Iterator[bytes]:
    """per_query.jsonl, a line a query in the order of the test set."""
    test_set = comparison.test_set
    frame = test_set.qrels.frame
    grades: dict[str, dict[str, int]] = {}
    for query, document, grade in frame.select("query", "document", "grade").iter_rows():
        if grade > 0:
            grades.setdefault(query, {})[document] = grade
    lists = zip(*(run.ranked for run in comparison.runs), strict=True)
    for index, (query, ranked) in enumerate(zip(test_set.queries, lists, strict=True)):
        known = test_set.labelled.get(query)
        line = {
            "query_id": query,
            "query": known.text if known else None,
            "source": known.source if known else None,
            "style": known.style if known else None,
            "domain": known.domain if known else None,
            "relevant": grades.get(query, {}),
            "runs": {
                run.name: {
                    "ranked": its_ranked,
                    "first_relevant_rank": int(run.first_ranks[index]) or None,
                    "metrics": {name: number(values[index]) for name, values in run.values.items()},
                    "error": run.errors.get(query),
                }
                for run, its_ranked in zip(comparison.runs, ranked, strict=True)
            },
        }
        yield orjson.dumps(line, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def number(value: float | None) -> float | None:
    """A number as the files hold it: 12 decimals, no negative zero; undefined is null."""
    if value is None or math.isnan(value):
        return None
    return round(float(value), DECIMALS) + 0.0


def p_value(value: float | None) -> float | None:
    """A p-value as the files hold it: 6 significant digits."""
    return None if value is None else float(f"{value:.6g}")


def _run(run: RunResult, comparison: Comparison) -> dict[str, Any]:
    return {
        **_partial(run),
        "metrics": {name: number(run.mean(name)) for name in run.values},
        "strata": {
            stratum: {name: number(run.mean(name, rows)) for name in run.values}
            for stratum, rows in comparison.test_set.stratum_rows.items()
        },
        "errored": len(run.errors),
        "missing": len(run.missing),
        "ties": run.ties.queries,
    }


def _partial(run: RunResult) -> dict[str, Any]:
    """For a run that was not asked every question: how many it was, and its means over those. Nothing for others."""
    if run.asked is None or run.sidecar is None:
        return {}
    return {
        "asked": {
            "queries": len(run.asked),
            "sample_of": run.sidecar.partial.of if run.sidecar.partial else None,
            "incomplete": run.sidecar.incomplete,
            "metrics": {name: number(run.mean(name, run.asked)) for name in run.values},
        }
    }


def _asked_by_both(pair: PairResult) -> dict[str, Any]:
    """The difference on the questions that both were asked, where these are not all."""
    shared = pair.asked_by_both
    if shared is None:
        return {}
    of = shared.difference
    return {
        "asked_by_both": {
            "queries": len(shared.rows),
            "delta": number(of.delta) if of else None,
            "ci95": _interval(of) if of else None,
            "p": p_value(of.p) if of else None,
        }
    }


def _pair(pair: PairResult, comparison: Comparison) -> Iterator[dict[str, Any]]:
    for metric, of in pair.cells.items():
        primary = metric == comparison.options.primary.name
        yield {
            "a": pair.a,
            "b": pair.b,
            "metric": metric,
            "delta": number(of.delta),
            "ci95": _interval(of),
            "p_paired_t": p_value(pair.p_paired_t[metric]),
            "p": p_value(of.p),
            "p_adjusted": p_value(pair.p_adjusted) if primary else None,
            "effect_size": number(of.effect_size),
            "wins": of.wins,
            "ties": of.ties,
            "losses": of.losses,
            "clusters": of.clusters,
            "mdd": number(of.mdd),
            **(_asked_by_both(pair) if primary else {}),
        }


def _interval(of: PairStatistics) -> list[float | None] | None:
    return None if of.ci95 is None else [number(of.ci95[0]), number(of.ci95[1])]
