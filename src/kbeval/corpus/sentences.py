"""Where sentences end, by sentencex (an extra): rules and abbreviations, no model, every character accounted for.

pysbd, the usual choice, has had no release since 2021, loses blanks and gives wrong offsets; kbeval needs slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbeval.errors import KbevalError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LANGUAGE = "en"  # whose abbreviations are known; the marks of other scripts end sentences all the same


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """The sentences of a text as (start, end) in characters; what ends a paragraph or list item ends a sentence.

    Raises:
        KbevalError: the extra ``sentences`` is not installed.
    """
    try:
        import sentencex
    except ImportError:
        raise KbevalError(
            "chunker sentences: expected the package sentencex, found none: pip install 'kbeval[sentences]'"
        ) from None
    for boundary in sentencex.get_sentence_boundaries(_LANGUAGE, text):
        yield boundary["start_index"], boundary["end_index"]
