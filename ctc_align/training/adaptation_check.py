"""A check that adaptation did no harm: a model's segments beside those of its start, and beside the sound's level.

A model that learns from its own segments can agree with them better and better while they get worse: with bonuses of
silence and much of it in the recordings, words shrink, and the loss on held-out segments falls. The level of the sound
does not come from the segments. A frame is *loud* where it is past the middle between the recording's quiet frames and
its loud ones (`ctc_align.models.convnet.features.Statistics`): pauses have nearly none, words are half of it or more,
at 2 dB of noise too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align.config import setting
from ctc_align.models.convnet import features
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training.corpus_data import Corpus
from ctc_align.training.own_segments import CorpusSegmenter, OwnSegments

TRIMMED = 0.1
"""So many of the longest and of the shortest changes of a word are left out: some words are elsewhere altogether."""
GAINED_LOUD = 0.1
"""Words that grow over speech gain so many loud frames, and over pauses almost none."""
FRAME_MS = 1000.0 * features.FRAME_SHIFT_S


@dataclass(frozen=True)
class CheckLimits:
    """How much worse an adapted model may be than its start on what is held out."""

    shorter_percent: float = setting(5.0, above=0.0)
    """Words may be so much shorter."""
    longer_percent: float = setting(15.0, above=0.0)
    """Words may be so much longer, unless some of what they gain is loud: weak sounds in noise are not."""
    uncovered_percent: float = setting(2.0, above=0.0)
    """So much of the loud sound may leave the words."""
    shift_ms: float = setting(20.0, above=0.0)
    """Starts and ends of words may be so much later, or so much earlier, on average."""


@dataclass(frozen=True)
class SegmentFigures:
    """Figures of one model's segments, over all utterances.

    Attributes:
        word_ms, token_ms: mean lengths of words, and of their phones or letters.
        covered: share of the loud frames that words cover.
        loud_pauses: share of the frames outside words that are loud.
    """

    word_ms: float
    token_ms: float
    covered: float
    loud_pauses: float


@dataclass(frozen=True)
class SegmentComparison:
    """An adapted model beside its start.

    Attributes:
        utterances, words: number of those that are compared.
        lost: utterances in which the adapted model finds no path.
        start, adapted: figures of both.
        longer: change of the length of words, the middle of all words; -0.1: 10 % shorter.
        gained_loud: share of the frames in words of the adapted model alone that are loud.
        median_ms, p90_ms: of the distances of edges of words between both.
        starts_ms, ends_ms: mean distance, positive where those of the adapted model are later, without outliers.
    """

    utterances: int
    words: int
    lost: int
    start: SegmentFigures
    adapted: SegmentFigures
    longer: float
    gained_loud: float
    median_ms: float
    p90_ms: float
    starts_ms: float
    ends_ms: float

    def faults(self, limits: CheckLimits) -> tuple[str, ...]:
        """Return what got worse, in words; () if nothing did."""
        found = []
        lengths = f"{self.start.word_ms:.0f} ms to {self.adapted.word_ms:.0f} ms on average"
        if self.longer < -limits.shorter_percent / 100:
            found.append(f"words shrank by {-self.longer:.0%} (from {lengths})")
        if self.longer > limits.longer_percent / 100 and self.gained_loud < GAINED_LOUD:
            found.append(f"words grew by {self.longer:.0%} over quiet sound (from {lengths})")
        uncovered = self.start.covered - self.adapted.covered
        if uncovered > limits.uncovered_percent / 100:
            found.append(
                f"loud sound is called pause (words cover {self.adapted.covered:.0%} of it, before "
                f"{self.start.covered:.0%})"
            )
        common = min(self.starts_ms, self.ends_ms, key=abs)
        if self.starts_ms * self.ends_ms > 0 and abs(common) > limits.shift_ms:
            found.append(f"words came {abs(common):.0f} ms {'later' if common > 0 else 'earlier'}")
        if self.lost:
            found.append(f"{self.lost} of {self.utterances + self.lost} utterances have no path any more")
        return tuple(found)

    def __str__(self) -> str:
        return (
            f"{self.words} words: {self.longer:+.1%} long, loud sound in words {self.start.covered:.1%} -> "
            f"{self.adapted.covered:.1%}, edges moved by {self.median_ms:.0f} ms (median), {self.p90_ms:.0f} ms (90 %)"
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """Return what is said of it on a model's card: name, before, after."""
        start, adapted = self.start, self.adapted
        return [
            ("mean length of a word", f"{start.word_ms:.0f} ms", f"{adapted.word_ms:.0f} ms ({self.longer:+.1%})"),
            ("mean length of a token", f"{start.token_ms:.0f} ms", f"{adapted.token_ms:.0f} ms"),
            ("loud sound that words cover", f"{start.covered:.1%}", f"{adapted.covered:.1%}"),
            ("pauses that are loud", f"{start.loud_pauses:.1%}", f"{adapted.loud_pauses:.1%}"),
            ("edges of words moved", "", f"{self.median_ms:.0f} ms (median), {self.p90_ms:.0f} ms (90 %)"),
            ("starts, ends of words", "", f"{self.starts_ms:+.0f} ms, {self.ends_ms:+.0f} ms (mean)"),
        ]


