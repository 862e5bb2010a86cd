"""Confidence of tokens and words: the chance that a word is at its aligned position.

With a confidence network (`ctc_align.models.confidence_network`), the confidence is the chance that
both edges of the word are within 200 ms of where a person puts them, estimated from the sound of
the word and its neighbours; `start_sd_ms` and `end_sd_ms` give the finer error. Log-probs of a
model without such a network are assessed by the network of any model, on the scale of the recording
itself (`emission_features`). With a calibration
of segmentation states alone, it is the share of similar words whose edges are both within 50 ms (a
logistic regression, `Calibration.word_confidence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ctc_align.alignment.ctc_path import PIECE_FRAMES, Spans, spoken_indices
from ctc_align.alignment.fit import ABSENT_CONFIDENCE, SPEECH_NATS, is_sound
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.segmentation import parts_of
from ctc_align.errors import ConfigError
from ctc_align.kernels.batching import CtcTargets, Forward, StageSteps
from ctc_align.kernels.log_space import log_softmax
from ctc_align.lattice import WILDCARD
from ctc_align.machine.rows_on_disk import ArrayOnDisk
from ctc_align.models.calibration import Calibration, probability
from ctc_align.models.confidence_network import FitLimits, network_of_any_model
from ctc_align.types import Emissions, Tokens

SHORT_WORDS = 5
SHORT_TEXT = 40
SHORT_FACTOR = 2.0
"""In a text of so few words and characters a word cannot have more than this many times the chance
that the network of any model gives it: that network has learnt that a word or two may be found in
any noise."""
RIGHT_MS = 50
"""A calibration counts an edge as right within this distance from the hand label."""
FEATURES = (
    "constant",
    "log of the wider edge's spread",
    "mean fit",
    "worst fit",
    "log of the length",
)
"""The columns of `SoundFits.features`. Spread and length in frames; fit in nats per frame, 0 if
nothing fits better than the sound itself."""
NAMES = (
    *(
        "spread",
        "mean fit",
        "worst fit",
        "frames",
        "tokens",
        "mean spike",
        "worst spike",
        "shortfall",
    ),
    *("labels before", "labels after", "gap before", "gap after", "speech before", "speech after"),
    *(
        "silence inside",
        "frames a token",
        "labels a token",
        "entropy",
        "frames to the start",
        "frames to the end",
    ),
    *(
        "frames of the first sound",
        "of the last",
        "of the longest",
        "start to its spike",
        "spike to the end",
    ),
    *("share of likely spikes", "share of likely fits"),
)
"""The columns of `word_features`: a confidence network gets them for each word and for the words
around it."""
MOST_NATS = 12.0
"""Upper limit of how much worse than the best class a frame can be."""
LIKELY_SPIKE_NATS, LIKELY_FIT_NATS = -1.2, -1.5
"""A sound is probably there if the log-probability of its spike and its fit exceed these."""
SUMMED_FRAMES = 2**15
"""Frames that are summed at once, so that copies of long recordings stay small beside six numbers
per frame."""
SILENCE_NATS = -1.0
"""A frame is surely silence if the best sound beats silence by less than this."""


@dataclass(frozen=True)
class _WordChances:
    """The chances of the W words that have tokens, by a network or a calibration.

    Attributes:
        here: (W,) the chances that the words are there, which their tokens share.
        right: (W,) the chances that they are there with right edges.
        limits: of `fit`, None if a calibration has judged.
        factor: of all confidences of tokens and words.
    """

    here: np.ndarray
    right: np.ndarray
    limits: FitLimits | None = None
    factor: float = 1.0


def confidences(
    inputs: UtteranceInputs, tokens: Tokens, spikes: Spans, edges: Spans
) -> StageSteps[tuple[list[float], list[float], FitLimits | None]]:
    """Return confidences by the model's network or calibration, or by the network for any model.

    Args:
        inputs: of the utterance.
        tokens: what is said, wildcards and separators included.
        spikes: their frames on CTC's best path.
        edges: their starts and ends.

    Returns:
        Confidences in [0, 1] of each token (L,), and of each word that has tokens, in order; and
        the limits of `fit` that come with the network that has judged whether the words are there
        at all, None if a calibration has.
    """
    calibration = inputs.calibration
    spoken, begins = word_begins(tokens)
    lengths = np.diff(begins)
    lacking = np.asarray(tokens.ids) == WILDCARD
    ids = np.where(lacking, 0, np.asarray(tokens.ids))
    of_token = spike_confidence(inputs.emissions.array, ids, spikes)
    fits = sound_fits(inputs.emissions, tokens, edges.by_sound or edges, calibration.spread)
    if fits is None or (inputs.confidence_network is None and not calibration.word_confidence):
        chances = yield from _judge_by_any_model(inputs, tokens, spikes)
    elif inputs.confidence_network is not None:
        chances = yield from _judge_by_network(inputs, tokens, spikes, fits, of_token[spoken])
    else:
        chances = _judge_by_calibration(fits.features(begins), calibration)
    of_token *= chances.factor
    if fits is not None and calibration.token_confidence:
        of_sounds = fits.features(np.arange(len(spoken) + 1))
        of_token[spoken] = probability(of_sounds, calibration.token_confidence)
    of_token[spoken] *= np.repeat(chances.here, lengths)
    # A wildcard takes any speech and proves nothing; a word counts by the share of its tokens that
    # the model knows.
    of_token[lacking] = 0.0
    known = 1.0 - np.add.reduceat(lacking[spoken].astype(np.float64), begins[:-1]) / lengths
    of_word = chances.right * (known * chances.factor)
    # More digits would be noise of single precision.
    return of_token.round(4).tolist(), of_word.round(4).tolist(), chances.limits


def _judge_by_any_model(
    inputs: UtteranceInputs, tokens: Tokens, spikes: Spans
) -> StageSteps[_WordChances]:
    """Judge words by the network for any model.

    If the model has a network of its own, which needs segmentation, too many sounds for the time of
    the recording lower all confidences.
    """
    here = yield from _chances_for_any_model(inputs, tokens, spikes)
    factor = 1.0
    sounds = len(spoken_indices(tokens))
    if inputs.confidence_network is not None and _is_too_dense(inputs.emissions, sounds):
        factor = ABSENT_CONFIDENCE
    return _WordChances(here, here, network_of_any_model().limits, factor)


def _judge_by_network(
    inputs: UtteranceInputs,
    tokens: Tokens,
    spikes: Spans,
    fits: SoundFits,
    at_spikes: np.ndarray,
) -> StageSteps[_WordChances]:
    """Judge words by the model's own network; in a short text, by that for any model, too.

    Raises:
        ConfigError: the network is from another version.
    """
    network = inputs.confidence_network
    assert network is not None
    if network.features != NAMES:
        raise ConfigError(
            "the model's confidence network is from a different version of ctc-align; train it"
            " again"
        )
    here = network.chances(word_features(inputs.emissions, tokens, spikes, fits, at_spikes))
    if len(here) <= SHORT_WORDS and len(inputs.words.text) <= SHORT_TEXT:
        of_any_model = yield from _chances_for_any_model(inputs, tokens, spikes)
        here = np.minimum(here, SHORT_FACTOR * of_any_model)
    return _WordChances(here, here, network.limits)


def _judge_by_calibration(of_sounds: np.ndarray, calibration: Calibration) -> _WordChances:
    """Judge words by a calibration: they have right edges only where they are there."""
    here = np.ones(len(of_sounds))
    if calibration.word_presence:
        here = probability(of_sounds, calibration.word_presence)
    return _WordChances(here, probability(of_sounds, calibration.word_confidence) * here)


def _is_too_dense(emissions: Emissions, sounds: int) -> bool:
    """Return whether the recording has fewer frames than parts of sounds."""
    states = emissions.state_array
    return states is not None and sounds * parts_of(emissions) > len(states)


def _chances_for_any_model(
    inputs: UtteranceInputs, tokens: Tokens, spikes: Spans
) -> StageSteps[np.ndarray]:
    """Return the chances (W,) that words are there, by the network that judges emissions alone."""
    features = yield from emission_features(inputs.emissions, tokens, spikes, inputs.backend)
    return network_of_any_model().chances(features)


# How well the sounds of words fit where they are: nats below what fits best there, and the spreads
# of edges


def word_begins(tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices (L,) of tokens of words, and of the first one of each word (W + 1,)."""
    words = np.asarray(tokens.words)
    spoken = spoken_indices(tokens)
    return spoken, np.append(np.flatnonzero(np.diff(words[spoken], prepend=-1)), len(spoken))


