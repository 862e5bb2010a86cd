"""Tables of labels: NIST's CTM, TSV, Audacity's label track, and CSV for R and pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TextIO

from ctc_align.errors import InputError
from ctc_align.files.sentences import sentences
from ctc_align.files.tiers import (
    DERIVED,
    GOP,
    SENTENCES,
    SPEAKERS,
    TOKENS,
    TURNS,
    WORDS,
    has_goodness,
    turn_rows,
    wanted_tiers,
)
from ctc_align.files.writer import (
    UNITS_PER_S,
    Style,
    TimedLabel,
    Writer,
    finite,
    rows_by_word,
    token_rows,
    without_spaces,
    word_rows,
    words_by_time,
)
from ctc_align.reading import JsonObject, as_seconds
from ctc_align.text.characters import printable, spreadsheet_cell, without_controls
from ctc_align.types import AlignedToken, AlignedWord, Alignment, Interval, Tier

_CHANNEL = 1
_MS_PER_S = 1000
_HEAD = "start_s\tend_s\tword\tconfidence\tchar_start\tchar_end\n"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
COLUMNS = (
    "utterance", "tier", "speaker", "label", "start_s", "end_s", "duration_s", "confidence", "start_sd_ms",
    "end_sd_ms", "word", "word_label", "position", "char_start", "char_end", "status", "previous", "next",
)  # fmt: skip
GOP_COLUMNS = ("gop", "gop_percentile", "heard")
"""Further columns of an alignment with goodness of pronunciation."""


class CtmWriter(Writer):
    """CTM: `<utterance> <channel> <start> <duration> <word> <confidence>`.

    The loss is in a `;;` comment line.

    White space and control characters in a word or in the utterance's name are "_".
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        name = _utterance_field(alignment.utterance)
        file.write(
            f";; {name} loss {_shown(alignment.loss)} loss_per_token"
            f" {_shown(alignment.loss_per_token)} score {_shown(alignment.score)}\n"
        )
        for row in self.rows(alignment, self.style(alignment)):
            start = _seconds(row.start)
            duration = _seconds(row.end - row.start)
            label = without_spaces(row.label)
            file.write(f"{name} {_CHANNEL} {start} {duration} {label} {row.confidence:.4f}\n")

    def rows(self, alignment: Alignment, style: Style) -> list[TimedLabel]:
        return word_rows(alignment, style, _MS_PER_S)


class TokenCtmWriter(CtmWriter):
    """CTM with a line for each token."""

    def rows(self, alignment: Alignment, style: Style) -> list[TimedLabel]:
        return token_rows(alignment, style, _MS_PER_S)


class TsvWriter(Writer):
    """A header and one aligned word per line.

    start_s, end_s (3 decimals), word, confidence, char_start, char_end.

    Words are written as in CTM, without their outer punctuation unless labels are "written"; a tab,
    line end or backslash becomes \\t, \\n, \\r or \\\\, another control character \\x1b. An
    apostrophe precedes a word that a spreadsheet would compute (`'=1+1`), or that begins with such
    apostrophes: remove one to get the word; numbers
    stay. `char_start:char_end` is the word's span in the transcript, in code points.
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        file.write(_HEAD)
        rows = word_rows(alignment, self.style(alignment), _MS_PER_S)
        for row, word in zip(rows, words_by_time(alignment)):
            start, end = _seconds(row.start), _seconds(row.end)
            label = spreadsheet_cell(printable(row.label.translate(_ESCAPES)))
            file.write(
                f"{start}\t{end}\t{label}\t{row.confidence:.4f}\t{word.char_start}\t{word.char_end}\n"
            )


class AudacityWriter(Writer):
    """`start<TAB>end<TAB>label` for each aligned word; File > Import > Labels reads it.

    The extension is not the plain `.txt` that Audacity uses, because transcripts have that. White
    space in a label becomes one space, a control character U+FFFD.
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        for row in word_rows(alignment, self.style(alignment)):
            label = without_controls(" ".join(row.label.split()))
            file.write(f"{_tens_of_us(row.start)}\t{_tens_of_us(row.end)}\t{label}\n")


def _seconds(milliseconds: int) -> str:
    """Return seconds with three decimals, from whole milliseconds.

    >>> _seconds(1020)
    '1.020'
    """
    return f"{milliseconds / _MS_PER_S:.3f}"


def _shown(number: float | None) -> str:
    if finite(number) is None:
        return "inf"
    return f"{number:.6f}"


