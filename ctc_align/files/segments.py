"""JSON of other programs: segments of Whisper, WhisperX and NeMo, read and written, and tasks of
Label Studio.

A segment is an object with a text, usually times, and sometimes a speaker. The files differ in the
position of the list of segments and in the names of the keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from ctc_align._version import __version__
from ctc_align.errors import TranscriptError
from ctc_align.files.sentences import Sentence, sentences
from ctc_align.files.tiers import SENTENCES, SPEAKERS, SYLLABLES, TOKENS, WORDS, tiers_by_speaker
from ctc_align.files.writer import (
    TimedLabel,
    Writer,
    end_units,
    finite,
    is_timed,
    keep_filled,
    rows_by_word,
)
from ctc_align.reading import JsonObject, as_seconds, parse_json, shown
from ctc_align.text.captions import transcript_of_cues
from ctc_align.text.characters import json_escaped
from ctc_align.types import FORMAT, SEGMENTS, Alignment, SourceCue, Subtitles, Transcript

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
"""Keys of values with both times: the indices of the times in the value, and its units per
second."""
_SOUNDS = ("audio_filepath", "audio")
_MS_PER_S = 1000
_UNITS_PER_MS = 100
_LABELS = {
    WORDS: "Word",
    TOKENS: "Phone",
    SYLLABLES: "Syllable",
    SENTENCES: "Sentence",
    SPEAKERS: "Speaker",
}


def parse_json_transcript(text: str, source: str) -> Transcript | None:
    """Return the transcript in a JSON text, None if it is not JSON or of an unknown kind.

    Segments become cues, each a line of text. For an alignment of this package, the transcript is
    its `text`.

    Args:
        text: of the file.
        source: the file's name, for messages.

    Raises:
        TranscriptError: a segment has no text, or its times are not numbers; the message names it.

    >>> parse_json_transcript('{"segments": [{"start": 0.5, "end": 2, "text": " Hello"}]}', "a.json").text
    'Hello'
    """
    data = _parsed(text)
    if (
        isinstance(data, dict)
        and data.get("format") == FORMAT
        and isinstance(data.get("text"), str)
    ):
        return Transcript(data["text"])
    segments = _segments(data)
    if not segments:
        return None
    cues: list[tuple[SourceCue, str]] = []
    end_s = 0.0
    for number, segment in enumerate(segments, 1):
        where = f"{source}, segment {number}"
        if not isinstance(segment, dict) or not isinstance(written := _first(segment, _TEXTS), str):
            raise TranscriptError(
                f"{where}: expected a segment with its text, as in the others, got"
                f" {shown(segment)}; correct it, or give the words alone as a text file"
            )
        start_s, end_s = _times(segment, end_s, where)
        piece = "\n".join(filter(str.strip, written.strip().splitlines()))
        if not piece:
            continue
        speaker = _first(segment, _SPEAKERS)
        name = ""
        if speaker is not None:
            name = " ".join(str(speaker).split())
        cues.append((SourceCue(0, 0, start_s, end_s, speaker=name), piece))
    return transcript_of_cues(cues, Subtitles(SEGMENTS))


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
    """Return the list of the segments in a value, empty if there are none."""
    if (
        isinstance(data, list)
        and len(data) == 1
        and isinstance(data[0], dict)
        and not _is_segment(data[0])
    ):
        return _segments(data[0])  # NeMo's list of the one recording's hypotheses
    if isinstance(data, list):
        if data and _is_segment(data[0]):
            return data
        return []
    for keys in _PLACES if isinstance(data, dict) else ():
        value = data
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, list) and value and _is_segment(value[0]):
            return value
    return []


def _is_segment(value: Any) -> bool:
    """Return whether an object has a text and times, and is not a line of a manifest."""
    if not isinstance(value, dict) or any(key in value for key in _SOUNDS):
        return False
    return _written_times(value)[:2] != (None, None) and isinstance(_first(value, _TEXTS), str)


def _first(segment: JsonObject, keys: Sequence[str]) -> Any:
    """Return the first existing value of some keys that is not a list (of words), None if there is
    none."""
    values = (segment.get(key) for key in keys)
    return next(
        (value for value in values if value is not None and not isinstance(value, (list, dict))),
        None,
    )


def _times(segment: JsonObject, before_s: float, where: str) -> tuple[float, float]:
    """Return the times of a segment in seconds; a missing time is taken from the previous
    segment."""
    start, end, per_s = _written_times(segment)
    try:
        start_s = before_s
        if start is not None:
            start_s = max(as_seconds(start) / per_s, 0.0)
        end_s = start_s
        if end is not None:
            end_s = max(as_seconds(end) / per_s, start_s)
    except ValueError as error:
        raise TranscriptError(
            f"{where}: expected its start and end in seconds, got {error}; correct that segment"
        ) from None
    return start_s, end_s


def _written_times(segment: JsonObject) -> tuple[Any, Any, float]:
    """Return the times of a segment as written, None for a missing one, and the units per
    second."""
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


class WhisperWriter(Writer):
    """`text`, `segments` (sentences) with their `words`, and `word_segments`, as Whisper and
    WhisperX write them.

    As in Whisper, a word begins with the space before it, and text without a time (a dash, letters
    that the model does not know) is added to the word before it, so that the words of a segment add
    up to its text. Words have `probability` (Whisper) and `score` (WhisperX), which are both the
    confidence, and `speaker` if it is known.
    Words that are not in the recording are left out. Times are seconds with 3 decimals.
    """

    encoding_errors = "backslashreplace"

    def write(self, alignment: Alignment, file: TextIO) -> None:
        row_of = rows_by_word(alignment, self.style(alignment), _MS_PER_S)
        found = sentences(alignment)
        space = ""
        if any(each.space for sentence in found for each in sentence.words):
            space = " "
        segments = [
            _segment(number, sentence, row_of, space) for number, sentence in enumerate(found)
        ]
        language = alignment.config.get("language")
        whole = {
            "text": "".join(segment["text"] for segment in segments),
            "segments": segments,
            "word_segments": [word for segment in segments for word in segment["words"]],
            **({"language": language} if isinstance(language, str) and language else {}),
        }
        file.write(_dumps(whole))


def _segment(
    number: int, sentence: Sentence, row_of: dict[int, TimedLabel], space: str
) -> JsonObject:
    words = list(_whisper_words(sentence, row_of, space))
    return {
        "id": number,
        "start": words[0]["start"],
        "end": words[-1]["end"],
        "text": "".join(word["word"] for word in words),
        **keep_filled(speaker=sentence.speaker),
        "words": words,
    }


def _whisper_words(
    sentence: Sentence, row_of: dict[int, TimedLabel], space: str
) -> Iterator[JsonObject]:
    """Yield the words with times; add the text of others to the word before, or at the beginning to
    the word after."""
    text = ""
    timed = None
    for index, each in enumerate(sentence.words):
        piece = (" " * bool(each.space) if index else space) + each.text
        if is_timed(each.word) and timed is not None:
            yield _whisper_word(text, timed, row_of)
            text = ""
            timed = None
        text += piece
        if is_timed(each.word):
            timed = each.word
    yield _whisper_word(text, timed, row_of)


def _whisper_word(text: str, word: Any, row_of: dict[int, TimedLabel]) -> JsonObject:
    row = row_of[id(word)]
    sure = round(row.confidence, 4)
    return {
        "word": text,
        "start": row.start / _MS_PER_S,
        "end": row.end / _MS_PER_S,
        "probability": sure,
        "score": sure,
        **keep_filled(speaker=word.speaker),
    }


class LabelStudioWriter(Writer):
    """A list of one task of Label Studio, whose prediction has a region of the recording for each
    row of the tiers.

    The style's `tiers` select the rows, by default words. A region has a label ("Word", "Phone",
    "Syllable", "Sentence" or "Speaker", from the control `tier`) and its text (`transcription`),
    the confidence as `score`, and the speaker in `meta`. `data` has the recording as `audio`, to be
    replaced by the address at which Label Studio can reach it, and the transcript as `text`. The
    controls that a project needs are in docs/formats.md.
    """

    encoding_errors = "backslashreplace"

    def write(self, alignment: Alignment, file: TextIO) -> None:
        style = self.style(alignment)
        length_s = end_units(alignment, style) / _UNITS_PER_MS / _MS_PER_S
        results: list[JsonObject] = []
        for tier in tiers_by_speaker(alignment, style, _MS_PER_S, (WORDS,)):
            is_sure = tier.kind in (WORDS, TOKENS, SYLLABLES)
            for row in tier.rows:
                id = f"{tier.kind}-{len(results) // 2 + 1}"
                results += _region(id, row, _LABELS[tier.kind], (tier.speaker, length_s, is_sure))
        confidences = [
            number for word in alignment.words if (number := finite(word.confidence)) is not None
        ]
        prediction = {
            "model_version": f"ctc-align {__version__} {alignment.model}",
            "score": round(sum(confidences) / len(confidences), 4) if confidences else 0.0,
            "result": results,
        }
        data = {"audio": alignment.audio, "text": alignment.text, "utterance": alignment.utterance}
        file.write(_dumps([{"data": data, "predictions": [prediction]}]))


def _region(
    id: str, row: TimedLabel, label: str, of_tier: tuple[str, float, bool]
) -> Sequence[JsonObject]:
    """Return the two results that make up a region: its label and its text, with the same id."""
    speaker, length_s, is_sure = of_tier
    span = {"start": row.start / _MS_PER_S, "end": row.end / _MS_PER_S, "channel": 0}
    common = {
        "id": id,
        "to_name": "audio",
        "original_length": length_s,
        **({"score": round(row.confidence, 4)} if is_sure else {}),
        **({"meta": {"text": [speaker]}} if speaker else {}),
    }
    return (
        {**common, "from_name": "tier", "type": "labels", "value": {**span, "labels": [label]}},
        {
            **common,
            "from_name": "transcription",
            "type": "textarea",
            "value": {**span, "text": [row.label]},
        },
    )


def _dumps(value: Any) -> str:
    return json_escaped(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)) + "\n"
