"""Corpora in one file: JSONL manifests as in NeMo, tables with a header, and Lhotse cuts."""

from __future__ import annotations

import csv
import difflib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ctc_align.errors import InputError, UsageError
from ctc_align.files.json_files import no_number
from ctc_align.reading import parse_json
from ctc_align.sources.source import (
    FileSource,
    FolderSource,
    Item,
    ItemMaker,
    TextLine,
    checked_audio,
    checked_channel,
    checked_duration,
    checked_id,
    checked_seconds,
    checked_string,
    checked_text,
    kind_of,
    known_code,
    parsed_number,
    printable,
    read_head,
    read_lines,
    resolved,
    shown,
    stem_of,
)
from ctc_align.sources.transcribed_folders import SOUND
from ctc_align.sources.utterance import Utterance
from ctc_align.sources.utterance_ids import output_of

KEYS = {
    "audio": ("audio_filepath", "audio", "file_name", "log_probs"),
    "text": ("text", "texts", "transcription"),
    "id": ("utterance",),
    "offset": ("offset", "offset_s"),
    "duration": ("duration", "duration_s"),
    "speaker": ("speaker",),
    "channel": ("channel",),
    "language": ("language", "lang", "locale"),
}
"""Keys of each value, as listed in `docs/corpora.md`.

If a line has several, the first in this order counts.
"""
_MOST_KEYS = 30
_HEAD_LINES = 50
"""The number of lines in which the first JSON object of a manifest must be."""
COLUMNS = {
    "audio": (
        *(
            "audio_filepath",
            "audio",
            "audio_path",
            "audio_file",
            "path",
            "wav",
            "wav_path",
            "wav_filename",
        ),
        *("file", "file_path", "file_name", "filename", "log_probs"),
    ),
    "text": ("text", "transcript", "transcription", "sentence", "wrd"),
    "id": ("utterance", "utterance_id", "utt_id", "utt", "id"),
    "offset": ("offset", "offset_s", "start", "start_s", "start_time", "begin"),
    "end": ("end", "end_s", "end_time"),
    "duration": ("duration", "duration_s"),
    "speaker": ("speaker", "speaker_id", "speaker_name", "spk_id", "client_id", "spk"),
    "channel": ("channel",),
    "language": ("language", "lang", "locale"),
}
"""Names of each column, in upper or lower case.

If a table has several, the first in this order counts.
"""
_PAIRS = {"audio": 0, "text": 1}
_PIPER = {"audio": 0, "speaker": 1, "text": 2}
_LJSPEECH = {"audio": 0, "text": 1, "words": 2}
"""Columns between "|" in lists without a header.

`words` is the text with its numbers in words, and may be empty.
"""
_CLIPS = ("clips", "wavs", "wav", "audio")
"""Folders of recordings beside a table: of Common Voice, LJSpeech, Piper."""
_ENDINGS = (".wav", ".flac", ".mp3", ".ogg", ".opus")
_MOST_LINES = 200
"""If a quoted field spans more lines than this, its quote was never closed."""
_ROUNDING_S = 0.05
"""A supervision may extend this far beyond its recording, because manifests round."""


class Manifest(FileSource):
    """A JSONL file (plain or .gz).

    Each line that is not an utterance is refused, and the next one is read.

    KEYS are its keys: the audio (or log-probs: a file, or FILE.ark:OFFSET) and `text` or `texts` (a
    list: alternatives for `score`; without `text` the first is aligned) are needed; `channel`
    counts from 1. A value of
    null counts as missing; other keys are ignored. Relative paths start at the manifest's
    folder.
    """

    kind = "manifest"

    @classmethod
    def is_kind_of(cls, path: str) -> bool:
        first = _first_object(path)
        return first is not None and not is_cut(first)

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.label)
        for line in read_lines(self.name, self.encoding):
            yield self._item(line, maker)

    def _item(self, line: TextLine, maker: ItemMaker) -> Item:
        origin = self.origin(line.number)
        id: str | None = None
        stem = ""
        try:
            fields = parsed_object(line)
            id = checked_id(fields.get("utterance"), "utterance")
            audio = checked_audio(_first(fields, "audio", "the audio"), "the audio")
            stem = stem_of(audio)
            texts = _texts(fields)
            if fields.get("text") is None and texts:
                text = texts[0]
            else:
                text = checked_text(_first(fields, "text", "the transcript"), "text")
            details = _manifest_details(fields)
        except InputError as error:
            return maker.refused(id, line.number, origin, str(error), stem)
        details |= {
            "audio": os.path.join(self.folder, audio),
            "text": text,
            "texts": texts if len(texts) > 1 else (),
        }
        return maker.utterance(id, stem, line.number, origin, details)


