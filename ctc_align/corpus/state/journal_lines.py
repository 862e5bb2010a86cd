"""The lines of a journal: their fields, their checksums, and how they are read.

Each line is a JSON object. It has the number of its run and its own number in the journal, and at its end a checksum: a
line that is damaged, missing or in another place is seen. Lines of earlier versions have none of these (run 0).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ctc_align.text.control_characters import json_escaped
from ctc_align.types import FITS

DONE, FAILED = "done", "failed"
GONE = "gone"
"""The status of what an earlier line is about, and the source has no more in this place: mended, moved or refused."""
_FIRST = ("id", "status", "reason", "loss", "seconds")
_AT_TIMES = (
    "origin",
    "doubt",
    "fit",
    "skipped",
    "words",
    "too_many_skipped",
    "unexplained_s",
    "looks",
    "text",
    "book",
    "part",
    "left_out",
    "files",
    "row",
)
_PRINT = re.compile(r"[0-9a-f]{0,16}")
_CRC = re.compile(rb', "crc": "([0-9a-f]{8})"\}\n\Z')
_CRC_LENGTH = 21
_RUN = re.compile(rb'"run": ([0-9]{1,9}),')
_MOST_NAMED = 10
"""Damaged lines of a journal that are named."""
Checksum = tuple[int, str]
"""Bytes, and 64 bits of their BLAKE2b in hexadecimal."""


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line:
    """The outcome of one utterance, or of an entry of a source that is none.

    `seconds` is the work that it took (reading, its share of its batch, writing), `time` when it was finished (Unix
    time), `fingerprint` a hash of what the result depends on (16 hexadecimal digits), `origin` the place of an entry
    that is no utterance, which has no unique id. `doubt` is set where confidence is below the one that the run asked
    for: the number of words below it (`words`) and of stretches of speech without a word (`unexplained`), and the
    `least_confidence` of a word, None where no word has any. `fit` is that of the transcript, None where the model
    cannot tell, `skipped` the number of words that are not in the recording, of all `words` that can be spoken, and
    `too_many_skipped` is True where those are more than the run let be, else None. `unexplained_s` are the
    seconds of speech that no word explains, None where there is none. `looks` is the language that the
    text looks like where nobody named one and it chose the model `universal`. `text` is a hash of the transcript (16
    hexadecimal digits), None of one of few words or of which recordings read parts. `book` is the path of
    the text of many recordings of which this one reads a part, `part` the characters of that part, first and end, None
    where nothing of it is in the recording, `left_out` those of the longest stretches within it that are not in the
    recording, None where there are none. `files` are the files of this
    utterance alone, by their names below the output folder, `row` is its part of a file of many.

    `run` is the number of the run, one higher than any in the folder's journals at its start, and `number` (`line` in
    JSON) the line's in its journal, from 1; both are given by the `Journal` that appends the line.
    """

    id: str
    status: str
    reason: str | None = None
    loss: float | None = None
    seconds: float = 0.0
    loss_per_token: float | None = None
    duration_s: float | None = None
    fingerprint: str = ""
    time: float = 0.0
    origin: str | None = None
    doubt: dict[str, float | None] | None = None
    fit: str | None = None
    skipped: int | None = None
    words: int | None = None
    too_many_skipped: bool | None = None
    unexplained_s: float | None = None
    looks: str | None = None
    text: str | None = None
    book: str | None = None
    part: tuple[int, int] | None = None
    left_out: tuple[tuple[int, int], ...] | None = None
    files: Mapping[str, Checksum] | None = None
    row: Checksum | None = None
    run: int = 0
    number: int = 0

    @property
    def key(self) -> int:
        return line_key(self.id, self.origin)

    def encoded(self, run: int = 1, number: int = 1) -> bytes:
        """Return one line of JSON, UTF-8, with its checksum last; without what is None of the fields that may lack."""
        data = {name: value for name, value in asdict(self).items() if name not in _AT_TIMES or value is not None}
        first = {name: data[name] for name in _FIRST}
        data = first | {"run": run, "line": number} | {name: data[name] for name in data if name not in _OF_JOURNAL}
        body = json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False)).encode()
        return body[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(body[:-1])


def line_key(id: str, origin: str | None = None) -> int:
    """Return 64 bits that identify an utterance, or a line of a source that is none."""
    text = id if origin is None else f"{id}\0{origin}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Entry(NamedTuple):
    """A whole line of a journal: where it begins, and the line, None where it is damaged or out of its place.

    `is_after_gap`: lines before this one are missing; `number`: the line's own, or the one that it should have;
    `run`: the one that a damaged line seems to be of.
    """

    offset: int
    line: Line | None
    is_after_gap: bool
    number: int
    run: int = 0


def read_entries(path: Path, *, quiet: bool = False) -> Iterator[Entry]:
    """Yield every whole line of a journal; those that are damaged or in a wrong place are told, unless `quiet`."""
    last = damaged = offset = faults = 0
    with open(path, "rb") as file:
        for place, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                break
            line, fault = parsed_line(raw)
            expected = last + damaged + 1
            number = line.number or expected if line is not None else expected
            if number != expected:
                fault = f"expected line {expected} of this journal, got line {number}: lines are missing or moved"
            if number <= last:
                line, number = None, expected
            if fault:
                faults += 1
                if faults <= _MOST_NAMED and not quiet:
                    logger.warning("%s, line %d: %s", path, place, fault)
            seen = _RUN.search(raw) if line is None else None
            yield Entry(offset, line, number != expected, number, int(seen[1]) if seen else 0)
            last, damaged = (number, 0) if line is not None else (last, damaged + 1)
            offset += len(raw)
    if faults > _MOST_NAMED and not quiet:
        logger.warning("%s: %d such lines in all", path, faults)


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the whole lines of a journal that are not damaged; the others are told."""
    return (entry.line for entry in read_entries(path) if entry.line is not None)


