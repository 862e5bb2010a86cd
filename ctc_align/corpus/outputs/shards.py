"""Shards: the JSON of thousands of utterances in one compressed file, a line each, and their CTM in another."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from ctc_align.corpus.outputs.shared_files import GroupedUtterance
from ctc_align.formats import Alignment, CtmWriter, JsonWriter, Style, TokenCtmWriter, to_dict
from ctc_align.formats.whole_files import placing

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
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
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
        self._cached: tuple[str, dict[str, None]] = ("", {})

    def targets(self, group: str) -> list[Path]:
        return [self._folder / f"{group}{extension}" for extension in self._extensions]

    def holds(self, group: str, id: str) -> bool:
        return id in self._ids(group)

    def is_of(self, group: str, ids: Sequence[str]) -> bool:
        return list(self._ids(group)) == list(ids)

    def _ids(self, group: str) -> dict[str, None]:
        """Return the utterances of a finished shard, none where it is not whole; the last shard is cached."""
        if self._cached[0] != group:
            self._cached = (group, self._read_ids(group))
        return self._cached[1]

    def _read_ids(self, group: str) -> dict[str, None]:
        if not all(map(os.path.isfile, self.targets(group))):
            return {}
        try:
            return dict.fromkeys(_id_of(line) for line in read_lines(self.targets(group)[0]))
        except (OSError, EOFError, zlib.error, ValueError):  # not a shard of ours, or cut: as if it were not there
            return {}

    def rows(self, group: str, utterances: Sequence[GroupedUtterance]) -> Iterator[tuple[str, bytes]]:
        if not self._ids(group):
            return
        json_path, *ctm_paths = self.targets(group)
        with ExitStack() as stack:
            ctms = [_blocks(stack.enter_context(open(path, "rb"))) for path in ctm_paths]
            for line in read_lines(json_path):
                yield _id_of(line), _packed([line, *(next(blocks, b"") for blocks in ctms)])

    def write(
        self, group: str, utterances: Sequence[GroupedUtterance], rows: Iterable[tuple[str, bytes]]
    ) -> list[Path]:
        targets = self.targets(group)
        self._cached = ("", {})
        with placing(targets, self._parts) as parts, ExitStack() as stack:
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
    block: list[bytes] = []
    for line in file:
        if line.startswith(b";; ") and block:
            yield b"".join(block)
            block = []
        block.append(line)
    if block:
        yield b"".join(block)
