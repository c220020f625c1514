"""Comparing as a whole: what must hold whatever the runs are."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import orjson
import pytest

from kbeval.errors import KbevalError
from kbeval.evaluation.comparison import Comparison, Options, RunSource, compare_runs
from kbeval.evaluation.default_metrics import choose_metrics
from kbeval.evaluation.metrics import parse_metric, parse_metrics
from kbeval.evaluation.test_set import TestSet
from kbeval.formats.trec import read_qrels
from kbeval.report.markdown import results_md
from kbeval.report.results_json import per_query_jsonl, results, results_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

METRICS = "hit_rate@1,recall@5,mrr,mrr@5,map,ndcg,ndcg@10,precision@5,r-precision,bpref,rbp.8,judged@10,f1,f1@5"


def compare(folder: Path, qrels: str, runs: dict[str, str], *, metrics: str = METRICS) -> Comparison:
    (folder / "qrels.txt").write_text(qrels)
    sources = []
    for name, text in runs.items():
        path = folder / f"{name}.trec"
        path.write_text(text)
        sources.append(RunSource(name, path))
    chosen, primary = choose_metrics(metrics, None, "mrr")
    return compare_runs(TestSet(read_qrels(folder / "qrels.txt")), sources, Options(chosen, primary))


def files(comparison: Comparison) -> list[bytes]:
    return [
        results_md(comparison).encode(),
        results_json(comparison),
        b"".join(per_query_jsonl(comparison)),
    ]


def made(generator: random.Random, queries: int = 12, documents: int = 15) -> tuple[list[str], dict[str, list[str]]]:
    """Lines of qrels and of two runs, with ties, several grades, and queries that one run does not answer."""
    qrels = [
        f"q{q} 0 d{d} {generator.choice([-1, 0, 0, 1, 1, 2])}"
        for q in range(queries)
        for d in generator.sample(range(documents), 6)
    ]
    runs = {
        name: [
            f"q{q} Q0 d{d} 0 {generator.choice([0.5, 1, 1.25, 2, 3])} {name}"
            for q in range(queries)
            if generator.random() > 0.1
            for d in generator.sample(range(documents), 8)
        ]
        for name in ("a", "b")
    }
    return qrels, runs


def shuffled(lines: Sequence[str], generator: random.Random) -> str:
    return "".join(line + "\n" for line in generator.sample(lines, len(lines)))


@pytest.mark.parametrize("seed", range(6))
def test_permuting_input_lines_changes_no_byte(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    qrels, runs = made(generator)
    one, two = (
        files(
            compare(
                tmp_path,
                shuffled(qrels, generator),
                {name: shuffled(lines, generator) for name, lines in runs.items()},
            )
        )
        for _ in range(2)
    )
    # The ranks that the lines state are all 0, which contradicts their scores; which line is named as the first
    # depends on the file, and is no result.
    assert one[1:] == two[1:]
    assert [line for line in one[0].splitlines() if b"rank" not in line] == [
        line for line in two[0].splitlines() if b"rank" not in line
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_run_against_itself_is_identical(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    qrels, runs = made(generator)
    same = shuffled(runs["a"], generator)
    found = results(compare(tmp_path, shuffled(qrels, generator), {"a": same, "b": same}))
    assert [verdict["verdict"] for verdict in found["verdicts"]] == ["identical"]
    for pair in found["pairs"]:
        assert (pair["p"], pair["p_paired_t"], pair["delta"]) == (1.0, 1.0, 0.0)
        assert (pair["wins"], pair["losses"]) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
def test_an_unjudged_document_at_the_bottom_changes_only_three_metrics(tmp_path: Path, seed: int) -> None:
    generator = random.Random(seed)
    qrels, runs = made(generator)
    answered = sorted({line.split()[0] for line in runs["a"]})
    longer = [*runs["a"], *(f"{query} Q0 stranger 0 -9 a" for query in answered)]
    text = "".join(line + "\n" for line in qrels)
    before, after = (
        results(compare(tmp_path, text, {"a": "".join(line + "\n" for line in lines)}))["runs"]["a"]["metrics"]
        for lines in (runs["a"], longer)
    )
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"f1", "judged@10"}
    assert "f1" in changed
    assert after["f1"] < before["f1"]


@pytest.mark.parametrize("seed", range(6))
def test_metrics_keep_their_order_on_every_query(tmp_path: Path, seed: int) -> None:
    qrels, runs = made(random.Random(seed))
    comparison = compare(
        tmp_path,
        "\n".join(qrels),
        {name: "\n".join(lines) for name, lines in runs.items()},
        metrics="mrr,mrr@1,mrr@3,mrr@5,recall@1,recall@3,recall@5,recall@20,hit_rate@1,hit_rate@3",
    )
    for run in comparison.runs:
        values = run.values
        assert (values["mrr@1"] <= values["mrr@3"]).all()
        assert (values["mrr@3"] <= values["mrr@5"]).all()
        assert (values["mrr@5"] <= values["mrr"]).all()
        assert (values["recall@1"] <= values["recall@3"]).all()
        assert (values["recall@5"] <= values["recall@20"]).all()
        assert (values["hit_rate@1"] <= values["hit_rate@3"]).all()


BYTES = [b"\t", b" ", b"\r", b"\n", b"\x00", b"\xc2\xa0", b"\xff", b"#", b"nan", b"1e999", b",", b'"', b"-", b"9" * 40]


# 10,000 take three minutes; that many are run before a release: KBEVAL_FUZZ=10000.
MUTATIONS = int(os.environ.get("KBEVAL_FUZZ", "500"))


def test_mutated_inputs_give_a_value_or_one_clear_line(tmp_path: Path) -> None:
    """Damages one of two small files at one to three places, and measures what is left.

    A value is right where undamaged parts give it: MRR stays between 0 and 1 over the queries that are judged, and
    every refusal is one line that names the file.
    """
    generator = random.Random(7)
    qrels = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\n"
    run = b"q1 Q0 d2 1 2.5 tag\nq1 Q0 d1 2 1.5 tag\nq2 Q0 d3 1 0.5 tag\n"
    paths = {"qrels": tmp_path / "qrels.txt", "run": tmp_path / "run.trec"}
    options = Options([parse_metric("mrr")], parse_metrics("mrr")[0])
    outcomes = {"value": 0, "line": 0}
    refusals: set[str] = set()
    for _ in range(MUTATIONS):
        texts = {"qrels": qrels, "run": run}
        damaged = generator.choice(list(texts))
        data = texts[damaged]
        for _ in range(generator.randint(1, 3)):
            place = generator.randrange(len(data) + 1)
            data = data[:place] + generator.choice(BYTES) + data[place + generator.randint(0, 3) :]
        texts[damaged] = data
        for name, path in paths.items():
            path.write_bytes(texts[name])
        try:
            judgments = read_qrels(paths["qrels"])
            comparison = compare_runs(TestSet(judgments), [RunSource("run", paths["run"])], options)
        except KbevalError as error:
            outcomes["line"] += 1
            refusals.add(str(error))
            continue
        outcomes["value"] += 1
        mean = comparison.runs[0].mean("mrr")
        assert mean is not None
        assert 0 <= mean <= 1
        orjson.dumps(results(comparison))
    assert all("\n" not in line and len(line) > 20 for line in refusals)
    assert min(outcomes.values()) > MUTATIONS / 10
