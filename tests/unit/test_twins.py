"""Near-duplicates: by hand, against a comparison of everything with everything, and on the seed corpus."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from typer.testing import CliRunner

from kbeval.corpus.chunking import chunk_document
from kbeval.model import Chunk, Document, Question
from kbeval.testset.twins import LEAST_SHINGLES, find_near_duplicates, near_duplicates, twin_candidates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# 14 words, so 11 shingles of 4 words.
RED = "to change the paper roll open the lid lift the old roll and wait"
# The first 11 words are the same: 8 of the 11 shingles.
BLUE = "to change the paper roll open the lid lift the old one at once"


def chunk(document: str, text: str, number: int = 0) -> Chunk:
    return Chunk(id=f"{document}#{number}", document_id=document, text=text)


def question(name: str, chunks: Sequence[str] = (), documents: Sequence[str] = ()) -> Question:
    return Question(
        id=name,
        text="?",
        gold_chunks=dict.fromkeys(chunks, "0"),
        gold_documents=dict.fromkeys(documents, 1),
        source="authored",
    )


def test_similarity_by_hand() -> None:
    assert near_duplicates([chunk("a", RED), chunk("b", BLUE)]) == [("a#0", "b#0", pytest.approx(8 / 11))]
    assert near_duplicates([chunk("a", RED), chunk("b", BLUE)], threshold=0.73) == []  # 8 / 11 is .727


def test_the_threshold_itself_is_enough() -> None:
    assert len(near_duplicates([chunk("a", RED), chunk("b", BLUE)], threshold=8 / 11)) == 1


def test_capitals_and_punctuation_are_no_difference() -> None:
    shouted = RED.upper().replace(" ", ", ")
    assert near_duplicates([chunk("a", RED), chunk("b", shouted)]) == [("a#0", "b#0", 1.0)]


def test_a_short_passage_inside_a_long_one_is_found() -> None:
    long = f"a paragraph about tills and drawers stands before all of it here {RED} and one about receipts follows it"
    assert near_duplicates([chunk("a", long), chunk("b", RED)]) == [("a#0", "b#0", 1.0)]


def test_chunks_of_one_document_are_no_twins() -> None:
    assert near_duplicates([chunk("a", RED, 0), chunk("a", RED, 1)]) == []


def test_a_passage_cut_in_two_elsewhere_is_found_at_the_larger_part() -> None:
    # The other document holds all 11 shingles, 3 in its first window and 10 in its second, which overlap.
    words = RED.split()
    first, second = " ".join(words[:6]), " ".join(words[1:])
    filler = "nothing of that kind is said in the first window of it"
    found = near_duplicates([chunk("a", RED), chunk("b", f"{filler} {first}", 0), chunk("b", second, 1)])
    assert found == [("a#0", "b#1", 1.0)]


def test_tiny_passages_are_no_twins() -> None:
    enough = " ".join(RED.split()[: LEAST_SHINGLES + 3])
    fewer = " ".join(RED.split()[: LEAST_SHINGLES + 2])
    assert len(near_duplicates([chunk("a", enough), chunk("b", enough)])) == 1
    assert near_duplicates([chunk("a", fewer), chunk("b", fewer)]) == []
    assert near_duplicates([chunk("a", "one two"), chunk("b", "one two"), chunk("c", "")]) == []
    assert near_duplicates([]) == []


@pytest.mark.parametrize("threshold", [0, -0.1, 1.1])
def test_a_threshold_that_is_no_share_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        near_duplicates([], threshold)


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nothing_is_missed_that_comparing_everything_with_everything_finds(threshold: float, seed: int) -> None:
    generator = random.Random(seed)
    sentences = [" ".join(generator.choices("abcdefghij", k=generator.randint(5, 12))) for _ in range(40)]
    documents = [Document(f"d{n}", " ".join(generator.sample(sentences, 6))) for n in range(25)]
    chunks = [piece for each in documents for piece in chunk_document(each, words=24, overlap=6)]

    def shingles(text: str) -> set[tuple[str, ...]]:
        words = text.lower().split()
        return {tuple(words[i : i + 4]) for i in range(len(words) - 3)}

    held = {each.id: set().union(*(shingles(c.text) for c in chunks if c.document_id == each.id)) for each in documents}
    expected: dict[frozenset[str], float] = {}
    for first, document in itertools.product(chunks, documents):
        own = shingles(first.text)
        others = [c for c in chunks if c.document_id == document.id]
        share = len(own & held[document.id]) / len(own) if len(own) >= LEAST_SHINGLES else 0
        if first.document_id != document.id and share >= threshold:
            best = max(others, key=lambda c: len(own & shingles(c.text)))  # of several, the first
            pair = frozenset((first.id, best.id))
            expected[pair] = max(share, expected.get(pair, 0))
    found = near_duplicates(chunks, threshold)
    assert {frozenset(pair[:2]): pair.similarity for pair in found} == pytest.approx(expected)
    assert expected or threshold == 1.0


def test_a_footer_on_every_page_costs_nothing_and_is_reported() -> None:
    footer = " ".join(f"footer{n}" for n in range(30))
    pages = [chunk(f"d{n:03}", f"page {n} has three{n} words{n} alone{n} {footer}") for n in range(60)]
    found = find_near_duplicates([*pages, chunk("x", RED), chunk("y", BLUE)])
    assert found.pairs == [("x#0", "y#0", pytest.approx(8 / 11))]
    assert found.crowded == tuple(page.id for page in pages)


def test_twin_candidates_follow_gold_chunks() -> None:
    chunks = [chunk("a", RED, 0), chunk("a", "something else entirely " * 5, 1), chunk("b", BLUE)]
    asked = [
        question("of-the-pair", ["a#0"], ["a"]),
        question("of-the-other", ["b#0"], ["b"]),
        question("of-another-passage", ["a#1"], ["a"]),
        question("both-are-gold", ["a#0"], ["a", "b"]),
    ]
    assert twin_candidates(asked, chunks) == [
        ("of-the-other", "a", "a#0", pytest.approx(8 / 11)),
        ("of-the-pair", "b", "b#0", pytest.approx(8 / 11)),
    ]


def test_without_gold_chunks_whole_documents_are_compared() -> None:
    other = " ".join(f"word{n}" for n in range(60))
    chunks = [chunk("a", RED, 0), chunk("a", other, 1), chunk("b", BLUE), chunk("c", RED, 0), chunk("c", other, 1)]
    # b shares 8 of its 11 with a; a shares few of its many with b: one direction is enough.
    assert twin_candidates([question("q", (), ["a"])], chunks) == [
        ("q", "c", None, 1.0),
        ("q", "b", None, pytest.approx(8 / 11)),
    ]
    assert twin_candidates([question("unlabelled")], chunks) == []


def seed_pairs(project_root: Path, *arguments: str) -> dict[str, Any]:
    from kbeval.cli.app import app

    config = str(project_root / "kbeval.toml")
    result = CliRunner().invoke(app, ["twins", "--config", config, "--format", "json", *arguments])
    assert result.exit_code == 0, result.output
    data: dict[str, Any] = orjson.loads(result.stdout)
    return data


def test_the_pair_of_the_seed_corpus_is_found(project_root: Path) -> None:
    data = seed_pairs(project_root)
    # Shares of the shorter chunk's shingles, counted with a few lines of Python that share no code with this.
    assert [(pair["chunk"], pair["other"], round(pair["similarity"], 3)) for pair in data["pairs"]] == [
        ("pair-m2-card-reader#3", "pair-m2-pro-card-reader#4", 0.789),
        ("pair-m2-card-reader#1", "pair-m2-pro-card-reader#1", 0.774),
        ("pair-m2-card-reader#2", "pair-m2-pro-card-reader#2", 0.569),
        ("pair-m2-card-reader#0", "pair-m2-pro-card-reader#1", 0.542),
    ]
    # Nothing else is near: the same four at .2, and the two billing documents are written differently.
    assert seed_pairs(project_root, "--threshold", "0.2")["pairs"] == data["pairs"]
    assert len(data["candidates"]) == 15
    assert {one["document"] for one in data["candidates"]} == {"pair-m2-card-reader", "pair-m2-pro-card-reader"}


def test_the_table_names_pairs_and_questions(project_root: Path) -> None:
    from kbeval.cli.app import app

    result = CliRunner().invoke(app, ["twins", "--config", str(project_root / "kbeval.toml")])
    assert "pair-m2-card-reader#1  pair-m2-pro-card-reader#1        0.77" in result.stdout
    assert "pair-m2-pro-card-reader  m29, q079-far" in result.stdout
    nothing = CliRunner().invoke(app, ["twins", "--config", str(project_root / "kbeval.toml"), "--threshold", "0.9"])
    assert nothing.stdout == "no passage stands to 90% or more in a second document\n"


def test_known_repetitions_of_cranfield_are_found(shared_data: Path) -> None:
    from kbeval.formats.dataset import load_dataset

    documents = load_dataset(shared_data / "cranfield").documents
    pairs = near_duplicates(piece for each in documents for piece in chunk_document(each))
    of_documents = {tuple(sorted(name.split("#")[0] for name in pair[:2])) for pair in pairs}
    # Abstracts that the collection holds twice, seen by reading them.
    assert {("843", "889"), ("1274", "1319"), ("179", "188"), ("576", "588"), ("44", "87")} <= of_documents
    assert len(of_documents) < 15
