"""JSON of other programs as transcripts: the text of its segments, with their times and speakers, whatever its keys."""

from __future__ import annotations

import json

import pytest
from rows import over_rows

from ctc_align.errors import TranscriptError
from ctc_align.files.transcripts import parse_transcript
from ctc_align.text import split, with_cues
from ctc_align.types import Subtitles

TEXTS = [" Call me\nIshmael.", "Some years ago."]
TIMES = [(0.5, 1.5), (2.0, 3.25)]
ROWS = list(zip(TEXTS, TIMES))
WHISPER = {
    "text": "".join(TEXTS),
    "segments": [{"id": n, "start": a, "end": b, "text": t, "tokens": [1]} for n, (t, (a, b)) in enumerate(ROWS)],
    "language": "en",
}  # fmt: skip
WHISPERX = {
    "segments": [{"start": a, "end": b, "text": t, "words": [{"word": "x"}], "speaker": f"SPEAKER_0{n}"}
                 for n, (t, (a, b)) in enumerate(ROWS)],
    "word_segments": [{"word": "x", "start": 0.5, "end": 0.6}],
}  # fmt: skip
NEMO = {"text": "…", "timestamp": {
    "word": [{"word": "Call", "start": 0.5, "end": 0.7}],
    "segment": [{"segment": t, "start": a, "end": b, "start_offset": 6, "end_offset": 18} for t, (a, b) in ROWS],
}}  # fmt: skip
SEGLST = [
    {"session_id": "s", "speaker": f"SPEAKER_0{n}", "start_time": str(a), "end_time": str(b), "words": t}
    for n, (t, (a, b)) in enumerate(ROWS)
]
WHISPER_CPP = {"transcription": [
    {"timestamps": {"from": "x"}, "offsets": {"from": a * 1000, "to": b * 1000}, "text": t} for t, (a, b) in ROWS
]}  # fmt: skip
FILES = [
    ("whisper", json.dumps(WHISPER), False),
    ("whisperx", json.dumps(WHISPERX, indent=1), True),
    ("nemo", json.dumps(NEMO), False),
    ("nemo, a list of one recording", json.dumps([NEMO]), False),
    ("segments alone", json.dumps(WHISPER["segments"]), False),
    ("a segment a line", "\n".join(map(json.dumps, SEGLST)), True),
    ("transformers", json.dumps({"chunks": [{"text": t, "timestamp": times} for t, times in ROWS]}), False),
    ("whisper.cpp", json.dumps(WHISPER_CPP), False),
]


@over_rows(("kind", "data", "named"), FILES)
def test_segments_are_read_as_cues(kind: str, data: str, named: bool) -> None:
    transcript = parse_transcript(data.encode(), "talk.json")
    subtitles = transcript.subtitles
    assert isinstance(subtitles, Subtitles)
    assert transcript.text == "Call me\nIshmael.\nSome years ago."
    assert [transcript.text[cue.char_start : cue.char_end] for cue in subtitles.cues] == [t.strip() for t in TEXTS]
    assert [(cue.start_s, cue.end_s) for cue in subtitles.cues] == TIMES
    speakers = ["SPEAKER_00", "SPEAKER_01"] if named else ["", ""]
    assert [cue.speaker for cue in subtitles.cues] == speakers
    words = with_cues(split(transcript.text), subtitles)
    assert words.subtitles == subtitles
    assert [word.speaker for word in words.words] == [*speakers[:1] * 3, *speakers[1:] * 3]


def test_what_is_missing_is_filled_and_empty_segments_are_left_out() -> None:
    rows = [
        {"text": "One", "start": -0.1, "end": None},
        {"text": " ", "start": 1.0, "end": 2.0},
        {"text": "two", "end": 3, "start": None},
        {"text": "ANN: three", "start": 4, "end": 3.5, "speaker": "Bob"},
    ]
    transcript = parse_transcript(json.dumps(rows).encode(), "a.json")
    assert [(cue.start_s, cue.end_s) for cue in transcript.subtitles.cues] == [(0.0, 0.0), (2.0, 3.0), (4.0, 4.0)]
    words = with_cues(split(transcript.text), transcript.subtitles).words
    assert [(word.text, word.speaker) for word in words][-1] == ("three", "ANN"), "the text's own name goes before"


def test_our_own_alignment_is_its_text() -> None:
    data = json.dumps({"format": "ctc-align/1", "text": "So  be\nit.", "words": []})
    assert parse_transcript(data.encode(), "a.json").text == "So  be\nit."


@over_rows(
    ("segment", "says"),
    [
        ({"start": 1, "end": 2}, "a.json, segment 2: expected a segment with its text"),
        ("text", "a.json, segment 2: expected a segment with its text, as in the others, got 'text'"),
        ({"text": "b", "start": "soon"}, "a.json, segment 2: expected its start and end in seconds, got 'soon'"),
        ({"text": "b", "start": 1, "end": 1e300}, "expected its start and end in seconds, got 1e+300"),
    ],
)
def test_a_broken_segment_is_named(segment: object, says: str) -> None:
    with pytest.raises(TranscriptError) as caught:
        parse_transcript(json.dumps({"segments": [WHISPER["segments"][0], segment]}).encode(), "a.json")
    assert says in str(caught.value)
