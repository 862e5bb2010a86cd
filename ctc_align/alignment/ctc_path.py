"""The best CTC path of one utterance, and the frames of its tokens.

CTC shows what was said and roughly when: each token is a spike of a frame or two between blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctc_align import lattice, units
from ctc_align.errors import EmissionsError, TooShortError
from ctc_align.kernels.batching import BestPath, CtcTargets, Forward, StageSteps
from ctc_align.types import Emissions, Tokens

GAP_FRAMES = 50
"""A longer gap between the spikes of two sounds of a word means that the path has torn the word
apart."""
GAP_COST = 0.1
"""Cost in nats of each blank frame inside a word, if the first path tore a word apart: 5 nats over
`GAP_FRAMES`."""
MOST_CELLS = 2**35
"""With more frames times tokens than this, the second search runs in windows, which bounds its time
and memory."""
WINDOW_FRAMES, NEAR_FRAMES = 10_000, 3000
"""A window advances by the first number and extends beyond it by the second (half a minute with the
English model): at that distance, the end of a window no longer changes the path."""
LOCAL_S = 0.3
"""Length of the worst stretch: a short word. On read speech 0.2 to 0.4 s reveal a wrong word
equally well."""
PIECE_FRAMES = 2**16
"""Frames whose scores are copied at once: the copies of a recording of hours stay small."""


@dataclass(frozen=True)
class Spans:
    """The frames of the tokens of an utterance, counted from frame 0: ascending, never overlapping.

    Attributes:
        start, end: (L,) end exclusive; int64 on a path, float64 if edges lie between frames. A
            separator between words may be empty.
        start_sd, end_sd: (L,) float64, standard deviations of both; None if they are not known.
        by_sound: edges without regard to how long sounds usually last, by which confidence judges;
            None if these are no others.
    """

    start: np.ndarray
    end: np.ndarray
    start_sd: np.ndarray | None = None
    end_sd: np.ndarray | None = None
    by_sound: Spans | None = None

    def of(self, tokens: np.ndarray) -> Spans:
        """Return the spans of the tokens that indices or a mask select."""
        start_sd, end_sd = (
            None if column is None else column[tokens] for column in (self.start_sd, self.end_sd)
        )
        by_sound = None if self.by_sound is None else self.by_sound.of(tokens)
        return Spans(self.start[tokens], self.end[tokens], start_sd, end_sd, by_sound)

    def shifted(self, frames: int) -> Spans:
        """Return the spans `frames` later."""
        by_sound = None if self.by_sound is None else self.by_sound.shifted(frames)
        return replace(self, start=self.start + frames, end=self.end + frames, by_sound=by_sound)


def spoken_indices(tokens: Tokens) -> np.ndarray:
    """Return the indices of the tokens that belong to words: all but separators."""
    return np.flatnonzero(np.asarray(tokens.words) >= 0)


def runs_of(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return the runs [first, last) of True.

    >>> runs_of(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist()))


def best_ctc_path(
    log_probs: np.ndarray,
    ids: Sequence[int],
    blank: int,
    *,
    wildcard: np.ndarray | None = None,
    backend: str = "auto",
) -> StageSteps[tuple[Spans, float]]:
    """Find the best CTC path; return the frames of its tokens, its spikes, and its log-probability.

    Args:
        log_probs: (T, C).
        ids: (L,) token ids.
        blank: the class of the blank.
        wildcard: (T,) scores of `lattice.WILDCARD`, required if it is among the ids.
        backend: see `ctc_align.kernels`.

    Raises:
        TooShortError: the tokens and the blanks between equal tokens need more than T frames.
        EmissionsError: every path has probability zero.
    """
    states, score, _ = yield BestPath(log_probs, CtcTargets(ids, blank), wildcard, backend=backend)
    if score == float("-inf"):
        needed = lattice.ctc([np.asarray(ids, np.int64)], blank).min_frames.item()
        if needed > len(log_probs):
            raise TooShortError(
                f"the transcript is longer than the audio can hold: {len(ids)} tokens need at least"
                f" {needed} frames, the audio has {len(log_probs)}; is it the right transcript, and"
                " the whole recording?"
            )
        raise EmissionsError(
            "the log-probs give this transcript probability zero (every path meets -inf): nothing"
            " can be aligned; is it the right transcript?"
        )
    # The states of CTC are blank, token 0, blank, token 1, … blank.
    token_of_state = np.full(2 * len(ids) + 1, -1, np.int64)
    token_of_state[1::2] = np.arange(len(ids))
    return token_spans(states, token_of_state, len(ids)), score


def best_word_path(
    emissions: Emissions,
    tokens: Tokens,
    *,
    wildcard: np.ndarray | None = None,
    backend: str = "auto",
) -> StageSteps[tuple[Spans, float]]:
    """Find the best CTC path; with segmentation states, one that does not tear words apart.

    CTC finds a second of blanks as likely inside a word as outside. In long pauses with noise, and
    in speech that is not in the transcript, the best path leaves single sounds far from the rest of
    their word, and the segmentation would look for them there. So if a gap inside a word is longer
    than `GAP_FRAMES`, a second search charges `GAP_COST` for each blank inside words, and its path
    gives the frames; the score stays that of the first path.

    Args:
        emissions: without states the spikes are output as they are, so they are those of the best
            path.
        tokens: what is said.
        wildcard, backend: as for `best_ctc_path`.

    Returns and raises: as `best_ctc_path`.
    """
    log_probs = emissions.array
    spikes, score = yield from best_ctc_path(
        log_probs, tokens.ids, emissions.blank, wildcard=wildcard, backend=backend
    )
    owner = np.asarray(tokens.words)
    inside = (owner[1:] == owner[:-1]) & (owner[1:] >= 0)
    torn = (inside & (spikes.start[1:] - spikes.end[:-1] > GAP_FRAMES)).any()
    if emissions.state_array is None or not torn:
        return spikes, score
    search = _whole_word_search(emissions, tokens.ids, inside, wildcard, backend)
    spans = None
    if len(log_probs) * len(tokens.ids) > MOST_CELLS:
        word_starts = np.flatnonzero((np.diff(owner, prepend=-2) != 0) & (owner >= 0))
        spans = yield from _find_spans_in_windows(
            search.find_spans, spikes, word_starts, len(log_probs)
        )
    if spans is None:
        spans = yield from search.find_spans(0, len(log_probs), 0, len(tokens.ids))
    return spikes if spans is None else spans, score


@dataclass(frozen=True)
class _WholeWordSearch:
    """A search for the best path on which a blank inside a word has a class of its own.

    Attributes:
        log_probs: (T, C), with the scores of that class, unless `wildcard` has them.
        ids: (L,) of the tokens.
        inside: (L - 1,) True where the next token belongs to the same word.
        blank, inner_blank: the classes of blanks.
        wildcard: (T,) scores, or None.
        backend: of the kernels.
    """

    log_probs: np.ndarray
    ids: np.ndarray
    inside: np.ndarray
    blank: int
    inner_blank: int
    wildcard: np.ndarray | None
    backend: str

    def find_spans(self, first: int, last: int, token: int, stop: int) -> StageSteps[Spans | None]:
        """Return the spans of tokens [token, stop) in frames [first, last); None without a path."""
        topology = lattice.ctc([self.ids[token:stop]], self.blank)
        emit = topology.emit.copy()
        emit[0, 2:-1:2][self.inside[token : stop - 1]] = self.inner_blank
        bands = None
        if first:
            # The window before has found where the first token begins: the path starts in its state.
            bands = np.tile(np.array([1, emit.shape[1]]), (last - first, 1))
            bands[0] = 1, 2
        scores = None if self.wildcard is None else self.wildcard[first:last]
        states, score, _ = yield BestPath(
            self.log_probs[first:last], replace(topology, emit=emit), scores, self.backend, bands
        )
        if score == float("-inf"):
            return None
        return token_spans(states, topology.token[0], stop - token).shifted(first)


def _whole_word_search(
    emissions: Emissions,
    tokens: Sequence[int],
    inside: np.ndarray,
    wildcard: np.ndarray | None,
    backend: str,
) -> _WholeWordSearch:
    """Return the search that charges `GAP_COST` for each blank inside words.

    These blanks emit the wildcard's scores where no token needs these, otherwise a new class.
    """
    log_probs = emissions.array
    costly = log_probs[:, emissions.blank] - log_probs.dtype.type(GAP_COST)
    inner_blank = lattice.WILDCARD
    if lattice.WILDCARD in tokens:
        inner_blank = log_probs.shape[1]
        log_probs = np.concatenate((log_probs, costly[:, None]), 1)
    else:
        wildcard = costly
    ids = np.asarray(tokens, np.int64)
    return _WholeWordSearch(log_probs, ids, inside, emissions.blank, inner_blank, wildcard, backend)


def _find_spans_in_windows(
    part: Callable[[int, int, int, int], StageSteps[Spans | None]],
    spikes: Spans,
    word_starts: np.ndarray,
    frames: int,
) -> StageSteps[Spans | None]:
    """Return the spans of all tokens, window by window; None if a window has no path.

    Args:
        part: finds the spans of the tokens [token, stop) in the frames [first, last).
        spikes: of the best path; the windows are cut by them.
        word_starts: the first token of each word.
        frames: of the recording.
    """
    start, end = np.empty((2, len(spikes.start)), np.int64)
    first, token = 0, 0
    while True:
        last, stop, following = window_from(
            first, token, spikes, word_starts, frames, (WINDOW_FRAMES, NEAR_FRAMES)
        )
        found = yield from part(first, last, token, stop)
        if found is None:
            return None
        start[token:stop], end[token:stop] = found.start, found.end
        if following is None:
            return Spans(start, end)
        token = following
        first = int(start[following])


def window_from(
    first: int,
    token: int,
    spikes: Spans,
    word_starts: np.ndarray,
    frames: int,
    lengths: tuple[int, int],
) -> tuple[int, int, int | None]:
    """Return where a window ends, and the token with which the next window begins.

    Args:
        first, token: the frame and the token with which the window begins.
        spikes: (L,) of all tokens.
        word_starts: the first token of each word.
        frames: of the recording.
        lengths: by how many frames a window advances, and by how many it overlaps the next.

    Returns:
        The frame and the token after the window's last; the next window's first token, or None if
        this one is the last.
    """
    advance, overlap = lengths
    later = word_starts[word_starts > token]
    following = later[spikes.start[later] >= first + advance]
    beyond = later[spikes.start[later] >= first + advance + overlap]
    if not len(beyond):
        return frames, len(spikes.start), None
    stop = int(beyond[0])
    # Half-way between the last word of the window and the word after it.
    return int(spikes.end[stop - 1] + spikes.start[stop] + 1) // 2, stop, int(following[0])


def token_spans(states: np.ndarray, token_of_state: np.ndarray, tokens: int) -> Spans:
    """Return the frames of each token along a path of states; -1 for a token that is not on it.

    A path never returns to a token that it has left.

    Args:
        states: (T,) -1 if there is no state.
        token_of_state: (S,) the token of each state, -1 for blanks and silence.
        tokens: the number of tokens.

    >>> token_spans(np.array([0, 1, 1, 2, 3]), np.array([-1, 0, -1, 1, -1]), 2)
    Spans(start=array([1, 4]), end=array([3, 5]), start_sd=None, end_sd=None, by_sound=None)
    """
    start, end = np.full((2, tokens), -1, np.int64)
    token = np.where(states < 0, -1, token_of_state[np.maximum(states, 0)])
    if len(token):
        edges = np.flatnonzero(np.diff(token, prepend=-2, append=-2))
    else:
        edges = np.zeros(1, np.int64)
    run = token[edges[:-1]]
    start[run[run >= 0]] = edges[:-1][run >= 0]
    end[run[run >= 0]] = edges[1:][run >= 0]
    return Spans(start, end)


def ctc_loss_steps(
    log_probs: np.ndarray, ids: Sequence[int], blank: int, best_score: float, backend: str
) -> StageSteps[float]:
    """Return the exact CTC loss -log p(ids | audio), natural log, over all paths.

    `best_score` is the best path's.
    """
    score = yield Forward(log_probs, CtcTargets(ids, blank), backend=backend)
    # One path is never likelier than all together; where it is the only one, rounding may say so.
    return min(-score, -best_score)


def local_loss(emissions: Emissions, ids: Sequence[int], spikes: Spans) -> float:
    """Return the nats of a path below the best labels, in the worst window of `LOCAL_S`.

    With q_t the label of the path at frame t, this is the greatest sum of max_c log p_t(c) - log
    p_t(q_t) over the frames of a window. It reveals one wrong word in a long text, which a mean
    over all tokens hides.

    Args:
        emissions: (T, C) log-probs of any model.
        ids: (L,) the tokens of the path.
        spikes: (L,) their frames on it; all other frames are the blank's.
    """
    log_probs = emissions.array
    emitted = np.full(len(log_probs), emissions.blank)
    for token, first, last in zip(ids, spikes.start.tolist(), spikes.end.tolist()):
        emitted[first:last] = token
    below = log_probs.max(1).astype(np.float64) - log_probs[np.arange(len(log_probs)), emitted]
    window = max(1, min(units.seconds_to_frames(LOCAL_S, emissions.frame_shift_s), len(below)))
    sums = np.concatenate(([0.0], np.cumsum(below)))
    return float((sums[window:] - sums[:-window]).max(initial=0.0))