def parsed_object(line: TextLine) -> dict[str, Any]:
    """Return the JSON object on a line; otherwise raise InputError."""
    if line.fault:
        raise InputError(line.fault)
    try:
        value = parse_json(line.text, parse_constant=no_number)
    except json.JSONDecodeError as error:
        got = f"{error.msg} at column {error.colno}: {shown(line.text)}"
        raise InputError(f"expected a JSON object, got something else ({got})") from None
    except ValueError as error:
        raise InputError(
            f"expected a JSON object, got something that cannot be read: {error}"
        ) from None
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, got {kind_of(value)}: {shown(value)}")
    return value


def _first_object(path: str) -> dict[str, Any] | None:
    """Return the first JSON object among the first lines of a file, None if there is none."""
    for line in read_head(path, _HEAD_LINES):
        try:
            return parsed_object(line)
        except InputError:
            continue
    return None


def _first(fields: dict[str, Any], which: str, what: str) -> Any:
    keys = KEYS[which]
    for key in keys:
        if fields.get(key) is not None:
            return fields[key]
    more = f" and {len(fields) - _MOST_KEYS} more" if len(fields) > _MOST_KEYS else ""
    got = ", ".join(shown(key) for key in sorted(fields)[:_MOST_KEYS]) or "none"
    meant = _meant(fields, which)
    hint = f"; did you mean {keys[0]} by {shown(meant)}?" if meant else ""
    raise InputError(
        f"{what} is missing: expected the key {' or '.join(keys)}, got {got}{more}{hint}"
    )


def _meant(fields: dict[str, Any], which: str) -> str | None:
    """Return the key that was probably meant: a column name of tables, or a close match."""
    known = {key for keys in KEYS.values() for key in keys}
    unknown = {
        key.strip().casefold(): key
        for key in fields
        if key not in known and isinstance(fields[key], str)
    }
    names = [*KEYS[which], *COLUMNS[which]]
    near = (difflib.get_close_matches(key, names, n=1, cutoff=0.75) for key in unknown)
    return next((unknown[name] for name in names if name in unknown), None) or next(
        (key for key, found in zip(unknown.values(), near) if found), None
    )


def _texts(fields: dict[str, Any]) -> tuple[str, ...]:
    """Return the alternatives, () if the line has none."""
    values = fields.get("texts")
    if values is None:
        return ()
    if not isinstance(values, list) or not values:
        raise InputError(f"texts: expected a list of transcripts, got {shown(values)}")
    texts = tuple(checked_string(value, f"texts, entry {i}") for i, value in enumerate(values, 1))
    # N-best lists hold empty hypotheses: those alone cannot be scored.
    return (
        texts
        if any(text.strip() for text in texts)
        else tuple(checked_text(text, "texts") for text in texts)
    )


def _manifest_details(fields: dict[str, Any]) -> dict[str, Any]:
    details: dict[str, Any] = {}
    for key in KEYS["offset"]:
        if "offset_s" not in details and fields.get(key) is not None:
            details["offset_s"] = checked_seconds(fields[key], key)
    for key in KEYS["duration"]:
        if "duration_s" not in details and fields.get(key) is not None:
            details["duration_s"] = checked_seconds(fields[key], key, above_zero=True)
    if fields.get("channel") is not None:
        details["channel"] = checked_channel(fields["channel"], "channel")
    details["language"] = next(
        filter(None, (known_code(fields.get(key)) for key in KEYS["language"])), ""
    )
    speaker = fields.get("speaker")
    if speaker is not None:
        is_number = isinstance(speaker, int) and not isinstance(speaker, bool)
        details["speaker"] = (
            checked_id(speaker, "speaker") if is_number else checked_string(speaker, "speaker")
        )
    return details


