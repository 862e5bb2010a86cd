"""The JSON of format "ctc-align/1": the whole alignment, written and read.

The reader checks the type and range of every field, so that all writers may trust them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO, TypeVar

from ctc_align._version import __version__
from ctc_align.config import known_settings
from ctc_align.errors import ConfigError, InputError, one_line
from ctc_align.files.cue_limits import fast_cues
from ctc_align.files.tiers import SYLLABLES, syllabified, wanted_tiers
from ctc_align.files.writer import (
    RECORDING,
    UNITS_PER_S,
    Style,
    Writer,
    end_units,
    finite,
    keep_filled,
    time_units,
)
from ctc_align.files.written_labels import parse_written, written_object
from ctc_align.reading import (
    JsonObject,
    as_number,
    as_seconds,
    as_whole,
    check_depth,
    parse_json,
    read_input,
    shown,
)
from ctc_align.text.characters import json_escaped
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
    Alignment,
    BookPlace,
    Region,
    SourceCue,
    Subtitles,
)

_DECIMALS = 6
Item = TypeVar("Item")
_TimeWriter = Callable[[float | None], float | None]
SLACK_S = 1e-5
"""The resolution to which times are rounded."""
_LONGEST_NAME = 40
_CHECKED = frozenset(
    {
        "min_confidence",
        "max_skipped",
        *(field.name for field in fields(Style) if "convert" in field.metadata["commands"]),
    }
)
"""The settings in `config` that are used when an alignment is written or judged."""


def json_schema() -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of format "ctc-align/1", which describes every field.

    It is the file `ctc-align-1.schema.json` beside this one. It allows unknown fields, because
    later versions may write them.

    >>> json_schema()["properties"]["duration_s"]["description"]
    'The length of the utterance in seconds.'
    """
    return json.loads(
        (Path(__file__).parent / "ctc-align-1.schema.json").read_text(encoding="utf-8")
    )


def to_dict(alignment: Alignment, style: Style | None = None) -> JsonObject:
    """Return the JSON object of an alignment.

    It consists of plain dicts, lists, strings and finite numbers or None.

    `offset_s` is always the start of the utterance in `audio` and `duration_s` its length. With
    times
    "recording" in the style (by default that of the alignment's `config`), the offset is added to
    every start and
    end, and `config` says so.
    """
    data = _object(alignment, style if style is not None else Style.of(alignment.config))
    return {**data, "words": list(data["words"])}


def _object(alignment: Alignment, style: Style) -> JsonObject:
    """Return the JSON object with an iterator over its words.

    So long recordings need not fit into memory.
    """
    if style.times != RECORDING:
        config = alignment.config
    else:
        config = {**alignment.config, "times": RECORDING}
    time_s = partial(_written_s, style.shift_s(alignment), end_units(alignment, style))
    doubt = float(alignment.config.get("min_confidence", 0.0))
    words = (_word_object(word, time_s, doubt) for word in alignment.words)
    if SYLLABLES in wanted_tiers(style):
        pairs = zip(words, syllabified(alignment).words)
        words = ({**data, SYLLABLES: _tokens(word, "syllable", time_s)} for data, word in pairs)
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
        "local_loss": _number(alignment.local_loss),
        "score": finite(alignment.score),
        "fit": alignment.fit,
        **keep_filled(checked=alignment.checked),
        "skipped": alignment.skipped,
        "unknown": alignment.unknown,
        **keep_filled(unknown_letters=dict(alignment.unknown_letters)),
        "token_kind": alignment.token_kind,
        "text": alignment.text,
        **({} if alignment.text_offset is None else {"text_offset": alignment.text_offset}),
        "words": words,
        "unexplained": [
            {"start_s": time_s(start_s), "end_s": time_s(end_s)}
            for start_s, end_s in alignment.unexplained
        ],
        "regions": [
            {**vars(region), "start_s": time_s(region.start_s), "end_s": time_s(region.end_s)}
            for region in alignment.regions
        ],
        **(
            {"subtitles": _subtitles_object(alignment.subtitles)}
            if alignment.subtitles is not None
            else {}
        ),
        **keep_filled(fast_cues=[cue._asdict() for cue in fast_cues(alignment, style)]),
        **({} if alignment.written is None else {"written": written_object(alignment.written)}),
        **keep_filled(places=list(map(_book_place_object, alignment.places))),
        "config": _plain(config),
    }


