"""Engines asked and chunks embedded by other processes: the same bytes whoever does it, also where one of them dies."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval, Within

COUNT = 40
ENGINES = """
import hashlib, os, signal, time
from pathlib import Path

LOG = Path(__file__).with_name("asked.txt")

class Silent(Exception):
    def __str__(self):
        raise KeyError("no message")

class Odd(str):
    def __reduce__(self):
        return Odd.broken, ()

    @staticmethod
    def broken():
        raise RuntimeError("cannot be sent")

def slow(query, k):
    with LOG.open("a") as log:
        log.write(f"{os.getpid()} {query}\\n")
    time.sleep(0.05)
    if query == "question 7":
        raise RuntimeError("never answered")
    if os.environ.get("HOSTILE"):
        if query == "question 3":
            raise KeyboardInterrupt
        if query == "question 12":
            raise Silent
        if query == "question 18":
            raise RuntimeError("half a pair: \\ud800")
        if query == "question 21":
            return ["d1", "\\ud800"]
        if query == "question 25":
            return [Odd("d2")]
    if query == "question 11" and os.environ.get("DEADLY"):
        os.kill(os.getpid(), signal.SIGKILL)
    order = sorted(range(5), key=lambda n: hashlib.sha256(f"{query} {n}".encode()).digest())
    return [(f"d{n}", 1 / (7 + place)) for place, n in enumerate(order)][:k]
