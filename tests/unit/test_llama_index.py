"""LlamaIndex's own evaluator on kbeval's test set, and both tools' numbers side by side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import kbeval
from kbeval.formats.dataset import write_dataset
from kbeval.llama_index import Answers, embedding_qa, evaluate, side_by_side
from kbeval.model import Document, LabelledQuery
from plain_trec import qrels_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NAMES = ["hit_rate", "mrr", "recall", "precision", "ap", "ndcg"]


def evaluator(lists: Mapping[str, Sequence[str]]) -> Any:
    """A real RetrieverEvaluator over a real retriever that answers each text with these documents."""
    core = pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from llama_index.core.evaluation import RetrieverEvaluator
    from llama_index.core.schema import NodeWithScore, TextNode

    class Fixed(core.base.base_retriever.BaseRetriever):  # type: ignore[misc]
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            found = lists[query_bundle.query_str]
            return [
                NodeWithScore(node=TextNode(id_=name, text=name), score=1 / (i + 1)) for i, name in enumerate(found)
            ]

    return RetrieverEvaluator.from_metric_names(NAMES, retriever=Fixed())


@pytest.fixture
def dataset(tmp_path: Path) -> kbeval.api.Dataset:
    documents = [Document(id=name, text=f"text of {name}") for name in "abcd"]
    queries = [LabelledQuery(f"q{n}", f"question {n}") for n in range(4)]
    judged = [("q0", "a", 2), ("q0", "b", 1), ("q1", "c", 1), ("q2", "d", 1), ("q3", "a", 0)]
    write_dataset(tmp_path, documents, queries, qrels_of(judged), layout="plain")
    return kbeval.load_dataset(tmp_path)


def test_the_test_set_as_llama_index_wants_it(dataset: kbeval.api.Dataset) -> None:
    assert embedding_qa(dataset) == {
        "queries": {f"q{n}": f"question {n}" for n in range(3)},  # q3 has nothing relevant
        "corpus": {name: f"text of {name}" for name in "abcd"},
        "relevant_docs": {"q0": ["a", "b"], "q1": ["c"], "q2": ["d"]},
        "mode": "text",
    }


def test_every_definition_is_the_same_or_its_difference_is_told(dataset: kbeval.api.Dataset) -> None:
    answers = evaluate(evaluator({"question 0": ["b", "c", "a"], "question 1": ["a", "c"], "question 2": []}), dataset)
    assert list(answers.failed) == ["q2"]
    assert answers.failed["q2"].startswith("ValueError: Retrieved ids and expected ids must be provided")
    found = side_by_side(answers, dataset)
    rows = {row["metric"]: row for row in found.to_polars().iter_rows(named=True)}
    assert list(rows) == NAMES
    # q0: b at 1 and a at 3, both relevant; q1: c at 2. Means over these two, and over all four questions.
    for name, theirs, ours, of_all in [
        ("hit_rate", 1.0, 1.0, 2 / 4),
        ("mrr", (1 + 1 / 2) / 2, (1 + 1 / 2) / 2, (1 + 1 / 2) / 4),
        ("recall", 1.0, 1.0, 2 / 4),
        ("ap", ((1 + 2 / 3) / 2 + 1 / 2) / 2, ((1 + 2 / 3) / 2 + 1 / 2) / 2, ((1 + 2 / 3) / 2 + 1 / 2) / 4),
        ("precision", (2 / 3 + 1 / 2) / 2, (2 / 3 + 1 / 3) / 2, (2 / 3 + 1 / 3) / 4),  # 2 returned of k = 3
    ]:
        row = rows[name]
        assert (row["llama_index"], row["same_questions"], row["kbeval"]) == pytest.approx((theirs, ours, of_all)), name
        assert "LlamaIndex leaves out 2 of 4 questions" in row["why"]
    assert rows["precision"]["largest_difference"] == pytest.approx(1 / 2 - 1 / 3)
    assert rows["precision"]["why"].startswith("LlamaIndex divides by the documents returned, trec_eval by k = 3; ")
    assert rows["mrr"]["largest_difference"] == 0
    # nDCG of q0: a has grade 2. LlamaIndex: (1/log2(2) + 1/log2(4)) / (1/log2(2) + 1/log2(3)) = 1.5 / 1.6309...
    # trec_eval: (1 + 2/2) / (2 + 1/log2(3)) = 2 / 2.6309...; q1 is 1 / log2(3) for both.
    third = 0.6309297535714575
    assert rows["ndcg"]["llama_index"] == pytest.approx((1.5 / (1 + third) + third) / 2)
    assert rows["ndcg"]["same_questions"] == pytest.approx((2 / (2 + third) + third) / 2)
    assert rows["ndcg"]["why"].startswith("LlamaIndex takes every relevant document alike, trec_eval by its grade; ")
    # and the answers go on as a run
    assert kbeval.evaluate(dataset.qrels, found.run, "mrr").means["mrr"] == rows["mrr"]["kbeval"]
    assert "kbeval_name" in found._repr_html_()
    assert list(found.to_pandas()["metric"]) == NAMES


def test_on_real_data_both_agree_on_every_question(shared_data: Path) -> None:
    dataset = kbeval.load_dataset(shared_data / "docs-qa")
    run = kbeval.read_run(shared_data / "docs-qa" / "runs" / "retrieve_base.run")
    lists: dict[str, list[str]] = {query.text: [] for query in dataset.queries}
    text = {query.id: query.text for query in dataset.queries}
    for query, document in zip(run.frame["query"], run.frame["document"], strict=True):
        lists[text[query]].append(document)
    answers = evaluate(evaluator(lists), dataset)
    assert len(answers.results) + len(answers.failed) == 100
    assert len(answers.failed) == 1  # data/README: one of its 100 questions has no line
    found = side_by_side(answers, dataset)
    rows = {row["metric"]: row for row in found.to_polars().iter_rows(named=True)}
    precision = rows.pop("precision")
    for name, row in rows.items():
        assert row["same_questions"] == pytest.approx(row["llama_index"], abs=1e-12), name
        assert row["largest_difference"] <= 1e-12, name
    # Some questions got fewer than three documents.
    hits = [
        (sum(name in query.relevant for name in of), len(of)) for query in dataset.queries if (of := lists[query.text])
    ]
    assert precision["llama_index"] == pytest.approx(sum(found / returned for found, returned in hits) / 99)
    assert precision["same_questions"] == pytest.approx(sum(found / 3 for found, _ in hits) / 99)
    assert rows["mrr"]["kbeval"] == pytest.approx(0.7267, abs=5e-5)  # data/README


def test_what_is_none_of_llama_indexs_is_one_clear_line(dataset: kbeval.api.Dataset) -> None:
    for call, message in [
        (lambda: evaluate(3, dataset), "evaluator: expected LlamaIndex's RetrieverEvaluator, found int"),
        (lambda: side_by_side({}, dataset), "answers: expected RetrievalEvalResult by question id, found none"),
        (
            lambda: side_by_side(Answers({}, {"q": "x"}), dataset),
            "answers: expected RetrievalEvalResult by question id",
        ),
        (lambda: side_by_side({"q0": 3}, dataset), "expected a RetrievalEvalResult for question 'q0', found int"),
        (
            lambda: side_by_side({"q0": SimpleNamespace(retrieved_ids=["a"])}, dataset),
            "expected metric_vals_dict in the result for question 'q0', found none",
        ),
    ]:
        with pytest.raises(kbeval.KbevalError, match=message):
            call()
