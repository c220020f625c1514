"""The program as its users run it: a process of its own, in a folder of its own."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from scripted_server import ScriptedServer, serve

from kbeval.cli.app import _run
from kbeval.engines.base import BuildContext
from kbeval.progress import Progress, Silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from playwright.sync_api import Browser

    from kbeval.model import Document
    from kbeval.store import Store

TINY_DOCUMENTS = {
    "refunds": ("Refunds", "How money goes back to a customer.", "A cashier may give money back up to fifty pounds."),
    "payouts": ("Payouts", "When we pay you.", "Card takings arrive on your bank account two working days later."),
    "printer": ("Receipt printer", "Paper and blink codes.", "A red light means that the paper roll has run out."),
    "sign-in": ("Sign in", "Passcodes and keys.", "Six digits unlock the till; a hardware key unlocks the office."),
}
TINY_QUESTIONS = {
    "q1": ("How much money may a cashier give back?", "refunds", "near"),
    "q2": ("When do takings reach the bank?", "payouts", "near"),
    "q3": ("Why does the machine blink crimson?", "printer", "far"),
    "q4": ("How many digits has a passcode?", "sign-in", "mid"),
}


@dataclass(frozen=True)
class Result:
    """What a finished command left behind."""

    code: int
    out: str
    err: str


class Kbeval:
    """Runs ``python -m kbeval`` in a folder, with nothing of the surrounding environment's settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("KBEVAL_", "COHERE_", "OPENAI_"))
        }

    def __call__(self, *arguments: object, timeout: float = 180, **environment: str) -> Result:
        finished = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in finished.stderr, finished.stderr
        return Result(finished.returncode, finished.stdout, finished.stderr)

    @staticmethod
    def command(*arguments: object) -> list[str]:
        return [sys.executable, "-m", "kbeval", *map(str, arguments)]

    def refused(self, *arguments: object, **environment: str) -> str:
        """Runs a command that must end with exit code 2 and one clear line, and returns that line."""
        result = self(*arguments, **environment)
        assert result.code == 2, (result.out, result.err)
        lines = [line for line in result.err.splitlines() if line.startswith("kbeval: error: ")]
        assert len(lines) == 1, result.err
        return lines[0].removeprefix("kbeval: error: ")


class Within(Kbeval):
    """The same within this process, for tests of what a command says: to start Python and import takes longer than it.

    What a process of its own does (signals, streams that are closed, loading a user's modules) is tested in one.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder)
        self.patch = patch

    def __call__(self, *arguments: object, timeout: float = 180, **environment: str) -> Result:
        out, err = io.StringIO(), io.StringIO()
        for name in set(os.environ) - set(self.environment):
            self.patch.delenv(name)
        for name, value in environment.items():
            self.patch.setenv(name, value)
        self.patch.setattr(sys, "argv", ["kbeval", *map(str, arguments)])
        self.patch.chdir(self.folder)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _run()
        return Result(code, out.getvalue(), err.getvalue())


@pytest.fixture
def kbeval(tmp_path: Path) -> Kbeval:
    folder = tmp_path / "here"
    folder.mkdir()
    return Kbeval(folder)


@pytest.fixture
def within(kbeval: Kbeval, monkeypatch: pytest.MonkeyPatch) -> Within:
    """The program within this process, in the same folder."""
    return Within(kbeval.folder, monkeypatch)


@pytest.fixture
def tiny(kbeval: Kbeval) -> Kbeval:
    """A project of four documents and four questions."""
    import orjson

    seed = kbeval.folder / "corpus" / "seed_docs"
    seed.mkdir(parents=True)
    for name, (title, description, text) in TINY_DOCUMENTS.items():
        (seed / f"{name}.md").write_text(
            f"---\ntitle: {title}\ndescription: {description}\ndomain: {name}\n---\n{text}\n"
        )
    questions = [
        {
            "id": name,
            "text": text,
            "gold_chunks": {},
            "gold_documents": {gold: 1},
            "source": "authored",
            "style": style,
            "domain": gold,
        }
        for name, (text, gold, style) in TINY_QUESTIONS.items()
    ]
    (kbeval.folder / "corpus" / "questions.cache.json").write_bytes(orjson.dumps({"format": 1, "questions": questions}))
    (kbeval.folder / "kbeval.toml").write_text("")
    return kbeval


@pytest.fixture
def beir(kbeval: Kbeval) -> Path:
    """A small data set in plain BEIR layout, beside the working folder."""
    folder = kbeval.folder.parent / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "Refunds", "text": "money back"}\n'
        '{"_id": "d2", "title": "Payouts", "text": "takings on the bank account"}\n'
        '{"_id": "d3", "title": "Printer", "text": "paper roll"}\n'
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "how do I give money back"}\n{"_id": "q2", "text": "paper is out"}\n'
    )
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t1\n")
    return folder


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    """An open evaluation database, one for all tests: whoever writes to it makes a table of its own."""
    from kbeval.store import open_store

    with open_store() as opened:
        yield opened


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Callable[..., BuildContext]:
    """Makes the context in which an engine is built over some documents."""

    def make(documents: Sequence[Document], progress: Progress | None = None) -> BuildContext:
        return BuildContext(documents=documents, store=lambda: store, progress=progress or Silent(), root=tmp_path)

    return make


@pytest.fixture
def scripted_server() -> Iterator[ScriptedServer]:
    """A web server on 127.0.0.1 that says what the test tells it to."""
    with serve() as script:
        yield script


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium: KBEVAL_CHROMIUM, or the one on the path. Its driver holds an event loop, so no longer than it must."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("KBEVAL_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip("there is no Chromium (KBEVAL_CHROMIUM, or chromium on the path)")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield started
        started.close()