class Table(FileSource):
    """A table, plain or .gz, separated by commas, tabs, semicolons or "|" as its header is.

    Columns are found by name, see COLUMNS; an audio and a text column are needed. Without a header,
    columns between "|" are those of LJSpeech (recording, text, text with numbers in words) or Piper
    (recording, speaker, text). Quotes are those of CSV, and a quoted field may span lines; between
    tabs, where a line is not valid CSV, and between "|" they are ordinary characters. Relative
    paths start at the table's folder, or at a folder of `_CLIPS` in it, and may lack their
    extension. A row that is not an utterance is refused.
    """

    kind = "table"

    @classmethod
    def is_kind_of(cls, path: str) -> bool:
        try:
            parsed_header(path, next(iter(read_head(path, 1)), TextLine(1, "")))
        except UsageError:
            return False
        return True

    def __init__(self, path: str, *, fold_case: bool = False) -> None:
        super().__init__(path, fold_case=fold_case)
        head = next(iter(read_head(path, 1)), TextLine(1, ""))
        self.separator, self.columns, self.width = parsed_header(path, head)
        self.has_header = not any(
            self.columns is columns for columns in (_PAIRS, _PIPER, _LJSPEECH)
        )
        folders = [self.folder, *(os.path.join(self.folder, name) for name in _CLIPS)]
        self.folders = [folder for folder in folders if not folder or os.path.isdir(folder)]

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.label)
        rows = TableRows(
            read_lines(self.name, self.encoding),
            self.separator,
            self.width,
            has_header=self.has_header,
        )
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
                got = (
                    f"{len(row)} columns, but"
                    f" {'the header has' if self.has_header else 'others have'} {self.width}"
                )
                raise InputError(
                    f"expected a row of the table, got {got}: quote what holds a separator"
                )
            text = cells.get("words", "").strip() or cells.get("text", "")
            fields = {"audio": self._path(audio), "text": checked_text(text, "the text")}
            fields |= _row_details(cells)
        except InputError as error:
            return maker.refused(id, number, origin, str(error), stem)
        return maker.utterance(id, stem, number, origin, fields)

    def _path(self, audio: str) -> str:
        """Return the first file that is there, as the audio is named or with an extension."""
        names = (
            [audio]
            if os.path.splitext(audio)[1].lower() in SOUND
            else [audio, *(audio + end for end in _ENDINGS)]
        )
        paths = [os.path.join(folder, name) for name in names for folder in self.folders]
        found = next(filter(os.path.isfile, paths), os.path.join(self.folder, audio))
        if not (self.has_header or os.path.splitext(audio)[1] or os.path.exists(found)):
            expected = (
                f"{shown(audio)} with {' '.join(_ENDINGS)}, beside the table or in"
                f" {' '.join(_CLIPS)}"
            )
            raise InputError(f"the audio: expected {expected}, got no such file")
        return found


class MetadataFolder(FolderSource):
    """A folder of recordings with a table of them, `metadata.csv` or `metadata.jsonl`.

    Hugging Face (audiofolder), LJSpeech and Piper lay out their corpora in this way. The table is
    in the folder, or one is in each of its sub-folders (`train`, `test`), whose name then begins
    the ids.
    """

    kind = "metadata"

    @classmethod
    def is_kind_of(cls, path: str) -> bool:
        """Return whether a folder has such a table."""
        return bool(_metadata_tables(path))

    def __init__(
        self, path: str, exclude: tuple[str, ...] = (), *, fold_case: bool = False
    ) -> None:
        super().__init__(path, exclude, fold_case=fold_case)
        excluded = {os.path.realpath(folder) for folder in exclude}
        self.tables = {
            split: table
            for split, table in _metadata_tables(path).items()
            if os.path.realpath(os.path.dirname(table.name)) not in excluded
        }
        if not self.tables:
            raise UsageError(
                f"{printable(path)}: expected {' or '.join(_METADATA)} with a row for each"
                " recording, in it or in a folder in it, got none"
            )
        self.files = tuple(table.name for table in self.tables.values())

    def __iter__(self) -> Iterator[Item]:
        for split, table in self.tables.items():
            table.encoding = self.encoding
            table.fold_case = self.fold_case
            for item in table:
                if not split:
                    yield item
                elif isinstance(item, Utterance):
                    output = f"{output_of(split + '/x').removesuffix('/x')}/{item.output}"
                    yield replace(item, id=f"{split}/{item.id}", output=output)
                else:
                    yield replace(item, id=f"{split}/{item.id}")


