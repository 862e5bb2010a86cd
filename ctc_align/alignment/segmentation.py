"""From CTC's spikes to edges: the best path through segmentation states, medians over all paths.

CTC shows what was said and roughly when; its spikes start late and end early. The second output of
a model scores the parts of each sound, and silence, in every frame. The best path through the parts
of the tokens, with optional silence between words and never far from the spikes, gives the frames
in which each sound begins and ends (`segment`).

The best path has its edges at whole frames, and does not show how likely an edge is elsewhere. Over
all paths,
P(the sounds before this edge have ended by frame t) rises from 0 to 1. It passes one half at the
median of the edge's posterior, which has the smallest mean absolute error of all times; its spread
gives the standard deviation (`soft_edges`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ctc_align import kernels, lattice
from ctc_align.alignment.ctc_path import Spans, spoken_indices, token_spans, window_from
from ctc_align.alignment.wildcard import speech_scores
from ctc_align.kernels.batching import BestPath, StageSteps
from ctc_align.machine.rows_on_disk import ArrayOnDisk
from ctc_align.types import Emissions, Tokens

if TYPE_CHECKING:
    from ctc_align.alignment.usual_lengths import UsualLengths

WHOLE_FRAMES = 120_000
"""Longer recordings are segmented in windows, which bounds the memory."""
WINDOW_FRAMES, OVERLAP_FRAMES = 30_000, 2000
"""A window advances by the first number and reaches into the next by the second: five minutes of
our own models, and
20 s."""
WINDOW_TOKENS, CONTEXT_TOKENS = 48, 8
"""A window of `soft_edges` gives the edges of the first number of sounds, and has the second on
either side of them."""
BAND_FRAMES = 25
"""A segmentation state is summed over at most this many frames before and after its sound on the
best path."""
MIN_SD_FRAMES = 0.3
"""The least standard deviation of an edge: where it is within a frame is unknown."""


@dataclass(frozen=True, eq=False)
class SpokenTokens:
    """The sounds of one utterance, and their exact or approximate positions.

    Attributes:
        states: (T, K) scores of the segmentation states; log-probs of the classes where there is a
            `blank`.
        sounds: (L,) index of each sound: its states are sounds * parts … + parts - 1; its class
            where there is a `blank`.
        words: (L,) the word of each.
        spans: its frames on a path; a gap between neighbours is a pause.
        parts: states of a sound; state K - 1 is silence.
        blank: the paths are CTC's, with this class between the sounds; None: those of the
            segmentation.
        wildcard: (T,) scores of `lattice.WILDCARD` among the sounds.
        usual: how long the sounds usually last; None if that is not known.
    """

    states: np.ndarray | ArrayOnDisk
    sounds: np.ndarray
    words: np.ndarray
    spans: Spans
    parts: int = 1
    blank: int | None = None
    wildcard: np.ndarray | None = None
    usual: UsualLengths | None = None

    def topology(self, low: int, high: int) -> lattice.Topology:
        """Return the paths through the sounds [low, high)."""
        if self.blank is not None:
            return lattice.ctc([self.sounds[low:high]], self.blank)
        silence = self.states.shape[1] - 1
        return lattice.segmentation(
            [self.sounds[low:high]], [self.words[low:high]], self.parts, silence
        )


def parts_of(emissions: Emissions) -> int:
    """Return how many states each token has in the model's second output."""
    assert emissions.state_array is not None
    return lattice.states_per_sound(emissions.state_array.shape[1], len(emissions.vocab))


