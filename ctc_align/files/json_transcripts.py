"""Transcripts in JSON of other programs, read by a table of dialects.

To read another dialect, add its row to `json_dialects.toml`. A row says where the segments or words are, and
which keys have their text, times and speaker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ctc_align.errors import TranscriptError, WrongFileError
from ctc_align.files.foreign_transcripts import (
    Segment,
    join_words,
    segments_transcript,
    with_marks,
)
from ctc_align.reading import as_seconds, clock_seconds, parse_json, parse_toml, shown
from ctc_align.text.characters import lazy_regex, printable
from ctc_align.text.note_kinds import name_first
from ctc_align.types import FORMAT, Transcript


class Dialect(NamedTuple):
    """A dialect of JSON.

    A path is keys with dots between them: `0` and `-1` are indices of a list, `*` all its items.
    Where several paths have a bar between them (`a.b|c`), the first that has a value counts.

    Attributes:
        items: paths of the segments or words; "" is the whole file.
        program: in messages; "" for any program that writes such segments, all of which must have a
            text.
        text: paths in an item; the texts of a list are joined.
        start, end: paths in an item; "+" before a path of an end means that it is a length.
        per_s: units of time per second.
        is_words: whether the items are words.
        glue: stands between words, and between the texts of a list.
        whole: path of the texts from which words get their marks and spaces.
        turns: path of objects with the starts and the speakers of words that have none.
        when: paths that must have a value in the file, or with "!" before them must have none.
    """

    items: str
    program: str = ""
    text: str = "text|segment|sentence|words|transcript|utterance|caption|line"
    start: str = "start|start_s|start_time|startTime|startSec|begin|timestamp.0|offsets.from"
    end: str = (
        "end|end_s|end_time|endTime|endSec|stop|stopTime|finish|timestamp.1|offsets.to|+duration"
    )
    per_s: float = 1.0
    is_words: bool = False
    glue: str = " "
    whole: str = ""
    turns: str = ""
    when: str = ""


_SPEAKER = (
    "speaker_info.display_name|speaker_name|speaker|speaker_id|speaker_label|speakerLabel|speakerTag"
    "|speaker_tag|SpeakerId|Speaker|ParticipantRole"
)
_CHANNEL = "channel|channel_label|channelTag|channel_tag|Channel|ChannelNumber|channels#"
"""Paths of the speaker and the channel in an item, or in an object around it; `channels#` is the
index in such a list."""


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return the rows of `json_dialects.toml`, in the order in which they are tried."""
    path = Path(__file__).with_name("json_dialects.toml")
    return tuple(Dialect(**row) for row in parse_toml(path.read_text("utf-8"))["dialect"])


def programs() -> list[str]:
    """Return the programs whose JSON is known by its name."""
    return list(dict.fromkeys(filter(None, (dialect.program for dialect in dialects()))))


_ENVELOPES = ("response", "result", "data")
"""Keys of the one value of an answer."""
_SOUNDS = ("audio_filepath", "audio")
_CLOCK = lazy_regex(r"(?:\d{1,4}:){1,2}\d{1,4}(?:[.,]\d+)?")
_MOST_KEYS = 8
"""The most keys that a message names."""
_UNITS_OF_NANOS = 1e-9
_LETTERS = lazy_regex(r"[^\W\d_]")
_FEWEST = 2
_LEAST_PER_S = 0.3
"""Characters a second below which times are hardly seconds, but milliseconds or hundredths."""


def parse_json_transcript(text: str, source: str) -> Transcript | None:
    """Return the transcript in a JSON text, None if it is not JSON or nothing in it has times.

    Segments become cues, each a line of text. For an alignment of this package, the transcript is
    its `text`.

    Args:
        text: of the file.
        source: the file's name, for messages.

    Raises:
        TranscriptError: a segment has no text, or its times are not numbers; the message names it.
        WrongFileError: no dialect fits, but there are segments with times.

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
    for root in _roots(data):
        for dialect, path in (
            (each, path) for each in dialects() for path in each.items.split("|")
        ):
            items = list(_walk(root, path))
            if _fits(dialect, root, items):
                segments = _segments(dialect, root, items, source)
                if not dialect.program:
                    _require_seconds(segments, source)
                return segments_transcript(segments)
    _refuse_unknown(data, source)
    return None


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


def _roots(data: Any) -> list[Any]:
    """Return a value, and what is alone in it: the answer in an envelope, a list's one item."""
    roots = [data]
    if isinstance(data, dict):
        roots += [data[key] for key in _ENVELOPES if isinstance(data.get(key), dict)]
    elif isinstance(data, list) and len(data) == 1:
        roots += data
    return roots


