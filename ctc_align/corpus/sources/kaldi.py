"""Kaldi data folders: wav.scp (or logprobs.scp), text, and segments, utt2spk and utt2lang, if there. Nothing is run."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from ctc_align.corpus.sources.source import (
    BOM,
    MAX_LINE_BYTES,
    FolderSource,
    Item,
    ItemMaker,
    SourceLocation,
    TextLine,
    checked_audio,
    checked_channel,
    checked_duration,
    checked_seconds,
    checked_text,
    decoded,
    is_gzip,
    known_code,
    parsed_number,
    printable,
    read_lines,
    require_file,
    resolved,
    shown,
)
from ctc_align.corpus.sources.utterance_ids import HashIndex, hash64
from ctc_align.errors import InputError, UsageError
from ctc_align.reading import open_input

SCP, LOG_PROBS_SCP = "wav.scp", "logprobs.scp"

_SPACE = re.compile(r"[ \t]+")
_SPACE_BYTES = re.compile(rb"[ \t]+")
_ARCHIVE = re.compile(r"\.ark(\.gz)?:\d+(\[[^\]]*\])?$")


class Kaldi(FolderSource):
    """The utterances of `segments`, in its order, or without one those of `wav.scp`; the other files in any order.

    Without a wav.scp those of `logprobs.scp`, whose lines name files of log-probs or positions in archives
    (FILE.ark:17).

    The other files are indexed by hash: 24 to 35 bytes per line, so about 1 GB for ten million utterances with segments
    and speakers, and no text. Relative paths count from the folder, and if there is no
    such file from the current one, as Kaldi has it. Shell pipes and archives are refused, so are utterances without a
    transcript or a recording, transcripts without either, and lines that one before them made superfluous.
    """

    kind = "kaldi"

    @classmethod
    def is_kind_of(cls, path: str) -> bool:
        """Return whether a folder has what only Kaldi's have."""
        return any(os.path.isfile(os.path.join(path, name)) for name in (SCP, LOG_PROBS_SCP))

    def __init__(self, options: SourceLocation) -> None:
        super().__init__(options)
        self.scp = SCP if os.path.exists(os.path.join(options.path, SCP)) else LOG_PROBS_SCP
        wanted = (self.scp, "text", *(("segments",) if self.scp == SCP else ()), "utt2spk", "utt2lang")
        for name in wanted[:2]:
            needed = f"{SCP} (or {LOG_PROBS_SCP})" if name == self.scp else name
            require_file(os.path.join(options.path, name), f"a Kaldi data folder with {needed} in it")
        self.has = {name for name in wanted if os.path.lexists(os.path.join(options.path, name))}
        for name in self.has:
            require_file(os.path.join(options.path, name), f"{name} of a Kaldi data folder")
            if is_gzip(os.path.join(options.path, name)):
                raise UsageError(
                    f"{printable(self.path(name))}: expected a text file, got a gzip archive; unpack it first"
                )
        self.files = tuple(os.path.join(options.path, name) for name in wanted if name in self.has)
        self.first = "segments" if "segments" in self.has else self.scp
        if next(read_lines(self.path(self.first)), None) is None:
            raise UsageError(f"{self.path(self.first)}: expected the utterances of a corpus, got an empty file")

    def path(self, name: str) -> str:
        return os.path.join(self.name, name)

    def __iter__(self) -> Iterator[Item]:
        maker = ItemMaker(fold_case=self.fold_case, file=self.first)
        index = {name: _LineIndex(self.path(name), name) for name in self.has if name != self.first}
        try:
            for line in read_lines(self.path(self.first)):
                yield self._item(line, maker, index)
            for name in (self.scp, "text"):
                if name in index:
                    yield from self._left_over(index[name], maker)
        finally:
            for lookup in index.values():
                lookup.close()

    def _item(self, line: TextLine, maker: ItemMaker, index: dict[str, _LineIndex]) -> Item:
        origin = f"{self.first}, line {line.number}"
        id: str | None = None
        try:
            id, rest = _key_and_rest(line)
            fields = {"audio": rest} if self.first == self.scp else _segment(rest, index[SCP])
            fields["audio"] = self._path(_checked_entry(fields["audio"], self.scp))
            entry = index["text"].get(id)
            if entry is None:
                raise InputError("no transcript: expected a line for it in text")
            fields["text"] = checked_text(entry.rest, f"text, line {entry.number}")
            if "utt2spk" in index and (speaker := index["utt2spk"].get(id)) is not None:
                fields["speaker"] = speaker.rest
            if "utt2lang" in index and (language := index["utt2lang"].get(id)) is not None:
                fields["language"] = known_code(language.rest)
        except InputError as error:
            return maker.refused(id, line.number, origin, str(error))
        return maker.utterance(id, "", line.number, origin, fields)

    def _path(self, entry: str) -> str:
        """Return the path of an entry, or of a position in an archive, from the data folder or the current one."""
        archive, colon, offset = entry.rpartition(":") if _ARCHIVE.search(entry) else (entry, "", "")
        return resolved(self.name, archive) + colon + offset

    def _left_over(self, index: _LineIndex, maker: ItemMaker) -> Iterator[Item]:
        """Yield refusals of the lines that no utterance uses: keys that came before, transcripts without audio."""
        is_text = index.name == "text"
        for line in read_lines(index.path):
            id = index.key_of(line.number)
            first = None if id is None else index.number_of(id)
            if first is not None and first != line.number:
                reason = f"duplicate id {id!r}: {index.name}, line {first} has it already, and is used"
            elif is_text and (id is None or not maker.ids.has(id)):
                reason = line.fault or f"no audio: expected a line for it in {self.first}"
            else:
                continue
            yield maker.refused(id, line.number, f"{index.name}, line {line.number}", reason)


