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
    ],
)
def test_what_is_not(text: str) -> None:
    assert mask(text) == (text, {})


@given(st.text(max_size=80))
def test_masking_twice_is_masking_once(text: str) -> None:
    once, _ = mask(text)
    assert mask(once)[0] == once
