"""Cutting by sentences and by headings, and finding a gold chunk again after an edit."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbeval.config import load_project
from kbeval.corpus.chunking import Chunker, chunk_document, find_slices, text_hash
from kbeval.corpus.sections import sections
from kbeval.errors import KbevalError
from kbeval.formats.questions import write_questions
from kbeval.model import Document, Question
from kbeval.testset.project import project_dataset

if TYPE_CHECKING:
    from pathlib import Path

CHUNKERS: list[Chunker] = list(get_args(Chunker))


def cut(text: str, chunker: Chunker, words: int = 120, overlap: int = 20) -> list[tuple[str, tuple[str, ...]]]:
    chunks = list(chunk_document(Document("d", text), words=words, overlap=overlap, chunker=chunker))
    assert [chunk.id for chunk in chunks] == [f"d#{number}" for number in range(len(chunks))]
    return [(chunk.text, chunk.headings) for chunk in chunks]


def texts(text: str, chunker: Chunker, words: int = 120, overlap: int = 20) -> list[str]:
    return [each for each, _ in cut(text, chunker, words, overlap)]


def test_as_many_whole_sentences_as_fit() -> None:
    text = "Dr. Smith paid $3.50 today.  Why?\nNobody knows. It was e.g. a mistake."
    # Words: 5, 1, 2, 5; abbreviations and decimals end no sentence.
    assert texts(text, "sentences", words=6, overlap=0) == [
        "Dr. Smith paid $3.50 today.  Why?",
        "Nobody knows.",
        "It was e.g. a mistake.",
    ]
    # With room for two words before: "Why?" fits before "Nobody knows."; before five words only one more fits.
    assert texts(text, "sentences", words=6, overlap=2) == [
        "Dr. Smith paid $3.50 today.  Why?",
        "Why?\nNobody knows.",
        "It was e.g. a mistake.",
    ]


def test_a_sentence_that_is_too_long_is_cut_into_windows() -> None:
    text = "Short one. a b c d e f go. The end."
    assert texts(text, "sentences", words=4, overlap=1) == ["Short one.", "a b c d", "d e f go.", "The end."]


def test_paragraphs_and_other_scripts_end_sentences() -> None:
    assert texts("no stop here\n\nnor here", "sentences", words=3, overlap=0) == ["no stop here", "nor here"]
    assert texts("一つ。 二つ。", "sentences", words=1, overlap=0) == ["一つ。", "二つ。"]


def test_without_its_package_the_sentence_chunker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_it(name: str, *arguments: Any) -> Any:
        if name == "sentencex":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_it)
    with pytest.raises(KbevalError, match=r"pip install 'kbeval\[sentences\]'"):
        texts("One. Two.", "sentences")


HANDBOOK = """Before any heading.

# Handbook
## Refunds

A cashier may give money back.

```sh
# not a heading
```

> # nor this

By card
-------
It takes two days, or three, or four.

<h2 id="x">The <em>till</em></h2>
Switch it on.

