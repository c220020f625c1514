"""Sidecars: written, read, told apart from other files of the name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kbeval.errors import InputError
from kbeval.formats.sidecar import EngineFacts, Sidecar, read_sidecar, write_sidecar

if TYPE_CHECKING:
    from pathlib import Path

SIDECAR = Sidecar(
    engine=EngineFacts(name="a", type="bm25"), k=20, corpus_hash="c", queries_hash="q", errors={"q1": "E: x"}
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_sidecar(tmp_path / "a.json", SIDECAR)
    assert read_sidecar(tmp_path / "a.json") == SIDECAR


@pytest.mark.parametrize("content", ["[]", '{"name": "bm25"}', "7"])
def test_another_json_of_the_name_is_no_sidecar(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    assert read_sidecar(tmp_path / "a.json") is None
    assert read_sidecar(tmp_path / "missing.json") is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"corpus_hash": "c",\n "queries_hash": ', "a.json, line 2: expected a run's sidecar in JSON"),
        ('{"corpus_hash": "c", "queries_hash": "q", "k": 5}', "engine"),
        ('{"corpus_hash": "c", "queries_hash": "q", "k": "many", "engine": {"name": "a", "type": "x"}}', "k to be"),
    ],
)
def test_a_broken_sidecar_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_sidecar(tmp_path / "a.json")
    assert message in str(caught.value)
