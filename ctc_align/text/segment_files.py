"""JSON as a transcript: what Whisper, WhisperX and NeMo write, read as the text of its segments, and our own.

A segment is an object with its text, mostly times, and perhaps a speaker; the files differ in where the list of them
is and in what its keys are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ctc_align.errors import TranscriptError
from ctc_align.reading import as_seconds, parse_json, shown
from ctc_align.types import FORMAT, SEGMENTS, SourceCue, Subtitles, Transcript

_PLACES = (
    ("segments",),  # openai-whisper, WhisperX, faster-whisper's servers
    ("timestamp", "segment"),  # NeMo
    ("timestep", "segment"),  # NeMo before 2.1
    ("chunks",),  # pipelines of transformers
    ("transcription",),  # whisper.cpp
)
_TEXTS = ("text", "segment", "sentence", "words")
_SPEAKERS = ("speaker", "speaker_id", "speaker_label")
_TIMES = (("start", "end"), ("start_s", "end_s"), ("start_time", "end_time"), ("begin", "end"))
_PAIRS = (("timestamp", (0, 1), 1.0), ("offsets", ("from", "to"), 1000.0))
"""Keys of both times in one value: where they are in it, and how many of its units a second has."""
_SOUNDS = ("audio_filepath", "audio")


def parse_json_transcript(text: str, source: str) -> Transcript | None:
    """Return the transcript in a JSON text, None where it is no JSON or of a kind that is not known.

    Segments become cues, a segment a line of text. Of an alignment of this package it is its `text`.

    Args:
        text: of the file.
        source: the file's name, for messages.

    Raises:
        TranscriptError: segments of which one has no text, or times that are none; the message names it.

    >>> parse_json_transcript('{"segments": [{"start": 0.5, "end": 2, "text": " Hello"}]}', "a.json").text
    'Hello'
    """
    data = _parsed(text)
    if isinstance(data, dict) and data.get("format") == FORMAT and isinstance(data.get("text"), str):
        return Transcript(data["text"])
    segments = _segments(data)
    if not segments:
        return None
    cues: list[SourceCue] = []
    pieces: list[str] = []
    at, end_s = 0, 0.0
    for number, segment in enumerate(segments, 1):
        where = f"{source}, segment {number}"
        if not isinstance(segment, dict) or not isinstance(written := _first(segment, _TEXTS), str):
            raise TranscriptError(
                f"{where}: expected a segment with its text, as in the others, got {shown(segment)}; mend that one, or "
                "give the words alone as a text file"
            )
        start_s, end_s = _times(segment, end_s, where)
        piece = "\n".join(filter(str.strip, written.strip().splitlines()))
        if not piece:
            continue
        speaker = _first(segment, _SPEAKERS)
        name = "" if speaker is None else " ".join(str(speaker).split())
        cues.append(SourceCue(at, at + len(piece), start_s, end_s, speaker=name))
        pieces.append(piece)
        at += len(piece) + 1
    return Transcript("\n".join(pieces), Subtitles(SEGMENTS, cues=tuple(cues)))


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, the values of its lines, or None."""
    try:
        return parse_json(text)
    except ValueError:
        pass
    try:
        return [parse_json(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        return None


def _segments(data: Any) -> Sequence[Any]:
    """Return the list of the segments in a value, empty where there are none."""
    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict) and not _is_segment(data[0]):
        return _segments(data[0])  # NeMo's list of the one recording's hypotheses
    if isinstance(data, list):
        return data if data and _is_segment(data[0]) else []
    for keys in _PLACES if isinstance(data, dict) else ():
        value = data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, list) and value and _is_segment(value[0]):
            return value
    return []


def _is_segment(value: Any) -> bool:
    """Return whether an object has a text and times, and is no line of a manifest."""
    if not isinstance(value, dict) or any(key in value for key in _SOUNDS):
        return False
    return _written_times(value)[:2] != (None, None) and isinstance(_first(value, _TEXTS), str)


def _first(segment: dict[str, Any], keys: Sequence[str]) -> Any:
    """Return the first of some keys' values that is there and no list (of words), None for none."""
    values = (segment.get(key) for key in keys)
    return next((value for value in values if value is not None and not isinstance(value, (list, dict))), None)


def _times(segment: dict[str, Any], before_s: float, where: str) -> tuple[float, float]:
    """Return the times of a segment in seconds, that of the segment before where one is missing."""
    start, end, per_s = _written_times(segment)
    try:
        start_s = before_s if start is None else max(as_seconds(start) / per_s, 0.0)
        end_s = start_s if end is None else max(as_seconds(end) / per_s, start_s)
    except ValueError as error:
        raise TranscriptError(
            f"{where}: expected its start and end in seconds, got {error}; mend that segment"
        ) from None
    return start_s, end_s


def _written_times(segment: dict[str, Any]) -> tuple[Any, Any, float]:
    """Return the times of a segment as they are written, None for one that is not, and the units of a second."""
    for first, last in _TIMES:
        if first in segment:
            return segment[first], segment.get(last), 1.0
    for key, (low, high), per_s in _PAIRS:
        value = segment.get(key)
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            return value.get(low), value.get(high), per_s
    return None, None, 1.0
