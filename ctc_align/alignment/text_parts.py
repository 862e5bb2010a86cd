"""The part of a text that a recording reads, cut out of the alignment with the whole text.

Several recordings may share one text, as the chapters of a book do. Each recording is aligned with the whole text; then
one stretch of the alignment is kept, in which found words outweigh the missing words between them. A few words far from
it (such as the title, read first) are reported as speech that is not in the part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ctc_align.alignment.fit import UNLIKELY, fit_of, region_of_all, without_times
from ctc_align.files import Alignment
from ctc_align.models.confidence_network import FitLimits
from ctc_align.types import ALIGNED, NONE, SKIPPED, UNEXPLAINED, UNSPOKEN, AlignedWord, BookPlace, Region, SourceCue

_NAMED = 5
WEIGHT = 10
"""A word that is likely where it was put outweighs this many skipped ones between it and the others of the part."""
_NUMBERED = re.compile(r"(words? )(\d+)(?:–(\d+))?")


def part_of_text(alignment: Alignment, limits: FitLimits | None = None) -> Alignment:
    """Return the alignment of the part of its text that is read.

    The part goes from one likely word (any that has times, if none is likely) to another, and has the greatest sum
    of such words, each `WEIGHT`, less words that are skipped. Words with times before and after it are left out and
    reported as regions; they stay in the loss. Unspoken words at either end (the name of a speaker) belong to the part
    if they are on the same line. Words before and after it do not count as `skipped` words of the part.

    `text` is the part, in which all characters are counted, and `text_offset` says how many code points of the whole
    text come before it. `fit` is that of the part, by the `limits` of the model; where it is "none", or no word has
    times, all of the text remains, every word skipped.

    >>> timed = AlignedWord("b", "b", 2, 3, "aligned", 0.0, 0.5, 0.9)
    >>> words = (AlignedWord("a", "a", 0, 1, "skipped"), timed, AlignedWord("c", "c", 4, 5, "skipped"))
    >>> part = part_of_text(Alignment("u", "", 1.0, "m", "cpu", 0.01, 1.0, -1.0, "a b c", words))
    >>> part.text, part.text_offset, part.words[0].char_start, part.skipped
    ('b', 2, 0, 0)
    """
    words = alignment.words
    if not any(word.status == ALIGNED for word in words):
        return alignment
    first, last = _weightiest(words)
    away = _stretches_away(words, first, last)
    first, last = _with_unspoken(alignment, first, -1), _with_unspoken(alignment, last, 1)
    cut = _Cut(words[first].char_start, words[last].char_end, first)
    subtitles = alignment.subtitles
    if subtitles is not None:
        subtitles = replace(subtitles, cues=tuple(cut.cue(cue) for cue in subtitles.cues if cut.has(cue)))
    part = replace(
        alignment,
        text=alignment.text[cut.start : cut.end],
        text_offset=cut.start,
        words=tuple(cut.word(word) for word in words[first : last + 1]),
        regions=_with_those_away([cut.region(region) for region in alignment.regions if cut.has(region)], away),
        unexplained=tuple(sorted((*alignment.unexplained, *((r.start_s or 0.0, r.end_s or 0.0) for r in away)))),
        places=tuple(cut.place(place) for place in alignment.places if cut.has(place)),
        subtitles=subtitles,
    )
    if limits is None or alignment.fit is None:
        return part
    fit = fit_of(part.words, part.unexplained, alignment.loss_per_token or 0.0, limits)
    return _without_part(alignment) if fit == NONE else replace(part, fit=fit)


def _without_part(alignment: Alignment) -> Alignment:
    """Return the alignment of a text that is not in the recording."""
    region = region_of_all(alignment.text, alignment.duration_s)
    words = without_times(alignment.words)
    return replace(alignment, words=words, fit=NONE, unexplained=(), regions=(region,))


def _weightiest(words: Sequence[AlignedWord]) -> tuple[int, int]:
    """Return the first and the last word of the part."""
    least = UNLIKELY if any(word.confidence is not None and word.confidence > UNLIKELY for word in words) else -1.0
    best, sum_so_far, start, part = 0, 0, 0, (0, 0)
    # The stretch of the greatest sum ends at each word in turn (Kadane): a sum that is not above 0 is worth nothing.
    for index, word in enumerate(words):
        if sum_so_far <= 0:
            sum_so_far, start = 0, index
        is_likely = word.confidence is not None and word.confidence > least
        sum_so_far += WEIGHT if is_likely else -1 if word.status == SKIPPED else 0
        if is_likely and sum_so_far > best:
            best, part = sum_so_far, (start, index)
    return part


def _stretches_away(words: Sequence[AlignedWord], first: int, last: int) -> list[Region]:
    """Return the stretches of the recording whose words stand before or after the part, runs of words each."""
    found = []
    for outside in (words[:first], words[last + 1 :]):
        for status, run in groupby(outside, key=lambda word: word.status):
            if status == ALIGNED:
                said = list(run)
                start_s, end_s = min(word.start_s or 0.0 for word in said), max(word.end_s or 0.0 for word in said)
                begins = " ".join(word.text for word in said[:_NAMED])
                more = " …" if len(said) > _NAMED else ""
                reason = f"speech whose words stand far from the part of the text that is read: {begins}{more}"
                found.append(Region(UNEXPLAINED, start_s, end_s, reason=reason))
    return found


def _with_those_away(regions: Sequence[Region], away: Sequence[Region]) -> tuple[Region, ...]:
    """Return the regions by time; in their order where nothing is added."""
    if not away:
        return tuple(regions)
    return tuple(sorted((*regions, *away), key=lambda region: region.start_s or 0.0))


def _with_unspoken(alignment: Alignment, index: int, step: int) -> int:
    """Return the last word from `index` on, in the direction of `step`, that belongs to the part."""
    words, text = alignment.words, alignment.text
    while 0 <= index + step < len(words) and words[index + step].status == UNSPOKEN:
        early, late = sorted((words[index], words[index + step]), key=lambda word: word.char_start)
        if "\n" in text[early.char_end : late.char_start]:
            break
        index += step
    return index


class _Cut:
    """A stretch of a text, characters `start` to `end` (exclusive); `first` words come before it."""

    def __init__(self, start: int, end: int, first: int) -> None:
        self.start, self.end, self.first = start, end, first

    def has(self, item: Region | BookPlace | SourceCue) -> bool:
        """Return whether an item has characters of the stretch, or no characters at all."""
        if item.char_start is None or item.char_end is None:
            return True
        return item.char_start < self.end and item.char_end > self.start

    def _at(self, char: int) -> int:
        return min(max(char, self.start), self.end) - self.start

    def word(self, word: AlignedWord) -> AlignedWord:
        return replace(word, char_start=word.char_start - self.start, char_end=word.char_end - self.start)

    def place(self, place: BookPlace) -> BookPlace:
        return replace(place, char_start=self._at(place.char_start), char_end=self._at(place.char_end))

    def cue(self, cue: SourceCue) -> SourceCue:
        """Return a cue with its characters in the stretch; the file's text of a cue that is cut is dropped."""
        is_cut = cue.char_start < self.start or cue.char_end > self.end
        start, end = self._at(cue.char_start), self._at(cue.char_end)
        return replace(cue, char_start=start, char_end=end, payload=None if is_cut else cue.payload)

    def region(self, region: Region) -> Region:
        """Return a region with its characters in the stretch, and the words that its reason names renumbered."""
        if region.char_start is None or region.char_end is None:
            return region
        start, end = self._at(region.char_start), self._at(region.char_end)
        return replace(region, char_start=start, char_end=end, reason=_NUMBERED.sub(self._counted, region.reason))

    def _counted(self, match: re.Match[str]) -> str:
        numbers = [max(int(number) - self.first, 1) for number in match.groups()[1:] if number]
        return match[1] + "–".join(map(str, numbers))
