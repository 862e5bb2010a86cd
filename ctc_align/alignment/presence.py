"""Judge whether a text is spoken, by what the sound can show of a right text.

The evidence for tokens y is how much likelier they are than the same tokens begun elsewhere, which
have the same sounds, and nearly all of the same words:

    evidence = log p(y | sound) - mean over rotations r of log p(r(y) | sound)

How much of it a right text could have depends on the sound. With p_t the probabilities of the
classes at frame t, and m their mean over all frames, the sound has the information

    information = sum over t of KL(p_t || m)

where little can be heard, there is little of it. If more labels are heard than the text has, only
its share of the information counts: the rest is other speech. Right texts have a median evidence of 1.08 of the
information in clean speech, 0.7 in a crowd, 0.5 through a narrow radio with noise at the level of the
speech, and 0.4 with 5 dB more, as the model is too sure of what it hears; texts of others have 0.03
to 0.07 everywhere. People's texts are right far more often than wrong, so a text stands unless the
sound contradicts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ctc_align.alignment.ctc_path import PIECE_FRAMES, Spans
from ctc_align.kernels.batching import CtcTargets, Forward, StageSteps
from ctc_align.kernels.log_space import log_softmax
from ctc_align.machine.rows_on_disk import ArrayOnDisk

PRIOR_NATS = 2.0
"""How much evidence the text itself is."""
LEAST_SHARE = 0.12
"""With less evidence than this share of the information, a text is contradicted. Chosen so that of
clips of 17 languages with 30 of 100 phones wrong, 1 % are."""
LEAST_OF_CERTAINTY = 0.3
"""Words that a search has not found between others that it has, as the pronunciations suit the
recording, are contradicted with less than this share of the certainty, too: of the information
relative to the greatest that these frames could have (Theil's uncertainty coefficient)."""
NATS_OF_CERTAINTY = 5.0
"""The information for each such token is taken to be at least this times the certainty: three quarters of what
speech has in clean sound, rooms, a crowd and radios alike. A pause has less."""
LEAST_NATS = 1.25
"""The information is taken to be at least this for each token: speech has more through the narrow
radio with noise 5 dB above it, noise without speech has less where a text would fill it."""
ROTATIONS = 8
"""In how many rotations the tokens are compared with themselves."""
RUN_TOKENS, LEAST_VARIED = 4, 0.3
"""A text in which a smaller share of the runs of so many tokens is different, as in "no, no, no", says
nothing: it is nearly the same when it begins elsewhere."""
MOST_CELLS = 2 * 10**7
"""With more frames times states than a minute of speech has, pieces are compared."""
PIECE_TOKENS, MOST_PIECES = 400, 4
"""The tokens of a piece, and how many pieces of a longer text are compared, evenly spread."""


@dataclass(frozen=True)
class TextStretch:
    """Tokens (L,), the frames in which they would be spoken, and which of them are judged.

    Attributes:
        ids: (L,) int64.
        first_frame, last_frame: the last exclusive.
        first, last: the tokens that are judged, the last exclusive; the others are their context.
    """

    ids: np.ndarray
    first_frame: int
    last_frame: int
    first: int
    last: int

    @property
    def judged(self) -> np.ndarray:
        """The ids of the tokens that are judged."""
        return self.ids[self.first : self.last]

    def with_rotations(self) -> list[np.ndarray]:
        """Return the tokens, and the tokens with those that are judged begun elsewhere."""
        judged = self.judged
        starts = np.linspace(0, len(judged), ROTATIONS + 2)[1:-1].astype(np.int64)
        orders = [judged, *(np.roll(judged, start) for start in np.unique(starts[starts > 0]))]
        before, after = self.ids[: self.first], self.ids[self.last :]
        return [np.concatenate((before, order, after)) for order in orders]

    def is_varied(self) -> bool:
        """Return whether the judged tokens differ from themselves when they begin elsewhere."""
        judged = self.judged
        round_the_end = np.resize(judged, len(judged) + RUN_TOKENS - 1)
        runs = np.lib.stride_tricks.sliding_window_view(round_the_end, RUN_TOKENS)
        return len(np.unique(runs, axis=0)) >= LEAST_VARIED * len(judged)


def choose_stretches(ids: Sequence[int], spikes: Spans, frames: int) -> list[TextStretch]:
    """Return the stretches by which to judge tokens (L,) that are aligned at `spikes`."""
    tokens = np.asarray(ids, np.int64)
    if len(tokens) <= PIECE_TOKENS or 2 * len(tokens) * frames <= MOST_CELLS:
        return [TextStretch(tokens, 0, frames, 0, len(tokens))]
    count = min(len(tokens) // PIECE_TOKENS, MOST_PIECES)
    begins = np.linspace(0, len(tokens) - PIECE_TOKENS, count).astype(np.int64)
    return [
        TextStretch(
            tokens[begin : begin + PIECE_TOKENS],
            int(spikes.start[begin]),
            int(spikes.end[begin + PIECE_TOKENS - 1]),
            0,
            PIECE_TOKENS,
        )
        for begin in begins.tolist()
    ]


def is_contradicted(
    log_probs: np.ndarray | ArrayOnDisk,
    blank: int,
    stretches: Iterable[TextStretch],
    backend: str,
    *,
    is_searched: bool = False,
) -> StageSteps[bool]:
    """Return whether the sound contradicts a text that is spoken in some stretches.

    Args:
        log_probs: (T, C) of the recording; need not be normalised.
        blank: the class of the blank.
        stretches: of the text; those that repeat themselves say nothing.
        backend: of the kernels.
        is_searched: whether a search has found the words around the text, and not the text.
    """
    evidence = PRIOR_NATS
    least = 0.0
    for stretch in stretches:
        if not stretch.is_varied():
            continue
        scores = log_probs[stretch.first_frame : stretch.last_frame]
        own, *others = yield [
            Forward(scores, CtcTargets(order, blank), None, backend)
            for order in stretch.with_rotations()
        ]
        if not np.isfinite(own):
            return True  # there are too few frames for it
        others = [score for score in others if np.isfinite(score)]
        if not others:
            continue
        evidence += own - float(np.mean(others))
        tokens = len(stretch.judged)
        total, certainty, labels = _measure_information(scores, blank)
        information = total * tokens / max(len(stretch.ids), labels)
        needed = LEAST_SHARE * max(information, LEAST_NATS * tokens)
        if is_searched:
            information = max(information, NATS_OF_CERTAINTY * certainty * tokens)
            needed = max(needed, LEAST_OF_CERTAINTY * certainty * information)
        least += needed
    return evidence < least


def _measure_information(scores: np.ndarray | ArrayOnDisk, blank: int) -> tuple[float, float, int]:
    """Return the information in scores (T, C), its certainty, and how many labels are heard."""
    frames = len(scores)
    total = np.zeros(scores.shape[1])
    negentropy = 0.0
    labels = 0
    for low in range(0, frames, PIECE_FRAMES):
        log_probs = log_softmax(scores[low : low + PIECE_FRAMES].astype(np.float32, copy=False))
        probabilities = np.exp(log_probs)
        total += probabilities.sum(0, dtype=np.float64)
        negentropy += float((probabilities * np.maximum(log_probs, -1e4)).sum(dtype=np.float64))
        best = log_probs.argmax(1)
        labels += int(np.count_nonzero((np.diff(best, prepend=blank) != 0) & (best != blank)))
    mean = total / max(frames, 1)
    most = -frames * float((mean * np.log(np.maximum(mean, 1e-30))).sum())
    information = negentropy + most
    return information, information / max(most, 1.0), labels
