"""``kbeval check``: the right word and the right exit code, in every format, whatever the names hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
from scipy import stats

from kbeval.formats.sidecar import EngineFacts, Sidecar, sidecar_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.conftest import Kbeval, Within

N = 40
TARGETS = "[targets]\nmrr = 0.5\n[margins]\nmrr = 0.05\n"


def write_run(folder: Path, name: str, ranks: list[int], *, documents: int = 3) -> None:
    """A run in which question i has its answer at ranks[i] of ``documents``; 0: not at all."""
    lines = [
        f"q{i} Q0 {f'd{i}' if place == rank else f'x{place}'} {place} {documents - place} t\n"
        for i, rank in enumerate(ranks)
        for place in range(1, documents + 1)
    ]
    (folder / f"{name}.trec").write_text("".join(lines))


def sidecar(folder: Path, name: str, *, k: int = 3, corpus: str = "c", **more: object) -> None:
    facts = EngineFacts(name=name, type="keyword")
    made = Sidecar(engine=facts, k=k, corpus_hash=corpus, queries_hash="q", **more)  # type: ignore[arg-type]
    (folder / f"{name}.json").write_bytes(sidecar_bytes(made))


@pytest.fixture
def gate(within: Within) -> Within:
    folder = within.folder
    (folder / "kbeval.toml").write_text(TARGETS)
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(N)))
    write_run(folder, "base", [1, 2] * (N // 2))
    return within


def outcome(gate: Within, *arguments: object) -> tuple[int, dict[str, str], dict[str, object]]:
    """The exit code, the word of each gate by its name, and the last gate's whole record."""
    result = gate("check", *arguments, "--qrels", "qrels.txt", "--format", "json")
    gates = json.loads(result.out)["gates"]
    return result.code, {f"{line['gate']} {line['name']}": line["word"] for line in gates}, gates[-1]


def test_a_real_regression(gate: Within) -> None:
    ranks = [2] * 30 + [1, 2] * 5
    write_run(gate.folder, "new", ranks)
    code, words, line = outcome(gate, "new.trec", "--baseline", "base.trec")
    # 15 of 40 questions fall from 1 to 1/2: from .75 to .5625, which is above the target.
    assert (code, words) == (1, {"target mrr": "met", "margin mrr": "regressed"})
    differences = np.array([1 / r for r in ranks]) - np.array([1, 0.5] * (N // 2))
    low, high = stats.t.interval(0.95, N - 1, differences.mean(), stats.sem(differences))
    assert line["ci95"] == pytest.approx([low, high], abs=1e-9)
    assert line["unchanged_passes"] == pytest.approx(stats.norm.cdf(0.05 / stats.sem(differences) - 1.959963985))
    assert line["delta"] == pytest.approx(-0.1875)


def test_a_real_improvement_and_an_unchanged_run(gate: Within) -> None:
    write_run(gate.folder, "better", [1] * N)
    assert outcome(gate, "better.trec", "--baseline", "base.trec")[:2] == (
        0,
        {"target mrr": "met", "margin mrr": "not worse"},
    )
    write_run(gate.folder, "same", [1, 2] * (N // 2))
    code, words, line = outcome(gate, "same.trec", "--baseline", "base.trec")
    assert (code, words["margin mrr"], line["unchanged_passes"]) == (0, "not worse", 1.0)


def test_too_few_questions_cannot_tell_and_fail_only_where_told(gate: Within) -> None:
    folder = gate.folder
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(5)))
    write_run(folder, "base", [1] * 5)
    write_run(folder, "new", [1, 1, 1, 2, 2])
    code, words, line = outcome(gate, "new.trec", "--baseline", "base.trec")
    assert (code, words["margin mrr"]) == (0, "cannot tell")
    assert line["detectable"] is None  # fewer than six questions differ
    text = gate("check", "new.trec", "--baseline", "base.trec", "--qrels", "qrels.txt").out
    assert "CANNOT TELL" in text
    assert "5 independent questions are too few" in text
    assert "no better and no worse would pass" in text
    (folder / "kbeval.toml").write_text(TARGETS + '[check]\ncannot_tell = "fail"\n')
    assert outcome(gate, "new.trec", "--baseline", "base.trec")[0] == 1


def test_one_and_the_same_loss_on_two_questions_is_no_proof_of_being_within_the_margin(gate: Within) -> None:
    folder = gate.folder
    (folder / "qrels.txt").write_text("q0 0 d0 1\nq1 0 d1 1\n")
    write_run(folder, "base", [2, 2])
    write_run(folder, "new", [3, 3])
    (folder / "kbeval.toml").write_text("[margins]\nmrr = 0.2\n")
    assert outcome(gate, "new.trec", "--baseline", "base.trec")[1] == {"margin mrr": "cannot tell"}


def test_a_target_out_of_reach_names_its_ceiling(gate: Within) -> None:
    folder = gate.folder
    # 39 questions with one answer and q0 with three: (39 / 5 + 3 / 5) / 40 = .21, however short the run's lists are.
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(N)) + "q0 0 y 1\nq0 0 z 1\nq1 0 w 0\n")
    (folder / "kbeval.toml").write_text('[targets]\n"P@5" = 0.8\n')
    result = gate("check", "base.trec", "--qrels", "qrels.txt", "--format", "json")
    line = json.loads(result.out)["gates"][0]
    assert (result.code, line["word"], line["name"]) == (0, "unreachable", "precision@5")
    assert line["ceiling"] == pytest.approx(0.21)
    sidecar(folder, "base", k=2)
    line = json.loads(gate("check", "base.trec", "--qrels", "qrels.txt", "--format", "json").out)["gates"][0]
    assert line["ceiling"] == pytest.approx(0.21)
    (folder / "kbeval.toml").write_text('[targets]\n"P@5" = 0.8\n[check]\nunreachable = "fail"\n')
    assert gate("check", "base.trec", "--qrels", "qrels.txt").code == 1