def segmented_sounds(
    emissions: Emissions, tokens: Tokens, spans: Spans
) -> tuple[np.ndarray, SpokenTokens]:
    """Return the indices (L,) of the tokens that belong to words, and their segmentation states.

    The sound of the k-th token that is not the blank (from 0) is k; a wildcard keeps its id.
    `spans` are of all tokens.
    """
    states = emissions.state_array
    assert states is not None
    spoken = spoken_indices(tokens)
    ids = np.asarray(tokens.ids)[spoken]
    sounds = ids - (ids > emissions.blank)
    words = np.asarray(tokens.words)[spoken]
    if (ids == lattice.WILDCARD).any():
        wildcard = speech_scores(states)
    else:
        wildcard = None
    return spoken, SpokenTokens(
        states, sounds, words, spans.of(spoken), parts_of(emissions), wildcard=wildcard
    )


def segment(
    emissions: Emissions, tokens: Tokens, spikes: Spans, band_frames: int, backend: str = "auto"
) -> StageSteps[Spans | None]:
    """Segment by the states `emissions.states` (T, K): parts of each token; the last is silence.

    Args:
        emissions: with states; with P parts a token, the k-th token that is not the blank (from 0)
            has the states k * P to k * P + P - 1, and state K - 1 is silence.
        tokens: what is said; separators between words have no states, their spans are empty.
        spikes: where CTC put the tokens.
        band_frames: how far an edge may move away from the spikes; more where the tokens' parts do
            not fit otherwise.
        backend: see `ctc_align.kernels`.

    Returns:
        The spans of all tokens, at least one frame each; None if the audio is too short for the
        tokens' parts (CTC needs fewer frames): then there are only spikes.
    """
    found = yield from segmentation_path(emissions, tokens, spikes, band_frames, backend)
    if found is None:
        return None
    path, topology = found
    spoken = spoken_indices(tokens)
    of_sounds = token_spans(path, topology.token[0], len(spoken))
    start, end = spikes.start.copy(), spikes.start.copy()
    start[spoken], end[spoken] = of_sounds.start, of_sounds.end
    return Spans(start, end)


def segmentation_path(
    emissions: Emissions, tokens: Tokens, spikes: Spans, band_frames: int, backend: str = "auto"
) -> StageSteps[tuple[np.ndarray, lattice.Topology] | None]:
    """Return the states (T,) of the best path near the spikes, and their topology.

    Arguments, and None, as for `segment`.
    """
    _, given = segmented_sounds(emissions, tokens, spikes)
    frames, count = len(given.states), len(given.sounds)
    if frames < given.parts * count:
        return None
    topology = given.topology(0, count)
    while True:
        bands = band(
            topology.token[0], given.spans, frames, band_frames, given.sounds == lattice.WILDCARD
        )
        path = None
        if frames > WHOLE_FRAMES:
            path = yield from _find_path_in_windows(given, topology, bands, backend)
        if path is None:
            states, score, _ = yield BestPath(
                given.states, topology, given.wildcard, backend, bands
            )
            path = states if score > float("-inf") else None
        if path is not None:
            return path, topology
        if band_frames >= frames:
            return None
        band_frames *= 2


def _find_path_in_windows(
    given: SpokenTokens, topology: lattice.Topology, bands: np.ndarray, backend: str
) -> StageSteps[np.ndarray | None]:
    """Return the states (T,) of the best path within bands; None without one.

    Windows bound the memory.
    """
    frames = len(bands)
    token = topology.token[0]
    first_state = np.searchsorted(np.maximum.accumulate(token), np.arange(len(given.sounds)))
    word_starts = np.flatnonzero(np.diff(given.words, prepend=-1))
    result = np.empty(frames, np.int64)
    first, sound = 0, 0
    while True:
        last, stop, following = window_from(
            first, sound, given.spans, word_starts, frames, (WINDOW_FRAMES, OVERLAP_FRAMES)
        )
        part = given.topology(sound, stop)
        base = int(first_state[sound]) - 1
        count = part.emit.shape[1]
        part_bands = np.clip(bands[first:last] - base, (0, 1), (count - 1, count))
        if first:  # the window before has found where its first sound begins: its path starts in that sound's state
            part_bands = np.maximum(part_bands, (1, 2))
            part_bands[0] = 1, 2
        states = given.states
        if isinstance(states, ArrayOnDisk):
            states = states.part(first, last)
        else:
            states = states[first:last]
        if given.wildcard is not None and part.has_wildcard:
            wildcard = given.wildcard[first:last]
        else:
            wildcard = None
        found, score, _ = yield BestPath(states, part, wildcard, backend, part_bands)
        if score == float("-inf"):
            return None
        result[first:last] = found + base
        if following is None:
            return result
        sound = following
        first += int(np.searchsorted(found + base, first_state[sound]))


