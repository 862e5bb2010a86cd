"""Ids of utterances: unique, in little memory.

Their output paths stay below the output folder.

An id may be any string. `output_of` turns it into a similar path ("speaker/utterance") that cannot
leave, hide in or break the output folder: dangerous characters are written as %XX, as in URLs.
`UsedIds` stores 64-bit hashes: most of them in sorted arrays, 16 bytes per id, and the latest (6
percent) in a dict, so ten million ids take at most 270 MB.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import PurePath

import numpy as np

from ctc_align.errors import InputError
from ctc_align.files.formats import EXTENSIONS

MAX_PART_BYTES = 235
"""The longest part of a path: file systems allow 255 bytes.

Extensions such as `.tokens.ctm` and numbers after the name need some of them.
"""
MAX_OUTPUT_BYTES = 1024
_KEPT_BYTES = 160

# what no file system or shell should get, and a % that would read as an escape
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]|%(?=[0-9A-F]{2})")
_DRIVE = re.compile(r"[A-Za-z]:")
# on Windows `a:b` is a stream of the file a, dots and blanks at an end are dropped, and `aux.json`
# is a device
_UNSAFE_ON_WINDOWS = re.compile(r'[<>:"|?*]|[. ]\Z')
_DEVICES = re.compile(
    r"(con|prn|aux|nul|(com|lpt)[0-9¹²³]|conin\$|conout\$) *(\..*)?", re.DOTALL | re.IGNORECASE
)
_OURS = re.compile(r"summary(\..*)?|journal(\..*)?|manifest(\..*)?|alignments(-.*)?", re.DOTALL)
_OUR_PREFIX = ".ctc-align"
_WRITTEN = [extension.casefold() for extension in EXTENSIONS]
_EXTENSIONS = (
    *sorted({PurePath(f"a{extension}").suffix for extension in _WRITTEN}),
    *(".jsonl", ".gz", ".flac", ".wav", ".lab", ".part", ".tmp", ".sqlite"),
)
_COMPOUNDS = (
    *(extension.rpartition(".")[0] for extension in _WRITTEN if extension.count(".") > 1),
    *(".phones", ".words", ".labels"),
)

_RECENT = 2**10
_RECENT_SHARE = 16
_LAST_LINE = 2**32 - 1


class TakenError(InputError):
    """An id that the source has used before, at `line`.

    `made`: that id was made from a file's name.
    """

    def __init__(self, id: str, line: int, made: bool) -> None:
        super().__init__(f"the id {id!r} is taken")
        self.line, self.made = line, made


def output_of(id: str, windows: bool = os.name == "nt") -> str:
    """Return the path below the output folder, without extension, that mirrors `id`.

    Two ids never share one, unless a name had to be shortened and 128-bit hashes collide. The path
    is
    relative, has no empty, "." or ".." part, no control characters, no backslash and no drive
    letter; no part is longer than MAX_PART_BYTES; and it never names a file of the run, whatever
    the extension. For `windows` the names that the system reserves, refuses or interprets have
    escapes, too.

    >>> output_of("speaker 1/it's.one"), output_of("../../etc/passwd"), output_of("summary")
    ("speaker 1/it's.one", '%2E%2E/%2E%2E/etc/passwd', '%73ummary')
    >>> output_of("nul/what? 12:30.", windows=True)
    '%6Eul/what%3F 12%3A30%2E'
    """
    parts = id.split("/")
    last = len(parts) - 1
    safe = [_safe(part, first=i == 0, last=i == last) for i, part in enumerate(parts)]
    if windows:
        safe = [_safe_on_windows(part) for part in safe]
    output = "/".join(_shortened(part, part, MAX_PART_BYTES) for part in safe)
    if len(output.encode()) > MAX_OUTPUT_BYTES:
        return _shortened(safe[-1], id, 0)
    return output


def _safe(part: str, first: bool, last: bool) -> str:
    if not part:
        return "%2F"
    if part in (".", ".."):
        return part.replace(".", "%2E")
    safe = _UNSAFE.sub(lambda match: f"%{ord(match.group()):02X}", part)
    folded = safe.casefold()
    if first and _DRIVE.match(safe):
        safe = f"{safe[0]}%3A{safe[2:]}"
    elif folded.startswith(_OUR_PREFIX) or (first and last and _OURS.fullmatch(folded)):
        safe = "".join(f"%{byte:02X}" for byte in safe[0].encode()) + safe[1:]
    if folded.endswith(_COMPOUNDS if last else _EXTENSIONS):
        # a folder a.json beside the utterance a, or the words of a.tokens beside the tokens of a
        stem, _, ending = safe.rpartition(".")
        safe = f"{stem}%2E{ending}"
    return safe


def _safe_on_windows(part: str) -> str:
    safe = _UNSAFE_ON_WINDOWS.sub(lambda match: f"%{ord(match.group()):02X}", part)
    return f"%{ord(safe[0]):02X}{safe[1:]}" if _DEVICES.fullmatch(safe) else safe


def _shortened(part: str, whole: str, limit: int) -> str:
    """Return `part`; if it is longer than `limit` bytes, its beginning and a hash of `whole`."""
    data = part.encode()
    if len(data) <= limit:
        return part
    kept = data[:_KEPT_BYTES].decode("utf-8", "ignore")
    return f"{kept}~{blake2b(whole.encode(), digest_size=16).hexdigest()}"


class HashIndex:
    """Numbers of 64 bits by keys of 64 bits: the latest in a dict, those before in sorted arrays.

    >>> index = HashIndex(recent=2)
    >>> for number, name in enumerate([b"a", b"b", b"c"]):
    ...     index.put(hash64(name), number)
    >>> [index.get(hash64(name)) for name in (b"a", b"b", b"c", b"d")]
    [0, 1, 2, None]
    """

    def __init__(self, recent: int = _RECENT) -> None:
        self._most = recent
        self._recent: dict[int, int] = {}
        self._keys = np.empty(0, np.uint64)
        self._values = np.empty(0, np.uint64)

    def get(self, key: int) -> int | None:
        """Return the value of `key`, None if it has none."""
        value = self._recent.get(key)
        if value is None and len(self._keys):
            index = int(self._keys.searchsorted(np.uint64(key)))
            if index < len(self._keys) and int(self._keys[index]) == key:
                return int(self._values[index])
        return value

    def put(self, key: int, value: int) -> None:
        """Set the value of a key that has none."""
        self._recent[key] = value
        if len(self._recent) >= max(self._most, len(self._keys) // _RECENT_SHARE):
            keys = np.fromiter(self._recent, np.uint64, len(self._recent))
            values = np.fromiter(self._recent.values(), np.uint64, len(self._recent))
            self._recent.clear()
            order = np.argsort(keys)
            indices = np.searchsorted(self._keys, keys[order])
            self._keys = np.insert(self._keys, indices, keys[order])
            self._values = np.insert(self._values, indices, values[order])


def hash64(name: bytes) -> int:
    """Return 64 bits of BLAKE2.

    In one of 370,000 corpora of ten million names, two names share a hash.
    """
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "little")


def hash31(name: bytes) -> int:
    """Return 31 bits that do not depend on those of `hash64`."""
    return int.from_bytes(blake2b(name, digest_size=4, person=b"who").digest(), "little") >> 1


class UsedIds:
    """The ids of a source so far, and their outputs.

    `fold_case`: the outputs lie where "A" and "a", or two spellings of "é", are one file (macOS,
    Windows): the output of an id that differs from an earlier one in nothing else gets a hash at
    its end. The ids themselves do not change.

    >>> ids = UsedIds()
    >>> ids.claim("a", line=1), ids.make("a", line=2), ids.make("a", line=3)
    ('a', ('a-2', 'a-2'), ('a-3', 'a-3'))
    """

    def __init__(self, *, fold_case: bool = False) -> None:
        self._lines = HashIndex()
        """By the hash of the id: 31 bits of another hash, whether it was made, and its line.

        The line takes 32 bits.
        """
        self._outputs = HashIndex() if fold_case else None
        """The hashes of the outputs; without `fold_case` two ids never share an output."""
        self._numbers: dict[str, int] = {}
        """The number of the last id that was made of each stem, for stems of the last ids."""

    def claim(self, id: str, line: int) -> str:
        """Mark `id`, which the source gives at `line` (from 1), as used, and return its output.

        Raises:
            TakenError: the id has been used.
        """
        return self._claim(id, line, made=False)

    def make(self, stem: str, line: int) -> tuple[str, str]:
        """Mark the first free one of `stem`, `stem-2`, `stem-3` … as used.

        Return it, and its output.

        It depends only on ids that came before; if some of these have the form `stem-N`, numbers
        may be left out.
        """
        id = stem
        if self._is_used(stem):
            first = used = self._numbers.get(stem, 1)
            free = first + 1
            while self._is_used(f"{stem}-{free}"):
                used, free = free, 2 * free - first + 1
            while free - used > 1:
                middle = (used + free) // 2
                used, free = (middle, free) if self._is_used(f"{stem}-{middle}") else (used, middle)
            id = f"{stem}-{free}"
            if len(self._numbers) >= _RECENT:
                self._numbers.clear()
            self._numbers[stem] = free
        return id, self._claim(id, line, made=True)

    def has(self, id: str) -> bool:
        """Return whether `id` was claimed or made."""
        return self._find(id)[1] is not None

    def _claim(self, id: str, line: int, made: bool) -> str:
        key, taken = self._find(id)
        if taken is not None:
            raise TakenError(id, taken & _LAST_LINE, bool(taken >> 32 & 1))
        self._lines.put(key, hash31(id.encode()) << 33 | made << 32 | min(line, _LAST_LINE))
        output = output_of(id)
        if self._outputs is not None:
            output = next(
                name
                for name in _outputs(id, output)
                if self._outputs.get(_output_key(name)) is None
            )
            self._outputs.put(_output_key(output), 0)
        return output

    def _find(self, id: str) -> tuple[int, int | None]:
        """Return the key of `id`, and its value if it was used.

        Ids with equal hashes get different keys.
        """
        other = hash31(id.encode())
        for number in itertools.count():
            key = hash64((f"{id}~{number}" if number else id).encode())
            value = self._lines.get(key)
            if value is None or value >> 33 == other:
                return key, value
        raise AssertionError("there is always another key")

    def _is_used(self, id: str) -> bool:
        if self._outputs is None:
            return self.has(id)
        return self._outputs.get(_output_key(output_of(id))) is not None


def _output_key(output: str) -> int:
    """Return the hash of an output.

    Outputs that are one file when case is folded have the same hash.
    """
    decomposed = unicodedata.normalize("NFD", output)
    return hash64(unicodedata.normalize("NFD", decomposed.casefold()).encode())


def _outputs(id: str, output: str) -> Iterator[str]:
    """Yield candidate outputs of `id`, best first."""
    yield output
    folder, slash, name = output.rpartition("/")
    other = f"{folder}{slash}{_shortened(name, id, 0)}"
    yield other
    yield from (f"{other}~{number}" for number in itertools.count(2))
