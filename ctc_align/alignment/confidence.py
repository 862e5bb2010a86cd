"""Confidence of tokens and words: the chance that a word is where it was put.

Of a model with a confidence network (`ctc_align.models.confidence_network`) it is the chance that both edges of the
word are within 200 ms of where a person puts them, judged by its own sound and by the words around it; how near they
are then, `start_sd_ms` and `end_sd_ms` say. Of another model with a calibration it is the share of words, among those
alike, whose edges are both within 50 ms (a logistic regression, `Calibration.word_confidence`). Without either it is
the model's own posterior at the spikes: a number that orders words, no frequency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.segmentation import parts_of
from ctc_align.alignment.sound_fits import sound_fits, spike_confidence, word_begins
from ctc_align.alignment.word_features import NAMES, word_features
from ctc_align.errors import ConfigError
from ctc_align.lattice import WILDCARD
from ctc_align.models.calibration import Calibration, probability
from ctc_align.models.confidence_network import ConfidenceNetwork
from ctc_align.types import Emissions, Tokens

TOO_DENSE = 0.05
"""Share that remains of confidence where the text has more sounds than can be spoken in the time of the recording."""
RIGHT_MS = 50
"""An edge is right, to a calibration, within so much of the hand label."""


@dataclass(frozen=True)
class Confidences:
    """Confidences in [0, 1] of each token (L,), and of each word that has tokens, in order.

    `judged` where a confidence network has judged whether the words are there at all, or there is no time for them.
    """

    tokens: Sequence[float]
    words: Sequence[float]
    judged: bool = False


def confidences(
    emissions: Emissions,
    tokens: Tokens,
    spikes: Spans,
    edges: Spans,
    calibration: Calibration,
    network: ConfidenceNetwork | None = None,
) -> Confidences:
    """Return confidences by the network or the calibration, where edges have spreads; else by the spikes alone.

    Args:
        emissions: of the utterance.
        tokens: what is said, wildcards and separators included.
        spikes: where CTC's best path has them.
        edges: where they are in the end.
        calibration: the model's.
        network: the model's, if it has one.
    """
    spoken, begins = word_begins(tokens)
    lacking = np.asarray(tokens.ids) == WILDCARD
    ids = np.where(lacking, 0, np.asarray(tokens.ids)).tolist()
    of_token = spike_confidence(emissions.log_probs, ids, spikes)
    at_spikes = of_token[spoken]
    # Nothing speaks for a wildcard, which takes any speech; of a word, what is known of it counts.
    of_token[lacking] = 0.0
    lengths = np.diff(begins)
    known = 1.0 - np.add.reduceat(lacking[spoken].astype(np.float64), begins[:-1]) / lengths
    fits = sound_fits(emissions, tokens, edges, calibration.spread)
    dense = fits is None and network is not None and _too_dense(emissions, len(spoken))
    if dense:
        of_token, known = of_token * TOO_DENSE, known * TOO_DENSE
    if fits is None or (network is None and not calibration.word_confidence):
        of_word = np.array(geometric_means(np.where(lacking, 1.0, of_token)[spoken], begins.tolist()))
        return Confidences(of_token.tolist(), (of_word * known).tolist(), judged=dense)
    if calibration.token_confidence:
        of_token[spoken] = probability(fits.features(np.arange(len(spoken) + 1)), calibration.token_confidence)
        of_token[lacking] = 0.0
    if network is not None:
        if network.features != NAMES:
            raise ConfigError("the model's confidence network is of another version of ctc-align; train it again")
        of_word = here = network.chances(word_features(emissions, tokens, spikes, fits, at_spikes))
    else:
        of_sounds = fits.features(begins)
        # An edge of what is not there is nowhere.
        here = probability(of_sounds, calibration.word_presence) if calibration.word_presence else np.ones(len(lengths))
        of_word = probability(of_sounds, calibration.word_confidence) * here
    of_token[spoken] *= np.repeat(here, lengths)
    # More digits than these would be noise of single precision.
    return Confidences(of_token.round(4).tolist(), (of_word * known).round(4).tolist(), judged=network is not None)


def _too_dense(emissions: Emissions, sounds: int) -> bool:
    """Return whether the parts of so many sounds are more than the frames that there are."""
    return emissions.states is not None and sounds * parts_of(emissions) > len(emissions.states)


def geometric_means(confidence: np.ndarray, begins: Sequence[int]) -> list[float]:
    """Return of each word the geometric mean of its tokens' confidences, from begins[w] to begins[w + 1].

    >>> geometric_means(np.array([1.0, 0.25, 0.25, 0.0]), [0, 1, 3, 4])
    [1.0, 0.25, 0.0]
    """
    logs = np.log(np.maximum(confidence, 1e-12))
    spans = list(pairwise(begins))
    # Word by word: the sums of ufunc.reduceat are rounded in another order than those of one word alone.
    means = [np.add.reduce(logs[start:end]) / (end - start) for start, end in spans]
    values = confidence.tolist()
    return [mean if min(values[start:end]) > 0 else 0.0 for mean, (start, end) in zip(np.exp(means).tolist(), spans)]
