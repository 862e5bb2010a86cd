"""Check that adaptation did no harm.

The new segments are compared with those of the start model and with the sound level. A model that
learns from its own segments can agree with them better and better while they get worse: with a
bonus for silence and much silence in the recordings, words shrink, and the loss on held-out
segments falls. The level of the sound does not depend on the segments. A frame is *loud* if it is
above the middle between the recording's quiet and loud frames
(`ctc_align.models.convnet.features.Statistics`). Hardly any frame of a pause is loud, but at least
half of the frames of words are, even in noise only 2 dB below the speech.

The corpus is segmented as the aligner would segment it: near CTC's path, with the same scores,
log-priors, bonus for silence (and its reduction in noise), and mixtures. So adaptation and check
use the segments that the model would write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from ctc_align import units
from ctc_align.alignment.ctc_path import Spans, token_spans
from ctc_align.alignment.pronunciations import choose_pronunciations
from ctc_align.alignment.segmentation import segmentation_path
from ctc_align.config import Settings, setting
from ctc_align.errors import InputError
from ctc_align.kernels.batching import StageSteps
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import level_range
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training import Watch
from ctc_align.training.corpus_data import Corpus, Spoken
from ctc_align.training.frame_labels import run_in_batches
from ctc_align.training.starting import Start
from ctc_align.training.training_batches import Material, collate
from ctc_align.types import Emissions, Pronunciation, WordTokens

TRIMMED = 0.1
"""Share of the largest, and of the smallest, changes of words that a mean ignores.

A few words move far.
"""
GAINED_LOUD = 0.1
"""A larger share of the frames that words gain over speech is loud; over pauses, hardly any."""
FRAME_MS = 1000.0 * features.FRAME_SHIFT_S
BAND_FRAMES = units.seconds_to_frames(Settings().band_s, features.FRAME_SHIFT_S)


@dataclass(frozen=True)
class OwnSegments:
    """One utterance as a model segments it.

    Attributes:
        spoken: the pronunciations that fit.
        states: (T,) the state of each frame; the last of the model's is silence.
        spans: the frames of its tokens.
    """

    spoken: Spoken
    states: np.ndarray
    spans: Spans

    @property
    def words(self) -> np.ndarray:
        """First frame and last, exclusive, of each word (W, 2)."""
        owners = self.spoken.owners
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        last = np.append(first[1:], len(owners)) - 1
        return np.stack((self.spans.start[first], self.spans.end[last]), 1)


@torch.inference_mode()
def segments(
    base: Start,
    network: AcousticNetwork,
    corpus: Corpus,
    indices: np.ndarray,
    watch: Watch | None = None,
) -> Iterator[tuple[int, OwnSegments]]:
    """Yield the utterances that have a path, with their segments.

    Args:
        base: the model, whose tokens and scoring of states count.
        network: the model's, or one trained further; it is put into evaluation mode.
        corpus: its frames and pronunciations.
        indices: of utterances of the corpus.
        watch: receives the progress.
    """
    network.eval()
    steps_of = partial(_steps, base, network, corpus)
    yield from run_in_batches(corpus.store, indices, steps_of, watch or Watch(), "segmenting")


def _steps(
    base: Start, network: AcousticNetwork, corpus: Corpus, part: Sequence[int]
) -> list[StageSteps[OwnSegments | None]]:
    none = [np.zeros(0, np.int16)] * len(corpus.store)
    batch = collate(
        Material(corpus.store, none, None, corpus.train), part, network.shape.context_frames
    )
    device = next(network.parameters()).device
    tokens, states = (output.float().cpu() for output in network(batch.inputs.to(device)))
    log_probs = tokens.log_softmax(-1)
    vocab = base.description.vocab
    context = network.shape.context_frames
    found = []
    for b, (i, n) in enumerate(zip(part, batch.lengths.tolist())):
        range_nats = level_range(features.statistics_of(corpus.store[i]))
        scores = base.scoring.scores(
            states[b, :n].numpy(), batch.inputs[b, : n + 2 * context].numpy(), range_nats
        )
        emissions = Emissions(
            log_probs[b, :n], vocab, features.FRAME_SHIFT_S, states=torch.from_numpy(scores)
        )
        found.append(own_segments(emissions, _word_tokens(corpus.spoken[i])))
    return found


def own_segments(
    emissions: Emissions, word_tokens: Sequence[WordTokens]
) -> StageSteps[OwnSegments | None]:
    """Return the segments of an utterance, or None without a path; the blank is token 0."""
    try:
        chosen, spikes, _ = yield from choose_pronunciations(emissions, word_tokens, None)
    except InputError:
        return None
    found = yield from segmentation_path(emissions, chosen, spikes, BAND_FRAMES)
    if found is None:
        return None
    states, topology = found
    spans = token_spans(states, topology.token[0], len(chosen.ids))
    spoken = Spoken.chosen(np.asarray(chosen.ids), np.asarray(chosen.words))
    return OwnSegments(spoken, topology.emit[0][states], spans)


def _word_tokens(spoken: Spoken) -> list[WordTokens]:
    return [
        WordTokens(
            tuple(
                Pronunciation(tuple((phones + 1).tolist()), ("",) * len(phones)) for phones in word
            )
        )
        for word in spoken.words
    ]


@dataclass(frozen=True)
class CheckLimits:
    """How much worse than its start an adapted model may be on the held-out part."""

    shorter_percent: float = setting(5.0, above=0.0)
    """Largest shortening of words."""
    longer_percent: float = setting(15.0, above=0.0)
    """Largest growth of words over quiet sound; weak sounds in noise are as quiet as pauses."""
    uncovered_percent: float = setting(2.0, above=0.0)
    """Share of the loud frames that may leave the words."""
    shift_ms: float = setting(20.0, above=0.0)
    """Largest mean shift of starts and ends of words in the same direction."""


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
        utterances, words: numbers of those compared.
        lost: number of utterances in which the adapted model finds no path.
        start, adapted: figures of both.
        longer: change of the length of words, a trimmed mean; -0.1: 10 % shorter.
        gained_loud: share of loud frames among those that are in words of the adapted model alone.
        median_ms, p90_ms: of the distances between both models' edges of words.
        starts_ms, ends_ms: trimmed mean distances; above 0 the adapted model's are later.
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
        """Return a description of what got worse."""
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
            found.append(
                f"{self.lost} of {self.utterances + self.lost} utterances have no path any more"
            )
        return tuple(found)

    def __str__(self) -> str:
        return (
            f"{self.words} words: {self.longer:+.1%} long, loud sound in words"
            f" {self.start.covered:.1%} -> {self.adapted.covered:.1%}, edges moved by"
            f" {self.median_ms:.0f} ms (median), {self.p90_ms:.0f} ms (90 %)"
        )

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the model's card: name, before, after."""
        start, adapted = self.start, self.adapted
        return [
            (
                "mean length of a word",
                f"{start.word_ms:.0f} ms",
                f"{adapted.word_ms:.0f} ms ({self.longer:+.1%})",
            ),
            ("mean length of a token", f"{start.token_ms:.0f} ms", f"{adapted.token_ms:.0f} ms"),
            ("loud sound that words cover", f"{start.covered:.1%}", f"{adapted.covered:.1%}"),
            ("pauses that are loud", f"{start.loud_pauses:.1%}", f"{adapted.loud_pauses:.1%}"),
            (
                "edges of words moved",
                "",
                f"{self.median_ms:.0f} ms (median), {self.p90_ms:.0f} ms (90 %)",
            ),
            (
                "starts, ends of words",
                "",
                f"{self.starts_ms:+.0f} ms, {self.ends_ms:+.0f} ms (mean)",
            ),
        ]


