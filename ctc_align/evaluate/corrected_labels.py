"""Labels that a person has corrected in another program (TextGrids of Praat), brought back into their alignment."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ctc_align.errors import InputError, MissingTierError
from ctc_align.evaluate.pairing import (
    PHONE_SILENCES,
    PHONES,
    SAME_EDGE_S,
    SILENCES,
    WORDS,
    Pair,
    Pairing,
    normalised_label,
)
from ctc_align.evaluate.sanity_checks import PairedUtterance, find_time_doubts
from ctc_align.evaluate.utterance_files import UtteranceTier, read_one
from ctc_align.files.json_files import check_fixed_words
from ctc_align.files.tiers import UNNAMED
from ctc_align.types import HAND, AlignedToken, AlignedWord, AlignmentData, Interval, aligned_words

_DECIMALS = 5
_OVER_S = 0.01
"""A label may end so much after the recording: that is rounding."""
_KEPT = (".hand.TextGrid", ".TextGrid", ".textgrid")
"""Endings of the labels of NAME: what a corpus run kept of them goes first."""


def labels_of(folder: Path, json_path: Path) -> Path:
    """Return the TextGrid in a folder that belongs to an alignment, by the ends of its path, the longest first.

    Raises:
        InputError: no such file.
    """
    name = json_path.with_suffix("")
    parts = name.parts[1 if name.anchor else 0 :]
    parts = parts[max((at for at, part in enumerate(parts, 1) if part == os.pardir), default=0) :]
    for start in range(len(parts)):
        place = folder.joinpath(*parts[start:])
        for ending in _KEPT:
            path = place.with_name(f"{place.name}{ending}")
            if path.is_file():
                return path
    raise InputError(f"{json_path}: expected its labels in {folder}, {name.name}.TextGrid, got no such file")


def with_labels(alignment: AlignmentData, path: Path) -> tuple[AlignedWord, ...]:
    """Return the words of an alignment with the times of a TextGrid; those that get times are hand-corrected.

    The TextGrid has the words of the alignment, in their order; those without times stay so. Its phones are taken
    where they fill their word; a word whose phones do not, as its edges were moved and theirs were not, has none.

    Raises:
        InputError: it cannot be read, is JSON, has other words, or words that cannot be hand-corrected (they overlap).
    """
    if path.suffix.casefold() == ".json":
        raise InputError(
            f"{path}: expected a TextGrid, got JSON, in which what a person has corrected is marked: give it in place "
            "of the alignment, without --hand"
        )
    shift_s = alignment.offset_s if alignment.config.get("times") == "recording" else 0.0
    words = read_one(path, WORDS)
    try:
        phones = [
            each for each in _moved(read_one(path, PHONES).intervals, -shift_s) if not _is_silence(each, PHONE_SILENCES)
        ]
    except MissingTierError:
        phones = None
    labelled: dict[int, AlignedWord] = {}
    for own, row in _by_speaker(alignment, words):
        intervals = _moved(_without_silences(row, own), -shift_s)
        _check_labels(own, intervals, path)
        for word, interval in zip(own, intervals):
            end_s = min(interval.end_s, max(alignment.duration_s, interval.end_s - _OVER_S))
            labelled[word.char_start] = _labelled(word, replace(interval, end_s=end_s), phones)
    found = tuple(labelled.get(word.char_start, word) for word in alignment.words)
    check_fixed_words(found, alignment.text, alignment.duration_s, str(path))
    return found


def label_doubts(alignment: AlignmentData, words: Sequence[AlignedWord], path: Path) -> tuple[str, ...]:
    """Return why the labels in `path` can hardly be of the recording; `words` is what `with_labels` made of them."""
    pairs = [
        Pair(_interval(was), _interval(word), False) for was, word in zip(alignment.words, words) if word.by == HAND
    ]
    paired = PairedUtterance(alignment.utterance, Pairing(tuple(pairs), (), ()))
    return tuple(f"{path}: {doubt}" for doubt in find_time_doubts([paired]))


def _interval(word: AlignedWord) -> Interval:
    return Interval(word.start_s or 0.0, word.end_s or 0.0, word.text)


def _by_speaker(
    alignment: AlignmentData, tier: UtteranceTier
) -> Iterator[tuple[list[AlignedWord], Sequence[Interval]]]:
    """Yield the words of each speaker that has a tier, by time, and the intervals of that tier; else all words."""
    timed = sorted(aligned_words(alignment), key=lambda word: word.start_s or 0.0)
    names = [" ".join((word.speaker or UNNAMED).split()).casefold() for word in timed]
    if len(tier.speakers) < 2 or {*tier.speakers} != {*names}:
        yield timed, tier.intervals
        return
    for name, row in tier.speakers.items():
        yield [word for word, whose in zip(timed, names) if whose == name], row


def _without_silences(row: Sequence[Interval], words: Sequence[AlignedWord]) -> list[Interval]:
    """Return the labels of words by time; "sil" and its like are words where the alignment has them as such."""
    said = {normalised_label(word.text) for word in words}
    found = [each for each in row if not _is_silence(each, SILENCES) or normalised_label(each.label) in said - {""}]
    return sorted(found, key=_start)


def _is_silence(interval: Interval, silences: frozenset[str]) -> bool:
    return interval.label.strip().casefold() in silences


def _moved(intervals: Sequence[Interval], by_s: float) -> list[Interval]:
    return [
        Interval(round(each.start_s + by_s, _DECIMALS), round(each.end_s + by_s, _DECIMALS), each.label)
        for each in intervals
    ]


def _check_labels(words: Sequence[AlignedWord], intervals: Sequence[Interval], path: Path) -> None:
    """Raise InputError, which names the first difference, unless the labels are the words."""
    texts = [normalised_label(word.text) for word in words]
    labels = [normalised_label(interval.label) for interval in intervals]
    if texts == labels:
        return
    at = next(
        (at for at, (text, label) in enumerate(zip(texts, labels)) if text != label), min(len(texts), len(labels))
    )
    expected = f"{words[at].text!r} ({words[at].start_s:.2f} s)" if at < len(words) else "no more words"
    got = f"{intervals[at].label!r} ({intervals[at].start_s:.2f} s)" if at < len(intervals) else "no more"
    raise InputError(
        f"{path}: expected the words of the alignment, word {at + 1} {expected}, got {got}; if the text was wrong, "
        "put the transcript right and align again"
    )


def _labelled(word: AlignedWord, interval: Interval, phones: Sequence[Interval] | None) -> AlignedWord:
    """Return a hand-corrected word with the times of its label, and with those of `phones` (by time) that fill it."""
    own = _own_tokens(word) if phones is None else phones
    first = bisect_left(own, interval.start_s - SAME_EDGE_S, key=_start)
    last = bisect_left(own, interval.end_s - SAME_EDGE_S, key=_start)
    inside = list(own[first:last])
    fixed = replace(word, start_s=interval.start_s, end_s=interval.end_s, by=HAND, tokens=())
    fixed = replace(fixed, confidence=None, start_sd_ms=None, end_sd_ms=None)
    edges = (interval.start_s, interval.end_s)
    if not inside or max(abs(inside[0].start_s - edges[0]), abs(inside[-1].end_s - edges[1])) > SAME_EDGE_S:
        return fixed
    inside[0] = replace(inside[0], start_s=edges[0])
    inside[-1] = replace(inside[-1], end_s=edges[1])
    by = HAND if phones is not None else ""
    tokens = tuple(AlignedToken(each.label.strip(), each.start_s, each.end_s, 1.0, by=by) for each in inside)
    return replace(fixed, tokens=tokens)


def _own_tokens(word: AlignedWord) -> list[Interval]:
    return [Interval(token.start_s, token.end_s, token.token) for token in word.tokens]


def _start(interval: Interval) -> float:
    return interval.start_s
