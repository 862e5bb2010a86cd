"""Captions that roll: which lines are shown again, and which are spoken again."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ctc_align import Aligner
from ctc_align.config import Settings
from ctc_align.files import rendered
from ctc_align.files.source_cues import shown_times
from ctc_align.files.subtitles import parse_subtitles
from ctc_align.text.transcript import words_of
from ctc_align.types import REPEAT

LINES = [
    "It is a truth that",
    "all the world must",
    "acknowledge: a single",
    "man in possession of",
]
Cues = list[tuple[float, float, str]]


def srt(cues: Cues) -> str:
    def clock(seconds: float) -> str:
        return (
            f"00:{int(seconds) // 60:02d}:{int(seconds) % 60:02d},{round(seconds % 1 * 1000):03d}"
        )

    return "\n".join(
        f"{n}\n{clock(s)} --> {clock(e)}\n{text}\n" for n, (s, e, text) in enumerate(cues, 1)
    )


def spoken(cues: Cues) -> str:
    """Return the words of cues that are certainly spoken, and those in parentheses that may be."""
    transcript = parse_subtitles(srt(cues), "a.srt")
    words = words_of(transcript.text, Settings(), transcript.subtitles)
    assert "".join(word.text for word in words.words) == "".join(transcript.text.split())
    possible = {index for passage in words.optional for index in range(passage.first, passage.last)}
    texts = [
        (f"({word.text})" if index in possible else word.text, word.kind)
        for index, word in enumerate(words.words)
    ]
    return " ".join(text for text, kind in texts if not kind)


def rolling(lines: int = 2, between_s: float = 0.0) -> Cues:
    """Return cues of 1.5 s that show so many lines, each with one of `between_s` behind it that
    shows the last line."""
    cues: Cues = []
    for index, line in enumerate(LINES):
        start, text = 1.5 * index, "\n".join(LINES[max(index + 1 - lines, 0) : index + 1])
        cues += [
            (start, start + 1.5 - between_s, text),
            (start + 1.5 - between_s, start + 1.5, line),
        ]
    return [cue for cue in cues if cue[1] > cue[0]]


def growing(step: int) -> Cues:
    words = " ".join(LINES).split()
    ends = [*range(step, len(words), step), len(words)]
    return [
        (0.35 * start, 0.35 * end, " ".join(words[:end])) for start, end in pairwise([0, *ends])
    ]


def marked(cues: Cues, before: str, after: str = "") -> Cues:
    return [
        (s, e, "\n".join(before + line + after for line in text.split("\n"))) for s, e, text in cues
    ]


@pytest.mark.parametrize(
    "cues",
    [
        rolling(2, 0.01),
        rolling(2),
        rolling(3),
        rolling(1, 0.01),
        growing(1),
        growing(3),
        [
            cue
            for start, end, text in rolling(2)
            for cue in ((start, end - 0.01, text), (end - 0.01, end, " "))
        ],
        [
            cue
            for start, end, text in rolling(1)
            for cue in ((start, end - 0.75, text), (end - 0.75, end, text))
        ],
        marked(rolling(2, 0.01), "- "),
        marked(rolling(2, 0.01), "<i>", "</i>"),
        marked(rolling(3), '<font color="#E5E5E5">', "</font>"),
    ],
)
def test_lines_that_roll_are_spoken_once(cues: Cues) -> None:
    assert spoken(cues) == " ".join(LINES)


def test_a_word_that_grows_is_spoken_when_it_is_whole() -> None:
    cues = [
        (0.0, 0.3, "it be"),
        (0.3, 0.6, "it begi"),
        (0.6, 0.9, "it begins he"),
        (0.9, 1.2, "it begins here now"),
    ]
    assert spoken(cues) == "it begins here now"


@pytest.mark.parametrize(
    "cues",
    [
        [(0.0, 2.0, LINES[0]), (9.0, 11.0, LINES[0])],
        [(0.0, 2.0, LINES[0]), (2.0, 4.0, LINES[0]), (4.0, 6.0, LINES[1]), (6.0, 8.0, LINES[2]), (8.0, 9.0, LINES[3])],
        [(0.0, 1.0, "- No."), (1.0, 3.0, "- No.\n- I know."), (3.0, 5.0, "Oh."), (5.0, 7.0, "Yes."), (7.0, 9.0, "So.")],
        [(2.0 * at, 2.0 * at + 2, LINES[line]) for at, line in enumerate([0, 1, 2, 0, 1, 3, 0, 1])],
    ],
)  # fmt: skip
def test_what_is_said_twice_stays(cues: Cues) -> None:
    assert spoken(cues) == " ".join(
        word for _, _, text in cues for word in text.split() if word != "-"
    )


def test_a_chorus_in_captions_that_roll_is_spoken_again() -> None:
    order = [0, 1, 1, 2, 0, 1]
    cues = [
        (
            1.5 * at,
            1.5 * at + 1.5,
            "\n".join(LINES[line] for line in order[max(at - 1, 0) : at + 1]),
        )
        for at in range(len(order))
    ]
    assert spoken(cues) == " ".join(LINES[line] for line in order)


def test_the_recording_decides_on_a_tale_that_grows() -> None:
    cues = [
        (0.0, 1.5, LINES[0]),
        (1.5, 4.5, "\n".join(LINES[:2])),
        (4.5, 9.0, "\n".join(LINES[:3])),
    ]
    again = [*LINES[0].split(), *" ".join(LINES[:2]).split()]
    assert [word for word in spoken(cues).split() if word[0] == "("] == [
        f"({word})" for word in again
    ]


@pytest.mark.data
def test_each_copy_gets_its_time_from_the_recording(english: Aligner, speech_data: Path) -> None:
    lines = (speech_data / "english" / "manifest.jsonl").read_text("utf-8").splitlines()
    row = max(map(json.loads, lines[:40]), key=lambda row: row["duration_s"])
    audio = str(speech_data / "english" / row["audio"])
    words = [word for word in english.align(audio, row["text"]).words if word.start_s is not None]
    groups = [words[at : at + 4] for at in range(0, len(words), 4)]
    texts = [" ".join(word.text for word in group) for group in groups]
    cues: Cues = []
    for index, group in enumerate(groups):
        start_s, end_s = group[0].start_s or 0.0, group[-1].end_s or 0.0
        cues += [
            (start_s, end_s - 0.01, "\n".join(texts[max(index - 1, 0) : index + 1])),
            (end_s - 0.01, end_s, texts[index]),
        ]
    late = [(start_s + 2.5, end_s + 2.5, text) for start_s, end_s, text in cues]
    alignment = english.align(audio, parse_subtitles(srt(late), "late.srt"))
    assert (alignment.fit, [word.text for word in alignment.words if not word.kind]) == (
        "good",
        [w.text for w in words],
    )
    for (start_ms, end_ms), (start_s, end_s, _) in zip(
        shown_times(alignment, 0.0, 0.0), cues, strict=True
    ):
        assert (start_ms / 1000, end_ms / 1000) == pytest.approx((start_s, end_s), abs=0.05)
    new = rendered(replace(alignment, config={**alignment.config, "cues": "again"}), "srt").decode()
    assert parse_subtitles(new, "new.srt").text.split() == [word.text for word in words]


@pytest.mark.data
def test_the_recording_says_whether_a_line_is_spoken_again(
    english: Aligner, speech_data: Path
) -> None:
    rows = map(
        json.loads, (speech_data / "english" / "manifest.jsonl").read_text("utf-8").splitlines()
    )
    first, second = [row for row in rows if row["duration_s"] < 5][:2]
    one, other = (
        soundfile.read(speech_data / "english" / row["audio"], dtype="float32")[0]
        for row in (first, second)
    )
    cues = [(0.0, 10.0, first["text"]), (10.0, 20.0, f"{first['text']}\n{second['text']}")]
    transcript, count = parse_subtitles(srt(cues), "tale.srt"), len(first["text"].split())
    twice = english.align((np.concatenate((one, one, other)), 16000), transcript)
    assert {word.status for word in twice.words} == {"aligned"}
    once = english.align((np.concatenate((one, other)), 16000), transcript)
    assert [word.kind for word in once.words[count : 2 * count]] == [REPEAT] * count
    assert {word.status for word in (*once.words[:count], *once.words[2 * count :])} == {"aligned"}
