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
from ctc_align.kernels.requests import BestPath, CtcTargets, Forward, Steps
from ctc_align.types import Tokens

GAP_FRAMES = 50
"""More frames than this between the spikes of two sounds of a word tear the word apart."""

GAP_COST = 0.1
"""Nats that each frame of blank inside a word costs where a word was torn apart."""


MOST_CELLS = 2**35
"""With more frames times tokens a second path is searched in windows: it takes no more time and memory than that."""
WINDOW_FRAMES = 10_000
NEAR_FRAMES = 3000
"""So much farther than what counts of it a window reaches: half a minute."""


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
    return CtcPath(token_spans(best.states, token_of_state(len(ids)), len(ids)), best.score, best.backend)


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
    have a cost, searched in windows in recordings of an hour and more; the score stays that of the best path. Arguments
    and errors as `best_ctc_path`.
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
    search = _CostlySearch(log_probs, np.asarray(tokens.ids, np.int64), blank, inside, inner, wildcard, backend)
    spans = None
    if len(log_probs) * len(tokens.ids) > MOST_CELLS:
        starts = np.flatnonzero((np.diff(owner, prepend=-2) != 0) & (owner >= 0))
        spans = yield from search.in_windows(path.spans, starts)
    if spans is None:
        spans = yield from search.part(slice(0, len(log_probs)), slice(0, len(tokens.ids)))
    return path if spans is None else replace(path, spans=spans)


@dataclass(frozen=True, eq=False)
class _CostlySearch:
    """The search for the best path where the blanks after the tokens `inside` words (L - 1,) emit the class `inner`."""

    log_probs: torch.Tensor
    ids: np.ndarray
    blank: int
    inside: np.ndarray
    inner: int
    wildcard: torch.Tensor | None
    backend: str

    def in_windows(self, spikes: Spans, starts: np.ndarray) -> Steps[Spans | None]:
        """Return the spans of all tokens, window by window; None where one has no path.

        Args:
            spikes: of the best path of all, by which the windows are cut.
            starts: the first token of each word. A window ends `NEAR_FRAMES` beyond the word that begins the next one.
        """
        start, end = np.empty((2, len(self.ids)), np.int64)
        first = token = 0
        while True:
            later = starts[starts > token]
            following = later[spikes.start[later] >= first + WINDOW_FRAMES]
            beyond = later[spikes.start[later] >= first + WINDOW_FRAMES + NEAR_FRAMES]
            last, stop = len(self.log_probs), len(self.ids)
            if len(beyond):
                stop = int(beyond[0])
                last = int(spikes.end[stop - 1] + spikes.start[stop] + 1) // 2
            found = yield from self.part(slice(first, last), slice(token, stop))
            if found is None:
                return None
            start[token:stop], end[token:stop] = found.start + first, found.end + first
            if not len(beyond):
                return Spans(start, end)
            token = int(following[0])
            first = int(start[token])

    def part(self, frames: slice, tokens: slice) -> Steps[Spans | None]:
        """Return the spans of some tokens in some frames, the first token at once where these are not the first."""
        topology = lattice.ctc([self.ids[tokens]], self.blank)
        emit = topology.emit.copy()
        emit[0, 2:-1:2][self.inside[tokens.start : tokens.stop - 1]] = self.inner
        bands = None
        if frames.start:
            bands = np.tile(np.array([1, emit.shape[1]]), (frames.stop - frames.start, 1))
            bands[0] = 1, 2
        wildcard = None if self.wildcard is None else self.wildcard[frames]
        best = yield BestPath(self.log_probs[frames], replace(topology, emit=emit), wildcard, self.backend, bands)
        if best.score == float("-inf"):
            return None
        return token_spans(best.states, topology.token[0], tokens.stop - tokens.start)


def states_near(spans: Spans, frames: int, near_frames: int) -> np.ndarray:
    """Return (T, 2) the first and last (exclusive) state of CTC of each frame within `near_frames` of its place on a
    path, whose tokens have the `spans`.

    >>> states_near(Spans(np.array([0, 4]), np.array([1, 5])), 5, 1).tolist()
    [[0, 3], [0, 3], [0, 3], [2, 3], [2, 5]]
    """
    at = np.arange(frames)
    low = 2 * np.searchsorted(spans.end, at - near_frames)
    high = 2 * np.searchsorted(spans.start, at + near_frames) + 1
    return np.stack((low, np.minimum(high, 2 * len(spans.start) + 1)), 1)


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


def token_of_state(tokens: int) -> np.ndarray:
    """Return (2 * tokens + 1,) the token of each state of CTC: -1, 0, -1, 1, … -1."""
    token = np.full(2 * tokens + 1, -1, np.int64)
    token[1::2] = np.arange(tokens)
    return token


def ctc_loss(log_probs: torch.Tensor, ids: Sequence[int], blank: int, path: CtcPath, backend: str) -> Steps[float]:
    """Return the exact CTC loss -log p(ids | audio), natural log, over all paths; `path` is the best of them."""
    score = yield Forward(log_probs, CtcTargets(ids, blank), backend=backend)
    # One path is never likelier than all; where it is all there is, rounding may say so.
    return min(-score, -path.score)
