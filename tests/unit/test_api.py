"""The library: every accepted form gives the same numbers, every other one clear message."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kbeval

if TYPE_CHECKING:
    from pathlib import Path

QRELS = {"q1": {"d1": 1, "d2": 0}, "q2": {"d3": 2}, "q3": {"d4": 1}}
RUN = {"q1": {"d2": 2.0, "d1": 1.0}, "q2": {"d3": 0.5}}
# q1: rank 2, q2: rank 1, q3: not answered: (1/2 + 1 + 0) / 3
MRR = 0.5


def rows(nested: dict[str, dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(query, document, value) for query, found in nested.items() for document, value in found.items()]


def test_every_form_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.trec"
    path.write_text("".join(f"{q} Q0 {d} 0 {s} tag\n" for q, d, s in rows(RUN)))
    columns = list(zip(*rows(RUN), strict=True))
    forms: list[Any] = [
        RUN,
        {"q1": ["d2", "d1"], "q2": ["d3"]},
        {"q2": {"d3": np.float32(0.5)}, "q1": {"d1": 1, "d2": 2}},
        str(path),
        path,
        kbeval.read_run(path),
        pl.DataFrame({"query": columns[0], "document": columns[1], "score": columns[2]}),
        pl.DataFrame({"qid": columns[0], "docno": columns[1], "score": columns[2], "rank": [1, 2, 1]}),
        pd.DataFrame({"query_id": columns[0], "doc_id": columns[1], "score": columns[2]}),
    ]
    for form in forms:
        assert kbeval.evaluate(QRELS, form, "mrr").means == {"mrr": MRR}


def test_every_form_of_judgments(tmp_path: Path) -> None:
    tsv, trec = tmp_path / "q.tsv", tmp_path / "q.txt"
    tsv.write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{d}\t{g}\n" for q, d, g in rows(QRELS)))
    trec.write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in rows(QRELS)))
    columns = list(zip(*rows(QRELS), strict=True))
    forms: list[Any] = [
        QRELS,
        str(tsv),
        trec,
        kbeval.read_qrels(tsv),
        pl.DataFrame({"query-id": columns[0], "corpus-id": columns[1], "score": columns[2]}),
        pd.DataFrame({"qid": columns[0], "docno": columns[1], "label": [float(g) for g in columns[2]]}),
    ]
    for form in forms:
        assert kbeval.evaluate(form, RUN, ["RR"]).means == {"mrr": MRR}


def test_an_ir_datasets_id(tmp_path: Path) -> None:
    import ir_datasets
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.formats import TrecQrels
    from ir_datasets.util import LocalDownload

    path = tmp_path / "q.txt"
    path.write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in rows(QRELS)))
    ir_datasets.registry.register("kbeval-test", Dataset(TrecQrels(LocalDownload(path), {})))
    assert kbeval.evaluate("ir_datasets:kbeval-test", RUN, "mrr").means == {"mrr": MRR}
    with pytest.raises(kbeval.KbevalError, match="ir_datasets:no-such-set: cannot be read"):
        kbeval.evaluate("ir_datasets:no-such-set", RUN)


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        (QRELS, {"q1": {"d1": float("nan")}}, "run run: expected a finite score for 'q1' and 'd1', found nan"),
        (QRELS, {"q1": {"d1": float("inf")}}, "expected a finite score"),
        (QRELS, {"q1": {"d1": "high"}}, "expected a number as score, found 'high'"),
        (QRELS, {"q1": ["d1", "d1"]}, "expected each document once per query, found 'd1' twice for 'q1'"),
        (QRELS, {"q1": {1.0: 0.5}}, "run run: document: expected ids as text or whole numbers of 64 bits, found 1.0"),
        (QRELS, {"q1": {"": 0.5}}, "run run: document: expected ids, found an empty one"),
        (QRELS, {}, "run run: expected at least one query, found none"),
        (QRELS, {"q1": "d1"}, "run run: expected {document: score} or a list of documents for query 'q1', found 'd1'"),
        (QRELS, {"z": ["d1"]}, "no query in common"),
        (QRELS, 7, "expected a path, a dict or a frame, found 7"),
        (QRELS, "no/such/file.trec", "expected a readable file, found no such file"),
        (QRELS, pl.DataFrame({"query": ["q1"], "score": [1.0]}), "expected a column document"),
        (QRELS, pl.DataFrame({"query": ["q1"], "document": ["d"], "score": ["x"]}), "expected numbers in score"),
        ({"q1": {"d1": 0.5}}, RUN, "expected whole grades from -2147483647 to 2147483647, found 0.5 for 'q1' and 'd1'"),
        ({}, RUN, "qrels: expected at least one judgment, found none"),
        (
            pl.DataFrame({"query": ["q1", "q1"], "document": ["d1", "d1"], "grade": [1, 2]}),
            RUN,
            "qrels: expected one grade for 'd1' in 'q1', found 1 and 2",
        ),
    ],
)
def test_what_is_refused(qrels: Any, run: Any, message: str) -> None:
    with pytest.raises(kbeval.KbevalError, match=re.escape(message)) as caught:
        kbeval.evaluate(qrels, run, "mrr")
    assert "\n" not in str(caught.value)


def test_scores_as_frames() -> None:
    scores = kbeval.evaluate(QRELS, RUN, "mrr,hit_rate@1")
    assert scores.to_polars().rows() == [("q1", 0.5, 0.0), ("q2", 1.0, 1.0), ("q3", 0.0, 0.0)]
    assert scores.to_pandas()["mrr"].tolist() == [0.5, 1.0, 0.0]


def test_compare_and_its_frames(tmp_path: Path) -> None:
    other = {"q1": ["d1"], "q2": ["d9", "d3"], "q3": ["d4"]}
    found = kbeval.compare(QRELS, {"mine": RUN, "other": other}, metrics="mrr")
    assert found.to_polars().rows() == [("mine", 0.5), ("other", pytest.approx(2.5 / 3))]
    assert found.to_pandas().shape == (2, 2)
    assert found.per_query().rows() == [
        ("q1", "mine", "mrr", 0.5, 2),
        ("q2", "mine", "mrr", 1.0, 1),
        ("q3", "mine", "mrr", 0.0, None),
        ("q1", "other", "mrr", 1.0, 1),
        ("q2", "other", "mrr", 0.5, 2),
        ("q3", "other", "mrr", 1.0, 1),
    ]
    assert found.pairs[0].verdict.word == "cannot tell"  # three questions can show nothing
    assert "mine</td>" in found._repr_html_()
    with pytest.raises(kbeval.KbevalError, match="found neither"):
        kbeval.compare(None, {"mine": RUN})
    with pytest.raises(kbeval.KbevalError, match="at least one run"):
        kbeval.compare(QRELS, {})


def test_paths_are_named_by_their_files(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bm25.trec").write_text("q1 Q0 d1 1 1 t\n")
    found = kbeval.compare(QRELS, [tmp_path / "x" / "bm25.trec", tmp_path / "y" / "bm25.trec"], metrics="mrr")
    assert [run.name for run in found.runs] == ["x/bm25", "y/bm25"]


def test_importing_costs_nothing_and_changes_nothing() -> None:
    code = (
        "import sys, signal, os, kbeval; heavy = {'numba', 'polars', 'numpy', 'scipy', 'haystack', 'pydantic'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules);"
        "handlers = [signal.getsignal(s) for s in (2, 15)];"
        "import polars; before = dict(os.environ);"  # polars sets one for its allocator
        "import numba; settings = {k: v for k, v in vars(numba.config).items() if k.isupper()};"
        "threads = numba.get_num_threads();"
        "kbeval.compare({'q': {'d': 1}}, {'a': {'q': ['d']}, 'b': {'q': ['e']}});"
        "assert settings == {k: v for k, v in vars(numba.config).items() if k.isupper()};"
        "assert threads == numba.get_num_threads(); assert before == dict(os.environ);"
        "assert handlers == [signal.getsignal(s) for s in (2, 15)];"
        "print(sorted(dir(kbeval)) == sorted(kbeval.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_docstring_examples() -> None:
    import doctest

    import kbeval.api

    for module in (kbeval, kbeval.api):
        failed, tried = doctest.testmod(module)
        assert (failed, tried > 0) == (0, True)
