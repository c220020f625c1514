"""LlamaIndex's retrieval evaluation on kbeval's test set, and both tools' numbers side by side.

Nothing of LlamaIndex is imported here: what is handed in is used as its ``RetrieverEvaluator`` documents it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from kbeval.errors import KbevalError
from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.scoring import score
from kbeval.inputs import as_qrels, as_run
from kbeval.notebook import html_table

if TYPE_CHECKING:
    import pandas as pd

    from kbeval.formats.dataset import Dataset
    from kbeval.inputs import QrelsLike
    from kbeval.model import Qrels, Run

__all__ = ["Answers", "SideBySide", "embedding_qa", "evaluate", "side_by_side"]

# LlamaIndex's name -> kbeval's metric over a list of the same length, and where the two definitions part.
_SAME: dict[str, tuple[str, str]] = {
    "hit_rate": ("hit_rate@{k}", ""),
    "mrr": ("mrr", ""),
    "recall": ("recall@{k}", ""),
    "precision": ("precision@{k}", "LlamaIndex divides by the documents returned, trec_eval by k = {k}"),
    "ap": ("map", ""),
    "ndcg": ("ndcg", "LlamaIndex takes every relevant document alike, trec_eval by its grade"),
}
_CLOSE = 1e-9


@dataclass(frozen=True)
class Answers:
    """What LlamaIndex's evaluator gave.

    Attributes:
        results: for each question id its ``RetrievalEvalResult``.
        failed: for each question on which the evaluator raised, the error in one line. It raises where a retriever
            returns nothing.
    """

    results: Mapping[str, Any]
    failed: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class SideBySide:
    """The same answers by both tools.

    Attributes:
        table: one row a metric: ``metric`` (LlamaIndex's name), ``llama_index`` (the mean over the questions that it
            has a value for), ``same_questions`` (kbeval's over these), ``kbeval`` (over the whole test set),
            ``kbeval_name``, ``largest_difference`` on a question, and ``why``: where the definitions part, and how many
            questions LlamaIndex leaves out. kbeval's columns are null for a metric that it does not have.
        run: the answers as a run, for ``kbeval.compare``.
    """

    table: pl.DataFrame
    run: Run

    def to_polars(self) -> pl.DataFrame:
        """The table."""
        return self.table

    def to_pandas(self) -> pd.DataFrame:
        """The table for pandas."""
        import pandas as pd

        return pd.DataFrame(self.table.to_dict(as_series=False))

    def __repr__(self) -> str:
        return str(self.table)

    def _repr_html_(self) -> str:
        return html_table(self.table)


def embedding_qa(dataset: Dataset) -> dict[str, Any]:
    """The test set as the fields of LlamaIndex's ``EmbeddingQAFinetuneDataset``.

    Args:
        dataset: of ``kbeval.load_dataset``. For chunks, load what ``kbeval export --granularity chunk`` wrote.

    Returns:
        ``queries`` (id to text), ``corpus`` (id to text), ``relevant_docs`` (question id to the ids of its relevant
        documents, best grade first) and ``mode``: for ``EmbeddingQAFinetuneDataset(**embedding_qa(dataset))``. A
        question without a relevant document is left out: LlamaIndex raises on it.
    """
    gold = _gold(dataset)
    return {
        "queries": {query.id: query.text for query in dataset.queries if query.id in gold},
        "corpus": {document.id: document.text for document in dataset.documents},
        "relevant_docs": gold,
        "mode": "text",
    }


def evaluate(evaluator: Any, dataset: Dataset) -> Answers:
    """Asks LlamaIndex's evaluator every question of the test set, one after another.

    Args:
        evaluator: a ``RetrieverEvaluator``. Its retriever's nodes must have the ids of the data set's documents as
            ``node_id``.
        dataset: as for :func:`embedding_qa`.

    Raises:
        KbevalError: it has no ``evaluate``, or the test set no question that it could be asked.
    """
    ask = getattr(evaluator, "evaluate", None)
    if not callable(ask):
        raise KbevalError(f"evaluator: expected LlamaIndex's RetrieverEvaluator, found {type(evaluator).__name__}")
    asked = embedding_qa(dataset)
    if not asked["queries"]:
        raise KbevalError("dataset: expected a question with a relevant document, found none")
    results: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for identifier, text in asked["queries"].items():
        try:
            results[identifier] = ask(query=text, expected_ids=asked["relevant_docs"][identifier])
        except Exception as error:  # whatever a retriever raises is the outcome of its question alone
            failed[identifier] = " ".join(f"{type(error).__name__}: {error}".split())
    return Answers(results, failed)


def side_by_side(
    answers: Answers | Mapping[str, Any], qrels: Dataset | QrelsLike, *, level: int | None = None
) -> SideBySide:
    """LlamaIndex's numbers beside kbeval's, computed from the ids that LlamaIndex's results say were retrieved.

    Args:
        answers: of :func:`evaluate`, or a mapping of question id to ``RetrievalEvalResult``.
        qrels: the judgments: a data set, or whatever ``kbeval.evaluate`` takes.
        level: from which grade on a document is relevant; the data set's own, or 1, without it.

    Raises:
        KbevalError: there is no result, or a result is none of LlamaIndex's.
    """
    from kbeval.formats.dataset import Dataset

    results = answers.results if isinstance(answers, Answers) else answers
    if not isinstance(results, Mapping) or not results:
        raise KbevalError("answers: expected RetrievalEvalResult by question id, found none")
    judgments: Qrels = qrels.qrels if isinstance(qrels, Dataset) else as_qrels(qrels)
    least = level or (qrels.level if isinstance(qrels, Dataset) else 1)
    lists = {str(identifier): _retrieved(identifier, result) for identifier, result in results.items()}
    k = max(map(len, lists.values()), default=0) or 1
    run = as_run(lists, "llama_index")
    theirs: dict[str, dict[str, float]] = {}
    for identifier, result in results.items():
        for name, value in _values(identifier, result).items():
            theirs.setdefault(name, {})[str(identifier)] = value
    known = {name: spelling.format(k=k) for name, (spelling, _) in _SAME.items() if name in theirs}
    ours = score(judgments, run, [parse_metric(spelling) for spelling in known.values()], level=least)
    place = {query: at for at, query in enumerate(ours.queries)}
    rows = []
    for name, values in theirs.items():
        row: dict[str, Any] = {"metric": name, "llama_index": float(np.mean(list(values.values())))}
        why = []
        if name in known:
            metric = parse_metric(known[name]).name
            shared = [query for query in values if query in place]
            column = ours.values[metric][[place[query] for query in shared]]
            gap = np.abs(column - np.array([values[query] for query in shared])) if shared else np.zeros(0)
            row |= {
                "same_questions": float(column.mean()) if shared else None,
                "kbeval": ours.means[metric],
                "kbeval_name": metric,
                "largest_difference": float(gap.max()) if len(gap) else None,
            }
            if len(gap) and gap.max() > _CLOSE:
                why.append(_SAME[name][1].format(k=k) or "the two differ on a question: the ids are not the judgments'")
            if left_out := len(place) - len(shared):
                why.append(
                    f"LlamaIndex leaves out {left_out} of {len(place)} questions, which count 0 in kbeval's mean"
                )
        rows.append({**row, "why": "; ".join(why)})
    schema = {
        "metric": pl.String, "llama_index": pl.Float64, "same_questions": pl.Float64, "kbeval": pl.Float64,
        "kbeval_name": pl.String, "largest_difference": pl.Float64, "why": pl.String,
    }  # fmt: skip
    return SideBySide(pl.DataFrame(rows, schema=schema), run)


def _gold(dataset: Dataset) -> dict[str, list[str]]:
    return {
        query.id: [
            document
            for document, grade in sorted(query.relevant.items(), key=lambda pair: (-pair[1], pair[0]))
            if grade >= dataset.level
        ]
        for query in dataset.queries
        if any(grade >= dataset.level for grade in query.relevant.values())
    }


def _retrieved(identifier: Any, result: Any) -> list[str]:
    """The ids, each once: a retriever of chunks may name one twice."""
    ids = getattr(result, "retrieved_ids", None)
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        raise KbevalError(
            f"answers: expected a RetrievalEvalResult for question {identifier!r}, found {type(result).__name__}"
        )
    return list(dict.fromkeys(map(str, ids)))


def _values(identifier: Any, result: Any) -> dict[str, float]:
    values = getattr(result, "metric_vals_dict", None)
    if not isinstance(values, Mapping):
        raise KbevalError(f"answers: expected metric_vals_dict in the result for question {identifier!r}, found none")
    return {str(name): float(value) for name, value in values.items()}
