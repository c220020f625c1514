"""Questions from logs and other tools' test sets: what is taken, masked, labelled, sampled and refused."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl
import pytest
from typer.testing import CliRunner

from kbeval.cli.app import app
from kbeval.corpus.chunking import text_hash
from kbeval.errors import KbevalError
from kbeval.formats.questions import read_questions
from kbeval.terminal import printable
from kbeval.testset.importing import normalised
from kbeval.testset.sampling import disagreement, thinness

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.model import Question

REFUNDS = (
    "A cashier may give money back up to fifty pounds. Anything above that needs a manager, who unlocks the till with "
    "a passcode and signs the slip. The money goes back to the card that paid."
)
PAYOUTS = "Card takings arrive on your bank account two working days later, and on a Monday for those of a weekend."
PRINTER = "A red light means that the paper roll has run out. Open the lid, lift the old roll out and put in a new one."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of three documents and one question, whose settings file is returned."""
    seed = tmp_path / "corpus" / "seed_docs"
    seed.mkdir(parents=True)
    for name, text in {"refunds": REFUNDS, "payouts": PAYOUTS, "printer": PRINTER}.items():
        (seed / f"{name}.md").write_text(f"---\ntitle: {name}\ndomain: {name}-domain\n---\n{text}\n")
    questions = [
        {
            "id": "q1",
            "text": "How much may a cashier give back?",
            "gold_chunks": {},
            "gold_documents": {"refunds": 1},
            "source": "authored",
        }
    ]
    rejected = [{**questions[0], "id": "r1", "text": "What does it say?", "reason": "refers"}]
    cache = {"format": 1, "questions": questions, "rejected": rejected}
    (tmp_path / "corpus" / "questions.cache.json").write_bytes(orjson.dumps(cache))
    (tmp_path / "kbeval.toml").write_text("")
    return tmp_path / "kbeval.toml"


