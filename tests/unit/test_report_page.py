"""report.html and its pictures: the numbers of results.json, the same bytes, and nothing of the data as markup."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from kbeval.evaluation.comparison import Comparison, Options, RunSource, compare_runs
from kbeval.evaluation.metrics import parse_metric
from kbeval.evaluation.slices import further_slices
from kbeval.evaluation.test_set import TestSet
from kbeval.formats.sidecar import EngineFacts, Sidecar
from kbeval.model import Document, LabelledQuery, Qrels, Run
from kbeval.order import sort_run
from kbeval.report.markdown import results_md
from kbeval.report.names import for_page, shortened
from kbeval.report.page.page import report_html
from kbeval.report.page.pictures import pictures
from kbeval.report.page.svg import MOST_LETTERS, as_png, scale, standalone
from kbeval.report.results_json import results
from kbeval.report.write import write_pictures
from kbeval.testset.twins import passages_found

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "</script><!--<script>'\"&\u202e\u2028\u0000\u000b]]>{{ 7*7 }}"


def comparison(names: tuple[str, ...] = ("a", "b", "c"), count: int = 40, evil: str = "") -> Comparison:
    chance = np.random.default_rng(3)
    queries = [f"q{i:02}{evil}" for i in range(count)]
    documents = [f"d{i:02}{evil}" for i in range(30)]
    gold = {query: documents[int(chance.integers(30))] for query in queries}
    frame = pl.DataFrame({"query": queries, "document": list(gold.values()), "grade": [1] * count})
    labelled = {
        query: LabelledQuery(
            query, f"what {query}", {gold[query]: 1}, "synthetic", ("near", "far")[i % 2] + evil, f"m{i % 3}{evil}"
        )
        for i, query in enumerate(queries)
    }
    texts = {name: Document(name, f"text {evil} " * 50, f"title {name}", filename=f"{name}.md") for name in documents}
    runs = []
    for name in names:
        rows = [
            (query, documents[int(at)], float(20 - place))
            for query in queries
            for place, at in enumerate(chance.permutation(30)[:20])
        ]
        columns = {"query": [r[0] for r in rows], "document": [r[1] for r in rows], "score": [r[2] for r in rows]}
        runs.append(RunSource(name, Run(name, sort_run(pl.DataFrame(columns)))))
    metrics = [parse_metric(name) for name in ("mrr", "hit_rate@1", "hit_rate@3", "hit_rate@10", "ndcg@10")]
    test_set = TestSet(Qrels(frame.sort("query")), labelled=labelled, documents=texts)
    return compare_runs(test_set, runs, Options(metrics=metrics, primary=metrics[0]))


class Reader(HTMLParser):
    """Collects what a browser would see: elements, their attributes, the data block."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.data = ""
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag == "script" and dict(attrs).get("id") == "data"

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data += data


def data_of(page: bytes) -> dict[str, Any]:
    return json.loads(Reader(page.decode()).data)  # type: ignore[no-any-return]


def test_numbers_are_those_of_results_json() -> None:
    compared = comparison()
    expected = results(compared)
    data = data_of(report_html(compared))
    for run in data["runs"]:
        assert len(run["values"]) == 40
        mean = sum(run["values"]) / 40
        assert mean == pytest.approx(expected["runs"][run["name"]]["metrics"]["mrr"], abs=1e-11)
    # The dots' titles say the means and intervals that they stand at.
    metrics = next(picture for picture in pictures(compared) if picture.name == "metrics")
    for name, of in expected["runs"].items():
        for label, metric in (("MRR", "mrr"), ("Hit@10", "hit_rate@10")):
            assert f"{name} {label}: {of['metrics'][metric]:.3f} [" in str(metrics.svg)
    differences = next(picture for picture in pictures(compared) if picture.name == "differences")
    for pair, verdict in zip(compared.pairs, expected["verdicts"], strict=True):
        for stratum, of in verdict["by_stratum"].items():
            # Every question is a cluster of its own gold document's, so only the interval is results.json's.
            low, high = (f"{end + 0.0:.3f}" for end in of["ci95"])
            assert re.search(rf"{pair.a} − {pair.b}, {stratum} .*\[{low}, {high}\]", str(differences.svg)), (low, high)


def test_lists_are_the_runs() -> None:
    compared = comparison()
    data = data_of(report_html(compared))
    ids = data["documents"]["id"]
    for run, shown in zip(compared.runs, data["runs"], strict=True):
        ends = np.cumsum(shown["lengths"])
        for index, end in enumerate(ends):
            assert [ids[at] for at in shown["documents"][end - 20 : end]] == run.ranked[index]
        assert shown["first"] == run.first_ranks.tolist()