_Item = tuple[Any, Mapping[str, Any]]
"""A value and the keys of the objects around it, the inner ones before the outer ones."""


def _walk(value: Any, path: str, around: Mapping[str, Any] | None = None) -> Iterator[_Item]:
    """Yield the values at a path."""
    around = around or {}
    key, _, rest = path.partition(".")
    if not path:
        yield value, around
    elif key == "*" and isinstance(value, list):
        list_name = around.get("")
        for index, item in enumerate(value):
            yield from _walk(item, rest, {**around, f"{list_name}#": index})
    elif isinstance(value, list) and key.lstrip("-").isdigit():
        if -len(value) <= int(key) < len(value):
            yield from _walk(value[int(key)], rest, around)
    elif isinstance(value, dict) and key in value:
        yield from _walk(value[key], rest, {**around, **value, "": key})


def _value(value: Any, paths: str) -> Any:
    """Return the first value at some paths; None if there is none."""
    found = (item for path in paths.split("|") if path for item, _ in _walk(value, path))
    return next((item for item in found if item not in (None, "")), None)


def _text(dialect: Dialect, item: Any) -> str | None:
    """Return the text of an item; None if it has none."""
    for path in dialect.text.split("|"):
        texts = [value for value, _ in _walk(item, path) if isinstance(value, str)]
        if texts:
            return dialect.glue.join(texts)
    return None


def _fits(dialect: Dialect, root: Any, items: Sequence[_Item]) -> bool:
    """Return whether a dialect's items are there, with texts and times.

    They must not be lines of a manifest.
    """
    for paths in dialect.when.split():
        if (_value(root, paths.lstrip("!")) in (None, 0)) != paths.startswith("!"):
            return False
    if not dialect.program:
        items = items[:1]  # all are like the first
    times = f"{dialect.start}|{dialect.end}".replace("+", "")
    return any(
        isinstance(item, dict)
        and not any(key in item for key in _SOUNDS)
        and _text(dialect, item) is not None
        and _value(item, times) is not None
        for item, _ in items
    )


def _segments(dialect: Dialect, root: Any, items: Sequence[_Item], source: str) -> list[Segment]:
    """Return the segments of a file in a dialect."""
    names = {
        str(value.get("id")): value.get("name")
        for value, _ in _walk(root, "speakers.*")
        if isinstance(value, dict)
    }
    turns = {
        str(_value(value, dialect.start)): _value(value, _SPEAKER)
        for value, _ in (_walk(root, dialect.turns) if dialect.turns else ())
    }
    owners = list(map(_with_around, items))
    channels = [_value(owner, _CHANNEL) for owner in owners]
    has_channels = len({str(channel) for channel in channels if channel is not None}) > 1
    found: list[Segment] = []
    for number, ((item, _), owner, channel) in enumerate(zip(items, owners, channels), 1):
        written = _text(dialect, item) if isinstance(item, dict) else None
        if written is None:
            if dialect.program:
                continue
            raise TranscriptError(
                f"{source}, segment {number}: expected a segment with its text, as in the others,"
                f" got {shown(item)}; correct it, or give the words alone as a text file"
            )
        start_s, end_s = _times(dialect, item, f"{source}, segment {number}")
        speaker = _value(owner, _SPEAKER)
        if speaker is None:
            speaker = turns.get(str(_value(item, dialect.start)))
        name = _name("speaker", names.get(str(speaker)) or speaker)
        if has_channels:
            name = f"{_name('channel', channel)} {name}".strip()
        if dialect.is_words and start_s is None and found and speaker is None:
            name = found[-1].speaker
        if dialect.is_words and _LETTERS.search(written):
            written = dialect.glue + written
        found.append(Segment(start_s, end_s, written, name))
    if {segment.speaker for segment in found} == {"speaker 0"}:  # nobody is told apart
        found = [segment._replace(speaker="") for segment in found]
    if not dialect.is_words:
        return found
    if dialect.whole:
        whole = " ".join(value for value, _ in _walk(root, dialect.whole) if isinstance(value, str))
        found = with_marks(found, whole)
    if has_channels:
        found.sort(key=lambda word: word.speaker)
    return list(join_words(found))


