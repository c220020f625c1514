"""What names a person is masked, and what a question is about is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbeval.testset.masking import mask


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ana.silva+till@example.co.uk please", "write to [email] please"),
        ("o'neil@example.ie, or (bob_2@shop.example).", "[email], or ([email])."),
        ("ÄRGER@BEISPIEL.DE!", "[email]!"),
        # Test numbers that card schemes publish, each in the ways people type them.
        ("my card 4111 1111 1111 1111 was declined", "my card [card] was declined"),
        ("5555555555554444 is refused", "[card] is refused"),
        ("amex 3782-822463-10005", "amex [card]"),
        ("6011-1111-1111-1117?", "[card]?"),
        # Examples of the IBAN registry.
        ("pay to GB29 NWBK 6016 1331 9268 19 please", "pay to [iban] please"),
        ("DE89370400440532013000", "[iban]"),
        ("iban fr1420041010050500013m02606, thanks", "iban [iban], thanks"),
        # Numbers that regulators keep for fiction.
        ("call me on +44 20 7946 0958", "call me on [phone]"),
        ("+49 (30) 23125-678 or 030 23125 678", "[phone] or [phone]"),
        ("ring 07700900123 after six", "ring [phone] after six"),
        ("(212) 555-0187 or 212-555-0187 or 1-212-555-0187", "[phone] or [phone] or [phone]"),
        ("0044 20 7946 0958", "[phone]"),
        ("my mobile is 5550187 now", "my mobile is [phone] now"),
        ("phone: 2125550187", "phone: [phone]"),
        ("01 99 00 12 34", "[phone]"),
        ("01.99.00.12.34 or 01-99-00-12-34", "[phone] or [phone]"),
        # "number is" and "no." do not say of what.
        ("my number is 555-123-4567, ring me back", "my number is [phone], ring me back"),
        ("My number is 0171 2345678 please", "My number is [phone] please"),
        ("my number is 5550187", "my number is [phone]"),
        ("contact no. 0301234567", "contact no. [phone]"),
        ("in any case 0301234567", "in any case [phone]"),
        # What stands before and behind.
        ("Tel.:0301234567", "Tel.:[phone]"),
        ("Tel.0301234567", "Tel.[phone]"),
        ("call:0301234567/0301234568", "call:[phone]/[phone]"),
        ("call 5550187 or 5550188", "call [phone] or [phone]"),
        ("phone:+4930/1234567", "phone:[phone]"),
        ("write 0171 2345678 5 times", "write [phone] 5 times"),
        ("2026 0301234567", "2026 [phone]"),
        ("card 4111 1111 1111 1111 12/27 123", "card [card] 12/27 123"),
        ("4111 1111 1111 1111 5555 5555 5555 4444", "[card] [card]"),
        ("from AB12 please pay to GB29 NWBK 6016 1331 9268 19", "from AB12 please pay to [iban]"),
        # Other blanks, hyphens, digits and separators.
        ("4111.1111.1111.1111", "[card]"),
        ("4111_1111_1111_1111", "[card]"),
        ("3782.822463.10005", "[card]"),
        ("4111\u20111111\u20111111\u20111111 ok", "[card] ok"),
        ("4111\u20101111\u20101111\u20101111", "[card]"),
        ("4111\u00a01111\u202f1111\u00a01111", "[card]"),
        ("call \u202a+49\u00a030\u202f1234567\u202c!", "call \u202a[phone]\u202c!"),
        ("ring 07700\u2011900\u2011123", "ring [phone]"),
        ("GB29\u00a0NWBK\u00a06016\u00a01331\u00a09268\u00a019", "[iban]"),
        ("GB29.NWBK.6016.1331.9268.19", "[iban]"),
        ("０３０１２３４５６７", "[phone]"),
        ("\u0660\u0663\u0660\u0661\u0662\u0663\u0664\u0665\u0666\u0667", "[phone]"),  # Arabic digits
        ("ｊｏｅ＠ｅｘａｍｐｌｅ．ｃｏｍ, joe＠example.com", "[email], [email]"),
        ("jo\u200be@example.com", "[email]"),
        ("jose\u0301@example.com", "[email]"),
        # Addresses in their rarer forms (RFC 5321).
        ('"john smith"@example.com wrote', "[email] wrote"),
        ('say "hi" to "a\\"b"@example.com', 'say "hi" to [email]'),
        ("joe@[10.0.0.1] or joe@[IPv6:2001:db8::1]", "[email] or [email]"),
        ("john&jane@example.com, 'bob@example.com', **ann@example.com**", "[email], '[email]', **[email]**"),
        ("a@example.com@example.org", "[email]@example.org"),
    ],
)
def test_what_is_masked(text: str, expected: str) -> None:
    masked, found = mask(text)
    assert masked == expected
    assert sum(found.values()) == expected.count("[")
    assert mask(masked) == (masked, {})


@pytest.mark.parametrize(
    "text",
    [
        "order 4471234567 has not come",
        "order number 0447123456 has not come",
        "invoice no. 0123456789",
        "ticket #0204461122",
        "order 114-1234567-1234567",
        "refund 20260115001234 is missing",
        "version 10.0.19045.4170 crashes",
        "firmware 2.14.0-rc1 and 1.2.3.4.5.6.7",
        "it costs £1,299.00 or 1299.00 EUR or 12 500 000",
        "on 2026-01-15 at 10:30, or 15/01/2026, or 01.02.2026 10:30",
        "from 01.02.2026 to 2026-03-04 12:30:45",
        "address 192.168.100.200 port 65535",
        "error 0x80070005, code 1234567",
        "EAN 4006381333931",
        "serial M2-0012-3456-789A",
        "4111 1111 1111 1112 fails the check digit",
        "0000 0000 0000 0000",
        "GB29 NWBK 6016 1331 9268 18 is no account",
        "log in as @cashier or user@till",
        "the years 2019 2020 2021 2022",
        "a 7 digit 1234567 and 8 digit 12345678",
        "3.14159265358979",
        "1e-10 and 1000000000",
        "https://example.com/orders/0201234567/items",
        "my order number is 0447123456",
        "the invoice no. is 0123456789",
        "call about order 0447123456",
        "call us about invoice no. 1234567",
        "customer number 0447123456",
        "order:0447123456",
        "firmware 4111.1111.11111.111.1",
        "img_4111_11111111_1111",
        "IMG_20260115_001234.jpg",
        "at 10:30:001234567",
        "0.0123456789",
        "from\u00a001.02.2026 to\u00a02026\u20110\u20110",
        "order\u00a0number\u00a00447123456",
        "１２ ５００ ０００",
        "[phone] paid 1500000",
        'a@b, @example.com, ""@example.com, joe@[cashier]',
    ],
)
def test_what_is_not(text: str) -> None:
    assert mask(text) == (text, {})


_PIECES = st.sampled_from(
    ["0301234567", "5550187", "555-123-4567", "+49 30 1234567", "4111 1111 1111 1111", "GB29 NWBK 6016 1331 9268 19",
     "a@b.co", "@", '"', ".", ":", "/", " ", "-", "_", "call ", "order ", "no. ", "or ", "[phone]", "[", "]", "\u00a0",
     "1"]
)  # fmt: skip


@given(st.text(max_size=80) | st.lists(_PIECES, max_size=9).map("".join))
def test_masking_twice_is_masking_once(text: str) -> None:
    once, _ = mask(text)
    assert mask(once)[0] == once


@pytest.mark.parametrize(
    "text",
    ["a" * 50_000, "a." * 25_000, "1" * 50_000, "1-" * 25_000, "1 " * 25_000, " " * 50_000, "(" * 50_000,
     "." * 50_000, "+" * 50_000, "@" * 50_000, '"' * 50_000, '"@' * 25_000, "a@" * 25_000, "a-" * 25_000,
     "aa11 " * 10_000, "é" * 50_000, "0" * 50_000],
)  # fmt: skip
def test_long_runs_are_no_more_work_than_their_length(text: str) -> None:
    # Each took minutes to hours where the work grew with the square of the length.
    assert mask(text) == (text, {})


def test_many_in_one_text() -> None:
    text = "call 5550187, write a@example.com; " * 2_000
    assert mask(text) == ("call [phone], write [email]; " * 2_000, {"phone": 2_000, "email": 2_000})
