from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
from io import StringIO

import pylrc
import pysubs2
import pytest
import srt as srt_package
import webvtt
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import over_rows
from sample_alignments import aligned, conversation, make_alignment, random_alignments
from spoken_documents import timed
from subtitle_checks import Shown, faults, read_srt, read_vtt, width

from ctc_align.errors import OutputError
from ctc_align.files import OutputFiles, Style, rendered
from ctc_align.files.cues import broken_limits, fast_cues, new_cues
from ctc_align.files.transcripts import parse_transcript
from ctc_align.text import split
from ctc_align.text.cue_styles import with_style
from ctc_align.types import ALIGNED, UNKNOWN, AlignedWord, Alignment, aligned_words

STORY = """We, the people of this town, have gathered here today because Dr. Brown asked us to. "Is it true?" said the
old man who lived near the river. It was not! Nobody, however, had ever thought of asking him what he knew about the
strange events that took place in the summer of 1923, when the mill burned down and three families left. Yes. Perhaps
we shall never find out; but one thing is certain: it mattered."""
JAPANESE = (
    "今日は天気がいいですね。散歩に行きましょう、そして公園で昼ごはんを食べてから家に帰ります。"
)
LONG_WORD = "https://example.org/a/path/that/does/not/fit/into/a/line/" + "x" * 50


def said(
    text: str, letter_s: float = 0.06, untimed: float = 0.0, seed: int = 0, tail_s: float = 1.0
) -> Alignment:
    """Every word as long as its letters, pauses after punctuation; a share of the words has no
    times."""
    chance, at_s, words = random.Random(seed), 0.3, []
    for word in split(text).words:
        if chance.random() < untimed:
            words.append(
                AlignedWord(word.text, word.spoken, word.char_start, word.char_end, UNKNOWN)
            )
            continue
        end_s = at_s + letter_s * max(2, len(word.text))
        words.append(aligned(word.text, at_s, end_s, word.char_start))
        at_s = end_s + (
            0.5 + chance.random()
            if word.text[-1] in ".!?"
            else 0.2
            if word.text[-1] in ",;:"
            else 0.0
        )
    return make_alignment(tuple(words), at_s + tail_s, text=text)


def srt(alignment: Alignment, style: Style | None = None) -> list[Shown]:
    return read_srt(rendered(alignment, "srt", style).decode())


def vtt(alignment: Alignment) -> list[Shown]:
    return read_vtt(rendered(alignment, "vtt").decode())


