"""Bytes in and out of files."""

from __future__ import annotations

import gzip
import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from kbeval.errors import InputError, KbevalError
from kbeval.formats import text
from kbeval.formats.text import TextFile, read_bytes, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_gzip_is_told_by_content_whatever_the_name(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_bytes(gzip.compress(b"content\n"))
    (tmp_path / "run.gz").write_bytes(b"content\n")
    assert read_bytes(tmp_path / "run.txt") == read_bytes(tmp_path / "run.gz") == b"content\n"


def test_gzip_of_several_members_is_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "run.gz"
    file.write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert read_bytes(file) == b"one\ntwo\n"


def test_a_byte_order_mark_is_stripped_also_inside_gzip(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"\xef\xbb\xbfq1\n")
    (tmp_path / "zipped").write_bytes(gzip.compress(b"\xef\xbb\xbfq1\n"))
    assert read_bytes(tmp_path / "plain") == read_bytes(tmp_path / "zipped") == b"q1\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_other_unicode_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "run.txt"
    file.write_bytes("\ufeffq1 Q0 d1 1 2 t\n".encode(encoding))
    with pytest.raises(InputError, match=f"expected UTF-8 text, found {encoding[:6].upper()} text"):
        read_bytes(file)


def damaged_gzip() -> dict[str, bytes]:
    whole = gzip.compress(b"q1 Q0 d1 1 2.0 tag\n" * 50)
    return {
        "cut short": whole[:-12],
        "without its end": whole[:-8],
        "head only": whole[:5],
        "wrong sum": whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:],
        "broken inside": whole[:14] + b"\xff\xff\xff\xff" + whole[18:],
        "magic only": b"\x1f\x8b",
        "rubbish behind": whole + b"rubbish",
    }


@pytest.mark.parametrize("damage", damaged_gzip())
def test_damaged_gzip_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "run.gz"
    file.write_bytes(damaged_gzip()[damage])
    with pytest.raises(InputError, match="expected a complete gzip file") as raised:
        read_bytes(file)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_opened_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.txt: expected a readable file, found no such file"):
        read_bytes(tmp_path / "missing.txt")
    with pytest.raises(InputError, match="found is a directory"):
        read_bytes(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="found not a directory"):
        read_bytes(tmp_path / "file" / "run.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0o000)
    with pytest.raises(InputError, match="found permission denied"):
        read_bytes(tmp_path / "secret")


def test_a_pipe_can_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(b"content\n"),))
    writer.start()
    file = TextFile(pipe)
    assert file.read() == b"content\n"
    assert list(file.blocks()) == [b"content\n"]
    writer.join()


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_blocks_are_whole_lines_and_make_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(text, "BLOCK_BYTES", size)
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfone\n\ntwo two two\r\nthree")
    blocks = list(TextFile(tmp_path / "f").blocks())
    assert b"".join(blocks) == b"one\n\ntwo two two\r\nthree\n"
    assert all(block.endswith(b"\n") for block in blocks)


# --- writing


def test_writing_makes_folders_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a" / "b" / "file.txt", b"content")
    assert (tmp_path / "a" / "b" / "file.txt").read_bytes() == b"content"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file.txt"]


def test_a_new_file_gets_what_the_umask_leaves(tmp_path: Path, usual_umask: None) -> None:
    write_atomically(tmp_path / "new", b"")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_an_existing_file_keeps_its_permissions(tmp_path: Path, usual_umask: None) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o604)
    write_atomically(tmp_path / "old", b"new")
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_failure_keeps_the_old_file_and_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KbevalError, match="cannot be written: no space left on device"):
        write_atomically(tmp_path / "file", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_an_interruption_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(KbevalError, match="folder: cannot be written: is a directory"):
        write_atomically(tmp_path / "folder", b"")
    (tmp_path / "file").touch()
    with pytest.raises(KbevalError, match="cannot be written: "):
        write_atomically(tmp_path / "file" / "inner", b"")


def test_a_device_is_written_to_and_not_replaced() -> None:
    write_atomically(os.devnull, b"content")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116 - a device, not a path of ours
