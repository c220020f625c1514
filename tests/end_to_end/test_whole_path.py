"""The whole way of a test set: imported, judged by a model, reviewed by a person, exported, and measured on."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest
from reviewing import count, press, reviewing

from chat_server import Asked, Reply, grade, serve_chat
from kbeval.formats.labels import read_labels

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from conftest import Kbeval

RUNS = ("retrieve_base", "retrieve_level_three")
QUESTION = re.compile(r"<question (\w+)>\n(.*?)\n</question \1>", re.DOTALL)
DOCUMENT = re.compile(r"<document (\w+)>\n(.*?)\n</document \1>", re.DOTALL)


def by_shared_words(asked: Asked) -> Reply:
    """A judge whose rule is known: 3 where a text holds half of the question's distinct words, else 0."""
    question, document = QUESTION.search(asked.text), DOCUMENT.search(asked.text)
    assert question is not None
    assert document is not None
    words = set(re.findall(r"\w+", question[2].lower()))
    return grade(3 if 2 * len(words & set(re.findall(r"\w+", document[2].lower()))) >= len(words) else 0)


def test_from_import_to_verdict(kbeval: Kbeval, browser: Browser, shared_data: Path) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval, the second opinion, is not installed")
    source = shared_data / "docs-qa"
    runs = [source / "runs" / f"{name}.run" for name in RUNS]
    with serve_chat(by_shared_words) as server:
        (kbeval.folder / "kbeval.toml").write_text(
            f'[corpus]\nprovider = "beir"\npath = "{source}"\n[llm]\nbase_url = "{server.url}"\nmodel = "stub"\n'
        )
        imported = kbeval("import", source, "--source", "synthetic")
        assert imported.code == 0, imported.err
        judged = kbeval("judge", *runs, "--votes", "1")
        assert judged.code == 0, judged.err
    labels_file = kbeval.folder / "corpus" / "labels.jsonl"
    by_model = {(label.query, label.document): label.grade for label in read_labels(labels_file)}
    assert len(by_model) == server.paid

    # A person looks at what the model disputes, is killed in the middle, and goes on.
    with reviewing(kbeval, "--queue", "disputed") as (process, address):
        page = browser.new_page()
        page.goto(address)
        disputed = count(page)[1]
        for number in range(3):
            press(page, "0", number + 1)
        process.kill()
        process.wait()
    with reviewing(kbeval, "--queue", "disputed") as (process, address):
        page.goto(address)
        assert count(page) == (3, disputed - 3)
        press(page, "3", 4)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        page.close()
    labels = read_labels(labels_file)
    by_person = {(label.query, label.document): label.grade for label in labels if label.source == "human"}
    assert sorted(by_person.values()) == [0, 0, 0, 3]

    # What holds, by METHOD 6: a person before the model, the model before the gold, a dispute changes nothing.
    gold = [line.split("\t") for line in (source / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    expected = {(query, document): 3 for query, document, _ in gold}
    expected |= {pair: value for pair, value in by_model.items() if pair not in expected or value == 3}
    expected |= by_person
    assert kbeval("export").code == 0
    lines = [line.split("\t") for line in (kbeval.folder / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    assert {(query, document): int(value) for query, document, value in lines} == expected

    compared = kbeval("compare", *runs, "--format", "json")
    assert compared.code == 0, compared.err
    results = json.loads(compared.out)
    assert results["test_set"]["level"] == 2
    qrels: dict[str, dict[str, int]] = {}
    for (query, document), value in expected.items():
        qrels.setdefault(query, {})[document] = value
    assert results["test_set"]["queries"] == len(qrels) == 100
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "recall.20"}, relevance_level=2)
    for name, path in zip(RUNS, runs, strict=True):
        values = evaluator.evaluate(pytrec_eval.parse_run(path.open()))
        metrics = results["runs"][name]["metrics"]
        # a question that a run does not answer counts with 0
        assert metrics["mrr"] == pytest.approx(sum(of["recip_rank"] for of in values.values()) / 100, abs=1e-9)
        assert metrics["recall@20"] == pytest.approx(sum(of["recall_20"] for of in values.values()) / 100, abs=1e-9)
    report = (kbeval.folder / "results" / "results.md").read_text()
    assert "## With and without the gold that labels added" in report
    assert "## Lexical overlap with the gold text" in report
    assert "| retrieve_base | yes |" in report
