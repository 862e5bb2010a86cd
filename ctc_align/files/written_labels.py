"""The labels that were written with the JSON of an alignment.

A record in the JSON, which shows later corrections.

A program such as Praat saves a file in a different encoding, format and precision without a person
having changed anything in it. So the record has the labels and their times, not a checksum: they
are compared within a tolerance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ctc_align.files.formats import LABELS
from ctc_align.files.writer import UNITS_PER_S, Style, is_timed
from ctc_align.reading import MOST_S, as_whole, shown
from ctc_align.types import AlignedWord, Alignment, Interval, Written

WrittenWord = tuple[Interval, tuple[Interval, ...]]
"""A word and its tokens."""
_MOST_UNITS = round(MOST_S * UNITS_PER_S)
_FILE = re.compile(rf"(?:\.aligned)*(?:{'|'.join(map(re.escape, LABELS))})")


def with_written(
    alignment: Alignment, json_path: Path, paths: Iterable[Path], style: Style
) -> Alignment:
    """Return the alignment with a record of the labels that are written with its JSON.

    Without one if there are none.

    `paths` are all files that are written.
    """
    stem = json_path.with_suffix("").name
    ends = [path.name.removeprefix(stem) for path in paths if path.name.startswith(stem)]
    files = tuple(end for end in ends if _FILE.fullmatch(end))
    return replace(
        alignment, written=Written(files, labels_of_words(alignment, style)) if files else None
    )


def labels_of_words(alignment: Alignment, style: Style) -> tuple[WrittenWord, ...]:
    """Return the labels of the words with times, in the order of the text, and of their tokens."""
    return tuple(_labels(word, style.label(word)) for word in alignment.words if is_timed(word))


def _labels(word: AlignedWord, label: str) -> WrittenWord:
    tokens = tuple(Interval(token.start_s, token.end_s, token.token) for token in word.tokens)
    return Interval(word.start_s or 0.0, word.end_s or 0.0, label), tokens


def written_object(written: Written) -> dict[str, Any]:
    """Return the record as in JSON: a list for each word, with times in units of 10 µs.

    >>> word = Interval(0.1, 0.4, "We"), (Interval(0.1, 0.2, "W"), Interval(0.25, 0.4, "IY"))
    >>> written_object(Written((".TextGrid",), (word,)))
    {'files': ['.TextGrid'], 'words': [['We', 10000, 40000, 'W', 20000, '', 25000, 'IY', 40000]]}
    """
    return {"files": list(written.files), "words": [_row(*word) for word in written.words]}


def _row(word: Interval, tokens: Sequence[Interval]) -> list[str | int]:
    start, end = _units(word.start_s), _units(word.end_s)
    row: list[str | int] = [word.label, start, end]
    at = start
    for token in tokens:
        token_start = _units(token.start_s)
        token_end = _units(token.end_s)
        if token_start > at:
            row += ["", token_start]
        row += [token.label, token_end]
        at = token_end
    return row


def _units(seconds: float) -> int:
    return round(seconds * UNITS_PER_S)


def parse_written(data: Any) -> Written | None:
    """Return the record in an alignment's JSON object.

    Raises:
        ValueError: it is not one.

    >>> words = [["We", 10000, 40000, "", 15000, "W", 40000]]
    >>> parse_written({"files": [".csv"], "words": words}).words  # doctest: +NORMALIZE_WHITESPACE
    ((Interval(start_s=0.1, end_s=0.4, label='We'), (Interval(start_s=0.15, end_s=0.4,
    label='W'),)),)
    """
    if data is None:
        return None
    if not isinstance(data, dict) or not all(
        isinstance(data.get(key), list) for key in ("files", "words")
    ):
        raise ValueError(
            f"written: expected an object with the lists `files` and `words`, got {shown(data)}"
        )
    for end in data["files"]:
        if not isinstance(end, str) or not _FILE.fullmatch(end):
            raise ValueError(
                f"written.files: expected ends of names such as .TextGrid, got {shown(end)}"
            )
    return Written(tuple(data["files"]), tuple(map(_parsed_row, data["words"])))


def _parsed_row(row: Any) -> WrittenWord:
    is_row = isinstance(row, list) and len(row) % 2 == 1 and len(row) >= 3
    if not is_row or not all(isinstance(label, str) for label in (row[0], *row[3::2])):
        raise ValueError(
            f"written.words: expected [word, start, end, token, its end, …], got {shown(row)}"
        )
    start, end, *ends = (
        as_whole(time, most=_MOST_UNITS) / UNITS_PER_S for time in (*row[1:3], *row[4::2])
    )
    starts = [start, *ends]
    tokens = tuple(Interval(a, b, label) for a, b, label in zip(starts, ends, row[3::2]) if label)
    return Interval(start, end, row[0]), tokens