@pytest.fixture
def take(project: Path) -> Any:
    """Imports a file into the project: what was printed, and the new questions of the cache."""

    def run(file: Path, *arguments: str) -> tuple[str, list[Question]]:
        result = CliRunner().invoke(app, ["import", str(file), "--config", str(project), *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        found = read_questions(project.parent / "corpus" / "questions.cache.json")
        return result.output, [question for question in found if question.id != "q1"]

    return run


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


LOG = (
    "timestamp;user;question;category\n"
    '2026-03-02 08:00:01;ana@example.com;"My card 4111 1111 1111 1111 was refused; why?";cards\n'
    "2026-03-01 09:00:00;bo;When do takings arrive?;payouts\n"
    "2026-03-04 09:00:00;cy;  when do TAKINGS arrive ;payouts\n"
    "2026-03-05 09:00:00;cy;;payouts\n"
    "2026-03-05 09:00:00;di;how much may a cashier give back;refunds\n"
)


def test_a_log_of_questions(take: Any, tmp_path: Path) -> None:
    (tmp_path / "export.csv").write_text(LOG)
    said, new = take(tmp_path / "export.csv")
    assert {q.text: (q.domain, q.source, dict(q.gold_documents), q.answerable) for q in new} == {
        "When do takings arrive?": ("payouts", "historical", {}, True),
        "My card [card] was refused; why?": ("cards", "historical", {}, True),
    }
    takings = next(q for q in new if "takings" in q.text)
    assert takings.provenance == {
        "imported_from": "export.csv",
        "format": "logs",
        "asked": 2,
        "first_asked": "2026-03-01",
        "last_asked": "2026-03-04",
    }
    assert "5 rows of logs, 3 different questions, 3 taken: 2 new, 1 there already" in said
    assert "source historical; 0 with gold, 2 to be labelled" in said
    assert "1 row left out: empty" in said
    assert "masked: 1 card" in said
    assert "read as domain: category, query: question, when: timestamp" in said


def test_nothing_that_names_a_person_is_written_or_said(take: Any, project: Path, tmp_path: Path) -> None:
    secrets = ["ana.s@example.com", "07700 900123", "5555 5555 5555 4444", "GB29 NWBK 6016 1331 9268 19"]
    rows = [
        {"id": secrets[0], "query": f"write to {secrets[0]} or ring {secrets[1]}", "domain": secrets[0]},
        {"id": "7", "query": f"paid {secrets[2]} from {secrets[3]}", "user": secrets[0], "notes": secrets[1]},
    ]
    said, _ = take(jsonl(tmp_path / "log.jsonl", rows), "--dry-run")
    said += take(tmp_path / "log.jsonl")[0]
    written = b"".join(f.read_bytes() for f in project.parent.rglob("*") if f.is_file() and f.name != "log.jsonl")
    for secret in secrets:
        assert secret not in said
        assert secret.encode() not in written
    assert b"write to [email] or ring [phone]" in written
    assert b"paid [card] from [iban]" in written


def test_importing_again_changes_nothing(take: Any, project: Path, tmp_path: Path) -> None:
    rows = [{"qid": "printer", "query": "red light?"}, {"qid": "q1", "query": "blue light?"}, {"query": "no id"}]
    file = jsonl(tmp_path / "log.jsonl", rows)
    cache = project.parent / "corpus" / "questions.cache.json"
    _, new = take(file)
    before = cache.read_bytes()
    said, again = take(file)
    assert cache.read_bytes() == before
    assert again == new
    assert "0 new, 3 there already" in said
    assert "nothing changed" in said
    assert [question["id"] for question in json.loads(before)["rejected"]] == ["r1"]


def test_ids_never_equal_a_documents_or_anothers(take: Any, tmp_path: Path) -> None:
    rows = [{"qid": "printer", "query": "red light?"}, {"qid": "q1", "query": "blue?"}, {"qid": "9", "query": "third"}]
    _, new = take(jsonl(tmp_path / "log.jsonl", rows))
    ids = {question.text: question.id for question in new}
    # printf 'red light' | sha256sum; printf blue | sha256sum
    assert ids == {"red light?": "printer-da278b", "blue?": "q1-164776", "third": "9"}


def test_a_logs_id_becomes_one_word(take: Any, tmp_path: Path) -> None:
    _, new = take(jsonl(tmp_path / "log.jsonl", [{"id": " req 17\t3", "query": "red?"}, {"id": " ", "query": "blue?"}]))
    # printf blue | sha256sum
    assert {q.text: q.id for q in new} == {"red?": "req-17-3", "blue?": "log-16477688c0"}


def test_dry_run_writes_nothing(take: Any, project: Path, tmp_path: Path) -> None:
    before = (project.parent / "corpus" / "questions.cache.json").read_bytes()
    said, new = take(jsonl(tmp_path / "log.jsonl", [{"query": "Where is the roll?"}]), "--dry-run")
    assert new == []
    assert (project.parent / "corpus" / "questions.cache.json").read_bytes() == before
    assert "Where is the roll?" in said


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_formats_are_told_by_content(take: Any, tmp_path: Path, kind: str, packed: bool) -> None:
    rows = [
        {"qid": "a", "query": 'ärger, "und" mehr', "relevant": "refunds"},
        {"qid": "b", "query": "x\ny", "relevant": ""},
    ]
    data = {
        "csv": 'qid,query,relevant\na,"ärger, ""und"" mehr",refunds\nb,"x\ny",\n'.encode(),
        "tsv": 'qid\tquery\trelevant\na\t"ärger, ""und"" mehr"\trefunds\nb\t"x\ny"\t\n'.encode(),
        "jsonl": b"".join(orjson.dumps(row) + b"\n" for row in rows),
        "json": orjson.dumps(rows),
        "parquet": b"",
    }[kind]
    if kind == "parquet":
        stream = io.BytesIO()
        pl.DataFrame(rows).write_parquet(stream)
        data = stream.getvalue()
    (tmp_path / "file").write_bytes(gzip.compress(data) if packed else data)
    _, new = take(tmp_path / "file")
    assert {q.id: (q.text, dict(q.gold_documents)) for q in new} == {
        "a": ('ärger, "und" mehr', {"refunds": 1}),
        "b": ("x\ny", {}),
    }


@pytest.mark.parametrize(
    ("relevant", "documents", "chunks"),
    [
        ("refunds", {"refunds": 1}, []),
        ("refunds|payouts", {"payouts": 1, "refunds": 1}, []),
        ("refunds, payouts", {"payouts": 1, "refunds": 1}, []),
        ('["refunds", "printer#0"]', {"printer": 1, "refunds": 1}, ["printer#0"]),
        ("['refunds']", {"refunds": 1}, []),
        (["refunds", "payouts"], {"payouts": 1, "refunds": 1}, []),
        ([{"doc_id": "refunds", "score": 2}], {"refunds": 1}, []),
        ({"refunds": 3, "payouts": 1, "printer": 0}, {"payouts": 1, "refunds": 3}, []),
        ('{"refunds": 2}', {"refunds": 2}, []),
        ("refunds.md", {"refunds": 1}, []),
    ],
)
def test_labels_in_the_ways_that_people_write_them(
    take: Any, tmp_path: Path, relevant: Any, documents: dict[str, int], chunks: list[str]
) -> None:
    _, new = take(jsonl(tmp_path / "log.jsonl", [{"query": "anything", "relevant": relevant}]))
    assert dict(new[0].gold_documents) == documents
    assert list(new[0].gold_chunks) == chunks
    assert all(new[0].gold_chunks[chunk] == text_hash(PRINTER) for chunk in chunks)


def test_labels_that_the_corpus_lacks_are_counted_and_named(take: Any, tmp_path: Path) -> None:
    rows = [{"query": "one", "relevant": ["refunds", "gone"]}, {"query": "two", "relevant": ["gone", "away"]}]
    said, new = take(jsonl(tmp_path / "log.jsonl", rows))
    assert {q.text: dict(q.gold_documents) for q in new} == {"one": {"refunds": 1}, "two": {}}
    assert "2 labels are not in the corpus and were left out: 'gone', 'away'" in said


def test_a_question_without_gold_gets_it_from_a_later_file(take: Any, tmp_path: Path) -> None:
    take(jsonl(tmp_path / "log.jsonl", [{"id": "7", "query": "red light?"}]))
    said, new = take(jsonl(tmp_path / "labelled.jsonl", [{"id": "8", "query": "Red light", "relevant": "printer"}]))
    assert [(q.id, dict(q.gold_documents), q.source) for q in new] == [("7", {"printer": 1}, "historical")]
    assert "1 that were there without gold have it now" in said


def test_hashes_are_joined_to_their_texts(take: Any, tmp_path: Path) -> None:
    rows = [{"query_hash": "h1", "document_ids": ["refunds", "payouts"]}, {"query_hash": "h2"}, {"query_hash": "h1"}]
    log = jsonl(tmp_path / "log.jsonl", rows)
    (tmp_path / "texts.csv").write_text("query_hash,query_text\nh1,where is my money\nh9,unused\n")
    said, new = take(log, "--texts", str(tmp_path / "texts.csv"))
    assert [(q.text, q.provenance["asked"], q.provenance["returned"]) for q in new] == [
        ("where is my money", 2, ["refunds", "payouts"])
    ]
    # What an engine returned labels nothing.
    assert dict(new[0].gold_documents) == {}
    assert "1 row left out: no text for its hash" in said


def test_rows_need_not_have_all_columns(take: Any, tmp_path: Path) -> None:
    rows = [{"query": "one"}, {"query": "two", "relevant": "printer"}, {"other": 3}]
    said, new = take(jsonl(tmp_path / "log.jsonl", rows))
    assert {q.text: dict(q.gold_documents) for q in new} == {"one": {}, "two": {"printer": 1}}
    assert "1 row left out: no text" in said


def test_columns_of_any_name(take: Any, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,Was,Bereich\nnot this,Wo ist mein Geld?,Kasse\n")
    _, new = take(tmp_path / "x.csv", "--columns", "query=Was, domain=Bereich")
    assert [(q.text, q.domain) for q in new] == [("Wo ist mein Geld?", "Kasse")]


def test_what_is_printed_moves_no_cursor(take: Any, tmp_path: Path) -> None:
    rows = [
        {"id": "a\x1b[2J", "query": "\x1b]0;owned\x07red\u202e\x9b1m Straße\u00a0ok?", "\x1b[1m": 1, "\ud83d\ude00": 2}
    ]
    said, _ = take(jsonl(tmp_path / "log.jsonl", rows), "--dry-run")
    assert "  a\\x1b[2J: \\x1b]0;owned\\x07red\\u202e\\x9b1m Straße\u00a0ok?" in said
    assert "not read: \\x1b[1m, \U0001f600" in said
    assert not [
        character for character in said if character != "\n" and not (character.isprintable() or character == "\u00a0")
    ]


def test_printable_says_what_it_replaces() -> None:
    assert printable("a\nb\tc\x00\u2066\ud800\U000e0001") == r"a\nb\tc\x00\u2066\ud800\U000e0001"
    assert printable("Grüße 東京\u3000😀 \\") == "Grüße 東京\u3000😀 \\"


def test_what_is_no_text_is_no_question(take: Any, tmp_path: Path) -> None:
    values = [["a", "b"], {"x": 1}, True, 7, 1.5, "red light?", None]
    said, new = take(jsonl(tmp_path / "log.jsonl", [{"query": value} for value in values]))
    assert [q.text for q in new] == ["red light?"]
    assert "7 rows of logs, 1 different questions" in said
    assert "5 rows left out: a question that is no text" in said
    assert "1 row left out: no text\n" in said
    with pytest.raises(KbevalError, match=r"found none in 1 rows \(1 a question that is no text\)"):
        take(jsonl(tmp_path / "log.jsonl", [{"query": ["a"]}]))


def test_other_tools_questions_that_are_no_text(take: Any, tmp_path: Path) -> None:
    data = {"queries": {"u1": ["a"], "u2": "Red?"}, "corpus": {}, "relevant_docs": {}}
    (tmp_path / "pairs.json").write_text(json.dumps(data))
    said, new = take(tmp_path / "pairs.json")
    assert ([q.text for q in new], "1 row left out: a question that is no text" in said) == (["Red?"], True)
    said, _ = take(jsonl(tmp_path / "ragas.jsonl", [{**ragas_rows()[0], "user_input": {"a": 1}}, ragas_rows()[1]]))
    assert "1 row left out: a question that is no text" in said
    rows = [{"qid": "k", "query": query, "retrieval_gt": ["printer"], "generation_gt": "x"} for query in (3, "Blue?")]
    said, _ = take(jsonl(tmp_path / "qa.jsonl", rows))
    assert "1 row left out: a question that is no text" in said


def test_a_pasted_token_is_no_question(take: Any, tmp_path: Path) -> None:
    rows = [{"query": text} for text in ("a" * 4001, "b" * 4000, "!" * 300_000 + "a", "c " * 401)]
    said, new = take(jsonl(tmp_path / "log.jsonl", rows))
    assert [len(q.text) for q in new] == [4000]
    assert "2 rows left out: longer than 4000 characters" in said
    assert "1 row left out: longer than 400 words" in said


@pytest.mark.parametrize("before", ["\n\n", "\r\n \r\n", ";;\n\n", ",,,,,\n"])
def test_blank_lines_before_the_columns(take: Any, tmp_path: Path, before: str) -> None:
    (tmp_path / "log.csv").write_bytes(f"{before}id;query\n1;a,b, c,d question\n".encode())
    _, new = take(tmp_path / "log.csv")
    assert [(q.id, q.text) for q in new] == [("1", "a,b, c,d question")]


def test_columns_that_nothing_is_read_from_are_named(take: Any, tmp_path: Path) -> None:
    said, _ = take(jsonl(tmp_path / "log.jsonl", [{"query": "red?", "user": "u", "ana@example.com": 1}]))
    assert said.count("not read: user, [email]\n") == 1
    said, _ = take(jsonl(tmp_path / "wide.jsonl", [{"query": "blue?", **{f"x{n}": n for n in range(15)}}]))
    assert "not read: x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, and 3 more\n" in said
    assert "not read" not in take(jsonl(tmp_path / "narrow.jsonl", [{"query": "green?"}]))[0]
    said, _ = take(jsonl(tmp_path / "ragas.jsonl", [{**row, "extra": 1} for row in ragas_rows()]))
    assert "not read: extra\n" in said


# --- sampling -------------------------------------------------------------------------------------------------------


def many(tmp_path: Path, name: str = "many.jsonl", *, backwards: bool = False) -> Path:
    rows = [{"qid": f"{n}", "query": f"question {n}", "domain": "big" if n < 90 else "small"} for n in range(100)]
    return jsonl(tmp_path / name, rows[::-1] if backwards else rows)


def test_a_random_sample_depends_on_its_seed_and_not_on_the_order(take: Any, project: Path, tmp_path: Path) -> None:
    said, first = take(many(tmp_path), "--sample", "10", "--seed", "1")
    assert "100 different questions, 10 taken: 10 new" in said
    assert "0 new, 10 there already" in take(many(tmp_path, backwards=True), "--sample", "10", "--seed", "1")[0]
    said, both = take(many(tmp_path), "--sample", "10", "--seed", "2")
    assert {q.id for q in first} < {q.id for q in both}
    assert first[0].provenance["sampled_by"] == "random"
    assert first[0].provenance["seed"] == 1


def test_each_domain_has_its_turn(take: Any, tmp_path: Path) -> None:
    _, new = take(many(tmp_path), "--sample", "10", "--by", "domain")
    assert sorted(q.domain for q in new) == ["big"] * 5 + ["small"] * 5


def test_the_thin_margins_first(take: Any, tmp_path: Path) -> None:
    rows = [
        {"query": "clear", "scores": [0.9, 0.1]},
        {"query": "thin", "scores": [0.9, 0.89, 0.2]},
        {"query": "thinner", "scores": "0.5|0.5"},
        {"query": "often clear and once thin", "scores": [0.9, 0.9]},
        {"query": "often clear and once thin", "scores": [0.9, 0.0]},
        {"query": "one result", "scores": [0.9]},
        {"query": "none", "scores": []},
    ]
    _, new = take(jsonl(tmp_path / "log.jsonl", rows), "--sample", "2", "--by", "ambiguous")
    assert sorted(q.text for q in new) == ["thin", "thinner"]


def test_where_runs_disagree_first(take: Any, tmp_path: Path) -> None:
    log = jsonl(tmp_path / "log.jsonl", [{"qid": f"l{n}", "query": f"question {n}"} for n in range(3)])
    (tmp_path / "a.trec").write_text("l0 Q0 refunds 1 2 a\nl1 Q0 refunds 1 2 a\nl1 Q0 payouts 2 1 a\n")
    (tmp_path / "b.trec").write_text("l0 Q0 refunds 1 2 b\nl1 Q0 printer 1 2 b\nl2 Q0 printer 1 2 b\n")
    arguments = ("--runs", str(tmp_path / "a.trec"), "--runs", str(tmp_path / "b.trec"))
    _, new = take(log, "--sample", "1", "--by", "ambiguous", *arguments)
    assert [q.id for q in new] == ["l1"]


def test_ambiguity_by_hand() -> None:
    assert disagreement([["a", "b"], ["b", "c"]]) == pytest.approx(1 - 1 / 3)
    assert disagreement([["a"], ["a"], ["b"]]) == pytest.approx((0 + 1 + 1) / 3)
    assert disagreement([["a"]]) is None
    assert disagreement([[], []]) == 0
    assert thinness([0.8, 1.0, 0.1]) == pytest.approx(0.8)
    assert thinness([-2.0, -1.0]) == pytest.approx(0.5)
    assert thinness([0.0, 0.0]) == 1
    assert thinness([1.0]) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How?", " how "),
        ("Straße  zu", "STRASSE ZU!"),
        ("ｗｉｄｅ", "wide"),
        ("what is c++", "What is C++?"),
        ("“quoted”", "quoted"),
    ],
)
def test_what_asks_the_same(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


def test_what_asks_something_else() -> None:
    assert normalised("what is c") != normalised("what is c++")
    assert normalised("refund 10") != normalised("refund 10%")


# --- other tools' test sets -----------------------------------------------------------------------------------------


def test_llama_index(take: Any, tmp_path: Path) -> None:
    data = {
        "queries": {"u1": "Who unlocks the till?", "u2": "What does the red light mean?", "u3": "Unknown?"},
        "corpus": {"node-1": REFUNDS[51:], "node-2": f"  {PRINTER.upper()}\n", "node-3": "something else " * 10},
        "relevant_docs": {"u1": ["node-1"], "u2": ["node-2"], "u3": ["node-3"]},
        "mode": "text",
    }
    (tmp_path / "pairs.json").write_text(json.dumps(data, indent=4))
    said, new = take(tmp_path / "pairs.json")
    assert {q.id: (dict(q.gold_documents), list(q.gold_chunks)) for q in new} == {
        "u1": ({"refunds": 1}, ["refunds#0"]),
        "u2": ({"printer": 1}, ["printer#0"]),
        "u3": ({}, []),
    }
    assert {q.source for q in new} == {"synthetic"}
    assert {q.domain for q in new} == {"refunds-domain", "printer-domain", None}
    assert "1 labels are not in the corpus and were left out: 'node-3'" in said


def ragas_rows() -> list[dict[str, Any]]:
    return [
        {
            "user_input": "Who signs the slip?",
            "reference_contexts": [f"<1-hop>\n\n{REFUNDS}", f"<2-hop>\n\n{PAYOUTS}"],
            "reference": "A manager.",
            "synthesizer_name": "multi_hop_specific_query_synthesizer",
        },
        {
            "user_input": "What is it about?",
            "reference_contexts": ["a text that nobody in this corpus ever wrote, of twelve words or so"],
            "reference": "",
            "synthesizer_name": "single_hop",
        },
    ]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_ragas(take: Any, tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"testset.{kind}"
    if kind == "jsonl":
        jsonl(file, ragas_rows())
    elif kind == "parquet":
        pl.DataFrame(ragas_rows()).write_parquet(file)
    else:  # as pandas writes lists
        rows = [{**row, "reference_contexts": str(row["reference_contexts"])} for row in ragas_rows()]
        pl.DataFrame(rows).write_csv(file)
    said, new = take(file)
    signs = next(q for q in new if q.text == "Who signs the slip?")
    assert dict(signs.gold_documents) == {"payouts": 1, "refunds": 1}
    assert list(signs.gold_chunks) == ["payouts#0", "refunds#0"]
    assert signs.provenance["synthesizer_name"] == "multi_hop_specific_query_synthesizer"
    assert signs.provenance["reference"] == "A manager."
    assert signs.source == "synthetic"
    assert "source synthetic; 1 with gold, 1 to be labelled" in said
    assert "1 labels are not in the corpus and were left out: 'a text that nobody in this corpus ever'" in said


def test_ragas_before_0_2_and_conversations(take: Any, tmp_path: Path) -> None:
    old = [{"question": "Red?", "contexts": [PRINTER], "ground_truth": "Paper.", "evolution_type": "simple"}]
    _, new = take(jsonl(tmp_path / "old.jsonl", old))
    assert [(dict(q.gold_documents), q.provenance["evolution_type"]) for q in new] == [({"printer": 1}, "simple")]
    talk = [{**ragas_rows()[0], "user_input": [{"content": "Hi", "type": "human"}]}, ragas_rows()[0]]
    said, _ = take(jsonl(tmp_path / "talk.jsonl", talk))
    assert "1 row left out: conversations of several turns" in said


def test_autorag(take: Any, tmp_path: Path) -> None:
    folder = tmp_path / "autorag"
    folder.mkdir()
    pl.DataFrame(
        {
            "qid": ["k1", "k2"],
            "query": ["When and how much?", "Which light?"],
            "retrieval_gt": [[["c1", "c2"], ["c3"]], [["printer"]]],
            "generation_gt": [["Two days", "2 days"], ["red"]],
        }
    ).write_parquet(folder / "qa.parquet")
    pl.DataFrame(
        {
            "doc_id": ["c1", "c2", "c3"],
            "contents": [PAYOUTS, "nowhere to be found in any of the documents that are here", REFUNDS],
            "metadata": [{"last_modified_datetime": "x"}] * 3,
        }
    ).write_parquet(folder / "corpus.parquet")
    said, new = take(folder)
    assert {q.id: dict(q.gold_documents) for q in new} == {"k1": {"payouts": 1, "refunds": 1}, "k2": {"printer": 1}}
    assert new[0].provenance["retrieval_gt"] == [["c1", "c2"], ["c3"]]
    assert new[0].provenance["reference"] == "Two days"
    assert "'c2'" in said
    assert "0 new, 2 there already" in take(folder / "qa.parquet", "--from", "autorag")[0]


@pytest.mark.parametrize("gold", ["printer", ["printer"], [["printer"]], "['printer']"])
def test_autorags_gold_in_all_its_shapes(take: Any, tmp_path: Path, gold: Any) -> None:
    row = {"qid": "k", "query": "Which light?", "retrieval_gt": gold, "generation_gt": "red"}
    _, new = take(jsonl(tmp_path / "qa.jsonl", [row]))
    assert dict(new[0].gold_documents) == {"printer": 1}


def test_all_questions_of_a_beir_folder(shared_data: Path, tmp_path: Path) -> None:
    from kbeval.formats.dataset import load_dataset
    from kbeval.testset.project import project_dataset

    source = shared_data / "docs-qa"
    (tmp_path / "kbeval.toml").write_text(f'[corpus]\nprovider = "beir"\npath = "{source}"\n')
    config = ["--config", str(tmp_path / "kbeval.toml")]
    for file in (source, source / "queries.jsonl"):
        assert CliRunner().invoke(app, ["import", str(file), *config]).exit_code == 0
    from kbeval.config import load_project

    ours, theirs = project_dataset(load_project(tmp_path / "kbeval.toml")), load_dataset(source)
    assert ours.qrels.frame.equals(theirs.qrels.frame)
    assert [(q.id, q.text, q.domain) for q in ours.queries] == [(q.id, q.text, q.domain) for q in theirs.queries]
    assert {q.source for q in ours.queries} == {"synthetic"}
    assert len(ours.queries) == 100


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"a,b\n1,2\n", (), "(--columns query=NAME) or with its hash (hash=NAME), found the columns a, b"),
        (b"query,b\nx\n", (), ", line 2: expected 2 columns, found 1 columns"),
        (b"query,b\nx,1\nsecret@example.com,1,2\n", (), ", line 3: expected 2 columns, found 3 columns"),
        (b"query,query\nx,y\n", (), "line 1: expected each column once, found 'query' twice"),
        (b"\n\nquery,query\nx,y\n", (), "line 3: expected each column once, found 'query' twice"),
        (b"query\n", (), "expected at least one row, found none"),
        (b"query\ncaf\xe9\n", (), ", line 2: expected CSV, JSON or Parquet in UTF-8, found the byte 0xe9"),
        (b"que\0ry\nx\n", (), "expected CSV, JSON or Parquet, found other bytes"),
        (b'query,b\n"x,1\n', (), "expected CSV, found"),
        (b'{"query": "x"}\n{"query": \n', (), ", line 2: expected a JSON object, found"),
        (b'{"query": "x"}\n[1]\n', (), ", line 2: expected a JSON object, found a list"),
        (b'[{"query": "x"}, 3]', (), ", line 2: expected a JSON object, found a int"),
        (b"[{", (), "expected JSON, found"),
        (b"PAR1 and then nothing", (), "expected a Parquet file, found a damaged one"),
        (b"query\n?!\n", (), "expected at least one question, found none in 1 rows (1 empty)"),
        (b"query_hash\nabc\n", (), "found none in 1 rows (1 no text for its hash)"),
        (b"query\nx\n", ("--columns", "query"), "--columns query: expected WHAT=NAME"),
        (b"query\nx\n", ("--columns", "query=other"), "expected a column 'other', found the columns query"),
        (b"query\nx\n", ("--columns", "queri=query"), "expected one of query, id, hash, relevant"),
        (b"query\nx\n", ("--from", "ragas"), "expected a column user_input, found the columns query"),
        (b"query\nx\n", ("--from", "autorag"), "expected a column qid, found the columns query"),
        (b"query\nx\n", ("--from", "llama-index"), "expected a JSON object with queries, corpus and relevant_docs"),
        (b"query\nx\n", ("--by", "domain"), "expected --sample N with them, found none"),
        (b"query\nx\n", ("--by", "domain", "--sample", "3"), "expected a column with the domain"),
        (b"query\nx\n", ("--by", "ambiguous", "--sample", "3"), "expected two --runs, or a log with the scores"),
        (b"query,scores\nx,high\n", (), ", line 2: expected numbers as scores, found other text"),
        (b'{"query": "x", "relevant": {"refunds": 1.5}}', (), "line 1: expected whole numbers as grades"),
        (b'{"query": "x", "relevant": "{refunds}"}', (), "line 1: expected grades by id as JSON"),
        (b'{"queries": [], "corpus": {}, "relevant_docs": {}}', (), "relevant_docs to be objects, found other values"),
        (b'{"user_input": "x", "reference_contexts": []}', ("--source", "historical"), "found a test set of ragas"),
    ],
)
def test_what_is_refused(
    take: Any, project: Path, tmp_path: Path, content: bytes, arguments: Any, message: str
) -> None:
    before = (project.parent / "corpus" / "questions.cache.json").read_bytes()
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(KbevalError) as refused:
        take(tmp_path / "file", *arguments)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)
    assert (project.parent / "corpus" / "questions.cache.json").read_bytes() == before


