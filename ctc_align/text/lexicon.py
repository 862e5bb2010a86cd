"""Pronunciation dictionaries in the formats of Montreal Forced Aligner (2 and 3) and CMUdict.

word<TAB>P1 P2 P3                          tabs or spaces; several lines for several pronunciations
word<TAB>0.99<TAB>P1 P2 P3                 with the pronunciation's probability
word<TAB>0.99<TAB>0.2<TAB>1.0<TAB>1.0<TAB>P1 P2 P3     and with silence probabilities, which are not used
WORD(2)  P1 P2 P3                          CMUdict's variants; ;;; and what follows # are comments
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ctc_align.errors import LexiconError, UsageError
from ctc_align.reading import read_input, shown

Labels = tuple[str, ...]

# A number column has a point or an exponent: a bare digit may be a phone.
_DECIMAL = r"(?:\d*\.\d+(?:[eE][-+]?\d+)?|\d+[eE]-?\d+)"
_BLANK = r"[^\S\t]*"
_COLUMNS = re.compile(
    rf"(?P<word>[^\t]*)\t(?P<numbers>(?:{_BLANK}(?:{_DECIMAL}|[01]\.?){_BLANK}\t)+)(?P<phones>[^\t]*)"
)
_FIELDS = re.compile(
    rf"(?P<word>[^\t]*(?=\t)|\s*\S+)\s*(?P<numbers>(?:{_DECIMAL}(?:\s+|\Z)){{0,4}})(?P<phones>.*)",
    re.DOTALL,
)
"""The columns of a line: all before the last are numbers; otherwise its fields, the first of which
may be."""
_VARIANT = re.compile(r"(.+)\(\d+\)")
_TEXT_BYTES = 8
"""Approximate bytes of memory for each byte of a dictionary."""


@dataclass(frozen=True)
class LexiconEntry:
    """A line of a lexicon.

    Its labels (with stress marks), their probability (1 if none is written) and the number of the
    line.
    """

    labels: Labels
    probability: float
    line: int


@dataclass(frozen=True)
class Lexicon:
    """A dictionary: `entries` by normalised word, the most probable pronunciation first."""

    source: str
    entries: Mapping[str, tuple[LexiconEntry, ...]]

    def get(self, word: str) -> tuple[Labels, ...] | None:
        """Return the pronunciations of `word` in any case, the most probable first.

        None if it has no entry.
        """
        entries = self.entries.get(normalised(word))
        if entries is None:
            return None
        return tuple(entry.labels for entry in entries)

    def line(self, word: str) -> int:
        """Return the number of the line with the first pronunciation of a word.

        The word must have an entry.
        """
        return self.entries[normalised(word)][0].line

    def phones(self) -> dict[str, int]:
        """Return all labels in order of their first lines, each with the number of that line."""
        first: dict[str, int] = {}
        for entry in sorted(itertools.chain(*self.entries.values()), key=lambda entry: entry.line):
            for label in entry.labels:
                first.setdefault(label, entry.line)
        return first


def normalised(word: str) -> str:
    """Return `word` in NFC and lower case with straight apostrophes.

    >>> normalised("Don’t")
    "don't"
    """
    return unicodedata.normalize("NFC", word.lower()).replace("’", "'")


def read_lexicon(path: str | Path) -> Lexicon:
    """Read a dictionary file in UTF-8 (see the module for the formats).

    Raises:
        UsageError: the file does not exist or cannot be read.
        LexiconError: the file is not UTF-8, a line lacks its word or phones, a probability is above
            1, or there is no entry.
    """
    entries: dict[str, list[LexiconEntry]] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(";;;"):
            continue
        word, entry = _entry(line, f"{path}:{number}", number)
        entries.setdefault(normalised(word), []).append(entry)
    if not entries:
        raise LexiconError(
            f"{path}: expected lines 'word<TAB>phones', got none; give a dictionary in MFA's format"
        )
    return Lexicon(str(path), {word: _best_first(lines) for word, lines in entries.items()})


def _text(path: str | Path) -> str:
    try:
        data = read_input(path, pipes=True, factor=_TEXT_BYTES)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such lexicon; give a dictionary file in MFA's format"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: the lexicon cannot be read: {error.strerror or error}") from None
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise LexiconError(
            f"{path}:{line}: expected UTF-8, got byte 0x{data[error.start]:02x}; save the lexicon"
            " as UTF-8"
        ) from None


def _entry(line: str, where: str, number: int) -> tuple[str, LexiconEntry]:
    word, numbers, labels = _columns(line)
    if not word:
        raise LexiconError(
            f"{where}: expected a word before its phones, got none; write 'word<TAB>phones'"
        )
    if not labels:
        raise LexiconError(
            f"{where}: expected phones after the word {shown(word)}, got none; add them or remove"
            " the line"
        )
    probability = 1.0
    if numbers:
        probability = float(numbers[0])
    if probability > 1.0:
        raise LexiconError(
            f"{where}: expected a probability of at most 1 for {shown(word)}, got {numbers[0][:40]}"
        )
    variant = _VARIANT.fullmatch(word)
    labels = [unicodedata.normalize("NFC", label) for label in labels]
    return variant.group(1) if variant else word, LexiconEntry(tuple(labels), probability, number)


def _columns(line: str) -> tuple[str, list[str], list[str]]:
    """Return the word, the number columns and the phones of one line.

    The word may hold spaces if a tab follows it.
    """
    match = _COLUMNS.fullmatch(line.rstrip()) or _FIELDS.fullmatch(line.rstrip())
    assert match is not None, "a line that is not blank has a field"
    return (
        match["word"].strip(),
        match["numbers"].split(),
        _without_comment(match["phones"].split()),
    )


def _without_comment(fields: list[str]) -> list[str]:
    """Return the phones without CMUdict's "# remark"; a leading "#" is a phone."""
    return fields[: fields.index("#", 1)] if "#" in fields[1:] else fields


def _best_first(entries: list[LexiconEntry]) -> tuple[LexiconEntry, ...]:
    """Return each pronunciation once, the most probable first.

    Equally probable ones stay in the order of their lines.
    """
    unique: dict[Labels, LexiconEntry] = {}
    for entry in sorted(entries, key=lambda entry: -entry.probability):
        unique.setdefault(entry.labels, entry)
    return tuple(unique.values())
