"""Tiers of words, their tokens, sentences and speakers, as TextGrids and ELAN files have them.

Where a transcript names several speakers each has tiers of words, tokens and sentences, as MFA names them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeGuard

from ctc_align.formats.sentences import sentences
from ctc_align.formats.time_order import words_by_time
from ctc_align.formats.writer import Style, TimedLabel, token_rows, word_rows
from ctc_align.types import AlignedWord, AlignmentData, Subtitles

UNNAMED = "unnamed"
"""Who speaks, in the names of tiers, before a transcript with several speakers names one."""
WORDS, TOKENS, PHONES, SENTENCES, SPEAKERS = TIERS = ("words", "tokens", "phones", "sentences", "speakers")
"""Kinds of tiers by the names that the setting `tiers` has for them; "phones" are the tokens, whatever these are."""


class SpokenTier(NamedTuple):
    """A tier: its name, its rows by time in whole units, its kind out of `TIERS`, and whose it is ("": no one's)."""

    name: str
    rows: list[TimedLabel]
    kind: str = WORDS
    speaker: str = ""


def wanted_tiers(style: Style, default: Sequence[str] = (WORDS, TOKENS)) -> tuple[str, ...]:
    """Return the kinds of tiers in the style, each once, in its order.

    >>> wanted_tiers(Style(tiers="Sentences, phones,tokens")), wanted_tiers(Style())
    (('sentences', 'tokens'), ('words', 'tokens'))
    """
    names = [name.strip().casefold() for name in style.tiers.split(",") if name.strip()]
    return tuple(dict.fromkeys(TOKENS if name == PHONES else name for name in names)) or tuple(default)


def tiers_by_speaker(
    alignment: AlignmentData, style: Style, units_per_s: int, default: Sequence[str] = (WORDS, TOKENS)
) -> list[SpokenTier]:
    """Return the tiers that the style asks for, by default `words` and `tokens` (or `phones`), in whole units.

    Where the transcript names several speakers each has its own, as MFA names them: `SPEAKER - words`.
    """
    words = words_by_time(alignment)
    names = speaker_names(words)
    kinds = wanted_tiers(style, default)
    several = len({*names} - {""}) > 1
    return _tiers(alignment, style, units_per_s, kinds, names if several else [""] * len(words), dict.fromkeys(names))


def speaker_names(words: Sequence[AlignedWord]) -> list[str]:
    """Return who speaks each word: `UNNAMED` before the first name where there are several, "" where none is named."""
    speakers = [word.speaker for word in words]
    return [speaker or UNNAMED for speaker in speakers] if len({*speakers} - {""}) > 1 else speakers


def is_document(subtitles: Subtitles | None, format: str) -> TypeGuard[Subtitles]:
    """Return whether a transcript is a document of tiers in a format."""
    return subtitles is not None and subtitles.format == format and bool(subtitles.cues)


def tiers_by_source(alignment: AlignmentData, style: Style, units_per_s: int) -> list[SpokenTier]:
    """Return tiers as `tiers_by_speaker`, for each tier of the document that the transcript is: `TIER - words`."""
    subtitles = alignment.subtitles
    assert subtitles is not None, "the transcript is a document of tiers"
    names = _cue_names(words_by_time(alignment), subtitles)
    order = dict.fromkeys(cue.name for cue in subtitles.cues)
    return _tiers(alignment, style, units_per_s, wanted_tiers(style), names, order)


def _cue_names(words: Sequence[AlignedWord], subtitles: Subtitles) -> list[str]:
    starts = [cue.char_start for cue in subtitles.cues]
    return [subtitles.cues[max(bisect_right(starts, word.char_start) - 1, 0)].name for word in words]


def _tiers(
    alignment: AlignmentData,
    style: Style,
    units_per_s: int,
    kinds: Sequence[str],
    owners: Sequence[str],
    order: Iterable[str],
) -> list[SpokenTier]:
    """Return the tiers of some kinds, for each owner; `owners` has that of each word by time, "" where there is one."""
    words = words_by_time(alignment)
    rows = word_rows(alignment, style, units_per_s)
    of_tokens = [owner for word, owner in zip(words, owners) for _ in word.tokens]
    everything = {
        WORDS: list(zip(rows, owners)),
        TOKENS: list(zip(token_rows(alignment, style, units_per_s), of_tokens)) if TOKENS in kinds else [],
        SENTENCES: sentence_rows(alignment, rows, owners) if SENTENCES in kinds else [],
    }
    per_owner = [kind for kind in kinds if kind != SPEAKERS]
    tiers = []
    for owner in order if any(owners) else ("",):
        for kind in per_owner:
            name = alignment.token_kind if kind == TOKENS else kind
            own = [row for row, whose in everything[kind] if whose == owner]
            tiers.append(SpokenTier(f"{owner} - {name}" if owner else name, own, kind, owner))
    if SPEAKERS in kinds:
        turns = SpokenTier(SPEAKERS, speaker_rows(words, rows), SPEAKERS)
        tiers.insert(0 if kinds[0] == SPEAKERS else len(tiers), turns)
    return tiers


def sentence_rows(
    alignment: AlignmentData, rows: Sequence[TimedLabel], owners: Sequence[str]
) -> list[tuple[TimedLabel, str]]:
    """Return the sentences and their owners; a sentence begins and ends where the rows of its words do."""
    by_word = {id(word): (row, owner) for word, row, owner in zip(words_by_time(alignment), rows, owners)}
    found = []
    for sentence in sentences(alignment):
        (first, owner), (last, _) = (by_word[id(word)] for word in (sentence.timed[0], sentence.timed[-1]))
        found.append((TimedLabel(first.start, last.end, sentence.text), owner))
    return found


def speaker_rows(words: Sequence[AlignedWord], rows: Sequence[TimedLabel]) -> list[TimedLabel]:
    """Return the turns: from the first to the last word that a speaker says before another one does."""
    turns = []
    for name, group in groupby(zip(speaker_names(words), rows), key=lambda pair: pair[0]):
        turn = [row for _, row in group]
        if name:
            turns.append(TimedLabel(turn[0].start, turn[-1].end, name))
    return turns


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
