"""How long a person waits for the review page, with many judgments in the project.

Usage: python benchmarks/review_latency.py [--judgments 10000] [--keys 200] [--chromium PATH]

Makes a project in a temporary folder: a tenth as many questions as judgments, documents of 300 words, and a model's
grade for ten documents of each question. Starts ``kbeval review`` on it and opens the page in Chromium. Printed are the
time until the address is there, until the page is shown, and from a key to the next document on the screen; each key is
a grade, written to the journal and synced. Then the review is ended, which folds all of it into the labels.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kbeval.formats.beir import documents_as_jsonl
from kbeval.formats.labels import read_labels, write_labels
from kbeval.formats.questions import write_questions
from kbeval.model import Document, Label, Question

WORDS = 300
PER_QUESTION = 10
# From a key to the frame in which another document is on the screen.
PRESS = """key => new Promise(done => {
  const start = performance.now(), before = document.getElementById("app");
  document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  const look = () => document.getElementById("app") === before
    ? requestAnimationFrame(look) : requestAnimationFrame(() => done(performance.now() - start));
  look();
})"""


def make_project(folder: Path, judgments: int) -> None:
    """Writes corpus, questions and labels."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(5_000)]
    count = judgments // PER_QUESTION
    names = [f"doc-{number:05}" for number in range(count)]
    documents = [
        Document(name, " ".join(draw.choices(words, k=WORDS)), " ".join(draw.choices(words, k=4))) for name in names
    ]
    questions = [
        Question(f"q{number:05}", " ".join(draw.choices(words, k=12)) + "?", {}, {name: 1}, "synthetic", "near")
        for number, name in enumerate(names)
    ]
    labels = [
        Label(question.id, document, draw.randint(0, 3), "llm", "model", votes=(0, 1), confidence=0.5)
        for question in questions
        for document in draw.sample(names, PER_QUESTION)
    ]
    (folder / "kbeval.toml").write_text('[corpus]\nprovider = "beir"\npath = "corpus/corpus.jsonl"\n')
    (folder / "corpus").mkdir()
    (folder / "corpus" / "corpus.jsonl").write_bytes(documents_as_jsonl(documents))
    write_questions(folder / "corpus" / "questions.cache.json", questions)
    write_labels(folder / "corpus" / "labels.jsonl", labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--judgments", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    asked = parser.parse_args()

    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        make_project(folder, asked.judgments)
        browser = driver.chromium.launch(executable_path=asked.chromium, args=["--no-sandbox"])
        page = browser.new_page()
        start = time.perf_counter()
        command = [sys.executable, "-m", "kbeval", "review", "--no-browser", "--reviewer", "ana", "--queue", "all"]
        process = subprocess.Popen([*command], cwd=folder, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address
        print(f"{asked.judgments} judgments; the address after {time.perf_counter() - start:.2f} s")
        for path in ("", "review/disputed", "review/disputed/50"):
            start = time.perf_counter()
            page.goto(address[0] + path)
            print(f"page /{path}: {1000 * (time.perf_counter() - start):.0f} ms")
        taken = sorted(page.evaluate(PRESS, "0123"[number % 4]) for number in range(asked.keys))
        at = {share: taken[min(len(taken) - 1, int(share * len(taken)))] for share in (0.5, 0.95)}
        print(
            f"{len(taken)} keys, to the next document on the screen: median {at[0.5]:.0f} ms, 95 % within "
            f"{at[0.95]:.0f} ms, slowest {taken[-1]:.0f} ms, mean {statistics.fmean(taken):.0f} ms"
        )
        browser.close()
        start = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        process.wait()
        people = sum(label.source == "human" for label in read_labels(folder / "corpus" / "labels.jsonl"))
        print(f"ended in {time.perf_counter() - start:.2f} s; {people} grades are in labels.jsonl")


if __name__ == "__main__":
    main()
