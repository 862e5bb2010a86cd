"""The best CTC path of one utterance, and the frames of its tokens.

CTC says what was said and roughly when: a token is a spike of a frame or two, with blanks around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.errors import EmissionsError, TooShortError
from ctc_align.kernels.requests import BestPath, CtcTargets, Steps
from ctc_align.types import Tokens

GAP_FRAMES = 50
"""More frames than this between the spikes of two sounds of a word tear the word apart."""

GAP_COST = 0.1
"""Nats that each frame of blank inside a word costs where a word was torn apart."""


MOST_CELLS = 2**36
"""With more frames times states a second path is searched only near the first: it takes no more time than that."""
NEAR_FRAMES = 3000
"""So near; farther where the second path comes to the edge of that."""


@dataclass(frozen=True)
class Spans:
    """The frames of the tokens of an utterance, counted from frame 0: ascending, never overlapping.

    Attributes:
        start, end: (L,) the end exclusive; int64 on a path, float64 between frames. What stands between words (a
            separator) may be empty.
        start_sd, end_sd: (L,) float64, standard deviations of both; None where they are not known.
    """

    start: np.ndarray
    end: np.ndarray
    start_sd: np.ndarray | None = None
    end_sd: np.ndarray | None = None

    def of(self, tokens: np.ndarray) -> Spans:
        """Return the spans of some tokens only, which indices or a mask select."""
        sd = [None if column is None else column[tokens] for column in (self.start_sd, self.end_sd)]
        return Spans(self.start[tokens], self.end[tokens], *sd)


@dataclass(frozen=True)
class CtcPath:
    """The best CTC path: the frames of its tokens, its log-probability, and the backend that found it."""

    spans: Spans
    score: float
    backend: str


def best_ctc_path(
    log_probs: torch.Tensor,
    ids: Sequence[int],
    blank: int,
    *,
    wildcard: torch.Tensor | None = None,
    backend: str = "auto",
) -> Steps[CtcPath]:
    """Find the best CTC path.

    Args:
        log_probs: (T, C).
        ids: (L,) token ids.
        blank: the class of the blank.
        wildcard: (T,) scores of `lattice.WILDCARD`, where it is among the ids.
        backend: see `ctc_align.kernels`.

    Raises:
        TooShortError: the tokens, and the blanks between equal ones, are more than T.
        EmissionsError: every path has probability zero.
    """
    best = yield BestPath(log_probs, CtcTargets(ids, blank), wildcard, backend=backend)
    if best.score == float("-inf"):
        check_fits(len(log_probs), lattice.ctc([np.asarray(ids, np.int64)], blank).min_frames.item(), len(ids))
        raise EmissionsError(
            "the log-probs give this transcript probability zero (every path meets -inf): nothing can be "
            "aligned; is it the right transcript?"
        )
    return CtcPath(token_spans(best.states, _token_of_state(len(ids)), len(ids)), best.score, best.backend)


def best_word_path(
    log_probs: torch.Tensor,
    tokens: Tokens,
    blank: int,
    *,
    gap_frames: int = GAP_FRAMES,
    wildcard: torch.Tensor | None = None,
    backend: str = "auto",
) -> Steps[CtcPath]:
    """Find the best CTC path that does not tear words apart: to CTC a second of blanks is as good inside as outside.

    In long pauses with noise, and where something is said that is not in the transcript, the best path leaves single
    sounds far from the rest of their word. Then the frames are those of the best path on which blanks inside words
    have a cost (in recordings of an hour and more, of the best that has no reason to stray far from the first one); the
    score stays that of the best path. Arguments and errors as `best_ctc_path`.
    """
    path = yield from best_ctc_path(log_probs, tokens.ids, blank, wildcard=wildcard, backend=backend)
    owner = np.asarray(tokens.words)
    inside = (owner[1:] == owner[:-1]) & (owner[1:] >= 0)
    if not (inside & (path.spans.start[1:] - path.spans.end[:-1] > gap_frames)).any():
        return path
    costly = log_probs[:, blank] - GAP_COST
    inner = lattice.WILDCARD
    if lattice.WILDCARD in tokens.ids:
        log_probs, inner = torch.cat((log_probs, costly[:, None]), 1), log_probs.shape[1]
    else:
        wildcard = costly
    topology = lattice.ctc([np.asarray(tokens.ids, np.int64)], blank)
    emit = topology.emit.copy()
    emit[0, 2:-1:2][inside] = inner
    topology, near_frames = replace(topology, emit=emit), NEAR_FRAMES
    bands = None
    if len(log_probs) * emit.size > MOST_CELLS:
        bands = states_near(path.spans, len(log_probs), near_frames)
    best = yield BestPath(log_probs, topology, wildcard, backend, bands)
    while bands is not None and _is_at_edge(best.states, bands, emit.size):
        near_frames *= 4
        bands = states_near(path.spans, len(log_probs), near_frames)
        best = yield BestPath(log_probs, topology, wildcard, backend, bands)
    return replace(path, spans=token_spans(best.states, topology.token[0], len(tokens.ids)))


def states_near(spans: Spans, frames: int, near_frames: int) -> np.ndarray:
    """Return (T, 2) the first and last (exclusive) state of CTC of each frame within `near_frames` of its place on a
    path, whose tokens have the `spans`.

    >>> states_near(Spans(np.array([0, 4]), np.array([1, 5])), 5, 1).tolist()
    [[0, 3], [0, 3], [2, 3], [2, 5], [2, 5]]
    """
    at = np.arange(frames)
    low = 2 * np.searchsorted(spans.end, at - near_frames)
    high = 2 * np.searchsorted(spans.start, at + near_frames) + 1
    return np.stack((low, np.minimum(high, 2 * len(spans.start) + 1)), 1)


def _is_at_edge(path: np.ndarray, bands: np.ndarray, states: int) -> bool:
    """Return whether a path of states is anywhere at the edge of its bands, and might have gone on beyond it."""
    low = (path <= bands[:, 0] + 1) & (bands[:, 0] > 0)
    high = (path >= bands[:, 1] - 2) & (bands[:, 1] < states)
    return bool((low | high).any())


def check_fits(frames: int, needed: int, tokens: int) -> None:
    """Raise TooShortError where the shortest path of `tokens` tokens needs more frames than the audio has."""
    if needed > frames:
        raise TooShortError(
            f"the transcript is longer than the audio can hold: {tokens} tokens need at least {needed} frames, "
            f"the audio has {frames}; is it the right transcript, and the whole recording?"
        )


def token_spans(states: np.ndarray, token_of_state: np.ndarray, tokens: int) -> Spans:
    """Return the frames of each token along a path of states; -1 for a token that is not on it.

    A path that has left a token never comes back to it.

    Args:
        states: (T,) -1 where there is no state.
        token_of_state: (S,) the token of each state, -1 for blanks and silence.
        tokens: how many there are.

    >>> token_spans(np.array([0, 1, 1, 2, 3]), np.array([-1, 0, -1, 1, -1]), 2)
    Spans(start=array([1, 4]), end=array([3, 5]), start_sd=None, end_sd=None)
    """
    start, end = np.full((2, tokens), -1, np.int64)
    token = np.where(states < 0, -1, token_of_state[np.maximum(states, 0)])
    edges = np.flatnonzero(np.diff(token, prepend=-2, append=-2)) if len(token) else np.zeros(1, np.int64)
    run = token[edges[:-1]]
    start[run[run >= 0]], end[run[run >= 0]] = edges[:-1][run >= 0], edges[1:][run >= 0]
    return Spans(start, end)


def _token_of_state(tokens: int) -> np.ndarray:
    """Return (2 * tokens + 1,) the token of each state of CTC: -1, 0, -1, 1, … -1."""
    token = np.full(2 * tokens + 1, -1, np.int64)
    token[1::2] = np.arange(tokens)
    return token