def band(
    token_of_state: np.ndarray,
    spikes: Spans,
    frames: int,
    band_frames: int,
    lasting: np.ndarray | None = None,
) -> np.ndarray:
    """Return the first and last (exclusive) state of tokens that spike near each frame (T, 2).

    The silence next to an allowed token is allowed too, and across a pause longer than the band
    only the silence in it. A spike counts at its middle; tokens that are `lasting` (L,) bool,
    wildcards, count at all their frames.
    """
    count = len(spikes.start)
    states = len(token_of_state)
    centre = (spikes.start + spikes.end - 1) / 2
    owned = np.flatnonzero(token_of_state >= 0)
    begin = np.full(count, states, np.int64)
    end = np.zeros(count, np.int64)
    np.minimum.at(begin, token_of_state[owned], owned)
    np.maximum.at(end, token_of_state[owned], owned + 1)
    before = np.where((begin > 0) & (token_of_state[begin - 1] < 0), begin - 1, begin)
    after = np.where(
        token_of_state[np.minimum(end, states - 1)] < 0, np.minimum(end + 1, states), end
    )
    t = np.arange(frames)
    begins = centre
    ends = centre
    if lasting is not None and lasting.any():
        begins = np.where(lasting, spikes.start, centre)
        ends = np.where(lasting, spikes.end - 1, centre)
    earliest = np.searchsorted(ends, t - band_frames, "left")
    latest = np.searchsorted(begins, t + band_frames, "right") - 1
    low = np.where(earliest < count, before[np.minimum(earliest, count - 1)], states - 1)
    high = np.where(latest >= 0, after[np.maximum(latest, 0)], 1)
    # In a gap longer than the band no token is near: stay in the last one, or its silence, until
    # the next comes.
    low = np.minimum(low, high - 1)
    low[0] = 0
    high[-1] = states
    return np.stack((np.maximum.accumulate(low), np.maximum.accumulate(high)), 1)


# Edges between frames, from all paths
#
# Frames are not independent, and together their scores are too sure: they are multiplied by a scale
# below 1 first, as in lattice rescoring (Wessel et al. 2001, doi 10.1109/89.906002). Long
# utterances are cut into windows of neighbouring sounds that overlap; states far from the best path
# are left out.


def soft_edges(sounds: SpokenTokens, scale: float, backend: str = "auto") -> StageSteps[Spans]:
    """Return the medians and deviations of all edges; the best path's where a window has none.

    `end` of a sound and `start` of the next are one edge unless a pause parts them.

    Args:
        sounds: with their best path.
        scale: factor of the scores, above 0.
        backend: see `ctc_align.kernels`.
    """
    count = len(sounds.sounds)
    start, end = sounds.spans.start.astype(np.float64), sounds.spans.end.astype(np.float64)
    start_sd, end_sd = np.full((2, count), MIN_SD_FRAMES)
    heard_start, heard_end = start.copy(), end.copy()
    windows = [
        EdgeWindow(sounds, first, scale, backend) for first in range(0, count, WINDOW_TOKENS)
    ]
    answers = yield windows
    for window, found in zip(windows, answers):
        if found is not None:
            part = slice(window.first, window.last)
            start[part], end[part], start_sd[part], end_sd[part] = (
                found.start,
                found.end,
                found.start_sd,
                found.end_sd,
            )
            assert found.by_sound is not None
            heard_start[part], heard_end[part] = found.by_sound.start, found.by_sound.end
    if sounds.usual is None:
        return Spans(start, end, start_sd, end_sd)
    heard = Spans(heard_start, heard_end, start_sd, end_sd)
    return Spans(start, end, start_sd, end_sd, by_sound=heard)


