"""CSV and TSV files with a header: an utterance a row, columns by the names that corpora give them."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from typing import Any

from ctc_align.corpus.sources.source import (
    FileSource,
    Item,
    ItemMaker,
    SourceLocation,
    checked_audio,
    checked_channel,
    checked_duration,
    checked_seconds,
    checked_text,
    known_code,
    parsed_number,
    printable,
    shown,
    stem_of,
)
from ctc_align.corpus.sources.text_lines import TextLine, read_head, read_lines
from ctc_align.errors import InputError, UsageError

COLUMNS = {
    "audio": (
        *("audio_filepath", "audio", "audio_path", "audio_file", "path", "wav", "wav_path", "wav_filename"),
        *("file", "file_path", "file_name", "filename", "log_probs"),
    ),
    "text": ("text", "transcript", "transcription", "sentence", "wrd"),
    "id": ("utterance", "utterance_id", "utt_id", "utt", "id"),
    "offset": ("offset", "offset_s", "start", "start_s", "start_time", "begin"),
    "end": ("end", "end_s", "end_time"),
    "duration": ("duration", "duration_s"),
    "speaker": ("speaker", "speaker_id", "spk_id", "client_id", "spk"),
    "channel": ("channel",),
    "language": ("language", "lang", "locale"),
}
"""Names of each column, in any case; of several in one table the first in this order counts."""

_MOST_LINES = 200
"""A quoted field that spans more lines than this is a quote that was never closed."""


class Table(FileSource):
    """A table with a header, plain or .gz, separated by commas, tabs or semicolons as its header is.

    Columns are found by name, see COLUMNS; an audio and a text column are needed. Quotes are those of CSV, and a
    quoted field may span lines; in a tab-separated line that does not work out as CSV they are letters. Relative paths
    count from the table's folder, or from `clips` in it (Common Voice). A row that is no utterance is refused.
    """

    kind = "table"

    def __init__(self, options: SourceLocation) -> None:
        super().__init__(options)
        head = next(iter(read_head(options.path, 1)), TextLine(1, ""))
        self.separator, self.columns, self.width = parsed_header(options.path, head)
        clips = os.path.join(self.folder, "clips")
        self.clips = clips if os.path.isdir(clips) else ""

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.label)
        rows = TableRows(read_lines(self.name), self.separator, self.width)
        for number, row, fault in rows:
            yield self._item(number, row, fault, maker)

    def _item(self, number: int, row: list[str], fault: str, maker: ItemMaker) -> Item:
        origin = self.origin(number)
        id: str | None = None
        stem = ""
        try:
            if fault:
                raise InputError(fault)
            cells = {what: row[i] for what, i in self.columns.items() if i < len(row)}
            id = cells.get("id", "").strip() or None
            audio = checked_audio(cells.get("audio", ""), "the audio")
            stem = stem_of(audio)
            if any(cell.strip() for cell in row[self.width :]):
                got = f"{len(row)} columns where the header has {self.width}"
                raise InputError(f"expected a row of the table, got {got}: quote what holds a separator")
            fields = {"audio": self._path(audio), "text": checked_text(cells.get("text", ""), "the text")}
            fields |= _details(cells)
        except InputError as error:
            return maker.refused(id, number, origin, str(error), stem)
        return maker.utterance(id, stem, number, origin, fields)

    def _path(self, audio: str) -> str:
        path = os.path.join(self.folder, audio)
        clip = os.path.join(self.clips, audio)
        return clip if self.clips and not os.path.exists(path) and os.path.exists(clip) else path


def parsed_header(path: str, head: TextLine) -> tuple[str, dict[str, int], int]:
    """Return the separator, where each known column is, and how many columns there are, else raise UsageError."""
    best: dict[str, int] = {}
    for separator in ("\t", ",", ";"):
        names = _names(head.text, separator)
        columns = _columns(names)
        if "audio" in columns and "text" in columns:
            return separator, columns, len(names)
        best = max(best, columns, key=len)
    missing = [f"one of {' '.join(COLUMNS[what])} for the {what}" for what in ("audio", "text") if what not in best]
    got = head.fault or shown(head.text)
    raise UsageError(f"{printable(path)}: expected a header with {' and '.join(missing)}, got {got}")


def _names(header: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([header], delimiter=separator), [])
    except csv.Error:
        return []


def _columns(names: list[str]) -> dict[str, int]:
    places = {name.strip().casefold(): i for i, name in reversed(list(enumerate(names)))}
    found = {}
    for what, known in COLUMNS.items():
        place = next((places[name] for name in known if name in places), None)
        if place is not None:
            found[what] = place
    return found


def _details(cells: dict[str, str]) -> dict[str, Any]:
    """Return the start, duration, channel, language and speaker that a row has; an empty cell is as good as none."""
    cells = {what: cell.strip() for what, cell in cells.items() if cell.strip()}
    details: dict[str, Any] = {}
    if "offset" in cells:
        details["offset_s"] = checked_seconds(parsed_number(cells["offset"]), "the start")
    if "duration" in cells:
        details["duration_s"] = checked_seconds(parsed_number(cells["duration"]), "the duration", above_zero=True)
    elif "end" in cells:
        end_s = checked_seconds(parsed_number(cells["end"]), "the end")
        details["duration_s"] = checked_duration(details.get("offset_s", 0.0), end_s)
    if "channel" in cells:
        channel = cells["channel"]
        details["channel"] = checked_channel(
            int(channel) if re.fullmatch("[0-9]{1,5}", channel) else channel, "channel"
        )
    details["language"] = known_code(cells.get("language"))
    if "speaker" in cells:
        details["speaker"] = cells["speaker"]
    return details


class TableRows:
    """The rows (line, cells, fault) after the header; of a quote that is never closed only its own line is lost."""

    def __init__(self, lines: Iterator[TextLine], separator: str, width: int) -> None:
        self.lines = lines
        self.separator = separator
        self.width = width
        self.lines_ahead: list[TextLine] = []
        """Lines that were read while a quote was open."""

    def __iter__(self) -> Iterator[tuple[int, list[str], str]]:
        self.next_line()
        while (line := self.next_line()) is not None:
            yield (line.number, [], line.fault) if line.fault else self.row(line)

    def next_line(self) -> TextLine | None:
        return self.lines_ahead.pop(0) if self.lines_ahead else next(self.lines, None)

    def row(self, line: TextLine) -> tuple[int, list[str], str]:
        literal = line.text.split(self.separator)
        if '"' not in line.text:
            return line.number, literal, ""
        is_tabs = self.separator == "\t"
        ahead: list[TextLine] = []
        try:
            row = self.cells(line.text)
            # a tab-separated line that is complete as it stands does not go on in the next one
            while row is None and not (is_tabs and len(literal) >= self.width):
                row = self.joined(line, ahead)
            if row is not None:
                return line.number, row, ""
            fault = "a quote is not closed"
        except csv.Error as error:
            fault = str(error)
        self.lines_ahead = ahead + self.lines_ahead
        if is_tabs:
            return line.number, literal, ""
        return line.number, [], f"expected a row of CSV, got something else ({fault}); write quotes inside quotes twice"

    def joined(self, line: TextLine, ahead: list[TextLine]) -> list[str] | None:
        """Return the row with the lines that may close its quote, which are added to `ahead`, or raise csv.Error."""
        while len(ahead) < _MOST_LINES and (following := self.next_line()) is not None:
            ahead.append(following)
            if following.fault:
                break
            if '"' in following.text:
                text, number = line.text, line.number
                for part in ahead:
                    text += "\n" * (part.number - number) + part.text
                    number = part.number
                return self.cells(text)
        raise csv.Error("a quote is not closed")

    def cells(self, text: str) -> list[str] | None:
        """Return the cells of a row, None where it ends inside quotes; raise csv.Error where it is not CSV."""
        try:
            return next(csv.reader([text], delimiter=self.separator, strict=True))
        except csv.Error as error:
            if "unexpected end" in str(error):
                return None
            raise
