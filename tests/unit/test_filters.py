"""The filters: what they catch, and how little of what people wrote."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kbeval.corpus.chunking import chunk_document
from kbeval.corpus.files import FilesProvider
from kbeval.formats.questions import read_questions
from kbeval.testset.filters import Duplicates, is_question, other_language, questions_in, quoted, refers, wording

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
SOURCE = (
    "A cashier may give money back up to fifty pounds. For more than that a manager signs in with the hardware key, "
    "and the till prints two slips. Refunds to a card arrive within three working days of the day on which you ask."
)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("", "empty"),
        ("?!", "empty"),
        ("What happens " + "and then " * 30 + "at last?", "too_long"),
        ("The limit for cashiers is fifty pounds.", "not_a_question"),
        ("Refund limits of cashiers", "not_a_question"),
        ("Here is the question.", "not_a_question"),
        ("How much may a cashier refund? And how long does it take?", "several"),
        ("1. How much may a cashier refund?\n2. How long does it take?", "several"),
        ("- refund limit of a cashier, please\n- time until it arrives", "several"),
        ("According to the document, how much may a cashier refund?", "refers"),
        ("What does the text say about refunds?", "refers"),
        ("How are refunds described in the passage?", "refers"),
        ("What is the limit mentioned above?", "refers"),
        ("Which limit does the author give?", "refers"),
        ("Based on the text above, who signs in?", "refers"),
        ("From the provided context, who prints slips?", "refers"),
        ("Combien de temps faut-il pour que le remboursement arrive sur la carte ?", "language"),
        ("Wie lange dauert es, bis das Geld wieder auf der Karte ist?", "language"),
        ("¿Cuánto dinero puede devolver un cajero sin el permiso de los jefes?", "language"),
        ("Сколько денег может вернуть кассир?", "language"),
        ("レジ係はいくらまで返金できますか?", "language"),
        ("May a cashier give money back up to fifty pounds?", "quotes"),
        ("When a manager signs in with the hardware key, what comes out?", "quotes"),
    ],
)
def test_what_is_caught(question: str, reason: str) -> None:
    rejection = wording(question, SOURCE)
    assert rejection is not None
    assert rejection.reason == reason


@pytest.mark.parametrize(
    "question",
    [
        "How much can a cashier refund on their own?",
        "I can't log in, what now",
        "help, the till printed two slips and I only sold one thing",
        "Our cashier gave eighty pounds back by mistake.",
        "tell me how long a refund takes",
        "refund to a closed card - what do I do",
        "is the refund limit per sale or per day",
        "Which document do I need for a refund?",
        "Where can I see the page with my refunds, and does it show the cashier?",
        "How do I print the slip?",
        "it's going up?? what does that mean for us",
    ],
)
def test_what_passes(question: str) -> None:
    assert wording(question, SOURCE) is None


def test_a_noun_that_the_text_is_about_is_no_reference() -> None:
    assert refers("What does the document need to be valid?", "A signed document is valid for a year.") is None
    assert refers("Who signs off on the article?", SOURCE) is None
    assert refers("What is in the document?", SOURCE) == "in the document"


def test_a_quotation_is_a_fifth_of_the_runs_of_five_or_eight_words_in_a_row() -> None:
    source = "one two three four five six seven eight nine ten"
    # Six words hold two runs of five; one of them is the text's: a half.
    assert quoted("zero one two three four five", source) == "one two three four five"
    assert quoted("zero one two three four", source) is None
    # 5 of the text's words among 14: one run of ten, which is less than a fifth.
    assert quoted("a b c d one two three four five e f g h i", source) is None
    # 8 in a row among 40 words: 4 runs of 36, a ninth; but eight words.
    long = " ".join(f"x{i}" for i in range(32))
    assert quoted(f"{long} one two three four five six seven eight", source) is not None
    assert quoted(f"{long} one two three four five six seven", source) is None
    assert quoted("ONE, two: three — four\nfive?", source) is not None


def test_counting_questions() -> None:
    assert questions_in("what?? when it says so?? and why is that?") == 2
    assert questions_in("no mark at all") == 1


def test_questions_without_a_mark() -> None:
    assert is_question("I can’t log in, what now")
    assert not is_question("Cashiers refund up to fifty pounds, managers more.")


def test_a_text_in_another_language_is_not_held_to_english() -> None:
    german = "Der Kassierer kann bis zu fünfzig Pfund auszahlen, und der Rest ist nicht für ihn, sondern für den Chef."
    assert not other_language("Wie viel kann der Kassierer auszahlen und wann ist das nicht erlaubt?", german)


def test_duplicates() -> None:
    known = Duplicates([("q1", "How do I refund a card payment at the till?"), ("q2", "When do refunds arrive?")])
    assert known.find("how do i refund a card payment at the till") == ("q1", "the same words")
    found = known.find("At the till, can I refund payments by card?")
    assert found is not None
    assert found[0] == "q1"
    assert known.find("How do I refund a cash payment at the till?") is None
    assert known.find("Do refunds arrive?") is None, "too few words to tell"
    # 19 of 20 content words in common with one more each side would be 19 / 21 = .905; 9 of 10 are 9 / 11 = .82.
    words = [f"word{i}" for i in range(20)]
    known.add("q3", " ".join(words))
    assert known.find(" ".join([*words[:19], "other"])) is not None
    known.add("q4", " ".join(f"thing{i}" for i in range(10)))
    assert known.find(" ".join([*(f"thing{i}" for i in range(9)), "other"])) is None


def test_what_people_wrote_passes() -> None:
    documents = list(FilesProvider(CORPUS / "seed_docs").get_documents())
    chunks = {chunk.id: chunk.text for document in documents for chunk in chunk_document(document)}
    questions = [q for q in read_questions(CORPUS / "questions.cache.json") if q.source == "authored"]
    known = Duplicates()
    rejected = []
    for question in questions:
        source = "\n".join(chunks[chunk] for chunk in question.gold_chunks)
        if (wrong := wording(question.text, source)) is not None:
            rejected.append((question.id, wrong.reason))
        if known.find(question.text) is not None:
            rejected.append((question.id, "duplicate"))
        known.add(question.id, question.text)
    assert len(questions) == 486
    assert rejected == [("m12", "several")], "a customer's message that asks two things"


def test_what_a_careful_model_wrote_passes(shared_data: Path) -> None:
    folder = shared_data / "docs-qa"
    texts = {d["_id"]: d["text"] for d in map(json.loads, (folder / "corpus.jsonl").read_text().splitlines())}
    gold: dict[str, list[str]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, _ = line.split("\t")
        gold.setdefault(query, []).append(document)
    known = Duplicates()
    reasons: Counter[str] = Counter()
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    for query in queries:
        source = "\n\n".join(texts[document] for document in gold[query["_id"]])
        if (wrong := wording(query["text"], source)) is not None:
            reasons[wrong.reason] += 1
        reasons["duplicate"] += known.find(query["text"]) is not None
        known.add(query["_id"], query["text"])
    assert len(queries) == 100
    # Both hold twelve words in a row of their document.
    assert +reasons == {"quotes": 2}
