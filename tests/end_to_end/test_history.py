"""History: recorded once, by as many as want to at once; migrated, refused, listed, drawn."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

import numpy as np
import polars as pl
import pytest

from kbeval.cli.app import _run
from kbeval.errors import KbevalError
from kbeval.history import VERSION, Entry, open_history
from kbeval.history.store import _Sqlite
from kbeval.report.history import history_csv, history_parquet
from kbeval.report.trend import trend_svg, trend_text, trends

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval

    from kbeval.store import Store


def entry(key: str, mrr: float = 0.5, test_set: str = "t", **changes: object) -> Entry:
    made = Entry(
        key=key,
        when="2026-12-01T10:00:00+00:00",
        engine="a",
        run="a",
        commit="abc",
        dirty=True,
        k=20,
        corpus_hash="c",
        queries_hash="q",
        test_set_hash=test_set,
        queries=2,
        errored=0,
        missing=0,
        configuration={"type": "hybrid"},
        metrics={"mrr": mrr},
        latency_ms={"p50": 1.0},
        kbeval="1",
        values={"mrr": np.array([mrr, np.nan])},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def tampered(path: Path, statement: str) -> list[tuple[object, ...]]:
    """Does it behind kbeval's back."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement).fetchall()


def refused(path: Path, match: str) -> None:
    with pytest.raises(KbevalError, match=match), open_history(path):
        pass