@dataclass(frozen=True)
class AdaptationCheck:
    """The check of a model during its adaptation.

    It has the held-out utterances, and their segments by the start model. `corpus` has one
    pronunciation of each word, that of the labels.
    """

    base: Start
    corpus: Corpus
    start: Mapping[int, OwnSegments]
    limits: CheckLimits

    def compared(self, network: AcousticNetwork) -> SegmentComparison | None:
        """Return how a network's segments differ from the start's; None if nothing is held out."""
        if not self.start:
            return None
        adapted = dict(segments(self.base, network, self.corpus, np.array(sorted(self.start))))
        return compared(
            self.start, adapted, {i: loud_frames(self.corpus.store[i]) for i in adapted}
        )

    def faults(self, network: AcousticNetwork) -> tuple[str, ...]:
        """Return what is worse than with the start."""
        comparison = self.compared(network)
        if comparison is None:
            return ()
        return comparison.faults(self.limits)


def loud_frames(frames: np.ndarray) -> np.ndarray:
    """Return which frames (T, MELS) of a recording are loud (T,) bool.

    They are above the middle between quiet and loud.
    """
    statistics = features.statistics_of(frames)
    return features.level(frames) > (statistics.quiet + statistics.loud) / 2


def compared(
    start: Mapping[int, OwnSegments],
    adapted: Mapping[int, OwnSegments],
    loud: Mapping[int, np.ndarray],
) -> SegmentComparison | None:
    """Return how segments differ; None if the adapted model has none.

    Args:
        start, adapted: segments of the utterances, with the same words.
        loud: loud frames (T,) bool of the utterances in `adapted`.
    """
    both = sorted(set(start) & set(adapted))
    if not both:
        return None
    before, after = [start[i].words for i in both], [adapted[i].words for i in both]
    old, new = np.concatenate(before), np.concatenate(after)
    ratios = np.log((new[:, 1] - new[:, 0]) / (old[:, 1] - old[:, 0]))
    gained = [
        loud[i][_covered(b, loud[i]) & ~_covered(a, loud[i])]
        for i, a, b in zip(both, before, after)
    ]
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
    """Return which frames lie in words (W, 2); there are as many frames as `flags` (T,)."""
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