def test_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    program = (
        "import sys, hashlib; from test_report_page import comparison, report_html;"
        "print(hashlib.sha256(report_html(comparison())).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path), "TZ": zone, "HOME": str(tmp_path)},
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }  # fmt: skip
    assert len(digests) == 1


def test_data_is_never_markup() -> None:
    tame, wild = comparison(), comparison(("a" + EVIL, "b", "c"), evil=EVIL)
    page = report_html(wild).decode()
    seen, plain = Reader(page), Reader(report_html(tame).decode())
    assert seen.comments == []
    assert [tag for tag, _ in seen.elements if tag in ("script", "style")] == ["style", "script", "script"]
    assert {key for _, attributes in seen.elements for key in attributes} == {
        key for _, attributes in plain.elements for key in attributes
    }
    assert "49" not in re.findall(r"\]\]&gt;(\d+)", page)
    assert not re.search(r"(?:src|href)=\"(?!#|data:,)", page)
    data = json.loads(seen.data)
    assert data["runs"][0]["name"] == "a" + EVIL.replace("\u202e", " ")
    assert data["queries"]["text"][0] == f"what q00{EVIL}"
    for picture in pictures(wild):
        root = ElementTree.fromstring(standalone(picture.svg))
        assert {each.tag.rpartition("}")[2] for each in root.iter()} <= {
            "svg", "title", "desc", "style", "rect", "g", "text", "line", "circle", "path", "polyline",
        }  # fmt: skip


def test_pictures_as_files(tmp_path: Path) -> None:
    compared = comparison()
    written = {path.name: path for path in write_pictures(compared, tmp_path)}
    assert {"metrics.svg", "differences.svg", "by-k-hit.svg", "by-query-1.svg", "first-ranks.svg"} <= set(written)
    assert written["results.tex"].read_text().count(r"\begin{tabular}") >= 4
    assert "latency.svg" not in written  # no sidecar
    pytest.importorskip("resvg_py")
    png = as_png(written["metrics.svg"].read_bytes())
    assert png is not None
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20]) == 840  # twice 420


def test_one_run_has_a_page_without_verdicts() -> None:
    page = report_html(comparison(("only",))).decode()
    assert '<ul class="verdicts">' not in page
    assert "only: 40 questions, 0 errored, 0 missing" in page


