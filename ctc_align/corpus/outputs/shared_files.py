"""Files that several utterances share.

They are shards, and the TextGrid of a recording with many utterances.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ctc_align.corpus.outputs.records import checksum
from ctc_align.errors import InputError
from ctc_align.files import (
    CtmWriter,
    JsonWriter,
    Style,
    TokenCtmWriter,
    to_dict,
)
from ctc_align.files.textgrid import read_textgrid, write_tiers
from ctc_align.files.whole_files import placing, write_whole
from ctc_align.files.writer import RECORDING, UNITS_PER_S, TimedLabel, token_rows, word_rows
from ctc_align.sources.utterance import Checksum, Utterance
from ctc_align.text.characters import json_escaped
from ctc_align.types import Alignment, Tier

_LEVEL = 6
_ID_KEY = b'"utterance": '
_EXTENSION = ".TextGrid"
_WORDS = "words"
_KINDS = ("phones", "tokens")


@dataclass(frozen=True)
class GroupedUtterance:
    """An utterance of a group whose files are not complete yet."""

    index: int
    id: str
    speaker: str = ""
    offset_s: float = 0.0
    duration_s: float | None = None

    @classmethod
    def of(cls, index: int, utterance: Utterance) -> GroupedUtterance:
        speaker = utterance.speaker or utterance.tier
        return cls(index, utterance.id, speaker, utterance.offset_s, utterance.duration_s)

    @property
    def end_s(self) -> float:
        """The end in its recording, in seconds; inf if it is unknown."""
        if self.duration_s is None:
            return math.inf
        return self.offset_s + self.duration_s


NamedRow = tuple[str, bytes]
"""The id of an utterance, and its row."""


class SharedFiles(Protocol):
    """One kind of file that is assembled from the rows of many utterances."""

    def targets(self, group: str) -> list[Path]:
        """Return the paths of the group's files."""
        ...

    def groups(self) -> set[str]:
        """Return the groups that have files.

        There are none for a kind of file whose rows do not name their utterances.
        """
        return set()

    def content(self, row: bytes) -> bytes:
        """Return the part of a row that goes into the group's files.

        Its checksum is in the journal.
        """
        ...

    def holds(self, group: str, id: str, row: Checksum | None = None) -> bool:
        """Return whether the group's files exist and contain this utterance.

        They must contain its `row`, too, as far as they show it.
        """
        ...

    def faults(
        self,
        group: str,
        utterances: Sequence[GroupedUtterance],
        rows: Mapping[str, Checksum | None],
    ) -> dict[str, str]:
        """Return what is wrong with the group's files, by utterance.

        All of their bytes are read.

        Args:
            utterances: all of the group; rows: those in its files, with their checksums in the
                journal.
        """
        ...

    def checksums(self, group: str) -> Mapping[str, Checksum]:
        """Return the rows of a finished group, by utterance.

        There are none if its files do not name their utterances.
        """
        return {}

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        """Return whether the group's files exist and are made from these utterances.

        Files answer this as far as they can show it.
        """
        ...

    def rows(self, group: str, utterances: Sequence[GroupedUtterance]) -> Iterator[NamedRow]:
        """Yield (id, row) from the group's files.

        They are those of `utterances`, and others that name their utterance.
        """
        ...

    def write(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Iterable[NamedRow]
    ) -> list[Path]:
        """Write the group's files whole.

        They hold the rows of those `utterances` that succeeded, in order.
        """
        ...


def shard_row(alignment: Alignment, style: Style, formats: Sequence[str]) -> bytes:
    """Return an utterance's part of a shard.

    It is the line of JSON and, with "ctm", the lines of both CTMs.
    """
    pieces = [_line(to_dict(alignment, style))]
    if "ctm" in formats:
        for writer in (CtmWriter(style), TokenCtmWriter(style)):
            text = io.StringIO()
            writer.write(alignment, text)
            pieces.append(text.getvalue().encode("utf-8", writer.encoding_errors))
    return _packed(pieces)


def _line(data: dict[str, Any]) -> bytes:
    text = json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False))
    return text.encode("utf-8", JsonWriter.encoding_errors) + b"\n"


def _packed(pieces: Sequence[bytes]) -> bytes:
    return b" ".join(b"%d" % len(piece) for piece in pieces) + b"\n" + b"".join(pieces)


def _unpacked(row: bytes) -> list[bytes]:
    """Return the parts of a row that `_packed` joined.

    >>> _unpacked(_packed([b"a", b"", b"bc"]))
    [b'a', b'', b'bc']
    """
    head, _, body = row.partition(b"\n")
    ends = list(itertools.accumulate(map(int, head.split()), initial=0))
    return [body[start:end] for start, end in itertools.pairwise(ends)]