@dataclass(frozen=True)
class SoundFits:
    """The edges (L,) of the sounds of words, their spreads, and how well each sound fits (nats)."""

    edges: Spans
    fits: np.ndarray

    def features(self, begins: np.ndarray) -> np.ndarray:
        """Return `FEATURES` (U, F) of units; unit u has the sounds begins[u] to begins[u + 1]."""
        begin = begins[:-1]
        final = begins[1:] - 1
        assert self.edges.start_sd is not None
        assert self.edges.end_sd is not None
        return np.stack(
            (
                np.ones(len(begin)),
                np.log(np.maximum(self.edges.start_sd[begin], self.edges.end_sd[final])),
                np.add.reduceat(self.fits, begin) / np.diff(begins),
                np.minimum.reduceat(self.fits, begin),
                np.log(np.maximum(self.edges.end[final] - self.edges.start[begin], 0.5)),
            ),
            axis=1,
        )


def sound_fits(
    emissions: Emissions, tokens: Tokens, edges: Spans, spread: float = 1.0
) -> SoundFits | None:
    """Return the edges and fits of the sounds of words; None without a segmentation or spreads.

    Args:
        emissions: with segmentation states.
        tokens: what is said; the fit of a wildcard is 0.
        edges: of all tokens, with their standard deviations.
        spread: the calibration's factor that these include.
    """
    if emissions.state_array is None or edges.start_sd is None or edges.end_sd is None:
        return None
    spoken = spoken_indices(tokens)
    ids = np.asarray(tokens.ids)[spoken]
    placed = edges.of(spoken)
    lacking = ids == WILDCARD
    sounds = np.where(lacking, 0, ids - (ids > emissions.blank))
    frames = len(emissions.state_array)
    first = np.minimum(np.floor(placed.start + 0.5).astype(np.int64), frames - 1)
    last = np.clip(np.floor(placed.end + 0.5).astype(np.int64), first + 1, frames)
    fits = fit_of_sounds(emissions.state_array, sounds, first, last, parts_of(emissions))
    fits[lacking] = 0.0
    return SoundFits(
        Spans(
            placed.start, placed.end, edges.start_sd[spoken] / spread, edges.end_sd[spoken] / spread
        ),
        fits,
    )


