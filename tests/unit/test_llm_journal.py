"""The journal: what was written is there after any kind of end, and nobody else writes meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kbeval.errors import KbevalError
from kbeval.llm.journal import Journal


def test_what_was_appended_is_replayed_in_order(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "j"
    with Journal(path) as journal:
        assert journal.replay() == []
        journal.append({"a": 1})
        journal.append({"b": "ü\n"})
    assert path.read_bytes() == '{"a":1}\n{"b":"ü\\n"}\n'.encode()
    with Journal(path) as journal:
        assert journal.replay() == [{"a": 1}, {"b": "ü\n"}]
        journal.append({"c": 3})
    assert Journal.read(path) == [{"a": 1}, {"b": "ü\n"}, {"c": 3}]


@pytest.mark.parametrize("torn", [b'{"b": ', b'{"b": 2}', b"\x00\x00\x00", b'{"b": \n'])
def test_a_torn_last_line_is_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(b'{"a": 1}\n' + torn)
    assert Journal.read(path) == [{"a": 1}]
    with Journal(path) as journal:
        assert journal.replay() == [{"a": 1}]
        journal.append({"c": 3})
    assert path.read_bytes() == b'{"a": 1}\n{"c":3}\n'


def test_something_else_in_its_place_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"my notes\nmore notes\nand more\n")
    with pytest.raises(KbevalError, match="line 1: expected a JSON object a line"), Journal(path):
        pass
    assert path.read_bytes() == b"my notes\nmore notes\nand more\n"


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append({"a": 1})
        with pytest.raises(KbevalError, match="found another kbeval that is writing"), Journal(path):
            pass
    with Journal(path) as journal:
        assert journal.replay() == [{"a": 1}]


def test_an_empty_one_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append({"a": 1})
        journal.clear()
        assert path.exists()
    assert not path.exists()
    assert Journal.read(path) == []


def test_kill_9_loses_nothing_that_was_appended_and_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "j"
    program = (
        "import sys; from pathlib import Path; from kbeval.llm.journal import Journal\n"
        "with Journal(Path(sys.argv[1])) as journal:\n"
        "    for number in range(10**9):\n"
        "        journal.append({'number': number}); print(number, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = -1
    for line in child.stdout:
        told = int(line)
        if told >= 20:
            break
    os.kill(child.pid, signal.SIGKILL)
    told = max([told, *map(int, child.stdout.read().split())])
    child.wait()
    child.stdout.close()
    with Journal(path) as journal:
        numbers = [line["number"] for line in journal.replay()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > told
    path.unlink()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KbevalError, match="cannot be written"), Journal(tmp_path / "file" / "j"):
        pass


def test_a_full_disk_is_one_line() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    journal = Journal(full)
    journal._descriptor = os.open(full, os.O_WRONLY)
    try:
        with pytest.raises(KbevalError, match="cannot be written: no space left"):
            journal.append({"a": 1})
    finally:
        os.close(journal._descriptor)
