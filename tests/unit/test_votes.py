"""A judge's votes: read, kept, and what they amount to."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import orjson
import pytest

from kbeval.llm.client import Answer, TokenLogprob
from kbeval.model import Document, Label, Question
from kbeval.testset.excerpts import Excerpt
from kbeval.testset.judge_prompts import WORDINGS
from kbeval.testset.judgments import (
    agreement_of_votes,
    answered_after_all,
    confidence_of,
    grade_of,
    low_confidence,
    unparsed,
)
from kbeval.testset.votes import Judge, Vote, as_entry, read_vote, refused_vote, replay, vote_key

DOCUMENT = Document("d", "Text.", title="Title")
WHOLE = Excerpt("Text.", True, 1, 1)


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ('{"grade": 2, "reason": "in part"}', 2),
        ('Sure, here it is:\n```json\n{"grade": 3, "reason": "in full"}\n```\nAnything else?', 3),
        ('{"grade": "1", "reason": "related"}', 1),
        ('{"grade": 2.0}', 2),
        ("0", 0),
        ("**3**", 3),
        ("Grade: 1", 1),
        ('<think>{"grade": 0}?</think>{"grade": 3, "reason": "after all"}', 3),
        ('{"grade": 4, "reason": "more than full"}', None),
        ('{"grade": -1}', None),
        ('{"grade": 1.5}', None),
        ('{"grade": true}', None),
        ('{"grade": null}', None),
        ('{"grade": "2 of 3"}', None),
        ('{"grade": 1} or rather {"grade": 2}', None),
        ("Something between 1 and 2.", None),
        ("I cannot help with that.", None),
        ("Das Dokument beantwortet die Frage nicht.", None),
        ('{"score": 3}', None),
        ("", None),
    ],
)
def test_an_answer_is_read_as_one_grade_or_as_none(text: str, grade: int | None) -> None:
    assert read_vote("k", Answer(text, 10, 5), 1).grade == grade


def test_an_unreadable_answer_is_kept_for_people_and_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    vote = read_vote("k", Answer("my key is sk-very-secret,\nno grade", 10, 5, finish_reason="length"), 1)
    assert (vote.grade, vote.answer, vote.cut) == (None, "my key is ***, no grade", True)
    told = read_vote("k", Answer('{"grade": 1, "reason": "sk-very-secret\\nhere"}', 10, 5), 1)
    assert told.reason == "*** here"


def tokens(*pieces: tuple[str, float]) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(piece, math.log(probability)) for piece, probability in pieces)


def test_the_probability_is_that_of_the_token_that_holds_the_grade() -> None:
    said = '{"grade": 2, "reason": "grade 3 it is not"}'
    pieces = tokens(
        ('{"', 0.9), ("grade", 0.9), ('":', 0.9), (" ", 0.9), ("2", 0.625), (', "reason": "grade ', 0.9), ("3", 0.1),
        (' it is not"}', 0.9),
    )  # fmt: skip
    assert read_vote("k", Answer(said, 1, 1, logprobs=pieces), 1).probability == pytest.approx(0.625)
    assert read_vote("k", Answer("2", 1, 1, logprobs=tokens(("2", 0.5))), 1).probability == pytest.approx(0.5)
    assert read_vote("k", Answer("Grade is: 2", 1, 1, logprobs=tokens(("?", 0.5))), 1).probability is None
    assert read_vote("k", Answer("2", 1, 1), 1).probability is None


def test_a_vote_is_final_with_a_grade_after_a_refusal_or_after_the_third_answer() -> None:
    assert Vote("k", 0).final
    assert not Vote("k", None, attempt=2).final
    assert Vote("k", None, attempt=3).final
    assert refused_vote("k", "no", 1, 10, 5).final


def test_a_vote_is_known_by_everything_that_can_change_it() -> None:
    judge = Judge("m", 300)
    key = vote_key(judge, WORDINGS[0], "How?", DOCUMENT, WHOLE)
    assert key == vote_key(judge, WORDINGS[0], "How?", replace(DOCUMENT, id="other", domain="x"), WHOLE)
    assert key == vote_key(Judge("m", 900), WORDINGS[0], "How?", DOCUMENT, WHOLE), "the longest answer changes nothing"
    others = [
        vote_key(Judge("n", 300), WORDINGS[0], "How?", DOCUMENT, WHOLE),
        vote_key(Judge("m", 300, temperature=0.5), WORDINGS[0], "How?", DOCUMENT, WHOLE),
        vote_key(judge, WORDINGS[1], "How?", DOCUMENT, WHOLE),
        vote_key(judge, WORDINGS[0], "Why?", DOCUMENT, WHOLE),
        vote_key(judge, WORDINGS[0], "How?", replace(DOCUMENT, text="Text!"), WHOLE),
        vote_key(judge, WORDINGS[0], "How?", replace(DOCUMENT, title="New"), WHOLE),
        vote_key(judge, WORDINGS[0], "How?", DOCUMENT, Excerpt("Text.", False, 1, 2)),
    ]
    assert len({key, *others}) == 8


def test_votes_come_back_from_their_file_the_last_of_each_key() -> None:
    about = {"query": "q", "document": "d", "wording": "w", "model": "m"}
    first = Vote("k", None, attempt=1, answer="hm", prompt_tokens=3, completion_tokens=4, when="2026-12-01T10:00:00Z")
    second = Vote("k", 2, reason="in part", probability=0.75, attempt=2, when="2026-12-01T10:00:01Z")
    entries = [orjson.loads(orjson.dumps(as_entry(vote, **about))) for vote in (first, second)]
    assert replay(entries[:1]) == {"k": first}
    assert replay(entries) == {"k": second}
    assert replay([{"other": 1}, {"key": "k", "grade": 9}, {"key": "k", "grade": "2"}]) == {}


def test_the_grade_is_the_lowest_vote_that_could_be_read() -> None:
    for one, other in product(range(4), repeat=2):
        assert grade_of([one, other]) == min(one, other)
    assert grade_of([None, 2]) == 2
    assert grade_of([None, None]) is None
    assert grade_of([0, None]) == 0


@pytest.mark.parametrize(
    ("votes", "probabilities", "confidence"),
    [
        ([2, 2], [None, None], 1.0),
        ([2, 3], [None, None], 1 - 1 / 3),
        ([0, 3], [None, None], 0.0),
        ([2, 2], [0.9, 0.7], 0.8),  # (.9 + .7) / 2
        ([1, 2], [0.9, 0.6], 0.5),  # 2/3 * .75
        ([2, 2], [0.9, None], 1.0),  # not told for every vote
        ([2, None], [None, None], 0.5),
        ([2, None], [0.8, None], 0.4),
        ([None, None], [None, None], None),
        ([2], [None], None),
        ([2], [0.9], 0.9),
    ],
)
def test_confidence_is_agreement_times_probability(
    votes: list[int | None], probabilities: list[float | None], confidence: float | None
) -> None:
    assert confidence_of(votes, probabilities) == (None if confidence is None else pytest.approx(confidence))


def label(query: str, grade: int | None, votes: tuple[int | None, ...], confidence: float | None = None) -> Label:
    return Label(query, "d", grade, "llm", "m", confidence=confidence, votes=votes)


def test_what_a_person_should_look_at() -> None:
    sure = label("sure", 2, (2, 2), 1.0)
    apart = label("apart", 0, (0, 3), 0.0)
    near = label("near", 2, (2, 3), 2 / 3)
    unsure = label("unsure", 2, (2, 2), 0.6)
    half = label("half", 2, (2, None), 0.5)
    nothing = label("nothing", None, (None, None))
    single = label("single", 1, (1,))
    decided = label("decided", 0, (0, 3), 0.0)
    person = Label("decided", "d", 3, "human", "ana")
    labels = [sure, near, apart, unsure, half, nothing, single, decided, person]
    assert low_confidence(labels) == [apart, half, unsure, near]
    assert unparsed(labels) == [nothing]
    assert unparsed([nothing, Label("nothing", "d", 1, "human", "ana")]) == []


def test_an_answer_to_a_question_that_has_none_is_for_a_person() -> None:
    questions = [
        Question("none", "?", {}, {}, "authored", answerable=False),
        Question("some", "?", {}, {"d": 1}, "authored"),
    ]
    found = label("none", 2, (2, 3))
    labels = [found, label("some", 3, (3, 3)), replace(found, document="e", grade=1)]
    assert answered_after_all(questions, labels) == [found]
    assert answered_after_all(questions, labels, level=3) == []


def test_kappa_is_the_published_one() -> None:
    # https://en.wikipedia.org/wiki/Cohen%27s_kappa: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no: .4
    counts = {(1, 1): 20, (1, 0): 5, (0, 1): 10, (0, 0): 15}
    labels = [label(f"{i}", 0, pair) for pair, count in counts.items() for i in range(count)]
    agreement = agreement_of_votes(labels)
    assert (agreement.pairs, agreement.equal) == (50, pytest.approx(0.7))
    assert agreement.kappa == pytest.approx(0.4)
    assert agreement.quadratic == pytest.approx(0.4), "with two grades the weights change nothing"


def test_kappa_is_scikit_learns() -> None:
    pairs = [(0, 0), (0, 1), (1, 1), (2, 1), (2, 3), (3, 3), (3, 2), (3, 0), (1, 1), (0, 0), (2, 2)]
    agreement = agreement_of_votes([label(f"{i}", 0, pair) for i, pair in enumerate(pairs)])
    # cohen_kappa_score(first, second) and the same with weights="quadratic", scikit-learn 1.9.1.
    assert agreement.kappa == pytest.approx(0.40217391304347827)
    assert agreement.quadratic == pytest.approx(0.5311475409836066)


def test_agreement_that_cannot_be_told_is_none() -> None:
    nothing = agreement_of_votes([label("a", 2, (2, None)), label("b", 1, (1,))])
    assert (nothing.pairs, nothing.equal, nothing.kappa, nothing.quadratic) == (0, None, None, None)
    same = agreement_of_votes([label("a", 2, (2, 2)), label("b", 2, (2, 2))])
    assert (same.equal, same.kappa, same.quadratic) == (1.0, None, None)
