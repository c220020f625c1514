"""Sidecars: written, read, told apart from other files of the name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kbeval.errors import InputError
from kbeval.evaluation.gates.judging import latency_percentile
from kbeval.formats.sidecar import EngineFacts, Sidecar, read_sidecar, sidecar_bytes

if TYPE_CHECKING:
    from pathlib import Path

SIDECAR = Sidecar(
    engine=EngineFacts(name="a", type="bm25"), k=20, corpus_hash="c", queries_hash="q", errors={"q1": "E: x"}
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(sidecar_bytes(SIDECAR))
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
        (
            f'{{"corpus_hash": "c", "queries_hash": "q", "k": {2**64 - 1}, "engine": {{"name": "a", "type": "x"}}}}',
            "k to be less than or equal to 1000000000",
        ),
    ],
)
def test_a_broken_sidecar_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_sidecar(tmp_path / "a.json")
    assert message in str(caught.value)


def test_the_question_that_was_asked_first_is_in_no_percentile() -> None:
    latencies = {f"q{n}": {"total": float(n), "embed": n / 2} for n in range(1, 12)} | {"q0": {"total": 9000.0}}
    engine = EngineFacts(name="a", type="x")
    sidecar = Sidecar(
        engine=engine,
        k=5,
        corpus_hash="c",
        queries_hash="q",
        latencies_ms=latencies,
        cold_start={"first_ms": {"q0": {"total": 9000.0}}},
    )
    assert sorted(sidecar.warm_ms()) == [float(n) for n in range(1, 12)]
    assert sorted(sidecar.warm_ms("embed")) == [n / 2 for n in range(1, 12)]
    # What kbeval check holds to latency_p95_ms: of 1 to 11, 10.5.
    measured = SimpleNamespace(sidecar=sidecar)
    assert latency_percentile(measured, 95) == pytest.approx(10.5)  # type: ignore[arg-type]
    assert latency_percentile(measured, 50) == 6  # type: ignore[arg-type]
