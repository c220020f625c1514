"""Masks what names a person in what people asked: e-mail addresses, telephone, card and bank account numbers.

What stays are the numbers that a question is about: orders, versions, prices, dates, error codes. Where a number could
be either, a word before it decides ("call", "order"), and without one the number is masked. Names and addresses of
places are not found: whoever shares a test set reads it first.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_EMAIL = re.compile(r"[\w.+'%-]*[\w+]@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_IBAN = re.compile(r"(?<![A-Z0-9])[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}(?![A-Z0-9])", re.IGNORECASE)
# Digits in one piece or in groups, as cards are printed and typed. 13 digits are an EAN: cards with so few are gone.
_CARD = re.compile(r"(?<![\w.-])(?:\d[ -]?){13,18}\d(?![\w]|[.-]\d)")
# What the numbers of card schemes begin with (ISO/IEC 7812).
_CARD_PREFIX = re.compile(r"3[04-9]|4|5[0-9]|2[2-7]|6")
_NUMBER = re.compile(r"(?<![\w.,:/#-])(?:\+ ?)?\(?\d(?:[ ().\-/]{0,2}\d){6,16}(?!\w|[.,:/-]\d)")

_PHONE_WORDS = re.compile(
    r"\b(?:phone|telephone|tel|mobile|cell|call|called|calling|ring|text|whatsapp|sms|fax|telefon|handy)\b"
    r"[^\d\n]{0,24}$",
    re.IGNORECASE,
)
_OTHER_WORDS = re.compile(
    r"(?:#|\b(?:order|orders|invoice|ticket|case|ref|reference|id|sku|serial|tracking|batch|account|part|model|version|"
    r"code|build|transaction|number|no|nr)\b)[\s:.#-]{0,3}(?:(?:number|no|nr|id|is)\b[\s:.#]{0,3})?$",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?!\d)")
_NORTH_AMERICA = re.compile(r"(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}")


def mask(text: str) -> tuple[str, Counter[str]]:
    """The text with ``[email]``, ``[iban]``, ``[card]`` and ``[phone]`` in place of these, and how many of each.

    Masking a masked text changes nothing.
    """
    found: Counter[str] = Counter()

    def replace(kind: str, pattern: re.Pattern[str], span: Callable[[re.Match[str]], int]) -> None:
        nonlocal text
        parts, done = [], 0
        for match in pattern.finditer(text):
            length = span(match)
            if length and match.start() >= done:
                parts += [text[done : match.start()], f"[{kind}]"]
                done = match.start() + length
                found[kind] += 1
        text = "".join([*parts, text[done:]])

    replace("email", _EMAIL, lambda match: len(match[0]))
    replace("iban", _IBAN, _iban_length)
    replace("card", _CARD, lambda match: len(match[0]) if _is_card(match[0]) else 0)
    replace("phone", _NUMBER, lambda match: len(match[0]) if _is_phone(match) else 0)
    return text, found


def _iban_length(match: re.Match[str]) -> int:
    """How much of what looks like an IBAN is one: words may follow it, which look like more of it."""
    candidate = match[0]
    for end in range(len(candidate), 14, -1):
        part = candidate[:end]
        following = match.string[match.start() + end : match.start() + end + 1]
        if part[-1].isalnum() and not following.isalnum() and _passes_mod_97(part):
            return end
    return 0


def _passes_mod_97(part: str) -> bool:
    """The check of ISO 13616: the first four characters last, letters as 10 to 35, modulo 97 is 1."""
    plain = re.sub(r"[ -]", "", part).upper()
    if not plain.isascii() or not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4])) % 97 == 1


def _is_card(candidate: str) -> bool:
    """14 to 19 digits of a card scheme that pass Luhn's check (ISO/IEC 7812-1)."""
    digits = [int(character) for character in candidate if character.isdigit()]
    if not _CARD_PREFIX.match(candidate) or len(set(digits)) == 1:
        return False
    doubled = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _is_phone(match: re.Match[str]) -> bool:
    candidate = match[0]
    digits = "".join(character for character in candidate if character.isdigit())
    before = match.string[max(match.start() - 48, 0) : match.start()]
    if candidate.startswith("+"):
        return 8 <= len(digits) <= 15  # E.164
    if _DATE.match(candidate):
        return False
    if _PHONE_WORDS.search(before):
        return 7 <= len(digits) <= 15
    if _OTHER_WORDS.search(before):
        return False
    if _NORTH_AMERICA.fullmatch(candidate):
        return True
    if digits.startswith("00"):
        return 11 <= len(digits) <= 16 and digits[2] != "0"
    # A national number with its trunk prefix; groups of one digit are a version.
    groups = re.findall(r"\d+", candidate)
    return digits.startswith("0") and 9 <= len(digits) <= 12 and (len(groups) == 1 or min(map(len, groups)) >= 2)
