"""Masks what names a person in what people asked: e-mail addresses, telephone, card and bank account numbers.

What stays are the numbers that a question is about: orders, versions, prices, dates, error codes. Where a number could
be either, a word before it decides ("call", "order"), and without one the number is masked. Names and addresses of
places are not found: whoever shares a test set reads it first.

Time grows with the length of a text, not with its square: every pattern is bounded, and addresses are looked for from
their ``@``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What follows the @: labels with dots between, or an address of the network in brackets (RFC 5321).
_DOMAIN = re.compile(r"[\w\u0300-\u036f-]++(?:\.[\w\u0300-\u036f-]++)++|\[(?:IPv6:)?[0-9a-f.:]{3,45}\]", re.IGNORECASE)
_LOCAL_MARKS = frozenset(".+'’%-_&*!#$^~`{|}=")  # no / and ?: they are of the URL that an address stands in
_LONGEST_QUOTED = 66  # 64 octets before the @ (RFC 5321) and their quotation marks

_IBAN = re.compile(r"(?<![A-Z0-9])[A-Z]{2}\d{2}(?:[ ._-]?[A-Z0-9]){11,30}(?![A-Z0-9])", re.IGNORECASE)
# Digits in one piece or in groups, as cards are printed and typed. 13 digits are an EAN: cards with so few are gone.
_CARD = re.compile(r"(?<![\w.-])(?:\d[ ._-]?){13,18}\d(?!\w|[.-]\d)")
# What the numbers of card schemes begin with (ISO/IEC 7812).
_CARD_PREFIX = re.compile(r"3[04-9]|4|5[0-9]|2[2-7]|6")
# How cards are grouped: with dots or underscores between, other groups are a version or a name of a file.
_CARD_GROUPS = {(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4)}
# A number may follow a word and its dot, comma or colon ("Tel.:030..."), but no digit and its ("10:30:00", "1,234").
_NUMBER = re.compile(
    r"(?:(?<![\d_])\+ ?|(?<![\w.,/#+-])(?<!\d:)|(?<=[^\W\d_][.,])|(?<=\[phone\]/))"
    r"\(?\d(?:[ ().\-/_]{0,2}\d){6,16}(?!\w|[.,:-]\d|/\d{1,6}(?!\d))"
)

_PHONE_WORDS = re.compile(
    r"(?:\b(?<!\[)(?:phone|telephone|tel|mobile|cell|call|called|calling|ring|text|whatsapp|sms|fax|telefon|handy|"
    r"contact|reach|(?:my|our|his|her|their|meine|unsere)\s(?:number|no|nr|nummer))\b[^\d\n]{0,24}"
    r"|\[phone\]\s?(?:or|and|oder|und|[/,&])\s?)$",
    re.IGNORECASE,
)
# A number or "no." alone is not what it is the number of.
_OTHER_WORDS = re.compile(
    r"(?:#|\b(?:order|orders|invoice|ticket|(?<!in )(?<!any )case|ref|reference|id|sku|serial|tracking|batch|account|"
    r"part|model|version|code|build|transaction|article|item|product|isbn|ean|gtin|upc|imei|rma|shipment|parcel|"
    r"booking|policy|claim|error|bestellung|bestellnummer|auftrag|rechnung|(?:customer|member|client)\s"
    r"(?:number|no|nr|id))\b)[\s:.#-]{0,3}(?:(?:number|no|nr|id|is|was)\b[\s:.#]{0,3}){0,2}$",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?!\d|[-./]\d)")
_NORTH_AMERICA = re.compile(r"(?:1[-._ ])?(?:\(\d{3}\) ?|\d{3}[-._ ])\d{3}[-._ ]\d{4}")


def mask(text: str) -> tuple[str, Counter[str]]:
    """The text with ``[email]``, ``[iban]``, ``[card]`` and ``[phone]`` in place of these, and how many of each.

    Masking a masked text changes nothing.
    """
    found: Counter[str] = Counter()
    while True:
        before = found.total()
        for kind, spans in (("email", _emails), ("iban", _ibans), ("card", _cards), ("phone", _phones)):
            text = _replaced(text, kind, spans, found)
        if found.total() == before:  # what is masked can show what stands beside it: a second number after "call"
            return text, found


def _replaced(text: str, kind: str, spans: Callable[[str], Iterator[tuple[int, int]]], found: Counter[str]) -> str:
    plain, places = _plain(text)
    parts, done = [], 0
    for start, end in spans(plain):
        first, last = (start, end - 1) if places is None else (places[start], places[end - 1])
        parts += [text[done:first], f"[{kind}]"]
        done = last + 1
        found[kind] += 1
    return "".join([*parts, text[done:]])


def _plain(text: str) -> tuple[str, list[int] | None]:
    """The text with ASCII for digits, hyphens, blanks and full-width characters, without what is not seen.

    Also where in the text each of its characters stands; None where that is the same place.
    """
    if text.isascii():
        return text, None
    characters, places = [], []
    for place, character in enumerate(text):
        plain = _plain_character(character)
        if plain:
            characters.append(plain)
            places.append(place)
    return "".join(characters), places


def _plain_character(character: str) -> str:
    if character.isascii():
        return character
    if (digit := unicodedata.decimal(character, None)) is not None:
        return str(digit)
    if "\uff01" <= character <= "\uff5e":  # full width
        return chr(ord(character) - 0xFEE0)
    if character in "\u2212\u00b7\u2024\ufe6b":
        return {"\u2212": "-", "\ufe6b": "@"}.get(character, ".")
    return {"Pd": "-", "Zs": " ", "Cf": ""}.get(unicodedata.category(character), character)


def _emails(text: str) -> Iterator[tuple[int, int]]:
    done = 0
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at + 1)
        start = _local_start(text, at, done) if domain else at
        if domain and start < at:
            done = domain.end()
            yield start, done
        at = text.find("@", max(at + 1, done))


def _local_start(text: str, at: int, least: int) -> int:
    """Where what stands before an ``@`` begins; at the ``@`` where nothing does."""
    if at - least > 2 and text[at - 1] == '"':
        start = text.rfind('"', max(least, at - _LONGEST_QUOTED), at - 1)
        while start > 0 and text[start - 1] == "\\":
            start = text.rfind('"', max(least, at - _LONGEST_QUOTED), start)
        return start if start >= 0 and start < at - 2 and "\n" not in text[start:at] else at
    start = at
    while start > least and (
        text[start - 1].isalnum() or text[start - 1] in _LOCAL_MARKS or unicodedata.category(text[start - 1])[0] == "M"
    ):
        start -= 1
    while start < at and text[start] in "'’`*":  # a quotation mark before it, or stress
        start += 1
    return start


def _scan(
    text: str, pattern: re.Pattern[str], span: Callable[[re.Match[str]], tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The parts that are what the pattern looks for; ``span`` says how long one is (0: none) and what is done with."""
    place = 0
    while match := pattern.search(text, place):
        length, read = span(match)
        if length:
            yield match.start(), match.start() + length
        place = match.start() + max(read, length, 1)