def fit_of_sounds(
    states: np.ndarray | ArrayOnDisk,
    sounds: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    parts: int,
) -> np.ndarray:
    """Return (L,) the nats by which each sound's best part scores below the best state.

    They are means over the frames of the sound.

    Args:
        states: (T, K) scores.
        sounds: (L,) index of each sound, whose states are sounds * parts … + parts - 1.
        first, last: (L,) frames of each, `last` exclusive, one or more.
        parts: states of a sound.
    """
    if not len(sounds):
        return np.zeros(0)
    short = []
    piece = first // PIECE_FRAMES
    edges = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(sounds)]
    for low, high in pairwise(edges):
        begin = int(first[low:high].min())
        end = int(last[low:high].max())
        _, frame = _frames_in(first[low:high] - begin, last[low:high] - begin)
        own = np.repeat(sounds[low:high] * parts, (last - first)[low:high])[:, None] + np.arange(
            parts
        )
        rows = states[begin:end][frame]
        best = np.take_along_axis(rows, own, 1).max(1)
        short.append(best.astype(np.float64) - rows.max(1))
    begins, _ = _frames_in(first, last)
    return np.add.reduceat(np.concatenate(short), begins) / (last - first)


def spike_confidence(
    log_probs: np.ndarray, ids: Sequence[int] | np.ndarray, spikes: Spans
) -> np.ndarray:
    """Return the highest posterior of each token over the frames of its spike: (L,) in [0, 1].

    Log-probs (T, C) that are not normalised are normalised first.
    """
    owner = np.repeat(np.arange(len(ids)), spikes.end - spikes.start)
    if not len(owner):
        return np.zeros(len(ids))
    _, frame = _frames_in(spikes.start, spikes.end)
    best = np.full(len(ids), -np.inf)
    for low in range(0, len(frame), PIECE_FRAMES):
        piece = slice(low, low + PIECE_FRAMES)
        rows = _normalised(log_probs[frame[piece]])
        np.maximum.at(best, owner[piece], rows[np.arange(len(rows)), np.asarray(ids)[owner[piece]]])
    return np.exp(np.minimum(best, 0.0))