class ShardFiles(SharedFiles):
    """`alignments-IIIII.jsonl.gz`, `.ctm` and `.tokens.ctm` in `folder`.

    Their bytes depend on the rows alone.
    """

    def __init__(self, folder: Path, formats: Sequence[str], parts: Path | None = None) -> None:
        self._folder = folder
        self._extensions: tuple[str, ...] = (".jsonl.gz",)
        if "ctm" in formats:
            self._extensions = (".jsonl.gz", ".ctm", ".tokens.ctm")
        self._parts = parts
        self._cached: tuple[str, dict[str, Checksum]] = ("", {})

    def targets(self, group: str) -> list[Path]:
        return [self._folder / f"{group}{extension}" for extension in self._extensions]

    def groups(self) -> set[str]:
        return {
            path.name.removesuffix(".jsonl.gz")
            for path in self._folder.glob("alignments-?????.jsonl.gz")
        }

    def content(self, row: bytes) -> bytes:
        return row

    def holds(self, group: str, id: str, row: Checksum | None = None) -> bool:
        found = self.checksums(group).get(id)
        return found is not None and (row is None or found == tuple(row))

    def faults(
        self,
        group: str,
        utterances: Sequence[GroupedUtterance],
        rows: Mapping[str, Checksum | None],
    ) -> dict[str, str]:
        reason = f"its rows of {group} are not there, or not what was written"
        faults = {id: reason for id, row in rows.items() if not self.holds(group, id, row)}
        if rows and not faults and not _has_zero_padding(self.targets(group)[0]):
            faults[next(iter(rows))] = f"{group}.jsonl.gz is not what was written"
        return faults

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        return list(self.checksums(group)) == list(ids)

    def checksums(self, group: str) -> dict[str, Checksum]:
        """Return the rows of a finished shard, none if it cannot be read.

        The last shard is cached.
        """
        if self._cached[0] != group:
            self._cached = (group, self._read_checksums(group))
        return self._cached[1]

    def _read_checksums(self, group: str) -> dict[str, Checksum]:
        """Return the checksums of the rows.

        If a file holds more than the rows, the first checksum is not a number. So a shard with
        unknown content is written again.
        """
        targets = self.targets(group)
        if not all(map(os.path.isfile, targets)):
            return {}
        found: dict[str, Checksum] = {}
        crc = length = 0
        sizes = [0] * (len(targets) - 1)
        try:
            for line, *blocks in self._read_rows(group):
                found[_id_of(line)] = checksum(_packed([line, *blocks]))
                crc = zlib.crc32(line, crc)
                length = length + len(line)
                sizes = [size + len(block) for size, block in zip(sizes, blocks)]
            is_whole = _has_frame(targets[0], crc, length) and sizes == [
                os.path.getsize(path) for path in targets[1:]
            ]
        except (
            OSError,
            EOFError,
            zlib.error,
            ValueError,
        ):  # not a shard of ours, or cut: as if it were not there
            return {}
        if found and not is_whole:
            found[next(iter(found))] = (0, "")
        return found

    def rows(self, group: str, utterances: Sequence[GroupedUtterance]) -> Iterator[NamedRow]:
        if not self.checksums(group):
            return
        for row in self._read_rows(group):
            yield _id_of(row[0]), _packed(row)

    def _read_rows(self, group: str) -> Iterator[list[bytes]]:
        """Yield the pieces of one utterance after another.

        Raises:
            OSError, EOFError, zlib.error: a file cannot be read, or is truncated.
        """
        json_path, *ctm_paths = self.targets(group)
        with ExitStack() as stack:
            ctms = [_blocks(stack.enter_context(open(path, "rb"))) for path in ctm_paths]
            for line in read_lines(json_path):
                yield [line, *(next(blocks, b"") for blocks in ctms)]

    def write(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Iterable[NamedRow]
    ) -> list[Path]:
        targets = self.targets(group)
        self._cached = ("", {})
        with placing(targets, self._parts, sync=True) as parts, ExitStack() as stack:
            raw = [stack.enter_context(open(part, "xb")) for _, part in parts]
            # no name and no time in the header: the same rows are the same bytes
            packer = gzip.GzipFile(
                filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw[0], mtime=0
            )
            files: list[Any] = [stack.enter_context(packer), *raw[1:]]
            for _, row in rows:
                for file, piece in zip(files, _unpacked(row)):
                    file.write(piece)
        return targets


