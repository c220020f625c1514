"""A person labels in a real browser; the process dies; nothing is lost."""

from __future__ import annotations

import os
import signal
import time
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING

import orjson
import pytest
from reviewing import count, press, reviewing

from kbeval.formats.labels import read_labels, write_labels
from kbeval.model import Label

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser
    from tests.end_to_end.conftest import Kbeval

DOCUMENTS = ("refunds", "payouts", "printer", "sign-in")
QUESTIONS = ("q1", "q2", "q3", "q4")


@pytest.fixture
def labelled(tiny: Kbeval) -> Kbeval:
    """The tiny project, every pair graded by a model: gold 3, the rest 0."""
    gold = {"q1": "refunds", "q2": "payouts", "q3": "printer", "q4": "sign-in"}
    write_labels(
        labels_of(tiny),
        [
            Label(q, d, 3 if gold[q] == d else 0, "llm", "model", votes=(0, 0), confidence=1.0)
            for q in QUESTIONS
            for d in DOCUMENTS
        ],
    )
    return tiny


def labels_of(project: Kbeval) -> Path:
    return project.folder / "corpus" / "labels.jsonl"


def human(project: Kbeval, by: str = "ana") -> dict[tuple[str, str], int | None]:
    return {
        (label.query, label.document): label.grade
        for label in read_labels(labels_of(project))
        if (label.source, label.by) == ("human", by)
    }


def test_ten_labels_a_reload_a_kill_and_on(labelled: Kbeval, browser: Browser) -> None:
    page = browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    with reviewing(labelled, "--queue", "agreement", "--sample", "16") as (process, address):
        page.goto(address)
        assert count(page) == (0, 16)
        for number in range(10):
            press(page, "0123"[number % 4], number + 1)
        page.reload()
        assert count(page) == (10, 6)
        process.kill()
        process.wait()
        page.keyboard.press("3")
        page.get_by_text("This was not saved").wait_for()
    assert human(labelled) == {}  # all in the journal
    with reviewing(labelled, "--queue", "agreement", "--sample", "16") as (process, address):
        assert sorted(human(labelled).values()) == [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
        problems.clear()  # the browser's own words about the connection that was cut
        page.goto(address)
        assert count(page) == (10, 6)
        press(page, "2", 11)
        press(page, "u", 10)
        for number in range(6):
            press(page, "3", 11 + number) if number < 5 else page.keyboard.press("3")
        page.get_by_text("All 16 are answered and saved.").wait_for()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        assert "6 answers by ana\n" in out
        assert "agreement: 16 of 16 done\n" in out
        assert err == ""
    assert problems == []
    assert sorted(path.name for path in labels_of(labelled).parent.iterdir()) == [
        "labels.jsonl",
        "questions.cache.json",
        "seed_docs",
    ]
    grades = human(labelled)
    assert len(grades) == 16
    assert labelled("export").code == 0
    exported = {
        (query, document): int(grade)
        for query, document, grade in (
            line.split("\t") for line in (labelled.folder / "qrels" / "test.tsv").read_text().splitlines()[1:]
        )
    }
    assert exported == grades  # a person beats the model and the gold, on every pair
    agreed = labelled("agreement", "--format", "json")
    assert agreed.code == 0, agreed.err
    found = orjson.loads(agreed.out)["agreement"][0]
    assert (found["first"], found["second"], found["pairs"], found["questions"]) == ("people", "models", 16, 4)
    page.close()


def test_by_keyboard_alone(labelled: Kbeval, browser: Browser) -> None:
    with reviewing(labelled) as (process, address):
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto(address)
        page.keyboard.press("Tab")
        while "In every" not in (name := page.evaluate("document.activeElement.textContent")) and "Every" not in name:
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.locator("#count").wait_for()
        assert count(page) == (0, 16)
        # the question and every grade are in view, whatever the document's length, and nothing is cut off sideways
        for selector in ("#question", "[data-key='0']", "[data-key='3']"):
            box = page.locator(selector).bounding_box()
            assert box is not None
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= 844
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.keyboard.press("?")
        page.locator("#help[open]").wait_for()
        page.keyboard.press("3")  # the help is open: no grade
        page.keyboard.press("Escape")
        assert count(page) == (0, 16)
        assert page.get_by_text("What others said").count() == 0
        page.keyboard.press("r")
        page.get_by_text("model (a model): grade").wait_for()
        page.keyboard.press("c")
        page.keyboard.type("grades 0 1 2 3 are letters here")
        journal = labels_of(labelled).with_name("labels.jsonl.journal")
        wait_for(lambda: journal.exists() and b"letters here" in journal.read_bytes())
        assert count(page) == (0, 16)
        page.keyboard.press("Escape")
        press(page, "2", 1)
        page.keyboard.press("/")
        page.locator("#q").fill("hardware key")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Sign in").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.locator("#count").wait_for()
        press(page, "x", 4)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, err) == (0, "")
        assert "2 answers by ana\n" in out
        page.close()
    noted = [label for label in read_labels(labels_of(labelled)) if label.why]
    assert [(label.grade, label.queue, label.why) for label in noted] == [
        (2, "seen", "grades 0 1 2 3 are letters here")
    ]
    mark = orjson.loads((labels_of(labelled).parent / "question_marks.jsonl").read_bytes())
    assert (mark["mark"], mark["by"]) == ("unanswerable", "ana")


