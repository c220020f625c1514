"""What a file says as a terminal can show it: nothing in it moves the cursor, sets a title or turns the text round."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    """The text with ``\\x1b`` and the like in place of controls, marks of direction and surrogates."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or unicodedata.category(character) == "Zs"
        else character.encode("unicode_escape").decode()
        for character in text
    )
