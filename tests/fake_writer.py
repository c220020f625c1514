"""What stands in for a model that writes questions, and a corpus of made-up words for it to write from."""

from __future__ import annotations

import hashlib
import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from chat_server import Asked

TEXT = re.compile(r"<text>\n(.*)\n</text>", re.DOTALL)
SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnp" for vowel in "aeiou"]


def text_of(asked: Asked) -> str:
    """The text that a question is asked for."""
    match = TEXT.search(asked.text)
    assert match is not None
    return match[1]


def style_of(asked: Asked) -> str:
    """The style that is asked for, told by what only that style's instructions say."""
    said = asked.messages[0]["content"]
    marks = {
        "near": "happens to use the company's own words",
        "mid": "some of the company's words",
        "far": "none of the",
    }
    styles = [style for style, mark in marks.items() if mark in said]
    assert len(styles) == 1
    return styles[0]


def words_of(text: str) -> list[str]:
    """Its made-up words, each once."""
    return list(dict.fromkeys(word for word in re.findall(r"[a-z]{6,}", text)))


def made_up(text: str, count: int) -> list[str]:
    """Words that no text holds, the same for the same text."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return [f"q{letter * 3}{digest[4 * i : 4 * i + 4]}" for i, letter in enumerate("abcdef"[:count])]


def near(text: str) -> str:
    """Four content words, all of the text: an overlap of 1, whatever the text."""
    a, b, c, d = words_of(text)[1::7][:4]
    return f"What is the {a} with the {b} for the {c} and the {d}?"


def mid(text: str) -> str:
    """Four content words, two of the text: an overlap of 0.5."""
    (a, b), (c, d) = words_of(text)[2::9][:2], made_up(text, 2)
    return f"What is the {a} with the {c} for the {b} and the {d}?"


def far(text: str) -> str:
    """Four content words, none of the text: an overlap of 0."""
    a, b, c, d = made_up(text, 4)
    return f"Which {a} should I {b} when the {c} is {d}?"


def far_of_anything(asked: Asked) -> str:
    """As ``far``, for texts of real words."""
    return far(text_of(asked))


def kind_of(text: str) -> int:
    """A number from 0 to 19 by which the server chooses how to behave: ten chunks of ``corpus(20, 10)`` each."""
    document, chunk = _PLACES[text]
    return (chunk + 10 * document) % 20


def place_of(text: str) -> tuple[int, int]:
    """The numbers of the document and the chunk."""
    return _PLACES[text]


_PLACES: dict[str, tuple[int, int]] = {}

WRITERS = {"near": near, "mid": mid, "far": far}


def good(asked: Asked) -> str:
    """A question that passes every filter."""
    return WRITERS[style_of(asked)](text_of(asked))


def corpus(folder: Path, documents: int, chunks_each: int, *, seed: int = 1) -> None:
    """Writes Markdown documents of so many chunks each, at the default of 120 words with 20 shared."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(documents):
        words: list[str] = []
        while len(words) < 100 * chunks_each + 20:
            words += ["the", "".join(rng.choices(SYLLABLES, k=4)), "of", "".join(rng.choices(SYLLABLES, k=3)), "is"]
        words = words[: 100 * chunks_each + 20]
        text = " ".join(words)
        for chunk in range(chunks_each):
            _PLACES[" ".join(words[100 * chunk : 100 * chunk + 120])] = (number, chunk)
        (folder / f"doc-{number:03}.md").write_text(
            f"---\ntitle: Document {number}\ndomain: d{number % 3}\n---\n{text}\n"
        )
