"""``run:`` engines: an old run answers again, and says so where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kbeval.engines.base import BuildContext
from kbeval.engines.registry import plan_engines
from kbeval.errors import KbevalError
from kbeval.formats.dataset import corpus_hash
from kbeval.formats.sidecar import EngineFacts, Sidecar, sidecar_bytes
from kbeval.model import Document, LabelledQuery
from kbeval.progress import Silent
from kbeval.running.runner import ask_all

if TYPE_CHECKING:
    from pathlib import Path

    from kbeval.engines.base import Engine

DOCUMENTS = [Document(id="d1", text="one"), Document(id="d2", text="two")]
QUERIES = [LabelledQuery(id=name, text=f"text of {name}") for name in ("q1", "q2", "q3", "q4")]
RUN = "q1 Q0 d2 1 2.5 old\nq1 Q0 d1 2 1.5 old\nq2 Q0 d1 1 7 old\n"


def build(folder: Path, **table: Any) -> Engine:
    (plan,) = plan_engines([], {"mine": {"type": "run:old.trec", **table}})
    store: Any = None
    return plan.build(BuildContext(documents=DOCUMENTS, store=store, progress=Silent(), root=folder))


def sidecar(folder: Path, documents: list[Document], **facts: Any) -> None:
    made_by = EngineFacts(name="b", type="keyword", reads_text=False, notes=["A port."])
    made = Sidecar(engine=made_by, k=10, corpus_hash=corpus_hash(documents), queries_hash="x", **facts)
    (folder / "old.json").write_bytes(sidecar_bytes(made))


def test_a_foreign_run_is_looked_up_by_query_id(tmp_path: Path) -> None:
    (tmp_path / "old.trec").write_text(RUN)
    engine = build(tmp_path)
    outcomes = ask_all(engine, "mine", QUERIES, 1, known_documents=set(), progress=Silent())
    assert [list(outcome.answer.hits) for outcome in outcomes.outcomes if outcome.answer] == [
        [("d2", 2.5)],
        [("d1", 7.0)],
    ]
    # Whether it found nothing for q3 or was never asked, the file does not say.
    assert list(outcomes.errors) == ["q3", "q4"]
    assert "old.trec has no line for query 'q3'" in outcomes.errors["q3"]
    assert "2 documents deep" in engine.notes[0]


def test_its_sidecar_tells_nothing_found_from_failed(tmp_path: Path) -> None:
    (tmp_path / "old.trec").write_text(RUN)
    sidecar(tmp_path, DOCUMENTS, errors={"q3": "ServiceError: busy"}, latencies_ms={"q4": {"total": 1.0}})
    engine = build(tmp_path)
    outcomes = ask_all(engine, "mine", QUERIES, 5, known_documents=set(), progress=Silent())
    assert list(outcomes.errors) == ["q3"]
    assert "ServiceError: busy" in outcomes.errors["q3"]
    assert outcomes.counts()["empty"] == 1
    assert engine.reads_text is False
    assert engine.notes[1:] == ("A port.",)
    assert "10 documents deep" in engine.notes[0]
    assert engine.configuration()["replayed"]["name"] == "b"


def test_escaped_ids_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "old.trec").write_text("q%201 Q0 d%202 1 1 old\n")
    sidecar(tmp_path, DOCUMENTS, escaped_ids=True)
    query = LabelledQuery(id="q 1", text="t")
    assert build(tmp_path).answer(query, 5).hits == [("d 2", 1.0)]


def test_a_run_about_another_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.trec").write_text(RUN)
    sidecar(tmp_path, DOCUMENTS[:1])
    with pytest.raises(KbevalError, match=r"old\.trec: expected a run about this corpus .* or other_corpus = true"):
        build(tmp_path)
    assert build(tmp_path, other_corpus=True).answer(QUERIES[0], 1).hits == [("d2", 2.5)]


def test_queries_of_other_ids_are_found_by_their_text(tmp_path: Path) -> None:
    (tmp_path / "old.trec").write_text(RUN)
    (tmp_path / "old.jsonl").write_text('{"_id": "q1", "text": "text of q4"}\n{"_id": "q2", "text": "text of q3"}\n')
    engine = build(tmp_path, queries="old.jsonl")
    assert engine.answer(QUERIES[3], 1).hits == [("d2", 2.5)]
    assert engine.retrieve("text of q3", 1).hits == [("d1", 7.0)]
    with pytest.raises(LookupError, match=r"no query of this text in old\.jsonl"):
        engine.answer(QUERIES[0], 1)
    (tmp_path / "old.jsonl").write_text('{"_id": "q1", "text": "t"}\n{"_id": "q2", "text": "t"}\n')
    with pytest.raises(KbevalError, match=r"expected queries of different texts, found 'q1' and 'q2' of one"):
        build(tmp_path, queries="old.jsonl")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KbevalError, match=r"old\.trec"):
        build(tmp_path)


def test_another_content_of_the_file_is_another_configuration(tmp_path: Path) -> None:
    (tmp_path / "old.trec").write_text(RUN)
    first = build(tmp_path).configuration()
    assert build(tmp_path).configuration() == first
    sidecar(tmp_path, DOCUMENTS)
    second = build(tmp_path).configuration()
    (tmp_path / "old.trec").write_text(RUN.replace("7", "8"))
    contents = {each["content"] for each in (first, second, build(tmp_path).configuration())}
    assert len(contents) == 3


def test_a_replay_is_no_deeper_than_what_it_replays(tmp_path: Path) -> None:
    (tmp_path / "old.trec").write_text(RUN)
    assert build(tmp_path).depth is None  # nothing says how deep it was asked
    sidecar(tmp_path, DOCUMENTS)
    assert build(tmp_path).depth == 10
