"""Words with times of their own in SRT, WebVTT, ASS and LRC, read back by srt, webvtt-py, pysubs2 and pylrc."""

from __future__ import annotations

import dataclasses
import itertools
import re
from io import StringIO

import pylrc
import pysubs2
import pytest
import srt as srt_package
import webvtt
from hypothesis import given, settings
from rows import over_rows
from sample_alignments import aligned, conversation, make_alignment, random_alignments
from spoken_documents import timed

from ctc_align.errors import OutputError
from ctc_align.files import Alignment, OutputFiles, Style, rendered
from ctc_align.files.cues import new_cues
from ctc_align.files.transcripts import parse_transcript
from ctc_align.text import split
from ctc_align.types import AlignedWord, aligned_words

SONG = "Twinkle, twinkle, little star,\nhow I wonder what you are!\n\nUp above the world so high"
LIT = Style(highlight_words=True)


def sung(text: str = SONG, shift_s: float = 0.0, **changes: object) -> Alignment:
    """A word every 0.457 s of 0.3 s each, three seconds of silence before a paragraph; "what" is not in the song."""
    words, at_s, end = [], 0.5 + shift_s, 0
    for word in split(text).words:
        at_s += 3.0 * text[end : word.char_start].count("\n\n")
        end = word.char_end
        if word.text == "what" or not word.spoken:
            status = "skipped" if word.spoken else "unspoken"
            words.append(AlignedWord(word.text, word.spoken, word.char_start, word.char_end, status, kind=word.kind))
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
                found.append((text.replace(r"\N", " ").strip(), at_cs / 100, (at_cs + int(length)) / 100))
            at_cs += int(length)
        assert at_cs <= line.end // 10
    return found


def test_karaoke_by_pysubs2():
    alignment = sung(utterance="a song\n[Events]")
    words = tuple(dataclasses.replace(word, speaker="Ann, B.") for word in alignment.words)
    alignment = dataclasses.replace(alignment, words=words)
    subs = pysubs2.SSAFile.from_string(text_of(alignment, "ass"))
    assert subs.info["Title"] == "a song [Events]"
    lines = ["Twinkle, twinkle, little star,", "how I wonder you are!", "Up above the world so high"]
    assert [line.plaintext for line in subs] == lines
    assert {line.name for line in subs} == {"Ann; B."}
    words = ass_words(text_of(alignment, "ass"))
    assert [word[0] for word in words] == [word for word, _ in starts(alignment)]
    for (_, start_s, end_s), word in zip(words, aligned_words(alignment)):
        assert start_s == pytest.approx(word.start_s, abs=0.0051)
        assert end_s == pytest.approx(word.end_s, abs=0.0051)