WRITER = """
import sys
from test_history import entry
from kbeval.history import open_history
who, store = sys.argv[1:]
sys.stdin.read(1)  # all start together
for i in range(10):
    with open_history(store) as history:
        # one of its own, and one that every process records
        assert history.add([entry(f"{who}-{i}"), entry(f"shared-{i}")]) in (1, 2)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_ten_processes_append_at_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = str(tmp_path / "h.sqlite") if kind == "sqlite" else request.getfixturevalue("store").dsn
    environment = {"PYTHONPATH": ":".join([str(request.path.parent), *sys.path])}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(i), store], stdin=subprocess.PIPE, env=environment)
        for i in range(10)
    ]
    for writer in writers:
        assert writer.stdin
        writer.stdin.write(b"x")
        writer.stdin.close()
    assert [writer.wait(120) for writer in writers] == [0] * 10
    with open_history(store) as history:
        keys = [one.key for one in history.entries()]
    expected = {f"{who}-{i}" for who in [*range(10), "shared"] for i in range(10)}
    assert (len(keys), set(keys)) == (110, expected)


def test_an_entry_comes_back_as_it_was(tmp_path: Path) -> None:
    with open_history(tmp_path / "h.sqlite") as history:
        assert history.add([entry("k"), entry("k", 0.9)]) == 1  # the first stays
        (found,) = history.entries(engine="a")
    assert replace(found, values=None) == replace(entry("k"), values=None)
    assert found.values
    np.testing.assert_array_equal(found.values["mrr"], [0.5, np.nan])


def test_a_store_of_version_1_is_migrated_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with sqlite3.connect(path) as old:  # as version 1 made it: without per_query
        old.execute(
            "CREATE TABLE kbeval_history_runs (sequence INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, "
            "recorded_at TEXT NOT NULL, engine TEXT NOT NULL, run TEXT NOT NULL, commit_id TEXT, corpus_hash TEXT, "
            "queries_hash TEXT, test_set_hash TEXT NOT NULL, kbeval TEXT, dirty INTEGER, k INTEGER, "
            "queries INTEGER NOT NULL, errored INTEGER, missing INTEGER, configuration TEXT NOT NULL, "
            "metrics TEXT NOT NULL, latency_ms TEXT NOT NULL, UNIQUE (key))"
        )
        old.execute(
            "INSERT INTO kbeval_history_runs VALUES (1, 'old', '2026-01-01', 'a', 'a', NULL, 'c', 'q', 't', '0.1', "
            "NULL, 20, 2, 0, 0, '{}', '{\"mrr\":0.25}', '{}')"
        )
        old.execute("CREATE TABLE kbeval_history_version (version INTEGER NOT NULL)")
        old.execute("INSERT INTO kbeval_history_version VALUES (1)")
    old.close()
    # Where it may only be read it is listed as it is.
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
        read_only = _Sqlite(connection, str(path))
        read_only.prepare()
        assert [(one.key, one.values) for one in read_only.entries(engine="a")] == [("old", None)]
    with open_history(path) as history:
        history.add([entry("new")])
    with open_history(path) as history:
        found = history.entries()
    assert [(one.key, one.metrics, one.values is None) for one in found] == [
        ("old", {"mrr": 0.25}, True),
        ("new", {"mrr": 0.5}, False),
    ]
    assert tampered(path, "SELECT version FROM kbeval_history_version") == [(VERSION,)]
    tampered(path, "UPDATE kbeval_history_version SET version = 3")
    refused(path, "of version 2 or older, found version 3.*upgrade kbeval")


def test_what_is_recorded_is_as_it_was_measured_or_another_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(*arguments: object) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["kbeval", *map(str, arguments)])
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert _run() == 0
        return out.getvalue()

    (tmp_path / "kbeval.toml").write_text("")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d2 1\n")
    for name in ("one", "two"):
        (tmp_path / f"{name}.trec").write_text("q1 Q0 d1 1 1 t\nq2 Q0 x 1 1 t\n")
    add = ("history", "add", "--qrels", "qrels.txt")
    # The same bytes under two names are two engines'.
    assert "recorded 2 of 2 runs" in recorded(*add, "one.trec", "two.trec")
    assert "recorded 0 of 2 runs" in recorded(*add, "one.trec", "two.trec")
    # A metric that is gated since is added.
    (tmp_path / "kbeval.toml").write_text('[margins]\n"mrr@7" = 0.05\n')
    assert "recorded 1 of 1 runs" in recorded(*add, "one.trec")
    with open_history(tmp_path / "results" / "history.sqlite") as history:
        found = history.entries()
    assert [(one.run, "mrr@7" in one.metrics, "mrr@7" in (one.values or {})) for one in found] == [
        ("one", True, True),
        ("two", False, False),
    ]
    # The same bytes at another commit are another row: a change that was taken back is seen.
    for message in ("first", "second"):
        for command in (["init", "-q"], ["add", "kbeval.toml"], ["commit", "-q", "--allow-empty", "-m", message]):
            identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
            subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True)
        assert "recorded 1 of 1 runs" in recorded(*add, "two.trec")
        assert "recorded 0 of 1 runs" in recorded(*add, "two.trec")


@pytest.mark.parametrize(
    "damage",
    [
        "per_query = x'0011'",
        "per_query = 'text'",
        "metrics = '{bad'",
        'metrics = \'{"mrr":"x"}\'',
        "metrics = '7'",
    ],
)
def test_a_row_that_somebody_changed_is_one_line_that_names_the_store(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "h.sqlite"
    with open_history(path) as history:
        history.add([entry("k")])
    tampered(path, f"UPDATE kbeval_history_runs SET {damage}")
    with (
        open_history(path) as history,
        pytest.raises(KbevalError, match=r"h\.sqlite: expected rows as kbeval wrote them, found one \(recorded .* a\)"),
    ):
        history.entries()


def test_a_version_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"
    with open_history(path) as history:
        history.add([entry("k")])
    tampered(path, "UPDATE kbeval_history_version SET version = 'abc'")
    refused(path, r"h\.sqlite: expected a store of recorded runs, found version 'abc'")


def test_cells_of_csv_are_one_line_and_no_formulas() -> None:
    out = history_csv([entry(str(place), engine=engine) for place, engine in enumerate(("\r=1", " =1", "＝1"))])
    rows = list(csv.reader(io.StringIO(out)))
    assert len(rows) == 4
    assert not any(cell.startswith(("=", "＝")) for row in rows for cell in row)


def test_parquet_has_the_same_types_whatever_is_in_it() -> None:
    full = pl.read_parquet(io.BytesIO(history_parquet([entry("k", commit="c", dirty=True)])))
    bare = pl.read_parquet(io.BytesIO(history_parquet([entry("k", commit=None, dirty=None, k=None, latency_ms={})])))
    assert bare.schema == full.schema
    assert len(pl.read_parquet(io.BytesIO(history_parquet([])))) == 0
    assert full.row(0, named=True)["metric.mrr"] == 0.5


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "h.sqlite").write_text("something else, long enough to be looked at as a header of a database file")
    with pytest.raises(KbevalError, match="expected an SQLite store"), open_history(tmp_path / "h.sqlite"):
        pass
    with (
        pytest.raises(KbevalError, match="cannot connect") as error,
        open_history("postgresql://me:hunter22@127.0.0.1:1/x"),
    ):
        pass
    assert "hunter22" not in str(error.value)


def test_the_line_breaks_where_the_test_set_changed() -> None:
    recorded = [entry("1", 0.9), entry("2", 0.95), entry("3", 0.3, "harder"), entry("4", 0.35, "harder")]
    hostile = "<script>\x1b[31m"
    recorded.append(entry("5", 0.0, engine=hostile))
    found = trends(recorded, "mrr")
    assert [[value for _, value in piece] for piece in found[0].pieces] == [[0.9, 0.95], [0.3, 0.35]]
    text = trend_text(found)
    assert "██┊▃▃  0.3500 (+0.0500)" in text  # .9 and .95 are in the last of eight steps, .3 and .35 in the third
    assert "before and after do not compare" in text
    assert "\x1b" not in text
    picture = Xml.fromstring(trend_svg(found))
    names = [element.tag.rpartition("}")[2] for element in picture.iter()]
    assert (names.count("polyline"), names.count("circle")) == (2, 5)
    assert sum(element.get("class") == "break" for element in picture.iter()) == 1
    assert "script" not in names


def test_evaluate_records_and_history_lists(tiny: Kbeval) -> None:
    folder = tiny.folder
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "m"]):
        subprocess.run(["git", "-C", folder, *command], check=True)
    head = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert tiny("evaluate", "--engine", "bm25", "--no-record").code == 0
    assert not (folder / "results" / "history.sqlite").exists()
    assert "found no store" in tiny.refused("history")
    assert tiny("evaluate", "--engine", "bm25").code == 0
    again = tiny("history", "add", "runs/bm25.trec")
    assert "recorded 0 of 1 runs" in again.out
    (line,) = json.loads(tiny("history", "--format", "json", "--parquet", "h.parquet").out)
    results = json.loads((folder / "results" / "results.json").read_bytes())
    assert line["metrics"]["mrr"] == pytest.approx(results["runs"]["bm25"]["metrics"]["mrr"])
    assert (line["commit"], line["dirty"]) == (head.stdout.strip(), False)
    assert line["test_set_hash"] == results["test_set"]["hash"]
    assert line["latency_ms"]["p50"] > 0
    assert pl.read_parquet(folder / "h.parquet")["metric.mrr"].to_list() == [line["metrics"]["mrr"]]
    (header, row) = csv.reader(io.StringIO(tiny("history", "--format", "csv").out))
    assert dict(zip(header, row, strict=True))["Engine"] == "bm25"
    assert tiny("trend", "--svg", "t.svg").out.startswith("mrr, oldest first")
    assert Xml.parse(folder / "t.svg").getroot().tag.endswith("svg")
    assert "found bm25" in tiny.refused("trend", "--metric", "ndcg@7")


def test_postgres_keeps_it_too(store: Store) -> None:
    with open_history(store.dsn) as history:
        before = len(history.entries())
        assert history.add([entry("pg"), entry("pg")]) == 1
    with open_history(store.dsn) as history:
        assert len(history.entries()) == before + 1