def test_lists_that_are_too_short_miss_what_is_within_reach(gate: Within) -> None:
    folder = gate.folder
    # Three answers a question: P@3 can be 1, and of lists of one document at most 1/3.
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 {d} 1\n" for i in range(N) for d in (f"d{i}", "x2", "x3")))
    write_run(folder, "short", [1] * N, documents=1)
    sidecar(folder, "short", k=1)
    (folder / "kbeval.toml").write_text('[targets]\n"P@3" = 0.5\n')
    result = gate("check", "short.trec", "--qrels", "qrels.txt")
    assert result.code == 1
    assert "MISSED  P@3 at least 0.5: 0.333 [0.333, 0.333]; its lists end at k = 1" in result.out.replace(
        "Precision", "P"
    )


def test_where_nothing_can_score_nothing_is_judged(gate: Within) -> None:
    (gate.folder / "kbeval.toml").write_text('[targets]\n"map(rel=2)@10" = 0.1\n')
    message = gate.refused("check", "base.trec", "--qrels", "qrels.txt")
    assert message.startswith("nothing could be judged: ")
    assert "no ranking can score on this test set" in message


def test_a_run_held_against_itself_is_said(gate: Within) -> None:
    (gate.folder / "runs").mkdir()
    (gate.folder / "base.trec").rename(gate.folder / "runs" / "base.trec")
    for baseline in ("runs", "runs/base.trec"):
        result = gate("check", "runs/base.trec", "--qrels", "qrels.txt", "--baseline", baseline)
        assert result.code == 0
        assert "it is held against itself, which shows nothing" in result.out
        assert "run base is held against itself" in result.err
    # A shared baseline may stand among the runs: nothing is said of it.
    write_run(gate.folder, "new", [1] * N)
    result = gate("check", "runs/base.trec", "new.trec", "--qrels", "qrels.txt", "--baseline", "runs/base.trec")
    assert (result.code, "itself" in result.out + result.err) == (0, False)


