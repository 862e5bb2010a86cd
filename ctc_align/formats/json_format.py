"""The JSON of format "ctc-align/1": the whole alignment, written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from ctc_align._version import __version__
from ctc_align.formats.writer import RECORDING, UNITS_PER_S, Style, Writer, end_units, finite, time_units
from ctc_align.text.control_characters import json_escaped
from ctc_align.types import FORMAT, AlignedToken, AlignedWord, AlignmentData, BookPlace, Region, Subtitles

_DECIMALS = 6


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of format "ctc-align/1", which describes every field.

    It is the file `ctc-align-1.schema.json` beside this one. It lets fields pass that it does not know, as a later
    version may write them.

    >>> json_schema()["properties"]["duration_s"]["description"]
    'The length of the utterance in seconds.'
    """
    return json.loads((Path(__file__).parent / "ctc-align-1.schema.json").read_text(encoding="utf-8"))


def to_dict(alignment: AlignmentData, style: Style | None = None) -> dict[str, Any]:
    """Return the JSON object of an alignment: plain dicts, lists, strings and finite numbers or None.

    `offset_s` is always the start of the utterance in `audio` and `duration_s` its length. With times
    "recording" in the style (by default the alignment's own `config`) the offset is added to every start and end,
    and `config` says so.
    """
    data = _object(alignment, style if style is not None else Style.of(alignment.config))
    return {**data, "words": list(data["words"])}


def _object(alignment: AlignmentData, style: Style) -> dict[str, Any]:
    """Return the JSON object with an iterator of its words: those of a long recording never lie in memory together."""
    config = alignment.config if style.times != RECORDING else {**alignment.config, "times": RECORDING}
    place = _TimeScale(style.shift_s(alignment), end_units(alignment, style))
    doubt = float(alignment.config.get("min_confidence", 0.0))
    return {
        "format": FORMAT,
        "version": __version__,
        "utterance": alignment.utterance,
        "audio": alignment.audio,
        "offset_s": _number(alignment.offset_s),
        "duration_s": _number(alignment.duration_s),
        "model": alignment.model,
        "backend": alignment.backend,
        "frame_shift_s": finite(alignment.frame_shift_s),
        "loss": finite(alignment.loss),
        "loss_per_token": finite(alignment.loss_per_token),
        "score": finite(alignment.score),
        "fit": alignment.fit,
        "skipped": alignment.skipped,
        "unknown": alignment.unknown,
        **({"unknown_letters": dict(alignment.unknown_letters)} if alignment.unknown_letters else {}),
        "token_kind": alignment.token_kind,
        "text": alignment.text,
        **({} if alignment.text_offset is None else {"text_offset": alignment.text_offset}),
        "words": (_word(word, place, doubt) for word in alignment.words),
        "unexplained": [
            {"start_s": place.time_s(start_s), "end_s": place.time_s(end_s)} for start_s, end_s in alignment.unexplained
        ],
        "regions": [_region(region, place) for region in alignment.regions],
        **({"subtitles": _subtitles(alignment.subtitles)} if alignment.subtitles is not None else {}),
        **({"places": [_book_place(place) for place in alignment.places]} if alignment.places else {}),
        "config": _plain(config),
    }


def _word(word: AlignedWord, place: _TimeScale, doubt: float) -> dict[str, Any]:
    """Return the object of a word; `doubtful` is there only where it is true."""
    doubtful = word.confidence is not None and word.confidence < doubt
    return {
        "text": word.text,
        "spoken": word.spoken,
        "start_s": place.time_s(word.start_s),
        "end_s": place.time_s(word.end_s),
        "confidence": _number(word.confidence),
        **_spread(word),
        **({"doubtful": True} if doubtful else {}),
        "char_start": word.char_start,
        "char_end": word.char_end,
        "status": word.status,
        **({"kind": word.kind} if word.kind else {}),
        **({"speaker": word.speaker} if word.speaker else {}),
        **({"by": word.by} if word.by else {}),
        "tokens": [
            {
                "token": token.token,
                "start_s": place.time_s(token.start_s),
                "end_s": place.time_s(token.end_s),
                "confidence": _number(token.confidence),
                **_spread(token),
                **({"by": token.by} if token.by else {}),
            }
            for token in word.tokens
        ],
    }


def _region(region: Region, place: _TimeScale) -> dict[str, Any]:
    return {
        "kind": region.kind,
        "start_s": place.time_s(region.start_s),
        "end_s": place.time_s(region.end_s),
        "char_start": region.char_start,
        "char_end": region.char_end,
        "reason": region.reason,
    }


def _book_place(place: BookPlace) -> dict[str, Any]:
    """Return where a paragraph is in its book; an id that is empty is left out."""
    data = {field.name: getattr(place, field.name) for field in fields(place)}
    return {key: value for key, value in data.items() if value != ""}


def _subtitles(subtitles: Subtitles) -> dict[str, Any]:
    """Return the cues of the transcript, with the times of its file; what is empty is left out."""
    cues = [
        {field.name: value for field in fields(cue) if (value := getattr(cue, field.name)) not in ("", None)}
        for cue in subtitles.cues
    ]
    document = {"document": subtitles.document} if subtitles.document else {}
    return {"format": subtitles.format, "header": subtitles.header, "after": subtitles.after, **document, "cues": cues}


def _spread(edged: AlignedWord | AlignedToken) -> dict[str, float]:
    """Return the standard deviations of the edges, where they are known."""
    both = {"start_sd_ms": edged.start_sd_ms, "end_sd_ms": edged.end_sd_ms}
    return {key: round(sd, 2) for key, sd in both.items() if finite(sd) is not None and sd is not None}


@dataclass(frozen=True)
class _TimeScale:
    """The offset that is added to the times of an utterance, and the end of its audio."""

    shift_s: float
    last_unit: int

    def time_s(self, seconds: float | None) -> float | None:
        if finite(seconds) is None or seconds is None:
            return None
        first_unit = math.ceil(self.shift_s * UNITS_PER_S - 1e-4)
        return max(time_units(seconds + self.shift_s, self.last_unit), first_unit) / UNITS_PER_S


def _number(value: float | None) -> float | None:
    value = finite(value)
    return None if value is None else round(value, _DECIMALS)


def _plain(value: Any) -> Any:
    """Return settings as plain JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return finite(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


class JsonWriter(Writer):
    """The whole alignment; one word a line, so that people and diffs can read it.

    Everything is in it as it was: control characters and marks of direction as JSON's escapes, bytes of file names that
    are no UTF-8 as halves of surrogate pairs (`\\udcff`).
    """

    extension = ".json"
    encoding_errors = "backslashreplace"  # which is JSON's own escape for half a surrogate pair

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        for piece in _pieces(_object(alignment, self.style(alignment))):
            file.write(piece)


def json_bytes(data: Mapping[str, Any]) -> bytes:
    """Return an alignment's JSON object as its file holds it: a word on each line.

    Raises:
        ValueError: a number in it is not finite.
    """
    return "".join(_pieces(data)).encode("utf-8", JsonWriter.encoding_errors)


def _pieces(data: Mapping[str, Any]) -> Iterator[str]:
    before = "{\n"
    for key, value in data.items():
        yield f"{before} {_dumps(key)}: "
        if key == "words":
            start = "[\n  "
            for word in value:
                yield start + _dumps(word)
                start = ",\n  "
            yield "\n ]" if start.startswith(",") else "[]"
        else:
            yield _dumps(value)
        before = ",\n"
    yield "\n}\n"


def _dumps(value: Any) -> str:
    return json_escaped(json.dumps(value, ensure_ascii=False, allow_nan=False))
