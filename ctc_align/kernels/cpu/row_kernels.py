"""Best paths and sums without compilation, row by row in NumPy.

They give the very bits of `viterbi` and `sums`.

Compiling those takes a new machine ten seconds and more; ten seconds of speech take a third of a
second here. So the first utterances of a process are done by these functions, unless compiled code
is at hand, until they have taken `PATIENCE_S` or would: then compiling pays. The numbers and the
terms of the recursion are the compiled kernels' own functions (`scaled_numbers`), called on whole
rows; the order of all additions is theirs, and what these refuse is refused here, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ctc_align.kernels.cpu.problem import as_numbers
from ctc_align.kernels.cpu.scaled_numbers import (
    LN_2,
    NEVER,
    added,
    entered,
    exp,
    posterior,
    times,
    token_entered,
)
from ctc_align.kernels.cpu.simd import WIDTH, moved_down, moved_up
from ctc_align.kernels.cpu.sums import FAR, MOST_FRAMES, SLACK
from ctc_align.lattice.topology import Topology

PATIENCE_S = 2.0
"""As long as this, all together, a process computes without compiled code."""
FRAME_S, CELL_S = 1e-4, 2e-7
"""Rough times of one frame, and of one state in it."""


class Patience:
    """How much of its `PATIENCE_S` a process has left."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def lasts(self, frames: np.ndarray, states: np.ndarray) -> bool:
        """Return whether utterances of this size may be computed without compiled code."""
        return self.spent_s + float((frames * (FRAME_S + CELL_S * states)).sum()) <= PATIENCE_S

    @property
    def is_over(self) -> bool:
        """True when nothing is left."""
        return self.spent_s > PATIENCE_S

    def end(self) -> None:
        """Have all that follows compiled."""
        self.spent_s = math.inf

    @contextmanager
    def used(self) -> Iterator[None]:
        """Count the time that a block takes."""
        started_s = time.perf_counter()
        try:
            yield
        finally:
            self.spent_s += time.perf_counter() - started_s


class Row(NamedTuple):
    """One utterance, prepared for the kernels in NumPy.

    Scores of its classes (T, C + 1), the wildcard's last; the column that each state emits (S,),
    skip and stay (S,), in how many of the first states a path may begin, in how many of the last it
    may end, and whether it is not interleaved (see `problem.FlatProblem`).
    """

    x: np.ndarray
    column: np.ndarray
    skip: np.ndarray
    stay: np.ndarray
    starts: int
    finals: int
    general: bool


def row_of(
    log_probs: np.ndarray,
    topology: Topology,
    frames: np.ndarray,
    wildcard: np.ndarray | None,
    b: int,
) -> Row | None:
    """Return utterance b of a batch, float32 or float64.

    None where a class that it uses has NaN or +inf.
    """
    size = int(topology.states[b])
    count = int(frames[b])
    x = as_numbers(log_probs[b, :count])
    if wildcard is None:
        own = np.zeros(count)
    else:
        own = as_numbers(wildcard[b, :count])
    x = np.concatenate((x, own[:, None].astype(x.dtype)), 1)
    emit = topology.emit[b, :size]
    column = np.where(emit < 0, x.shape[1] - 1, emit)
    if not (x[:, np.unique(column)] < np.inf).all():
        return None
    fields = topology.skip[b, :size].copy(), topology.stay[b, :size]
    fields[0][:2] = False
    ends = int(topology.starts[b]), int(topology.finals[b])
    return Row(x, column, *fields, *ends, not bool(topology.interleaved[b]))