def _frames_in(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all frames of all spans in one row, and where each span's frames begin in it (L,)."""
    lengths = last - first
    begins = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return begins, np.repeat(first - begins, lengths) + np.arange(lengths.sum())


# Features of words that show whether they are where they were put: fit, length, and the sound
# around them


def word_features(
    emissions: Emissions, tokens: Tokens, spikes: Spans, fits: SoundFits, at_spikes: np.ndarray
) -> np.ndarray:
    """Return the features `NAMES` (W, F), float32, of the W words that have tokens.

    Args:
        emissions: of the utterance, with segmentation states.
        tokens: what is said, wildcards and separators included.
        spikes: their frames on CTC's best path.
        fits: `sound_fits` of the tokens.
        at_spikes: (sounds,) `spike_confidence` of each.
    """
    spoken, begins = word_begins(tokens)
    begin = begins[:-1]
    final = begins[1:] - 1
    lengths = np.diff(begins)
    ids = np.where(np.asarray(tokens.ids) == WILDCARD, 0, np.asarray(tokens.ids))
    spike = np.log(np.maximum(at_spikes, 1e-6))
    shortfall, labels_for_blank, labels, entropy, speech, silence = _sums_before(
        emissions, ids, spikes
    )
    frames = len(emissions)
    start = np.clip(np.floor(fits.edges.start[begin] + 0.5).astype(np.int64), 0, frames - 1)
    end = np.clip(np.floor(fits.edges.end[final] + 0.5).astype(np.int64), start + 1, frames)
    before = np.minimum(np.append(0, end[:-1]), start)
    after = np.maximum(np.append(start[1:], frames), end)
    sound_frames = np.log(np.maximum(fits.edges.end - fits.edges.start, 0.5))
    inside = (end - start).astype(np.float64)
    columns = (
        *fits.features(begins).T[1:],
        np.log(lengths),
        np.add.reduceat(spike, begin) / lengths,
        np.minimum.reduceat(spike, begin),
        _between(shortfall, start, end) / lengths,
        np.log1p(_between(labels_for_blank, before, start)),
        np.log1p(_between(labels_for_blank, end, after)),
        np.log1p(start - before),
        np.log1p(after - end),
        np.log1p(_between(speech, before, start)),
        np.log1p(_between(speech, end, after)),
        _between(silence, start, end) / inside,
        np.log(inside / lengths),
        _between(labels, start, end) / lengths,
        _between(entropy, start, end) / inside,
        np.log1p(start),
        np.log1p(frames - end),
        sound_frames[begin],
        sound_frames[final],
        np.maximum.reduceat(sound_frames, begin),
        np.log1p(np.abs(spikes.start[spoken][begin] - fits.edges.start[begin])),
        np.log1p(np.abs(fits.edges.end[final] - spikes.end[spoken][final])),
        np.add.reduceat((spike > LIKELY_SPIKE_NATS).astype(np.float64), begin) / lengths,
        np.add.reduceat((fits.fits > LIKELY_FIT_NATS).astype(np.float64), begin) / lengths,
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _sums_before(emissions: Emissions, ids: np.ndarray, spikes: Spans) -> np.ndarray:
    """Return (6, T + 1) sums over the frames before each frame: any stretch is one difference.

    They are: nats by which the path is worse than the best class; nats by which a blank is worse;
    frames where a label is likelier than a blank; the entropy of the classes in nats; frames that
    are surely speech; frames that are surely silent.
    """
    log_probs, states = emissions.array, emissions.state_array
    assert states is not None
    classes = np.full(len(log_probs), emissions.blank)
    lengths = spikes.end - spikes.start
    first = np.repeat(spikes.start - np.append(0, np.cumsum(lengths)[:-1]), lengths)
    classes[first + np.arange(len(first))] = np.repeat(ids, lengths)
    sums = np.zeros((6, len(log_probs) + 1))
    for low in range(0, len(log_probs), SUMMED_FRAMES):
        piece = slice(low, low + SUMMED_FRAMES)
        columns = _columns(log_probs[piece], states[piece], classes[piece], emissions.blank)
        # To the bit the sum over all frames at once: each piece continues where the one before it
        # ended.
        both = np.concatenate((sums[:, low : low + 1], columns), axis=1)
        sums[:, low : low + both.shape[1]] = np.cumsum(both, axis=1)
    return sums


def _columns(
    log_probs: np.ndarray, states: np.ndarray, classes: np.ndarray, blank: int
) -> np.ndarray:
    """Return (6, T) float64, what `_sums_before` sums, of the frames of a piece."""
    log_probs = _normalised(log_probs)
    best = log_probs.max(1)
    blanks = log_probs[:, blank]
    on_path = log_probs[np.arange(len(log_probs)), classes]
    spoken = states[:, :-1].max(1) - states[:, -1]
    columns = (
        np.minimum(best - on_path, MOST_NATS),
        np.minimum(best - blanks, MOST_NATS),
        best > blanks,
        -(np.exp(log_probs) * np.maximum(log_probs, -1e4)).sum(1),
        spoken > SPEECH_NATS,
        spoken < SILENCE_NATS,
    )
    return np.stack(columns).astype(np.float64)


def _between(sums: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return sums over the frames from `first` to `last`, exclusive."""
    return sums[last] - sums[first]


# Features of words from the emissions of any model, each on the scale of the recording itself
#
# What a good log-prob is depends on the model and the recording. It is measured with hard
# alternatives: each word is compared, in its own frames, with the greedy labels, the best that
# anything can score, and with as many other tokens, from elsewhere in the text or from the
# vocabulary. With log-likelihoods over all CTC paths,
#
#     shortfall(tokens) = (log p(greedy labels) - log p(tokens)) / number of tokens
#
# is divided by its mean over all alternatives in the recording. The result is about 0 for a word
# that is heard perfectly, and about 1 for any word that is not there.

EMISSION_NAMES = (
    *("log tokens", "shortfall", "worst spike", "mean spike", "shortfall of the best alternative"),
    *("better than the best alternative", "standard deviations better", "alternatives beaten"),
    *("mean rank", "worst rank", "share of first ranks", "labels inside a token"),
    *(
        "labels before",
        "labels after",
        "gap before",
        "gap after",
        "token beside the others",
        "token beside labels",
    ),
    *("labels to the start", "labels to the end", "scale", "spread of alternatives"),
)
"""The columns of `emission_features`."""
ALTERNATIVES = 6
"""How many are compared with each word."""
CONTEXT_S = 0.04
"""A word is scored from this long before its first spike until this long after its last, where no
other word is."""
WORST_NATS = 30.0
"""The maximum of a shortfall, in nats a token."""
TYPICAL_NATS, PRIOR_WORDS = 8.0, 2.0
"""The mean shortfall of alternatives in an empty recording, and how many words' alternatives it is
worth."""
WORDS_AT_ONCE = 256
LONG_TEXT, VARIED_TEXT = 16, 8
"""The minimum number of tokens, and of different ones, in a text that is shifted against itself."""


@dataclass(frozen=True)
class _Heard:
    """The best classes of frames, and where the greedy labels begin.

    Attributes:
        best: (T + 1,) sums of the best log-prob over the frames before each.
        labels: (T + 1,) number of greedy labels that begin before each frame.
        pace: the usual distance from one label to the next, in frames: a measure of time where the
            shift may be wrong.
    """

    best: np.ndarray
    labels: np.ndarray
    pace: float


def emission_features(
    emissions: Emissions, tokens: Tokens, spikes: Spans, backend: str
) -> StageSteps[np.ndarray]:
    """Return the features `EMISSION_NAMES` (W, F), float32, of the W words that have tokens.

    Args:
        emissions: of the utterance; segmentation states are not used.
        tokens: what is said, wildcards and separators included.
        spikes: where CTC's best path has them.
        backend: of the kernels.
    """
    spoken, begins = word_begins(tokens)
    first = spoken[begins[:-1]]
    last = spoken[begins[1:] - 1]
    frames = len(emissions)
    before = np.append(0, spikes.end)[first]
    after = np.append(spikes.start, frames)[last + 1]
    context = max(1, round(CONTEXT_S / emissions.frame_shift_s))
    low = np.maximum(spikes.start[first] - context, before)
    high = np.minimum(spikes.end[last] + context, after)
    heard = _heard(emissions)
    ids = np.asarray(tokens.ids)[spoken]
    scores = yield from _scores(
        emissions, _alternatives(emissions, ids), begins, low, high, backend
    )
    lengths = np.diff(begins).astype(np.float64)
    free = _between(heard.best, low, high)
    own, *rest = np.clip((free - scores) / lengths, 0.0, WORST_NATS)
    others = np.stack(rest)
    scale = (others.mean(0).sum() + PRIOR_WORDS * TYPICAL_NATS) / (len(own) + PRIOR_WORDS)
    spread = np.sqrt(((others - scale) ** 2).mean() + 1.0)
    below, ranks = _spikes(emissions, ids, spikes.of(spoken))
    begin = begins[:-1]
    pace = heard.pace
    token_frames = (spikes.end[last] - spikes.start[first]) / lengths
    columns = (
        np.log(lengths),
        own / scale,
        np.maximum.reduceat(below, begin) / scale,
        np.add.reduceat(below, begin) / lengths / scale,
        others.min(0) / scale,
        (others.min(0) - own) / scale,
        (scale - own) / spread,
        (others > own).mean(0),
        np.add.reduceat(np.log1p(ranks), begin) / lengths,
        np.maximum.reduceat(np.log1p(ranks), begin),
        np.add.reduceat((ranks == 0).astype(np.float64), begin) / lengths,
        _between(heard.labels, low, high) / lengths,
        np.log1p(_between(heard.labels, before, low)),
        np.log1p(_between(heard.labels, high, after)),
        np.log1p((spikes.start[first] - before) / pace),
        np.log1p((after - spikes.end[last]) / pace),
        np.log(token_frames / np.median(token_frames)),
        np.log(token_frames / pace),
        np.log1p(spikes.start[first] / pace),
        np.log1p((frames - spikes.end[last]) / pace),
        np.full(len(own), np.log(scale)),
        np.full(len(own), spread / scale),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _alternatives(emissions: Emissions, ids: np.ndarray) -> np.ndarray:
    """Return (1 + `ALTERNATIVES`, L) ids: those of all words, then others in their places.

    They are the text's own, shifted, or in short texts drawn from the vocabulary's sounds, always
    the same ones.
    """
    sounds = [
        index
        for index, token in enumerate(emissions.vocab)
        if index != emissions.blank and is_sound(token)
    ]
    sounds = sounds or [index for index in range(len(emissions.vocab)) if index != emissions.blank]
    rng = np.random.default_rng(len(ids))
    is_long = len(ids) >= LONG_TEXT and len(np.unique(ids)) >= VARIED_TEXT
    rows = [ids]
    for number in range(1, ALTERNATIVES + 1):
        if is_long and number % 2:
            rows.append(np.roll(ids, -(number * len(ids) // (ALTERNATIVES + 1))))
        else:
            rows.append(rng.choice(sounds, len(ids)))
    return np.stack(rows)


def _scores(
    emissions: Emissions,
    rows: np.ndarray,
    begins: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    backend: str,
) -> StageSteps[np.ndarray]:
    """Return (R, W) log-likelihoods of the tokens of each word, for each row of ids (R, L).

    Word w has the tokens from begins[w] to begins[w + 1].

    Args:
        emissions: of the utterance.
        rows: ids, `WILDCARD` among them, which are left out.
        begins: (W + 1,) of the words.
        low, high: (W,) the frames of each word.
        backend: of the kernels.
    """
    scores = np.zeros((len(rows), len(low)))
    for first in range(0, len(low), WORDS_AT_ONCE):
        places, requests = [], []
        for word in range(first, min(first + WORDS_AT_ONCE, len(low))):
            frames = _normalised(emissions.array[int(low[word]) : int(high[word])])
            for row, ids in enumerate(rows):
                own = ids[begins[word] : begins[word + 1]]
                own = own[own != WILDCARD]
                if len(own):
                    places.append((row, word))
                    requests.append(
                        Forward(frames, CtcTargets(own, emissions.blank), None, backend)
                    )
        if requests:
            scores[tuple(np.array(places).T)] = yield requests
    return scores


def _normalised(log_probs: np.ndarray) -> np.ndarray:
    return log_softmax(log_probs.astype(np.float32, copy=False))


def _heard(emissions: Emissions) -> _Heard:
    """Return what is best in each frame."""
    best, labels = [], []
    for first in range(0, len(emissions), PIECE_FRAMES):
        piece = _normalised(emissions.array[first : first + PIECE_FRAMES])
        best.append(piece.max(1).astype(np.float64))
        labels.append(piece.argmax(1))
    label = np.concatenate(labels)
    begins = (np.diff(label, prepend=-1) != 0) & (label != emissions.blank)
    distances = np.diff(np.flatnonzero(begins))
    if len(distances):
        pace = float(np.median(distances))
    else:
        pace = float(max(len(label), 1))
    return _Heard(_before(np.concatenate(best)), _before(begins), pace)


def _before(values: np.ndarray) -> np.ndarray:
    """Return (T + 1,) sums of the values (T,) before each index."""
    return np.append(0, np.cumsum(values))


def _spikes(emissions: Emissions, ids: np.ndarray, spikes: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Return (L,) the nats of each token below the best label, and how many labels are better.

    Both are of the best frame of the token's spike.
    """
    owner = np.repeat(np.arange(len(ids)), spikes.end - spikes.start)
    _, frame = _frames_in(spikes.start, spikes.end)
    below, rank = np.full(len(ids), np.inf), np.full(len(ids), np.inf)
    for low in range(0, len(frame), PIECE_FRAMES):
        piece = slice(low, low + PIECE_FRAMES)
        rows = _normalised(emissions.array[frame[piece]])
        rows[:, emissions.blank] = -np.inf
        own = rows[np.arange(len(rows)), np.maximum(ids[owner[piece]], 0)]
        np.minimum.at(below, owner[piece], rows.max(1) - own)
        np.minimum.at(rank, owner[piece], (rows > own[:, None]).sum(1))
    lacking = ids == WILDCARD
    return np.where(lacking, 0.0, np.minimum(below, WORST_NATS)), np.where(lacking, 0.0, rank)
