"""The best path and the sum of CTC where there are too many states for all of them.

States that cannot matter are left out.

A path is known, found by a beam: its score is a lower bound of the best path's. A state at a frame
is left out where even the best rest (`rest_bounds`) would leave every path through it below that:
no such path is the best. What remains are the states around the path, as many as the sound is in
doubt about, and the result is that of all states to the bit. For the sum the lower bound is the sum
over the beam's paths, and what is left out is less than e**-40 of it.

States lie in lanes and vectors as in `viterbi`. After each step of frames the vectors below the
first and above the last that hold a state which matters are dropped; during a step the range grows
by as many lanes as a path can rise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import rest_bounds, viterbi
from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.emission_tiles import fetch, rows_of_classes
from ctc_align.kernels.cpu.long_viterbi import NO_BANDS, NOTHING, UNSAVED, scratch_arrays
from ctc_align.kernels.cpu.problem import FlatProblem, aligned, vectors_of
from ctc_align.kernels.cpu.rest_bounds import least_rest
from ctc_align.kernels.cpu.scaled_numbers import LEAST, LN_2, powers
from ctc_align.kernels.cpu.scaled_numbers import NEVER as NEVER_EXPONENT
from ctc_align.kernels.cpu.simd import PAIR, WIDTH
from ctc_align.kernels.cpu.sum_recursion import MASK, MASK_SIZE, advance_alpha, spread_flags
from ctc_align.kernels.cpu.sums import FAR, range_of_vectors, total
from ctc_align.kernels.cpu.viterbi import NEVER, STRIP, place

LEAST_CELLS = 2**39
"""Number of reachable (state, frame) cells above which cells that cannot matter are pruned."""
LEAST_PATH_CELLS = 2**33
"""The same for best paths, which are searched with pruning only if it drops most cells."""
MOST_KEPT_SHARE = 8
"""Best paths: if more than 1 / MOST_KEPT_SHARE of the cells is left, all cells are computed, by all
threads."""
MOST_CELLS = 2**41
"""Searches that would visit more cells are refused."""
MOST_BEAM_CELLS = 2**36
"""Most cells that a beam visits for a first path."""
CELLS_PER_S = 5e9
"""Rough speed of a core, for messages."""
STEP_FRAMES = 256
"""Frames after which states are dropped; a multiple of WIDTH."""
BEAMS = (500.0, 5e3, 5e4)
"""Nats below the best state up to which the first search looks; a wider one where the path that it
finds is poor."""
LOSING, LEAST_LOSS = 3.0, 0.05
"""(ratio, nats per frame): the best bound falls where the sound is not what the text says. While it
falls `ratio` times as fast as before, and by at least `nats per frame`, the beam widens by the
loss, as the path may continue anywhere."""
TILTS = (0.0, 2.0, -2.0)
"""Nats a token, see `rest_bounds`."""
MOST_TILTED_CLASSES = 256
"""With more classes the bounds cost more than they save."""
MOST_PAIRED_CLASSES = 64
"""With more the bounds of sums do not look at pairs of tokens."""
SAVED_BYTES = 320 * 2**20
"""Rows that are saved for the trace-back take no more than this, or twice as many frames lie
between them."""
SLACK, SUM_SLACK = 1.0, 50.0
"""Nats below the known score that a bound may be, against rounding; and against what the sum would
lose."""
RELATIVE_SLACK = 1e-6


def cells(frames: int, states: int) -> int:
    """Return how many states times frames there are that a path of CTC can be in.

    >>> cells(4, 5), cells(2, 5), cells(10, 3)
    (8, 0, 18)
    """
    tokens = states // 2
    return 2 * max(tokens, 1) * max(frames - tokens, 0)


def applies(inputs: FlatProblem, b: int, least_cells: int) -> bool:
    """Return whether an utterance is one for this module.

    That is CTC without wildcards, and too large for all states.
    """
    frames = int(inputs.lengths[b])
    size = int(inputs.fields[3][b])
    if inputs.general[b] or frames * size < least_cells or frames < int(inputs.fields[6][b]):
        return False
    emit = inputs.fields[0][b, :size]
    # As the bounds take it: tokens are no blanks, and between equal ones there is a blank.
    if size < 3 or size % 2 == 0 or emit.min() < 0 or (emit[1::2] == emit[0]).any():
        return False
    return not (inputs.fields[1][b, 3:size:2] & (emit[3::2] == emit[1:-2:2])).any()


class TooManyError(Exception):
    """More cells than are allowed would have to be computed."""


@dataclass(frozen=True)
class _Row:
    """The rows of a search before a frame, of the vectors from `low` to `high`, exclusive."""

    frame: int
    low: int
    high: int
    rows: tuple[np.ndarray, ...]


class _Loss:
    """How much wider a beam is for what the best bound has lost lately, `extra` nats."""

    def __init__(self, best: float) -> None:
        self.best = best
        self.extra = 0.0
        self.lost = 0.0
        self.steps = 1

    def advance(self, best: float) -> None:
        """Take the best bound after a further step.

        As long as the sound is what the text says, the best bound falls evenly. Where it falls much
        faster the path being followed may be wrong, and the right one far below: the beam is
        widened by all that is lost there, and narrows again, by half a step, once the bound falls
        evenly.
        """
        lost = max(self.best - best, 0.0)
        self.best = best
        if lost > LOSING * self.lost / self.steps + LEAST_LOSS * STEP_FRAMES:
            self.extra += lost
        else:
            self.extra /= 2
            self.lost = self.lost + lost
            self.steps = self.steps + 1


class _Search:
    """The part that the searches for a path and for a sum share.

    The lattice, the bounds and the range of vectors.
    """

    slack: float

    def __init__(self, inputs: FlatProblem, b: int, what: str) -> None:
        self.inputs = inputs
        self.b = b
        self.what = what
        self.frames = int(inputs.lengths[b])
        self.size = int(inputs.fields[3][b])
        self.finals = int(inputs.fields[5][b])
        self.tokens, self.vectors = self.size // 2, vectors_of(self.size)
        steps = inputs.strides
        self.emitted = inputs.source[0], b * steps[0], steps[1], steps[2]
        self.saved: list[_Row] = []
        self.cells = 0
        self.refuses = self.frames * self.size >= LEAST_CELLS
        if self.refuses:
            self.most = MOST_CELLS
        else:
            self.most = cells(self.frames, self.size) // MOST_KEPT_SHARE
        self.tilts = np.array(TILTS if inputs.source[1] <= MOST_TILTED_CLASSES else TILTS[:1])
        memory_limits.require(
            self._bytes(), f"{what} of {self.frames} frames x {self.size} states", b
        )

    def _bytes(self) -> int:
        return 48 * self.vectors * WIDTH + 2 * SAVED_BYTES

    def search(self) -> float | None:
        """Return the score, and leave the last rows as they are; None where there is NaN or +inf.

        Raises:
            KernelError: it would take more than `MOST_CELLS`.
            TooManyError: it would take most of all states, which can be computed.
        """
        emit = self.inputs.fields[0][self.b, : self.size]
        self.rest = np.empty((self.frames // STEP_FRAMES + 2, len(self.tilts)))
        labels = np.unique(emit[1::2]).astype(np.int64)
        self._bound(labels, np.int64(emit[0]))
        best_of_any = float((self.rest[0] - self.tilts * self.tokens).min())
        if not best_of_any < np.inf:
            return None
        known = gap = -np.inf
        # A beam finds a path, whose score is a lower bound for the exact pass. The closer it is to
        # the best possible, the less that pass has to compute: where it is stopped for computing
        # too much, a wider beam is tried. A beam that finds no path says nothing: the exact pass is
        # tried then only if all states may be computed.
        for beam in BEAMS:
            try:
                score = self._pass(NEVER, beam)
            except TooManyError:
                break
            if score is None:
                return None
            known, gap_before, gap = max(known, score), gap, best_of_any - max(known, score)
            if np.isfinite(gap_before) and gap > 0.9 * gap_before:
                break  # a wider beam is no better
            if known == NEVER and cells(self.frames, self.size) > self.most:
                continue
            try:
                return self._pass(known - self.slack - RELATIVE_SLACK * abs(known), np.inf)
            except TooManyError:
                continue
        if not self.refuses:
            raise TooManyError
        every = cells(self.frames, self.size)
        raise KernelError(
            f"{self.what} of utterance {self.b}: {self.frames} frames x {self.size} states:"
            f" transcript and audio differ so much that the search would visit most of {every:.1e}"
            f" pairs of a frame and a state (about {every / CELLS_PER_S / 3600:.1f} hours; the"
            f" limit is {MOST_CELLS:.1e}); check that the transcript belongs to this recording, or"
            " split both into parts"
        )

    def _pass(self, least: float, beam: float) -> float | None:
        """Compute all frames, with the states that may matter.

        Their bounds reach `least` and are no more than `beam` below the best.
        """
        exact = beam == np.inf
        self._begin()
        self.saved.clear()
        self.cells = 0
        interval = 4 * STEP_FRAMES
        low = 0
        high = 0
        most_rise = STEP_FRAMES // WIDTH + 1
        loss = _Loss(float((self.rest[0] - self.tilts * self.tokens).min()))
        for f0 in range(0, self.frames, STEP_FRAMES):
            f1 = min(f0 + STEP_FRAMES, self.frames)
            if exact and f0 % interval == 0:
                self.saved.append(_Row(f0, low, high, self._copied(low, high)))
                while sum(row.nbytes for saved in self.saved for row in saved.rows) > SAVED_BYTES:
                    self.saved = self.saved[::2]
                    interval = 2 * interval
            high = min(self.vectors, high + most_rise)
            if not self._advance(f0, f1, low, high):
                return None
            self.cells += (f1 - f0) * (high - low) * 2 * WIDTH
            share = f1 / self.frames
            if exact:
                most = self.most
            else:
                most = min(self.most, MOST_BEAM_CELLS)
            # Stop early what will take too long. The range is widest before the middle: on average
            # it may be half as wide, hence twice its share of the work.
            if self.cells > most or (exact and most / 16 < self.cells > 2 * share * most):
                raise TooManyError
            if f1 < self.frames:
                reaching = (
                    max(0, self.size - self.finals - 2 * (self.frames - 1 - f1)) // 2 // WIDTH
                )
                first = min(max(low, reaching), high)
                rest = self.rest[f1 // STEP_FRAMES]
                first, last, best = self._kept(first, high, rest, least, beam + loss.extra)
                if first == last:
                    return NEVER
                if not exact:
                    loss.advance(best)
                self._drop(low, first)
                self._drop(last, high)
                low = first
                high = last
        return self._score()

    def _bound(self, labels: np.ndarray, blank: np.int64) -> None:
        """Fill `rest`."""
        raise NotImplementedError

    def _begin(self) -> None:
        raise NotImplementedError

    def _advance(self, f0: int, f1: int, low: int, high: int) -> bool:
        raise NotImplementedError

    def _kept(
        self, low: int, high: int, rest: np.ndarray, least: float, beam: float
    ) -> tuple[int, int, float]:
        raise NotImplementedError

    def _drop(self, low: int, high: int) -> None:
        raise NotImplementedError

    def _copied(self, low: int, high: int) -> tuple[np.ndarray, ...]:
        return ()

    def _score(self) -> float | None:
        raise NotImplementedError


def _ends(low: int, high: int) -> slice:
    """Return where the vectors from `low` to `high`, exclusive, lie in a row."""
    if low < high:
        return slice(place(low), place(high - 1) + WIDTH)
    return slice(0)


class PrunedPath(_Search):
    """The best path of one utterance."""

    slack = SLACK

    def __init__(self, inputs: FlatProblem, b: int, states: np.ndarray, scores: np.ndarray) -> None:
        super().__init__(inputs, b, "best path")
        self.states = states
        self.scores = scores
        emit, skip, stay, _, starts = inputs.fields[:5]
        used = min(self.size, inputs.source[1] + 1)
        # Choices that are not kept: one vector's are enough, but each has its place.
        self.arrays = scratch_arrays(self.vectors, 2 * self.vectors, used, inputs)
        row_of_class, used_classes, row_of_used, rows, flags = self.arrays[:5]
        viterbi.lay_out(emit[b, : self.size], skip[b], stay[b], starts[b], flags)
        self.used = rows_of_classes(
            emit[b, : self.size],
            inputs.source[1],
            inputs.dense,
            row_of_class,
            used_classes,
            row_of_used,
            rows,
        )
        self.odd, self.even = self.arrays[6:8]
        self.below = np.full(2 * WIDTH, NEVER)

    def find(self) -> bool:
        """Fill the utterance's row of `states` and its score.

        Returns False if the utterance has NaN or +inf. Raises as `search` where too many states
        would have to be looked at.
        """
        score = self.search()
        if score is None:
            return False
        self.scores[self.b] = score
        if score > NEVER:
            state, self.scores[self.b] = viterbi.last_state(
                self.odd, self.even, self.size, self.finals
            )
            self._back(state)
        return True

    def _bound(self, labels: np.ndarray, blank: np.int64) -> None:
        rest_bounds.of_best_path(
            self.emitted, self.frames, labels, blank, self.tilts, np.int64(STEP_FRAMES), self.rest
        )

    def _begin(self) -> None:
        self.odd.fill(NEVER)
        self.even.fill(NEVER)

    def _walk(self, part: tuple[int, ...], choices: np.ndarray) -> bool:
        arrays = (*self.arrays[:14], choices)
        places = tuple(int(each) for each in part)
        return bool(
            viterbi.walk_part(
                self.inputs, self.b, NO_BANDS, places, arrays, (self.below, NOTHING), UNSAVED
            )
        )

    def _advance(self, f0: int, f1: int, low: int, high: int) -> bool:
        goal = self.frames - 1, self.size - self.finals, self.size - 1
        return self._walk((f0, f1, low, high, *goal, self.used, 0, 0), self.arrays[-1])

    def _kept(
        self, low: int, high: int, rest: np.ndarray, least: float, beam: float
    ) -> tuple[int, int, float]:
        return states_kept(
            (self.odd,), (self.even,), 0.0, low, high, self.tokens, rest, self.tilts, least, beam
        )

    def _drop(self, low: int, high: int) -> None:
        self.odd[_ends(low, high)] = NEVER
        self.even[_ends(low, high)] = NEVER

    def _copied(self, low: int, high: int) -> tuple[np.ndarray, ...]:
        return self.odd[_ends(low, high)].copy(), self.even[_ends(low, high)].copy()

    def _score(self) -> float:
        return float(viterbi.last_state(self.odd, self.even, self.size, self.finals)[1])

    def _back(self, state: int) -> None:
        """Follow the choices from the last frame to the first.

        The choices are computed again from saved row to saved row.
        """
        flags = self.arrays[4]
        last = self.frames - 1
        while self.saved:
            saved = self.saved.pop()
            f0 = saved.frame
            low = max(0, state - 2 * (last - f0)) // 2 // WIDTH
            high = state // 2 // WIDTH + 1
            self._drop(max(low - 1, 0), high)
            at = _ends(saved.low, saved.high)
            self.odd[at], self.even[at] = saved.rows
            words = high - low
            base = -f0 * words - low
            choices = np.empty(words * (last - f0 + 1), PAIR)
            self._walk((f0, last + 1, 0, high, last, state, state, self.used, base, words), choices)
            state = viterbi.trace(
                choices, base, words, False, flags, f0, last, state, self.states[self.b]
            )
            last = f0


class PrunedSum(_Search):
    """The sum over all paths of one utterance, float32 log-probs."""

    slack = SUM_SLACK

    def __init__(self, inputs: FlatProblem, b: int) -> None:
        super().__init__(inputs, b, "sum over all paths")
        emit, skip, stay, _, starts = inputs.fields[:5]
        classes = inputs.source[1]
        used = min(self.size, classes + 1)
        row = (self.vectors + (self.vectors - 1) // STRIP + 1) * WIDTH
        tile = (classes + 1 if inputs.dense else used) * WIDTH
        emissions = STRIP * WIDTH * WIDTH
        real, whole = np.float32, np.int32
        row_of_class, used_classes, row_of_used, rows, flags, masks, *rest = aligned(
            *[
                (classes + 1, whole),
                (used, np.int64),
                (used, np.int64),
                (2 * self.vectors * WIDTH, whole),
            ],
            *[(4 * (self.vectors + 1), np.uint16), (6 * self.vectors * MASK_SIZE, MASK)],
            *[(row, real), (row, whole)] * 2,
            *[(tile, real), (tile, real), (tile, whole), (WIDTH, real)],
            *[(4 * WIDTH, real), (4 * WIDTH, whole), (emissions, real), (emissions, whole)],
        )
        row_of_class.fill(-1)
        viterbi.lay_out(emit[b, : self.size], skip[b], stay[b], starts[b], flags)
        spread_flags(flags, masks)
        number = rows_of_classes(
            emit[b, : self.size],
            classes,
            inputs.dense,
            row_of_class,
            used_classes,
            row_of_used,
            rows,
        )
        self.lattice = (False, rows, masks)
        self.classes = (used_classes, row_of_used, number)
        self.rows = tuple(rest[:2]), tuple(rest[2:4])
        self.tiles = *rest[4:8], tuple(rest[8:10]), tuple(rest[10:])
        wild = inputs.source[2]
        steps = inputs.strides
        self.all_emitted = (*self.emitted, classes, wild, b * steps[3], steps[4])

    def _bound(self, labels: np.ndarray, blank: np.int64) -> None:
        follows = np.zeros((0, 0))
        if len(labels) <= MOST_PAIRED_CLASSES:
            tokens = np.searchsorted(labels, self.inputs.fields[0][self.b, 1 : self.size : 2])
            follows = np.zeros((len(labels), len(labels)))
            # By the token that comes next; after the last one of the text, any.
            follows[tokens[1:], tokens[:-1]] = 1.0
            follows[:, tokens[-1]] = 1.0
        rest_bounds.of_all_paths(
            self.emitted,
            self.frames,
            labels,
            blank,
            self.tilts,
            np.int64(STEP_FRAMES),
            follows,
            self.rest,
        )

    def _begin(self) -> None:
        self.offset = 0.0
        for mantissas, exponents in self.rows:
            mantissas.fill(1.0)
            exponents.fill(NEVER_EXPONENT)

    def _advance(self, f0: int, f1: int, low: int, high: int) -> bool:
        part = f0, f1, low, high, self.frames, self.size, self.finals
        self.offset += walk_sums(
            self.all_emitted,
            self.inputs.dense,
            part,
            self.lattice,
            self.classes,
            self.rows,
            self.tiles,
        )
        return self.offset < np.inf

    def _kept(
        self, low: int, high: int, rest: np.ndarray, least: float, beam: float
    ) -> tuple[int, int, float]:
        return states_kept(
            *self.rows, self.offset, low, high, self.tokens, rest, self.tilts, least, beam
        )

    def _drop(self, low: int, high: int) -> None:
        for mantissas, exponents in self.rows:
            mantissas[_ends(low, high)] = 1.0
            exponents[_ends(low, high)] = NEVER_EXPONENT

    def _score(self) -> float | None:
        mantissa, exponent = total(*self.rows, self.size, self.finals)
        if exponent <= -FAR:
            return NEVER if exponent <= LEAST else None
        return float(self.offset + np.log(mantissa) + exponent * LN_2)


@compiled
def walk_sums(emitted, dense, part, lattice, classes, rows, tiles):
    """Advance the vectors v0 … v1 - 1 of a CTC topology by the frames f0 … f1 - 1.

    Below these vectors no state is left.

    Args:
        emitted: see `emission_tiles.fetch`.
        dense: see `problem.FlatProblem`.
        part: f0, f1, v0, v1, and of the whole: frames, states, and in how many of them a path may
            end.
        lattice: False, rows, masks, as `sum_recursion` takes it.
        classes: used, row_of_used, and how many classes are used.
        rows: alpha of odd and of even states.
        tiles: tile, mantissas, exponents, centres, two hands, emissions.

    Returns:
        What the scores were relative to: the sum of the best of each frame; +inf where there is NaN
            or +inf.
    """
    f0, f1, v0, v1, frames, size, finals = part
    used, row_of_used, number = classes
    odd, even = rows
    tile, tile_m, tile_e, centres, hands, emissions = tiles
    offset = 0.0
    for t0 in range(f0, f1, WIDTH):
        now = min(WIDTH, f1 - t0)
        first, end = range_of_vectors(t0, now, frames, size, finals)
        if not fetch(emitted, t0, now, number, used, row_of_used, dense, tile):
            return np.inf
        powers(tile, number, row_of_used, tile_m, tile_e, centres)
        for k in range(now):
            offset += centres[k]
        span = (t0, now, max(v0, first), min(v1, end), v0, 0, 0)
        advance_alpha(
            span, lattice, (tile_m, tile_e), (emissions, emissions), hands, odd, even, None
        )
    return offset


@compiled
def states_kept(odd, even, offset, v0, v1, tokens, rest, tilts, least, beam):
    """Return the first and last (exclusive) vector of v0 … v1 - 1 that holds a state that matters.

    With a finite beam, also return the best bound.

    `odd`, `even`: scores as in `viterbi`, in a tuple, or scaled numbers, whose logarithms are
    relative to `offset`; `rest`, `tilts`: see `rest_bounds`; a state matters whose bound is not
    below `least`, and by no more than `beam` below the best one.
    """
    best = -np.inf
    for vector in range(v0, v1 if beam < np.inf else v0):
        for lane in range(vector * WIDTH, min((vector + 1) * WIDTH, tokens + 1)):
            at = place(vector) + lane % WIDTH
            best = max(
                best, _bound(_level(odd, at), _level(even, at), tokens - lane, rest, tilts) + offset
            )
    least = max(least, best - beam)
    first, last = v1, v0
    for vector in range(v0, v1):
        if first == v1 and _reaches(odd, even, vector, tokens, rest, tilts, least - offset):
            first = vector
    for vector in range(v1 - 1, first - 1, -1):
        if last == v0 and _reaches(odd, even, vector, tokens, rest, tilts, least - offset):
            last = vector + 1
    return first, max(first, last), best


@compiled
def _level(row, at):
    """Return a path's score.

    Of a scaled number, whose mantissa is below 2, it is an upper bound of the logarithm.
    """
    if len(row) == 1:
        return row[0][at]
    return (row[1][at] + 1) * LN_2 if row[1][at] > NEVER_EXPONENT // 2 else -np.inf


@compiled
def _bound(odd, even, tokens, rest, tilts):
    """Return the bound of a lane with these scores.

    From its even state, `tokens` are still to be entered.
    """
    bound = -np.inf
    if even > -np.inf:
        bound = even + least_rest(rest, tilts, tokens)
    if odd > -np.inf and tokens > 0:
        bound = max(bound, odd + least_rest(rest, tilts, tokens - 1))
    return bound


@compiled
def _reaches(odd, even, vector, tokens, rest, tilts, least):
    for lane in range(vector * WIDTH, min((vector + 1) * WIDTH, tokens + 1)):
        at = place(vector) + lane % WIDTH
        bound = _bound(_level(odd, at), _level(even, at), tokens - lane, rest, tilts)
        if bound > -np.inf and bound >= least:
            return True
    return False