def _metadata_tables(folder: str) -> dict[str, Manifest | Table]:
    """Return the table of a folder as that of "", or those of its sub-folders by their names."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return {}
    splits = [name for name in names if os.path.isdir(os.path.join(folder, name))]
    tables: dict[str, Manifest | Table] = {}
    for split in ("", *splits):
        for name, reader in _METADATA.items():
            path = os.path.join(folder, split, name)
            if os.path.isfile(path) and reader.is_kind_of(path):
                tables[printable(split)] = reader(path)
                break
        if "" in tables:
            break
    return tables


_METADATA: dict[str, type[Manifest | Table]] = {"metadata.csv": Table, "metadata.jsonl": Manifest}


def parsed_header(path: str, head: TextLine) -> tuple[str, dict[str, int], int]:
    """Return the separator, the index of each known column, and the number of columns.

    Raise UsageError if the line is not a header.
    """
    best: dict[str, int] = {}
    for separator in ("\t", ",", ";", "|"):
        names = _names(head.text, separator)
        columns = _columns(names)
        if "audio" in columns and "text" in columns:
            return separator, columns, len(names)
        best = max(best, columns, key=len)
    listed = _list_columns(path)
    if listed is not None:
        return "|", listed, max(listed.values()) + 1
    missing = [
        f"one of {' '.join(COLUMNS[what])} for the {what}"
        for what in ("audio", "text")
        if what not in best
    ]
    got = head.fault or shown(head.text)
    raise UsageError(
        f"{printable(path)}: expected a header with {' and '.join(missing)}, got {got}"
    )


def _list_columns(path: str) -> dict[str, int] | None:
    """Return the columns of a list without a header, such as `LJ001-0001|Printing, in …`.

    Return None if it is no such list.

    Of three, the second names a speaker if it is always much shorter than the third.
    """
    lines = [
        line.text for line in read_head(path, _HEAD_LINES) if line.text.strip() and not line.fault
    ]
    cells = [line.split("|") for line in lines]
    rows = [row for row in cells if len(row) in (2, 3) and row[0].strip() and row[1].strip()]
    known = {name for names in COLUMNS.values() for name in names}
    # lines that are not like most others are refused one by one
    if 2 * len(rows) <= len(lines) or known & {
        cell.strip().casefold() for cell in lines[0].split("|")
    }:
        return None
    widths = {len(row) for row in rows}
    if widths == {3} and all(
        len(row[1].split()) == 1 and 3 * len(row[1]) < 2 * len(row[2]) for row in rows
    ):
        return _PIPER
    return _LJSPEECH if 3 in widths else _PAIRS


def table_fault(header: str) -> str:
    """Return why the first line of a file is not that of a table, "" if it is nothing like it."""
    for separator in ("\t", ",", ";", "|"):
        columns = _columns(_names(header, separator))
        for what in ("audio", "text"):
            if len(columns) > 1 and what not in columns:
                hint = (
                    "; a list ID|TEXT needs no header: omit this line" if separator == "|" else ""
                )
                expected = f"a column for the {what}, one of {' '.join(COLUMNS[what])}"
                return f"a header without {expected}: {shown(header)}{hint}"
    count = header.count("|") + 1
    return (
        f"lines such as {shown(header)}, with {count} columns (lists have 2 or 3)"
        if count > 1
        else ""
    )


def _names(header: str, separator: str) -> list[str]:
    if separator == "|":
        return header.split(separator)
    try:
        return next(csv.reader([header], delimiter=separator), [])
    except csv.Error:
        return []


def _columns(names: list[str]) -> dict[str, int]:
    folded = [re.sub(r"[\s-]+", "_", name.strip().casefold()) for name in names]
    positions = {name: i for i, name in reversed(list(enumerate(folded)))}
    found = {}
    for what, known in COLUMNS.items():
        position = next((positions[name] for name in known if name in positions), None)
        if position is not None:
            found[what] = position
    return found


def _row_details(cells: dict[str, str]) -> dict[str, Any]:
    """Return the start, duration, channel, language and speaker of a row.

    An empty cell counts as missing.
    """
    cells = {what: cell.strip() for what, cell in cells.items() if cell.strip()}
    details: dict[str, Any] = {}
    if "offset" in cells:
        details["offset_s"] = checked_seconds(parsed_number(cells["offset"]), "the start")
    if "duration" in cells:
        details["duration_s"] = checked_seconds(
            parsed_number(cells["duration"]), "the duration", above_zero=True
        )
    elif "end" in cells:
        end_s = checked_seconds(parsed_number(cells["end"]), "the end")
        details["duration_s"] = checked_duration(details.get("offset_s", 0.0), end_s)
    if "channel" in cells:
        channel = cells["channel"]
        whole = re.fullmatch(r"([0-9]{1,5})(?:\.0)?", channel)  # 1.0 beside empty cells, by pandas
        details["channel"] = checked_channel(int(whole[1]) if whole else channel, "channel")
    details["language"] = known_code(cells.get("language"))
    if "speaker" in cells:
        details["speaker"] = cells["speaker"]
    return details


class TableRows:
    """The rows (line, cells, fault) after the header.

    A quote that is never closed costs only its line.
    """

    def __init__(
        self, lines: Iterator[TextLine], separator: str, width: int, *, has_header: bool = True
    ) -> None:
        self.lines = lines
        self.separator = separator
        self.width = width
        self.has_header = has_header
        self.lines_ahead: list[TextLine] = []
        """Lines that were read while a quote was open."""

    def __iter__(self) -> Iterator[tuple[int, list[str], str]]:
        if self.has_header:
            self.next_line()
        while (line := self.next_line()) is not None:
            yield (line.number, [], line.fault) if line.fault else self.row(line)

    def next_line(self) -> TextLine | None:
        return self.lines_ahead.pop(0) if self.lines_ahead else next(self.lines, None)

    def row(self, line: TextLine) -> tuple[int, list[str], str]:
        literal = line.text.split(self.separator)
        if '"' not in line.text or self.separator == "|":
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
        return (
            line.number,
            [],
            (
                f"expected a row of CSV, got something else ({fault}); write quotes inside quotes"
                " twice"
            ),
        )

    def joined(self, line: TextLine, ahead: list[TextLine]) -> list[str] | None:
        """Return the row with the lines that may close its quote, or raise csv.Error.

        These lines are added to `ahead`.
        """
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
        """Return the cells of a row, None if it ends inside quotes.

        Raise csv.Error if it is not CSV.
        """
        try:
            return next(csv.reader([text], delimiter=self.separator, strict=True))
        except csv.Error as error:
            if "unexpected end" in str(error):
                return None
            raise


class Lhotse(FileSource):
    """Cuts (`cuts.jsonl`, plain or .gz) of recordings in files.

    Channels are mixed unless a supervision is of one.

    The id is the supervision's; if it has none, the cut's, made unique. Relative paths start at the
    manifest's folder, or, if there is no such file, at the current one, as in Lhotse. Mixed and
    padding cuts, recordings that are commands or URLs or that a transform changes, and supervisions
    without text are refused.
    """

    kind = "lhotse"

    @classmethod
    def is_kind_of(cls, path: str) -> bool:
        first = _first_object(path)
        return first is not None and is_cut(first)

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.label)
        for line in read_lines(self.name, self.encoding):
            yield from self._items(line, maker)

    def _items(self, line: TextLine, maker: ItemMaker) -> Iterator[Item]:
        origin = self.origin(line.number)
        cut_id = ""
        try:
            cut = parsed_object(line)
            cut_id = checked_id(cut.get("id"), "id") or ""
            _check_kind(cut)
            supervisions = cut.get("supervisions")
            if not isinstance(supervisions, list) or not supervisions:
                raise InputError(
                    "expected a cut with supervisions, got one without: there is no transcript"
                )
        except InputError as error:
            yield maker.refused(cut_id or None, line.number, origin, str(error))
            return
        for number, supervision in enumerate(supervisions, 1):
            at = origin if len(supervisions) == 1 else f"{origin}, supervision {number}"
            id = None
            try:
                if not isinstance(supervision, dict):
                    raise InputError(f"supervisions: expected objects, got {kind_of(supervision)}")
                id = checked_id(supervision.get("id"), "the supervision's id")
                fields = self._fields(cut, supervision)
            except InputError as error:
                yield maker.refused(id, line.number, at, str(error), cut_id)
                continue
            yield maker.utterance(id, cut_id or at, line.number, at, fields)

    def _fields(self, cut: dict[str, Any], supervision: dict[str, Any]) -> dict[str, Any]:
        recording = _object(cut, "recording")
        if recording.get("transforms"):
            raise InputError(
                "recording: expected one as it is on disk, got transforms: save the changed audio"
                " first"
            )
        channel = supervision.get("channel", cut.get("channel"))
        source, number = _source(recording, channel)
        offset_s, duration_s = _span(cut, supervision, recording)
        fields: dict[str, Any] = {"audio": resolved(self.folder, source), "channel": number}
        fields |= {"offset_s": offset_s, "duration_s": duration_s}
        fields["text"] = checked_text(_needed(supervision, "text"), "text")
        fields["language"] = known_code(supervision.get("language"))
        speaker = supervision.get("speaker")
        return (
            fields if speaker is None else fields | {"speaker": checked_string(speaker, "speaker")}
        )


def is_cut(value: dict[str, Any]) -> bool:
    """Return whether a JSON object is one of Lhotse's cuts (of any type)."""
    is_typed = str(value.get("type")).endswith("Cut")
    return (
        is_typed
        or isinstance(value.get("supervisions"), list)
        or isinstance(value.get("recording"), dict)
    )