# End
"""


def test_what_stands_under_a_heading_is_a_chunk() -> None:
    assert cut(HANDBOOK, "headings") == [
        ("Before any heading.", ()),
        # A heading with nothing under it begins the section of the next.
        ("# Handbook\n## Refunds\n\nA cashier may give money back.\n\n```sh\n# not a heading\n```\n\n> # nor this", ()),
        ("By card\n-------\nIt takes two days, or three, or four.", ("Handbook",)),
        ('<h2 id="x">The <em>till</em></h2>\nSwitch it on.', ("Handbook",)),
        ("# End", ()),
    ]


def test_a_long_section_is_cut_and_each_part_knows_its_headings() -> None:
    assert cut("# A\n## B\none two three four five six", "headings", words=6, overlap=1) == [
        ("# A\n## B\none two", ()),
        ("two three four five six", ("A", "B")),
    ]
    assert cut("# A\nx\n### B\none two three", "headings", words=4, overlap=0)[1:] == [
        ("### B\none two", ("A",)),
        ("three", ("A", "B")),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_markdown_says(end: str) -> None:
    assert texts(end.join(["# A", "x", "# B", "y"]), "headings") == [f"# A{end}x", f"# B{end}y"]


@pytest.mark.parametrize("chunker", CHUNKERS)
def test_a_text_without_a_word_is_one_empty_chunk(chunker: Chunker) -> None:
    assert cut(" \n ", chunker) == [("", ())]


MARKDOWN = st.lists(
    st.sampled_from(
        ["# ", "## ", "word ", "Stop. ", "\n", "\n\n", "---\n", "```\n", "<h2>t</h2>\n", "- ", "é。", "\r"]
    ),
    max_size=40,
).map("".join)


@given(st.one_of(MARKDOWN, st.text(max_size=80)), st.integers(2, 6), st.integers(0, 1), st.sampled_from(CHUNKERS))
def test_chunks_are_slices_that_hold_every_word(text: str, words: int, overlap: int, chunker: Chunker) -> None:
    place = 0
    for chunk in chunk_document(Document("d", text), words=words, overlap=overlap, chunker=chunker):
        assert len(chunk.text.split()) <= words
        found = text.index(chunk.text, place) if overlap == 0 else text.index(chunk.text)
        if overlap == 0:
            assert not text[place:found].strip()  # nothing between two chunks but blanks
            place = found + len(chunk.text)
    assert overlap or not text[place:].strip()


@given(MARKDOWN)
def test_sections_are_all_of_the_text(text: str) -> None:
    spans = [section.span for section in sections(text)]
    assert [spans[0][0], *(end for _, end in spans)] == [*(start for start, _ in spans), len(text)]


# --- gold chunks after an edit

PARTS = [
    "# Refunds\nA cashier may give money back up to fifty pounds. Above that a manager signs the slip.",
    "# Payouts\nCard takings arrive two working days later. Cash is counted at night, and never before.",
    "# Printer\nA red light means that the roll has run out. A blinking one says that the lid is open.",
]


@pytest.mark.parametrize("chunker", CHUNKERS)
def test_a_gold_chunk_survives_edits_elsewhere_in_its_document(chunker: Chunker) -> None:
    gold = texts("\n\n".join(PARTS), chunker, words=12, overlap=3)
    middle = next(chunk for chunk in gold if "Cash is counted" in chunk)
    edited = "\n\n".join(["Some words before it all.", PARTS[0] + " Or two.", PARTS[1], PARTS[2] + " More."])
    assert middle in edited
    assert find_slices(edited, [text_hash(middle)], words=12) == {text_hash(middle): middle}
    if chunker == "headings":  # what the others cut is shifted by an edit
        assert middle in texts(edited, chunker, words=12, overlap=3)
    assert find_slices(edited.replace("counted", "weighed"), [text_hash(middle)], words=12) == {}
    assert find_slices(edited, ["no hash", text_hash(edited)], words=12) == {}


@pytest.mark.parametrize("chunker", CHUNKERS)
def test_a_project_knows_a_gold_chunk_again(tmp_path: Path, chunker: Chunker) -> None:
    settings = f'[corpus]\npath = "."\nchunker = "{chunker}"\nchunk_words = 12\nchunk_overlap = 3\n'
    (tmp_path / "kbeval.toml").write_text(settings + '[test_set]\nquestions = "q.json"\n')
    gold = next(chunk for chunk in texts("\n\n".join(PARTS), chunker, words=12, overlap=3) if "Cash is" in chunk)
    question = Question("q1", "When is cash counted?", {"doc#9": text_hash(gold)}, {"doc": 1}, "authored")
    write_questions(tmp_path / "q.json", [question])

    def dataset(*parts: str) -> tuple[tuple[str, ...], float | None]:
        (tmp_path / "doc.md").write_text("\n\n".join(parts))
        made = project_dataset(load_project(start=tmp_path))
        return made.warnings, made.queries[0].overlap

    before = dataset(*PARTS)
    assert before[0] == ()
    assert dataset("# Before\nSome words before it all.", PARTS[0], PARTS[1], PARTS[2] + " More.") == before
    [warning], _ = dataset(PARTS[0], PARTS[1].replace("Cash", "Money"), PARTS[2])
    assert warning == "the text of the gold chunks of 1 questions has changed since they were written: q1"
