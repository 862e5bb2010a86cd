"""The JSON of format "ctc-align/1": the whole alignment, written and read.

The reader checks the type and range of every field, so that all writers may trust them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ctc_align._version import __version__
from ctc_align.config import known_settings
from ctc_align.errors import ConfigError, InputError, one_line
from ctc_align.files.cues import fast_cues
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
        **_keep_known(text_offset=alignment.text_offset),
        "words": words,
        "unexplained": [
            {"start_s": time_s(start_s), "end_s": time_s(end_s)}
            for start_s, end_s in alignment.unexplained
        ],
        "regions": [
            {**vars(region), "start_s": time_s(region.start_s), "end_s": time_s(region.end_s)}
            for region in alignment.regions
        ],
        **keep_filled(subtitles=alignment.subtitles and _subtitles_object(alignment.subtitles)),
        **keep_filled(fast_cues=[cue._asdict() for cue in fast_cues(alignment, style)]),
        **keep_filled(written=alignment.written and written_object(alignment.written)),
        **keep_filled(places=list(map(_filled, alignment.places))),
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
    return _keep_known(
        gop=finite(token.gop), gop_percentile=token.gop_percentile, heard=token.heard
    )


def _keep_known(**fields: Any) -> JsonObject:
    """Return the fields of a JSON object without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _filled(item: SourceCue | BookPlace) -> JsonObject:
    """Return the fields of a cue, or of a place in a book, without empty ones."""
    data = {field.name: getattr(item, field.name) for field in fields(item)}
    return {key: value for key, value in data.items() if value not in ("", None)}


def _subtitles_object(subtitles: Subtitles) -> JsonObject:
    """Return the cues of the transcript, with their times in its file; omit empty fields."""
    return {
        "format": subtitles.format,
        "header": subtitles.header,
        "after": subtitles.after,
        **keep_filled(document=subtitles.document),
        "cues": list(map(_filled, subtitles.cues)),
    }


def _spread(edged: AlignedWord | AlignedToken) -> dict[str, float]:
    """Return the standard deviations of the edges, if they are known."""
    both = {"start_sd_ms": finite(edged.start_sd_ms), "end_sd_ms": finite(edged.end_sd_ms)}
    return {key: round(sd, 2) for key, sd in both.items() if sd is not None}


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
        found = _fields(Fields(data))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not a whole alignment: {error}") from error
    check_fixed_words(found["words"], found["text"], found["duration_s"], str(name))
    return found


class FieldKind(NamedTuple):
    """A kind of field.

    Attributes:
        expected: its value, in messages.
        convert: takes a value of JSON; raises ValueError or TypeError for one that does not fit.
        types: of the values of JSON that fit.
    """

    expected: str
    convert: Callable[[Any], Any]
    types: tuple[type, ...] = (int, float)


def _one_of(*choices: str) -> FieldKind:
    """Return the kind of a field that has one of some texts."""
    return FieldKind(
        f"one of {', '.join(choices)}", lambda value: choices[choices.index(value)], (str,)
    )


def _from_zero(value: object, most: float = math.inf) -> float:
    """Return a number from 0 on; raise ValueError for any other."""
    number = as_number(value)
    if not 0 <= number <= most:
        raise ValueError("out of range")
    return number


_TEXT = FieldKind("a text", str, (str,))
_WHOLE = FieldKind("a whole number from 0", as_whole)
_REGION_KIND = _one_of(*REGION_KINDS)
_UNSPOKEN_KIND = _one_of(*UNSPOKEN_KINDS, "")
_KIND_OF = {
    name: kind
    for names, kind in {
        "offset_s duration_s frame_shift_s start_s end_s": FieldKind(
            "a number of seconds", as_seconds
        ),
        "loss score loss_per_token gop": FieldKind("a finite number", as_number),
        "local_loss start_sd_ms end_sd_ms": FieldKind("a number from 0", _from_zero),
        "confidence": FieldKind("a number from 0 to 1", partial(_from_zero, most=1)),
        "gop_percentile": FieldKind("a number from 0 to 100", partial(_from_zero, most=100)),
        "unknown char_start char_end text_offset": _WHOLE,
        "checked": FieldKind("true or false", bool, (bool,)),
        "fit": _one_of(*FITS),
        "status": _one_of(*STATUSES),
        "by": _one_of(HAND),
        "format": _one_of(*CUE_FORMATS),
        "words tokens unexplained places regions cues": FieldKind("a list", list, (list, tuple)),
        "config unknown_letters subtitles written": FieldKind("an object", dict, (dict,)),
    }.items()
    for name in names.split()
}
"""The kinds of fields by their names; all others are texts."""