def _check_kind(cut: dict[str, Any]) -> None:
    kind = cut.get("type", "MonoCut")
    if kind in ("MixedCut", "PaddingCut"):
        raise InputError(f"expected a MonoCut, got a {kind}: save its audio and make cuts of that")
    if kind not in ("MonoCut", "MultiCut", "Cut", "DataCut"):
        raise InputError(f"expected a MonoCut, got {shown(kind)}")


def _source(recording: dict[str, Any], channel: Any) -> tuple[str, int | None]:
    """Return the file that holds the channels, and which of its channels is used, from 1.

    The channel is None if all are used.
    """
    channels = _channels(channel)
    sources = recording.get("sources")
    if (
        not isinstance(sources, list)
        or not sources
        or not all(isinstance(source, dict) for source in sources)
    ):
        raise InputError(f"recording: expected a list of sources, got {shown(sources)}")
    fitting = [
        source
        for source in sources
        if not channels or channels <= _channels(source.get("channels"))
    ]
    if len(fitting) != 1 and len(sources) > 1:
        raise InputError(
            f"recording: expected the channels {sorted(channels)} in one of its {len(sources)}"
            " files"
        )
    source = fitting[0] if fitting else sources[0]
    kind = source.get("type")
    if kind != "file":
        raise InputError(
            f"recording: expected a source of type file, got {shown(kind)}: nothing is run or"
            " fetched"
        )
    path = checked_audio(source.get("source"), "the recording's source")
    held = sorted(_channels(source.get("channels")))
    if len(held) <= 1 or not channels or channels == set(held):
        return path, None
    if len(channels) > 1 or not channels <= set(held):
        raise InputError(
            f"channel: expected one of the file's channels or all, got {sorted(channels)} of {held}"
        )
    return path, held.index(min(channels)) + 1