def wait_for(condition: object, seconds: float = 20) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def post(address: str, path: str, **data: str) -> None:
    """Sends a form, as a browser without JavaScript does."""
    with urllib.request.urlopen(f"{address}{path}", urllib.parse.urlencode(data).encode(), timeout=20) as answer:
        assert answer.status == 200


def test_two_reviews_of_one_project_with_runs(labelled: Kbeval) -> None:
    (labelled.folder / "x.trec").write_text("".join(f"{q} Q0 refunds 1 1.0 x\n" for q in QUESTIONS))
    (labelled.folder / "y.trec").write_text("".join(f"{q} Q0 payouts 1 1.0 y\n" for q in QUESTIONS))
    with (
        reviewing(labelled, "x.trec", "y.trec") as (first, one),
        reviewing(labelled, "x.trec", "y.trec", "--reviewer", "ben") as (second, other),
    ):
        for number in range(1, 5):
            for address in (one, other):
                # a person says that payouts answers whatever it is asked for
                post(address, f"review/all/{number}/grade", document="payouts", grade="3", note="")
        outs = []
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
            outs.append(process.communicate(timeout=20)[0])
            assert process.returncode == 0
    # x is wrong on q2, q3, q4 and y on q1, q3, q4; y's are marked, since payouts is graded
    assert all("misses: 3 of 6 done\n" in out for out in outs)
    expected = {(query, "payouts"): 3 for query in QUESTIONS}
    assert human(labelled) == human(labelled, "ben") == expected
    result = labelled("agreement", "x.trec", "y.trec", "--format", "json")
    assert result.code == 0, result.err
    found = orjson.loads(result.out)
    # the model says 3 for q2 alone: people and model have the same grade on 1 of 4
    people, *_, two_people = found["agreement"]
    assert (people["pairs"], people["observed"], people["table"][0][3], people["table"][3]) == (
        4,
        0.25,
        0,
        [3, 0, 0, 1],
    )
    assert (two_people["kind"], two_people["observed"]) == ("two people", 1.0)
    # x has 1 on q1 alone either way; y has 1 everywhere with people's grades, and on q2 alone with the model's
    (pair,) = found["pairs"]
    assert (pair["people"]["delta"], pair["models"]["delta"]) == (-0.75, 0.0)


def test_without_the_packages_one_line_says_what_to_do(tiny: Kbeval) -> None:
    (tiny.folder / "starlette.py").write_text("raise ImportError\n")
    words = tiny.refused("review", PYTHONPATH=f"{tiny.folder}:{os.environ.get('PYTHONPATH', '')}")
    assert words == "review: expected the package starlette, found none; install it: pip install 'kbeval[review]'"
