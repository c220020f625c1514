"""What goes wrong, as the user sees it: errors that are outcomes, and input that is refused in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval, Within

FAILING = """
BROKEN = {"How much money may a cashier give back?", "When do takings reach the bank?"}

def fails(query, k):
    if query in BROKEN:
        raise RuntimeError("model\\nexploded at postgresql://user:hunter2secret@host/db")
    if "crimson" in query:
        return []
    return ["sign-in", "refunds"]

def rising(query, k):
    return [("refunds", 1.0), ("payouts", 2.0)]

def silent(query, k):
    return ["refunds", "refunds", "payouts", "not-in-the-corpus"]
"""


@pytest.fixture
def failing(tiny: Kbeval) -> Kbeval:
    (tiny.folder / "mine.py").write_text(FAILING)
    return tiny


def test_an_error_is_an_outcome_a_miss_and_shown(failing: Kbeval) -> None:
    result = failing("run", "--engine", "python:mine:fails")
    assert result.code == 1
    assert "fails: 4 questions, 2 errored, 1 answered with nothing" in result.out
    sidecar = json.loads((failing.folder / "runs" / "fails.json").read_bytes())
    assert set(sidecar["errors"]) == {"q1", "q2"}
    assert sidecar["errors"]["q1"].startswith("RuntimeError: model exploded at")
    assert "hunter2secret" not in json.dumps(sidecar) + result.out + result.err
    assert (sidecar["counts"]["errored"], sidecar["counts"]["empty"], sidecar["counts"]["answered"]) == (2, 1, 1)
    # It never answered q1 to q3; q4's gold document was its first: MRR 1/4 over all four.
    compared = failing("compare", "runs/fails.trec")
    assert compared.code == 1
    assert "4 questions, 2 errored, 1 missing" in compared.out
    results = json.loads((failing.folder / "results" / "results.json").read_bytes())
    assert results["runs"]["fails"]["metrics"]["mrr"] == 0.25
    assert (results["runs"]["fails"]["errored"], results["runs"]["fails"]["missing"]) == (2, 1)
    report = (failing.folder / "results" / "results.md").read_text()
    assert "RuntimeError: model exploded" in report
    lines = [json.loads(line) for line in (failing.folder / "results" / "per_query.jsonl").read_text().splitlines()]
    assert {line["query_id"]: line["runs"]["fails"]["error"] is not None for line in lines} == {
        "q1": True,
        "q2": True,
        "q3": False,
        "q4": False,
    }


def test_repeats_and_strangers_are_counted(failing: Kbeval) -> None:
    result = failing("run", "--engine", "mine=python:mine:silent")
    assert result.code == 0
    assert "4 results repeated a document" in result.err
    assert "a higher score than one before it" not in result.err
    rising = failing("run", "--engine", "rising=python:mine:rising")
    assert "rising: 4 answers hold a document with a higher score than one before it" in rising.err
    lines = (failing.folder / "runs" / "rising.trec").read_text().splitlines()
    assert [line.split()[2] for line in lines[:2]] == ["refunds", "payouts"]
    assert "it returned ids that are no document's of the corpus: 1, 'not-in-the-corpus' for one" in result.err
    first = (failing.folder / "runs" / "mine.trec").read_text().splitlines()[0]
    assert first.split()[:4] == ["q1", "Q0", "refunds", "1"]


def test_an_engine_that_exits_or_prints_ends_and_soils_nothing(failing: Kbeval) -> None:
    (failing.folder / "rude.py").write_text(
        "import sys\n\ndef leaves(query, k):\n    sys.exit(0)\n\n"
        "def cancels(query, k):\n    import asyncio\n    raise asyncio.CancelledError()\n\n"
        "def talks(query, k):\n    print('chatter')\n    return ['refunds']\n\n"
        "def stays(query, k):\n    import threading, time\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n    return ['refunds']\n"
    )
    left = failing("run", "--engine", "python:rude:leaves")
    assert left.code == 1
    assert "leaves: 4 questions, 4 errored" in left.out
    assert "SystemExit" in left.out
    assert "cancels: 4 questions, 4 errored" in failing("run", "--engine", "python:rude:cancels").out
    talked = failing("run", "--engine", "python:rude:talks")
    assert talked.code == 0
    assert "chatter" not in talked.out
    assert "chatter" in talked.err
    # A thread that it leaves behind keeps nobody waiting.
    assert failing("run", "--engine", "python:rude:stays", timeout=60).code == 0


def test_an_engine_that_always_fails_cannot_be_judged(failing: Kbeval) -> None:
    (failing.folder / "mine.py").write_text("def fails(query, k):\n    raise RuntimeError('no')\n")
    assert failing("run", "--engine", "python:mine:fails").code == 1
    assert "fails" in failing.refused("compare", "runs/fails.trec")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["run", "--engine", "nosuch"], ["'nosuch'", "a, b, bm25", "python:MODULE:OBJECT"]),
        (["run", "--engine", "hybird"], ["nearest: 'hybrid'"]),
        (["run"], ["expected --engine"]),
        (["run", "--engine", "bm25", "--engine", "bm25"], ["'bm25' twice"]),
        (["run", "--engine", "a", "--set", "candidats=5"], ["nearest: 'candidates'", "candidats"]),
        (["run", "--engine", "a", "--set", "candidates=many"], ["candidates", "'many'"]),
        (["run", "--engine", "a", "--set", "reranker=cohere:rerank-v3.5"], ["COHERE_API_KEY"]),
        (["run", "--engine", "b", "--dsn", "postgresql://u:hunter2secret@127.0.0.1:1/x"], ["127.0.0.1"]),
        (["compare", "missing.trec"], ["missing.trec"]),
        (["compare", "missing.trec", "--qrels", "no.tsv"], ["no.tsv"]),
        (["run", "--engine", "bm25", "--dataset", "corpus/seed_docs"], ["seed_docs", "corpus.jsonl"]),
        (["run", "--engine", "bm25", "--config", "other.toml"], ["other.toml"]),
        (["run", "--engine", "bm25", "--set", "k1=1"], ["there is none: nothing can be set here"]),
        (["run", "--engine", "a", "--set", "chunk_words=10", "--set", "chunk_overlap=10"], ["below chunk_words"]),
        (["run", "--engine", "bm25", "--k", "0"], ["--k", "greater than or equal to 1"]),
        (["run", "--engine", "a", "--k", "9" * 30], ["--k"]),
        (["compare", "x.trec", "--alpha", "1"], ["--alpha", "less than or equal to 0.5"]),
        (["compare", "x.trec", "--alpha", "nan"], ["--alpha", "less than or equal to 0.5"]),
        (["run", "--engine", "bm25", "--timeout", "nan"], ["--timeout", "less than or equal to 1000000"]),
        (["run", "--engine", "bm25", "--timeout", "inf"], ["--timeout", "less than or equal to 1000000"]),
        (["run", "--engine", "bm25", "--max-cost", "nan"], ["--max-cost", "greater than or equal to 0"]),
        (
            ["run", "--engine", "a", "--set", "timeout_s=inf"],
            ["timeout_s to be less than or equal to 1000000"],
        ),
        (
            ["run", "--engine", "a", "--set", "legs=bm25,bm25"],
            ["expected legs to be some of", "each once"],
        ),
        (["run", "--engine", "a", "--set", "legs=words"], ["expected legs.0 to be 'bm25', 'fulltext' or 'vector'"]),
        (["compare", "x.trec", "--depth", "9" * 30], ["--depth"]),
        (["compare", "x.trec", "--format", "xml"], ["--format", "xml"]),
        (["compare"], ["RUN"]),
        (["evalute"], ["evalute"]),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_bad_usage_is_one_line(within: Within, arguments: list[str], parts: list[str]) -> None:
    line = within.refused(*arguments)
    for part in parts:
        assert part in line
    assert "hunter2secret" not in line


@pytest.mark.parametrize(
    ("file", "content", "parts"),
    [
        ("corpus.jsonl", '{"_id": "d1", "text": "x"}\n{"_id": "d2", \n', ["corpus.jsonl, line 2", "JSON"]),
        ("corpus.jsonl", "", ["corpus.jsonl"]),
        ("corpus.jsonl", '{"text": "x"}\n', ["corpus.jsonl, line 1", "_id"]),
        ("corpus.jsonl", '{"_id": "d1", "text": "x"}\n\n{"_id": "d1", "text": "y"}\n', ["line 3", "line 1", "d1"]),
        ("queries.jsonl", '{"_id": "q1", "text": "x"}\nnonsense\n', ["queries.jsonl, line 2"]),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", ["test.tsv"]),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t0.5\n", ["test.tsv, line 2", "0.5"]),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\n", ["test.tsv, line 2"]),
    ],
)
def test_bad_data_sets_are_one_line(within: Within, beir: Path, file: str, content: str, parts: list[str]) -> None:
    (beir / file).write_text(content)
    line = within.refused("run", "--engine", "bm25", "--dataset", beir)
    for part in parts:
        assert part in line


def test_an_id_with_a_blank_is_refused_by_name_or_escaped(kbeval: Kbeval, beir: Path) -> None:
    (beir / "corpus.jsonl").write_text('{"_id": "release notes 2", "title": "Refunds", "text": "money back"}\n')
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\trelease notes 2\t1\n")
    arguments = ("evaluate", "--engine", "bm25", "--dataset", beir)
    assert "'release notes 2'" in kbeval.refused(*arguments)
    assert not (kbeval.folder / "out" / "beir" / "runs" / "bm25.trec").exists()
    result = kbeval(*arguments, "--escape-ids")
    assert result.code == 0, result.err
    assert "release%20notes%202" in (kbeval.folder / "out" / "beir" / "runs" / "bm25.trec").read_text()
    results = json.loads((kbeval.folder / "out" / "beir" / "results" / "results.json").read_bytes())
    assert results["runs"]["bm25"]["metrics"]["mrr"] == 1.0


def test_outside_a_project_it_says_what_to_do(within: Within) -> None:
    line = within.refused("evaluate")
    assert "kbeval init --example" in line
    assert "--dataset" in line


def test_an_id_with_a_blank_is_refused_before_anything_is_asked(within: Within, beir: Path) -> None:
    with (beir / "corpus.jsonl").open("a") as stream:
        stream.write('{"_id": "never found", "text": "zzz"}\n')
    assert "'never found'" in within.refused("run", "--engine", "bm25", "--dataset", beir)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("[engines]\n", "expected at least one engine, found none"),
        ('[engines."../../x"]\ntype = "bm25"\n', "expected names of letters, digits, - and _, found '../../x'"),
        ('[engines."a b"]\ntype = "bm25"\n', "found 'a b'"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_engines_with_names_that_are_no_names(within: Within, settings: str, message: str) -> None:
    (within.folder / "kbeval.toml").write_text(settings)
    assert message in within.refused("evaluate")


@pytest.mark.usefixtures("tiny")
def test_where_nothing_can_be_judged_it_says_so(within: Within, beir: Path) -> None:
    (beir / "qrels" / "test.tsv").write_text("q1\td1\t-1\nq2\td3\t0\n")
    assert "nothing can be judged" in within.refused("evaluate", "--engine", "bm25", "--dataset", beir)


def test_whoever_runs_it_in_whatever_environment(tiny: Kbeval) -> None:
    odd = {"PGSERVICE": "nowhere", "PGTZ": "Mars/Olympus", "PYTHONIOENCODING": "ascii", "HOME": "/nonexistent"}
    result = tiny("evaluate", **odd)
    assert result.code == 0, result.err


def test_a_closed_standard_error_does_not_end_the_work(tiny: Kbeval) -> None:
    import shlex
    import subprocess

    command = " ".join(map(shlex.quote, tiny.command("run", "--engine", "bm25")))
    done = subprocess.run(
        ["sh", "-c", f"{command} 2>&-"], cwd=tiny.folder, env=tiny.environment, capture_output=True, check=False
    )
    assert done.returncode == 0


def test_an_empty_corpus_and_an_empty_test_set(tiny: Kbeval, within: Within) -> None:
    (tiny.folder / "corpus" / "questions.cache.json").write_text('{"format": 1, "questions": []}')
    assert "at least one question" in within.refused("evaluate")
    for file in (tiny.folder / "corpus" / "seed_docs").iterdir():
        file.unlink()
    assert "empty corpus" in within.refused("evaluate")


def test_a_question_whose_gold_document_is_gone(tiny: Kbeval, within: Within) -> None:
    (tiny.folder / "corpus" / "seed_docs" / "printer.md").unlink()
    assert "'printer'" in within.refused("evaluate")


def test_runs_about_another_corpus_are_refused_unless_forced(tiny: Kbeval, within: Within) -> None:
    assert tiny("run", "--engine", "bm25").code == 0
    (tiny.folder / "corpus" / "seed_docs" / "new.md").write_text("One more document.\n")
    assert "expected the corpus of the data set" in within.refused("compare", "runs/bm25.trec")
    forced = within("compare", "runs/bm25.trec", "--force")
    assert forced.code == 0
    assert "warning" in forced.err


def test_a_run_with_nothing_in_common_is_an_error_and_not_a_zero(tiny: Kbeval, within: Within) -> None:
    (tiny.folder / "other.trec").write_text("z9 Q0 refunds 1 1.0 x\n")
    assert "other" in within.refused("compare", "other.trec")
    assert not (tiny.folder / "results").exists()


def test_version_help_and_module() -> None:
    import subprocess
    import sys

    from kbeval import __version__

    for arguments, text in ((["--version"], __version__), (["--help"], "evaluate")):
        done = subprocess.run([sys.executable, "-m", "kbeval", *arguments], capture_output=True, text=True, check=True)
        assert text in done.stdout


def test_init_makes_a_project_that_evaluates_and_overwrites_nothing(kbeval: Kbeval) -> None:
    (kbeval.folder / "kbeval.toml").write_text("# mine\n")
    result = kbeval("init", "--example")
    assert result.code == 0, result.err
    assert (kbeval.folder / "kbeval.toml").read_text() == "# mine\n"
    assert len(list((kbeval.folder / "corpus" / "seed_docs").glob("*.md"))) >= 24
    again = kbeval("init", "--example")
    assert "nothing to write" in again.out
    assert kbeval("evaluate", "--engine", "bm25").code == 0