def _channels(value: Any) -> set[int]:
    if value is None:
        return set()
    values = value if isinstance(value, list) else [value]
    if any(
        isinstance(channel, bool) or not isinstance(channel, int) or channel < 0
        for channel in values
    ):
        raise InputError(f"channel: expected numbers from 0, got {shown(value)}")
    return set(values)


def _span(
    cut: dict[str, Any], supervision: dict[str, Any], recording: dict[str, Any]
) -> tuple[float, float]:
    """Return offset and duration of a supervision in its recording, seconds."""
    start_s = supervision.get("start", 0)
    if isinstance(start_s, (int, float)) and not isinstance(start_s, bool) and start_s < 0:
        start_s = -checked_seconds(
            -start_s, "the supervision's start"
        )  # it begins before the cut does
    else:
        start_s = checked_seconds(start_s, "the supervision's start")
    offset_s = round(checked_seconds(cut.get("start", 0), "the cut's start") + start_s, 8)
    duration_s = checked_seconds(
        _needed(supervision, "duration"), "the supervision's duration", above_zero=True
    )
    end_s = round(offset_s + duration_s, 8)
    total_s = recording.get("duration")
    if total_s is not None:
        total_s = checked_seconds(total_s, "the recording's duration", above_zero=True)
        if total_s < end_s <= total_s + _ROUNDING_S:
            end_s = total_s
    begin_s = 0.0 if -_ROUNDING_S <= offset_s < 0 else offset_s
    if begin_s < 0 or (total_s is not None and end_s > total_s) or end_s <= begin_s:
        whole = "" if total_s is None else f" of {total_s} s"
        raise InputError(
            f"expected a supervision inside its recording{whole}, got {offset_s} to {end_s} s"
        )
    return begin_s, round(end_s - begin_s, 8)


def _object(fields: dict[str, Any], key: str) -> dict[str, Any]:
    value = _needed(fields, key)
    if not isinstance(value, dict):
        raise InputError(f"{key}: expected an object, got {kind_of(value)}")
    return value


def _needed(fields: dict[str, Any], key: str) -> Any:
    if fields.get(key) is None:
        raise InputError(f"expected the key {key}, got {shown(sorted(fields))}")
    return fields[key]