@dataclass(frozen=True)
class AdaptationCheck:
    """The check of a model that is being adapted: held-out utterances, and their segments by its start.

    `corpus` has one pronunciation of each word, that of the labels.
    """

    segmenter: CorpusSegmenter
    corpus: Corpus
    start: Mapping[int, OwnSegments]
    limits: CheckLimits

    def compared(self, network: AcousticNetwork) -> SegmentComparison | None:
        """Return how a network's segments differ from those of the start; None if nothing is held out."""
        if not self.start:
            return None
        adapted = dict(self.segmenter.segments(network, self.corpus, np.array(sorted(self.start))))
        return compared(self.start, adapted, {i: loud_frames(self.corpus.store[i]) for i in adapted})

    def faults(self, network: AcousticNetwork) -> tuple[str, ...]:
        """Return what is worse with a network than with the start."""
        comparison = self.compared(network)
        return () if comparison is None else comparison.faults(self.limits)


def loud_frames(frames: torch.Tensor) -> np.ndarray:
    """Return which frames (T, MELS) of a recording are loud (T,) bool: past the middle between quiet and loud ones."""
    statistics = features.statistics_of(frames)
    return np.asarray((features.level(frames) > (statistics.quiet + statistics.loud) / 2).numpy())


def compared(
    start: Mapping[int, OwnSegments], adapted: Mapping[int, OwnSegments], loud: Mapping[int, np.ndarray]
) -> SegmentComparison | None:
    """Return how segments differ; None where the adapted model has none.

    Args:
        start, adapted: segments of the utterances, with the same words.
        loud: (T,) bool, the loud frames of those that the adapted model has segments of.
    """
    both = sorted(set(start) & set(adapted))
    if not both:
        return None
    before, after = [start[i].words for i in both], [adapted[i].words for i in both]
    old, new = np.concatenate(before), np.concatenate(after)
    ratios = np.log((new[:, 1] - new[:, 0]) / (old[:, 1] - old[:, 0]))
    gained = [loud[i][_covered(b, loud[i]) & ~_covered(a, loud[i])] for i, a, b in zip(both, before, after)]
    every = np.concatenate(gained)
    moved = FRAME_MS * (new - old)
    sizes = np.abs(moved)
    return SegmentComparison(
        len(both),
        len(old),
        len(start) - len(both),
        _figures([start[i] for i in both], [loud[i] for i in both]),
        _figures([adapted[i] for i in both], [loud[i] for i in both]),
        float(np.expm1(_trimmed_mean(ratios))),
        float(every.mean()) if len(every) else 1.0,
        float(np.median(sizes)),
        float(np.quantile(sizes, 0.9)),
        _trimmed_mean(moved[:, 0]),
        _trimmed_mean(moved[:, 1]),
    )


def _figures(segments: Sequence[OwnSegments], loud: Sequence[np.ndarray]) -> SegmentFigures:
    words = np.concatenate([one.words for one in segments])
    tokens = np.concatenate([one.spans.end - one.spans.start for one in segments])
    covered = np.concatenate([_covered(one.words, flags) for one, flags in zip(segments, loud)])
    flags = np.concatenate(loud)
    return SegmentFigures(
        FRAME_MS * float((words[:, 1] - words[:, 0]).mean()),
        FRAME_MS * float(tokens.mean()),
        float((covered & flags).sum() / max(1, flags.sum())),
        float((~covered & flags).sum() / max(1, (~covered).sum())),
    )


def _covered(words: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Return which frames lie in words (W, 2), as many as `flags` (T,)."""
    inside = np.zeros(len(flags), np.bool_)
    for first, last in words:
        inside[first:last] = True
    return inside


def _trimmed_mean(values: np.ndarray) -> float:
    """Return the mean without the largest and the smallest values.

    >>> _trimmed_mean(np.array([1.0] * 9 + [100.0]))
    1.0
    """
    aside = int(TRIMMED * len(values))
    return float(np.sort(values)[aside : len(values) - aside].mean())