def _word_object(word: AlignedWord, time_s: _TimeWriter, doubt: float) -> JsonObject:
    """Return the object of a word; `doubtful` is present only if it is true."""
    doubtful = word.confidence is not None and word.confidence < doubt
    return {
        "text": word.text,
        "spoken": word.spoken,
        "start_s": time_s(word.start_s),
        "end_s": time_s(word.end_s),
        "confidence": _number(word.confidence),
        **_spread(word),
        **keep_filled(doubtful=doubtful),
        "char_start": word.char_start,
        "char_end": word.char_end,
        "status": word.status,
        **keep_filled(kind=word.kind, speaker=word.speaker, language=word.language, by=word.by),
        "tokens": _tokens(word, "token", time_s),
    }


def _tokens(word: AlignedWord, name: str, time_s: _TimeWriter) -> list[JsonObject]:
    """Return the objects of tokens or syllables, whose label is called `name`."""
    return [
        {
            name: token.token,
            "start_s": time_s(token.start_s),
            "end_s": time_s(token.end_s),
            "confidence": _number(token.confidence),
            **_spread(token),
            **keep_filled(by=token.by),
            **_goodness(token),
        }
        for token in word.tokens
    ]


def _goodness(token: AlignedToken) -> JsonObject:
    """Return the goodness of pronunciation, if known."""
    if token.gop is None:
        return {}
    known = {"gop": finite(token.gop), "gop_percentile": token.gop_percentile, "heard": token.heard}
    return {name: value for name, value in known.items() if value is not None}


def _book_place_object(place: BookPlace) -> JsonObject:
    """Return the position of a paragraph in its book; omit an empty id."""
    data = {field.name: getattr(place, field.name) for field in fields(place)}
    return {key: value for key, value in data.items() if value != ""}


def _subtitles_object(subtitles: Subtitles) -> JsonObject:
    """Return the cues of the transcript, with their times in its file; omit empty fields."""
    cues = [
        {
            field.name: value
            for field in fields(cue)
            if (value := getattr(cue, field.name)) not in ("", None)
        }
        for cue in subtitles.cues
    ]
    return {
        "format": subtitles.format,
        "header": subtitles.header,
        "after": subtitles.after,
        **keep_filled(document=subtitles.document),
        "cues": cues,
    }


def _spread(edged: AlignedWord | AlignedToken) -> dict[str, float]:
    """Return the standard deviations of the edges, if they are known."""
    both = {"start_sd_ms": edged.start_sd_ms, "end_sd_ms": edged.end_sd_ms}
    return {
        key: round(sd, 2) for key, sd in both.items() if finite(sd) is not None and sd is not None
    }


def _written_s(shift_s: float, last_unit: int, seconds: float | None) -> float | None:
    """Return a time as written.

    It is moved by the utterance's offset, and in whole units up to the end of its audio.
    """
    if finite(seconds) is None or seconds is None:
        return None
    first_unit = math.ceil(shift_s * UNITS_PER_S - 1e-4)
    return max(time_units(seconds + shift_s, last_unit), first_unit) / UNITS_PER_S


def _number(value: float | None) -> float | None:
    value = finite(value)
    if value is None:
        return None
    return round(value, _DECIMALS)


def _plain(value: Any) -> Any:
    """Return settings as plain JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return finite(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


class JsonWriter(Writer):
    """The whole alignment, with one word per line, so that people and diffs can read it.

    Nothing is lost: control characters and direction marks are written as JSON's escapes, bytes of
    file names that are not UTF-8 as halves of surrogate pairs (`\\udcff`).
    """

    encoding_errors = "backslashreplace"  # which is JSON's own escape for half a surrogate pair

    def write(self, alignment: Alignment, file: TextIO) -> None:
        for piece in _pieces(_object(alignment, self.style(alignment))):
            file.write(piece)


def json_bytes(data: Mapping[str, Any]) -> bytes:
    """Return an alignment's JSON object in the layout of its file, with one word per line.

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


