"""Shards: the JSON of thousands of utterances in one compressed file, a line each, and their CTM in another."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from ctc_align.corpus.outputs.records import checksum
from ctc_align.corpus.outputs.shared_files import GroupedUtterance
from ctc_align.corpus.state.journal_lines import Checksum
from ctc_align.formats import Alignment, CtmWriter, JsonWriter, Style, TokenCtmWriter, to_dict
from ctc_align.formats.whole_files import placing
from ctc_align.text.control_characters import json_escaped

_LEVEL = 6
_ID_KEY = b'"utterance": '


def shard_row(alignment: Alignment, style: Style, formats: Sequence[str]) -> bytes:
    """Return an utterance's part of a shard: the line of JSON and, with "ctm", the lines of both CTMs."""
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
    """
    >>> _unpacked(_packed([b"a", b"", b"bc"]))
    [b'a', b'', b'bc']
    """
    head, _, body = row.partition(b"\n")
    ends = list(itertools.accumulate(map(int, head.split()), initial=0))
    return [body[start:end] for start, end in itertools.pairwise(ends)]


class ShardFiles:
    """`alignments-IIIII.jsonl.gz`, `.ctm` and `.tokens.ctm` in `folder`. Bytes depend on the rows only."""

    def __init__(self, folder: Path, formats: Sequence[str], parts: Path | None = None) -> None:
        self._folder = folder
        self._extensions = (".jsonl.gz", ".ctm", ".tokens.ctm") if "ctm" in formats else (".jsonl.gz",)
        self._parts = parts
        self._cached: tuple[str, dict[str, Checksum]] = ("", {})

    def targets(self, group: str) -> list[Path]:
        return [self._folder / f"{group}{extension}" for extension in self._extensions]

    def groups(self) -> set[str]:
        return {path.name.removesuffix(".jsonl.gz") for path in self._folder.glob("alignments-?????.jsonl.gz")}

    def content(self, row: bytes) -> bytes:
        return row

    def holds(self, group: str, id: str, row: Checksum | None = None) -> bool:
        found = self.checksums(group).get(id)
        return found is not None and (row is None or found == tuple(row))

    def faults(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Mapping[str, Checksum | None]
    ) -> dict[str, str]:
        reason = f"its rows of {group} are not there, or not what was written"
        faults = {id: reason for id, row in rows.items() if not self.holds(group, id, row)}
        if rows and not faults and not _has_zero_padding(self.targets(group)[0]):
            faults[next(iter(rows))] = f"{group}.jsonl.gz is not what was written"
        return faults

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        return list(self.checksums(group)) == list(ids)

    def checksums(self, group: str) -> dict[str, Checksum]:
        """Return the rows of a finished shard, none where it cannot be read; the last shard is cached."""
        if self._cached[0] != group:
            self._cached = (group, self._read_checksums(group))
        return self._cached[1]

    def _read_checksums(self, group: str) -> dict[str, Checksum]:
        """Return the checksums of the rows; where a file holds more than the rows, that of the first is no number.

        A shard of which nobody knows what else is in it is then written anew.
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
                crc, length = zlib.crc32(line, crc), length + len(line)
                sizes = [size + len(block) for size, block in zip(sizes, blocks)]
            is_whole = _has_frame(targets[0], crc, length) and sizes == [os.path.getsize(path) for path in targets[1:]]
        except (OSError, EOFError, zlib.error, ValueError):  # not a shard of ours, or cut: as if it were not there
            return {}
        if found and not is_whole:
            found[next(iter(found))] = (0, "")
        return found

    def rows(self, group: str, utterances: Sequence[GroupedUtterance]) -> Iterator[tuple[str, bytes]]:
        if not self.checksums(group):
            return
        for row in self._read_rows(group):
            yield _id_of(row[0]), _packed(row)

    def _read_rows(self, group: str) -> Iterator[list[bytes]]:
        """Yield the pieces of one utterance after another.

        Raises:
            OSError, EOFError, zlib.error: a file cannot be read, or is cut.
        """
        json_path, *ctm_paths = self.targets(group)
        with ExitStack() as stack:
            ctms = [_blocks(stack.enter_context(open(path, "rb"))) for path in ctm_paths]
            for line in read_lines(json_path):
                yield [line, *(next(blocks, b"") for blocks in ctms)]

    def write(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Iterable[tuple[str, bytes]]
    ) -> list[Path]:
        targets = self.targets(group)
        self._cached = ("", {})
        with placing(targets, self._parts, sync=True) as parts, ExitStack() as stack:
            raw = [stack.enter_context(open(part, "xb")) for _, part in parts]
            # no name and no time in the header: the same rows are the same bytes
            packer = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw[0], mtime=0)
            files: list[Any] = [stack.enter_context(packer), *raw[1:]]
            for _, row in rows:
                for file, piece in zip(files, _unpacked(row)):
                    file.write(piece)
        return targets


def read_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a shard's JSON, with their line ends.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read, or is cut.
    """
    with gzip.open(path, "rb") as file:
        yield from file


def _id_of(line: bytes) -> str:
    """Return the utterance of a line, without parsing all of it: only constants stand before it."""
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
    """Return whether a gzip file has the head of ours, and ends with the checksum and the length of this content."""
    head = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=head, mtime=0):
        pass
    with open(path, "rb") as file:
        start = file.read(10)
        file.seek(-8, os.SEEK_END)
        return start == head.getvalue()[:10] and file.read() == struct.pack("<II", crc, length & 0xFFFFFFFF)


def _has_zero_padding(path: Path) -> bool:
    """Return whether the last bits of a gzip file's content, which mean nothing, are zeros as they were written.

    If the highest bit that is set could be cleared, and the content were the same, it is one of them.
    """
    content, crc = zlib.decompressobj(-zlib.MAX_WBITS), 0
    with open(path, "rb") as file:
        left = file.seek(0, os.SEEK_END) - 19
        file.seek(10)
        while left > 0 and (chunk := file.read(min(left, 1 << 16))):
            left -= len(chunk)
            crc = zlib.crc32(content.decompress(chunk), crc)
        last, expected = file.read(1)[0], file.read(4)
    if not last:
        return True
    cleared = last & ~(1 << last.bit_length() - 1)
    try:
        crc = zlib.crc32(content.decompress(bytes([cleared])), crc)
    except zlib.error:
        return True
    return not (content.eof and struct.pack("<I", crc) == expected)
