from __future__ import annotations

import dataclasses
import itertools
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_alignments import aligned, make_alignment, random_alignments
from spoken_documents import timed
from subtitle_checks import Shown, faults, read_srt, read_vtt, width

from ctc_align.files import Alignment, Style, rendered
from ctc_align.text import split
from ctc_align.types import ALIGNED, UNKNOWN, AlignedWord

STORY = """We, the people of this town, have gathered here today because Dr. Brown asked us to. "Is it true?" said the
old man who lived near the river. It was not! Nobody, however, had ever thought of asking him what he knew about the
strange events that took place in the summer of 1923, when the mill burned down and three families left. Yes. Perhaps
we shall never find out; but one thing is certain: it mattered."""
JAPANESE = "今日は天気がいいですね。散歩に行きましょう、そして公園で昼ごはんを食べてから家に帰ります。"
LONG_WORD = "https://example.org/a/path/that/does/not/fit/into/a/line/" + "x" * 50


def said(text: str, letter_s: float = 0.06, untimed: float = 0.0, seed: int = 0, tail_s: float = 1.0) -> Alignment:
    """Every word as long as its letters, pauses after punctuation; a share of the words has no times."""
    chance, at_s, words = random.Random(seed), 0.3, []
    for word in split(text).words:
        if chance.random() < untimed:
            words.append(AlignedWord(word.text, word.spoken, word.char_start, word.char_end, UNKNOWN))
            continue
        end_s = at_s + letter_s * max(2, len(word.text))
        words.append(aligned(word.text, at_s, end_s, word.char_start))
        at_s = end_s + (0.5 + chance.random() if word.text[-1] in ".!?" else 0.2 if word.text[-1] in ",;:" else 0.0)
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
    "a word of ten seconds": make_alignment((aligned("Aaah", 0.5, 10.5), aligned("no", 10.5, 11.0, 5)), 12.0),
    "an hour of silence": make_alignment((aligned("Is", 0.5, 0.7), aligned("it?", 3600.0, 3600.4, 3)), 3601.0),
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
    # words of a millisecond, many to a subtitle's smallest time, may end up a little beyond the recording
    assert [fault for fault in found if "beyond" not in fault or alignment.duration_s > 0.5] == []


@given(st.integers(0, 9), st.sampled_from([0.0, 0.2, 0.7]), st.sampled_from([0.02, 0.05, 0.09]))
def test_speech_of_any_speed_with_any_words_missing(seed, untimed, letter_s):
    alignment = said(STORY, letter_s, untimed, seed)
    assert faults(srt(alignment), alignment) == []


def test_subtitles_break_where_sense_breaks():
    shown = [" / ".join(cue.lines) for cue in srt(said(STORY))]
    assert shown[0] == "We, the people of this town, have gathered / here today because Dr. Brown asked us to."
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
    first, second = srt(make_alignment((aligned("One", 0.0, 0.5), aligned("two.", 9.0, 9.5, 4)), 10.0))
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
    for text in ("2\n00:00:00,000 --> 00:00:01,000\nA\n\n", "1\n00:00:00.000 --> 00:00:01.000\nA\n\n"):
        with pytest.raises(AssertionError):
            read_srt(text)
    for text in ("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nA <b\n", "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nA & b\n"):
        with pytest.raises(AssertionError):
            read_vtt(text)


def test_words_without_times_and_markup():
    text = "We got Ørsted8 there. Then nothing."
    words = split(text).words
    times = [(0.5, 0.7), (0.7, 1.0), None, (1.0, 1.4), (4.0, 4.3), (4.3, 4.8)]
    alignment = make_alignment(
        tuple(
            aligned(word.text, *span, word.char_start)
            if span
            else AlignedWord(word.text, "", word.char_start, word.char_end, UNKNOWN)
            for word, span in zip(words, times)
        ),
        6.0,
        text=text,
    )
    assert [cue.lines for cue in srt(alignment)] == [("We got Ørsted8 there.",), ("Then nothing.",)]
    assert sum(word.status == ALIGNED for word in alignment.words) == 5
    text = "# See [it](http://a.b). It <b>is</b> R&amp;D un<b>believ</b>able"
    words = tuple(
        AlignedWord(word.text, word.spoken, word.char_start, word.char_end, "unspoken", kind=word.kind)
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


@pytest.mark.parametrize(("rate", "frame_ms"), [(23.976, 1001 / 24), (25.0, 40.0), (29.97, 1001 / 30), (12.5, 80.0)])
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
    shown = [re.sub(r"<\d[\d:.]*>", "", line) for line in rendered(alignment, "vtt", style).decode().split("\n")[3::3]]
    assert shown == ["<v ANNA>Hello", "<v MARY ANN>Hi,", "[DOOR SLAMS]", "<v ANNA>[laughs] Bye."]
    plain = re.sub("</?u>", "", rendered(alignment, "srt", style).decode())
    assert "ANN" not in plain
    names = [line.split(",")[4] for line in rendered(alignment, "ass", style).decode().split("Dialogue")[1:]]
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
    assert [cue.lines for cue in short] == [("Hello",), ("Hi, [DOOR SLAMS]",), ("[laughs] Bye.",)], "no room"
    opening = srt(timed("[MUSIC]\n\nHello – there. [applause] [MORE]", {"Hello": 9.0, "there.": 9.4}), AGAIN)
    assert [cue.lines for cue in opening] == [("[MUSIC]",), ("Hello – there. [applause] [MORE]",)]
    assert opening[0].end_ms <= 9000 < opening[0].end_ms + 1100
    paused = srt(timed("Hello there. [pause] Bye.", {"Hello": 3.0, "there.": 3.3, "Bye.": 7.0}), AGAIN)
    assert [cue.lines for cue in paused] == [("Hello there.",), ("[pause] Bye.",)]
    cues = "1\n00:00:01,000 --> 00:00:02,000\nHello\n\n2\n00:00:04,500 --> 00:00:05,500\n[DOOR\nSLAMS]\n\n"
    moved = timed(f"{cues}3\n00:00:07,000 --> 00:00:08,000\nBye.\n", {"Hello": 3.0, "Bye.": 9.0})
    assert [cue.start_ms for cue in srt(moved, AGAIN)] == [3000, 6500, 9000], "moved as its neighbours are"
