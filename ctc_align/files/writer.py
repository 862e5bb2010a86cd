"""The base class of all writers, the style of times and labels, and times in whole units.

Formats in order of time (CTM, TextGrid, labels, new subtitles) have the words in order of time,
which differs from the order of the text if passages were read in a different order. JSON and the
kept cues of a subtitle file keep the order of the text.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TextIO

from ctc_align.config import Settings
from ctc_align.reading import MOST_NUMBER, JsonObject
from ctc_align.text.word_forms import outer_punctuation_stripped, without_markup
from ctc_align.types import (
    ALIGNED,
    ANY_SPEECH,
    SKIPPED,
    SPEAKER,
    UNSPOKEN,
    AlignedWord,
    Alignment,
    Audio,
    aligned_words,
)

RECORDING = "recording"
WRITTEN = "written"
AGAIN = "again"
_GROUP_SPACE = re.compile(r"(?<=\d)[^\S\n](?=\d{3})")

PIECE = 2**20
"""The number of characters that are buffered while a file is written."""
UNITS_PER_S = 100_000
"""Times are written in steps of 10 µs, which every reader of TextGrids preserves."""


StyleSource = Settings | Mapping[str, Any] | None
"""Settings, or an alignment's `config`; None: the defaults."""


class Style(Settings):
    """The settings with which an alignment is written.

    Writers use those of times, labels, subtitles and tiers.
    """

    @classmethod
    def of(cls, settings: StyleSource) -> Style:
        """Return the style in `settings` or in an alignment's `config`.

        Defaults replace values of the wrong type.
        """
        values: Mapping[str, Any] = {}
        if isinstance(settings, Mapping):
            values = settings
        elif settings is not None:
            values = vars(settings)
        return cls(
            **{
                field.name: _as_its_default(values.get(field.name), field.default)
                for field in fields(cls)
            }
        )

    def shift_s(self, alignment: Alignment) -> float:
        """Return the seconds that are added to every time."""
        if self.times == RECORDING:
            return alignment.offset_s
        return 0.0

    def keeps_cues(self, alignment: Alignment) -> bool:
        """Return whether the cues of the transcript are written as they are, with new times."""
        return alignment.subtitles is not None and self.cues != AGAIN

    def label(self, word: AlignedWord) -> str:
        """Return the label of `word` in CTM, TextGrid and other labels; never empty."""
        if word.spoken == ANY_SPEECH:
            text = word.text.rstrip(",.;:!?")  # <unk> is no word "unk"
        elif self.labels == WRITTEN:
            if "\n" in word.text:
                text = without_markup(word.text)
            else:
                text = word.text
        else:
            text = outer_punctuation_stripped(without_markup(word.text)) or word.text
        return _GROUP_SPACE.sub("", text)


def _as_its_default(value: Any, default: Any) -> Any:
    """Return a value of an alignment's `config`.

    The default if it has the wrong type or is too large.
    """
    if isinstance(default, float) and type(value) is int:
        if abs(value) <= MOST_NUMBER:
            return float(value)
        return default
    if type(value) is type(default):
        return value
    return default


@dataclass(frozen=True)
class WritingContext:
    """Data beside the alignment that a format may need.

    Args:
        path: the file that is written; None: standard output, or bytes in memory.
        sound: the sound that was aligned, if it is in memory, or the path of its recording; None:
            the recording that the alignment names.
        beside: receives further files that belong to the one that is written, and their bytes;
            None: there can be none.
    """

    path: Path | None = None
    sound: Audio | str | None = None
    beside: dict[Path, bytes] | None = None


NO_CONTEXT = WritingContext()


class Writer:
    """A writer of one format, with a method `write`; the caller opens the file.

    A binary format, or one that needs the sound, overrides `write_bytes` and not `write`.
    """

    encoding_errors: ClassVar[str] = "replace"
    """Treatment of characters that UTF-8 cannot encode (halves of surrogate pairs from file
    names)."""
    beside_extension: ClassVar[str] = ""
    """The end of the name of a further file that may belong to the one that is written; "" for
    none."""
    most_s: ClassVar[float | None] = None
    """The greatest time that the format can hold, in seconds; None if there is no limit."""
    is_binary: ClassVar[bool] = False
    """True for a format that is not text and not fit for a terminal."""

    def __init__(self, style: Style | None = None) -> None:
        self._style = style

    def style(self, alignment: Alignment) -> Style:
        return self._style if self._style is not None else Style.of(alignment.config)

    @classmethod
    def require(cls) -> None:
        """Raise UsageError if a package that the format needs is not installed; before any work."""

    def write(self, alignment: Alignment, file: TextIO) -> None:
        """Write the text of the file."""
        raise NotImplementedError

    def write_bytes(
        self, alignment: Alignment, file: BinaryIO, context: WritingContext = NO_CONTEXT
    ) -> None:
        """Write the bytes of the file.

        Here they are the text as UTF-8, in pieces, so that it is never in memory as a whole.
        """
        text = _TextPieces(file.write, self.encoding_errors)
        self.write(alignment, text)
        text.flush()