def test_folders_texts_and_runs_that_are_refused(take: Any, tmp_path: Path) -> None:
    with pytest.raises(KbevalError, match=r"queries.jsonl \(BEIR\) or qa.parquet \(AutoRAG\), found neither"):
        take(tmp_path / "corpus")
    log = jsonl(tmp_path / "log.jsonl", [{"query_hash": "h", "domain": "x"}])
    with pytest.raises(KbevalError, match="expected a column with the hash and one with the text"):
        take(log, "--texts", str(log))
    (tmp_path / "a.trec").write_text("q Q0 d 1 1 a\n")
    with pytest.raises(KbevalError, match="expected two or more --runs to disagree, found one"):
        take(log, "--runs", str(tmp_path / "a.trec"), "--by", "ambiguous", "--sample", "1")
    with pytest.raises(KbevalError, match="--runs are for --by ambiguous, found --by random"):
        take(log, "--runs", str(tmp_path / "a.trec"), "--sample", "1")
    with pytest.raises(KbevalError, match="a readable file"):
        take(tmp_path / "missing.csv")


def test_a_beir_folder_that_does_not_say_who_asked(take: Any, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "other", "text": PRINTER}) + "\n")
    (folder / "queries.jsonl").write_text('{"_id": "7", "text": "red light?"}\n')
    (folder / "qrels" / "test.tsv").write_text("7\tother\t2\n")
    with pytest.raises(KbevalError, match="expected --source historical, synthetic or authored"):
        take(folder)
    _, new = take(folder, "--source", "historical")
    assert [(q.id, q.source, dict(q.gold_documents)) for q in new] == [("7", "historical", {"printer": 2})]
    with pytest.raises(KbevalError, match="expected a file or folder of ragas, found a folder of beir"):
        take(folder, "--from", "ragas")