def read_object(path: str | Path) -> JsonObject:
    """Return the JSON object of an alignment as in the file.

    Raises:
        InputError: the file cannot be read, is not JSON, or is not in this format.
    """
    try:
        data = read_input(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_object(data, str(path))


def parse_object(data: bytes, name: str) -> JsonObject:
    """Return the JSON object of an alignment in the bytes of a file, called `name`.

    Raises what `read_object` raises.
    """
    try:
        found = parse_json(data.decode("utf-8-sig"), parse_constant=no_number)
    except ValueError as error:
        raise InputError(f"{name}: not JSON that can be read: {error}") from error
    check_format(found, name)
    return found


def check_format(data: Any, name: str) -> None:
    """Raise InputError, which begins with `name`, unless `data` is the object of an alignment."""
    format = data.get("format") if isinstance(data, dict) else None
    if format != FORMAT:
        got = "other JSON"
        if format is not None:
            got = shown(format)
        raise InputError(f'{name}: expected an alignment of format "{FORMAT}", got {got}')


def no_number(constant: str) -> float:
    """Refuse NaN and Infinity, which are not JSON; for `parse_constant`."""
    raise ValueError(f"{constant} is not a number of JSON")


def alignment_fields(data: JsonObject, name: str | Path = "the JSON object") -> JsonObject:
    """Return the fields of an alignment from a JSON object that `to_dict` made.

    Times count from the start of the utterance. `name` is what error messages call the object.
    Unknown fields are ignored, because a later version may have written them.

    Raises:
        InputError: a field is missing, has the wrong type or is out of range, or its words are
            impossible.
    """
    try:
        fields = _fields(Fields(data))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not a whole alignment: {error}") from error
    check_fixed_words(fields["words"], fields["text"], fields["duration_s"], str(name))
    return fields


class Fields:
    """The fields of a JSON object, each converted to its required type.

    `path` is the object's path in messages.

    Raises:
        ValueError: this is not an object, or a field is missing or invalid.
    """

    def __init__(self, data: Any, path: str = "") -> None:
        if not isinstance(data, dict):
            raise ValueError(f"expected {path or 'an alignment'} as an object, got {shown(data)}")
        self.data = data
        self.path = path

    def path_of(self, key: str) -> str:
        if self.path:
            return f"{self.path}.{key}"
        return key

    def value(self, key: str) -> Any:
        if key not in self.data:
            raise ValueError(f"{self.path_of(key)} is missing")
        return self.data[key]

    def take(
        self,
        key: str,
        kind: str,
        convert: Callable[[Any], Item],
        types: tuple[type, ...] = (int, float),
    ) -> Item:
        """Return a field of some types, converted by `convert`.

        `kind` describes the expected value in messages.
        """
        value = self.value(key)
        try:
            if not isinstance(value, types):
                raise TypeError
            return convert(value)
        except (ValueError, TypeError):
            raise ValueError(f"{self.path_of(key)}: expected {kind}, got {shown(value)}") from None

    def text(self, key: str, *default: str) -> str:
        if default and self.data.get(key) is None:
            return default[0]
        return self.take(key, "a text", str, (str,))

    def seconds(self, key: str) -> float:
        return self.take(key, "a number of seconds", as_seconds)

    def seconds_or_none(self, key: str) -> float | None:
        if self.value(key) is None:
            return None
        return self.seconds(key)

    def number_or_none(self, key: str) -> float | None:
        if self.data.get(key) is None:
            return None
        return self.take(key, "a finite number", as_number)

    def share_or_none(self, key: str, whole: int = 1) -> float | None:
        if key in self.data:
            value = self.number_or_none(key)
        else:
            value = self.value(key)
        if value is not None and not 0 <= value <= whole:
            raise ValueError(
                f"{self.path_of(key)}: expected a number from 0 to {whole}, got {shown(value)}"
            )
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.text(key)
        if value not in choices:
            raise ValueError(
                f"{self.path_of(key)}: expected one of {', '.join(choices)}, got {shown(value)}"
            )
        return value

    def yes_or_no(self, key: str) -> bool:
        """Return a boolean, False if the key is missing."""
        return self.data.get(key) is not None and self.take(key, "true or false", bool, (bool,))

    def from_zero(self, key: str) -> float | None:
        """Return a number that is not negative, None if there is none."""
        value = self.number_or_none(key)
        if value is not None and value < 0:
            raise ValueError(f"{self.path_of(key)}: expected a number from 0, got {shown(value)}")
        return value

    def whole(self, key: str, *default: int) -> int:
        if default and key not in self.data:
            return default[0]
        return self.take(key, "a whole number from 0", as_whole)

    def whole_or_none(self, key: str) -> int | None:
        if self.value(key) is None:
            return None
        return self.whole(key)

    def objects(self, key: str, *default: list[Any]) -> list[Fields]:
        """Return the objects in a list."""
        if default and self.data.get(key) is None:
            items = default[0]
        else:
            items = self.take(key, "a list", list, (list, tuple))
        return [Fields(item, f"{self.path_of(key)}[{number}]") for number, item in enumerate(items)]


def _fields(data: Fields) -> JsonObject:
    texts = {key: data.text(key) for key in ("utterance", "audio", "model", "backend", "text")}
    config = _config(data)
    offset_s = data.seconds("offset_s")
    shift_s = 0.0
    if config.get("times") == RECORDING:
        shift_s = -offset_s
    loss = data.number_or_none("loss")
    score = data.number_or_none("score")
    duration_s = data.seconds("duration_s")
    frame_shift_s = data.seconds("frame_shift_s")
    if duration_s <= 0 or frame_shift_s <= 0:
        got = f"{duration_s} and {frame_shift_s}"
        raise ValueError(f"duration_s, frame_shift_s: expected seconds above 0, got {got}")
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
        "local_loss": data.from_zero("local_loss"),
        "unknown": data.whole("unknown"),
        "words": tuple(_aligned_word(word, shift_s) for word in data.objects("words")),
        "unknown_letters": {key: letters.whole(key) for key in letters.data},
        "token_kind": data.text("token_kind", "tokens") or "tokens",
        "unexplained": tuple(
            (_moved(part.seconds("start_s"), shift_s), _moved(part.seconds("end_s"), shift_s))
            for part in data.objects("unexplained", [])
        ),
        "fit": fit,
        "checked": data.yes_or_no("checked"),
        "subtitles": _subtitles(data),
        "places": tuple(_book_place(place) for place in data.objects("places", [])),
        "regions": tuple(_region(part, shift_s) for part in data.objects("regions", [])),
        "written": parse_written(data.data.get("written")),
        "text_offset": None if data.data.get("text_offset") is None else data.whole("text_offset"),
        "config": config,
    }