def test_no_other_run_moves_a_verdict(gate: Within) -> None:
    folder = gate.folder
    write_run(folder, "base", [3] * N)  # without a sidecar: as deep as it is
    write_run(folder, "new", [2] * N)
    sidecar(folder, "new", k=3)
    write_run(folder, "short", [1] * N, documents=1)
    sidecar(folder, "short", k=1)
    (folder / "kbeval.toml").write_text("[margins]\nmrr = 0.05\n")

    def values(*runs: str) -> dict[str, tuple[object, object]]:
        result = gate("check", *runs, "--baseline", "base.trec", "--qrels", "qrels.txt", "--format", "json")
        return {line["run"]: (line["value"], line["baseline_value"]) for line in json.loads(result.out)["gates"]}

    third = pytest.approx(1 / 3)
    assert values("new.trec") == {"new": (0.5, third)}
    assert values("new.trec", "short.trec") == {
        "new": (0.5, third),
        "short": (1.0, 0.0),
    }  # cut at 1, base finds nothing
    # Nor does a baseline's depth move what a run's targets are measured on.
    (folder / "kbeval.toml").write_text("[targets]\nmrr = 0.3\n[margins]\nmrr = 0.05\n")
    result = gate("check", "base.trec", "--baseline", "short.trec", "--qrels", "qrels.txt", "--format", "json")
    target, margin = json.loads(result.out)["gates"]
    assert (target["word"], target["value"]) == ("met", third)
    assert (margin["value"], margin["baseline_value"], margin["word"]) == (0.0, 1.0, "regressed")


