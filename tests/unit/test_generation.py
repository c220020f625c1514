"""What becomes of the answers: keys, bands, gold that moves, and what people have done to the cache."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import fake_writer
from chat_server import Asked, ChatServer, Reply, Say, question, serve_chat
from kbeval.config import load_project
from kbeval.errors import KbevalError
from kbeval.formats.questions import read_questions, read_rejected, write_questions
from kbeval.model import Question, Rejected
from kbeval.testset.generation import prompts
from kbeval.testset.generation.sources import read_corpus
from kbeval.testset.generation.work import Generation, Outcome
from kbeval.testset.generation.written import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PARAMETERS = {"temperature": 0.0, "max_tokens": 300}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serve_chat(lambda asked: question(fake_writer.good(asked))) as running:
        yield running


class Made:
    """A project of four chunks in two documents."""

    def __init__(self, folder: Path, server: ChatServer) -> None:
        self.folder = folder
        self.server = server
        self.documents = folder / "corpus" / "seed_docs"
        self.cache = folder / "corpus" / "questions.cache.json"
        fake_writer.corpus(self.documents, documents=2, chunks_each=2)
        self.settings()

    def settings(self, more: str = "", model: str = "m") -> None:
        (self.folder / "kbeval.toml").write_text(
            f'[llm]\nbase_url = "{self.server.url}"\nmodel = "{model}"\nbackoff_s = 0.001\n{more}'
        )

    def run(self, styles: Sequence[str] = ("near",), **options: bool) -> Outcome:
        return Generation(load_project(self.folder / "kbeval.toml"), styles=styles, **options).run()

    def questions(self) -> list[Question]:
        return read_questions(self.cache)

    def rejected(self) -> list[Rejected]:
        return read_rejected(self.cache)


@pytest.fixture
def made(tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return Made(tmp_path, server)


def test_a_key_is_of_text_prompt_model_and_parameters_and_of_no_host() -> None:
    key = Writer("m", "a", PARAMETERS).key("0" * 16, "near-1")
    assert key == Writer("m", "b", PARAMETERS).key("0" * 16, "near-1")
    others = [
        Writer("n", "a", PARAMETERS).key("0" * 16, "near-1"),
        Writer("m", "a", {**PARAMETERS, "max_tokens": 301}).key("0" * 16, "near-1"),
        Writer("m", "a", PARAMETERS).key("1" * 16, "near-1"),
        Writer("m", "a", PARAMETERS).key("0" * 16, "near-2"),
    ]
    assert len({key, *others}) == 5


def test_each_style_has_a_prompt_of_its_own() -> None:
    said = {style: prompts.first(style, "A text.") for style in prompts.STYLES}
    assert len({messages[0]["content"] for messages in said.values()}) == 3
    assert all(messages[1]["content"] == "<text>\nA text.\n</text>" for messages in said.values())
    assert len({prompts.version(style) for style in prompts.STYLES}) == 3


def test_the_note_names_the_share_the_band_and_the_words() -> None:
    text = "The cashier opens the drawer."
    messages = prompts.again("far", text, "Who opens the drawer?", share=1.0, band=(0, 0.35), said="{}")
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert "100% of its content words" in messages[3]["content"]
    assert "0% to 35%" in messages[3]["content"]
    assert "Avoid these words of the text: opens, drawer." in messages[3]["content"]
    more = prompts.again("near", text, "What?", share=0.2, band=(0.7, 1), said="{}")[3]["content"]
    assert "Use more of the text's own" in more


def test_questions_carry_where_they_come_from(made: Made) -> None:
    outcome = made.run(("near", "mid", "far"))
    assert (outcome.asked, outcome.written_now, outcome.failed) == (12, 12, [])
    assert (outcome.prompt_tokens, outcome.completion_tokens) == (1200, 240)
    questions = made.questions()
    assert [q.style for q in questions] == ["near", "mid", "far"] * 4
    assert [list(q.gold_documents) for q in questions] == [["doc-000"]] * 6 + [["doc-001"]] * 6
    assert [q.overlap for q in questions] == [1.0, 0.5, 0.0] * 4
    first = questions[0]
    assert (first.source, first.domain, dict(first.gold_documents)) == ("synthetic", "d0", {"doc-000": 1})
    key = Writer("m", "", PARAMETERS).key(first.gold_chunks["doc-000#0"], prompts.version("near"))
    assert first.id == f"g-{key[:8]}-near"
    about = dict(first.provenance)
    [answer] = about.pop("answers")
    assert about == {
        "generator": "kbeval generate",
        "key": key,
        "chunk_hash": first.gold_chunks["doc-000#0"],
        "model": "m",
        "host": made.server.url.split("/")[2],
        "prompt_version": prompts.version("near"),
        "parameters": PARAMETERS,
    }
    assert answer.pop("when")
    assert answer == {
        "question": first.text,
        "finish_reason": "stop",
        "structured": True,
        "answered_by": "m",
        "prompt_tokens": 100,
        "completion_tokens": 20,
    }


def test_nobody_is_asked_twice_but_by_regenerate_or_another_model(made: Made) -> None:
    made.run()
    before = made.cache.read_bytes()
    assert made.run().asked == 0
    assert made.cache.read_bytes() == before
    assert made.run(regenerate=True).asked == 4
    assert made.server.paid == 8
    old = {q.id for q in made.questions()}
    made.settings(model="n")
    outcome = made.run()
    assert outcome.asked == 4
    assert set(outcome.built.replaced) == old
    assert not old & {q.id for q in made.questions()}
    assert len(made.questions()) == 4


def test_an_old_models_question_stays_where_the_new_one_fails(made: Made) -> None:
    made.run()
    old = [q.id for q in made.questions()]
    made.settings(model="n")
    made.server.answer = lambda asked: Say("I'm sorry, but I can't help with that.")
    outcome = made.run()
    assert [reason for _, reason, _ in outcome.failed] == ["refused"] * 4
    assert [q.id for q in made.questions()] == old


def test_outside_of_its_band_it_is_asked_once_more_and_then_rejected(made: Made) -> None:
    # The second and later answers to doc-000's chunks are within the band, those to doc-001's never are.
    def answer(asked: Asked) -> Reply:
        text = fake_writer.text_of(asked)
        better = len(asked.messages) == 4 and fake_writer.place_of(text)[0] == 0
        return question(fake_writer.near(text) if better else fake_writer.far(text))

    made.server.answer = answer
    outcome = made.run()
    assert (outcome.asked, outcome.second, outcome.written_now) == (4, 4, 2)
    assert made.server.paid == 8
    rejected = made.rejected()
    assert [(each.reason, each.detail) for each in rejected] == [
        ("overlap_band", "an overlap of 0.00, and near is 0.7 to 1")
    ] * 2
    assert all(len(q.provenance["answers"]) == 2 for q in made.questions())
    # A wider band takes them, and costs nothing.
    made.settings("[generate.bands]\nnear = [0.0, 1.0]\n")
    assert made.run().asked == 0
    assert made.server.paid == 8
    assert (len(made.questions()), made.rejected()) == (4, [])


def test_people_have_the_last_word(made: Made) -> None:
    made.run()
    corrected, thrown_out, *rest = made.questions()
    corrected = replace(corrected, text="What did a person put here instead?")
    own = Question("p1", "How is it done?", {}, {"doc-001": 1}, "authored", provenance={"by": "Ana"})
    imported = replace(corrected, id="i1", text="An imported one?", provenance={"from": "elsewhere"})
    aside = Rejected(thrown_out, "review", "nobody would ask that")
    write_questions(made.cache, [own, corrected, imported, *rest], [aside])
    for regenerate in (False, True):
        made.run(regenerate=regenerate)
        questions = {q.id: q for q in made.questions()}
        assert questions["p1"] == own
        assert questions["i1"] == imported
        assert questions[corrected.id] == corrected
        assert thrown_out.id not in questions
        assert made.rejected() == [aside]
        assert len(questions) == 5
    assert made.server.paid == 4 + 2, "the two that nobody has touched"


def test_gold_that_moves_is_found_by_its_text(made: Made) -> None:
    made.run()
    before = {q.id: q for q in made.questions()}
    own = Question("p1", "How is it done?", dict(next(iter(before.values())).gold_chunks), {"doc-000": 1}, "authored")
    write_questions(made.cache, [own, *before.values()])
    # A hundred words in front are one step of the windows: chunk 0 becomes chunk 1, word for word, and 1 becomes 2.
    file = made.documents / "doc-000.md"
    head, text = file.read_text().split("---\n", 2)[1:]
    file.write_text(f"---\n{head}---\n{' '.join(['fresh'] * 100)} {text}")
    outcome = made.run()
    assert outcome.asked == 1, "the new first chunk alone"
    questions = {q.id: q for q in made.questions()}
    moved = [q for q in before.values() if "doc-000" in q.gold_documents]
    assert [list(questions[q.id].gold_chunks) for q in moved] == [["doc-000#1"], ["doc-000#2"]]
    assert dict(questions["p1"].gold_chunks) == {"doc-000#1": own.gold_chunks["doc-000#0"]}
    assert sorted(outcome.built.moved) == sorted(["p1", *(q.id for q in moved)])
    assert outcome.built.lost == {}


def test_gold_that_is_gone_is_listed_and_kept(made: Made) -> None:
    made.run()
    gone = [q for q in made.questions() if "doc-001" in q.gold_documents]
    own = Question("p1", "How is it done?", {"doc-000#9": "f" * 16}, {"doc-000": 1}, "authored")
    write_questions(made.cache, [own, *made.questions()])
    text = (made.documents / "doc-001.md").read_text()
    (made.documents / "doc-001.md").unlink()
    outcome = made.run()
    assert outcome.asked == 0
    assert outcome.built.lost == {"p1": ["doc-000#9"], **{q.id: list(q.gold_chunks) for q in gone}}
    assert [(each.question.id, each.reason) for each in made.rejected()] == [(q.id, "gold_changed") for q in gone]
    assert own in made.questions()
    # The document comes back under another name: so do its questions, for nothing.
    (made.documents / "renamed.md").write_text(text)
    assert made.run().asked == 0
    back = {q.id: q for q in made.questions()}
    assert [dict(back[q.id].gold_documents) for q in gone] == [{"renamed": 1}] * 2
    assert made.rejected() == []


def test_equal_chunks_are_one_text_and_all_of_them_gold(made: Made) -> None:
    (made.documents / "copy.md").write_text((made.documents / "doc-001.md").read_text())
    outcome = made.run()
    assert outcome.asked == 4
    assert sorted(sorted(q.gold_documents) for q in made.questions()) == [["copy", "doc-001"]] * 2 + [["doc-000"]] * 2


def test_no_id_is_a_documents_or_anothers(made: Made) -> None:
    made.run()
    first = made.questions()[0]
    made.cache.unlink()
    (made.documents / f"{first.id}.md").write_text("A few words about nothing of interest.")
    made.run()
    ids = [q.id for q in made.questions()]
    assert first.id not in ids
    assert f"g-{first.provenance['key'][:9]}-near" in ids


def test_duplicates_are_rejected_and_the_authored_one_stays(made: Made) -> None:
    first = fake_writer.near(next(iter(read_corpus(load_project(made.folder / "kbeval.toml")).sources.values())).text)
    own = Question("p1", first.upper(), {}, {"doc-000": 1}, "authored")
    write_questions(made.cache, [own])
    outcome = made.run()
    assert outcome.written_now == 3
    [rejected] = made.rejected()
    assert (rejected.reason, rejected.detail) == ("duplicate", "of p1: the same words")


def test_an_empty_question_is_kept_as_such(made: Made) -> None:
    first = []

    def answer(asked: Asked) -> Reply:
        first.append(fake_writer.text_of(asked))
        return question("" if first[-1] == first[0] else fake_writer.good(asked))

    made.server.answer = answer
    made.run()
    [rejected] = made.rejected()
    assert (rejected.question.text, rejected.reason) == ("", "empty")


def test_empty_chunks_are_skipped_and_counted(made: Made) -> None:
    (made.documents / "blank.md").write_text("---\ntitle: Nothing\n---\n")
    (made.documents / "line.md").write_text("--- *** ---")
    outcome = made.run()
    assert (outcome.asked, outcome.empty) == (4, ["blank#0", "line#0"])
    for file in made.documents.glob("doc-*.md"):
        file.unlink()
    with pytest.raises(KbevalError, match="expected chunks with words, found 2 without any"):
        made.run()


def test_the_round_trip_throws_out_what_nobody_finds(made: Made) -> None:
    # Five documents, and the first place alone counts. Made-up words are in no document and have no order.
    fake_writer.corpus(made.documents, documents=5, chunks_each=1)
    made.settings("[generate]\nround_trip = true\nround_trip_k = 1\n")
    outcome = made.run(("near", "far"))
    assert [q.style for q in made.questions()].count("near") == 5, "BM25 finds a document by four of its own words"
    reasons = [each.reason for each in outcome.built.rejected]
    assert reasons
    assert set(reasons) == {"round_trip"}
    assert {each.question.style for each in outcome.built.rejected} == {"far"}
    # Without it they are taken, and nobody is asked again.
    paid = made.server.paid
    made.run(("near", "far"), use_round_trip=False)
    assert len(made.questions()) == 10
    assert made.server.paid == paid


def test_a_server_without_structured_output_serves_as_well(made: Made) -> None:
    made.server.structured = False
    assert made.run().written_now == 4
    assert made.questions()[0].provenance["answers"][0]["structured"] is False


def test_bands_hold_what_people_wrote_in_each_style(project_root: Path) -> None:
    # The project's own near, mid and far questions, written before there were bands: nearly all lie within.
    corpus = read_corpus(load_project(project_root / "kbeval.toml"))
    bands = load_project(project_root / "kbeval.toml").settings.generate.bands.by_style()
    from kbeval.testset.overlap import overlap

    within: dict[str, list[bool]] = {style: [] for style in bands}
    for each in read_questions(project_root / "corpus" / "questions.cache.json"):
        if each.style in bands:
            text = "\n".join(corpus.sources[digest].text for digest in each.gold_chunks.values())
            least, most = bands[each.style]
            within[each.style].append(least <= overlap(each.text, text) <= most)
    assert {style: (sum(inside), len(inside)) for style, inside in within.items()} == {
        "near": (138, 145),
        "mid": (136, 145),
        "far": (139, 145),
    }


def test_the_journal_is_plain_to_read(made: Made) -> None:
    # What a kill leaves is what this shows: the lines of a work that found no end.
    def answer(asked: Asked) -> Reply:
        return Say("", usage=(50, 5)) if asked.number == 0 else question(fake_writer.good(asked))

    made.server.answer = answer
    made.settings("concurrency = 1\n")
    lines: list[dict[str, object]] = []
    from kbeval.llm.journal import Journal

    original = Journal.append

    def spy(self: Journal, entry: object) -> None:
        original(self, entry)  # type: ignore[arg-type]
        lines.append(json.loads(self.path.read_bytes().splitlines()[-1]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "append", spy)
        outcome = made.run()
    assert outcome.prompt_tokens == 450
    assert [sorted(set(line) & {"work", "answer", "unparsed", "failed"}) for line in lines] == [
        ["work"],
        ["unparsed"],
        ["answer"],
        ["answer"],
        ["answer"],
        ["answer"],
    ]
    assert list((made.folder / "corpus").glob("*.journal")) == []
