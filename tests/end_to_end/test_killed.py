"""A kbeval that is ended in the middle leaves no server process and no data folder behind."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end.conftest import Kbeval

SLOW = "import time\n\ndef search(query, k):\n    time.sleep(60)\n    return []\n"


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short temporary folder of the test's own, so that whatever is left in it is this test's."""
    folder = Path(tempfile.mkdtemp(prefix="kbt", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def hanging_address() -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def servers(temporary: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["name", "cmdline"]):
        words = process.info["cmdline"] or []
        if "postgres" in (process.info["name"] or "") and any(str(temporary) in word for word in words):
            found.append(process)
    return found


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


@pytest.fixture(params=["ingest", "run"])
def started(
    request: pytest.FixtureRequest, tiny: Kbeval, temporary: Path, hanging_address: str
) -> Iterator[subprocess.Popen[str]]:
    """A kbeval that hangs while it embeds the corpus, or while an engine is asked, with its database up."""
    (tiny.folder / "slow.py").write_text(SLOW)
    arguments = ["run", "--engine", "b", "--engine", "python:slow:search"]
    environment = {"TMPDIR": str(temporary)}
    if request.param == "ingest":
        arguments = ["run", "--engine", "a", "--set", "embedder=openai:some-model"]
        environment |= {"KBEVAL_EMBED_BASE_URL": hanging_address, "OPENAI_API_KEY": "not-a-real-key"}
    errors = (tiny.folder / "errors.txt").open("w+")
    process = subprocess.Popen(
        tiny.command(*arguments),
        cwd=tiny.folder,
        env={**tiny.environment, **environment},
        stdout=subprocess.DEVNULL,
        stderr=errors,
        text=True,
    )
    wait_for(lambda: servers(temporary) or process.poll() is not None)
    wait_for(lambda: "loading documents" in (tiny.folder / "errors.txt").read_text() or process.poll() is not None)
    time.sleep(0.5)
    assert process.poll() is None, (tiny.folder / "errors.txt").read_text()
    yield process
    process.kill()
    process.wait()
    errors.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_interruption_leaves_nothing_at_once(
    started: subprocess.Popen[str], temporary: Path, tiny: Kbeval, number: signal.Signals, code: int
) -> None:
    started.send_signal(number)
    assert started.wait(timeout=30) == code
    assert servers(temporary) == []
    assert list(temporary.iterdir()) == []
    assert not (tiny.folder / "runs" / "search.trec").exists()
    assert "Traceback" not in (tiny.folder / "errors.txt").read_text()


def test_after_kill_9_the_next_command_sweeps(started: subprocess.Popen[str], temporary: Path, tiny: Kbeval) -> None:
    started.kill()
    started.wait()
    assert servers(temporary), "nothing could clean up yet"
    result = tiny("run", "--engine", "b", TMPDIR=str(temporary))
    assert result.code == 0, result.err
    assert servers(temporary) == []
    assert [path for path in temporary.iterdir() if path.is_dir()] == []