def _config(data: Fields) -> JsonObject:
    config = Fields(data.value("config"), "config")
    check_depth(config.data)
    try:
        known_settings(
            {key: value for key, value in config.data.items() if key in _CHECKED}, "config."
        )
    except ConfigError as error:
        raise ValueError(one_line(error)) from None
    return dict(config.data)


def _subtitles(data: Fields) -> Subtitles | None:
    if data.data.get("subtitles") is None:
        return None
    subtitles = Fields(data.data["subtitles"], "subtitles")
    format = subtitles.choice("format", CUE_FORMATS)
    cues = tuple(map(_cue, subtitles.objects("cues")))
    document = subtitles.text("document", "")
    if format in (TEXTGRID, EAF):
        from ctc_align.files.elan import read_elan
        from ctc_align.files.textgrid import textgrid_layout

        try:
            (textgrid_layout if format == TEXTGRID else read_elan)(document, "subtitles.document")
        except InputError as error:
            raise ValueError(str(error)) from error
    return Subtitles(format, subtitles.text("header"), cues, subtitles.text("after"), document)


def _cue(cue: Fields) -> SourceCue:
    start_s, end_s = cue.seconds("start_s"), cue.seconds("end_s")
    if not 0 <= start_s <= end_s:
        raise ValueError(
            f"{cue.path}: expected times from 0 on, start_s up to end_s, got {start_s} and {end_s}"
        )
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
    href = place.text("href")
    if not href:
        raise ValueError(
            f"{place.path_of('href')}: expected the name of a page of the book, got an empty text"
        )
    return BookPlace(*_characters(place), href, place.text("id", ""), place.text("cfi", ""))


def _region(part: Fields, shift_s: float) -> Region:
    kind = part.choice("kind", REGION_KINDS)
    times = [_moved(part.seconds_or_none(key), shift_s) for key in ("start_s", "end_s")]
    span = [part.whole_or_none(key) for key in ("char_start", "char_end")]
    if None in (times if kind == UNEXPLAINED else span):
        where = "characters"
        if kind == UNEXPLAINED:
            where = "times"
        raise ValueError(f"{part.path}: expected the {where} of a region of kind {kind}, got null")
    return Region(kind, times[0], times[1], span[0], span[1], part.text("reason", ""))