@dataclass(frozen=True, eq=False)
class EdgeWindow:
    """A request for the `Spans` (or None) of up to `WINDOW_TOKENS` sounds from `first` on.

    The scores of its states are made when the request is run: those of a long recording never lie
    in memory together.
    """

    sounds: SpokenTokens
    first: int
    scale: float
    backend: str

    stage: ClassVar[str] = "kernels"

    @property
    def last(self) -> int:
        """The sound after the last one whose edges are requested."""
        return min(self.first + WINDOW_TOKENS, len(self.sounds.sounds))

    @property
    def low(self) -> int:
        """The first sound of the window, its context included."""
        return max(0, self.first - CONTEXT_TOKENS)

    @property
    def high(self) -> int:
        """The index after the last sound of the window, context included."""
        return min(len(self.sounds.sounds), self.last + CONTEXT_TOKENS)

    @property
    def frames(self) -> tuple[int, int]:
        """The frames between the sounds around the window, with the pauses at its ends."""
        spans = self.sounds.spans
        begin = int(spans.end[self.low - 1]) if self.low else 0
        if self.high < len(self.sounds.sounds):
            end = int(spans.start[self.high])
        else:
            end = len(self.sounds.states)
        return begin, end

    @property
    def key(self) -> Hashable:
        return EdgeWindow, self.backend

    @property
    def shape(self) -> tuple[int, int]:
        begin, end = self.frames
        # At most this many states: silence or blanks between all sounds.
        return end - begin, (self.high - self.low) * (self.sounds.parts + 1) + 1

    def scores(self) -> tuple[np.ndarray, lattice.Topology]:
        """Return (T, S) float32 scores of each state of the window's topology, and the topology."""
        given = self.sounds
        begin, end = self.frames
        topology = given.topology(self.low, self.high)
        emit = topology.emit[0]
        states = given.states[begin:end].astype(np.float32, copy=False)
        scores = states[:, np.maximum(emit, 0)] * np.float32(self.scale)
        if given.wildcard is not None:
            scores[:, emit == lattice.WILDCARD] = given.wildcard[begin:end, None] * self.scale
        if given.blank is None:
            first, last = (
                given.spans.start[self.low : self.high],
                given.spans.end[self.low : self.high],
            )
            near = _are_near(topology.token[0], first - begin, last - begin, end - begin)
            scores[~near] = -np.inf
        # Each state now has a column of its own: windows of all utterances share one padded batch.
        return scores, replace(topology, emit=np.arange(len(emit), dtype=np.int32)[None])

    @staticmethod
    def run(requests: Sequence[EdgeWindow]) -> list[Spans | None]:
        scores, topologies = zip(*[request.scores() for request in requests])
        sizes = [row.shape for row in scores]
        batch = np.zeros(
            (len(scores), *(max(size[axis] for size in sizes) for axis in (0, 1))), np.float32
        )
        for padded, row in zip(batch, scores):
            padded[: row.shape[0], : row.shape[1]] = row
        lengths = [frames for frames, _ in sizes]
        result = kernels.occupancy(
            batch, lattice.stack(topologies), lengths, backend=requests[0].backend
        )
        posteriors = result.posteriors
        totals = result.scores.tolist()
        return [
            (
                request._edges(row[:frames, :states].astype(np.float64), topology.token[0])
                if total > float("-inf")
                else None
            )
            for request, row, total, topology, (frames, states) in zip(
                requests, posteriors, totals, topologies, sizes
            )
        ]

    def _edges(self, posteriors: np.ndarray, token: np.ndarray) -> Spans:
        """Return the wanted edges from posteriors (T, S) of the states of sounds `token` (S,)."""
        # beyond[t, s] = P(a path is in state s or a later one at frame t) = sum over s' >= s of
        # posteriors[t, s'].
        beyond = posteriors[:, ::-1].cumsum(1)[:, ::-1]
        beyond = np.concatenate((beyond, np.zeros((len(beyond), 1))), 1)
        # A sound begins where its first state is passed, and ends where the state after its last
        # one is.
        first_state = np.searchsorted(np.maximum.accumulate(token), np.arange(self.high - self.low))
        next_state = first_state + np.bincount(token[token >= 0], minlength=self.high - self.low)
        begun, ended = _rise(beyond[:, first_state]), _rise(beyond[:, next_state])
        start, start_sd = _medians(begun)
        end, end_sd = _medians(ended)
        if self.sounds.usual is not None:
            from ctc_align.alignment.usual_lengths import draw_by_lengths

            usual = self.sounds.usual.part(self.low, self.high)
            drawn = draw_by_lengths((begun, ended), start, end, usual)
        else:
            drawn = start, end
        begin, _ = self.frames
        wanted = slice(self.first - self.low, self.last - self.low)
        sds = start_sd[wanted], end_sd[wanted]
        heard = Spans(start[wanted] + begin, end[wanted] + begin, *sds)
        return Spans(drawn[0][wanted] + begin, drawn[1][wanted] + begin, *sds, by_sound=heard)