class _TextPieces(io.StringIO):
    """A text file that passes its text to `put` in pieces of about `PIECE` characters, as UTF-8."""

    def __init__(self, put: Callable[[bytes], object], errors: str) -> None:
        super().__init__()
        self._put = put
        self._errors = errors
        self._size = 0

    def write(self, text: str) -> int:
        self._size += len(text)
        written = super().write(text)
        if self._size > PIECE:
            self.flush()
        return written

    def flush(self) -> None:
        self._put(self.getvalue().encode("utf-8", self._errors))
        self.seek(0)
        self.truncate()
        self._size = 0


def words_by_time(alignment: Alignment) -> list[AlignedWord]:
    """Return the words that have times, by their starts."""
    return sorted(aligned_words(alignment), key=_start_s)


def runs_in_time(words: Sequence[AlignedWord]) -> list[list[AlignedWord]]:
    """Return the words as runs, in order of time; within a run, text and time ascend together.

    A run ends where the next word of the text is not the next one in time. Words without times stay
    with the word before them, names of speakers with the word after them.

    >>> a, b, c = (AlignedWord(text, text, at, at + 1, ALIGNED, start_s, start_s + 1.0, 0.9)
    ...            for text, at, start_s in (("a", 0, 5.0), ("b", 1, 6.0), ("c", 2, 1.0)))
    >>> [[word.text for word in run] for run in runs_in_time((a, b, c))]
    [['c'], ['a', 'b']]
    """
    timed = [word for word in words if is_timed(word)]
    ranks = {id(word): rank for rank, word in enumerate(sorted(timed, key=_start_s))}
    runs: list[list[AlignedWord]] = [[]]
    expected = -1
    for word in words:
        rank = ranks.get(id(word), -1)
        if rank >= 0 and expected not in (-1, rank):
            taken = len(runs[-1])
            while taken and runs[-1][taken - 1].kind == SPEAKER:
                taken -= 1
            runs.append(runs[-1][taken:])
            del runs[-2][taken:]
        if rank >= 0:
            expected = rank + 1
        runs[-1].append(word)
    return sorted(
        runs, key=lambda run: next((_start_s(word) for word in run if is_timed(word)), 0.0)
    )


def words_that_are_shown(words: Sequence[AlignedWord]) -> list[AlignedWord]:
    """Return the words without those that are missing from the recording.

    And without unspoken words between these.

    An unspoken word is kept if a word beside it is kept, the name of a speaker only if the word
    after it is kept.
    """
    if all(word.status != SKIPPED for word in words):
        return list(words)
    shown = []
    following = [False] * (len(words) + 1)  # whether the next word that might be spoken is shown
    for index in range(len(words) - 1, -1, -1):
        status = words[index].status
        following[index] = following[index + 1] if status == UNSPOKEN else status != SKIPPED
    before = False
    for index, word in enumerate(words):
        if word.status == UNSPOKEN:
            if following[index] or (before and word.kind != SPEAKER):
                shown.append(word)
            continue
        before = word.status != SKIPPED
        if before:
            shown.append(word)
    return shown


def is_timed(word: AlignedWord) -> bool:
    """Return whether the word has times."""
    return word.status == ALIGNED and word.start_s is not None and word.end_s is not None


def _start_s(word: AlignedWord) -> float:
    return word.start_s or 0.0


Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class TimedLabel:
    """A label and its interval in whole units of time, `end` exclusive, ready to print."""

    start: int
    end: int
    label: str
    confidence: float = 1.0


def word_rows(
    alignment: Alignment, style: Style, units_per_s: int = UNITS_PER_S
) -> list[TimedLabel]:
    """Return the aligned words by time, in whole units of 1 / units_per_s seconds."""
    shift_s = style.shift_s(alignment)
    spans = (
        (
            word.start_s + shift_s,
            word.end_s + shift_s,
            style.label(word),
            1.0 if _unjudged(word) else word.confidence,
        )
        for word in words_by_time(alignment)
        if word.start_s is not None and word.end_s is not None
    )
    return _rows(spans, units_per_s, end_units(alignment, style))