def _with_around(each: _Item) -> Mapping[str, Any]:
    """Return the keys of an item and of the objects around it."""
    item, around = each
    return {**around, **item} if isinstance(item, dict) else around


def _name(what: str, value: Any) -> str:
    """Return the name of a speaker or a channel that may be a number: "speaker 0"."""
    if value is None:
        return ""
    name = " ".join(str(value).split())
    return f"{what} {name}" if name.isdecimal() else name


def _times(dialect: Dialect, item: Any, where: str) -> tuple[float | None, float | None]:
    """Return the times of an item in seconds, None for a missing one."""
    try:
        start_s = _seconds(_value(item, dialect.start), dialect.per_s)
        for path in dialect.end.split("|"):
            end_s = _seconds(_value(item, path.lstrip("+")), dialect.per_s)
            if end_s is not None and path.startswith("+"):
                end_s += start_s or 0.0
            if end_s is not None:
                return start_s, end_s
    except ValueError as error:
        raise TranscriptError(
            f"{where}: expected its start and end in seconds, got {error}; correct that segment"
        ) from None
    return start_s, None


def _seconds(value: Any, per_s: float = 1.0) -> float | None:
    """Return a time in seconds, from a number, "1.2s", "00:00:01,200", or seconds and nanos.

    >>> _seconds("1.2s"), _seconds({"seconds": "1", "nanos": 200000000}), _seconds(1200, 1000)
    (1.2, 1.2, 1.2)
    """
    if value is None:
        return None
    if isinstance(value, dict):
        return as_seconds(value.get("seconds", 0)) + _UNITS_OF_NANOS * as_seconds(
            value.get("nanos", 0)
        )
    if isinstance(value, str) and _CLOCK.fullmatch(value):
        return clock_seconds(value)
    return as_seconds(value.removesuffix("s") if isinstance(value, str) else value) / per_s


def _require_seconds(segments: Sequence[Segment], source: str) -> None:
    """Raise WrongFileError if whole numbers are too large for seconds: nobody speaks so slowly."""
    times = [time for each in segments for time in (each.start_s, each.end_s) if time is not None]
    lengths = [(each.end_s or 0.0) - (each.start_s or 0.0) for each in segments]
    letters = sum(len(each.text) for each in segments)
    is_slow = len(segments) >= _FEWEST and letters < _LEAST_PER_S * sum(lengths)
    if is_slow and all(map(float.is_integer, times)):
        raise WrongFileError(
            f"{source}: its times, from {min(times):g} to {max(times):g}, are hardly seconds:"
            f" {letters} characters would last {sum(lengths):g} s; write them in seconds"
        )


def _refuse_unknown(data: Any, source: str) -> None:
    """Raise WrongFileError if a list in a value seems to hold segments: texts beside two times."""
    path, items = max(_timed_lists(data, ""), key=lambda each: len(each[1]), default=("", []))
    if len(items) < _FEWEST:
        return
    keys = printable(name_first(list(items[0]), len(items[0]), _MOST_KEYS))
    raise WrongFileError(
        f"{source}: JSON of an unknown program; it seems to hold {len(items)} segments under"
        f" {printable(path) or 'its list'}, with the keys {keys}; known are"
        f" {', '.join(programs())}, and segments of Whisper, WhisperX and NeMo; convert it to SRT,"
        ' or to {"segments": [{"start": 0.0, "end": 1.0, "text": "Hello"}]} with seconds'
    )


def _timed_lists(value: Any, path: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the paths of lists of objects with a text and two times, and these objects."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
        items = [item for item in value if _has_text_and_times(item)]
        if items:
            yield path, items
    for key, item in inner:
        yield from _timed_lists(item, f"{path}.{key}".lstrip("."))


def _has_text_and_times(item: Any) -> bool:
    """Return whether an object has a text and two times, and is no line of a manifest."""
    if not isinstance(item, dict) or any(key in item for key in _SOUNDS):
        return False
    texts = [value for value in item.values() if isinstance(value, str) and _LETTERS.search(value)]
    return bool(texts) and sum(map(_is_time, item.values())) >= 2


def _is_time(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and _seconds(value) is not None
    except ValueError:
        return False