def _utterance_field(utterance: str) -> str:
    """Return the utterance as the first field.

    A leading ";", which would make the line a comment, is replaced.
    """
    name = without_spaces(utterance)
    return "_" * (len(name) - len(name.lstrip(";"))) + name.lstrip(";")


def _tens_of_us(units: int) -> str:
    """Return seconds with six decimals, as Audacity writes them, from units of 10 µs.

    >>> _tens_of_us(102001)
    '1.020010'
    """
    return f"{units / UNITS_PER_S:.6f}"


class CsvWriter(Writer):
    """A header and a row for each word of the transcript and each of its tokens.

    Cells without a value are empty.

    `tier` is "words", and "phones" or "tokens"; the style's `tiers` may name others, too. `word` is
    the word's number in the transcript, from 1; in rows of tokens, it is the number of the word
    that contains the token, whose label is `word_label`; `position` is the token's number in it;
    `previous` and `next` are the labels of the tokens that touch it, of the same speaker, also in
    the words beside it. Words without times have their `status` and no times. Times are seconds
    with 3 decimals; `char_start:char_end` is the span in the transcript, in code points.

    An alignment with goodness of pronunciation has `GOP_COLUMNS`, too, once for each token: in the
    rows of the tier "gop" only without those of the tokens; `heard` is empty if the token was left
    out.

    Words, names and sentences that a spreadsheet would compute have an apostrophe before them, as
    in TSV; tokens of the model are unchanged ("@" is a phone of SAMPA). Control characters are
    written as Python's escapes.
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        table = csv.writer(file, lineterminator="\n")
        columns = (*COLUMNS, *(GOP_COLUMNS if has_goodness(alignment) else ()))
        table.writerow(columns)
        utterance = _cell(alignment.utterance)
        style = self.style(alignment)
        words = _Words(alignment, style)
        rows: dict[str, Callable[[], Iterator[JsonObject]]] = {
            WORDS: words.rows,
            TOKENS: words.tokens,
            SENTENCES: words.sentences,
            **{kind: partial(words.turns, kind) for kind in TURNS},
        }
        kinds = wanted_tiers(style)
        for kind in kinds:
            if kind in DERIVED:
                of_kind = _Words(DERIVED[kind](alignment), style).tokens
            else:
                of_kind = rows[kind]
            for row in of_kind():
                if kind == GOP and TOKENS in kinds:
                    row = {**row, **dict.fromkeys(GOP_COLUMNS, "")}
                table.writerow([utterance, *(row.get(name, "") for name in columns[1:])])


class _Words:
    """The words of an alignment with their rows in milliseconds."""

    def __init__(self, alignment: Alignment, style: Style) -> None:
        self._alignment = alignment
        self._style = style
        self._by_time = words_by_time(alignment)
        self._row_of = rows_by_word(alignment, style, _MS_PER_S)

    def rows(self) -> Iterator[JsonObject]:
        """Yield a row for each word, in the order of the text."""
        for number, word in enumerate(self._alignment.words, 1):
            row = self._row_of.get(id(word))
            yield {
                **_who_and_where(WORDS, word),
                **({} if row is None else _times(row)),
                **_sureness(word),
                "label": _cell(self._style.label(word)),
                "word": number,
                "word_label": _cell(self._style.label(word)),
                "status": word.status,
            }

    def tokens(self) -> Iterator[JsonObject]:
        """Yield a row for each token, by words in the order of the text."""
        by_time = token_rows(self._alignment, self._style, _MS_PER_S)
        rows = iter(by_time)
        of_word = {id(word): [next(rows) for _ in word.tokens] for word in self._by_time}
        speakers = [word.speaker for word in self._by_time for _ in word.tokens]
        beside: dict[int, dict[str, str]] = {id(row): {} for row in by_time}
        for (row, who), (later, who_later) in pairwise(zip(by_time, speakers)):
            if row.end == later.start and who == who_later:
                beside[id(row)]["next"] = printable(later.label)
                beside[id(later)]["previous"] = printable(row.label)
        for number, word in enumerate(self._alignment.words, 1):
            for position, (token, row) in enumerate(zip(word.tokens, of_word.get(id(word), ())), 1):
                yield {
                    **_who_and_where(self._alignment.token_kind, word),
                    **_times(row),
                    **_sureness(token),
                    **_goodness(token),
                    "label": printable(token.token),
                    "word": number,
                    "word_label": _cell(self._style.label(word)),
                    "position": position,
                    "status": word.status,
                    **beside[id(row)],
                }

    def sentences(self) -> Iterator[JsonObject]:
        """Yield a row for each sentence, by time."""
        for sentence in sentences(self._alignment):
            first, last = (
                self._row_of[id(word)] for word in (sentence.timed[0], sentence.timed[-1])
            )
            yield {
                **_times(TimedLabel(first.start, last.end, "")),
                "tier": SENTENCES,
                "speaker": _cell(sentence.speaker),
                "label": _cell(sentence.text),
                "char_start": sentence.words[0].word.char_start,
                "char_end": sentence.words[-1].word.char_end,
            }

    def turns(self, kind: str) -> Iterator[JsonObject]:
        """Yield a row for each turn of a kind of tiers, by time."""
        for row in turn_rows(self._alignment, kind, list(self._row_of.values())):
            label = _cell(row.label)
            speaker = {"speaker": label} if kind == SPEAKERS else {}
            yield {**_times(row), "tier": kind, **speaker, "label": label}


def _who_and_where(tier: str, word: AlignedWord) -> JsonObject:
    characters = {"char_start": word.char_start, "char_end": word.char_end}
    return {"tier": _cell(tier), "speaker": _cell(word.speaker), **characters}


def _times(row: TimedLabel) -> dict[str, str]:
    spans = {"start_s": row.start, "end_s": row.end, "duration_s": row.end - row.start}
    return {name: _seconds(ms) for name, ms in spans.items()}


def _sureness(edged: AlignedWord | AlignedToken) -> dict[str, str]:
    """Return the confidence and the standard deviations of the edges, if known."""
    decimals = {"confidence": 4, "start_sd_ms": 2, "end_sd_ms": 2}
    known = {name: finite(getattr(edged, name)) for name in decimals}
    return {
        name: f"{number:.{decimals[name]}f}" for name, number in known.items() if number is not None
    }


def _goodness(token: AlignedToken) -> dict[str, str]:
    """Return the goodness of pronunciation, if known."""
    if token.gop is None:
        return {}
    percentile = "" if token.gop_percentile is None else f"{token.gop_percentile:.1f}"
    cells = {"gop": f"{token.gop:.2f}", "gop_percentile": percentile}
    return {**cells, "heard": printable(token.heard or "")}


def _cell(text: str) -> str:
    return spreadsheet_cell(printable(text))


def csv_tiers(data: bytes, name: str) -> list[Tier]:
    """Return the tiers in a table that `CsvWriter` made: `SPEAKER - words`.

    A spreadsheet may have saved it again.

    Raises:
        InputError: a column is missing, or a time is not a number.
    """
    text = data.decode("utf-8-sig")
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    table = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    rows: dict[str, list[Interval]] = {}
    for number, row in enumerate(table, 2):
        cells = [row.get(column) for column in ("tier", "speaker", "label", "start_s", "end_s")]
        if None in cells:
            raise InputError(
                f"{name}:{number}: expected the columns of a table that ctc-align wrote, got others"
            )
        tier, speaker, label, start, end = (cell or "" for cell in cells)
        if not start or not end:
            continue
        if delimiter != ",":
            start, end = start.replace(",", "."), end.replace(",", ".")
        tier_name = tier
        if speaker:
            tier_name = f"{speaker} - {tier}"
        rows.setdefault(tier_name, []).append(_interval(start, end, label, f"{name}:{number}"))
    return [
        Tier(tier, tuple(sorted(found, key=lambda each: each.start_s)))
        for tier, found in rows.items()
    ]


def audacity_tiers(data: bytes, name: str) -> list[Tier]:
    """Return the words of a label track as a tier.

    Raises:
        InputError: a line has no two times.
    """
    rows = []
    for number, line in enumerate(data.decode("utf-8-sig").splitlines(), 1):
        fields = line.split("\t", 2)
        if not line.strip() or line.startswith("\\"):  # the range of frequencies of the label above
            continue
        if len(fields) < 2:
            raise InputError(
                f"{name}:{number}: expected start, end and label, separated by tabs, got"
                f" {line[:100]!r}"
            )
        rows.append(_interval(fields[0], fields[1], "".join(fields[2:]), f"{name}:{number}"))
    return [Tier(WORDS, tuple(sorted(rows, key=lambda each: each.start_s)))]


def _interval(start: str, end: str, label: str, where: str) -> Interval:
    try:
        start_s, end_s = as_seconds(start), as_seconds(end)
    except ValueError as error:
        raise InputError(f"{where}: expected a start and an end in seconds, got {error}") from None
    if end_s < start_s:
        raise InputError(f"{where}: a label ends at {end_s} s, before its start at {start_s} s")
    return Interval(start_s, end_s, label)
