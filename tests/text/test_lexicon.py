"""Pronunciation dictionaries: every written form of MFA 2, MFA 3 and CMUdict, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from rows import over_rows

from ctc_align.errors import LexiconError, UsageError
from ctc_align.text.lexicon import read_lexicon
from ctc_align.text.phone_sets import ARPABET_CLASSES, ARPABET_PHONES, arpabet_class, strip_stress


def lexicon(tmp_path: Path, text: str | bytes):
    path = tmp_path / "words.dict"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return read_lexicon(path)


@over_rows(
    "line",
    [
        "bear\tB EH1 R",
        "bear B EH1 R",
        "bear   B  EH1   R  ",
        "bear\tB\tEH1\tR",
        "bear\t0.99\tB EH1 R",
        "bear 0.99 B EH1 R",
        "bear\t1\tB EH1 R",
        "bear\t1.0\tB EH1 R",
        "bear\t0.99\t0.2\t1.0\t1.43\tB EH1 R",
        "bear 0.99 0.2 1.0 1.43 B EH1 R",
        "bear\t1e-05\tB EH1 R",
        "BEAR  B EH1 R",
        "bear(2)  B EH1 R",
        "bear B EH1 R # animal, brown",
        "\ufeffbear\tB EH1 R",
        "bear\tB EH1 R\r",
        "\n;;; a comment\n  \nbear\tB EH1 R",
    ],
)
def test_every_form_of_a_line(tmp_path: Path, line: str) -> None:
    assert lexicon(tmp_path, line + "\n").get("Bear") == (("B", "EH1", "R"),)


@over_rows(
    ("line", "word", "labels"),
    [
        ("1999\t0.9\tN AY N", "1999", ("N", "AY", "N")),
        ("0.5 HH AE F", "0.5", ("HH", "AE", "F")),
        ("ma 1 5", "ma", ("1", "5")),
        ("ma\tm a 5", "ma", ("m", "a", "5")),
        ("new york\tN UW1 Y AO1 R K", "New York", ("N", "UW1", "Y", "AO1", "R", "K")),
        ("# HH AE SH", "#", ("HH", "AE", "SH")),
        ("x # a", "x", ("#", "a")),
        ("Don’t\tD OW1 N T", "don't", ("D", "OW1", "N", "T")),
        ("cafe\u0301\tK AH F EY", "caf\u00e9", ("K", "AH", "F", "EY")),
        ("[laughter]\tspn", "[laughter]", ("spn",)),
        ("smile:(2)\tS", "smile:", ("S",)),
    ],
)
def test_words_and_phones_that_look_like_something_else(tmp_path: Path, line: str, word: str, labels: tuple) -> None:
    assert lexicon(tmp_path, line).get(word) == (labels,)


def test_the_order_of_pronunciations_and_the_lines_of_phones(tmp_path: Path) -> None:
    read = lexicon(tmp_path, "a\t0.2\tEY1\na\t0.7\tAH0\na\t0.7\tAE\na\t0.1\tAH0\n")
    assert read.get("A") == (("AH0",), ("AE",), ("EY1",))
    assert (read.line("a"), read.get("b")) == (2, None)
    assert lexicon(tmp_path, "READ  R EH D\nREAD(2)  R IY D\n").get("read") == (("R", "EH", "D"), ("R", "IY", "D"))
    assert lexicon(tmp_path, "\nb\tB A\na\tA C\n").phones() == {"B": 2, "A": 2, "C": 3}


@over_rows(
    ("data", "message"),
    [
        (b"a\tAH\nbear\n", r"words\.dict:2: expected phones after the word 'bear'"),
        (b"bear\t0.99\t\n", r":1: expected phones after the word 'bear'"),
        (b"bear 0.99\n", r":1: expected phones after the word 'bear'"),
        (b"\tB EH R\n", r":1: expected a word before its phones"),
        (b"a\t1.2\tAH\n", r":1: expected a probability of at most 1 for 'a', got 1\.2"),
        (b"a\tAH\nb\xe9\tB\n", r":2: expected UTF-8, got byte 0xe9"),
        (b"", r"expected lines .*, got none"),
        (b"\xef\xbb\xbf\n;;; nothing\n\n", r"got none"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(LexiconError, match=message):
        lexicon(tmp_path, data)


def test_files_that_are_no_lexicon_and_classes_of_phones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such lexicon"):
        read_lexicon(tmp_path / "absent.dict")
    with pytest.raises(UsageError, match="cannot be read"):
        read_lexicon(tmp_path)
    assert len(ARPABET_PHONES) == len(set(ARPABET_PHONES)) == 39
    assert all(arpabet_class(phone) in ARPABET_CLASSES and strip_stress(phone) == phone for phone in ARPABET_PHONES)
    assert arpabet_class("AA1") == "vowel"
    assert [strip_stress(label) for label in ("AA1", "B1", "ɑ1", "")] == ["AA", "B1", "ɑ1", ""]