class _KaldiLine(NamedTuple):
    number: int
    rest: str


class _LineIndex:
    """Lines of a file by their first word; of several with one word the first counts."""

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self.numbers = HashIndex()
        self.offsets = array("Q", [0])
        """The offset of line n, from 1, is at n - 1."""
        self.file = open_input(path)
        number = 0
        while data := self.file.readline(MAX_LINE_BYTES):
            number += 1
            key = hash64(_key(data, number))
            while len(data) == MAX_LINE_BYTES and not data.endswith(b"\n"):
                data = self.file.readline(MAX_LINE_BYTES)
            self.offsets.append(self.file.tell())
            if self.numbers.get(key) is None:
                self.numbers.put(key, number)

    def number_of(self, key: str) -> int | None:
        """Return the number of the first line with this key, None without one."""
        return self.numbers.get(hash64(key.encode()))

    def key_of(self, number: int) -> str | None:
        """Return the key of a line, None if it is not UTF-8."""
        try:
            return _key(self._data(number), number).decode("utf-8")
        except UnicodeDecodeError:
            return None

    def get(self, key: str) -> _KaldiLine | None:
        """Return the first line with this key, None without one; raise InputError if it is not UTF-8."""
        number = self.number_of(key)
        if number is None:
            return None
        data = self._data(number)
        line = decoded(number, data)
        if len(data) == MAX_LINE_BYTES:
            line = TextLine(number, "", f"expected a line of text, got one of {MAX_LINE_BYTES >> 20} MiB or more")
        if line.fault:
            raise InputError(f"{self.name}, line {number}: {line.fault}")
        found, rest = _key_and_rest(line)
        return _KaldiLine(number, rest) if found == key else None

    def _data(self, number: int) -> bytes:
        self.file.seek(self.offsets[number - 1])
        return self.file.readline(MAX_LINE_BYTES)

    def close(self) -> None:
        self.file.close()


def _key(data: bytes, number: int) -> bytes:
    """Return the first word of a line, b"" where it is blank."""
    if number == 1:
        data = data.removeprefix(BOM)
    return _SPACE_BYTES.split(data.strip(b" \t\r\n"), maxsplit=1)[0]


def _key_and_rest(line: TextLine) -> tuple[str, str]:
    if line.fault:
        raise InputError(line.fault)
    key, *rest = _SPACE.split(line.text.strip(" \t"), maxsplit=1)
    return key, rest[0] if rest else ""


def _segment(rest: str, recordings: _LineIndex) -> dict[str, Any]:
    """Return audio, offset and duration of `recording start end [channel]`; an end of -1 is the recording's."""
    words = _SPACE.split(rest)
    if len(words) not in (3, 4):
        raise InputError(f"expected utterance, recording, start and end, got {shown(rest)} behind the utterance")
    start_s = checked_seconds(parsed_number(words[1]), "the start")
    fields: dict[str, Any] = {"offset_s": start_s}
    if parsed_number(words[2]) != -1:
        end_s = checked_seconds(parsed_number(words[2]), "the end")
        fields["duration_s"] = checked_duration(start_s, end_s)
    if len(words) == 4:
        channel = words[3]  # counted from 0 in Kaldi
        number = int(channel) + 1 if re.fullmatch("[0-9]{1,5}", channel) else channel
        fields["channel"] = checked_channel(number, "the channel")
    entry = recordings.get(words[0])
    if entry is None:
        raise InputError(f"no audio: expected a line for the recording {words[0]} in wav.scp")
    return fields | {"audio": entry.rest}


def _checked_entry(entry: str, scp: str) -> str:
    """Return the path in a line of `scp`; raise InputError for a command, and for sound in an archive."""
    what = f"{scp}: expected the path of {'an audio file' if scp == SCP else 'log-probs'}"
    if not entry:
        raise InputError(f"{what}, got nothing")
    if entry.endswith("|") or entry.startswith("|"):
        raise InputError(f"{what}, got the shell pipe {shown(entry)}: nothing is run")
    match = _ARCHIVE.search(entry)
    if match and (scp == SCP or match[1] or match[2]):
        part = "a part of a matrix in" if match[2] else "a position in"
        raise InputError(f"{what}, got {part} the archive {shown(entry)}")
    return checked_audio(entry, scp)
