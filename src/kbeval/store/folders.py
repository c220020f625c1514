"""The private folder of an embedded server: whose it is, and whether its owner still lives.

A living owner holds a lock (flock) on its folder. The lock ends with its process however that dies, is not
fooled by a process id that was given out again, and is seen across containers that share a temporary folder.
The owner's process id and start time are written into the folder too, and count as well: a process that
closes all its files, as daemons do, lives without its lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile
import weakref
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = re.compile(r"kbeval-store-[0-9a-f]{8}")
OWNER_FILE = "owner.json"

_START_TIME_TOLERANCE_SECONDS = 2.0
"""psutil derives a start time from the boot time, which moves by a second when the clock is set."""


def bases() -> list[Path]:
    """The folders that server folders are made in, in order of preference: the temporary folder first."""
    names = ["/tmp", "/var/tmp"]  # noqa: S108 - what lies there is private, and checked to be ours
    with suppress(FileNotFoundError):  # no temporary folder can be written to
        names.insert(0, tempfile.gettempdir())
    found = (Path(name).resolve() for name in names)
    return list(dict.fromkeys(path for path in found if path.is_dir()))


class PrivateFolder:
    """A new folder that only this user may enter, locked by this process until it is removed.

    Args:
        base: where to make it.

    Raises:
        KbevalError: it could not be made.
    """

    def __init__(self, base: Path) -> None:
        try:
            self.path, self._lock = _create_locked(base)
        except OSError as error:
            raise _cannot_make(base, error) from error
        _lock_holders.add(self)
        try:
            owner = {"pid": os.getpid(), "started": psutil.Process().create_time()}
            (self.path / OWNER_FILE).write_text(json.dumps(owner))
        except OSError as error:
            self.remove()
            raise _cannot_make(base, error) from error

    def admit(self, group: int) -> None:
        """Lets the members of ``group`` pass through, but not look: for an account that is not ours.

        Raises:
            OSError: we may not.
        """
        os.chown(self.path, -1, group)
        self.path.chmod(0o710)

    def remove(self) -> None:
        """Removes the folder and all that it holds, then gives up the lock.

        Raises:
            KbevalError: something of it cannot be removed.
        """
        try:
            _remove(self.path)
        finally:
            self.release()

    def release(self) -> None:
        """Closes this process's hold of the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(stop: Callable[[Path], None]) -> None:
    """Removes the folders of dead owners, after ``stop`` has ended what runs in each.

    Only folders of this user are looked at. What cannot be removed is left for the next sweep: it is not
    this process's work that would suffer.
    """
    for base in bases():
        for path in sorted(path for path in base.glob("kbeval-store-*") if NAME.fullmatch(path.name)):
            with _locked_if_dead(path) as dead:
                if not dead:
                    continue
                with suppress(KbevalError):
                    stop(path)
                    _remove(path)


def _cannot_make(base: Path, error: OSError) -> KbevalError:
    return KbevalError(f"cannot make a folder for the embedded database in {base}: {error}")


def _create_locked(base: Path) -> tuple[Path, int]:
    # A sweep may find the folder before it is locked, and remove it: then there is another name to try.
    while True:
        path = base / f"kbeval-store-{secrets.token_hex(4)}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        try:
            path.chmod(0o700)  # whatever the umask has taken away
            lock = _open(path)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_still(path, lock):
            return path, lock
        os.close(lock)


@contextmanager
def _locked_if_dead(path: Path) -> Iterator[bool]:
    """Tells whether ``path`` is a folder of this user whose owner is dead, and holds its lock meanwhile."""
    try:
        lock = _open(path)
    except OSError:  # another user's, a symbolic link, a file, or gone by now
        yield False
        return
    try:
        yield (
            os.fstat(lock).st_uid == os.geteuid() and _try_lock(lock) and _is_still(path, lock) and _owner_is_dead(path)
        )
    finally:
        os.close(lock)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held: by its living owner, or by another sweep
        return False
    return True


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _owner_is_dead(path: Path) -> bool:
    try:
        owner = json.loads((path / OWNER_FILE).read_text())
        pid, started = int(owner["pid"]), float(owner["started"])
    except (OSError, ValueError, TypeError, KeyError):
        # Its owner died before it could sign. Anything else in it would not be ours to remove.
        return {entry.name for entry in path.iterdir()} <= {OWNER_FILE}
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < _START_TIME_TOLERANCE_SECONDS
        return not same or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _remove(path: Path) -> None:
    # The owner file goes last: whoever finds a folder half removed still sees whose it was. rmtree follows no
    # symbolic link; a file that a cleaner of temporary files takes from under its hands is removed as well.
    try:
        for entry in path.iterdir():
            if entry.name != OWNER_FILE:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        (path / OWNER_FILE).unlink(missing_ok=True)
        path.rmdir()
    except FileNotFoundError:
        shutil.rmtree(path, ignore_errors=True)
    except OSError as error:
        raise KbevalError(f"cannot remove {path}, the embedded database's folder: {error}") from error


_lock_holders: weakref.WeakSet[PrivateFolder] = weakref.WeakSet()


def _release_in_child() -> None:
    # A forked child shares the lock: one that outlived a killed owner would keep the folder from being swept.
    for folder in list(_lock_holders):
        folder.release()


os.register_at_fork(after_in_child=_release_in_child)