"""


@pytest.fixture
def forty(kbeval: Kbeval) -> Kbeval:
    """A folder with an engine, and in it a data set of forty questions about five documents."""
    folder = kbeval.folder / "forty"
    (folder / "qrels").mkdir(parents=True)
    lines = [{"_id": f"d{n}", "title": "", "text": f"text {n}"} for n in range(5)]
    (folder / "corpus.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    questions = [{"_id": f"q{n:02d}", "text": f"question {n}"} for n in range(COUNT)]
    (folder / "queries.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in questions))
    judged = "".join(f"q{n:02d}\td{n % 5}\t1\n" for n in range(COUNT))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    (kbeval.folder / "mine.py").write_text(ENGINES)
    return kbeval


def command(out: str, *options: object) -> tuple[object, ...]:
    return ("run", "--engine", "python:mine:slow", "--dataset", "forty", "--out", out, *options)


def errors(at: Kbeval, out: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((at.folder / out / "slow.json").read_bytes())["errors"]
    return found


@contextmanager
def cluster(at: Kbeval, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]], subprocess.Popen[bytes]]]:
    """A real Dask scheduler with real workers, on loopback: its address, the workers, the scheduler."""
    pytest.importorskip("distributed", reason="distributed (the extra `dask`) is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []
    environment = {**at.environment, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "60s"}

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=at.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    try:
        scheduler = start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"
        )
        wait_until(lambda: answers(port), "the scheduler")
        found = [
            start(
                *("distributed.cli.dask_worker", address, "--host", "127.0.0.1", "--nworkers", "1", "--nthreads", "1"),
                *("--no-nanny", "--no-dashboard", "--local-directory", str(at.folder / f"worker{number}")),
            )
            for number in range(workers)
        ]
        if workers:
            import distributed

            with distributed.Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
                client.wait_for_workers(workers, timeout=60)
        yield address, found, scheduler
    finally:
        for process in reversed(started):
            process.kill()
        for process in started:
            process.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(what: Callable[[], bool], name: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"{name} did not come"
        time.sleep(0.05)


def command_of(process: psutil.Process) -> str:
    with suppress(psutil.Error):  # it has ended
        return " ".join(process.cmdline())
    return ""


def starts_workers(pid: int) -> bool:
    for child in psutil.Process(pid).children():
        with suppress(psutil.Error):  # it has ended
            if "multiprocessing.spawn" in " ".join(child.cmdline()):
                return True
    return False


def asked(at: Kbeval) -> list[str]:
    log = at.folder / "asked.txt"
    return log.read_text().splitlines() if log.exists() else []


def started(at: Kbeval, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        at.command(*arguments),
        cwd=at.folder,
        env={**at.environment, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_of_this_machine_give_the_same_bytes_also_where_one_is_killed(forty: Kbeval) -> None:
    assert forty(*command("alone")).code == 1  # question 7
    (forty.folder / "asked.txt").unlink()
    process = started(forty, *command("killed", "--workers", "2"))
    wait_until(lambda: len(asked(forty)) >= 8, "eight questions")
    victim = int(asked(forty)[-1].split()[0])
    assert victim != process.pid
    os.kill(victim, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    for name in ("slow.trec",):
        assert (forty.folder / "killed" / name).read_bytes() == (forty.folder / "alone" / name).read_bytes()
    assert errors(forty, "killed") == errors(forty, "alone") == {"q07": "RuntimeError: never answered"}
    assert "2 at once" in out
    assert len({line.split()[0] for line in asked(forty)}) >= 3  # two, and one in the dead one's place


def test_a_question_that_kills_whoever_is_asked_takes_no_other_with_it(forty: Kbeval) -> None:
    done = forty(*command("runs", "--workers", "2"), DEADLY="1")
    assert done.code == 1
    found = errors(forty, "runs")
    assert set(found) == {"q07", "q11"}
    assert found["q11"] == "WorkerLostError: its worker died 3 times"
    assert json.loads((forty.folder / "runs" / "slow.json").read_bytes())["counts"]["answered"] == COUNT - 2


def test_what_one_question_does_is_no_others_error(forty: Kbeval) -> None:
    done = forty(*command("runs", "--workers", "2"), HOSTILE="1")
    assert done.code == 1, done.err
    assert errors(forty, "runs") == {
        "q03": "KeyboardInterrupt",
        "q07": "RuntimeError: never answered",
        "q12": "Silent: its message cannot be had, for that raises KeyError",
        "q18": "RuntimeError: half a pair: ?",
        "q21": "ValueError: expected a document id in Unicode, found half of a surrogate pair in ?",
    }
    lines = (forty.folder / "runs" / "slow.trec").read_text().splitlines()
    assert len({line.split()[0] for line in lines}) == COUNT - 5
    assert "q25 Q0 d2 1 1.0 slow" in lines


def test_workers_end_with_whoever_started_them(forty: Kbeval) -> None:
    process = started(forty, *command("runs", "--workers", "2"))
    wait_until(lambda: len(asked(forty)) >= 4, "four questions")
    workers = [each for each in psutil.Process(process.pid).children() if "spawn_main" in command_of(each)]
    assert len(workers) == 2
    process.kill()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    before = len(asked(forty))
    time.sleep(1)
    assert len(asked(forty)) == before


def test_an_interrupted_terminal_ends_all_of_them_quietly(forty: Kbeval) -> None:
    for moment in (0.2, None):  # while workers start, and while they answer
        process = subprocess.Popen(
            forty.command(*command("runs", "--workers", "2")),
            cwd=forty.folder,
            env=forty.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if moment is None:
            wait_until(lambda: len(asked(forty)) >= 8, "eight questions")
        else:
            wait_until(partial(starts_workers, process.pid), "a worker")
            time.sleep(moment)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "Traceback" not in err
        assert not (forty.folder / "runs" / "slow.trec").exists()


def test_a_dask_cluster_gives_the_same_bytes_also_where_a_worker_is_killed(forty: Kbeval) -> None:
    assert forty(*command("alone")).code == 1
    (forty.folder / "asked.txt").unlink()
    with cluster(forty, workers=2) as (address, workers, _):
        process = started(forty, *command("killed", "--scheduler", address))
        wait_until(lambda: len(asked(forty)) >= 8, "eight questions")
        by_pid = {worker.pid: worker for worker in workers}
        by_pid[int(asked(forty)[-1].split()[0])].kill()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1, err
        assert "Traceback" not in err
    assert (forty.folder / "killed" / "slow.trec").read_bytes() == (forty.folder / "alone" / "slow.trec").read_bytes()
    assert errors(forty, "killed") == {"q07": "RuntimeError: never answered"}


def test_without_its_scheduler_a_run_ends_clearly_and_goes_on_later(forty: Kbeval) -> None:
    with cluster(forty, workers=1) as (address, _, scheduler):
        process = started(forty, *command("runs", "--scheduler", address))
        wait_until(lambda: len(asked(forty)) >= 17, "two batches")
        scheduler.kill()
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "Traceback" not in err
    (line,) = [line for line in err.splitlines() if line.startswith("kbeval: error:")]
    assert address in line
    assert not (forty.folder / "runs" / "slow.trec").exists()
    before = len(asked(forty))
    again = forty(*command("runs", "--resume"))
    assert again.code == 1
    assert len(asked(forty)) - before < COUNT  # what was answered is not asked again
    assert errors(forty, "runs") == {"q07": "RuntimeError: never answered"}


def test_engine_a_embeds_and_answers_in_other_processes(kbeval: Kbeval) -> None:
    folder = kbeval.folder / "many"
    (folder / "qrels").mkdir(parents=True)
    words = ["till", "printer", "refund", "payout", "passcode", "receipt", "cashier", "bank", "card", "roll"]
    texts = [f"{words[n % 10]} {words[n * 7 % 9]} {words[n * 3 % 8]} number {n}" for n in range(600)]
    (folder / "corpus.jsonl").write_text(
        "".join(f"{json.dumps({'_id': f'd{n}', 'title': '', 'text': text})}\n" for n, text in enumerate(texts))
    )
    (folder / "queries.jsonl").write_text(
        "".join(f"{json.dumps({'_id': f'q{n}', 'text': f'which {texts[n * 31]}'})}\n" for n in range(12))
    )
    judged = "".join(f"q{n}\td{n * 31}\t1\n" for n in range(12))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    run = ("run", "--engine", "a=hybrid", "--engine", "b=keyword", "--engine", "bm25", "--dataset", "many")
    alone = kbeval(*run, "--out", "alone")
    assert alone.code == 0, alone.err
    beside = kbeval(*run, "--out", "beside", "--workers", "2")
    assert beside.code == 0, beside.err
    for name in ("a", "b", "bm25"):
        assert (kbeval.folder / "beside" / f"{name}.trec").read_bytes() == (
            kbeval.folder / "alone" / f"{name}.trec"
        ).read_bytes()
    counts: list[dict[str, Any]] = [
        json.loads((kbeval.folder / out / "a.json").read_bytes())["counts"] for out in ("alone", "beside")
    ]
    assert counts[0] == counts[1]
    assert counts[0]["chunks"] == 600


def test_what_is_asked_for_in_vain_is_one_clear_line(forty: Kbeval, within: Within) -> None:
    line = within.refused(*command("runs", "--workers", "2", "--concurrency", "2"))
    assert line == "expected one of --workers, --scheduler and --concurrency, found --workers and --concurrency"
    pytest.importorskip("distributed", reason="distributed (the extra `dask`) is not installed")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{nobody.getsockname()[1]}"
        line = forty.refused(*command("runs", "--scheduler", address))
    assert line.startswith(f"--scheduler {address}: expected a Dask scheduler, found none: ")
    for wrong in ("nonsense", "", "tcp://127.0.0.1:99999", "http://127.0.0.1:8786"):
        line = within.refused(*command("runs", "--scheduler", wrong))
        assert line == f"--scheduler: expected an address such as tcp://host:8786, found {wrong!r}"
    with cluster(forty, workers=0) as (address, _, _):
        line = forty.refused(*command("runs", "--scheduler", address))
        assert line == f"--scheduler {address}: expected at least one worker, found none"
    line = within.refused(
        *("run", "--engine", "a=hybrid", "--set", "search=hnsw", "--dataset", "forty", "--workers", "1")
    )
    assert re.match(r'engine a: expected search = "exact" with other processes, found "hnsw"', line)


def test_a_worker_without_kbeval_is_told(forty: Kbeval, tmp_path: Path) -> None:
    empty = tmp_path / "without"
    (empty / "kbeval").mkdir(parents=True)
    (empty / "kbeval" / "__init__.py").write_text("raise ImportError('no kbeval here')\n")
    forty.environment["PYTHONPATH"] = f"{empty}{os.pathsep}{forty.environment.get('PYTHONPATH', '')}"
    with cluster(forty, workers=1) as (address, _, _):
        forty.environment["PYTHONPATH"] = forty.environment["PYTHONPATH"].partition(os.pathsep)[2]
        line = forty.refused(*command("runs", "--scheduler", address))
    assert line.startswith(f"--scheduler {address}: expected kbeval ")
    assert "no kbeval here" in line
