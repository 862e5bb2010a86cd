"""JSON for other programs: segments of Whisper and WhisperX, tasks of Label Studio."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from ctc_align._version import __version__
from ctc_align.files.sentences import Sentence, sentences
from ctc_align.files.tiers import GOP, SYLLABLES, TOKENS, WORDS, tiers_by_speaker
from ctc_align.files.writer import (
    TimedLabel,
    Writer,
    end_units,
    finite,
    is_timed,
    keep_filled,
    rows_by_word,
)
from ctc_align.text.characters import json_escaped
from ctc_align.types import Alignment

_MS_PER_S = 1000
_UNITS_PER_MS = 100
_LABELS = {TOKENS: "Phone", GOP: "Goodness"}
"""The labels of kinds of tiers that are not their names: of words it is "Word"."""


class WhisperWriter(Writer):
    """Segments as Whisper and WhisperX write them.

    `text`, `segments` (sentences) with their `words`, and `word_segments`.

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
        if any(each.space for sentence in found for each in sentence.words):
            space = " "
        else:
            space = ""
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
) -> dict[str, Any]:
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
) -> Iterator[dict[str, Any]]:
    """Yield the words with times.

    The text of others is added to the word before, or at the beginning to the word after.
    """
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


def _whisper_word(text: str, word: Any, row_of: dict[int, TimedLabel]) -> dict[str, Any]:
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
    """A list of one task of Label Studio.

    Its prediction has a region of the recording for each row of the tiers.

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
        results: list[dict[str, Any]] = []
        for tier in tiers_by_speaker(alignment, style, _MS_PER_S, (WORDS,)):
            is_sure = tier.kind in (WORDS, TOKENS, SYLLABLES)
            label = _LABELS.get(tier.kind, tier.kind.removesuffix("s").capitalize())
            for row in tier.rows:
                id = f"{tier.kind}-{len(results) // 2 + 1}"
                results += _region(id, row, label, (tier.speaker, length_s, is_sure))
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
) -> Sequence[dict[str, Any]]:
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
