"""Words whose times go back in the text, as where passages were swapped: every format stays what its readers expect."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sample_alignments import aligned, make_alignment, swapped_alignments
from subtitle_checks import read_srt, read_vtt

from ctc_align.files import from_dict, rendered
from ctc_align.files.transcripts import parse_transcript
from ctc_align.types import SKIPPED, UNSPOKEN, AlignedWord


@given(swapped_alignments())
def test_subtitles_ascend_in_time_and_json_keeps_the_order_of_the_text(alignment):
    for shown in (read_srt(rendered(alignment, "srt").decode()), read_vtt(rendered(alignment, "vtt").decode())):
        assert all(a.end_ms <= b.start_ms and a.start_ms < a.end_ms for a, b in pairwise(shown))
    assert [word.text for word in from_dict(alignment.to_dict()).words] == [word.text for word in alignment.words]


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
    nothing = tuple(AlignedWord(word.text, "x", word.char_start, word.char_end, SKIPPED) for word in words)
    assert rendered(make_alignment(nothing, 8.0, text=text), "srt") == b""


CUES = [["a", "b"], ["♪"], ["c"], ["d", "e"], ["…"], ["f"]]


@given(st.permutations(range(6)), st.integers(0, 63), st.sampled_from([0.0, 0.5]))
@example([3, 1, 4, 5, 2, 0], 3, 0.0)  # words that touch overlap by a rounding
def test_cues_keep_their_order_and_have_the_times_of_their_words(order, missing, pause_s):
    """Whatever the order of the words in time, and whichever of them are missing: cue by cue, none over another."""
    lines = [f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{' '.join(cue)}\n" for n, cue in enumerate(CUES, 1)]
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
    alignment = make_alignment(tuple(words), duration_s, text=transcript.text, subtitles=transcript.subtitles)
    for format in ("srt", "vtt"):
        back = parse_transcript(rendered(alignment, format), f"a.{format}")
        cues = back.subtitles.cues
        assert back.text == transcript.text
        by_time = sorted(cues, key=lambda cue: cue.start_s)
        assert all(a.start_s < a.end_s <= b.start_s for a, b in pairwise(by_time))
        assert by_time[-1].end_s <= duration_s + 1e-9
        for cue, said in zip(cues, CUES):
            starts = [word.start_s for word in words if word.text in said and word.start_s is not None]
            assert not starts or any(cue.start_s == pytest.approx(start_s, abs=5e-3) for start_s in starts)