def _ibans(text: str) -> Iterator[tuple[int, int]]:
    return _scan(text, _IBAN, lambda match: (_iban_length(match), 1))


def _cards(text: str) -> Iterator[tuple[int, int]]:
    def length(match: re.Match[str]) -> tuple[int, int]:
        parts = _beginnings(match[0]) if _CARD_PREFIX.match(match[0]) else ()
        return len(next(filter(_is_card, parts), "")), 1

    return _scan(text, _CARD, length)


def _phones(text: str) -> Iterator[tuple[int, int]]:
    return _scan(text, _NUMBER, _phone_length)


def _beginnings(candidate: str) -> Iterator[str]:
    """All of it, and what of it ends before a blank, the longest first: other digits may follow a number."""
    yield candidate
    end = candidate.rfind(" ")
    while end > 0:
        if candidate[end - 1].isdigit():
            yield candidate[:end]
        end = candidate.rfind(" ", 0, end)


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
    plain = re.sub(r"[ ._-]", "", part).upper()
    if not plain.isascii() or not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4])) % 97 == 1


def _is_card(candidate: str) -> bool:
    """14 to 19 digits of a card scheme that pass Luhn's check (ISO/IEC 7812-1)."""
    digits = [int(character) for character in candidate if character.isdigit()]
    if not 14 <= len(digits) <= 19 or len(set(digits)) == 1:
        return False
    if re.search(r"[._]", candidate) and tuple(map(len, re.findall(r"\d+", candidate))) not in _CARD_GROUPS:
        return False
    doubled = [digit * 2 - 9 * (digit > 4) if place % 2 else digit for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _phone_length(match: re.Match[str]) -> tuple[int, int]:
    """How much of a candidate is a telephone number, and how much of it needs no second look."""
    before = match.string[max(match.start() - 48, 0) : match.start()]
    called = False
    if not before.rstrip(" ().-/_")[-1:].isdigit():  # no word reaches over digits
        if not match[0].startswith("+") and _OTHER_WORDS.search(before):
            return 0, len(match[0])
        called = _PHONE_WORDS.search(before) is not None
    if not called and match[0][0] not in "+(0" and not _NORTH_AMERICA.match(match[0]):
        return 0, 1
    length = next((len(part) for part in _beginnings(match[0]) if _is_phone(part, called=called)), 0)
    return length, 1


def _is_phone(candidate: str, *, called: bool) -> bool:
    digits = "".join(character for character in candidate if character.isdigit())
    if candidate.startswith("+"):
        return 8 <= len(digits) <= 15  # E.164
    if _DATE.match(candidate):
        return False
    if called:
        return 7 <= len(digits) <= 15
    if _NORTH_AMERICA.fullmatch(candidate):
        return True
    if candidate.lstrip("(").startswith("00"):
        return 11 <= len(digits) <= 16 and digits[2] != "0"
    # A national number with its trunk prefix; groups of one digit are a version.
    groups = re.findall(r"\d+", candidate)
    return digits.startswith("0") and 9 <= len(digits) <= 12 and (len(groups) == 1 or min(map(len, groups)) >= 2)
