"""What the page's explorer shows, as compact JSON: columns, every id and text once, lists as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import polars as pl

from kbeval.evaluation.comparison import RANKED_IDS
from kbeval.report.names import shortened
from kbeval.report.page.losses import REASONS, Losses, losses
from kbeval.report.results_json import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kbeval.evaluation.comparison import Comparison, RunResult

LIMITS = (4_000, 2_000, 1_000, 500, 250, 120, 80, 40, 20)
ALL_TEXTS = 4_000_000
SHORTEST_TEXT = 80
LONGEST_QUESTION = 2_000
LONGEST_NAME = 200
LONGEST_SHORT = 18
MOST_GOLD = 20
MOST_LISTED = 1_500_000


def explorer(comparison: Comparison) -> tuple[dict[str, Any], Losses]:
    """The content of the data block, and why queries were lost."""
    test_set = comparison.test_set
    queries = test_set.queries
    depth = min(RANKED_IDS, max(5, MOST_LISTED // max(len(queries) * len(comparison.runs), 1)))
    columns = [run.ranked.column(depth) for run in comparison.runs]
    lists = [_split(column.to_list(), lengths) for column, lengths in columns]
    grades = _grades(comparison)
    gold = [test_set.gold[query] for query in queries]
    why = losses(comparison, lists)

    names = pl.concat(
        [*(column for column, _ in columns), pl.Series([n for of in gold for n in of[:MOST_GOLD]], dtype=pl.String)]
    )
    ids = names.unique(maintain_order=True).to_list()
    place = {name: index for index, name in enumerate(ids)}
    texts, of_gold, of_others = _texts(comparison, ids, gold)
    known = [test_set.labelled.get(query) for query in queries]
    short = shortened([run.name for run in comparison.runs], LONGEST_SHORT)
    data: dict[str, Any] = {
        "primary": comparison.options.primary.label,
        "level": test_set.level,
        "depth": depth,
        "cut": why.cut,
        "looked": why.looked,
        "limits": [of_gold, of_others],
        "reasons": list(REASONS.values()),
        "documents": {
            "id": [_short(name, LONGEST_NAME) for name in ids],
            "title": _titles(comparison, ids),
            "text": texts,
            "length": [len(document.text) if (document := test_set.documents.get(name)) else 0 for name in ids],
            "known": [int(name in test_set.documents) for name in ids] if test_set.documents else None,
        },
        "queries": {
            "id": [_short(query, LONGEST_NAME) for query in queries],
            "text": [_short(each.text, LONGEST_QUESTION) if each else "" for each in known],
            "kind": _coded(test_set.strata),
            "source": _coded([each.source if each else None for each in known]),
            "domain": _coded([each.domain if each else None for each in known]),
            "overlap": [None if np.isnan(of) else round(float(of), 2) for of in test_set.overlaps],
            "gold": [[place[name] for name in of[:MOST_GOLD]] for of in gold],
            "golds": [len(of) for of in gold],
            "judged": _judged(lists, grades, gold, place),
            "twins": {
                str(at): {str(place[name]): round(share, 2) for name, share in of.items()}
                for at, of in why.twins.items()
            },
        },
        "runs": [
            {
                "name": _short(run.name, LONGEST_NAME),
                "short": short[run.name],
                "values": _values(run, comparison.options.primary.name),
                "first": run.first_ranks.tolist(),
                "uncut": run.uncut_ranks.tolist(),
                "lengths": lengths.tolist(),
                "documents": [place[name] for of in of_run for name in of],
                "flags": flags,
                "errors": {
                    str(at): _short(run.failed[query], LONGEST_QUESTION)
                    for at, query in enumerate(queries)
                    if query in run.failed
                },
                "stages": _stages(run.sidecar.gold_ranks if run.sidecar else {}, queries),
            }
            for run, of_run, (_, lengths), flags in zip(comparison.runs, lists, columns, why.flags, strict=True)
        ],
    }
    return data, why


def _values(run: RunResult, metric: str) -> list[float | None]:
    """One a query; None where it has none, or was not asked."""
    values = [number(value) for value in run.values[metric]]
    if run.asked is None:
        return values
    asked = set(run.asked.tolist())
    return [value if at in asked else None for at, value in enumerate(values)]


def as_data_block(data: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element, whatever it holds: nothing in it can end or open one."""
    text = orjson.dumps(data).decode()
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _split(column: Sequence[str], lengths: np.ndarray) -> list[list[str]]:
    ends = np.cumsum(lengths).tolist()
    return [list(column[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]


def _grades(comparison: Comparison) -> list[dict[str, int]]:
    found: dict[str, dict[str, int]] = {query: {} for query in comparison.test_set.queries}
    frame = comparison.test_set.qrels.frame
    for query, document, grade in zip(
        frame["query"].to_list(), frame["document"].to_list(), frame["grade"].to_list(), strict=True
    ):
        found[query][document] = grade
    return list(found.values())


def _judged(
    lists: Sequence[Sequence[Sequence[str]]],
    grades: Sequence[Mapping[str, int]],
    gold: Sequence[Sequence[str]],
    place: Mapping[str, int],
) -> list[dict[str, int]]:
    """For each query, the grades of the documents that are shown, by their number."""
    found = []
    for index, judged in enumerate(grades):
        if len(judged) <= MOST_GOLD:
            found.append({str(place[name]): grade for name, grade in judged.items() if name in place})
            continue
        shown = dict.fromkeys([*gold[index][:MOST_GOLD], *(name for of_run in lists for name in of_run[index])])
        found.append({str(place[name]): judged[name] for name in shown if name in judged})
    return found


def _texts(comparison: Comparison, ids: Sequence[str], gold: Sequence[Sequence[str]]) -> tuple[list[str], int, int]:
    """The beginnings of the documents' texts, and how long these are at most: of gold, and of the others.

    Half of what there is room for is the gold's; the others have none where it would be but a few words each.
    """
    documents = comparison.test_set.documents
    held = [name for name in ids if name in documents]
    if not held:
        return [], 0, 0
    first = {name for of in gold for name in of[:MOST_GOLD]}
    of_gold = _limit([len(documents[name].text) for name in held if name in first])
    of_others = _limit([len(documents[name].text) for name in held if name not in first])
    limits = {True: max(of_gold, SHORTEST_TEXT), False: of_others if of_others >= SHORTEST_TEXT else 0}
    texts = [documents[name].text[: limits[name in first]] if name in documents else "" for name in ids]
    return texts, limits[True], limits[False]


def _limit(lengths: Sequence[int]) -> int:
    """The largest of some round lengths to which texts can be cut so that there is room for all of them."""
    known = np.array(lengths, dtype=np.int64)
    fitting = (limit for limit in LIMITS if int(np.minimum(known, limit).sum()) <= ALL_TEXTS // 2)
    return next(fitting, 0)


def _titles(comparison: Comparison, ids: Sequence[str]) -> list[str]:
    documents = comparison.test_set.documents
    if not documents:
        return []
    longest = LONGEST_NAME if len(ids) < 20_000 else SHORTEST_TEXT
    return [_short(document.title, longest) if (document := documents.get(name)) else "" for name in ids]


def _coded(values: Sequence[str | None]) -> dict[str, Any]:
    """A column of few different values: the values once, and numbers; -1 where there is none."""
    names = list(dict.fromkeys(value for value in values if value))
    codes = {name: index for index, name in enumerate(names)}
    return {
        "names": [_short(name, LONGEST_NAME) for name in names],
        "at": [codes[value] if value else -1 for value in values],
    }


def _stages(ranks: Mapping[str, Mapping[str, int | None]], queries: Sequence[str]) -> dict[str, Any] | None:
    stages = sorted({stage for of in ranks.values() for stage in of})
    if not stages:
        return None
    return {"names": stages, "ranks": [[ranks.get(query, {}).get(stage) for stage in stages] for query in queries]}


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
