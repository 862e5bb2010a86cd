"""Subtitles in, the same subtitles out: as many cues, their text and order, with the times of their
words."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sample_alignments import aligned, make_alignment, swapped_alignments
from spoken_documents import timed
from subtitle_checks import read_srt, read_vtt

from ctc_align.errors import TranscriptError
from ctc_align.files import Style, from_dict, rendered
from ctc_align.files.source_cues import cues_without_times
from ctc_align.files.transcripts import parse_transcript
from ctc_align.types import ALIGNED, REPEAT, SKIPPED, UNSPOKEN, AlignedWord, Alignment

SRT = (Path(__file__).parent / "film.srt").read_text("utf-8")


SAID = {
    "Call": (1.0, 1.2),
    "me": (1.2, 1.3),
    "Ishmael": (1.3, 1.9),
    "Rock": (7.0, 7.2),
    "roll": (7.4, 7.6),
}
SAID["jazz"] = (7.7, 8.0)


def shown(file: bytes) -> list[tuple[float, float, str]]:
    transcript = parse_transcript(file, "film")
    return [
        (cue.start_s, cue.end_s, transcript.text[cue.char_start : cue.char_end])
        for cue in transcript.subtitles.cues
    ]


def test_the_same_cues_come_back_with_the_times_of_their_words() -> None:
    alignment = timed(SRT, SAID)
    written = rendered(alignment, "srt").decode()
    assert shown(written.encode()) == [
        (1.0, 1.9, "<i>Call me\nIshmael.</i>"),
        (2.875, 4.375, "[MUSIC]"),  # moved as its neighbours: by 9 s and by 11
        (4.75, 6.75, ""),
        (7.0, 8.0, "Rock & roll < jazz"),
    ]
    assert written.startswith("1\n00:00:01,000 --> 00:00:01,900\n<i>Call me\nIshmael.</i>\n\n2\n")
    assert " X1:10 Y1:20\n" in written
    assert cues_without_times(alignment) == {2: False}


def test_the_times_of_cues_without_words() -> None:
    file = "1\n00:00:01,000 --> 00:00:02,000\n[door]\n\n2\n00:00:03,000 --> 00:00:04,000\nHello\n\n"
    assert shown(rendered(timed(file, {"Hello": (3.1, 3.6)}), "srt"))[0][:2] == (1.1, 2.1)
    assert shown(rendered(timed(file, {}), "srt"))[0][:2] == (1.0, 2.0)
    file = "".join(
        f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{text}\n\n"
        for n, text in enumerate(["Call me", "[door]", "Rock"], 1)
    )
    times = {"Call": (1.0, 1.5), "me": (1.5, 1.8), "Rock": (1.8, 2.5)}
    assert [row[:2] for row in shown(rendered(timed(file, times), "srt"))] == [
        (1.0, 1.76),
        (1.76, 1.8),
        (1.8, 2.5),
    ]
    rows = shown(rendered(timed(file, {"Call": (0.0, 0.5), "me": (0.5, 1.0)}, 1.0), "srt"))
    assert [row[:2] for row in rows] == [(0.0, 0.96), (0.96, 0.98), (0.98, 1.0)]


def test_cues_without_words_are_shown_with_the_one_that_the_file_shows_them_with() -> None:
    texts = ["...", "Hello", "[applause]", "So", "..."]
    starts = [1, 1, 1, 3, 5]
    file = "".join(
        f"{n}\n00:00:0{at},000 --> 00:00:0{at},900\n{text}\n\n"
        for n, (at, text) in enumerate(zip(starts, texts), 1)
    )
    found = shown(rendered(timed(file, {"Hello": (3.1, 3.6), "So": (3.8, 4.2)}), "srt"))
    assert [row[:2] for row in found] == [*[(3.1, 3.6)] * 3, (3.8, 4.2), (5.8, 6.7)]
    same = file
    for at in (3, 5):
        same = same.replace(f"00:00:0{at},", "00:00:01,")
    found = shown(rendered(timed(same, {"Hello": (3.1, 3.6), "So": (3.8, 4.2)}), "srt"))
    assert found[2][0] == 3.6  # the time of all cues says nothing


VTT = (Path(__file__).parent / "film.vtt").read_text("utf-8")


def test_vtt_comes_back_with_header_notes_settings_and_inner_times() -> None:
    times = {
        "Rock": (1.1, 1.3),
        "roll": (1.5, 1.75),
        "so": (2.0, 2.25),
        "be": (2.5, 2.6),
        "it": (2.7, 3.0),
    }
    alignment = timed(VTT, times)
    expected = VTT.replace("00:01.000 --> 00:02.500", "00:00:01.100 --> 00:00:01.750")
    expected = expected.replace("01:00:03.000 --> 01:00:04.000", "00:00:02.000 --> 00:00:03.000")
    assert [(cue.start_s, cue.end_s) for cue in alignment.subtitles.cues] == [
        (1.0, 2.5),
        (3603.0, 3604.0),
    ]
    written = rendered(alignment, "vtt").decode()
    assert written == expected.replace("<01:00:03.500>", "<00:00:02.500>")
    assert shown(rendered(alignment, "srt")) == [
        (1.1, 1.75, "Rock & <i>roll</i>"),
        (2.0, 3.0, "so be it"),
    ]


def test_srt_as_vtt_and_the_numbers_of_cues() -> None:
    file = (
        "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}<font color=red>Rock</font> & <b>roll</b>\n\n\n"
    )
    written = rendered(timed(file, {"Rock": (1.0, 1.5), "roll": (1.5, 2.0)}), "vtt").decode()
    assert written == "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nRock &amp; <b>roll</b>\n"
    file = "57\n00:00:01,000 --> 00:00:02,000\na\n\n{}\n00:00:03,000 --> 00:00:04,000\nb\n"
    for second, numbers in (("60", ["57", "60"]), ("57", ["1", "2"]), ("", ["1", "2"])):
        written = rendered(timed(file.format(second), {}), "srt").decode()
        assert re.findall(r"^(\d+)$", written, re.MULTILINE) == numbers


def test_new_cues_the_recordings_times_and_frames_on_demand() -> None:
    alignment = timed(SRT, SAID, config={"cues": "again"})
    assert b"X1:10" not in rendered(alignment, "srt")
    alignment = timed(SRT, SAID, offset_s=100.0, config={"times": "recording"})
    assert rendered(alignment, "srt").startswith(b"1\n00:01:41,000 --> 00:01:41,900\n")
    rows = shown(rendered(timed(SRT, SAID), "srt", Style(frame_rate=25.0)))
    assert [(row[0], row[1]) for row in rows] == [
        (1.0, 1.92),
        (2.88, 4.36),
        (4.76, 6.76),
        (7.0, 8.0),
    ]
    assert [row[2] for row in rows] == [row[2] for row in shown(rendered(timed(SRT, SAID), "srt"))]


LINES = [
    *[
        "Hello there",
        "2",
        "3",
        "",
        " ",
        "so<c> be</c> it",
        "<i>{\\an8}</i>",
        "<c></c>",
        "R&amp;B",
        "a < b",
    ],
    "it's &lt;b&gt;",
    *[
        "00:00:01,000 -- 00:00:02,000",
        "00:00:01.000 - 00:00:02.000",
        "00:00:01.000 --&gt; 00:00:02.000",
    ],
    *[
        "<c>00:00:01.000 --&gt;</c> 00:00:02.000",
        "{\\an8}0:01 → 0:02",
        "0:01 - 0:02",
        "here --> there",
    ],
    *[
        "NOTE no note",
        "WEBVTT",
        "[MUSIC]",
        "intro",
        "--&gt; 5",
        "00:00:01.000 00:00:02.000",
        "<v Mary>Yes",
    ],
]
ARROWS = ["-->"] * 9 + ["->", "→", "--", "-", "--&gt;"]


def random_file(random: Random) -> tuple[str, str]:
    """Return "srt" or "vtt" and a file of a few cues of lines that may be taken for what they are
    not."""
    format, gap = random.choice(["srt", "vtt"]), random.choice(["\n", "\n", "\n\n"])
    numbered, exact = random.choice([True, True, False]), random.choice([True, False])
    file = "WEBVTT\n\n" if format == "vtt" and random.random() < 0.8 else ""
    for number in range(1, random.randint(2, 6)):
        arrow = "-->" if exact or number == 1 else random.choice(ARROWS)
        lines = [random.choice(LINES) for _ in range(random.randint(0, 3))]
        name = [str(number) if random.random() < 0.9 else random.choice(LINES)] if numbered else []
        lines = [
            *name,
            f"00:00:{2 * number:02d}.000 {arrow} 00:00:{2 * number + 1:02d}.500",
            *lines,
        ]
        file += gap.join(lines) + gap + "\n" * random.choice([0, 1, 1, 1])
    return format, file


def read_again(format: str, file: bytes) -> list[tuple[float, float, str]]:
    transcript = parse_transcript(file, f"film.{format}")
    cues = transcript.subtitles.cues
    texts = [transcript.text[cue.char_start : cue.char_end] for cue in cues]
    return [
        (cue.start_s, cue.end_s, re.sub(r"\n\s*(?=\n)", "", text)) for cue, text in zip(cues, texts)
    ]


def bare(text: str) -> list[str]:
    """Return the lines of a text without arrows, tags and text that looks like one (‹b›): the
    formats differ there."""
    text = re.sub(r"[<‹](?!\s)[^<>‹›]*[>›]|\{[^}]*\}", "", re.sub("-+ ?>|→", "", text))
    return [line.strip() for line in text.split("\n") if line.strip()]


def round_trip(random: Random) -> bool:
    """Check that one file comes back; return whether it could be read at all."""
    format, file = random_file(random)
    try:
        transcript = parse_transcript(file.encode(), f"film.{format}")
    except TranscriptError:
        return False
    format = transcript.subtitles.format
    words, at_s = [], 0.0
    for match in re.finditer(r"\w+", transcript.text):
        start_s, at_s = at_s, at_s + random.choice([0.02, 0.2, 0.5])
        timed = random.random() < 0.6
        words.append(
            AlignedWord(
                match[0],
                "a",
                *match.span(),
                *((ALIGNED, start_s, at_s, 0.9) if timed else ("unspoken",)),
            )
        )
        at_s += random.choice([0.0, 0.0, 0.7])
    duration_s = at_s + random.choice([0.02, 1.0])
    data = Alignment(
        "film", "film.mp4", duration_s, "m", "cpu", 0.01, 1.0, -1.0, transcript.text, tuple(words)
    )
    data = replace(data, subtitles=transcript.subtitles)
    before = read_again(format, file.encode())
    for other in ("srt", "vtt"):
        written = rendered(data, other)
        after = read_again(other, written)
        seen = f"{format} to {other}:\n{file}\n=====\n{written.decode()}"
        if other == format:
            assert [row[2] for row in after] == [row[2] for row in before], seen
        assert [bare(row[2]) for row in after] == [bare(row[2]) for row in before], seen
        assert all(start_s < end_s for start_s, end_s, _ in after), seen
        assert all(end_s <= start_s for (_, end_s, _), (start_s, _, _) in pairwise(after)), seen
        assert not after or after[-1][1] <= data.duration_s + 5e-4, seen
    return True


def test_cues_come_back_whatever_their_text_looks_like() -> None:
    random = Random(1)
    assert sum(round_trip(random) for _ in range(400)) > 200


def test_segments_of_other_files_become_cues_with_their_speakers() -> None:
    segments = [
        {"text": "Call me <i> & \nIshmael.", "start": 1, "end": 2, "speaker": "A & B"},
        {"text": "Some --> years", "start": 3, "end": 4},
    ]
    alignment = timed(json.dumps({"segments": segments}), {"Call": (1.0, 1.5), "Some": (2.0, 2.5)})
    assert (
        rendered(alignment, "vtt").decode()
        == "WEBVTT\n\n00:00:01.000 --> 00:00:01.500\n<v A &amp; B>Call me &lt;i&gt; &amp;"
        " \nIshmael.\n\n00:00:02.000 --> 00:00:02.500\nSome --&gt; years\n"
    )
    assert (
        rendered(alignment, "srt").decode()
        == "1\n00:00:01,000 --> 00:00:01,500\nCall me ‹i› & \nIshmael.\n\n"
        "2\n00:00:02,000 --> 00:00:02,500\nSome --> years\n\n"
    )
    assert from_dict(alignment.to_dict()).subtitles == alignment.subtitles


# Words whose times go back in the text, as where passages were swapped: every format stays what its
# readers expect.


@given(swapped_alignments())
def test_subtitles_ascend_in_time_and_json_keeps_the_order_of_the_text(alignment):
    for shown in (
        read_srt(rendered(alignment, "srt").decode()),
        read_vtt(rendered(alignment, "vtt").decode()),
    ):
        assert all(a.end_ms <= b.start_ms and a.start_ms < a.end_ms for a, b in pairwise(shown))
    assert [word.text for word in from_dict(alignment.to_dict()).words] == [
        word.text for word in alignment.words
    ]


def test_new_subtitles_follow_the_recording_and_leave_out_what_is_not_in_it():
    text = "MARY: It rained. [door] Never said. — Was it? ANN: We went home."
    times = {"It": 5.0, "rained.": 5.4, "Was": None, "We": 1.0, "went": 1.3, "home.": 1.6}
    words, place = [], 0
    for written in text.split():
        place = text.index(written, place)
        place_of = (place, place + len(written))
        place += len(written)
        if times.get(written) is not None:
            words.append(aligned(written, times[written], times[written] + 0.3, place_of[0]))
        elif written in ("MARY:", "ANN:", "[door]", "—"):
            kind = "speaker" if written.endswith(":") else ""
            words.append(AlignedWord(written, "", *place_of, UNSPOKEN, kind=kind))
        else:
            words.append(AlignedWord(written, written.lower(), *place_of, SKIPPED))
    shown = read_srt(rendered(make_alignment(tuple(words), 8.0, text=text), "srt").decode())
    assert [" ".join(cue.lines) for cue in shown] == ["We went home.", "It rained. [door]"]
    nothing = tuple(
        AlignedWord(word.text, "x", word.char_start, word.char_end, SKIPPED) for word in words
    )
    assert rendered(make_alignment(nothing, 8.0, text=text), "srt") == b""


ADVERT = "\n".join(
    f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{text}\n"
    for n, text in enumerate(["Call me", "Buy now", "Rock"], 1)
)


@pytest.mark.parametrize(
    ("format", "style", "kept"),
    [
        ("srt", {}, "00:00:02,000 --> 00:00:02,900\nBuy now\n"),
        ("vtt", {}, "00:00:02.000 --> 00:00:02.900\nBuy now\n"),
        ("srt", {"highlight_words": True}, "00:00:02,000 --> 00:00:02,900\nBuy now\n"),
        (
            "srt",
            {"highlight_words": True, "frame_rate": 10.0},
            "02,000 --> 00:00:02,900\nBuy now\n",
        ),
        ("vtt", {"highlight_words": True}, "00:00:02.000 --> 00:00:02.900\nBuy now\n"),
        ("ass", {}, "0:00:02.00,0:00:02.90,Default,,0,0,0,,"),
        ("lrc", {}, "[00:02.00]Buy now\n"),
    ],
)
def test_a_cue_whose_words_are_missing_keeps_its_old_times(format, style, kept) -> None:
    """An advertisement, though its neighbours now lie 0.1 s apart, over its old times."""
    said = timed(ADVERT, {"Call": (1.5, 2.0), "me": (2.0, 2.5), "Rock": (2.6, 3.6)})
    words = [
        replace(word, status=SKIPPED) if word.text in ("Buy", "now") else word
        for word in said.words
    ]
    alignment = replace(said, words=tuple(words))
    written = rendered(alignment, format, Style(**style)).decode()
    assert kept in written
    assert re.search("02[.,]60", written), "the cue of Rock lies where it is spoken"
    again = rendered(alignment, format, Style(cues="again", **style)).decode()
    assert "Buy" not in again


def test_a_copy_of_a_missing_line_keeps_its_old_times_unless_it_has_other_words() -> None:
    file = ADVERT.replace("Rock", "Buy now\nRock") + "\n4\n00:00:04,000 --> 00:00:05,000\nRock\n"
    said = timed(file, {"Call": (1.5, 2.0), "me": (2.0, 2.5)})
    for rock, start_s in (((2.6, 3.6), 2.6), (None, 3.0)):
        words = []
        for word in said.words:
            cue = bisect_right([c.char_start for c in said.subtitles.cues], word.char_start)
            if word.text == "Rock" and cue == 3 and rock:
                times = {"start_s": rock[0], "end_s": rock[1], "confidence": 0.9}
                words.append(replace(word, status=ALIGNED, **times))
            elif cue == 2 or (word.text == "Rock" and cue == 3):
                words.append(replace(word, status=SKIPPED))
            elif cue > 2:
                words.append(replace(word, kind=REPEAT))
            else:
                words.append(word)
        rows = shown(rendered(replace(said, words=tuple(words)), "srt"))
        assert rows[2][0] == start_s
        assert rows[1][:2] == (2.0, 2.9)


CUES = [["a", "b"], ["♪"], ["c"], ["d", "e"], ["…"], ["f"]]


@given(st.permutations(range(6)), st.integers(0, 63), st.sampled_from([0.0, 0.5]))
@example([3, 1, 4, 5, 2, 0], 3, 0.0)  # words that touch overlap by a rounding
def test_cues_keep_their_order_and_have_the_times_of_their_words(order, missing, pause_s):
    """Whatever the order of the words in time, and whichever of them are missing: cue by cue, none
    over another, except for those whose words are missing, which keep their old times."""
    lines = [
        f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{' '.join(cue)}\n"
        for n, cue in enumerate(CUES, 1)
    ]
    transcript = parse_transcript("\n".join(lines).encode(), "a.srt")
    letters = [letter for letter in "abcdef" if not missing >> "abcdef".index(letter) & 1]
    spoken = [letter for letter in ("abcdef"[at] for at in order) if letter in letters]
    words = []
    for letter in "abcdef":
        place = transcript.text.index(letter)
        start_s = 0.5 + spoken.index(letter) * (0.3 + pause_s) if letter in spoken else None
        status = "aligned" if letter in spoken else SKIPPED
        times = () if start_s is None else (start_s, start_s + 0.3, 0.9)
        words.append(AlignedWord(letter, letter, place, place + 1, status, *times))
    duration_s = 0.5 + len(spoken) * (0.3 + pause_s)
    alignment = make_alignment(
        tuple(words), duration_s, text=transcript.text, subtitles=transcript.subtitles
    )
    for format in ("srt", "vtt"):
        back = parse_transcript(rendered(alignment, format), f"a.{format}")
        cues = back.subtitles.cues
        assert back.text == transcript.text
        is_missing = [
            not {*cue}.isdisjoint("abcdef") and {*cue}.isdisjoint(letters) for cue in CUES
        ]
        olds = [cue for cue, is_old in zip(transcript.subtitles.cues, is_missing) if is_old]
        kept = [cue for cue, is_old in zip(cues, is_missing) if is_old]
        assert [(cue.start_s, cue.end_s) for cue in kept] == [(c.start_s, c.end_s) for c in olds]
        others = (cue for cue, is_old in zip(cues, is_missing) if not is_old)
        by_time = sorted(others, key=lambda cue: cue.start_s)
        assert all(a.start_s < a.end_s <= b.start_s for a, b in pairwise(by_time))
        assert by_time[-1].end_s <= duration_s + 1e-9
        for cue, said in zip(cues, CUES):
            starts = [
                word.start_s for word in words if word.text in said and word.start_s is not None
            ]
            assert not starts or any(
                cue.start_s == pytest.approx(start_s, abs=5e-3) for start_s in starts
            )