def test_slices_by_domain_and_type() -> None:
    found = further_slices(comparison().test_set)
    assert [(each.by, each.name, len(each.rows)) for each in found] == [
        ("domain", "m0", 14), ("domain", "m1", 13), ("domain", "m2", 13),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.32, 0.71], [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
        ([0.0, 1.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ([0.5, 0.5], [0.5, 0.501, 0.502, 0.503, 0.504, 0.505]),
    ],
)
def test_scales_end_at_round_values(values: list[float], ticks: list[float]) -> None:
    assert scale(values, 0, 100).ticks() == pytest.approx(ticks)


def test_passages_found_again() -> None:
    # 12 words hold 9 shingles of 4; of those the other document holds the first 6 words' 3.
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    texts = {"a": [" ".join(words)], "b": ["before " + " ".join(words[:6]) + " after"], "c": ["else"]}
    shares = passages_found([("a", "b"), ("a", "a"), ("a", "c"), ("a", "ghost"), ("c", "a")], texts)
    assert shares[("a", "b")] == pytest.approx(3 / 9)
    assert shares[("a", "a")] == 1
    assert shares[("a", "c")] == shares[("a", "ghost")] == shares[("c", "a")] == 0


def deep(depth: int | None = None) -> Comparison:
    """Up to 36 documents a list, of which the page shows twenty; ``d1`` is relevant to q1, and so on."""
    judged = [("q1", "d1", 1), ("q1", "x30", 0), ("q2", "d2", 1), ("q3", "d3", 1), ("q4", "d4", 1)]
    many = [("q5", f"g{n:02}", 1) for n in range(30)]
    qrels = Qrels(pl.DataFrame([*judged, *many], schema=["query", "document", "grade"], orient="row"))
    lists = {
        # The gold is at 36, behind one document that was judged not relevant at 31, and 34 that were not judged.
        "q1": [f"x{n:02}" for n in range(35)] + ["d1"],
        # Its gold is in the list of q4 alone, at 26.
        "q2": ["x00"],
        "q3": ["x00", "x01"],
        "q4": ["d4", *(f"x{n:02}" for n in range(24)), "d2"],
        "q5": ["g00"],
    }
    rows = [(query, name, 100.0 - at) for query, names in lists.items() for at, name in enumerate(names)]
    frame = sort_run(pl.DataFrame(rows, schema=["query", "document", "score"], orient="row"))
    metric = parse_metric("mrr")
    options = Options(metrics=[metric], primary=metric, depth=depth)
    return compare_runs(TestSet(qrels), [RunSource("a", Run("a", frame))], options)


@pytest.mark.parametrize("depth", [None, 5])
def test_reasons_are_those_of_the_whole_list(depth: int | None) -> None:
    data = data_of(report_html(deep(depth)))
    reasons = {
        query: {words for bit, words in enumerate(data["reasons"]) if flags >> bit & 1}
        for query, flags in zip(data["queries"]["id"], data["runs"][0]["flags"], strict=True)
    }
    below, nowhere = "gold below the cut-off", "gold in no list of this run"
    unjudged, judged = "beaten by an unjudged document", "beaten by a document judged not relevant"
    assert reasons == {
        "q1": {below, unjudged} if depth else {below, unjudged, judged},
        "q2": {below, unjudged},  # d2 is in the index: q4 has it
        "q3": {below, nowhere, unjudged},
        "q4": set(),
        "q5": set(),
    }


def test_gold_has_its_grade_also_where_there_are_many_judgments() -> None:
    data = data_of(report_html(deep()))
    place = data["queries"]["id"].index("q5")
    assert len(data["queries"]["gold"][place]) == 20  # the most that are shown
    assert all(data["queries"]["judged"][place][str(document)] == 1 for document in data["queries"]["gold"][place])


def test_names_are_short_and_still_apart() -> None:
    assert shortened(["a", "engine"], 18) == {"a": "a", "engine": "engine"}
    numbered = shortened([f"engine_with_a_long_name_{n}" for n in range(12)], 18)
    assert numbered["engine_with_a_long_name_11"] == "engin…long_name_11"
    # They differ in the middle: what they share before it is left out.
    middle = shortened([f"{'x' * 20}{n}{'y' * 30}" for n in "ab"], 18)
    assert middle["x" * 20 + "a" + "y" * 30].startswith("…a")
    # Neither tells these apart.
    last = shortened(["x" * 20 + "y" * 20 + n + "z" * 20 for n in ("a", "b")] + ["q" * 50], 8)
    for found in (numbered, middle, last):
        assert len(set(found.values())) == len(found)
        assert all(len(short) <= 18 for short in found.values())
    legend = str(next(p for p in pictures(comparison(tuple(numbered)[:3])) if p.name == "metrics").svg)
    for short in shortened(list(numbered)[:3], MOST_LETTERS).values():
        assert f">{short}</text>" in legend


def test_a_name_does_not_turn_the_sentence_around_it() -> None:
    hebrew = "\u05de\u05e0\u05d5\u05e2"
    shown = for_page(comparison(("a\u202eb", hebrew, "plain")))
    assert [run.name for run in shown.runs] == ["a b", f"\u2068{hebrew}\u2069", "plain"]
    assert {name for pair in shown.pairs for name in (pair.a, pair.b)} == {run.name for run in shown.runs}
    assert [run.name for run in for_page(shown).runs] == [run.name for run in shown.runs]
    assert [run.name for run in for_page(comparison(("a\u202eb", "a b", "c"))).runs] == ["a b", "a b′", "c"]
    page = report_html(comparison(("a\u202eb", hebrew, "plain"))).decode()
    assert "\u202e" not in page
    assert "\u202e" not in results_md(comparison(("a\u202eb", hebrew, "plain")))


def test_a_run_has_the_same_mark_in_every_picture() -> None:
    compared = comparison()
    first, second, third = compared.runs
    facts = EngineFacts(name="b", type="x")
    times = {query: {"total": 5.0} for query in compared.test_set.queries}
    sidecar = Sidecar(engine=facts, k=20, corpus_hash="c", queries_hash="q", latencies_ms=times)
    partial = replace(first, asked=np.arange(3))
    drawn = {
        picture.name: str(picture.svg)
        for picture in pictures(replace(compared, runs=[partial, replace(second, sidecar=sidecar), third], pairs=[]))
    }
    # b is the second of three, and keeps the second mark where a is left out.
    for name in ("metrics", "latency"):
        assert re.search(r'class="f1"[^>]*><title>b ', drawn[name]), name
        assert not re.search(r'class="f0"[^>]*><title>b ', drawn[name]), name


def test_the_level_of_significance_is_said_where_it_is_not_the_usual_one() -> None:
    compared = comparison(("a", "b"))
    assert "alpha" not in results(compared)["test_set"]
    assert "held against" not in results_md(compared)
    other = replace(compared, options=replace(compared.options, alpha=0.2))
    other = replace(other, pairs=[replace(pair, level=0.2) for pair in other.pairs])
    assert results(other)["test_set"]["alpha"] == 0.2
    assert "; held against .2)" in results_md(other)
    assert "level of significance 0.2" in results_md(other)