def test_karaoke_does_not_drift_in_nine_hours():
    words = tuple(aligned("la", at + at / 3000, at + at / 3000 + 0.2, 3 * at // 16) for at in range(0, 32000, 16))
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
    (line,) = pysubs2.SSAFile.from_string(text_of(make_alignment((aligned(word, 0.1, 0.5),)), "ass"))
    assert line.plaintext == shown
    assert re.sub(r"\{\\k\d+\}", "", line.text) == shown


def test_what_nobody_says_is_not_lit_and_has_no_time():
    alignment, said = conversation(), [word for word, _ in starts(conversation())]
    lines = ["It is Dr. Brown. Is it? [coughs]", "Yes,", "yes is!", "And so"]
    for source_lines in (True, False):
        cues = new_cues(alignment, Style(), source_lines=source_lines)
        assert all(len({piece.speaker for line in cue.pieces for piece in line}) == 1 for cue in cues)
    subs = pysubs2.SSAFile.from_string(text_of(alignment, "ass"))
    assert [line.plaintext.replace("\n", " ") for line in subs] == lines
    assert [line.name for line in subs] == ["Ann", "Bob", "Bob", "Bob"]
    karaoke = text_of(alignment, "ass")
    assert karaoke.count(r"{\1c&HFFFFFF&\k0}") == 1
    assert [word for word, *_ in ass_words(re.sub(r"\{\\1c&HFFFFFF&\\k0\}[^{]*\{\\1c\}", "", karaoke))] == said
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
    assert ass_words(text_of(close, "ass"))[0] == ("Yes,", 0.1, 0.4), "a name takes no time from a word"


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
    stamps = [each for line in lyrics for each in re.findall(r"<(\d+):(\d\d\.\d\d)>([^<]+)", line.text)]
    found = [(text.strip(), int(minutes) * 60 + float(seconds)) for minutes, seconds, text in stamps]
    assert [word for word, _ in found] == [word for word, _ in starts(sung())]
    assert [at_s for _, at_s in found] == pytest.approx([at_s for _, at_s in starts(sung())], abs=0.0051)
    ends = re.findall(r"<(\d\d:\d\d\.\d\d)>$", text_of(sung(), "lrc", LIT), re.MULTILINE)
    assert len(ends) == 3
    plain = [line.text for line in pylrc.parse(text_of(sung(), "lrc"))]
    assert [re.sub(r"<[\d:.]+>", "", line.text) for line in lyrics] == plain


@over_rows(
    ("word", "shown"),
    [("[00:01.00]", "(00:01.00)"), ("<00:01.00>", "(00:01.00)"), ("[ti:x]", "(ti:x)"), ("a<b", "a<b")],
)
def test_no_text_is_a_time_of_lrc(word, shown):
    lyrics = pylrc.parse(text_of(make_alignment((aligned(word, 0.25, 0.5),)), "lrc"))
    assert [(line.text, line.time) for line in lyrics] == [(shown, 0.25), ("", 0.5)]


@pytest.mark.parametrize(
    ("format", "at_s", "says"),
    [("lrc", 6000.0, "LRC holds times up to 99:59.99"), ("ass", 36000.0, "ASS holds times up to 9:59:59.99")],
)
def test_times_that_a_format_cannot_hold_are_refused(tmp_path, format, at_s, says):
    OutputFiles(tmp_path, "a", (format,)).write(make_alignment((aligned("x", at_s - 1.0, at_s - 0.02),), at_s - 0.01))
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
    assert [at_s for _, at_s in found] == pytest.approx([at_s for _, at_s in starts(sung())], abs=0.0011)
    plain = webvtt.from_buffer(StringIO(text_of(sung(), "vtt")))
    lit = webvtt.from_buffer(StringIO(text_of(sung(), "vtt", LIT)))
    assert [(each.start, each.end, each.text) for each in lit] == [(each.start, each.end, each.text) for each in plain]


def test_srt_shows_one_word_lit_at_a_time():
    alignment = sung()
    cues = list(srt_package.parse(text_of(alignment, "srt", LIT)))
    assert [cue.index for cue in cues] == list(range(1, len(cues) + 1))
    assert all(a.end <= b.start for a, b in itertools.pairwise(cues))
    lit = [(re.findall(r"<u>(.*?)</u>", cue.content), cue) for cue in cues]
    words = [(found[0], cue.start.total_seconds(), cue.end.total_seconds()) for found, cue in lit if found]
    expected = [
        (w.text, pytest.approx(w.start_s, abs=0.0011), pytest.approx(w.end_s, abs=0.0011))
        for w in aligned_words(alignment)
    ]
    assert words == expected
    assert sum(not found for found, _ in lit) >= len(words) - 3, "a pause of 0.157 s has no word lit"
    shown = {re.sub("</?u>", "", cue.content) for cue in cues}
    assert shown == {cue.content for cue in srt_package.parse(text_of(alignment, "srt"))}
    marked = make_alignment((aligned("<i", 0.1, 0.4), aligned("x>y", 0.4, 0.8, 3)), text="<i x>y")
    assert {re.sub("</?u>", "", c.content) for c in srt_package.parse(text_of(marked, "srt", LIT))} == {"‹i x›y"}


def test_cues_of_a_subtitle_file_are_lit_too_and_their_breaks_are_spaces():
    source = (
        "1\n00:00:01,000 --> 00:00:03,000\n<i>Call</i> me\nIshmael.\n\n2\n00:00:04,000 --> 00:00:05,000\nSome R&D\n\n"
    )
    alignment = timed(source, {"Call": 1.1, "me": 1.6, "Ishmael": 2.1, "Some": 2.6, "R&D": 3.1}, 6.0)
    assert vtt_words(text_of(alignment, "vtt", LIT))[0] == ("Call", 1.1)
    assert [each.raw_text for each in webvtt.from_buffer(StringIO(text_of(alignment, "vtt", LIT)))] == [
        "Call <00:00:01.600>me\n<00:00:02.100>Ishmael.",
        "Some <00:00:03.100>R&amp;D",
    ]
    assert pylrc.parse(text_of(alignment, "lrc"))[0].text == "Call me Ishmael."
    assert r"me\N{\k" in text_of(alignment, "ass")
    source = b"1\n00:00:01,000 --> 00:00:02,000\none\\Ntwo<br>three<i> four</i>\n"
    transcript = parse_transcript(source, "a.srt")
    spans = [(word, transcript.text.index(word)) for word in ("one", "two", "three", "four")]
    words = tuple(aligned(word, at / 2, at / 2 + 0.4, place) for at, (word, place) in enumerate(spans))
    alignment = make_alignment(words, 6.0, text=transcript.text, subtitles=transcript.subtitles)
    again = Style(cues="again")
    assert [cue.content for cue in srt_package.parse(text_of(alignment, "srt", again))] == ["one two three four"]
    assert pylrc.parse(text_of(alignment, "lrc"))[0].text == "one two three four"
    assert '"one two three four"' in text_of(alignment, "whisper").replace('" ', '"')


@settings(max_examples=25, deadline=None)
@given(random_alignments())
def test_any_alignment_is_read(alignment):
    for style in (LIT, Style(highlight_words=True, frame_rate=25.0, times="recording")):
        cues = list(srt_package.parse(text_of(alignment, "srt", style)))
        assert all(a.end <= b.start for a, b in itertools.pairwise(cues))
        assert all(cue.start < cue.end for cue in cues)
        vtt_words(text_of(alignment, "vtt", style))
        pylrc.parse(text_of(alignment, "lrc", style))
        shown = [line.plaintext for line in pysubs2.SSAFile.from_string(text_of(alignment, "ass", style))]
        assert len(" ".join(shown).split()) >= len(aligned_words(alignment))