def test_an_interval_by_clusters_is_told_from_the_mean_beside_it(gate: Within) -> None:
    folder = gate.folder
    # Thirty questions about one document, found; ten about others, lost or second: one cluster against ten.
    judged = [f"q{i} 0 {'same' if i < 30 else f'd{i}'} 1\n" for i in range(N)]
    (folder / "qrels.txt").write_text("".join(judged))
    hits = ["same" if i < 30 else (f"d{i}" if i % 2 else "x") for i in range(N)]
    (folder / "base.trec").write_text("".join(f"q{i} Q0 {hit} 1 1 t\n" for i, hit in enumerate(hits)))
    questions = [{"_id": f"q{i}", "text": "t", "metadata": {"source": "synthetic", "style": "near"}} for i in range(N)]
    (folder / "set" / "qrels").mkdir(parents=True)
    (folder / "set" / "queries.jsonl").write_text("".join(json.dumps(question) + "\n" for question in questions))
    documents = ["same", "x", *(f"d{i}" for i in range(30, N))]
    (folder / "set" / "corpus.jsonl").write_text("".join(json.dumps({"_id": d, "text": d}) + "\n" for d in documents))
    rows = "".join(line.replace(" 0 ", "\t").replace(" 1\n", "\t1\n") for line in judged)
    (folder / "set" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    # By questions (30 + 5) / 40 = .875; by clusters (1 + 5) / 11 = .545.
    by_cluster = [1.0, *([1.0, 0.0] * 5)]
    low, high = stats.t.interval(0.95, 10, np.mean(by_cluster), stats.sem(by_cluster))
    (folder / "kbeval.toml").write_text("[targets]\nmrr = 0.9\n")
    out = gate("check", "base.trec", "--dataset", "set").out
    assert f"MISSED  MRR at least 0.9: 0.875, by clusters 0.545 [{low:.3f}, {high:.3f}]" in out
    # All but the one cluster found: by clusters it is above .2 beyond doubt, by questions .25 would be missed.
    hits = ["x" if i < 30 else f"d{i}" for i in range(N)]
    (folder / "base.trec").write_text("".join(f"q{i} Q0 {hit} 1 1 t\n" for i, hit in enumerate(hits)))
    (folder / "kbeval.toml").write_text("[targets]\nmrr = 0.3\n")
    out = gate("check", "base.trec", "--dataset", "set").out
    assert "MISSED  MRR at least 0.3: 0.250, by clusters 0.909" in out
    assert "by clusters it would be met: few documents hold most of the questions" in out
    assert "may be chance" not in out


def test_a_value_does_not_look_like_the_target_that_it_misses(gate: Within) -> None:
    write_run(gate.folder, "base", [1] * 29 + [3] * 11)
    (gate.folder / "kbeval.toml").write_text("[targets]\nmrr = 0.817\nlatency_p50_ms = 100\n")
    sidecar(gate.folder, "base", latencies_ms={f"q{i}": {"total": 100.4} for i in range(N)})
    out = gate("check", "base.trec", "--qrels", "qrels.txt").out
    assert "MRR at least 0.817: 0.8167 [" in out  # 32.667 / 40 = .81667
    assert "at most 100 ms: 100.4 ms" in out


def test_a_margin_that_is_set_later_is_recorded_with_the_run_again(gate: Within) -> None:
    write_run(gate.folder, "other", [1, 2] * (N // 2), documents=4)
    (gate.folder / "new").mkdir()
    (gate.folder / "other.trec").rename(gate.folder / "new" / "base.trec")
    add = ("history", "add", "base.trec", "--qrels", "qrels.txt")
    assert gate(*add).code == 0
    (gate.folder / "kbeval.toml").write_text('[margins]\n"mrr@7" = 0.05\n')
    arguments = ("check", "new/base.trec", "--qrels", "qrels.txt", "--baseline", "history")
    line = gate.refused(*arguments)
    assert "expected mrr@7 in its baseline" in line
    assert line.endswith("record that run again: kbeval history add RUN")
    assert "recorded 1 of 1 runs" in gate(*add).out
    assert gate(*arguments).code == 0
    assert gate.refused("trend", "--engine", "nope").endswith("expected recorded runs of nope with mrr, found base")


def test_what_fails_is_not_recorded(gate: Within) -> None:
    write_run(gate.folder, "new", [3] * N)
    arguments = ("--qrels", "qrels.txt", "--record")
    assert gate("check", "base.trec", *arguments).code == 0
    failed = gate("check", "new.trec", *arguments)
    assert failed.code == 1
    assert "nothing was recorded, as the check failed" in failed.err
    assert gate("history", "--format", "csv").out.count("\n") == 2  # the header, and base


def test_a_summary_that_cannot_be_written_names_the_file(gate: Within) -> None:
    line = gate.refused("check", "base.trec", "--qrels", "qrels.txt", "--summary", "/dev/full")
    assert line == "/dev/full: cannot be written: no space left on device"


def test_latencies_are_held_to_ceilings(gate: Within) -> None:
    folder = gate.folder
    waits = {f"q{i}": {"total": float(i + 1)} for i in range(N)}  # 1 to 40 ms
    sidecar(folder, "base", latencies_ms=waits)
    (folder / "kbeval.toml").write_text("[targets]\nlatency_p50_ms = 20\nlatency_p95_ms = 39\nlatency_p99_ms = 39\n")
    code, words, line = outcome(gate, "base.trec")
    assert list(words.values()) == ["missed", "met", "missed"]  # 20.5, 38.05, 39.61
    assert (code, line["value"]) == (1, pytest.approx(float(np.percentile(range(1, N + 1), 99))))
    (folder / "base.json").unlink()
    message = gate.refused("check", "base.trec", "--qrels", "qrels.txt")
    assert "nothing could be judged" in message
    assert "no latencies" in message


def test_broken_input_is_refused(gate: Within) -> None:
    folder = gate.folder
    arguments = ("--qrels", "qrels.txt")
    (folder / "empty.trec").write_text("")
    assert "at least one line, found none" in gate.refused("check", "empty.trec", *arguments)
    (folder / "foreign.trec").write_text("other Q0 d 1 1 t\n")
    assert "no query in common" in gate.refused("check", "foreign.trec", *arguments)
    write_run(folder, "new", [1] * N)
    sidecar(folder, "base")
    sidecar(folder, "new", corpus="another")
    message = gate.refused("check", "new.trec", "--baseline", "base.trec", *arguments)
    assert "expected the corpus of run" in message
    assert "--force" not in message
    sidecar(folder, "new", k=10)
    assert "k = 10" in gate.refused("check", "new.trec", "--baseline", "base.trec", *arguments)
    (folder / "old").mkdir()
    assert "named new.trec" in gate.refused("check", "new.trec", "--baseline", "old", *arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("", "set floors in [targets] of kbeval.toml"),
        ("[targets]\nmmr = 0.5\n", "nearest: mrr"),
        ("[targets]\nmrr = 85\n", "a number from 0 to 1, found 85"),
        ("[targets]\nmrr = nan\n", "found nan"),
        ("[targets]\nmrr = true\n", "valid number"),
        ("[targets]\nmrr = 0.5\nRR = 0.6\n", "in two spellings"),
        ("[targets]\nlatency_p90_ms = 5\n", "nearest: latency_p9"),
        ("[targets]\nlatency_p95_ms = -1\n", "milliseconds above 0"),
        ("[targets]\nmrr = 0.5\n[margins]\nmrr = 0\n", "above 0 and up to 1, found 0"),
        ("[margins]\nlatency_p95_ms = 5\n", "give it a ceiling in [targets]"),
        ('[targets]\nmrr = 0.5\n[check]\nunreachable = "no"\n', "'warn' or 'fail'"),
    ],
)
def test_settings_that_cannot_be_meant(gate: Within, settings: str, message: str) -> None:
    (gate.folder / "kbeval.toml").write_text(settings)
    assert message in gate.refused("check", "base.trec", "--qrels", "qrels.txt")


def test_a_baseline_without_a_margin_is_refused(gate: Within) -> None:
    (gate.folder / "kbeval.toml").write_text("[targets]\nmrr = 0.1\n")
    message = gate.refused("check", "base.trec", "--baseline", "base.trec", "--qrels", "qrels.txt")
    assert "expected a margin in [margins]" in message


HOSTILE = "a|b<script>&\"'=::error,:%"
HOSTILE_ERROR = "boom\x00\x1b[31m\n::error title=x::injected\r]]>\ufffe"


def test_hostile_names_and_errors_stay_text_in_every_format(gate: Within) -> None:
    folder = gate.folder
    write_run(folder, HOSTILE, [2] * N)
    sidecar(folder, HOSTILE, errors={"q1": HOSTILE_ERROR})
    (folder / "kbeval.toml").write_text("[targets]\nmrr = 0.9\n")
    arguments = ("check", f"{HOSTILE}.trec", "--qrels", "qrels.txt", "--junit", "o.xml", "--summary", "s.md")
    text = gate(*arguments)
    assert text.code == 1
    assert "MISSED" in text.out
    assert "ERROR q1: boom" in text.out
    assert not any(ord(c) < 32 and c != "\n" for c in text.out)
    github = gate(*arguments, "--format", "github")
    lines = github.out.splitlines()
    assert github.code == 1
    assert [line.split(" ")[0] for line in lines] == ["::error", "::error", "::notice"]  # nothing injected
    assert "%0A%3A" not in lines[0]
    assert "%0A::error title=x::injected" in lines[0]  # in the message, where it is no command
    assert lines[0].startswith("::error title=a|b<script>&\"'=%3A%3Aerror%2C%3A%25%3A the engine failed::")
    markdown = gate(*arguments, "--format", "markdown")
    assert markdown.code == 1
    assert "a\\|b&lt;script>" in markdown.out
    assert "<script>" not in markdown.out
    assert (folder / "s.md").read_text() == markdown.out * 3  # appended, as GitHub asks
    data = json.loads(gate(*arguments, "--format", "json").out)
    assert data["runs"][HOSTILE]["errors"] == {"q1": HOSTILE_ERROR}
    assert data["passed"] is False
    junit = (folder / "o.xml").read_bytes()
    suite = Xml.fromstring(junit)[0]
    assert suite.attrib["name"] == HOSTILE
    assert {key: suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "2",
        "failures": "1",
        "errors": "1",
        "skipped": "0",
    }
    assert "injected" in (suite[1][0].text or "")
    _valid(junit)


def test_as_a_process_of_its_own(kbeval: Kbeval, gate: Within) -> None:
    assert kbeval("check", "base.trec", "--qrels", "qrels.txt").code == 0
    (gate.folder / "kbeval.toml").write_text("[targets]\nmrr = 0.76\n")  # its mean is (1 + 1/2) / 2
    result = kbeval("check", "base.trec", "--qrels", "qrels.txt")
    assert (result.code, result.err) == (1, "")
    assert "MISSED" in result.out


def test_an_error_fails_although_every_target_is_met(gate: Within) -> None:
    sidecar(gate.folder, "base", errors={"q1": "down"})
    result = gate("check", "base.trec", "--qrels", "qrels.txt")
    assert result.code == 1
    assert "FAILED (errors in base)" in result.out


def test_every_word_is_valid_junit(gate: Within) -> None:
    folder = gate.folder
    write_run(folder, "new", [2] * N)
    (folder / "kbeval.toml").write_text(
        '[targets]\nmrr = 0.4\n"P@5" = 0.9\n"hit_rate@1" = 0.5\n[margins]\nmrr = 0.05\n'
    )
    for baseline in ("base.trec", "new.trec"):
        gate("check", "new.trec", "base.trec", "--qrels", "qrels.txt", "--baseline", baseline, "--junit", "o.xml")
        _valid((folder / "o.xml").read_bytes())


def test_baselines_by_folder_and_from_history(gate: Within) -> None:
    folder = gate.folder
    (folder / "new").mkdir()
    ranks = {"base": [2] * N, "other": [1] * N}
    write_run(folder, "other", [1] * N)
    for name, of in ranks.items():
        write_run(folder / "new", name, of)
    arguments = ("new/base.trec", "new/other.trec", "--qrels", "qrels.txt", "--format", "json")
    result = gate("check", *arguments, "--baseline", ".")
    lines = [line for line in json.loads(result.out)["gates"] if line["gate"] == "margin"]
    assert result.code == 1
    assert [(line["run"], line["baseline"], line["word"]) for line in lines] == [
        ("base", "baseline base", "regressed"),
        ("other", "baseline other", "not worse"),
    ]
    sidecar(folder, "base", errors={"q1": "down"})
    assert "errors in baseline base)" in gate("check", *arguments[:4], "--baseline", ".").out
    (folder / "base.json").unlink()
    assert "found no store" in gate.refused("check", *arguments, "--baseline", "history")
    assert gate("history", "add", "base.trec", "other.trec", "--qrels", "qrels.txt").code == 0
    result = gate("check", "new/base.trec", "--qrels", "qrels.txt", "--format", "json", "--baseline", "history")
    line = json.loads(result.out)["gates"][-1]
    assert (result.code, line["word"], line["delta"]) == (1, "regressed", pytest.approx(-0.25))
    # A run is not held against itself, and one on another test set is no baseline.
    assert "found none" in gate.refused("check", "base.trec", "--qrels", "qrels.txt", "--baseline", "history")
    (folder / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(N - 1)))
    assert "found none" in gate.refused("check", "new/base.trec", "--qrels", "qrels.txt", "--baseline", "history")


def _valid(document: bytes) -> None:
    """Against what Ant's JUnit schema and Jenkins' ask of a report, each the stricter one's demand."""
    from lxml import etree

    schema = etree.XMLSchema(etree.fromstring(SCHEMA))
    schema.assertValid(etree.fromstring(document))


_OUTCOME = '<xs:attribute name="message" type="xs:string"/><xs:attribute name="type" type="xs:string" use="{}"/>'
_REQUIRED = "".join(
    f'<xs:attribute name="{name}" type="xs:{kind}" use="required"/>'
    for name, kind in {
        "package": "token",
        "id": "int",
        "name": "token",
        "timestamp": "dateTime",
        "hostname": "token",
        "tests": "int",
        "failures": "int",
        "errors": "int",
        "time": "decimal",
    }.items()
)
SCHEMA = f"""<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:element name="testsuites"><xs:complexType><xs:sequence>
 <xs:element name="testsuite" maxOccurs="unbounded"><xs:complexType><xs:sequence>
  <xs:element name="properties"><xs:complexType><xs:sequence>
   <xs:element name="property" minOccurs="0" maxOccurs="unbounded"><xs:complexType>
    <xs:attribute name="name" type="xs:token" use="required"/>
    <xs:attribute name="value" type="xs:string" use="required"/>
   </xs:complexType></xs:element></xs:sequence></xs:complexType></xs:element>
  <xs:element name="testcase" minOccurs="0" maxOccurs="unbounded"><xs:complexType>
   <xs:choice minOccurs="0">
    <xs:element name="skipped"><xs:complexType mixed="true">{_OUTCOME.format("optional")}</xs:complexType></xs:element>
    <xs:element name="error"><xs:complexType mixed="true">{_OUTCOME.format("required")}</xs:complexType></xs:element>
    <xs:element name="failure"><xs:complexType mixed="true">{_OUTCOME.format("required")}</xs:complexType></xs:element>
   </xs:choice>
   <xs:attribute name="name" type="xs:token" use="required"/>
   <xs:attribute name="classname" type="xs:token" use="required"/>
   <xs:attribute name="time" type="xs:decimal" use="required"/>
  </xs:complexType></xs:element>
  <xs:element name="system-out" type="xs:string"/><xs:element name="system-err" type="xs:string"/>
 </xs:sequence>{_REQUIRED}<xs:attribute name="skipped" type="xs:int"/></xs:complexType></xs:element>
</xs:sequence></xs:complexType></xs:element></xs:schema>"""


def test_the_schema_of_this_test_refuses_what_it_should() -> None:
    from lxml import etree

    with pytest.raises(etree.DocumentInvalid):
        _valid(b'<testsuites><testsuite name="x"/></testsuites>')