def rows_by_word(
    alignment: Alignment, style: Style, units_per_s: int = UNITS_PER_S
) -> dict[int, TimedLabel]:
    """Return the rows of `word_rows` by the `id` of their words."""
    return {
        id(word): row
        for word, row in zip(words_by_time(alignment), word_rows(alignment, style, units_per_s))
    }


def _unjudged(word: AlignedWord) -> bool:
    """Return whether a word is known only from a person's correction.

    Its presence is then certain.
    """
    return bool(word.by) and word.confidence is None


def token_rows(
    alignment: Alignment, style: Style, units_per_s: int = UNITS_PER_S
) -> list[TimedLabel]:
    """Return the tokens of the aligned words, in the same units."""
    shift_s = style.shift_s(alignment)
    tokens = (token for word in words_by_time(alignment) for token in word.tokens)
    spans = (
        (token.start_s + shift_s, token.end_s + shift_s, token.token, token.confidence)
        for token in tokens
    )
    return _rows(spans, units_per_s, end_units(alignment, style))


def _rows(
    spans: Iterable[tuple[float, float, str, float | None]], units_per_s: int, last_unit: int
) -> list[TimedLabel]:
    """Return labels with rounded edges, never empty, never overlapping.

    Edges are rounded, not durations, so that neighbours still touch.
    """
    coarser = UNITS_PER_S // units_per_s
    rows = list(spans)
    units = [
        (time_units(start_s, last_unit), time_units(end_s, last_unit))
        for start_s, end_s, *_ in rows
    ]
    times = apart(units, last_unit, 1 / coarser)
    return [
        TimedLabel(*span, label, finite(confidence) or 0.0)
        for span, (_, _, label, confidence) in zip(times, rows)
    ]


def apart(spans: Sequence[Span], end_s: float, units_per_s: float) -> list[tuple[int, int]]:
    """Return spans in whole units, each at least one long and, if there is room, not overlapping.

    The spans need not ascend; the first in time is moved last.

    >>> apart([(1.0, 2.0), (0.0, 1.0002), (2.0, 2.0)], 2.0, 1000)
    [(1000, 1999), (0, 1000), (1999, 2000)]
    """
    order = sorted(range(len(spans)), key=lambda index: spans[index][0])
    times = [(0, 0)] * len(spans)
    free = 0
    for index in order:
        start = max(round(spans[index][0] * units_per_s), free)
        free = max(round(spans[index][1] * units_per_s), start + 1)
        times[index] = (start, free)
    last = math.floor(end_s * units_per_s + 1e-6)
    if len(spans) <= last:
        for index in reversed(order):
            end = min(times[index][1], last)
            last = min(times[index][0], end - 1)
            times[index] = (last, end)
    return times


def time_units(seconds: float, last_unit: int) -> int:
    """Return a time in whole units, at most `last_unit`."""
    return min(round(seconds * UNITS_PER_S), last_unit)


def end_units(alignment: Alignment, style: Style) -> int:
    """Return the end of the audio in units, rounded down so that no time exceeds it.

    With slack for float errors.
    """
    return math.floor((alignment.duration_s + style.shift_s(alignment)) * UNITS_PER_S + 1e-4)


def finite(number: float | None) -> float | None:
    """Return `number`, or None if it is None, NaN or infinite.

    >>> finite(float("inf")), finite(1.5)
    (None, 1.5)
    """
    if number is None or not math.isfinite(number):
        return None
    return float(number)


Replacement = tuple[int, int, str]
"""A part of a document, from one byte to another, exclusive, and the text that replaces it."""


def edited(data: bytes, edits: Iterable[Replacement]) -> bytes:
    """Return a document in which each edit's bytes [start, end) are replaced by its text.

    Edits do not overlap.

    >>> edited(b"<p>So be it.</p>", [(12, 12, "</b>"), (3, 3, "<b>")])
    b'<p><b>So be it.</b></p>'
    """
    pieces = []
    at = 0
    for start, end, text in sorted(edits, key=lambda edit: edit[0]):
        pieces += [data[at:start], text.encode("utf-8")]
        at = end
    return b"".join([*pieces, data[at:]])


def line_end_of(document: str) -> str:
    """Return the line end of a document: that of Windows if it has one."""
    if "\r\n" in document:
        return "\r\n"
    return "\n"


def keep_filled(**fields: Any) -> JsonObject:
    """Return the fields of a JSON object without those that are empty.

    >>> keep_filled(kind="", speaker="Ann", by=None)
    {'speaker': 'Ann'}
    """
    return {name: value for name, value in fields.items() if value}


def without_spaces(label: str) -> str:
    """Return a label as one field of a line.

    White space and control characters become "_"; an empty one "-".

    >>> without_spaces("my file")
    'my_file'
    """
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", "_", label.strip()) or "-"
