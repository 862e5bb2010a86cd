"""Speech whose edges are known: Festival's relations are read, and its sound lies where they say."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ctc_align.errors import UsageError
from ctc_align.text.textgrid_files import Interval
from ctc_align.training.refining.festival_speech import (
    RATE,
    Reading,
    SpokenSentence,
    SpokenWord,
    Timing,
    clauses,
    parse_relations,
    resampled,
    speak,
)

# As the voice ked prints them: it adds an `r` of no word after `er`, and says 's within the word before it.
PRINTED = """utterance 0
token dr 1
word doctor 1
segment pau 0.200000 0
segment d 0.300000 1
segment pau 0.500000 0
utterance 1
token her 1
token cat's 2
word her 1
word cat 2
word 's 2
segment pau 0.200000 0
segment hh 0.250000 1
segment er 0.300000 1
segment r 0.350000 0
segment pau 0.550000 0
segment k 0.650000 2
segment ax 0.750000 2
segment t 0.800000 2
segment s 0.900000 2
segment pau 1.100000 0
"""


def test_relations_become_phones_and_words_and_expanded_sentences_are_left_out() -> None:
    ((number, timing),) = parse_relations(PRINTED, ["dr", "her cat's"])
    assert number == 1
    assert timing.phones == (
        Interval(0.2, 0.25, "HH"),
        Interval(0.25, 0.35, "ER"),
        Interval(0.55, 0.65, "K"),
        Interval(0.65, 0.75, "AH"),
        Interval(0.75, 0.8, "T"),
        Interval(0.8, 0.9, "S"),
    )
    assert timing.words == (SpokenWord("her", 0.2, 0.35, 0, 2), SpokenWord("cat's", 0.55, 0.9, 2, 6))


def test_edges_move_with_the_sound_when_it_is_played_faster() -> None:
    samples = np.zeros(RATE, np.float32)
    samples[8000] = 1.0
    sentence = SpokenSentence(Reading("a"), samples, Timing((Interval(0.5, 0.75, "AH"),), ()))
    faster = resampled(sentence, 1.25)
    assert len(faster.samples) == pytest.approx(RATE / 1.25, abs=1)
    assert np.abs(faster.samples).argmax() / RATE == pytest.approx(faster.timing.phones[0].start_s, abs=1 / RATE)


def test_clauses_depend_on_the_seed_and_hold_plain_words_only() -> None:
    texts = ["ONE TWO THREE FOUR FIVE AND SIX SEVEN EIGHT NINE TEN", "IN 1984 ALL OF THEM WERE THERE", "TOO SHORT"]
    assert clauses(texts, 2) == clauses(texts[:1], 2)
    assert {tuple(clauses(texts, 2, seed)) for seed in range(8)} == {
        ("and six seven eight nine ten", "one two three four five"),
        ("one two three four five", "and six seven eight nine ten"),
    }
    with pytest.raises(UsageError, match="with 3 clauses of plain words, got 2"):
        clauses(texts, 3)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (None, "Festival is not installed.*apt install festival festvox-kallpc16k festvox-kdlpc16k"),
        ("echo missing kal_diphone", "kal_diphone is not installed.*apt install festvox-kallpc16k"),
        ("echo SIOD ERROR: broken >&2; exit 255", "status 255: SIOD ERROR: broken"),
    ],
)
def test_what_is_missing_is_said(
    program: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program is not None:
        (tmp_path / "festival").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "festival").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=says):
        list(speak([Reading("a cat")]))


def test_a_text_cannot_break_out_of_the_script() -> None:
    with pytest.raises(UsageError, match="plain lower-case words"):
        list(speak([Reading('a") (quit) ("')]))


@pytest.mark.skipif(shutil.which("festival") is None, reason="needs Festival: apt install festival and two voices")
def test_the_sound_lies_where_festival_says() -> None:
    text = "the greatest admiration in the world for her brother's work"
    told = [Reading(text, voice, stretch) for voice in ("kal", "ked") for stretch in (0.8, 1.1)]
    spoken = list(speak([*told, Reading("he met dr jones on the road")]))
    assert [sentence.reading for sentence in spoken] == told
    for sentence in spoken:
        power = sentence.samples.astype(float) ** 2
        first, last = sentence.timing.phones[0], sentence.timing.phones[-1]
        inside = power[round(first.start_s * RATE) : round(last.end_s * RATE)].mean()
        before = power[: round((first.start_s - 0.02) * RATE)].mean()
        assert before < inside / 1000
        assert [phone.label for phone in sentence.timing.phones[:5]] == ["DH", "AH", "G", "R", "EY"]
        assert " ".join(word.text for word in sentence.timing.words) == text
    slow, fast = (spoken[place].timing.phones[-1].end_s for place in (1, 0))
    assert slow / fast == pytest.approx(1.1 / 0.8, rel=0.01)