def best_path(row: Row, band: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Return the states (T,) int32 of the best path and its score, as `viterbi.walk`.

    Without a path all states are -1.

    `band` (T, 2): first and last (exclusive) state that the path may be in at each frame.
    """
    emitted = row.x[:, row.column].astype(np.float64)
    frames, size = emitted.shape
    no_stay, no_skip = ~row.stay, ~row.skip
    choices = np.zeros((frames, size), np.int8)
    scores = np.full(size + 2, -np.inf)
    scores[2 : 2 + row.starts] = 0.0 + emitted[0, : row.starts]
    if band is None:
        limits = np.tile(np.array([0, size]), (frames, 1))
    else:
        limits = band.clip(0, size)
    for t, (low, high) in enumerate(limits.tolist()):
        if t == 0:
            scores[2 : 2 + low] = scores[2 + high :] = -np.inf
            continue
        best = scores[2:].copy()
        best[no_stay] = -np.inf
        step = scores[1:-1]
        skip = scores[:-2].copy()
        skip[no_skip] = -np.inf
        choice = choices[t]
        better = step > best
        choice[better] = 1
        np.copyto(best, step, where=better)
        better = skip > best
        choice[better] = 2
        np.copyto(best, skip, where=better)
        scores[2:] = best + emitted[t]
        scores[2 : 2 + low] = scores[2 + high :] = -np.inf
    states = np.full(frames, -1, np.int32)
    state = size - 1
    if row.finals > 1 and scores[size] > scores[size + 1]:
        state -= 1
    score = float(scores[state + 2])
    if score > -np.inf:
        for t in range(frames - 1, -1, -1):
            states[t] = state
            state -= int(choices[t, state])
    return states, score


Number = tuple[np.ndarray, np.ndarray]
"""See `scaled_numbers`: mantissas and exponents."""
ZERO = np.ones(1, np.float32), np.full(1, NEVER, np.int32)
BEGINNING = np.ones(1, np.float32), np.zeros(1, np.int32)
"""1, in the lane below the first before the first frame."""


class _Lanes:
    """One utterance in lanes: lane i has state 2i (even) and 2i + 1 (odd).

    The last odd state may be missing.
    """

    def __init__(self, row: Row) -> None:
        self.row = row
        size = len(row.column)
        self.count = (size + 1) // 2

        def parted(states: np.ndarray, fill: object) -> tuple[np.ndarray, np.ndarray]:
            padded = np.full(2 * self.count, fill, states.dtype)
            padded[:size] = states
            return padded[::2].copy(), padded[1::2].copy()

        self.columns = parted(row.column, row.column[0])
        self.stay, self.skip = parted(row.stay, False), parted(row.skip, False)
        self.used = np.unique(row.column)
        # The wildcard comes first: its class is -1.
        wild = self.used == row.x.shape[1] - 1
        self.used = np.concatenate((self.used[wild], self.used[~wild]))
        x = row.x[:, self.used]
        self.centres = x.max(1)
        with np.errstate(invalid="ignore"):  # where all is -inf, which has no score
            mantissas, exponents = exp(x - self.centres[:, None])
        row_of_class = np.zeros(row.x.shape[1], np.int64)
        row_of_class[self.used] = np.arange(len(self.used))
        self.rows = tuple(row_of_class[column] for column in self.columns)
        self.emitted = tuple((mantissas[:, rows], exponents[:, rows]) for rows in self.rows)

    def emissions(self, t: int) -> tuple[Number, Number]:
        even, odd = ((mantissas[t], exponents[t]) for mantissas, exponents in self.emitted)
        return even, odd

    def zeros(self) -> Number:
        return np.ones(self.count, np.float32), np.full(self.count, NEVER, np.int32)

    def forwards(self) -> list[tuple[Number, Number]]:
        """Return alpha of each frame: of even and of odd states."""
        even = self.zeros()
        odd = self.zeros()
        found = []
        even_skip, odd_skip = self.skip
        jump = odd_skip.copy()
        jump[0] = self.row.starts > 1 and len(self.row.column) > 1
        for t in range(len(self.row.x)):
            below = moved_up(odd, BEGINNING if t == 0 else ZERO)
            if not self.row.general:
                into = added(even, below)
                other = token_entered(odd, even, into, jump)
            else:
                into = entered(even, below, moved_up(even, ZERO), self.stay[0], even_skip)
                other = entered(odd, even, below, self.stay[1], jump)
            even_x, odd_x = self.emissions(t)
            even = times(into, even_x)
            odd = times(other, odd_x)
            found.append((even, odd))
        return found

    def total(self, even: Number, odd: Number) -> tuple[float, int]:
        """Return mantissa and exponent of the sum over the last states."""
        size = len(self.row.column)
        ends = [(odd if s % 2 else even, s // 2) for s in range(size - self.row.finals, size)]
        numbers = [(float(m[i]), int(e[i])) for (m, e), i in ends]
        top = max(e for _, e in numbers)
        return sum(m * math.exp((e - top) * LN_2) for m, e in numbers), top

    def backwards(
        self, alphas: list[tuple[Number, Number]], total_e: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posteriors of even and odd states (T, lanes).

        They are not yet divided by their sums.
        """
        frames = len(alphas)
        size = len(self.row.column)
        exponent = np.int32(total_e)
        even, odd = self.zeros(), self.zeros()
        for s in range(size - self.row.finals, size):
            (odd if s % 2 else even)[1][s // 2] = 0
        even_skip, odd_skip = (np.append(skip[1:], False) for skip in self.skip)
        shape = frames, self.count
        evens, odds = np.empty(shape, np.float32), np.empty(shape, np.float32)
        for t in range(frames - 1, -1, -1):
            from_even = even
            from_odd = odd
            if t < frames - 1:
                above = moved_down(even, ZERO)
                if not self.row.general:
                    from_even = added(even, odd)
                    from_odd = token_entered(odd, above, moved_down(from_even, ZERO), odd_skip)
                else:
                    from_even = entered(even, odd, above, self.stay[0], even_skip)
                    from_odd = entered(odd, above, moved_down(odd, ZERO), self.stay[1], odd_skip)
            (evens[t],), (odds[t],) = (
                posterior(alpha, beta, exponent)
                for alpha, beta in zip(alphas[t], (from_even, from_odd))
            )
            even_x, odd_x = self.emissions(t)
            even = times(from_even, even_x)
            odd = times(from_odd, odd_x)
        return evens, odds

    def added_up(self, evens: np.ndarray, odds: np.ndarray) -> np.ndarray:
        """Return the posteriors of the used classes (used, T).

        They are added in the order of the compiled kernels.
        """
        sums = np.zeros((len(self.used), len(evens)), np.float32)
        vectors = -(-self.count // WIDTH)
        if not self.row.general:
            padded = np.zeros((vectors * WIDTH, len(evens)), np.float32)
            padded[: self.count] = evens.T
            blanks = np.zeros((WIDTH, len(evens)), np.float32)
            for v in range(vectors - 1, -1, -1):
                blanks += padded[v * WIDTH : (v + 1) * WIDTH]
            for blank in blanks:
                sums[self.rows[0][0]] += blank
        for v in range(vectors):
            lanes = range(v * WIDTH, min((v + 1) * WIDTH, self.count))
            for lane in lanes:
                sums[self.rows[1][lane]] += odds[:, lane]
            for lane in lanes if self.row.general else ():
                sums[self.rows[0][lane]] += evens[:, lane]
        return sums


def add_up(row: Row, posteriors: np.ndarray, wild: np.ndarray) -> float | None:
    """Return the score of an utterance over all its paths, float32, as `sums.sums`.

    None where `sums.sums` refuses.

    Fill `posteriors` (T, C) and those of the wildcard (T,) unless these are empty.
    """
    lanes = _Lanes(row)
    offset = 0.0
    for centre in lanes.centres.tolist():
        offset += centre
    if not offset > -math.inf:
        return -math.inf
    alphas = lanes.forwards()
    total_m, total_e = lanes.total(*alphas[-1])
    score = offset + math.log(total_m) + total_e * LN_2
    if total_e <= -FAR or len(row.x) > MOST_FRAMES:
        return None
    if posteriors.size:
        sums = lanes.added_up(*lanes.backwards(alphas, total_e))
        mass = np.zeros(len(row.x), np.float32)
        for numbers in sums:
            mass += numbers
        if not (np.abs(mass - total_m) <= SLACK * total_m).all():
            return None
        for column, numbers in zip(lanes.used.tolist(), sums * (np.float32(1.0) / mass)):
            if column < posteriors.shape[1]:
                posteriors[:, column] = numbers
            else:
                wild[:] = numbers
    return score
