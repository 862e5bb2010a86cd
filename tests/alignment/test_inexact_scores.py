"""The scorer of recordings and transcripts that are not exact: right on what is right, and seen to count each fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from inexact_scores import MUSIC, SPEECH, Case, Scores, Stretch, TrueWord, score

from ctc_align.files import Alignment
from ctc_align.types import UNEXPLAINED, AlignedWord, Region

FOREIGN = Stretch(SPEECH, 20.0, 30.0, 19.0, 31.0)
SONG = Stretch(MUSIC, 40.0, 60.0, 40.0, 60.0)
CASE = Case(
    "made",
    0,
    np.zeros(16000 * 70, np.float32),
    "one two three",
    (TrueWord("one", ((1.0, 1.5),)), TrueWord("two"), TrueWord("three", ((3.0, 3.5),))),
    (FOREIGN, SONG),
    cues=((0, 2), (2, 3)),
)
RIGHT = Alignment(
    utterance="made",
    audio="",
    duration_s=70.0,
    model="",
    backend="",
    frame_shift_s=0.01,
    loss=1.0,
    score=-1.0,
    text=CASE.text,
    words=(
        AlignedWord("one", "one", 0, 3, "aligned", 1.05, 1.45, 0.9),
        AlignedWord("two", "two", 4, 7, "skipped"),
        AlignedWord("three", "three", 8, 13, "aligned", 3.0, 3.5, 0.9),
    ),
    regions=(Region(UNEXPLAINED, 19.5, 30.0, reason="speech"), Region(UNEXPLAINED, 40.0, 60.0, reason="music")),
)


def test_what_is_right_is_counted_as_right() -> None:
    found = score(CASE, RIGHT, (1.1, 3.2)).shares()
    assert {name: found[name] for name in ("<100ms", "<300ms", "skipped", "found", "true", "cues")} == dict.fromkeys(
        ("<100ms", "<300ms", "skipped", "found", "true", "cues"), 100.0
    )
    assert [found[name] for name in ("gross", "sure", "lost", "music s")] == [0.0] * 4


@pytest.mark.parametrize(
    ("faults", "name", "expected"),
    [
        ({"word": (0, {"start_s": 0.85})}, "<100ms", 50.0),
        ({"word": (0, {"end_s": 1.85})}, "<300ms", 50.0),
        ({"word": (0, {"start_s": 9.0, "end_s": 9.5})}, "sure", 50.0),
        ({"word": (0, {"status": "skipped", "start_s": None, "end_s": None})}, "lost", 50.0),
        ({"word": (1, {"status": "aligned", "start_s": 2.0, "end_s": 2.2, "confidence": 0.1})}, "skipped", 0.0),
        ({"regions": (Region(UNEXPLAINED, 25.0, 35.0, reason="speech"),)}, "found", 50.0),
        ({"regions": (Region(UNEXPLAINED, 21.0, 41.0, reason="speech"),)}, "true", 50.0),
        ({"regions": (Region(UNEXPLAINED, 50.0, 55.0, reason="speech"),)}, "music s", 5.0),
        ({"starts": (1.1, 3.4)}, "cues", 50.0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_each_fault_is_seen(faults: dict, name: str, expected: float) -> None:
    place, changed = faults.get("word", (0, {}))
    words = [replace(word, **changed) if at == place else word for at, word in enumerate(RIGHT.words)]
    wrong = replace(RIGHT, words=tuple(words), regions=faults.get("regions", RIGHT.regions))
    assert score(CASE, wrong, faults.get("starts", (1.0, 3.0))).shares()[name] == expected


def test_of_two_readings_the_one_without_words_is_unexplained() -> None:
    first, second = Stretch(SPEECH, 0.5, 3.6, 0.0, 4.0), Stretch(SPEECH, 5.5, 8.6, 5.0, 9.0)
    twice = replace(CASE, twice=((first, second),), foreign=())
    told = replace(RIGHT, regions=(Region(UNEXPLAINED, 5.0, 9.0, reason="speech"),))
    assert (score(twice, told).foreign_found_s, score(twice, told).twice_whole) == (pytest.approx(3.1), 1)
    assert score(twice, RIGHT).foreign_found_s == 0.0
    torn = replace(told, words=(*RIGHT.words[:2], replace(RIGHT.words[2], start_s=8.0, end_s=8.5)))
    assert score(twice, torn).twice_whole == 0


def test_cases_are_summed() -> None:
    total = Scores()
    for _ in range(2):
        total.add(score(CASE, replace(RIGHT, regions=(Region(UNEXPLAINED, 50.0, 55.0, reason="speech"),))))
    assert (total.spoken, total.music_s, total.most_music_s) == (4, 10.0, 5.0)
