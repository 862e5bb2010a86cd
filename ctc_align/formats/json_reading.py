"""The JSON of format "ctc-align/1", read: every field of its type and in its range, as all writers need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ctc_align.errors import InputError
from ctc_align.formats.hand_fixes import check_fixed_words
from ctc_align.formats.writer import RECORDING
from ctc_align.reading import JSON_BYTES, as_number, as_seconds, as_whole, check_depth, parse_json, read_input, shown
from ctc_align.text.elan_files import read_elan
from ctc_align.text.textgrid_files import textgrid_layout
from ctc_align.types import (
    ALIGNED,
    CUE_FORMATS,
    EAF,
    FITS,
    FORMAT,
    HAND,
    REGION_KINDS,
    STATUSES,
    TEXTGRID,
    UNEXPLAINED,
    UNSPOKEN_KINDS,
    AlignedToken,
    AlignedWord,
    BookPlace,
    Region,
    SourceCue,
    Subtitles,
)

_DECIMALS = 6

Item = TypeVar("Item")


def read_object(path: str | Path) -> dict[str, Any]:
    """Return the JSON object of an alignment as the file has it.

    Raises:
        InputError: the file cannot be read, is not JSON, or not of this format.
    """
    try:
        data = parse_json(read_input(path, factor=JSON_BYTES).decode("utf-8-sig"), parse_constant=no_number)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON that can be read: {error}") from error
    check_format(data, str(path))
    return data


def check_format(data: Any, place: str) -> None:
    """Raise InputError, which begins with `place`, unless `data` is the object of an alignment."""
    format = data.get("format") if isinstance(data, dict) else None
    if format != FORMAT:
        got = shown(format) if format is not None else "other JSON"
        raise InputError(f'{place}: expected an alignment of format "{FORMAT}", got {got}')


def no_number(constant: str) -> float:
    """Refuse NaN and Infinity, which are not JSON; for `parse_constant`."""
    raise ValueError(f"{constant} is no number of JSON")


def alignment_fields(data: dict[str, Any], name: str | Path = "the JSON object") -> dict[str, Any]:
    """Return the fields of an alignment out of the JSON object that `to_dict` made.

    Times count from the start of the utterance. `name` is what error messages call the object. Fields that are not
    known are left alone: a later version may have written them.

    Raises:
        InputError: something is missing, or of another type or out of its range, or what a person fixed cannot be so.
    """
    try:
        fields = _fields(Fields(data))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not a whole alignment: {error}") from error
    check_fixed_words(fields["words"], fields["text"], fields["duration_s"], str(name))
    return fields


class Fields:
    """The fields of a JSON object, each taken as what it must be; `place` is its path, for messages.

    Raises:
        ValueError: it is no object, or a field is missing or something else.
    """

    def __init__(self, data: Any, place: str = "") -> None:
        if not isinstance(data, dict):
            raise ValueError(f"expected {place or 'an alignment'} as an object, got {shown(data)}")
        self.data, self.place = data, place

    def path(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def value(self, key: str) -> Any:
        if key not in self.data:
            raise ValueError(f"{self.path(key)} is missing")
        return self.data[key]

    def take(self, key: str, kind: str, convert: Callable[[Any], Item]) -> Item:
        """Return a field as `convert` gives it; `kind` says in words what it must be."""
        value = self.value(key)
        try:
            return convert(value)
        except (ValueError, TypeError):
            raise ValueError(f"{self.path(key)}: expected {kind}, got {shown(value)}") from None

    def text(self, key: str, *default: str) -> str:
        return default[0] if default and self.data.get(key) is None else self.take(key, "a text", _text)

    def seconds(self, key: str) -> float:
        return self.take(key, "a number of seconds", _seconds)

    def seconds_or_none(self, key: str) -> float | None:
        return None if self.value(key) is None else self.seconds(key)

    def number_or_none(self, key: str) -> float | None:
        return None if self.data.get(key) is None else self.take(key, "a finite number", as_number)

    def share_or_none(self, key: str) -> float | None:
        value = self.number_or_none(key) if key in self.data else self.value(key)
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"{self.path(key)}: expected a number from 0 to 1, got {shown(value)}")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.text(key)
        if value not in choices:
            raise ValueError(f"{self.path(key)}: expected one of {', '.join(choices)}, got {shown(value)}")
        return value

    def from_zero(self, key: str) -> float | None:
        """Return a number that is not negative, None where there is none."""
        value = self.number_or_none(key)
        if value is not None and value < 0:
            raise ValueError(f"{self.path(key)}: expected a number from 0, got {shown(value)}")
        return value

    def whole(self, key: str, *default: int) -> int:
        return default[0] if default and key not in self.data else self.take(key, "a whole number from 0", _whole)

    def whole_or_none(self, key: str) -> int | None:
        return None if self.value(key) is None else self.whole(key)

    def objects(self, key: str, *default: list[Any]) -> list[Fields]:
        """Return the objects in a list."""
        items = default[0] if default and self.data.get(key) is None else self.take(key, "a list", _list)
        return [Fields(item, f"{self.path(key)}[{number}]") for number, item in enumerate(items)]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError
    return list(value)


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError
    return as_seconds(value)


def _whole(value: Any) -> int:
    if isinstance(value, str):
        raise TypeError
    return as_whole(value)


def _fields(data: Fields) -> dict[str, Any]:
    texts = {key: data.text(key) for key in ("utterance", "audio", "model", "backend", "text")}
    config = _config(data)
    offset_s = data.seconds("offset_s")
    shift_s = -offset_s if config.get("times") == RECORDING else 0.0
    loss, score = data.number_or_none("loss"), data.number_or_none("score")
    duration_s, frame_shift_s = data.seconds("duration_s"), data.seconds("frame_shift_s")
    if duration_s < 0 or frame_shift_s <= 0:
        got = f"{duration_s} and {frame_shift_s}"
        raise ValueError(f"duration_s, frame_shift_s: expected seconds from 0, and above 0, got {got}")
    fit = None if data.data.get("fit") is None else data.choice("fit", FITS)
    letters = Fields(data.data.get("unknown_letters") or {}, "unknown_letters")
    return {
        **texts,
        "offset_s": offset_s,
        "duration_s": duration_s,
        "frame_shift_s": frame_shift_s,
        "loss": math.inf if loss is None else loss,
        "score": -math.inf if score is None else score,
        "loss_per_token": data.number_or_none("loss_per_token"),
        "unknown": data.whole("unknown"),
        "words": tuple(_aligned_word(word, shift_s) for word in data.objects("words")),
        "unknown_letters": {key: letters.whole(key) for key in letters.data},
        "token_kind": data.text("token_kind", "tokens") or "tokens",
        "unexplained": tuple(
            (_moved(part.seconds("start_s"), shift_s), _moved(part.seconds("end_s"), shift_s))
            for part in data.objects("unexplained", [])
        ),
        "fit": fit,
        "subtitles": _subtitles(data),
        "places": tuple(_book_place(place) for place in data.objects("places", [])),
        "regions": tuple(_region(part, shift_s) for part in data.objects("regions", [])),
        "text_offset": None if data.data.get("text_offset") is None else data.whole("text_offset"),
        "config": config,
    }


def _config(data: Fields) -> dict[str, Any]:
    config = Fields(data.value("config"), "config")
    check_depth(config.data)
    if "min_confidence" in config.data and config.share_or_none("min_confidence") is None:
        raise ValueError("config.min_confidence: expected a number from 0 to 1, got None")
    most = config.number_or_none("max_skipped") if "max_skipped" in config.data else 100.0
    if most is None or not 0 <= most <= 100:
        raise ValueError(f"config.max_skipped: expected percent from 0 to 100, got {shown(config.data['max_skipped'])}")
    return dict(config.data)


def _subtitles(data: Fields) -> Subtitles | None:
    if data.data.get("subtitles") is None:
        return None
    subtitles = Fields(data.data["subtitles"], "subtitles")
    format = subtitles.choice("format", CUE_FORMATS)
    cues = tuple(map(_cue, subtitles.objects("cues")))
    document = subtitles.text("document", "")
    if format in (TEXTGRID, EAF):
        try:
            (textgrid_layout if format == TEXTGRID else read_elan)(document, "subtitles.document")
        except InputError as error:
            raise ValueError(str(error)) from error
    return Subtitles(format, subtitles.text("header"), cues, subtitles.text("after"), document)


def _cue(cue: Fields) -> SourceCue:
    start_s, end_s = cue.seconds("start_s"), cue.seconds("end_s")
    if not 0 <= start_s <= end_s:
        raise ValueError(f"{cue.place}: expected times from 0 on, start_s up to end_s, got {start_s} and {end_s}")
    return SourceCue(
        *_characters(cue),
        start_s,
        end_s,
        cue.text("name", ""),
        cue.text("settings", ""),
        cue.text("before", ""),
        None if cue.data.get("payload") is None else cue.text("payload"),
        cue.text("speaker", ""),
    )


def _book_place(place: Fields) -> BookPlace:
    return BookPlace(*_characters(place), place.text("href"), place.text("id", ""), place.text("cfi", ""))


def _region(part: Fields, shift_s: float) -> Region:
    kind = part.choice("kind", REGION_KINDS)
    times = [_moved(part.seconds_or_none(key), shift_s) for key in ("start_s", "end_s")]
    places = [part.whole_or_none(key) for key in ("char_start", "char_end")]
    if None in (times if kind == UNEXPLAINED else places):
        where = "times" if kind == UNEXPLAINED else "characters"
        raise ValueError(f"{part.place}: expected the {where} of a region of kind {kind}, got null")
    return Region(kind, times[0], times[1], places[0], places[1], part.text("reason", ""))


def _moved(seconds: float | None, shift_s: float) -> Any:
    """Return a time of the file as one from the start of the utterance."""
    return None if seconds is None else max(round(seconds + shift_s, _DECIMALS), 0.0)


def _characters(item: Fields) -> tuple[int, int]:
    start, end = item.whole("char_start"), item.whole("char_end")
    if start > end:
        raise ValueError(f"{item.place}: expected char_start up to char_end, got {start} and {end}")
    return start, end


def _aligned_word(word: Fields, shift_s: float) -> AlignedWord:
    status, timed, tokens = word.choice("status", STATUSES), _timed(word, shift_s), word.objects("tokens")
    by = _by(word)
    known = timed["start_s"], timed["end_s"], timed["confidence"] if not by else 0.0
    if status == ALIGNED and None in known:
        raise ValueError(f"{word.place}: expected times and confidence of an aligned word, got null")
    if status != ALIGNED:
        _check_bare(word.place, status, {**timed, "tokens": tokens or None, "by": by or None})
    kind = word.choice("kind", UNSPOKEN_KINDS) if word.data.get("kind") and status != ALIGNED else ""
    start, end = _characters(word)
    return AlignedWord(
        text=word.text("text"),
        spoken=word.text("spoken"),
        char_start=start,
        char_end=end,
        status=status,
        kind=kind,
        speaker=word.text("speaker", ""),
        by=by,
        tokens=tuple(_token(token, shift_s) for token in tokens),
        **timed,
    )


def _check_bare(place: str, status: str, fields: dict[str, Any]) -> None:
    """Raise ValueError where a word that has no place still has fields, which are not None, of one that has."""
    left = [name for name, value in fields.items() if value is not None]
    if left:
        raise ValueError(
            f"{place}: expected no times, confidence, tokens or `by` of a word that is {status}, got "
            f"{', '.join(left)}: take them out, or make it {ALIGNED}"
        )


def _token(token: Fields, shift_s: float) -> AlignedToken:
    timed = _timed(token, shift_s)
    if None in (timed["start_s"], timed["end_s"], timed["confidence"]):
        raise ValueError(f"{token.place}: expected times and confidence of a token, got null")
    return AlignedToken(token.text("token"), **timed, by=_by(token))


def _by(item: Fields) -> str:
    """Return who fixed a word or token; "" for nobody."""
    return "" if item.data.get("by") is None else item.choice("by", (HAND,))


def _timed(item: Fields, shift_s: float) -> dict[str, Any]:
    """Return the times of a word or token, moved, with what is known of them."""
    start_s, end_s = item.seconds_or_none("start_s"), item.seconds_or_none("end_s")
    if start_s is not None and end_s is not None and start_s > end_s:
        raise ValueError(f"{item.place}: expected start_s up to end_s, got {start_s} and {end_s}")
    return {
        "start_s": _moved(start_s, shift_s),
        "end_s": _moved(end_s, shift_s),
        "confidence": item.share_or_none("confidence"),
        "start_sd_ms": item.from_zero("start_sd_ms"),
        "end_sd_ms": item.from_zero("end_sd_ms"),
    }
