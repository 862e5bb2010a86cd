"""Telephone numbers are read digit by digit, and what only looks like one is read as it was."""

from __future__ import annotations

from rows import over_rows

from ctc_align.text import split

NUMBERS = {
    "Call 555-1234.": "call | five five five one two three four",
    "(212) 555-0123": "two one two | five five five zero one two three",
    "at (212)555-0123, ok?": "at | two one two five five five zero one two three | ok",
    "(555) 123-4567;": "five five five | one two three four five six seven",
    "+1 800 555 0199": "plus one | eight zero zero | five five five | zero one nine nine",
    "1 (800) 555-0199": "one | eight zero zero | five five five zero one nine nine",
    "1-800-555-0199": "one eight zero zero five five five zero one nine nine",
    "212.555.0123": "two one two five five five zero one two three",
    "212 555 0123": "two one two | five five five | zero one two three",
    "1-800-FLOWERS": "one eight hundred flowers",
    "800-GOT-JUNK?": "eight hundred got junk",
    "+44 20 7946 0958": "plus four four | two zero | seven nine four six | zero nine five eight",
    "020 7946 0958": "zero two zero | seven nine four six | zero nine five eight",
    "+49 (0)30 901820": "plus four nine | zero three zero | nine zero one eight two zero",
    "Tel: 555 1234": "tel | five five five | one two three four",
    "Phone: 5551234": "phone | five five five one two three four",
    "ext. 4567": "extension | four five six seven",
    "555-0123 x123": "five five five zero one two three | extension one two three",
    "Dial 911 now": "dial | nine one one | now",
    "the 911 operator": "the | nine one one | operator",
}
OTHERS = {
    "911 people": "nine hundred eleven | people",
    "on 9/11": "on | nine eleven",
    "Extension 42": "extension | forty two",
    "pages 100-2000": "pages | one hundred to two thousand",
    "250-1200 mg": "two hundred fifty to twelve hundred | milligrams",
    "1999-2004": "nineteen ninety nine to two thousand four",
    "100 200 3000": "one hundred | two hundred | three thousand",
    "+1 500 people": "plus one | five hundred | people",
    "2024-01-15": "twenty twenty four one fifteen",
    "978-0-306-40615-7": "nine seven eight zero three zero six four zero six one five seven",
    "call 20 people": "call | twenty | people",
    "in 1999 2000 2001": "in | nineteen ninety nine | two thousand | two thousand one",
    "flight 370": "flight | three hundred seventy",
    "$800-900": "eight hundred dollars to nine hundred",
    "phone 12": "phone | twelve",
}


@over_rows(("written", "spoken"), [*NUMBERS.items(), *OTHERS.items()])
def test_telephone_numbers(written: str, spoken: str) -> None:
    assert " | ".join(word.spoken for word in split(written).words) == spoken