def read_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a shard's JSON, with their line ends.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read, or is truncated.
    """
    with gzip.open(path, "rb") as file:
        yield from file


def _id_of(line: bytes) -> str:
    """Return the utterance of a line without parsing the whole line: only constants precede it."""
    at = line.index(_ID_KEY) + len(_ID_KEY)
    end = at + 1
    while line[end : end + 1] != b'"':
        end += 2 if line[end : end + 1] == b"\\" else 1
        if end >= len(line):
            raise ValueError("a line that ends in the utterance's name")
    return json.loads(line[at : end + 1])


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of one utterance after another: each begins with its comment."""
    mark, rest = b"", b""
    while chunk := file.read(1 << 20):
        *blocks, rest = (rest + chunk).split(b"\n;; ")
        for block in blocks:
            yield mark + block + b"\n"
            mark = b";; "
    if mark or rest:
        yield mark + rest


def _has_frame(path: Path, crc: int, length: int) -> bool:
    """Return whether a gzip file has our header and this content.

    Its end shows the checksum and the length of the content.
    """
    head = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=head, mtime=0):
        pass
    with open(path, "rb") as file:
        start = file.read(10)
        file.seek(-8, os.SEEK_END)
        return start == head.getvalue()[:10] and file.read() == struct.pack(
            "<II", crc, length & 0xFFFFFFFF
        )


def _has_zero_padding(path: Path) -> bool:
    """Return whether the unused last bits of a gzip file's content are zeros, as they were written.

    If clearing the highest set bit does not change the content, that bit is an unused one.
    """
    content = zlib.decompressobj(-zlib.MAX_WBITS)
    crc = 0
    with open(path, "rb") as file:
        left = file.seek(0, os.SEEK_END) - 19
        file.seek(10)
        while left > 0 and (chunk := file.read(min(left, 1 << 16))):
            left -= len(chunk)
            crc = zlib.crc32(content.decompress(chunk), crc)
        last = file.read(1)[0]
        expected = file.read(4)
    if not last:
        return True
    cleared = last & ~(1 << last.bit_length() - 1)
    try:
        crc = zlib.crc32(content.decompress(bytes([cleared])), crc)
    except zlib.error:
        return True
    return not (content.eof and struct.pack("<I", crc) == expected)


def grid_row(alignment: Alignment, style: Style, recording_s: float) -> bytes:
    """Return an utterance's part of the recording's TextGrid.

    Times are those of the recording, in units of 10 µs.
    """
    style = Style(times=RECORDING, labels=style.labels)
    row = {
        "end": math.floor(recording_s * UNITS_PER_S + 1e-4),
        "kind": alignment.token_kind,
        "words": [_plain(row) for row in word_rows(alignment, style)],
        "tokens": [_plain(row) for row in token_rows(alignment, style)],
    }
    return json.dumps(row).encode()


def _plain(row: TimedLabel) -> list[Any]:
    return [row.start, row.end, row.label]


class RecordingGrids(SharedFiles):
    """`RECORDING.TextGrid` below `folder`, with the tiers `words` and `phones` (or `tokens`).

    Each spans the whole recording, in the recording's times. As in MFA, the tiers of two or more
    speakers are named `SPEAKER - words`, `SPEAKER - phones`; every speaker of the recording has
    tiers, even if all of their utterances failed. A TextGrid does not show to which utterance an
    interval belongs.
    """

    def __init__(self, folder: Path, parts: Path | None = None) -> None:
        self._folder = folder
        self._parts = parts

    def targets(self, group: str) -> list[Path]:
        return [self._folder / f"{group}{_EXTENSION}"]

    def content(self, row: bytes) -> bytes:
        """Return the labelled intervals of a row; others are not written to the file."""
        part = json.loads(row)
        kept = [
            [piece for piece in part[tier] if piece[2] and piece[1] > piece[0]]
            for tier in ("words", "tokens")
        ]
        return json.dumps(kept).encode()

    def holds(self, group: str, id: str, row: Checksum | None = None) -> bool:
        return os.path.isfile(self.targets(group)[0])

    def faults(
        self,
        group: str,
        utterances: Sequence[GroupedUtterance],
        rows: Mapping[str, Checksum | None],
    ) -> dict[str, str]:
        """Compare the rows, and compare the file with their written form.

        If utterances of one speaker overlap, words are cut, and their rows are not compared.
        """
        path = self.targets(group)[0]
        if path.is_file():
            found = {id: row for id, row in self.rows(group, utterances) if id in rows}
        else:
            found = {}
        cut = _overlapping(utterances)
        faults = {}
        for id, row in rows.items():
            is_same = id in found and (
                row is None or id in cut or checksum(self.content(found[id])) == tuple(row)
            )
            if not is_same:
                faults[id] = f"its part of {path.name} is not there, or not what was written"
        if rows and not faults and path.read_bytes() != _rendered(utterances, found.items()):
            faults[next(iter(rows))] = f"{path.name} is not what was written"
        return faults

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        return os.path.isfile(self.targets(group)[0]) == bool(ids)

    def rows(self, group: str, utterances: Sequence[GroupedUtterance]) -> Iterator[NamedRow]:
        try:
            grid = read_textgrid(self.targets(group)[0])
        except InputError:
            return
        tiers = {tier.name: tier for tier in grid.tiers}
        prefixes = _prefixes(utterances)
        for utterance in utterances:
            prefix = prefixes[utterance.speaker]
            kind = next((kind for kind in _KINDS if prefix + kind in tiers), None)
            if kind is None or prefix + _WORDS not in tiers:
                continue
            parts = {
                "words": _within(tiers[prefix + _WORDS], utterance),
                "tokens": _within(tiers[prefix + kind], utterance),
            }
            yield (
                utterance.id,
                json.dumps(
                    {"end": round(grid.end_s * UNITS_PER_S), "kind": kind, **parts}
                ).encode(),
            )

    def write(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Iterable[NamedRow]
    ) -> list[Path]:
        target = self.targets(group)[0]
        write_whole({target: _rendered(utterances, rows)}, self._parts, sync=True)
        return [target]


