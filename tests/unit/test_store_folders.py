"""Whose a private folder is, and when it is swept. Real folders, locks and processes; no server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from kbeval.errors import KbevalError
from kbeval.store import folders
from kbeval.store.folders import OWNER_FILE, PrivateFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

DEAD_PID = 4_194_304  # one above the highest that Linux gives out

HOLDER = """
import sys, time
from pathlib import Path
from kbeval.store.folders import PrivateFolder
folder = PrivateFolder(Path(sys.argv[1]))
(folder.path / "data").mkdir()
print(folder.path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(folders, "bases", lambda: [tmp_path])
    return tmp_path


@pytest.fixture
def holder(base: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that owns a folder."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, base], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def sweep() -> list[str]:
    """Sweeps, and returns the names of the folders whose servers it would have stopped."""
    stopped: list[str] = []
    folders.sweep(lambda folder: stopped.append(folder.name))
    return stopped


def make(base: Path, name: str, owner: object = None) -> Path:
    folder = base / name
    (folder / "data").mkdir(parents=True)
    if owner is not None:
        (folder / OWNER_FILE).write_text(owner if isinstance(owner, str) else json.dumps(owner))
    return folder


def test_a_folder_is_private_signed_and_removed(base: Path) -> None:
    folder = PrivateFolder(base)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    owner = json.loads((folder.path / OWNER_FILE).read_text())
    assert owner == {"pid": os.getpid(), "started": psutil.Process().create_time()}
    (folder.path / "data").mkdir()
    (folder.path / "data" / "file").write_text("x")
    folder.remove()
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_the_umask_does_not_matter(base: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        folder = PrivateFolder(base)
    finally:
        os.umask(before)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    folder.remove()


def test_a_group_may_pass_but_not_look(base: Path) -> None:
    folder = PrivateFolder(base)
    folder.admit(os.getgid())
    assert folder.path.stat().st_mode & 0o777 == 0o710
    folder.remove()


def test_where_no_folder_can_be_made_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(KbevalError, match="No such file or directory"):
        PrivateFolder(tmp_path / "absent")


def test_ones_own_folder_is_not_swept(base: Path) -> None:
    folder = PrivateFolder(base)
    assert sweep() == []
    folder.remove()


def test_a_living_owners_folder_is_not_swept_and_a_killed_ones_is(
    holder: tuple[subprocess.Popen[str], Path],
) -> None:
    process, folder = holder
    assert sweep() == []
    assert folder.is_dir()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sweep() == [folder.name]
    assert not folder.exists()


def test_a_killed_owner_that_nobody_has_reaped_is_dead(holder: tuple[subprocess.Popen[str], Path]) -> None:
    process, folder = holder
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and left a zombie
    assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
    assert sweep() == [folder.name]


def test_a_lock_alone_keeps_a_folder(holder: tuple[subprocess.Popen[str], Path]) -> None:
    """As in another container that shares the temporary folder, whose process ids mean nothing here."""
    _, folder = holder
    (folder / OWNER_FILE).write_text(json.dumps({"pid": DEAD_PID, "started": 0.0}))
    assert sweep() == []


def test_a_living_process_alone_keeps_a_folder(base: Path) -> None:
    """As one that has closed all its files."""
    make(base, "kbeval-store-0123abcd", {"pid": os.getpid(), "started": psutil.Process().create_time()})
    assert sweep() == []


def test_a_process_id_that_was_given_out_again_is_told_by_its_start_time(base: Path) -> None:
    started = psutil.Process().create_time() - 3600
    make(base, "kbeval-store-0123abcd", {"pid": os.getpid(), "started": started})
    assert sweep() == ["kbeval-store-0123abcd"]


@pytest.mark.parametrize("owner", [None, "", '{"pid": 1', "[]", '{"pid": "x", "started": 0}'])
def test_a_folder_whose_owner_died_before_signing_is_removed(base: Path, owner: str | None) -> None:
    folder = make(base, "kbeval-store-0123abcd", owner)
    (folder / "data").rmdir()
    sweep()
    assert list(base.iterdir()) == []


@pytest.mark.parametrize("owner", [None, "", "somebody's"])
def test_an_unsigned_folder_that_holds_something_is_not_ours(base: Path, owner: str | None) -> None:
    folder = make(base, "kbeval-store-0123abcd", owner)
    assert sweep() == []
    assert folder.is_dir()


@pytest.mark.parametrize("name", ["kbeval-store-results", "kbeval-store-0123abcd9", "kbeval-results", "kbeval"])
def test_a_folder_of_another_name_is_not_ours(base: Path, name: str) -> None:
    make(base, name, {"pid": DEAD_PID, "started": 0.0})
    assert sweep() == []


def test_a_symbolic_link_is_not_followed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    victim = make(tmp_path_factory.mktemp("victim"), "precious", {"pid": DEAD_PID, "started": 0.0})
    (base / "kbeval-store-0123abcd").symlink_to(victim)
    assert sweep() == []
    assert (victim / "data").is_dir()


def test_a_symbolic_link_inside_a_dead_folder_is_removed_and_not_followed(base: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    folder = make(base, "kbeval-store-0123abcd", {"pid": DEAD_PID, "started": 0.0})
    (folder / "link").symlink_to(precious)
    (folder / "data" / "link").symlink_to(precious)
    assert sweep() == [folder.name]
    assert (precious / "file").read_text() == "x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_another_users_folder_is_not_touched(base: Path) -> None:
    folder = make(base, "kbeval-store-0123abcd", {"pid": DEAD_PID, "started": 0.0})
    os.chown(folder, 65534, 65534)
    assert sweep() == []
    assert folder.is_dir()


def test_a_folder_that_cannot_be_removed_does_not_stop_the_sweep(base: Path) -> None:
    dead = {"pid": DEAD_PID, "started": 0.0}
    make(base, "kbeval-store-00000001", dead)
    make(base, "kbeval-store-00000002", dead)

    def stop(folder: Path) -> None:
        if folder.name.endswith("1"):
            raise KbevalError("its processes do not end")

    folders.sweep(stop)
    assert [path.name for path in base.iterdir()] == ["kbeval-store-00000001"]


def test_a_folder_half_removed_is_removed_by_the_next_sweep(base: Path) -> None:
    """The owner file is the last to go: a sweep that was killed leaves a folder that is still known."""
    folder = make(base, "kbeval-store-0123abcd", {"pid": DEAD_PID, "started": 0.0})
    gone: list[str] = []
    removed = folders.shutil.rmtree

    def rmtree(path: Path, *arguments: object, **options: object) -> None:
        gone.extend(entry.name for entry in folder.iterdir())
        removed(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders.shutil, "rmtree", rmtree)
        sweep()
    assert OWNER_FILE in gone
    assert not folder.exists()


def test_what_a_sweep_is_busy_with_another_leaves_alone(base: Path) -> None:
    make(base, "kbeval-store-0123abcd", {"pid": DEAD_PID, "started": 0.0})
    meanwhile: list[list[str]] = []
    folders.sweep(lambda _: meanwhile.append(sweep()))
    assert meanwhile == [[]]


def test_a_new_folder_that_a_sweep_takes_away_is_made_again(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment between a folder's birth and its lock."""
    opened: list[Path] = []
    real = folders._open

    def hasty(path: Path) -> int:
        opened.append(path)
        if len(opened) == 1:
            path.rmdir()
        descriptor = real(path)
        if len(opened) == 2:
            path.rmdir()
        return descriptor

    monkeypatch.setattr(folders, "_open", hasty)
    folder = PrivateFolder(base)
    assert len(opened) == 3
    assert list(base.iterdir()) == [folder.path]
    folder.remove()


def test_a_forked_child_does_not_keep_a_killed_owners_folder(base: Path) -> None:
    # One write each: the lines of parent and child must not mix.
    tell = "os.write(1, f'{os.fork()}\\n'.encode()); time.sleep(60)"
    script = "import os\n" + HOLDER.replace("time.sleep(60)", tell)
    with subprocess.Popen([sys.executable, "-c", script, base], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        lines = [owner.stdout.readline().strip() for _ in range(3)]
        child = max(int(line) for line in lines[1:])
        owner.kill()
        owner.wait()
        try:
            assert psutil.pid_exists(child)
            assert sweep() == [Path(lines[0]).name]
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_temporary_folder_comes_first_and_each_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to("/tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(link))
    assert folders.bases()[0] == Path("/tmp").resolve()
    assert len(set(folders.bases())) == len(folders.bases())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert folders.bases()[0] == tmp_path.resolve()
