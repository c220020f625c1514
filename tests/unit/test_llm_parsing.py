"""What models say around the thing that was asked for."""

from __future__ import annotations

import pytest

from kbeval.llm.errors import Unparsable
from kbeval.llm.parsing import looks_refused, parse_object

ASKED = "How do I reset a till?"


@pytest.mark.parametrize(
    "text",
    [
        '{"question": "How do I reset a till?"}',
        'Sure! Here it is:\n\n{"question": "How do I reset a till?"}\n\nHope that helps {you}.',
        '```json\n{"question": "How do I reset a till?"}\n```',
        '[{"question": "How do I reset a till?"}]',
        '{"note": "see {below}", "question": "How do I reset a till?"}',
        "{'question': 'How do I reset a till?'}",
        '<think>A {"question": "draft?"} first.</think>{"question": "How do I reset a till?"}',
        "How do I reset a till?",
        '"How do I reset a till?"',
        "Question: How do I reset a till?",
        "**Question:** How do I reset a till?",
        "Here is a question that a customer may ask:\n\nHow do I reset a till?",
        "```\nHow do I reset a till?\n```",
        '{"question": "How do I reset a till?"} {"question": "How do I reset a till?"}',
    ],
)
def test_a_question_is_found(text: str) -> None:
    assert parse_object(text, "question")["question"] == ASKED


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"grade": 2, "reason": "it says so"}', 2),
        ('I would say:\n{"grade": 0, "reason": "off topic"}', 0),
        ("3", 3),
        ("**2**", 2),
        ("Grade: 1", 1),
        ("grade = 1.", 1),
        ("The passage is about tills.\nGrade: 2\nThat is all.", 2),
        ('{"grade": "2"}', "2"),
        ('{"grade": 1.5}', 1.5),
    ],
)
def test_a_grade_is_found_as_it_stands(text: str, value: object) -> None:
    found = parse_object(text, "grade")["grade"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("<think>What?</think>", "empty"),
        ("I'm sorry, but I can't help with that.", "no 'question'"),
        ("How much is it? And when?\nWho pays?", "no 'question'"),
        ('{"query": "How?"}', "no 'question'"),
        ('{"question": "How do I reset', "no 'question'"),
        ('{"question": "How?"} {"question": "When?"}', "different values"),
    ],
)
def test_nothing_is_made_up(text: str, says: str) -> None:
    with pytest.raises(Unparsable, match=says):
        parse_object(text, "question")


def test_an_echoed_example_is_no_grade() -> None:
    with pytest.raises(Unparsable, match="different values"):
        parse_object('As in {"grade": 0, "reason": "..."}: {"grade": 3, "reason": "it answers"}', "grade")


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I'm sorry, but I can't help with that.", True),
        ("I cannot assist with this request.", True),
        ("Sorry, I am unable to write a question about it.", True),
        ("As an AI language model, I have no opinion.", True),
        ("I can't log in, what now", False),
        ("Sorry to bother you, but how do I reset the till?", False),
        ("I won't be able to come in on Sunday, can someone else close the till?", False),
        ("I can't create an account, it says the address is taken", False),
    ],
)
def test_refusals(text: str, refused: bool) -> None:
    assert looks_refused(text) is refused


@pytest.mark.parametrize(
    "text",
    [
        '{"question":' * 20_000,
        '{"question":' + "[" * 50_000,
        "{" * 200_000 + "}",
        "9" * 5_000,
        "٣",  # a digit to Python, and none that was asked for
        "<think>" * 3_000,
        "question" + "_" * 20_000,
        "x" * 100_000,
    ],
)
def test_monsters_are_unparsable_and_nothing_worse(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_object(text, "question")


def test_a_number_of_thousands_of_digits_hides_no_answer_behind_it() -> None:
    with pytest.raises(Unparsable):
        parse_object('{"grade": ' + "9" * 5_000 + "}", "grade")
    assert parse_object('{"x": ' + "9" * 5_000 + '} {"grade": 2}', "grade") == {"grade": 2}


def test_half_characters_are_replaced_as_no_file_can_hold_them() -> None:
    assert parse_object('{"question": "How \\ud800?"}', "question") == {"question": "How ??"}