def _moved(seconds: float | None, shift_s: float) -> Any:
    """Return a time of the file as one from the start of the utterance.

    Raises ValueError if it lies before that.
    """
    if seconds is not None and seconds + shift_s < -SLACK_S:
        raise ValueError(f"expected times from the start of the utterance on, got {seconds} s")
    if seconds is None:
        return None
    return max(round(seconds + shift_s, _DECIMALS), 0.0)


def _characters(item: Fields) -> tuple[int, int]:
    start, end = item.whole("char_start"), item.whole("char_end")
    if start > end:
        raise ValueError(f"{item.path}: expected char_start up to char_end, got {start} and {end}")
    return start, end


def _aligned_word(word: Fields, shift_s: float) -> AlignedWord:
    status = word.choice("status", STATUSES)
    timed = _timed(word, shift_s)
    tokens = word.objects("tokens")
    by = _by(word)
    known = timed["start_s"], timed["end_s"], timed["confidence"] if not by else 0.0
    if status == ALIGNED and None in known:
        raise ValueError(f"{word.path}: expected times and confidence of an aligned word, got null")
    if status != ALIGNED:
        _check_bare(word.path, status, {**timed, "tokens": tokens or None, "by": by or None})
    kind = ""
    if word.data.get("kind") and status != ALIGNED:
        kind = word.choice("kind", UNSPOKEN_KINDS)
    start, end = _characters(word)
    return AlignedWord(
        text=word.text("text"),
        spoken=word.text("spoken"),
        char_start=start,
        char_end=end,
        status=status,
        kind=kind,
        speaker=word.text("speaker", ""),
        language=word.text("language", ""),
        by=by,
        tokens=tuple(_token(token, shift_s) for token in tokens),
        **timed,
    )


def _check_bare(path: str, status: str, fields: JsonObject) -> None:
    """Raise ValueError if a word without times still has fields of an aligned one.

    Fields that are None do not count.
    """
    left = [name for name, value in fields.items() if value is not None]
    if left:
        raise ValueError(
            f"{path}: expected no times, confidence, tokens or `by` of a word that is {status}, got"
            f" {', '.join(left)}: remove them, or make the word {ALIGNED}"
        )


def _token(token: Fields, shift_s: float) -> AlignedToken:
    timed = _timed(token, shift_s)
    if None in (timed["start_s"], timed["end_s"], timed["confidence"]):
        raise ValueError(f"{token.path}: expected times and confidence of a token, got null")
    rated: dict[str, Any] = {}
    if token.data.get("gop") is not None:
        rated = {"gop": token.number_or_none("gop"), "heard": token.text("heard", "")}
    if rated and "gop_percentile" in token.data:
        rated["gop_percentile"] = token.share_or_none("gop_percentile", 100)
    return AlignedToken(token.text("token"), **timed, by=_by(token), **rated)


def _by(item: Fields) -> str:
    """Return `HAND` if a person has fixed a word or token, otherwise ""."""
    if item.data.get("by") is None:
        return ""
    return item.choice("by", (HAND,))


def _timed(item: Fields, shift_s: float) -> JsonObject:
    """Return the times of a word or token, moved.

    With their standard deviations and `by`, if known.
    """
    start_s, end_s = item.seconds_or_none("start_s"), item.seconds_or_none("end_s")
    if start_s is not None and end_s is not None and start_s > end_s:
        raise ValueError(f"{item.path}: expected start_s up to end_s, got {start_s} and {end_s}")
    return {
        "start_s": _moved(start_s, shift_s),
        "end_s": _moved(end_s, shift_s),
        "confidence": item.share_or_none("confidence"),
        "start_sd_ms": item.from_zero("start_sd_ms"),
        "end_sd_ms": item.from_zero("end_sd_ms"),
    }


def is_fixed(word: AlignedWord) -> bool:
    """Return whether a person has fixed the edges of a word."""
    return word.by == HAND