def _rendered(utterances: Sequence[GroupedUtterance], rows: Iterable[NamedRow]) -> bytes:
    """Return the file of these rows."""
    speakers = {utterance.id: utterance.speaker for utterance in utterances}
    prefixes = _prefixes(utterances)
    words: dict[str, list[TimedLabel]] = {speaker: [] for speaker in prefixes}
    tokens: dict[str, list[TimedLabel]] = {speaker: [] for speaker in prefixes}
    end = 1
    kind = _KINDS[1]
    for id, data in rows:
        part = json.loads(data)
        words[speakers[id]] += [TimedLabel(*row) for row in part["words"]]
        tokens[speakers[id]] += [TimedLabel(*row) for row in part["tokens"]]
        end = max(end, part["end"])
        kind = part["kind"]
    tiers = []
    for speaker, prefix in prefixes.items():
        tiers += [
            (prefix + _WORDS, _apart(words[speaker])),
            (prefix + kind, _apart(tokens[speaker])),
        ]
    end = max([end, *(row.end for _, tier in tiers for row in tier[-1:])])
    text = io.StringIO()
    write_tiers(text, tiers, end)
    return text.getvalue().encode("utf-8", "replace")


def _overlapping(utterances: Sequence[GroupedUtterance]) -> set[str]:
    """Return the utterances that overlap another one of the same speaker."""
    overlapping: set[str] = set()
    last: dict[str, tuple[float, str]] = {}
    for utterance in sorted(utterances, key=lambda utterance: utterance.offset_s):
        before_s, before = last.get(utterance.speaker, (-math.inf, ""))
        if utterance.offset_s < before_s:
            overlapping |= {before, utterance.id}
        if utterance.end_s >= before_s:
            last[utterance.speaker] = (utterance.end_s, utterance.id)
    return overlapping


def _prefixes(utterances: Sequence[GroupedUtterance]) -> dict[str, str]:
    """Return the prefix of tier names by speaker, in the order of their first utterances."""
    speakers = dict.fromkeys(utterance.speaker for utterance in utterances)
    several = len(speakers) > 1
    return {speaker: f"{speaker} - " if several and speaker else "" for speaker in speakers}


def _within(tier: Tier, utterance: GroupedUtterance) -> list[list[Any]]:
    """Return the labelled intervals whose middle lies in the utterance."""
    return [
        [round(interval.start_s * UNITS_PER_S), round(interval.end_s * UNITS_PER_S), interval.label]
        for interval in tier.intervals
        if interval.label
        and utterance.offset_s <= (interval.start_s + interval.end_s) / 2 < utterance.end_s
    ]


def _apart(rows: list[TimedLabel]) -> list[TimedLabel]:
    """Return the rows in order of time, none of them overlapping or empty.

    Where utterances of one speaker overlap, the later row is cut.
    """
    apart: list[TimedLabel] = []
    free = 0
    for row in sorted(rows, key=lambda row: (row.start, row.end)):
        start = max(row.start, free)
        if row.end > start:
            apart.append(TimedLabel(start, row.end, row.label))
            free = row.end
    return apart
