"""The processes of an embedded server: found by its data folder, and ended."""

from __future__ import annotations

import ctypes
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

STOP_SECONDS = 10.0
"""How long the processes may take to end of their own accord before they are killed. It takes them a
moment."""

_PROGRAMS = ("postgres", "initdb")
_IPC_RMID = 0  # sys/ipc.h


def is_ready(data: Path) -> bool:
    """Whether the server on ``data`` accepts connections, as the eighth line of its postmaster.pid says."""
    return _pid_file(data)[7].strip() == "ready"


def find(data: Path) -> list[psutil.Process]:
    """The processes of PostgreSQL whose data folder is ``data``, and no others.

    They are known by their working folder, not by the id in postmaster.pid, which may belong to another
    process by now: a server and its parts work in their data folder, ``initdb`` and a server that is just
    starting in the folder above. Linux marks a folder that is gone.
    """
    places = {f"{place}{mark}" for place in (data, data.parent) for mark in ("", " (deleted)")}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has ended, or is another user's
            if process.name() in _PROGRAMS and process.cwd() in places:
                found.append(process)
    return found


def stop(data: Path, children: Iterable[subprocess.Popen[bytes]] = ()) -> None:
    """Ends every process of PostgreSQL whose data folder is ``data``, and returns when they are gone.

    At first each is told in the way that it takes well, so that it gives its shared memory back: a server by
    SIGQUIT, its immediate shutdown; ``initdb`` by SIGTERM, which it obeys after the step that it is at. Their
    own children are left to them. What does not end is killed.

    Args:
        data: the data folder. It may be gone already.
        children: those among them that this process has started, for it to reap.

    Raises:
        KbevalError: a process outlives SIGKILL.
    """
    running = find(data)
    for process in running:
        with suppress(psutil.NoSuchProcess):
            if not set(process.parents()) & set(running):
                process.send_signal(signal.SIGTERM if process.name() == "initdb" else signal.SIGQUIT)
    _wait(running)
    if running := find(data):
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        _wait(running)
    if running := find(data):
        raise KbevalError(f"the embedded database's processes {[process.pid for process in running]} do not end")
    for child in children:
        if child.poll() is None:
            child.kill()
            child.wait()
    _free_shared_memory(data)


def _wait(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while any(_lives(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.01)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _pid_file(data: Path) -> list[str]:
    """The eight lines of postmaster.pid, empty where they are missing.

    https://www.postgresql.org/docs/current/storage-file-layout.html, and miscadmin.h for what they are.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        lines = []
    return (lines + [""] * 8)[:8]


def _free_shared_memory(data: Path) -> None:
    """Removes the small System V segment of a server that was killed; one that ended has done so itself.

    Only on Linux, which tells whether a segment is the server's and in nobody's use: its key and id are in
    the seventh line of postmaster.pid.
    """
    with suppress(OSError):
        owner = str(data.stat().st_uid)
        ours = _pid_file(data)[6].split()
        for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            key, identifier, _, _, _, _, attached, uid, *_ = line.split()
            if [key, identifier] == ours and (attached, uid) == ("0", owner):
                ctypes.CDLL(None).shmctl(int(identifier), _IPC_RMID, None)
