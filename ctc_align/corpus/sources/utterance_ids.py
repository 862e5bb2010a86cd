"""Names of utterances: each id once, in bounded memory, and an output path that stays below the output folder.

An id may be anything; `output_of` writes it as a path that mirrors it ("speaker/utterance") and cannot leave, hide in
or break the output folder: what is dangerous is written %XX, as in URLs. `Names` remembers 16 bytes for each name (a
table of 64-bit hashes, at most three quarters full), so ten million ids take 268 MB.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from hashlib import blake2b

from ctc_align.corpus.sources.hash_table import HashTable, hash31, hash64
from ctc_align.errors import InputError

MAX_PART_BYTES = 235
"""File systems take 255 bytes; extensions such as `.tokens.ctm` and numbers behind the name need some of them."""
MAX_OUTPUT_BYTES = 1024
_KEPT_BYTES = 160

# what no file system or shell should meet, and a % that would read as one of our own escapes
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]|%(?=[0-9A-F]{2})")
_DRIVE = re.compile(r"[A-Za-z]:")
_OURS = re.compile(r"summary(\..*)?|journal(\..*)?|manifest(\..*)?|alignments(-.*)?", re.DOTALL)
_OUR_PREFIX = ".ctc-align"
_EXTENSIONS = (
    *(".json", ".jsonl", ".ctm", ".textgrid", ".srt", ".vtt", ".ass", ".tsv", ".txt", ".eaf", ".html", ".gz"),
    *(".flac", ".wav", ".lab", ".part", ".tmp", ".sqlite"),
)
_COMPOUNDS = (".tokens", ".phones", ".words", ".labels", ".audacity")

_LAST_PLACE = 2**32 - 1


class TakenError(InputError):
    """An id that a source used before, at `place` (a line); `made` where that was not written but made of a stem."""

    def __init__(self, id: str, place: int, made: bool) -> None:
        super().__init__(f"the id {id!r} is taken")
        self.place, self.made = place, made


def output_of(id: str) -> str:
    """The path below the output folder, without extension, that mirrors `id`.

    Two ids never share one, unless a name had to be shortened, and then only where 128-bit hashes meet. The path is
    relative, has no empty, "." or ".." part, no control characters, no backslash and no drive letter; no part is
    longer than MAX_PART_BYTES; and what it names is none of the run's own files, whatever the extension.

    >>> output_of("speaker 1/it's.one"), output_of("../../etc/passwd"), output_of("summary")
    ("speaker 1/it's.one", '%2E%2E/%2E%2E/etc/passwd', '%73ummary')
    """
    parts = id.split("/")
    last = len(parts) - 1
    safe = [_safe(part, first=i == 0, last=i == last) for i, part in enumerate(parts)]
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


def _shortened(part: str, whole: str, limit: int) -> str:
    """`part`, or where it is longer than `limit` bytes its beginning and a hash of `whole`."""
    data = part.encode()
    if len(data) <= limit:
        return part
    kept = data[:_KEPT_BYTES].decode("utf-8", "ignore")
    return f"{kept}~{blake2b(whole.encode(), digest_size=16).hexdigest()}"


class Names:
    """The ids and outputs that were given so far.

    `fold_case`: the outputs lie where "A" and "a", or two spellings of "é", are one file (macOS, Windows): a name that
    differs from an earlier one in nothing else gets a hash behind it. The ids themselves are never changed.

    >>> names = Names()
    >>> names.claim("a", place=1), names.make("a", place=2), names.make("a", place=3)
    ('a', ('a-2', 'a-2'), ('a-3', 'a-3'))
    """

    def __init__(self, *, fold_case: bool = False) -> None:
        self._fold_case = fold_case
        # folded output → 31 bits of the id's own hash, whether the id was made, 32 bits for the place
        self._table = HashTable()

    def __len__(self) -> int:
        return len(self._table)

    def claim(self, id: str, place: int) -> str:
        """Take `id`, which a source gives at `place` (a line, from 1), and return its output.

        Raises:
            TakenError: something has this id.
        """
        return self._claim(id, place, made=False)

    def make(self, stem: str, place: int) -> tuple[str, str]:
        """The first of `stem`, `stem-2`, `stem-3` … that is free, and its output.

        Where ids of the source lie in between, it may be a later one; it depends on what came before only.
        """
        id = stem
        if self._is_used(stem):
            used, free = 1, 2
            while self._is_used(f"{stem}-{free}"):
                used, free = free, 2 * free
            while free - used > 1:
                middle = (used + free) // 2
                used, free = (middle, free) if self._is_used(f"{stem}-{middle}") else (used, middle)
            id = f"{stem}-{free}"
        return id, self._claim(id, place, made=True)

    def has(self, id: str) -> bool:
        """Whether `id` was claimed or made."""
        return self._find(id)[2] is not None

    def _claim(self, id: str, place: int, made: bool) -> str:
        output, key, value = self._find(id)
        if value is not None:
            raise TakenError(id, value & _LAST_PLACE, bool(value >> 32 & 1))
        self._table.put(key, hash31(id.encode()) << 33 | made << 32 | min(place, _LAST_PLACE))
        return output

    def _find(self, id: str) -> tuple[str, int, int | None]:
        """The output of `id`, its key, and the value that is there, if `id` was given before."""
        who = hash31(id.encode())
        for output in self._outputs(id):
            key = self._key(output)
            value = self._table.get(key)
            if value is None or value >> 33 == who:
                return output, key, value
        raise AssertionError("there is always another output")

    def _is_used(self, id: str) -> bool:
        return self._table.get(self._key(output_of(id))) is not None

    def _outputs(self, id: str) -> Iterator[str]:
        """What `id` may be called, best first."""
        output = output_of(id)
        yield output
        folder, slash, name = output.rpartition("/")
        other = f"{folder}{slash}{_shortened(name, id, 0)}"
        yield other
        yield from (f"{other}~{number}" for number in itertools.count(2))

    def _key(self, output: str) -> int:
        if self._fold_case:
            decomposed = unicodedata.normalize("NFD", output)
            output = unicodedata.normalize("NFD", decomposed.casefold())
        return hash64(output.encode())
