"""English spellings to phones: known words exactly, rules of apostrophes and initials, unknown
words sensibly."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from rows import over_rows

from ctc_align.errors import LexiconError, UsageError
from ctc_align.text.letter_network import likeliest
from ctc_align.text.letter_to_phone import (
    DICTIONARY,
    FOLDER,
    WEIGHTS,
    Dictionary,
    LetterToPhone,
    fold,
)
from ctc_align.text.lexicon import read_lexicon
from ctc_align.text.phone_sets import ARPABET_CLASSES, ARPABET_PHONES, arpabet_class, strip_stress


@pytest.fixture(scope="module")
def speaker() -> LetterToPhone:
    return LetterToPhone()


def said(speaker: LetterToPhone, word: str, best: int = 2) -> list[str]:
    return [" ".join(phones) for phones in speaker.pronounce([word], best)[0]]


def test_words_names_of_letters_initials_and_words_that_nobody_knows(
    speaker: LetterToPhone,
) -> None:
    lines = (Path(__file__).parent / "english_phones.txt").read_text("utf-8").splitlines()
    entries = " ".join(line for line in lines if not line.startswith("# ")).split(";")
    wanted = dict(entry.split(maxsplit=1) for entry in entries)
    assert len(wanted) >= 150
    assert {word: said(speaker, word)[0] for word in wanted} == wanted


@over_rows(
    ("word", "wanted"),
    [
        ("the", ["DH AH", "DH IY"]),
        ("a", ["AH", "EY"]),
        ("to", ["T UW", "T IH", "T AH"]),
        ("read", ["R EH D", "R IY D"]),
        ("of", ["AH V"]),
        ("cat", ["K AE T"]),
    ],
)
def test_all_pronunciations_of_known_words_and_no_others(
    speaker: LetterToPhone, word: str, wanted: list[str]
) -> None:
    assert said(speaker, word) == wanted


@over_rows(
    ("word", "like", "ending"),
    [
        ("zorbgat's", "zorbgat", " S"),
        ("zorbgab's", "zorbgab", " Z"),
        ("zorbgash's", "zorbgash", " IH Z"),
        ("zorbgat'd", "zorbgat", " IH D"),
        ("zorbgab'd", "zorbgab", " D"),
        ("zorbgab'll", "zorbgab", " AH L"),
        ("zorbgab've", "zorbgab", " AH V"),
        ("zorbgab're", "zorbgab", " ER"),
        ("zorbgabs'", "zorbgabs", ""),
        ("'zorbgab", "zorbgab", ""),
        ("''zorbgab''", "zorbgab", ""),
    ],
)
def test_apostrophes_of_unknown_words(
    speaker: LetterToPhone, word: str, like: str, ending: str
) -> None:
    assert said(speaker, word) == [phones + ending for phones in said(speaker, like)]


@over_rows(
    ("word", "letters", "missing"),
    [
        ("naïve", "naive", ""),
        ("cafe\u0301", "cafe", ""),
        ("Åse", "ase", ""),
        ("groß", "gross", ""),
        ("æsir", "aesir", ""),
        ("søren", "soren", ""),
        ("łódź", "lodz", ""),
        ("ﬁne", "fine", ""),
        ("ＡＢ", "ab", ""),
        ("don’t", "don't", ""),
        ("a-b.", "ab", ""),
        ("wодa", "wa", "од"),
        ("й", "", "й"),
        ("水x", "x", "水"),
        ("क\u093eर", "", "क\u093eर"),
        ("x7", "x", "7"),
        ("a\ufe0f\u200db", "ab", ""),
        ("x\u0301", "x", ""),
    ],
)
def test_folding(word: str, letters: str, missing: str) -> None:
    assert fold(word) == (letters, tuple(missing))


def test_words_without_letters_unknown_ones_and_words_among_others(speaker: LetterToPhone) -> None:
    assert speaker.pronounce(["", "'", "''", "привет", "水", "-"]) == [[]] * 6
    assert speaker.pronounce([]) == []
    assert speaker.pronounce(["zoë", "café"]) == speaker.pronounce(["zoe", "cafe"])
    words = [
        "blorptastic",
        "zzyzyxal",
        "grumbleshanks",
        "aaaa",
        "q" * 5,
        "kubernetes",
        "x" * 300,
        "antidis" * 40,
    ]
    for word, found in zip(words, speaker.pronounce(words), strict=True):
        assert 1 <= len(found) <= 2, word
        assert all(phones and set(phones) <= set(ARPABET_PHONES) for phones in found), word
    assert all(len(found) == 1 for found in speaker.pronounce(words, best=1))
    words = ["blorp", "flarn", "smorgle", "quizzle", "th", "o", "wugs", "glim", "blorp"]
    alone = [LetterToPhone().pronounce([word])[0] for word in words]
    assert LetterToPhone().pronounce(words) == alone


def test_what_was_pronounced_is_remembered(
    speaker: LetterToPhone, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [a + b + "ken" for a in "bdfgklmnprst" for b in "aeiou"]
    first = speaker.pronounce(words)

    def heard_again(words: list[str]) -> dict[str, object]:
        assert not words, "the network was asked again"
        return {}

    monkeypatch.setattr(speaker, "_run", heard_again)
    assert speaker.pronounce(words) == first
    with pytest.raises(AssertionError, match="asked again"):
        speaker.pronounce(["zzyxkenbluf"])


def test_threads_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words that one of them needs are never taken away by the other: they would be spelled
    out."""
    speaker, asked = LetterToPhone(), []
    real, other = speaker._run, threading.Thread(target=speaker.pronounce, args=(["plootle"],))

    def run(words: list[str]) -> dict[str, object]:
        asked.append(words)
        if words == ["glickle"]:
            other.start()
            other.join(0.02)
            assert asked == [["glickle"]]
        return real(words)

    monkeypatch.setattr(speaker, "_run", run)
    assert said(speaker, "glickle") == ["G L IH K AH L"]
    other.join()
    assert asked == [["glickle"], ["plootle"]]