def fixes_of(words: Sequence[AlignedWord]) -> set[tuple[object, ...]]:
    """Return what a person has fixed.

    The spans and times, in seconds, of words, and the tokens in them.
    """
    return {
        (
            word.char_start,
            word.text,
            word.start_s,
            word.end_s,
            tuple(token for token in word.tokens if token.by),
        )
        for word in words
        if is_fixed(word)
    }


def fixed_name(word: AlignedWord) -> str:
    """Return a word with its times, for messages.

    >>> fixed_name(AlignedWord("We", "we", 0, 2, start_s=0.1, end_s=0.25, by="hand"))
    "'We' (0.100–0.250 s, by hand)"
    """
    if len(word.text) <= _LONGEST_NAME:
        text = word.text
    else:
        text = word.text[:_LONGEST_NAME] + "…"
    if word.start_s is None or word.end_s is None:
        return repr(text)
    by = ""
    if is_fixed(word):
        by = ", by hand"
    return f"{text!r} ({word.start_s:.3f}–{word.end_s:.3f} s{by})"


def check_fixed_words(
    words: Sequence[AlignedWord], text: str, duration_s: float, name: str
) -> None:
    """Raise InputError if words are impossible (overlaps, times outside …).

    Whether they are by hand or not; the message begins with `name`.

    Args:
        words: those of the transcript, in order; a word with times has both.
        text: the transcript.
        duration_s: length of the utterance.
        name: the file.
    """
    faults = (
        _fault_of_spans(words, text),
        *(_fault_of_word(word, duration_s) for word in words),
        _crossing(words),
    )
    fault = next((fault for fault in faults if fault is not None), None)
    if fault is not None:
        raise InputError(f"{name}: {fault}")


def _fault_of_spans(words: Sequence[AlignedWord], text: str) -> str | None:
    end = 0
    for number, word in enumerate(words, 1):
        own = f"word {number} {fixed_name(word)}"
        if word.char_start < end:
            return (
                f"{own} begins at character {word.char_start}, before the word before it ends"
                f" ({end}): move it"
            )
        if text[word.char_start : word.char_end] != word.text or word.char_end > len(text):
            there = text[word.char_start : word.char_end][:_LONGEST_NAME]
            return (
                f"{own}: `text` has {there!r} at characters {word.char_start}:{word.char_end}; a"
                " word that is changed must be changed in `text`, too, and the spans after it"
                " moved"
            )
        end = word.char_end
    return None


def _fault_of_word(word: AlignedWord, duration_s: float) -> str | None:
    if not is_fixed(word):
        fixed = next((token for token in word.tokens if token.by), None)
        if fixed is not None:
            return (
                f"token {fixed.token!r} of {fixed_name(word)} is hand-corrected, its word is not:"
                ' give it "by", too'
            )
    if word.start_s is None or word.end_s is None:
        return None
    if word.start_s >= word.end_s and is_fixed(word):
        return f"{fixed_name(word)} is empty: give it an end after its start, or delete it"
    if word.end_s > duration_s + SLACK_S:
        return f"{fixed_name(word)} leaves the recording, which is {duration_s:.3f} s long: move it"
    times = [
        word.start_s,
        *(time_s for token in word.tokens for time_s in (token.start_s, token.end_s)),
        word.end_s,
    ]
    empty: AlignedToken | None = next(
        (token for token in word.tokens if token.start_s >= token.end_s), None
    )
    empty = empty if is_fixed(word) else None  # rounding may leave nothing of what a model placed
    if empty is None and all(before <= after + SLACK_S / 10 for before, after in pairwise(times)):
        return None
    which = "its tokens cross each other or its edges"
    if empty:
        which = f"its token {empty.token!r} is empty"
    return f'{fixed_name(word)}: {which}: move them, or give it "tokens": [] to have them placed'


def _crossing(words: Sequence[AlignedWord]) -> str | None:
    """Return the fault of a word that overlaps another word."""
    timed = [
        (word.start_s, word.end_s, word)
        for word in words
        if word.start_s is not None and word.end_s is not None
    ]
    for (_, end_s, before), (start_s, _, after) in pairwise(sorted(timed, key=lambda row: row[:2])):
        if start_s < end_s - SLACK_S / 10:
            return (
                f"{fixed_name(before)} and {fixed_name(after)} overlap: move the edges of one of"
                " them"
            )
    return None
