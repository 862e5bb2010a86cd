"""The definition of the kernels: one scan in NumPy, float64, over a semiring.

Slow and obviously right.

    row[0, s]     = x[0, emit[s]]                                  where a path may begin, else zero of the semiring
    row[t, s]     = x[t, emit[s]] + sum(row[t-1, p] for the states p from which s may be entered)
    score         = sum(row[T-1, s] for the states s in which a path may end)

State s may be entered from s (if stay[s]), s - 1, s - 2 (if skip[s]) and its detours, in this
order, which decides ties. x has one more column, the wildcard's. Max-plus gives the best path
(choices traced back), log-plus the total. The occupancy is the derivative of the total by x, by the
chain rule through the scan from its end to its beginning, and the tangent is the derivative of that
along a direction; they share no recursion with the fast kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ctc_align.kernels.log_space import log_sum_exp
from ctc_align.lattice import Topology

NEVER = float("-inf")


class Semiring(Protocol):
    """A sum of alternatives, as the scan needs it (Goodman 1999)."""

    def combine(self, *alternatives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum of alternatives of one shape, and what each has in it.

        The winner's index, or the shares.
        """
        ...


class MaxPlus:
    """Maximum, for the best path.

    Of ties the first alternative wins, by contract; NaN always wins, as in sums.
    """

    def combine(self, *alternatives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        best = alternatives[0]
        choice = np.zeros(alternatives[0].shape, np.int64)
        for number, other in enumerate(alternatives[1:], start=1):
            better = (other > best) | np.isnan(other)
            choice = np.where(better, number, choice)
            best = np.where(better, other, best)
        return best, choice


class LogPlus:
    """Log of a sum of exponentials, for all paths.

    The shares are its derivatives by the alternatives.
    """

    def combine(self, *alternatives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        together = np.stack(alternatives, -1)
        total = log_sum_exp(together)
        with np.errstate(
            invalid="ignore"
        ):  # +inf is no log-prob: its shares are NaN, as its score will be
            return total, np.exp(together - np.where(total == NEVER, 0.0, total)[..., None])


@dataclass(frozen=True)
class _Transitions:
    """A topology as arrays.

    The columns of x that states emit (B, S), the states from which each may be entered (B, S, P),
    which of those are allowed (B, S, P), where paths begin and end (B, S), and which states are no
    padding (B, S).
    """

    emit: np.ndarray
    entered: np.ndarray
    allowed: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    real: np.ndarray


def _transitions(topology: Topology, wildcard_column: int) -> _Transitions:
    emit = np.asarray(topology.emit, np.int64)
    state = np.broadcast_to(np.arange(emit.shape[1]), emit.shape)
    size = topology.states[:, None]
    if topology.detours is None:
        sources = np.empty((*emit.shape, 0), np.int64)
        begin = state < topology.starts[:, None]
        end = state >= size - topology.finals[:, None]
    else:
        sources = np.asarray(topology.detours.sources, np.int64)
        begin = topology.detours.begin
        end = topology.detours.end
    stay, skip = topology.stay, topology.skip
    entered = np.concatenate((np.stack((state, state - 1, state - 2), 2), sources), 2)
    steps = np.stack((stay, np.ones_like(stay), skip), 2)
    allowed = np.concatenate((steps, np.ones(sources.shape, np.bool_)), 2)
    real = state < size
    column = np.where(emit < 0, wildcard_column, emit)
    return _Transitions(
        column, entered.clip(min=0), allowed & (entered >= 0), begin & real, end & real, real
    )


def _scan(
    x: np.ndarray,
    transitions: _Transitions,
    lengths: np.ndarray,
    semiring: Semiring,
    bands: np.ndarray | None = None,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the last row of every utterance (B, S), and what was combined.

    The latter is per frame after the first.
    """
    banned = _banned(bands, x, transitions)
    emitted = _emitted(x, transitions)
    row = np.where(transitions.begin & ~banned[:, 0], emitted[:, 0], NEVER)
    parts = []
    for t in range(1, x.shape[1]):
        before = _entered(row, transitions)
        total, part = semiring.combine(
            *np.moveaxis(np.where(transitions.allowed, before, NEVER), 2, 0)
        )
        inside = _real_at(t, transitions, lengths)
        # Where no path arrives the emission is not added, even if it is NaN.
        with np.errstate(invalid="ignore"):
            total = np.where(total == NEVER, NEVER, total + emitted[:, t])
        total = np.where(banned[:, t], NEVER, total)
        row = np.where(inside, total, row)
        parts.append(part)
    return row, parts


def _emitted(x: np.ndarray, transitions: _Transitions) -> np.ndarray:
    """Return the values (B, T, S) of what the states emit."""
    columns = np.broadcast_to(transitions.emit[:, None], (*x.shape[:2], transitions.emit.shape[1]))
    return np.take_along_axis(x, columns, 2)


def _entered(row: np.ndarray, transitions: _Transitions) -> np.ndarray:
    """Return the values (B, S, P) of a row (B, S) at the states from which each may be entered."""
    batch, size, most = transitions.entered.shape
    return np.take_along_axis(row, transitions.entered.reshape(batch, size * most), 1).reshape(
        batch, size, most
    )


def _banned(bands: np.ndarray | None, x: np.ndarray, transitions: _Transitions) -> np.ndarray:
    """Return (B, T, S) or (1, T, 1) bool: the states outside the band of each frame."""
    if bands is None:
        return np.zeros((1, x.shape[1], 1), np.bool_)
    state = np.arange(transitions.emit.shape[1])
    return (state < bands[:, :, :1]) | (state >= bands[:, :, 1:])


def best_path(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None = None,
    bands: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return states (B, T) int32 and scores (B,) float64.

    States are -1 beyond the length and without a path.
    """
    x = _clean(log_probs, wildcard, lengths)
    transitions = _transitions(topology, log_probs.shape[2])
    if x.shape[1]:
        row, choices = _scan(x, transitions, lengths, MaxPlus(), bands)
    else:
        row = np.empty(0)
        choices = []
    states = np.full(log_probs.shape[:2], -1, np.int32)
    scores = np.full(topology.batch, NEVER)
    for b in range(topology.batch):
        length = int(lengths[b])
        if length == 0:
            scores[b] = 0.0 if topology.min_frames[b] == 0 else NEVER
            continue
        ends = transitions.end[b].nonzero()[0].tolist()
        if not ends:
            continue
        state = ends[-1]
        for other in reversed(ends):
            if row[b, other] > row[b, state] or np.isnan(row[b, other]):
                state = other
        if row[b, state] < math.inf:
            scores[b] = row[b, state]
        else:
            scores[b] = math.nan
        if not scores[b] > NEVER:
            continue
        for t in range(length - 1, -1, -1):
            states[b, t] = state
            if t:
                state = int(transitions.entered[b, state, int(choices[t - 1][b, state])])
    return states, scores


def forward(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None = None,
) -> np.ndarray:
    """Return the total log-likelihood (B,) float64 over all paths."""
    x = _clean(log_probs, wildcard, lengths)
    transitions = _transitions(topology, log_probs.shape[2])
    if x.shape[1]:
        row = _scan(x, transitions, lengths, LogPlus())[0]
    else:
        row = None
    return _scores(row, transitions, topology, lengths)


def _scores(
    row: np.ndarray | None, transitions: _Transitions, topology: Topology, lengths: np.ndarray
) -> np.ndarray:
    """Return the totals (B,) of the last row, NaN where paths meet NaN or +inf."""
    total = np.where(topology.min_frames == 0, 0.0, NEVER)
    if row is not None:
        total = np.where(lengths == 0, total, log_sum_exp(np.where(transitions.end, row, NEVER)))
    return np.where(total < math.inf, total, math.nan)


def occupancy(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the posteriors of the classes, the scores, and the posterior of the wildcard.

    They are (B, T, C) float64, zero beyond the length and without a path; (B,); and (B, T), if
    there is a wildcard.
    """
    posterior, _, scores = _derivatives(log_probs, topology, lengths, wildcard, None)
    classes = log_probs.shape[2]
    return posterior[..., :classes], scores, None if wildcard is None else posterior[..., classes]


def tangent(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None,
    direction: np.ndarray,
    posteriors: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return posteriors, their derivatives along `direction`, and scores.

    They are (B, T, C) float64, (B, T, C) and (B,).

    `posteriors` are not needed.
    """
    made, tangents, scores = _derivatives(log_probs, topology, lengths, wildcard, direction)
    classes = log_probs.shape[2]
    return made[..., :classes], tangents[..., :classes], scores


@dataclass
class _Moving:
    """Numbers, and their derivatives along a direction."""

    value: np.ndarray
    slope: np.ndarray

    @classmethod
    def nothing(cls, shape: tuple[int, ...]) -> _Moving:
        """Return zeros that do not move."""
        return cls(np.zeros(shape), np.zeros(shape))

    @classmethod
    def shares(cls, value: np.ndarray, slope: np.ndarray) -> _Moving:
        """Return shares in a sum of exponentials whose logarithms move by `slope`.

        The sum is along the last axis.
        """
        return cls(value, value * (slope - (value * slope).sum(-1, keepdims=True)))

    def times(self, other: _Moving) -> _Moving:
        """Return the products."""
        return _Moving(
            self.value * other.value, self.value * other.slope + self.slope * other.value
        )

    def where(self, condition: np.ndarray) -> _Moving:
        """Return the numbers where the condition holds, and 0 elsewhere."""
        return _Moving(np.where(condition, self.value, 0.0), np.where(condition, self.slope, 0.0))

    def add_to(self, other: _Moving, *places: Any) -> None:
        """Add the numbers to those of another at these indices.

        An index may occur several times.
        """
        np.add.at(other.value, places, self.value)
        np.add.at(other.slope, places, self.slope)


def _derivatives(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None,
    direction: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return posteriors, their slopes along a direction, and scores.

    Posteriors (B, T, C) have the wildcard as last column.
    """
    scores = forward(log_probs, topology, lengths, wildcard)
    x = _unmet_is_impossible(_clean(log_probs, wildcard, lengths))
    inside = _inside(x, lengths)
    wrong = np.isnan(scores)[:, None, None] & inside
    still = np.zeros(x.shape)
    if not x.shape[1]:
        return still, still, scores
    transitions = _transitions(topology, log_probs.shape[2])
    row, shares = _scan(x, transitions, lengths, LogPlus())
    made = _posteriors(row, shares, transitions, lengths, still).value
    slopes = still
    if direction is not None:
        along = still.copy()
        along[..., : log_probs.shape[2]] = direction
        # Posteriors of 0 stay 0 in any direction.
        along = np.where((made == 0) | ~inside, 0.0, along)
        endless = ~np.isfinite(along).all((1, 2), keepdims=True)
        slopes = _posteriors(row, shares, transitions, lengths, np.where(endless, 0.0, along)).slope
        slopes = np.where(endless & inside, math.nan, slopes)
    return np.where(wrong, math.nan, made), np.where(wrong, math.nan, slopes), scores


def _posteriors(
    row: np.ndarray,
    shares: list[np.ndarray],
    transitions: _Transitions,
    lengths: np.ndarray,
    along: np.ndarray,
) -> _Moving:
    """Return the derivatives of the scores by x, and how they move if x moves by `along`.

    All are (B, T, C).

    Args:
        row, shares: what `_scan` returns.
    """
    emitted = _emitted(along, transitions)
    batch = np.arange(len(along))[:, None]
    slope = np.where(transitions.begin, emitted[:, 0], 0.0)
    moving = []
    for t, share in enumerate(shares, start=1):
        before = _entered(slope, transitions)
        moving.append(_Moving.shares(share, before))
        slope = np.where(
            _real_at(t, transitions, lengths), (share * before).sum(2) + emitted[:, t], slope
        )
    # The derivative of a score by the rows, from the last to the first.
    by_row = _Moving.shares(LogPlus().combine(*np.where(transitions.end, row, NEVER).T)[1], slope)
    result = _Moving.nothing(along.shape)
    for t in range(along.shape[1] - 1, -1, -1):
        inside = _real_at(t, transitions, lengths)
        here = by_row.where(inside)
        here.add_to(result, batch, t, transitions.emit)
        if t:
            by_row = by_row.where(~inside)
            each = _Moving(here.value[..., None], here.slope[..., None])
            each.times(moving[t - 1]).add_to(by_row, batch[..., None], transitions.entered)
    return result


def _real_at(t: int, transitions: _Transitions, lengths: np.ndarray) -> np.ndarray:
    """Return (B, S) bool: the states that are no padding, of utterances that have a frame t."""
    return (t < lengths)[:, None] & transitions.real


def _clean(log_probs: np.ndarray, wildcard: np.ndarray | None, lengths: np.ndarray) -> np.ndarray:
    """Return float64 scores with the wildcard as last column.

    The padding, which is never read, is zero.
    """
    x = log_probs.astype(np.float64)
    if wildcard is not None:
        x = np.concatenate((x, wildcard.astype(np.float64)[:, :, None]), 2)
    return np.where(_inside(x, lengths), x, 0.0)


def _unmet_is_impossible(x: np.ndarray) -> np.ndarray:
    """Replace NaN and +inf by -inf.

    In an utterance with a score no path meets them, nor may its derivatives.
    """
    return np.where(x < math.inf, x, NEVER)


def _inside(log_probs: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return (B, T, 1) bool: the frames that count."""
    return (np.arange(log_probs.shape[1]) < lengths[:, None])[:, :, None]
