"""Cases of recordings and transcripts that are not exact, and what an alignment of one is worth.

A `Case` says where each word of its text is spoken, if anywhere, and which stretches of the
recording no word of the text explains. `score` compares an alignment with it; `Scores.add` sums the
scores of several cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from ctc_align.types import ALIGNED, SKIPPED, UNEXPLAINED, UNSPOKEN, AlignedWord, Alignment

NEAR_S, WITHIN_S, GROSS_S, SURE = 0.1, 0.3, 2.0, 0.5
SPEECH, MUSIC, SILENCE = "speech", "music", "silence"


@dataclass(frozen=True)
class TrueWord:
    """A word of a text: the (start_s, end_s) where it is spoken, none or any of several; or a
    direction (`[music]`)."""

    text: str
    places: tuple[tuple[float, float], ...] = ()
    direction: bool = False

    def moved(self, by_s: float) -> TrueWord:
        """Return the word at a later time."""
        return TrueWord(
            self.text, tuple((a + by_s, b + by_s) for a, b in self.places), self.direction
        )

    def unspoken(self) -> TrueWord:
        """Return the word as one that is not spoken."""
        return TrueWord(self.text)


@dataclass(frozen=True)
class Stretch:
    """A stretch of a recording that no word explains: `kind`, its sound (start_s, end_s), and with
    the quiet around it (outer_start_s, outer_end_s), which may be reported and need not."""

    kind: str
    start_s: float
    end_s: float
    outer_start_s: float
    outer_end_s: float


@dataclass(frozen=True)
class Case:
    """A recording, a text that is not exactly its own, and the truth.

    Attributes:
        kind, seed: of the case.
        samples: (N,) float32 at 16 kHz.
        text: of the transcript; an SRT file where `cues` is not empty.
        words: of the text in order, as `ctc_align` parts them.
        foreign: stretches that no word explains, ascending.
        twice: pairs of stretches in which the same words are read: either may be unexplained.
        focus: words whose places are counted; empty for all.
        cues: words [first, last) of each cue.
    """

    kind: str
    seed: int
    samples: np.ndarray = field(repr=False)
    text: str = field(repr=False)
    words: tuple[TrueWord, ...] = field(repr=False)
    foreign: tuple[Stretch, ...] = ()
    twice: tuple[tuple[Stretch, Stretch], ...] = ()
    focus: frozenset[int] = frozenset()
    cues: tuple[tuple[int, int], ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.samples) / 16000


@dataclass
class Scores:
    """Counts of words and seconds, summed over cases; shares are in percent, NaN where there is
    nothing to share."""

    spoken: int = 0
    near: int = 0
    within: int = 0
    gross: int = 0
    sure_gross: int = 0
    spoken_skipped: int = 0
    unspoken: int = 0
    unspoken_skipped: int = 0
    foreign_s: float = 0.0
    foreign_found_s: float = 0.0
    reported_s: float = 0.0
    reported_true_s: float = 0.0
    music_s: float = 0.0
    most_music_s: float = 0.0
    cues: int = 0
    cues_within: int = 0
    twice: int = 0
    twice_whole: int = 0

    def add(self, other: Scores) -> None:
        """Add the counts of another case; `most_music_s` is the largest of a case."""
        for each in fields(self):
            mine, others = getattr(self, each.name), getattr(other, each.name)
            setattr(
                self, each.name, max(mine, others) if each.name == "most_music_s" else mine + others
            )

    def shares(self) -> dict[str, float]:
        """Return the figures of a row: percent of words, of seconds and of cues; seconds of music
        called speech."""
        return {
            "<100ms": _percent(self.near, self.spoken),
            "<300ms": _percent(self.within, self.spoken),
            "gross": _percent(self.gross, self.spoken),
            "sure": _percent(self.sure_gross, self.spoken),
            "lost": _percent(self.spoken_skipped, self.spoken),
            "skipped": _percent(self.unspoken_skipped, self.unspoken),
            "found": _percent(self.foreign_found_s, self.foreign_s),
            "true": _percent(self.reported_true_s, self.reported_s),
            "music s": self.most_music_s,
            "cues": _percent(self.cues_within, self.cues),
            "whole": _percent(self.twice_whole, self.twice),
        }


def score(case: Case, alignment: Alignment, cue_starts_s: Sequence[float] = ()) -> Scores:
    """Return what an alignment of a case is worth.

    Args:
        case: the truth.
        alignment: of `case.samples` with `case.text`.
        cue_starts_s: where `case` has cues, the starts of the cues that came back.

    Raises:
        AssertionError: the words of the alignment are not those of the case.
    """
    assert [word.text for word in alignment.words] == [word.text for word in case.words], (
        "the words of the text"
    )
    found = Scores()
    for place, (word, true) in enumerate(zip(alignment.words, case.words)):
        if true.direction or word.status == UNSPOKEN or (case.focus and place not in case.focus):
            continue
        if true.places:
            _count_spoken(found, word, true)
        else:
            found.unspoken += 1
            found.unspoken_skipped += word.status == SKIPPED
    foreign = [*case.foreign, *_readings_left(found, case, alignment.words)]
    reported = reported_speech(alignment)
    speech = [each for each in foreign if each.kind == SPEECH]
    found.foreign_s = sum(each.end_s - each.start_s for each in speech)
    found.foreign_found_s = _overlap_s([(each.start_s, each.end_s) for each in speech], reported)
    found.reported_s = sum(end_s - start_s for start_s, end_s in reported)
    found.reported_true_s = _overlap_s(
        [(each.outer_start_s, each.outer_end_s) for each in speech], reported
    )
    found.music_s = _overlap_s(
        [(each.start_s, each.end_s) for each in foreign if each.kind == MUSIC], reported
    )
    found.most_music_s = found.music_s
    for (first, last), start_s in zip(case.cues, cue_starts_s):
        starts_s = [word.places[0][0] for word in case.words[first:last] if word.places]
        if starts_s:
            found.cues += 1
            found.cues_within += abs(start_s - starts_s[0]) <= WITHIN_S
    return found


def reported_speech(alignment: Alignment) -> list[tuple[float, float]]:
    """Return the stretches (start_s, end_s) that an alignment calls speech that no word explains,
    joined, ascending."""
    stretches = sorted(
        (region.start_s, region.end_s)
        for region in alignment.regions
        if region.kind == UNEXPLAINED and region.start_s is not None and region.end_s is not None
        if not region.reason.startswith((MUSIC, SILENCE))
    )
    return _united(stretches)


def off_s(word: AlignedWord, true: TrueWord) -> float:
    """Return the seconds from a word's farther edge to the nearest place where it is spoken;
    infinite without times."""
    if word.status != ALIGNED or word.start_s is None or word.end_s is None:
        return float("inf")
    return min(max(abs(word.start_s - a), abs(word.end_s - b)) for a, b in true.places)


def _count_spoken(found: Scores, word: AlignedWord, true: TrueWord) -> None:
    far_s = off_s(word, true)
    found.spoken += 1
    found.near += far_s <= NEAR_S
    found.within += far_s <= WITHIN_S
    found.spoken_skipped += word.status != ALIGNED
    wrong = word.status == ALIGNED and far_s > GROSS_S
    found.gross += wrong
    found.sure_gross += wrong and (word.confidence or 0.0) >= SURE


def _readings_left(found: Scores, case: Case, words: Sequence[AlignedWord]) -> list[Stretch]:
    """Return of each pair of readings the one with fewer words, and count the pairs of which the
    other has all."""
    left = []
    for one, two in case.twice:
        inside = [
            sum(
                each.start_s <= (word.start_s + word.end_s) / 2 < each.end_s
                for word in words
                if _timed(word)
            )  # type: ignore[operator]
            for each in (one, two)
        ]
        found.twice += 1
        found.twice_whole += min(inside) == 0 and max(inside) > 0
        left.append(one if inside[0] < inside[1] else two)
    return left


def _timed(word: AlignedWord) -> bool:
    return word.start_s is not None and word.end_s is not None


def _united(stretches: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return ascending stretches without overlap.

    >>> _united([(0.0, 2.0), (1.0, 3.0), (4.0, 5.0)])
    [(0.0, 3.0), (4.0, 5.0)]
    """
    united: list[tuple[float, float]] = []
    for start_s, end_s in sorted(stretches):
        if united and start_s <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end_s))
        else:
            united.append((start_s, end_s))
    return united


def _overlap_s(ones: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    """Return the seconds that lie in both of two lists of stretches.

    >>> _overlap_s([(0.0, 2.0), (5.0, 6.0)], [(1.0, 5.5)])
    1.5
    """
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in _united(ones) for c, d in others)


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else float("nan")