def test_words_are_found_in_a_file(tmp_path: Path) -> None:
    words = sorted({f"{a}{b}{c}" for a in "ab'" for b in ("", "a", "c") for c in ("", "b", "'")})
    (tmp_path / DICTIONARY).write_text(
        "".join(f"{word}\tK {word.upper()}\tT\n" for word in words), "ascii"
    )
    found = Dictionary(tmp_path / DICTIONARY)
    assert all(found.pronunciations(word) == [("K", word.upper()), ("T",)] for word in words)
    others = ("", "0", "~", "aa'a", "abc", "c", "a\tK")
    assert not any(word in found for word in others)


def test_what_the_package_holds() -> None:
    assert (FOLDER / WEIGHTS).stat().st_size <= 3_000_000
    lines = (FOLDER / DICTIONARY).read_bytes().splitlines()
    assert lines == sorted(lines)
    for line in lines:
        _, *pronunciations = line.decode("ascii").split("\t")
        assert all(set(one.split(" ")) <= set(ARPABET_PHONES) for one in pronunciations), line
    assert "Carnegie Mellon University" in (FOLDER / "CMUDICT-LICENSE").read_text(encoding="utf-8")


def every_sequence(probs: np.ndarray) -> dict[tuple[int, ...], float]:
    """Label sequences and their probabilities, by walking all CTC paths."""
    sums: dict[tuple[int, ...], float] = {}
    for path in np.ndindex(*[probs.shape[1]] * len(probs)):
        labels = tuple(now for before, now in zip((0, *path), path) if now not in (0, before))
        sums[labels] = sums.get(labels, 0.0) + float(
            np.prod([row[k] for row, k in zip(probs, path)])
        )
    return sums


@over_rows("seed", range(20))
def test_beam_search_against_all_paths(seed: int) -> None:
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.full(3, 0.7), size=5)
    if seed % 2:
        probs = np.round(probs * 4) / 4 + 0.01  # ties
    sums = every_sequence(probs)
    found = likeliest(probs, 2)
    assert [labels for labels, _ in found][:1] == [
        max(sums, key=lambda one: (round(sums[one], 9), [-k for k in one]))
    ]
    for labels, probability in found:
        assert (
            0.8 * sums[labels] < probability <= sums[labels] * (1 + 1e-9)
        )  # the beam drops unlikely paths


# Pronunciation dictionaries: every written form of MFA 2, MFA 3 and CMUdict, and what cannot be
# read.


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
def test_words_and_phones_that_look_like_something_else(
    tmp_path: Path, line: str, word: str, labels: tuple
) -> None:
    assert lexicon(tmp_path, line).get(word) == (labels,)


def test_the_order_of_pronunciations_and_the_lines_of_phones(tmp_path: Path) -> None:
    read = lexicon(tmp_path, "a\t0.2\tEY1\na\t0.7\tAH0\na\t0.7\tAE\na\t0.1\tAH0\n")
    assert read.get("A") == (("AH0",), ("AE",), ("EY1",))
    assert (read.line("a"), read.get("b")) == (2, None)
    assert lexicon(tmp_path, "READ  R EH D\nREAD(2)  R IY D\n").get("read") == (
        ("R", "EH", "D"),
        ("R", "IY", "D"),
    )
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
    assert all(
        arpabet_class(phone) in ARPABET_CLASSES and strip_stress(phone) == phone
        for phone in ARPABET_PHONES
    )
    assert arpabet_class("AA1") == "vowel"
    assert [strip_stress(label) for label in ("AA1", "B1", "ɑ1", "")] == ["AA", "B1", "ɑ1", ""]
