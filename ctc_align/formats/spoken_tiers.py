"""Tiers of words and their tokens, as TextGrids and ELAN files have them, of each speaker where there are several."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeGuard

from ctc_align.formats.time_order import words_by_time
from ctc_align.formats.writer import Style, TimedLabel, token_rows, word_rows
from ctc_align.types import AlignedWord, AlignmentData, Subtitles

UNNAMED = "unnamed"
"""Who speaks, in the names of tiers, before a transcript with several speakers names one."""

NamedRows = tuple[str, list[TimedLabel]]


def tiers_by_speaker(alignment: AlignmentData, style: Style, units_per_s: int) -> list[NamedRows]:
    """Return the tiers (name, rows by time) `words` and `tokens` (or `phones`), in whole units.

    Where the transcript names several speakers each has its own, as MFA names them: `SPEAKER - words`.
    """
    words = words_by_time(alignment)
    speakers = [word.speaker for word in words]
    if len({*speakers} - {""}) > 1:
        names = [speaker or UNNAMED for speaker in speakers]
        return _parted(alignment, style, units_per_s, names, dict.fromkeys(names))
    kind = alignment.token_kind
    return [("words", word_rows(alignment, style, units_per_s)), (kind, token_rows(alignment, style, units_per_s))]


def is_document(subtitles: Subtitles | None, format: str) -> TypeGuard[Subtitles]:
    """Return whether a transcript is a document of tiers in a format."""
    return subtitles is not None and subtitles.format == format and bool(subtitles.cues)


def tiers_by_source(alignment: AlignmentData, style: Style, units_per_s: int) -> list[NamedRows]:
    """Return tiers as `tiers_by_speaker`, for each tier of the document that the transcript is: `TIER - words`."""
    subtitles = alignment.subtitles
    assert subtitles is not None, "the transcript is a document of tiers"
    names = _cue_names(words_by_time(alignment), subtitles)
    return _parted(alignment, style, units_per_s, names, dict.fromkeys(cue.name for cue in subtitles.cues))


def _cue_names(words: Sequence[AlignedWord], subtitles: Subtitles) -> list[str]:
    starts = [cue.char_start for cue in subtitles.cues]
    return [subtitles.cues[max(bisect_right(starts, word.char_start) - 1, 0)].name for word in words]


def _parted(
    alignment: AlignmentData, style: Style, units_per_s: int, names: Sequence[str], order: Iterable[str]
) -> list[NamedRows]:
    """Return two tiers for each name; `names` has that of each word by time."""
    words = word_rows(alignment, style, units_per_s)
    tokens = token_rows(alignment, style, units_per_s)
    of_tokens = [name for word, name in zip(words_by_time(alignment), names) for _ in word.tokens]
    tiers = []
    for name in order:
        tiers.append((f"{name} - words", [row for row, whose in zip(words, names) if whose == name]))
        tiers.append((f"{name} - {alignment.token_kind}", [row for row, of in zip(tokens, of_tokens) if of == name]))
    return tiers


def unused_names(names: Iterable[str], used: Iterable[str]) -> list[str]:
    """Return names, each with a number behind it where another has it already.

    >>> unused_names(["Ann - words", "Ann - phones"], ["Ann", "Ann - words"])
    ['Ann - words 2', 'Ann - phones']
    """
    taken = set(used)
    found = []
    for name in names:
        number, free = 1, name
        while free in taken:
            number += 1
            free = f"{name} {number}"
        taken.add(free)
        found.append(free)
    return found
