"""What an engine depends on is killed while it is asked: every question has an outcome, and the next start is clean."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end.conftest import Kbeval

COUNT = 600
ENDPOINT = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer, written in two pieces, waits for 40 ms

    def do_GET(self):
        time.sleep(0.005)
        with open("asked.txt", "a") as log:
            log.write("1\\n")
        body = json.dumps({"hits": [{"id": "d1"}, {"id": "d2"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def many(kbeval: Kbeval) -> Kbeval:
    """A folder with a data set of many questions about five documents."""
    folder = kbeval.folder / "many"
    (folder / "qrels").mkdir(parents=True)
    words = ["till", "printer", "refund", "payout", "passcode"]
    lines = [{"_id": f"d{n}", "title": "", "text": f"the {word} of a shop"} for n, word in enumerate(words)]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    questions = [{"_id": f"q{n:04d}", "text": f"where is the {words[n % 5]} number {n}"} for n in range(COUNT)]
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in questions))
    judged = "".join(f"q{n:04d}\td{n % 5}\t1\n" for n in range(COUNT))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return kbeval


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short temporary folder of the test's own."""
    folder = Path(tempfile.mkdtemp(prefix="kbt", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL may run as another user
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


def of_postgres(process: psutil.Process, folder: Path) -> bool:
    words = process.info["cmdline"] or []
    return "postgres" in (process.info["name"] or "") and any(str(folder) in word for word in words)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def sidecar(at: Kbeval, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((at.folder / "runs" / f"{name}.json").read_bytes())
    return found


def every_question_has_an_outcome(found: dict[str, Any]) -> None:
    counts = found["counts"]
    assert counts["queries"] == COUNT
    assert counts["answered"] + counts["empty"] + counts["errored"] == COUNT
    assert 0 < counts["answered"] < COUNT
    assert found["incomplete"].startswith("the run ended after 20 questions in a row failed")
    assert len(found["errors"]) == counts["errored"]


def test_postgres_is_killed(many: Kbeval, temporary: Path) -> None:
    command = ("run", "--engine", "a=hybrid", "--dataset", "many")
    process = subprocess.Popen(
        many.command(*command),
        cwd=many.folder,
        env={**many.environment, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: lines(many.folder / "runs" / "a.journal") or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    killed = [each for each in psutil.process_iter(["name", "cmdline"]) if of_postgres(each, temporary)]
    assert killed
    for each in killed:
        with contextlib.suppress(psutil.NoSuchProcess):  # ended with its parent
            family = each.children(recursive=True)
            each.kill()
            for child in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    found = sidecar(many, "a")
    every_question_has_an_outcome(found)
    assert any("connection" in line.lower() for line in found["errors"].values())
    assert list(temporary.iterdir()) == []
    again = many(*command, "--resume", TMPDIR=str(temporary))
    assert again.code == 0, again.err
    assert sidecar(many, "a")["counts"]["answered"] == COUNT
    assert list(temporary.iterdir()) == []


def test_an_endpoint_is_killed(many: Kbeval) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (many.folder / "endpoint.py").write_text(ENDPOINT)
    (many.folder / "kbeval.toml").write_text(
        f'[engines.web]\ntype = "http"\nurl = "http://127.0.0.1:{port}/"\nmethod = "GET"\n'
        'params = { q = "{query}" }\nids = "hits[*].id"\nretries = 0\n[run]\nbackoff_s = 0.05\n'
    )

    def endpoint() -> subprocess.Popen[bytes]:
        started = subprocess.Popen([sys.executable, "endpoint.py", str(port)], cwd=many.folder)

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for(answers)
        return started

    server = endpoint()
    try:
        process = subprocess.Popen(
            many.command("run", "--engine", "web", "--dataset", "many"),
            cwd=many.folder,
            env=many.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: lines(many.folder / "asked.txt") >= 20 or process.poll() is not None)
    finally:
        server.kill()
        server.wait()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    found = sidecar(many, "web")
    every_question_has_an_outcome(found)
    before = lines(many.folder / "asked.txt")
    server = endpoint()
    try:
        again = many("run", "--engine", "web", "--dataset", "many", "--resume")
    finally:
        server.kill()
        server.wait()
    assert again.code == 0, again.err
    assert sidecar(many, "web")["counts"]["answered"] == COUNT
    # What had been answered is not asked again; one may have been on its way.
    assert lines(many.folder / "asked.txt") - before <= COUNT - found["counts"]["answered"] + 1
