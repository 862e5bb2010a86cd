"""Words in the order of their times, which is not that of the text where passages were read in another order.

Formats that are read by time (CTM, TextGrid, labels, subtitles that are cut anew) take words from here; JSON and the
cues of a subtitle file keep the order of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ctc_align.types import ALIGNED, SKIPPED, SPEAKER, UNSPOKEN, AlignedWord, AlignmentData, aligned_words


def words_by_time(alignment: AlignmentData) -> list[AlignedWord]:
    """Return the words that have times, by their starts."""
    return sorted(aligned_words(alignment), key=_start_s)


def runs_in_time(words: Sequence[AlignedWord]) -> list[list[AlignedWord]]:
    """Return words as runs, in which text and time go on together, by time.

    A run ends where the next word of the text is not the next one in time. Words without times stay with the word
    before them, names of speakers with the word after them.

    >>> a, b, c = (AlignedWord(text, text, at, at + 1, ALIGNED, start_s, start_s + 1.0, 0.9)
    ...            for text, at, start_s in (("a", 0, 5.0), ("b", 1, 6.0), ("c", 2, 1.0)))
    >>> [[word.text for word in run] for run in runs_in_time((a, b, c))]
    [['c'], ['a', 'b']]
    """
    timed = [word for word in words if is_timed(word)]
    places = {id(word): place for place, word in enumerate(sorted(timed, key=_start_s))}
    runs: list[list[AlignedWord]] = [[]]
    expected = -1
    for word in words:
        place = places.get(id(word), -1)
        if place >= 0 and expected not in (-1, place):
            taken = len(runs[-1])
            while taken and runs[-1][taken - 1].kind == SPEAKER:
                taken -= 1
            runs.append(runs[-1][taken:])
            del runs[-2][taken:]
        if place >= 0:
            expected = place + 1
        runs[-1].append(word)
    return sorted(runs, key=lambda run: next((_start_s(word) for word in run if is_timed(word)), 0.0))


def words_that_are_shown(words: Sequence[AlignedWord]) -> list[AlignedWord]:
    """Return the words without those that are not in the recording, and what is written among these.

    What is not spoken goes with the words on both sides of it, the name of a speaker with the word after it.
    """
    if all(word.status != SKIPPED for word in words):
        return list(words)
    shown = []
    following = [False] * (len(words) + 1)  # whether the next word that might be spoken is shown
    for place in range(len(words) - 1, -1, -1):
        status = words[place].status
        following[place] = following[place + 1] if status == UNSPOKEN else status != SKIPPED
    before = False
    for place, word in enumerate(words):
        if word.status == UNSPOKEN:
            if following[place] or (before and word.kind != SPEAKER):
                shown.append(word)
            continue
        before = word.status != SKIPPED
        if before:
            shown.append(word)
    return shown


def is_timed(word: AlignedWord) -> bool:
    """Return whether a word has times."""
    return word.status == ALIGNED and word.start_s is not None and word.end_s is not None


def _start_s(word: AlignedWord) -> float:
    return word.start_s or 0.0