def _are_near(token: np.ndarray, first: np.ndarray, last: np.ndarray, frames: int) -> np.ndarray:
    """Return (T, S) whether a state is within `BAND_FRAMES` of its sound, or of its gap."""
    count = len(first)
    begin, end = np.empty(len(token), np.int64), np.empty(len(token), np.int64)
    sounding = token >= 0
    begin[sounding], end[sounding] = first[token[sounding]], last[token[sounding]]
    # A silence lies between the sounds on either side of it.
    gaps = np.flatnonzero(~sounding)
    before = np.maximum.accumulate(token)[gaps]
    begin[gaps] = np.where(before >= 0, last[np.maximum(before, 0)], 0)
    end[gaps] = np.where(before + 1 < count, first[np.minimum(before + 1, count - 1)], frames)
    t = np.arange(frames)[:, None]
    return (t >= begin - BAND_FRAMES) & (t < end + BAND_FRAMES)


def _rise(beyond: np.ndarray) -> np.ndarray:
    """Return distribution functions (T + 1, E) from P(the edge has passed by frame t) (T, E).

    Rounding may let a probability fall: it must rise, and reach 1 after the last frame.
    """
    risen = np.maximum.accumulate(np.clip(beyond, 0.0, 1.0), 0)
    return np.concatenate((risen, np.ones((1, beyond.shape[1]))))


def _medians(risen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return medians and standard deviations (E,), in frames, of distributions of `_rise`.

    Each probability belongs to the middle of its frame; between two middles, interpolate linearly.

    >>> _medians(_rise(np.array([[0.0], [0.25], [0.75], [1.0]])))[0]  # between the middles of frames 1 and 2
    array([2.])
    """
    frames, edges = len(risen) - 1, risen.shape[1]
    t = (risen >= 0.5).argmax(0)
    column = np.arange(edges)
    high = risen[t, column]
    low = risen[np.maximum(t - 1, 0), column]
    median = np.where(t > 0, t - 0.5 + (0.5 - low) / np.maximum(high - low, 1e-12), 0.0)
    # P(the edge is in frame t) = risen[t] - risen[t - 1].
    mass = np.diff(risen, axis=0, prepend=0.0)
    at = np.arange(frames + 1, dtype=np.float64)[:, None]
    mean = (mass * at).sum(0)
    variance = (mass * (at - mean) ** 2).sum(0)
    return np.minimum(median, frames), np.sqrt(np.maximum(variance, 0.0)) + MIN_SD_FRAMES