CASES = {
    "read slowly": said(STORY),
    "read fast": said(STORY, letter_s=0.03),
    "a third without times": said(STORY, untimed=0.35),
    "none with times": said(STORY, untimed=1.1, tail_s=60.0),
    "none with times, no room": said(STORY, untimed=1.1),
    "spaceless": said(JAPANESE, letter_s=0.1),
    "a word longer than two lines": said(f"See {LONG_WORD} for more."),
    "shouted": said("Stop! Go! Stop! Go! Now.", letter_s=0.03),
    "one word": said("Yes."),
    "marks": said('a <- b & --> c &d </> "WEBVTT" NOTE 1 --> 2.'),
    "lines and tabs": said("One line\nand\tanother\n\n  A paragraph."),
    "hours": dataclasses.replace(
        make_alignment((aligned("Late.", 36000.0, 36000.4),), 36001.0, text="Late."), offset_s=3.0
    ),
    "a word of ten seconds": make_alignment(
        (aligned("Aaah", 0.5, 10.5), aligned("no", 10.5, 11.0, 5)), 12.0
    ),
    "an hour of silence": make_alignment(
        (aligned("Is", 0.5, 0.7), aligned("it?", 3600.0, 3600.4, 3)), 3601.0
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_subtitles_keep_every_rule(name):
    alignment = CASES[name]
    assert faults(srt(alignment), alignment) == []
    assert vtt(alignment) == srt(alignment)


@given(random_alignments())
def test_any_alignment(alignment):
    text = rendered(alignment, "srt", Style(times="recording")).decode()
    found = faults(read_srt(text), alignment, alignment.offset_s)
    # words of a millisecond, many to a subtitle's smallest time, may end up a little beyond the
    # recording
    assert [fault for fault in found if "beyond" not in fault or alignment.duration_s > 0.5] == []


@given(st.integers(0, 9), st.sampled_from([0.0, 0.2, 0.7]), st.sampled_from([0.02, 0.05, 0.09]))
def test_speech_of_any_speed_with_any_words_missing(seed, untimed, letter_s):
    alignment = said(STORY, letter_s, untimed, seed)
    assert faults(srt(alignment), alignment) == []


def test_subtitles_break_where_sense_breaks():
    shown = [" / ".join(cue.lines) for cue in srt(said(STORY))]
    assert (
        shown[0]
        == "We, the people of this town, have gathered / here today because Dr. Brown asked us to."
    )
    ends = [line.rstrip("\"'")[-1] for line in shown]
    assert sum(end in ".!?;:," for end in ends) >= len(ends) - 2, shown
    alignment = said("He went home. She stayed there until the evening came, and then she left.")
    assert len(srt(alignment)) <= 2
    assert all(" ".join(cue.lines)[-1] == "." for cue in srt(alignment))


def test_how_long_subtitles_are_shown():
    (cue,) = srt(make_alignment((aligned("Extraordinarily!", 1.0, 1.3),), 10.0))
    assert (cue.start_ms, cue.end_ms) == (1000, 1942), "16 columns at 17 a second"
    (cue,) = srt(make_alignment((aligned("Extraordinarily!", 1.0, 1.3),), 1.4))
    assert cue.end_ms == 1400, "not beyond the recording"
    assert cue.start_ms == 600, "a little before the word where nothing else is possible"
    first, second = srt(
        make_alignment((aligned("One", 0.0, 0.5), aligned("two.", 9.0, 9.5, 4)), 10.0)
    )
    assert first.end_ms <= 1000
    assert second.start_ms == 9000
    assert rendered(make_alignment(()), "srt") == b""
    assert rendered(make_alignment(()), "vtt") == b"WEBVTT\n"


def test_the_checker_and_the_parsers_are_seen_to_fail():
    alignment = said("We are here. You are there.")
    good = srt(alignment)
    assert faults(good, alignment) == []
    first = good[0]

    def broken(*cues: Shown) -> str:
        return "; ".join(faults(list(cues), alignment))

    change = dataclasses.replace
    assert "text lost" in broken(*good[1:])
    assert "text lost" in broken(change(first, lines=("We are heré.",)), *good[1:])
    assert "empty" in broken(change(first, end_ms=first.start_ms), *good[1:])
    assert "too long" in broken(change(first, end_ms=first.start_ms + 7001))
    assert "overlap" in broken(first, change(first, start_ms=first.end_ms - 1))
    assert "lines" in broken(change(first, lines=("We", "are", "here.")), *good[1:])
    assert "wide" in broken(change(first, lines=("We are here. " * 5,)))
    assert "white space" in broken(change(first, lines=("We are ", "here.")), *good[1:])
    assert "split" in broken(change(first, lines=("We a", "re here. You are there.")))
    assert "not said" in broken(change(first, end_ms=first.start_ms + 100), *good[1:])
    assert "too early" in broken(*good[:-1], change(good[-1], end_ms=good[-1].start_ms + 400))
    assert "beyond" in broken(*good[:-1], change(good[-1], end_ms=6999))
    for text in (
        "2\n00:00:00,000 --> 00:00:01,000\nA\n\n",
        "1\n00:00:00.000 --> 00:00:01.000\nA\n\n",
    ):
        with pytest.raises(AssertionError):
            read_srt(text)
    for text in (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nA <b\n",
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nA & b\n",
    ):
        with pytest.raises(AssertionError):
            read_vtt(text)


def test_words_without_times_and_markup():
    text = "We got Ørsted8 there. Then nothing."
    words = split(text).words
    times = [(0.5, 0.7), (0.7, 1.0), None, (1.0, 1.4), (4.0, 4.3), (4.3, 4.8)]
    alignment = make_alignment(
        tuple(
            (
                aligned(word.text, *span, word.char_start)
                if span
                else AlignedWord(word.text, "", word.char_start, word.char_end, UNKNOWN)
            )
            for word, span in zip(words, times)
        ),
        6.0,
        text=text,
    )
    assert [cue.lines for cue in srt(alignment)] == [("We got Ørsted8 there.",), ("Then nothing.",)]
    assert sum(word.status == ALIGNED for word in alignment.words) == 5
    text = "# See [it](http://a.b). It <b>is</b> R&amp;D un<b>believ</b>able"
    words = tuple(
        AlignedWord(
            word.text, word.spoken, word.char_start, word.char_end, "unspoken", kind=word.kind
        )
        for word in split(text).words
    )
    shown = srt(make_alignment(words, 9.0, text=text))
    assert " ".join(line for cue in shown for line in cue.lines) == "See it. It is R&D unbelievable"


def test_lines_and_reading_speed_as_they_are_wanted():
    alignment = said(STORY, tail_s=9.0)
    narrow = srt(alignment, Style(max_line=20))
    assert max(width(line) for cue in narrow for line in cue.lines) <= 20
    assert max(width(line) for cue in srt(alignment, Style(max_line=80)) for line in cue.lines) > 42
    text = "Extraordinarily extraordinary!"
    (cue,) = srt(make_alignment((aligned(text, 1.0, 1.3),), 10.0, text=text), Style(max_cps=10.0))
    assert cue.end_ms - cue.start_ms == 3000, "30 columns at 10 a second"
    fast = make_alignment((aligned(text, 0.5, 1.0),), 2.0, text=text)
    assert (
        fast_cues(fast, Style(max_cps=10.0))
        == fast_cues(fast, Style(), ["srt"])
        == [(1, 0.5, 2.0, 20.0)]
    )
    assert fast_cues(fast, Style(), ["json"]) == fast_cues(fast, Style(max_cps=20.0)) == []


def gaps_ms(shown: list[Shown]) -> list[int]:
    return [after.start_ms - cue.end_ms for cue, after in itertools.pairwise(shown)]


@pytest.mark.parametrize(
    ("style", "least_ms"),
    [
        ({}, 80),
        ({"min_gap_s": 0.15}, 150),
        ({"min_gap_s": 0.1, "frame_rate": 25.0}, 120),
        (with_style({"style": "netflix"}, 23.976) | {"frame_rate": 23.976}, 2 * 1001 / 24 - 1),
    ],
)
def test_new_cues_keep_the_gap_also_where_nobody_pauses(style, least_ms):
    alignment = said(STORY.replace(".", "").replace(",", ""), tail_s=0.0)
    assert 0 in gaps_ms(srt(alignment, Style(min_gap_s=0.0)))
    shown = srt(alignment, Style(**style))
    assert len(shown) > 3
    assert min(gaps_ms(shown)) >= least_ms


def test_limits_of_new_cues():
    text = "Go. Stop, and wait for me here."
    words = [aligned(word, at, at + 0.2, text.index(word)) for at, word in enumerate(text.split())]
    alignment = make_alignment(tuple(words), 9.0, text=text)
    first = srt(alignment, Style(min_duration_s=0.95))[0]
    assert (first.start_ms, first.end_ms) == (0, 920), "80 ms before the next"
    long = srt(alignment, Style(max_duration_s=2.0))
    assert max(cue.end_ms - cue.start_ms for cue in long) <= 2000
    assert len(long) > len(srt(alignment))
    closed = srt(alignment, Style(min_duration_s=0.5, close_gaps_s=0.9, max_duration_s=2.0))
    assert gaps_ms(closed) == [80] * (len(closed) - 1), "pauses of 0.8 s"


def test_cues_beyond_limits_that_are_given_are_counted():
    alignment = said(STORY)
    assert broken_limits(alignment, Style()) == {}, "the defaults are no style guide"
    kept = timed(
        f"1\n00:00:01,000 --> 00:00:02,000\n{'So ' * 15}\n\n2\n00:00:02,000 --> 00:00:03,000\nYes",
        {"Yes": (2.0, 2.1)},
    )
    assert broken_limits(kept, Style(**with_style({"style": "bbc"}))) == {
        "wider than 37 columns": [1]
    }
    assert broken_limits(kept, Style(**with_style({"style": "netflix"}))) == {
        "wider than 42 columns": [1],
        "shorter than 0.833 s": [2],
        "less than 0.0833 s before the next": [1],
    }
    assert broken_limits(kept, Style(max_duration_s=0.5)) == {"longer than 0.5 s": [1]}


@pytest.mark.parametrize(
    ("rate", "frame_ms"), [(23.976, 1001 / 24), (25.0, 40.0), (29.97, 1001 / 30), (12.5, 80.0)]
)
def test_cues_begin_and_end_on_frames(rate, frame_ms):
    alignment = dataclasses.replace(said(STORY), offset_s=3600.0)
    for times, shift_s in (("utterance", 0.0), ("recording", 3600.0)):
        exact = srt(alignment, Style(times=times))
        shown = srt(alignment, Style(times=times, frame_rate=rate))
        assert [cue.lines for cue in shown] == [cue.lines for cue in exact]
        for cue, was in zip(shown, exact):
            for ms, was_ms in ((cue.start_ms, was.start_ms), (cue.end_ms, was.end_ms)):
                assert abs(ms - round(ms / frame_ms) * frame_ms) <= 0.5
                assert abs(ms - was_ms) <= 1.5 * frame_ms
            assert cue.end_ms > cue.start_ms
        assert all(a.end_ms <= b.start_ms for a, b in itertools.pairwise(shown))
        assert shown[-1].end_ms <= (alignment.duration_s + shift_s) * 1000


TURNS = "ANNA: Hello\n\nMARY ANN: Hi,\n\n[DOOR SLAMS]\n\nANNA: [laughs] Bye."
AGAIN = Style(cues="again")


@pytest.mark.parametrize("style", [AGAIN, Style(cues="again", highlight_words=True)])
@pytest.mark.parametrize("source", ["{}", "WEBVTT\n\n00:01.000 --> 00:02.000\n{}"])
def test_who_speaks_is_a_voice_and_no_subtitle(source, style):
    text = source.format(TURNS)
    if source != "{}":
        text = text.replace("ANNA: ", "<v ANNA>").replace("MARY ANN: ", "<v.loud MARY ANN>")
    alignment = timed(text, {"Hello": 3.0, "Hi,": 3.9, "Bye.": 9.0})
    shown = [
        re.sub(r"<\d[\d:.]*>", "", line)
        for line in rendered(alignment, "vtt", style).decode().split("\n")[3::3]
    ]
    assert shown == ["<v ANNA>Hello", "<v MARY ANN>Hi,", "[DOOR SLAMS]", "<v ANNA>[laughs] Bye."]
    plain = re.sub("</?u>", "", rendered(alignment, "srt", style).decode())
    assert "ANN" not in plain
    names = [
        line.split(",")[4]
        for line in rendered(alignment, "ass", style).decode().split("Dialogue")[1:]
    ]
    assert names == ["ANNA", "MARY ANN", "", "ANNA"]
    assert "ANN" not in rendered(alignment, "lrc", style).decode()


def test_a_voice_ends_with_its_cue():
    cues = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Mary>Hello\n\n00:02.000 --> 00:03.000\nHi,\n"
    alignment = timed(cues, {"Hello": 3.0, "Hi,": 3.9})
    for style in (AGAIN, Style(highlight_words=True)):
        shown = rendered(alignment, "vtt", style).decode().split("\n")[3::3]
        assert shown == ["<v Mary>Hello", "Hi,"]


def test_what_nobody_says_stretches_no_subtitle():
    times = {"Hello": 3.0, "Hi,": 3.9, "Bye.": 9.0}
    spans = [(cue.start_ms, cue.end_ms) for cue in srt(timed(TURNS, times), AGAIN)]
    assert spans == [(3000, 3800), (3900, 4700), (5200, 6000), (9000, 9800)]
    short = srt(timed(TURNS, times | {"Bye.": 4.5}), AGAIN)
    assert [cue.lines for cue in short] == [
        ("Hello",),
        ("Hi, [DOOR SLAMS]",),
        ("[laughs] Bye.",),
    ], "no room"
    opening = srt(
        timed("[MUSIC]\n\nHello – there. [applause] [MORE]", {"Hello": 9.0, "there.": 9.4}), AGAIN
    )
    assert [cue.lines for cue in opening] == [("[MUSIC]",), ("Hello – there. [applause] [MORE]",)]
    assert opening[0].end_ms <= 9000 < opening[0].end_ms + 1100
    paused = srt(
        timed("Hello there. [pause] Bye.", {"Hello": 3.0, "there.": 3.3, "Bye.": 7.0}), AGAIN
    )
    assert [cue.lines for cue in paused] == [("Hello there.",), ("[pause] Bye.",)]
    cues = (
        "1\n00:00:01,000 --> 00:00:02,000\nHello\n\n2\n00:00:04,500 -->"
        " 00:00:05,500\n[DOOR\nSLAMS]\n\n"
    )
    moved = timed(f"{cues}3\n00:00:07,000 --> 00:00:08,000\nBye.\n", {"Hello": 3.0, "Bye.": 9.0})
    assert [cue.start_ms for cue in srt(moved, AGAIN)] == [
        3000,
        6500,
        9000,
    ], "moved as its neighbours are"


# Words with times of their own in SRT, WebVTT, ASS and LRC, read back by srt, webvtt-py, pysubs2
# and pylrc.

SONG = "Twinkle, twinkle, little star,\nhow I wonder what you are!\n\nUp above the world so high"
LIT = Style(highlight_words=True)


def sung(text: str = SONG, shift_s: float = 0.0, **changes: object) -> Alignment:
    """A word every 0.457 s of 0.3 s each, three seconds of silence before a paragraph; "what" is
    not in the song."""
    words, at_s, end = [], 0.5 + shift_s, 0
    for word in split(text).words:
        at_s += 3.0 * text[end : word.char_start].count("\n\n")
        end = word.char_end
        if word.text == "what" or not word.spoken:
            status = "skipped" if word.spoken else "unspoken"
            words.append(
                AlignedWord(
                    word.text, word.spoken, word.char_start, word.char_end, status, kind=word.kind
                )
            )
            continue
        words.append(aligned(word.text, at_s, at_s + 0.3, word.char_start))
        at_s += 0.457
    return make_alignment(tuple(words), at_s + 1.0, text=text, **changes)


def text_of(alignment: Alignment, format: str, style: Style | None = None) -> str:
    return rendered(alignment, format, style).decode()


def starts(alignment: Alignment) -> list[tuple[str, float]]:
    return [(word.text, word.start_s) for word in aligned_words(alignment)]


def ass_words(data: str) -> list[tuple[str, float, float]]:
    r"""Words of karaoke with their times, as pysubs2 reads the lines and `\k` adds up."""
    found = []
    for line in pysubs2.SSAFile.from_string(data):
        at_cs = line.start // 10
        for length, text in re.findall(r"\{\\k(\d+)\}([^{]*)", line.text):
            if text.strip():
                found.append(
                    (text.replace(r"\N", " ").strip(), at_cs / 100, (at_cs + int(length)) / 100)
                )
            at_cs += int(length)
        assert at_cs <= line.end // 10
    return found


def test_karaoke_by_pysubs2():
    alignment = sung(utterance="a song\n[Events]")
    words = tuple(dataclasses.replace(word, speaker="Ann, B.") for word in alignment.words)
    alignment = dataclasses.replace(alignment, words=words)
    subs = pysubs2.SSAFile.from_string(text_of(alignment, "ass"))
    assert subs.info["Title"] == "a song [Events]"
    lines = [
        "Twinkle, twinkle, little star,",
        "how I wonder you are!",
        "Up above the world so high",
    ]
    assert [line.plaintext for line in subs] == lines
    assert {line.name for line in subs} == {"Ann; B."}
    words = ass_words(text_of(alignment, "ass"))
    assert [word[0] for word in words] == [word for word, _ in starts(alignment)]
    for (_, start_s, end_s), word in zip(words, aligned_words(alignment)):
        assert start_s == pytest.approx(word.start_s, abs=0.0051)
        assert end_s == pytest.approx(word.end_s, abs=0.0051)


def of_phones(**changes: object) -> Alignment:
    """Four words of 0.4 s, a second from each other, and phones of the same length."""
    words = (
        aligned("plume", 1.0, 1.4, 0, "plym"),
        aligned("ami", 2.0, 2.4, 6, "ami"),
        aligned("psst", 3.0, 3.4, 10, "pst"),
        dataclasses.replace(aligned("ma", 4.0, 4.4, 15, "ma"), by="hand"),
    )
    return make_alignment(words, 6.0, token_kind="phones", **changes)


@pytest.mark.parametrize(
    ("alignment", "at", "lrc_s", "vtt_s"),
    [
        (of_phones(), "auto", 1.2, 1.0),
        (of_phones(), "sound", 1.0, 1.0),
        (of_phones(), "vowel", 1.2, 1.2),
        (dataclasses.replace(of_phones(), token_kind="tokens"), "vowel", 1.0, 1.0),
    ],
)
def test_highlighted_words_begin_at_vowels_in_karaoke(alignment, at, lrc_s, vtt_s):
    """A word that begins with a vowel, one without vowels and one fixed by hand begin as before."""
    style = Style(highlight_words=True, highlight_at=at)
    others = [2.0, 3.0, 4.0]
    lyrics = text_of(alignment, "lrc", style)
    assert f"\n[00:0{lrc_s:.2f}]" in lyrics
    stamps = re.findall(r"<00:(\d\d\.\d\d)>\w", lyrics)
    assert list(map(float, stamps)) == [lrc_s, *others]
    assert ass_words(text_of(alignment, "ass", style))[:2] == [
        ("plume", lrc_s, 1.4),
        ("ami", 2.0, 2.4),
    ]
    shown = read_srt(text_of(alignment, "srt", style))
    lit = [cue.start_ms / 1000 for cue in shown if "<u>" in cue.lines[0]]
    assert lit == [vtt_s, *others]
    before = json.loads(rendered(alignment, "json"))["words"]
    assert json.loads(rendered(alignment, "json", style))["words"] == before


@pytest.mark.parametrize("format", ["lrc", "ass"])
def test_each_word_of_a_line_that_is_sung_for_long_has_its_time(format):
    words = [aligned("la", at, at + 0.5, 3 * number) for number, at in enumerate((1.0, 6.0, 12.0))]
    shown = text_of(make_alignment(tuple(words), 20.0), format, LIT)
    if format == "ass":
        starts_s = [start_s for _, start_s, _ in ass_words(shown)]
    else:
        starts_s = list(map(float, re.findall(r"<00:(\d\d\.\d\d)>l", shown)))
    assert starts_s == [1.0, 6.0, 12.0]


def test_karaoke_does_not_drift_in_nine_hours():
    words = tuple(
        aligned("la", at + at / 3000, at + at / 3000 + 0.2, 3 * at // 16)
        for at in range(0, 32000, 16)
    )
    found = ass_words(text_of(make_alignment(words, 33000.0), "ass"))
    assert len(found) == len(words)
    assert max(abs(start_s - word.start_s) for (_, start_s, _), word in zip(found, words)) < 0.0051


@over_rows(
    ("word", "shown"),
    [
        (r"a{\pos(1,1)}b", r"a(\pos(1,1))b"),
        (r"a\Nb", "a\\\u2060Nb"),
        (r"\{x}", r"\(x)"),
        ("a,b;c", "a,b;c"),
        (r"c:\dir", r"c:\dir"),
    ],
)
def test_no_text_is_a_command_of_ass(word, shown):
    (line,) = pysubs2.SSAFile.from_string(
        text_of(make_alignment((aligned(word, 0.1, 0.5),)), "ass")
    )
    assert line.plaintext == shown
    assert re.sub(r"\{\\k\d+\}", "", line.text) == shown


def test_what_nobody_says_is_not_lit_and_has_no_time():
    alignment, said = conversation(), [word for word, _ in starts(conversation())]
    lines = ["It is Dr. Brown. Is it? [coughs]", "Yes,", "yes is!", "And so"]
    for source_lines in (True, False):
        cues = new_cues(alignment, Style(), source_lines=source_lines)
        assert all(
            len({piece.speaker for line in cue.pieces for piece in line}) == 1 for cue in cues
        )
    subs = pysubs2.SSAFile.from_string(text_of(alignment, "ass"))
    assert [line.plaintext.replace("\n", " ") for line in subs] == lines
    assert [line.name for line in subs] == ["Ann", "Bob", "Bob", "Bob"]
    karaoke = text_of(alignment, "ass")
    assert karaoke.count(r"{\1c&HFFFFFF&\k0}") == 1
    assert [
        word for word, *_ in ass_words(re.sub(r"\{\\1c&HFFFFFF&\\k0\}[^{]*\{\\1c\}", "", karaoke))
    ] == said
    assert re.findall(r"<u>(.*?)</u>", text_of(alignment, "srt", LIT)) == said
    assert re.findall(r"<[\d:.]+>([^<\s]+)", text_of(alignment, "lrc", LIT)) == said
    assert {*re.findall(r"<[\d:.]+>([^<\s]+)", text_of(alignment, "vtt", LIT))} <= {*said}
    close = make_alignment(
        (
            aligned("Yes,", 0.1, 0.4),
            AlignedWord("BOB:", "", 5, 9, "unspoken", kind="speaker"),
            aligned("no.", 0.4, 0.8, 10),
        ),
        text="Yes, BOB: no.",
    )
    assert ass_words(text_of(close, "ass"))[0] == (
        "Yes,",
        0.1,
        0.4,
    ), "a name takes no time from a word"


def test_lyrics_by_pylrc():
    alignment = dataclasses.replace(sung(), offset_s=60.0)
    lyrics = pylrc.parse(text_of(alignment, "lrc", Style(times="recording")))
    shown = [(line.text, round(line.time, 2)) for line in lyrics]
    words = {word: start_s + 60 for word, start_s in starts(alignment)}
    ends = [round(word.end_s + 60, 2) for word in alignment.words if word.text in ("are!", "high")]
    assert shown == [
        ("Twinkle, twinkle, little star,", words["Twinkle,"]),
        ("how I wonder you are!", pytest.approx(words["how"], abs=0.0051)),
        ("", ends[0]),
        ("Up above the world so high", pytest.approx(words["Up"], abs=0.0051)),
        ("", ends[1]),
    ]
    lyrics = pylrc.parse(text_of(sung(), "lrc", LIT))
    stamps = [
        each for line in lyrics for each in re.findall(r"<(\d+):(\d\d\.\d\d)>([^<]+)", line.text)
    ]
    found = [
        (text.strip(), int(minutes) * 60 + float(seconds)) for minutes, seconds, text in stamps
    ]
    assert [word for word, _ in found] == [word for word, _ in starts(sung())]
    assert [at_s for _, at_s in found] == pytest.approx(
        [at_s for _, at_s in starts(sung())], abs=0.0051
    )
    ends = re.findall(r"<(\d\d:\d\d\.\d\d)>$", text_of(sung(), "lrc", LIT), re.MULTILINE)
    assert len(ends) == 3
    plain = [line.text for line in pylrc.parse(text_of(sung(), "lrc"))]
    assert [re.sub(r"<[\d:.]+>", "", line.text) for line in lyrics] == plain


def test_lyrics_come_back_with_each_time_of_a_line_and_their_tags():
    source = (
        "[ti:A Title]\n[offset:+200]\n[00:00.10][00:02.00]La la\n[00:01:00]So"
        " <00:01:20>be\n[00:03.00]\n"
    )
    transcript = parse_transcript(source.encode(), "a.lrc")
    assert transcript.text == "La la\nSo <00:01:20>be\nLa la"
    assert [(cue.start_s, cue.end_s) for cue in transcript.subtitles.cues] == [
        (0.1, 1.0),
        (1.0, 2.0),
        (2.0, 3.0),
    ]
    spans = [match.span() for match in re.finditer(r"La|la|So|be", transcript.text)]
    words = tuple(
        aligned(transcript.text[first:last], 0.2 + 0.5 * at, 0.6 + 0.5 * at, first)
        for at, (first, last) in enumerate(spans)
    )
    alignment = make_alignment(
        words, duration_s=4.0, text=transcript.text, subtitles=transcript.subtitles
    )
    assert text_of(alignment, "lrc").splitlines() == [
        "[ti:A Title]",
        "[offset:0]",
        "[re:ctc-align]",
        "[00:00.20]La la",
        "[00:01.20]So be",
        "[00:02.20]La la",
        "[00:03.10]",
    ]
    assert (
        parse_transcript(b"[00:01:02] Ann: Hi there\n[00:01:05] Bob: Hi", "a.txt").subtitles is None
    )


@over_rows(
    ("word", "shown"),
    [
        ("[00:01.00]", "(00:01.00)"),
        ("<00:01.00>", "(00:01.00)"),
        ("[ti:x]", "(ti:x)"),
        ("a<b", "a<b"),
    ],
)
def test_no_text_is_a_time_of_lrc(word, shown):
    lyrics = pylrc.parse(text_of(make_alignment((aligned(word, 0.25, 0.5),)), "lrc"))
    assert [(line.text, line.time) for line in lyrics] == [(shown, 0.25), ("", 0.5)]


@pytest.mark.parametrize(
    ("format", "at_s", "says"),
    [
        ("lrc", 6000.0, "LRC holds times up to 99:59.99"),
        ("ass", 36000.0, "ASS holds times up to 9:59:59.99"),
    ],
)
def test_times_that_a_format_cannot_hold_are_refused(tmp_path, format, at_s, says):
    OutputFiles(tmp_path, "a", (format,)).write(
        make_alignment((aligned("x", at_s - 1.0, at_s - 0.02),), at_s - 0.01)
    )
    late = make_alignment((aligned("x", at_s - 1.0, at_s + 0.5),), at_s + 1.0)
    with pytest.raises(OutputError, match=says):
        OutputFiles(tmp_path, "b", ("json", format)).write(late)
    assert [path.name for path in tmp_path.iterdir()] == [f"a.{format}"]


def vtt_words(data: str) -> list[tuple[str, float]]:
    found = []
    for caption in webvtt.from_buffer(StringIO(data)):
        at_s = caption.start_in_seconds + caption.start_time.milliseconds / 1000
        end_s = caption.end_in_seconds + caption.end_time.milliseconds / 1000
        for stamp, text in re.findall(r"(?:<([\d:.]+)>)?([^<]+)", caption.raw_text):
            if stamp:
                hours, minutes, seconds = stamp.split(":")
                said_s = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
                assert at_s < said_s < end_s, "as WebVTT wants it"
                at_s = said_s
            found.append((text.strip(), at_s))
    return found


def test_vtt_has_the_time_of_each_word():
    found = vtt_words(text_of(sung(), "vtt", LIT))
    assert [word for word, _ in found] == [word for word, _ in starts(sung())]
    assert [at_s for _, at_s in found] == pytest.approx(
        [at_s for _, at_s in starts(sung())], abs=0.0011
    )
    plain = webvtt.from_buffer(StringIO(text_of(sung(), "vtt")))
    lit = webvtt.from_buffer(StringIO(text_of(sung(), "vtt", LIT)))
    assert [(each.start, each.end, each.text) for each in lit] == [
        (each.start, each.end, each.text) for each in plain
    ]


def test_srt_shows_one_word_lit_at_a_time():
    alignment = sung()
    cues = list(srt_package.parse(text_of(alignment, "srt", LIT)))
    assert [cue.index for cue in cues] == list(range(1, len(cues) + 1))
    assert all(a.end <= b.start for a, b in itertools.pairwise(cues))
    lit = [(re.findall(r"<u>(.*?)</u>", cue.content), cue) for cue in cues]
    words = [
        (found[0], cue.start.total_seconds(), cue.end.total_seconds())
        for found, cue in lit
        if found
    ]
    expected = [
        (w.text, pytest.approx(w.start_s, abs=0.0011), pytest.approx(w.end_s, abs=0.0011))
        for w in aligned_words(alignment)
    ]
    assert words == expected
    assert sum(not found for found, _ in lit) >= len(words) - 3, (
        "a pause of 0.157 s has no word lit"
    )
    shown = {re.sub("</?u>", "", cue.content) for cue in cues}
    assert shown == {cue.content for cue in srt_package.parse(text_of(alignment, "srt"))}
    marked = make_alignment((aligned("<i", 0.1, 0.4), aligned("x>y", 0.4, 0.8, 3)), text="<i x>y")
    assert {
        re.sub("</?u>", "", c.content) for c in srt_package.parse(text_of(marked, "srt", LIT))
    } == {"‹i x›y"}


def test_cues_of_a_subtitle_file_are_lit_too_and_their_breaks_are_spaces():
    source = (
        "1\n00:00:01,000 --> 00:00:03,000\n<i>Call</i> me\nIshmael.\n\n2\n00:00:04,000 -->"
        " 00:00:05,000\nSome R&D\n\n"
    )
    alignment = timed(
        source, {"Call": 1.1, "me": 1.6, "Ishmael": 2.1, "Some": 2.6, "R&D": 3.1}, 6.0
    )
    assert vtt_words(text_of(alignment, "vtt", LIT))[0] == ("Call", 1.1)
    assert [
        each.raw_text for each in webvtt.from_buffer(StringIO(text_of(alignment, "vtt", LIT)))
    ] == [
        "Call <00:00:01.600>me\n<00:00:02.100>Ishmael.",
        "Some <00:00:03.100>R&amp;D",
    ]
    assert pylrc.parse(text_of(alignment, "lrc"))[0].text == "Call me Ishmael."
    assert r"me\N{\k" in text_of(alignment, "ass")
    source = b"1\n00:00:01,000 --> 00:00:02,000\none\\Ntwo<br>three<i> four</i>\n"
    transcript = parse_transcript(source, "a.srt")
    spans = [(word, transcript.text.index(word)) for word in ("one", "two", "three", "four")]
    words = tuple(
        aligned(word, at / 2, at / 2 + 0.4, place) for at, (word, place) in enumerate(spans)
    )
    alignment = make_alignment(words, 6.0, text=transcript.text, subtitles=transcript.subtitles)
    again = Style(cues="again")
    assert [cue.content for cue in srt_package.parse(text_of(alignment, "srt", again))] == [
        "one two three four"
    ]
    assert pylrc.parse(text_of(alignment, "lrc"))[0].text == "one two three four"
    assert '"one two three four"' in text_of(alignment, "whisper").replace('" ', '"')


@settings(max_examples=25)
@given(random_alignments())
def test_any_alignment_is_read(alignment):
    for style in (LIT, Style(highlight_words=True, frame_rate=25.0, times="recording")):
        cues = list(srt_package.parse(text_of(alignment, "srt", style)))
        assert all(a.end <= b.start for a, b in itertools.pairwise(cues))
        assert all(cue.start < cue.end for cue in cues)
        vtt_words(text_of(alignment, "vtt", style))
        pylrc.parse(text_of(alignment, "lrc", style))
        shown = [
            line.plaintext for line in pysubs2.SSAFile.from_string(text_of(alignment, "ass", style))
        ]
        assert len(" ".join(shown).split()) >= len(aligned_words(alignment))