def line_at(file: int, offset: int) -> Line | None:
    """Return the line that begins at `offset` of an open journal, None where there is none (any more)."""
    raw, size = b"", 1024
    while not raw.endswith(b"\n"):
        os.lseek(file, offset, os.SEEK_SET)
        found = os.read(file, size)
        end = found.find(b"\n") + 1
        raw = found[:end] if end else found
        if not end and len(found) < size:
            return None
        size *= 4
    return parsed_line(raw)[0]


def parsed_line(raw: bytes) -> tuple[Line | None, str]:
    """Return a line, or None and what is wrong with it."""
    match = _CRC.search(raw, max(0, len(raw) - _CRC_LENGTH))
    if match is not None and zlib.crc32(raw[: match.start()]) != int(match[1], 16):
        return None, "its checksum does not match what it says; its utterance is done again"
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        data = None
    is_ours = isinstance(data, dict) and (match is not None or not data.keys() & _CHECKED)
    line = _line(data) if is_ours else None
    return line, "" if line is not None else "not a line of a journal; its utterance is done again"


def _line(data: Any) -> Line | None:
    """Return the line that JSON data is, None for anything else."""
    values = {name: value for name, value in data.items() if name in _FIELDS}
    for name, value in values.items():
        if not (value is None and name in _MAY_BE_NONE) and not _FIELDS[name](value):
            return None
    if not {"id", "status"} <= values.keys():
        return None
    if values.get("row") is not None:
        values["row"] = tuple(values["row"])
    if values.get("part") is not None:
        values["part"] = tuple(values["part"])
    if values.get("left_out") is not None:
        values["left_out"] = tuple(map(tuple, values["left_out"]))
    if values.get("files") is not None:
        values["files"] = {name: tuple(recorded) for name, recorded in values["files"].items()}
    number = values.pop("line", 0)
    return Line(**values, number=number)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_doubt(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"words", "unexplained", "least_confidence"}
        and all(type(value[name]) is int and value[name] >= 0 for name in ("words", "unexplained"))
        and (value["least_confidence"] is None or _is_number(value["least_confidence"]))
    )


def _is_checksum(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and _is_count(value[0])
        and _is_text(value[1])
        and _PRINT.fullmatch(value[1]) is not None
    )


def _is_files(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_checksum, value.values()))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_span(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "id": _is_text,
    "status": (DONE, FAILED, GONE).__contains__,
    "reason": _is_text,
    "loss": _is_number,
    "seconds": _is_number,
    "loss_per_token": _is_number,
    "duration_s": _is_number,
    "fingerprint": lambda value: _is_text(value) and _PRINT.fullmatch(value) is not None,
    "time": _is_number,
    "origin": _is_text,
    "doubt": _is_doubt,
    "fit": FITS.__contains__,
    "skipped": _is_count,
    "words": _is_count,
    "too_many_skipped": lambda value: value is True,
    "unexplained_s": lambda value: _is_number(value) and value >= 0,
    "looks": _is_text,
    "text": lambda value: _is_text(value) and _PRINT.fullmatch(value) is not None and value != "",
    "book": _is_text,
    "part": _is_span,
    "left_out": lambda value: isinstance(value, list) and all(map(_is_span, value)),
    "files": _is_files,
    "row": _is_checksum,
    "run": _is_count,
    "line": _is_count,
}
"""Checks of the fields of a line."""
_MAY_BE_NONE = ("reason", "loss", "loss_per_token", "duration_s", *_AT_TIMES)
_OF_JOURNAL = (*_FIRST, "run", "number")
_CHECKED = {"run", "line", "files", "row", "crc"}
"""Fields of lines that have a checksum."""