@cache
def _names_of(of: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(of))


class Fields:
    """The fields of a JSON object, each converted to its kind.

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

    def get(self, key: str, kind: FieldKind | None = None) -> Any:
        """Return a field of its kind, or of another one; None if it is missing or null."""
        value = self.data.get(key)
        if value is None:
            return None
        kind = kind or _KIND_OF.get(key, _TEXT)
        try:
            if not isinstance(value, kind.types):
                raise TypeError
            return kind.convert(value)
        except (ValueError, TypeError):
            raise ValueError(
                f"{self.path_of(key)}: expected {kind.expected}, got {shown(value)}"
            ) from None

    def need(self, keys: str) -> None:
        """Raise ValueError unless these fields are there, not null."""
        for key in keys.split():
            if self.data.get(key) is None:
                raise ValueError(f"{self.path_of(key)} is missing")

    def known(self, of: Any) -> JsonObject:
        """Return the fields of a class that are there, not null."""
        names = _names_of(of)
        return {
            key: self.get(key)
            for key, value in self.data.items()
            if value is not None and key in names
        }

    def objects(self, key: str) -> list[Fields]:
        """Return the objects in a list; [] if it is missing."""
        return [
            Fields(item, f"{self.path_of(key)}[{number}]")
            for number, item in enumerate(self.get(key) or ())
        ]


def _fields(data: Fields) -> JsonObject:
    data.need("utterance audio model backend text offset_s duration_s frame_shift_s unknown words")
    config = _config(data)
    known = data.known(Alignment)
    shift_s = 0.0
    if config.get("times") == RECORDING:
        shift_s = -known["offset_s"]
    lengths = (known["duration_s"], known["frame_shift_s"])
    if min(lengths) <= 0:
        got = f"{lengths[0]} and {lengths[1]}"
        raise ValueError(f"duration_s, frame_shift_s: expected seconds above 0, got {got}")
    letters = Fields(known.get("unknown_letters", {}), "unknown_letters")
    return {
        "loss": math.inf,
        "score": -math.inf,
        **known,
        "token_kind": known.get("token_kind") or "tokens",
        "words": tuple(_aligned_word(word, shift_s) for word in data.objects("words")),
        "unknown_letters": {
            key: count for key in letters.data if (count := letters.get(key, _WHOLE))
        },
        "unexplained": tuple(_stretch(part, shift_s) for part in data.objects("unexplained")),
        "subtitles": _subtitles(data),
        "places": tuple(map(_book_place, data.objects("places"))),
        "regions": tuple(_region(part, shift_s) for part in data.objects("regions")),
        "written": parse_written(known.get("written")),
        "config": config,
    }


def _stretch(part: Fields, shift_s: float) -> tuple[float, float]:
    part.need("start_s end_s")
    return _moved(part.get("start_s"), shift_s), _moved(part.get("end_s"), shift_s)


def _config(data: Fields) -> JsonObject:
    data.need("config")
    config = Fields(data.get("config"), "config")
    check_depth(config.data)
    try:
        known_settings(
            {key: value for key, value in config.data.items() if key in _CHECKED}, "config."
        )
    except ConfigError as error:
        raise ValueError(one_line(error)) from None
    return dict(config.data)


def _subtitles(data: Fields) -> Subtitles | None:
    if data.get("subtitles") is None:
        return None
    subtitles = Fields(data.get("subtitles"), "subtitles")
    subtitles.need("format header cues after")
    known = subtitles.known(Subtitles)
    if known["format"] in (TEXTGRID, EAF):
        from ctc_align.files.elan import read_elan
        from ctc_align.files.textgrid import textgrid_layout

        read = textgrid_layout if known["format"] == TEXTGRID else read_elan
        try:
            read(known.get("document", ""), "subtitles.document")
        except InputError as error:
            raise ValueError(str(error)) from error
    return Subtitles(**{**known, "cues": tuple(map(_cue, subtitles.objects("cues")))})


def _cue(cue: Fields) -> SourceCue:
    cue.need("start_s end_s")
    start_s, end_s = cue.get("start_s"), cue.get("end_s")
    if not 0 <= start_s <= end_s:
        raise ValueError(
            f"{cue.path}: expected times from 0 on, start_s up to end_s, got {start_s} and {end_s}"
        )
    return SourceCue(**_with_span(cue, cue.known(SourceCue)))


def _book_place(place: Fields) -> BookPlace:
    if place.get("href") == "":
        raise ValueError(
            f"{place.path_of('href')}: expected the name of a page of the book, got an empty text"
        )
    place.need("href")
    return BookPlace(**_with_span(place, place.known(BookPlace)))


def _region(part: Fields, shift_s: float) -> Region:
    part.need("kind")
    kind = part.get("kind", _REGION_KIND)
    where = "start_s end_s" if kind == UNEXPLAINED else "char_start char_end"
    if any(part.get(key) is None for key in where.split()):
        what = "times" if kind == UNEXPLAINED else "characters"
        raise ValueError(f"{part.path}: expected the {what} of a region of kind {kind}, got null")
    return Region(**_timed(part, Region, shift_s))


def _moved(seconds: float, shift_s: float) -> float:
    """Return a time of the file as one from the start of the utterance.

    Raises ValueError if it lies before that.
    """
    if seconds + shift_s < -SLACK_S:
        raise ValueError(f"expected times from the start of the utterance on, got {seconds} s")
    return max(round(seconds + shift_s, _DECIMALS), 0.0)


def _with_span(item: Fields, known: JsonObject) -> JsonObject:
    """Return fields with a span of the text, which is checked."""
    item.need("char_start char_end")
    start, end = known["char_start"], known["char_end"]
    if start > end:
        raise ValueError(f"{item.path}: expected char_start up to char_end, got {start} and {end}")
    return known


def _aligned_word(word: Fields, shift_s: float) -> AlignedWord:
    word.need("text spoken status tokens")
    known = _with_span(word, _timed(word, AlignedWord, shift_s))
    needed = ("start_s", "end_s", "confidence")[: 2 if "by" in known else 3]
    if known["status"] != ALIGNED:
        _check_bare(word.path, known)
        known["kind"] = word.get("kind", _UNSPOKEN_KIND) or ""
    elif not known.keys() >= {*needed}:
        raise ValueError(f"{word.path}: expected times and confidence of an aligned word, got null")
    else:
        known.pop("kind", None)
    tokens = tuple(_token(token, shift_s) for token in word.objects("tokens"))
    return AlignedWord(**{**known, "tokens": tokens})


def _check_bare(path: str, known: JsonObject) -> None:
    """Raise ValueError if a word without times still has fields of an aligned one."""
    names = ("start_s", "end_s", "confidence", "start_sd_ms", "end_sd_ms", "tokens", "by")
    left = [name for name in names if known.get(name) not in (None, [])]
    if left:
        raise ValueError(
            f"{path}: expected no times, confidence, tokens or `by` of a word that is"
            f" {known['status']}, got {', '.join(left)}: remove them, or make the word {ALIGNED}"
        )


def _token(token: Fields, shift_s: float) -> AlignedToken:
    token.need("token")
    known = _timed(token, AlignedToken, shift_s)
    if not known.keys() >= {"start_s", "end_s", "confidence"}:
        raise ValueError(f"{token.path}: expected times and confidence of a token, got null")
    if "gop" in known:
        known.setdefault("heard", "")
    return AlignedToken(**known)


def _timed(item: Fields, of: Any, shift_s: float) -> JsonObject:
    """Return the fields of a class that has times, which are moved."""
    known = item.known(of)
    start_s, end_s = known.get("start_s"), known.get("end_s")
    if start_s is not None and end_s is not None and start_s > end_s:
        raise ValueError(f"{item.path}: expected start_s up to end_s, got {start_s} and {end_s}")
    for name in known.keys() & {"start_s", "end_s"}:
        known[name] = _moved(known[name], shift_s)
    return known


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
