"""Every spelling of a metric that DESIGN promises, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from kbeval.errors import KbevalError
from kbeval.evaluation.metrics import families, parse_metric, parse_metrics
from kbeval.evaluation.metrics.registry import register

SPELLINGS = {
    # kbeval
    "hit_rate@5": "hit_rate@5",
    "precision@5": "precision@5",
    "recall@20": "recall@20",
    "mrr": "mrr",
    "mrr@10": "mrr@10",
    "map": "map",
    "map@10": "map@10",
    "ndcg": "ndcg",
    "ndcg@10": "ndcg@10",
    "r-precision": "r-precision",
    "f1": "f1",
    "f1@5": "f1@5",
    "bpref": "bpref",
    "rbp.95": "rbp.95",
    "judged@10": "judged@10",
    "domain_accuracy@5": "domain_accuracy@5",
    # kbeval's label
    "Hit@5": "hit_rate@5",
    # ir_measures
    "Success@5": "hit_rate@5",
    "P@5": "precision@5",
    "Precision@5": "precision@5",
    "R@20": "recall@20",
    "RR": "mrr",
    "RR@10": "mrr@10",
    "MRR": "mrr",
    "AP": "map",
    "AP@10": "map@10",
    "MAP": "map",
    "nDCG": "ndcg",
    "nDCG@10": "ndcg@10",
    "Rprec": "r-precision",
    "SetF": "f1",
    "Bpref": "bpref",
    "RBP(p=0.8)": "rbp.8",
    "Judged@10": "judged@10",
    "P(rel=2)@5": "precision(rel=2)@5",
    "map(rel=2)@10": "map(rel=2)@10",
    "AP(rel=2)": "map(rel=2)",
    "RBP(rel=2, p=0.80)": "rbp(rel=2).8",
    # trec_eval, as asked for and as printed
    "success.5": "hit_rate@5",
    "success_5": "hit_rate@5",
    "P.5": "precision@5",
    "P_5": "precision@5",
    "recall_20": "recall@20",
    "recip_rank": "mrr",
    "map_cut_10": "map@10",
    "map_cut.10": "map@10",
    "ndcg_cut_10": "ndcg@10",
    "ndcg_cut.10": "ndcg@10",
    "set_F": "f1",
    "rbp.p=0.8": "rbp.8",
    "rbp_0.80": "rbp.8",
    # ranx
    "map@10-l2": "map(rel=2)@10",
    "rbp.8-l2": "rbp(rel=2).8",
}


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS.items())
def test_every_spelling_is_read_in_any_case(spelling: str, name: str) -> None:
    for text in (spelling, spelling.lower(), spelling.upper(), f"  {spelling} "):
        assert parse_metric(text).name == name
    assert parse_metric(parse_metric(spelling).name) == parse_metric(spelling)


REFUSED = {
    "ndgc@10": ["unknown metric 'ndgc@10'", "nearest: ndcg", "hit_rate@k", "rbp.P"],
    "accuracy@1": ["unknown metric", "known: "],
    "hits@5": ["unknown metric 'hits@5'"],  # ranx: a number of documents
    "set_P": ["unknown metric"],
    "P.5x": ["unknown metric"],
    "": ["unknown metric ''"],
    "precision@0": ["from 1 to 999999999", "'0'"],
    "precision@-5": ["from 1 to 999999999", "'-5'"],
    "precision@": ["from 1 to 999999999"],
    "precision@1.5": ["from 1 to 999999999"],
    "precision@٣": ["from 1 to 999999999"],
    "ndcg_": ["from 1 to 999999999"],
    "hit_rate": ["hit_rate needs a cut-off, as in hit_rate@10"],
    "P": ["p needs a cut-off, as in precision@10"],
    "recall": ["needs a cut-off"],
    "judged": ["needs a cut-off"],
    "domain_accuracy": ["needs a cut-off"],
    "ndcg_cut": ["ndcg_cut needs a cut-off"],  # trec_eval: nine cut-offs at once
    "bpref@5": ["bpref takes no cut-off"],
    "r-precision@5": ["takes no cut-off"],
    "set_F.1": ["set_f takes no cut-off"],  # trec_eval: the weight of recall
    "recip_rank_10": ["recip_rank takes no cut-off"],
    "RBP(p=0.8)@10": ["rbp takes no cut-off"],
    "rbp": ["state the persistence, as in rbp.8 or rbp(p=0.8)"],
    "rbp@95": ["rbp takes no cut-off"],
    "rbp.0": ["between 0 and 1"],
    "rbp.1.0": ["between 0 and 1"],
    "rbp(p=95)": ["between 0 and 1"],
    "rbp(p=1)": ["between 0 and 1"],
    "rbp(p=0.8).9": ["stated twice"],
    "ndcg(rel=2)": ["a relevance level never changes ndcg"],
    "ndcg@10-l2": ["a relevance level never changes ndcg"],
    "judged(rel=2)@10": ["never changes judged"],
    "map(rel=0)": ["the relevance level must be a whole number from 1 to 999999999, found '0'"],
    "map(rel=-1)": ["from 1 to 999999999"],
    "map(rel=1.5)": ["from 1 to 999999999"],
    "map(rel=2)-l2": ["stated twice"],
    "map(rel=2,rel=3)": ["expected rel=N in the parentheses, found 'rel=3'"],
    "map(level=2)": ["expected rel=N in the parentheses, found 'level=2'"],
    "nDCG(dcg='exp-log2')@10": ["found \"dcg='exp-log2'\""],
    "map()": ["expected rel=N"],
    "map(p=0.8)": ["expected rel=N"],
}


@pytest.mark.parametrize(("spelling", "says"), REFUSED.items())
def test_what_is_refused_and_how(spelling: str, says: list[str]) -> None:
    with pytest.raises(KbevalError) as caught:
        parse_metric(spelling)
    message = str(caught.value)
    assert "\n" not in message
    for words in says:
        assert words in message


def test_a_list_keeps_its_order_and_each_metric_once() -> None:
    found = parse_metrics("mrr, nDCG@10,RR,RBP(rel=2,p=0.8),ndcg_cut_10,rbp.8-l2,P@5")
    assert [metric.name for metric in found] == ["mrr", "ndcg@10", "rbp(rel=2).8", "precision@5"]


@pytest.mark.parametrize("text", ["", " , ,"])
def test_an_empty_list_is_refused(text: str) -> None:
    with pytest.raises(KbevalError, match="known: "):
        parse_metrics(text)


def test_names_are_written_out_without_exponents() -> None:
    assert parse_metric("rbp(p=0.00001)").name == "rbp.00001"
    assert parse_metric("rbp(p=0.00001)") == parse_metric("rbp.00001")


@pytest.mark.parametrize(
    ("spelling", "label"),
    [("hit_rate@5", "Hit@5"), ("mrr", "MRR"), ("map(rel=2)@10", "MAP(rel=2)@10"), ("rbp.95", "RBP.95")],
)
def test_labels(spelling: str, label: str) -> None:
    assert parse_metric(spelling).label == label


@pytest.mark.parametrize(
    ("spelling", "command"),
    [
        ("hit_rate@5", "trec_eval -c -q -m success.5 QRELS RUN"),
        ("precision(rel=2)@5", "trec_eval -c -q -l2 -m P.5 QRELS RUN"),
        ("mrr", "trec_eval -c -q -m recip_rank QRELS RUN"),
        ("mrr@10", "trec_eval -c -q -M10 -m recip_rank QRELS RUN"),
        ("map@10", "trec_eval -c -q -m map_cut.10 QRELS RUN"),
        ("ndcg", "trec_eval -c -q -m ndcg QRELS RUN"),
        ("f1", "trec_eval -c -q -m set_F QRELS RUN"),
        ("rbp.8", "trec_eval -c -q -m rbp.p=0.8 QRELS RUN"),
        ("f1@5", None),
        ("judged@10", None),
        ("domain_accuracy@5", None),
    ],
)
def test_each_metric_names_the_command_of_its_oracle(spelling: str, command: str | None) -> None:
    assert parse_metric(spelling).oracle_command() == command


def test_the_oracle_is_asked_at_the_test_sets_level_and_depth() -> None:
    mrr = parse_metric("mrr@10")
    assert mrr.oracle_command(level=2, depth=5) == "trec_eval -c -q -l2 -M5 -m recip_rank QRELS RUN"
    assert mrr.oracle_command(depth=50) == "trec_eval -c -q -M10 -m recip_rank QRELS RUN"
    # ndcg takes no level, and a level that the name states wins.
    assert parse_metric("ndcg").oracle_command(level=2) == "trec_eval -c -q -m ndcg QRELS RUN"
    assert parse_metric("map(rel=1)").oracle_command(level=2) == "trec_eval -c -q -m map QRELS RUN"


def test_the_registry_holds_methods_twelve_families() -> None:
    names = "bpref domain_accuracy f1 hit_rate judged map mrr ndcg precision r-precision rbp recall"
    assert " ".join(family.name for family in families()) == names
    for family in families():
        assert family.definition.endswith(".")
        assert family.source
        assert family.lowest < family.highest
    ours = {family.name for family in families() if not family.by_ranx}
    assert ours == {"bpref", "judged", "domain_accuracy"}


@pytest.mark.parametrize("change", [{"name": "rr"}, {"aliases": {}}, {"name": "new"}])
def test_a_name_is_registered_once(change: dict[str, object]) -> None:
    mrr = next(family for family in families() if family.name == "mrr")
    with pytest.raises(ValueError, match="is taken"):
        register(dataclasses.replace(mrr, **change))  # type: ignore[arg-type]
    assert parse_metric("rr").family is mrr
    with pytest.raises(KbevalError, match="unknown metric 'new'"):
        parse_metric("new")
