"""How many of a question's words its answer's text shares: descriptive, and no verdict looks at it (METHOD 5).

A question written from a text tends to keep its words, which flatters engines that match words; one that avoids
them flatters engines that match vectors. The overlap says how far a question goes either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.corpus.words import STOP_WORDS, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# What questions are built of, whatever they are about: it would dilute the overlap of a question that asks "how do
# I" against one that names things. English question words, auxiliaries and personal pronouns, all of each class.
QUESTION_WORDS = frozenset(
    word
    for words in (
        "what which who whom whose when where why how",
        "am is are was were be been being do does did doing have has had having",
        "can could may might must shall should will would",
        "i me my mine we us our ours you your yours he him his she her hers it its they them their theirs",
    )
    for word in words.split()
)

_LEFT_OUT = STOP_WORDS | QUESTION_WORDS


def content_stems(text: str) -> frozenset[str]:
    """The distinct stemmed content words of a text.

    Words are cut, lower-cased and stemmed as the BM25 engine does; left out are its stop words and what
    questions are built of. Words of one letter do not count, numbers of two digits or more do.
    """
    return frozenset(words_of(text, _LEFT_OUT))


def overlap(question: str, gold_text: str) -> float:
    """The share of a question's distinct content words whose stems occur in the text, in [0, 1].

    0.0 where the question has no content word, or the text none.
    """
    asked = content_stems(question)
    return len(asked & content_stems(gold_text)) / len(asked) if asked else 0.0


def best_overlap(question: str, gold_texts: Iterable[str]) -> float:
    """The overlap with that one of several gold texts which shares the most; 0.0 where there is none.

    A question with several gold texts (documents, or chunks) is as easy as its easiest one: an engine needs to
    find one of them to have a hit. Their union would grow with the number of judgments alone: Cranfield's
    questions have 7 gold documents, whose union holds .70 of their words, and each of which holds .38.

    So measured, docs-qa's own questions have a mean of .69 and Cranfield's of .59.
    """
    return max((overlap(question, text) for text in gold_texts), default=0.0)
