"""Faults planted in named operations of the CPU's kernels, each of which the tests' comparisons
must see.

The kernels run interpreted, on arrays of numpy in place of vectors; without a fault they must pass.
A fault replaces an operation, and may call it: as `right`.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from cpu_checks import poison
from interpreted_checks import (
    against_enumeration,
    first_fault,
    first_of,
    long_paths,
    mixed,
    paths,
    pruned_paths,
    quiet,
    shared_paths,
    sums,
    sums_in_blocks,
)
from kernel_problems import Batch, faults, target, tiny_ctc
from planted import Fault, interpret_cpu, interpreted
from tangent_checks import (
    Tangents,
    direction_for,
    enumeration_faults,
    tangent,
    tangent_faults,
    tiny_tangents,
)

from ctc_align import lattice
from ctc_align.kernels import reference
from ctc_align.kernels.cpu import cpu_backend, general_kernels, log_sums, problem, scaled_numbers
from ctc_align.kernels.cpu.general_kernels import GeneralTangents
from ctc_align.kernels.cpu.simd import WIDTH, put, splat, store
from ctc_align.lattice import WILDCARD

pytestmark = pytest.mark.planted
PATH_CHECKS = (
    paths,
    pruned_paths,
    against_enumeration,
    shared_paths(0),
    shared_paths(32),
    long_paths,
)
SUM_CHECKS = (sums_in_blocks, sums, against_enumeration)
REFERENCE = "ctc_align.kernels.reference"
F32, F64 = torch.float32, torch.float64
HUGE = 2.0**90
NEVER = -np.inf
ZERO = scaled_numbers.NEVER


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield from quiet()


def refuse_logarithms(patch: pytest.MonkeyPatch) -> None:
    """Utterances with a path must be done by the fast kernels themselves."""

    def refused(right: Any) -> Any:
        def method(self: Any, b: int, scores: np.ndarray, out: np.ndarray, *rest: Any) -> None:
            right(self, b, scores, out, *rest)
            if out.dtype == np.float32 and scores[b] > -np.inf:
                raise AssertionError("left to logarithms")

        return method

    for of, name in (
        (general_kernels.GeneralKernels, "add_up"),
        (GeneralTangents, "differentiate"),
    ):
        patch.setattr(of, name, refused(getattr(of, name)))


def with_(**changes: Any) -> Fault:
    """An operation called with other arguments: `index=function` of the one that it had; `_3=…` is
    the fourth."""
    return lambda right: (
        lambda *args: right(
            *(changes[f"_{k}"](arg) if f"_{k}" in changes else arg for k, arg in enumerate(args))
        )
    )


def with_all(change: Any) -> Fault:
    """An operation called with the arguments that `change` makes of its arguments."""
    return lambda right: lambda *args: right(*change(*args))


def then(change: Any) -> Fault:
    """An operation whose result is changed."""
    return lambda right: lambda *args: change(right(*args))


def result(change: Any) -> Fault:
    """An operation whose result is changed, knowing its arguments."""
    return lambda right: lambda *args: change(right(*args), *args)


def after(done: Any) -> Fault:
    """An operation after which `done` does what it should not, with the same arguments."""

    def fault(right: Any) -> Any:
        def operation(*args: Any) -> Any:
            result = right(*args)
            done(*args)
            return result

        return operation

    return fault


def every_other(parity: int) -> Any:
    """Flags (S,), all set in states of one parity."""
    return lambda flags: flags | (np.arange(len(flags)) % 2 == parity)


def lower_state(right: Any) -> Any:
    def last_state(odd: Any, even: Any, size: int, finals: int) -> tuple[int, float]:
        found = right(odd, even, size, finals)
        other = right(odd, even, size - 1, 1) if finals > 1 else (0, NEVER)
        return other if other[1] >= found[1] else found

    return last_state


def from_another_row(self: Any, k: int, *rest: Any) -> None:
    cpu_backend.LongPath.__mro__[1]._restore(self, max(k - 1, 0), *rest)


PATH_FAULTS: list[tuple[str, Fault]] = [
    # Ties: step before stay, skip before step, entering before staying, another last state.
    (
        "viterbi.best_of_ctc",
        result(
            lambda found, silence, _, below, __: (
                *found[:2],
                found[2] | (below == silence),
                found[3],
            )
        ),
    ),
    (
        "viterbi.best_of_ctc",
        result(
            lambda found, _, token, *__: (
                *found[:3],
                found[3] | (found[1] == token) & (found[0] == token),
            )
        ),
    ),
    (
        "viterbi.best_of_three",
        result(lambda found, stay, step, *_: (found[0], found[1] | (step == stay), found[2])),
    ),
    (
        "viterbi.best_of_three",
        result(lambda found, stay, step, skip: (*found[:2], found[2] | (skip == found[0]))),
    ),
    ("viterbi.last_state", lower_state),
    # Skips: none, everywhere, read wrongly on the way back; staying where it is forbidden.
    ("viterbi.best_of_ctc", with_(_3=lambda word: np.uint16(0))),
    ("viterbi.lay_out", with_(_1=every_other(1))),
    ("viterbi.lay_out", with_(_1=every_other(0))),
    ("viterbi.lay_out", with_(_2=every_other(1))),
    ("viterbi.lay_out", with_(_3=lambda starts: 1)),
    ("viterbi.trace", with_(_4=lambda flags: flags | np.uint16(2**WIDTH - 1))),
    ("viterbi.trace", with_all(lambda c, *rest: (c & (2**WIDTH - 1) if rest[2] else c, *rest))),
    # One off: vectors that can reach the goal, those that can be reached, frames, states, lanes.
    ("viterbi.tile_range", with_(_2=lambda goal: (goal[0], goal[1] + 64, goal[2]))),
    (
        "viterbi.tile_range",
        lambda right: lambda t, n, *rest: (right(t, n, *rest)[0], right(t, n - 1, *rest)[1]),
    ),
    ("viterbi.trace", with_all(lambda *of: (*of[:5], min(of[5] + 1, of[6]), *of[6:]))),
    ("viterbi.trace_tiles", with_(_5=lambda state: max(state - 1, 0))),
    ("viterbi.lanes_below", lambda right: lambda row, at, vector, vectors: vector),
    ("viterbi.moved_up", with_all(lambda a, below: (a, a))),
    ("viterbi.bit_of", with_(_0=lambda lane: lane ^ 1)),
    # Between strips, groups, blocks and bands.
    ("viterbi.hand_over", with_(_9=lambda top: top - 1)),
    ("viterbi.hand_over", with_(_7=lambda even: even.copy())),
    ("viterbi.hand_over", with_all(lambda h, a, b, *rest: (h, 0, 2 * WIDTH, *rest))),
    ("viterbi.receive_column", after(lambda hands, *_: store(hands, 0, splat(NEVER)))),
    ("viterbi.receive", with_(_3=lambda first: 0)),
    ("viterbi.limited", with_(_2=lambda low: low + 1)),
    ("viterbi.limited", lambda right: lambda vector, *_: vector),
    ("viterbi.save_row", with_all(lambda odd, even, *rest: (odd, odd, *rest))),
    # Dropped: without a proof, without being noted; the range does not grow; a tile ends a frame
    # late.
    ("viterbi.is_proved", lambda right: lambda *_: True),
    ("viterbi.drop", then(lambda found: (found[0], found[1], NEVER))),
    ("viterbi.drop", then(lambda found: (found[0], max(found[0], found[1] - 1), found[2]))),
    (
        "viterbi.trace",
        with_all(lambda *of: (*of[:5], of[5] + (of[5] % WIDTH == WIDTH - 1), *of[6:])),
    ),
    # Beside paths: which frame, the wildcard's, the rows of odd states; saved rows, places of
    # choices, block by block.
    (
        "emission_tiles.fetch",
        with_(_0=lambda source: (source[0], source[1] + source[2], *source[2:])),
    ),
    ("emission_tiles.fetch", with_(_0=lambda source: (*source[:7], 0))),
    (
        "emission_tiles.rows_of_classes",
        after(lambda *of: of[6].__setitem__(slice(len(of[6]) // 2), of[6][len(of[6]) // 2 :])),
    ),
    (
        "long_viterbi.LongPath",
        lambda right: type("Planted", (right,), {"_restore": from_another_row}),
    ),
    ("viterbi.trace", with_all(lambda c, base, *rest: (c, base - (base != 0), *rest))),
    ("viterbi.trace", with_(_6=lambda frame: frame + (frame % 32 == 0))),
]


def without_the_jump(right: Any) -> Any:
    return lambda own, step, skip, may_stay, may_skip: scaled_numbers.added(
        scaled_numbers.where(may_stay, own), step
    )


def without_the_last_lane(_: Any, masks: Any) -> None:
    if masks.dtype == np.uint16:
        masks[5::6] &= 2 ** (WIDTH - 1) - 1
    else:
        masks[5 * WIDTH :: 6 * WIDTH] = 0


RECURSION_FAULTS: list[tuple[str, Fault]] = [
    # Numbers: sums, products, powers.
    ("scaled_numbers.real_of", then(lambda count: count + np.float32(1e-3))),
    ("scaled_numbers.power_of_2", with_(_0=lambda exponent: exponent + np.int32(1))),
    (
        "scaled_numbers.token_entered",
        with_all(lambda own, blank, both, may: (own, blank, blank, may)),
    ),
    (
        "scaled_numbers.token_entered",
        with_all(lambda own, blank, both, may: (own, both, both, may)),
    ),
    ("scaled_numbers.entered", with_(_3=lambda may_stay: True | may_stay)),
    ("scaled_numbers.entered", without_the_jump),
    ("scaled_numbers.entered", with_(_4=lambda may_skip: True | may_skip)),
    ("scaled_numbers.times", then(lambda a: (*a[:-1], a[-1] + np.int32(1)))),
    ("scaled_numbers.times", with_(_1=lambda x: (*x[:-1], x[-1] * 0))),
    # Lanes, strips: flags of the lanes above, the last lane's, the vector above, hand-over.
    ("sum_recursion.mask_at", with_(_1=lambda number: number - 3 * (number % 6 == 5))),
    ("sum_recursion.spread_flags", after(without_the_last_lane)),
    ("sum_recursion.moved_down", with_all(lambda a, above: (a, a))),
    ("sum_recursion.lanes_below", lambda right: lambda row, at, vector, vectors: vector),
    ("sum_recursion.hand_over", with_(_8=lambda top: top - 1)),
    ("sum_recursion.hand_over", with_(_3=lambda k: 0)),
    ("sum_recursion.hand_over", with_all(lambda h, a, b, *rest: (h, 0, 2 * WIDTH, *rest))),
    ("sum_recursion.receive", after(lambda hands, *_: put(hands[-1], 0, np.int32(ZERO)))),
    ("sum_recursion.receive", with_(_3=lambda first: 0)),
    (
        "sum_recursion.gather",
        with_(_0=lambda lattice: (lattice[0], np.roll(lattice[1], WIDTH), lattice[2])),
    ),
    (
        "sum_recursion.gather",
        with_(_0=lambda given: (given[0], given[1][: len(given[1]) // 2].repeat(2), given[2])),
    ),
    # Stages, blocks, what can be reached, the ends.
    ("sums.begin_back", with_(_4=lambda finals: 1)),
    ("sums.total", with_(_3=lambda finals: 1)),
    ("sums.total", then(lambda found: (found[0], found[1] + 1))),
    (
        "sums.block_of_stage",
        with_all(lambda stage, n, *rest: (max(stage, -1) + (0 <= stage < n - 1), n, *rest)),
    ),
    ("sums.restore", with_(_4=lambda number: max(number - 1, 0))),
    ("sums.save", with_all(lambda row, odd, even, *rest: (row, odd, odd, *rest))),
    ("sums.save", with_(_0=lambda row: row // 2)),
    ("sums.range_of_vectors", with_(_2=lambda frames: frames - 40)),
    (
        "sums.range_of_vectors",
        lambda right: lambda t, n, *rest: (right(t, n, *rest)[0], right(t, n - WIDTH, *rest)[1]),
    ),
    ("sums.fill", with_(_1=lambda first: first + WIDTH)),
    ("sum_recursion.advance_alpha", with_(_0=lambda span: (*span[:6], span[6] + WIDTH))),
    ("sum_recursion.advance_beta", with_(_0=lambda span: (*span[:2], span[2] - 1, *span[3:]))),
    ("sum_recursion.posterior", with_(_1=lambda beta: (*beta[:-1], beta[-1] + np.int32(1)))),
    ("sum_recursion.add_transposed", with_(_4=lambda at: 0)),
]
SUM_FAULTS: list[tuple[str, Fault]] = [
    ("sums.powers", after(lambda *of: of[5].__setitem__(slice(None), of[5][0]))),
    ("sums.powers", after(lambda *of: of[5].__setitem__(slice(None), 0))),
    (
        "sums.shares_add_up",
        lambda right: lambda mass, now, total_m: right(mass, now, total_m) and mass.fill(1) is None,
    ),
    ("sum_recursion.advance_beta", with_(_9=lambda cleared: 0)),
    ("sums.gather_transposed", with_(_2=lambda first: 0)),
    ("sums.gather_transposed", with_(_0=lambda tile: 2 * tile)),
    ("sums.write_posteriors", with_(_7=lambda together: together and together + 1)),
]


def interpret_sums(
    patch: pytest.MonkeyPatch, operation: str = "", fault: Fault | None = None
) -> None:
    interpret_cpu(patch, operation, fault)
    refuse_logarithms(patch)


def interpret_tangents(
    patch: pytest.MonkeyPatch, operation: str = "", fault: Fault | None = None
) -> None:
    """Let interpreted kernels make tangents, in poisoned memory, by one thread, in blocks."""
    interpret_sums(patch, operation, fault)
    patch.setattr(cpu_backend, "ROWS_BYTES", 0)
    patch.setattr(problem, "SMALL_CELLS", 2**62)
    poison(patch)


def late(rng: np.random.Generator) -> Batch:
    """An utterance that most likely waits for 16 frames and hurries then: what can still reach the
    end comes from what could only just."""
    tokens = 1 + np.arange(60) % 5
    x = rng.normal(size=(1, 76, 6))
    x[0, np.arange(76), np.concatenate((np.zeros(16, np.int64), tokens))] += 2.5
    return Batch(torch.as_tensor(x, dtype=F32), torch.tensor([76]), lattice.ctc([tokens]))


def pair(
    rng: np.random.Generator, topology: str, tokens: int, spare: int, classes: int, wild: bool
) -> Batch:
    """Two utterances that fit, the second shorter, with many equal neighbours among their
    tokens."""
    rows = [target(rng, count, classes - 1, 0) for count in (tokens, max(1, tokens - 7))]
    rows = [[WILDCARD if wild and rng.random() < 0.2 else token for token in row] for row in rows]
    if topology == "segments":
        made = lattice.segmentation(
            rows, [np.arange(len(row)) // 2 for row in rows], 1, classes - 1
        )
    else:
        made = lattice.simple_ctc(rows) if topology == "simple" else lattice.ctc(rows)
    lengths = torch.as_tensor(made.min_frames + np.array([spare, spare // 2]))
    x = torch.as_tensor(rng.normal(size=(2, int(lengths.max()), classes)), dtype=F32)
    x[1, lengths[1] :] = math.nan
    return Batch(x, lengths, made, x[:, :, 0] / 2 if wild else None)


@functools.cache
def small() -> tuple[tuple[Batch, torch.Tensor, Tangents], ...]:
    """Up to five vectors of lanes in three strips, 12 to 120 frames in blocks of 16, directions and
    what is right: huge moves, and much of what moves nothing, among them."""
    rng, made = np.random.default_rng(71), []
    for number, shape in enumerate(
        (
            ("ctc", 8, 6, 7, False),
            ("simple", 9, 9, 150, True),
            ("segments", 12, 5, 7, True),
            ("ctc", 40, 30, 7, True),
            ("simple", 36, 12, 6, False),
            ("segments", 50, 40, 7, False),
            ("ctc", 70, 20, 130, False),
            None,
        )
    ):
        given = late(rng) if shape is None else pair(rng, *shape)
        direction = torch.round(64 * direction_for(given.log_probs, number)) / 64
        right = tangent(given, direction, "reference", F64)
        if number % 3 == 1:
            direction, right = direction * HUGE, (right[0], right[1] * HUGE, right[2])
        if number % 3 == 0 and given.wildcard is None:
            direction = direction + torch.round(8000 * torch.randn(2, given.log_probs.shape[1], 1))
        made.append((given, direction, right))
    return tuple(made)


def first_small() -> list[str]:
    """Return the faults of the first wrong batch; an error is a fault, and so is a path that is
    left to logarithms."""
    for given, direction, right in small():
        try:
            met = tangent(given, direction)
        except (IndexError, AssertionError, ValueError, TypeError, OverflowError) as error:
            return [f"{type(error).__name__}: {error}"]
        scale = HUGE if direction.abs().max() >= HUGE else 1.0
        if found := tangent_faults(given, *((a, b / scale, c) for a, b, c in (right, met))):
            return found
    return []


def dual(change: Any) -> Fault:
    """An operation on dual numbers whose result has another tangent, a function of it and the
    arguments."""

    def fault(right: Any) -> Any:
        def operation(*args: Any) -> Any:
            tangent, *rest = right(*args)
            return np.asarray(change(tangent, *args), np.float32), *rest

        return operation

    return fault


def without_tangent(a: Any) -> Any:
    return a[0] * 0, *a[1:]


TANGENT_FAULTS: list[tuple[str, Fault]] = [
    # Directions: whose, which frames, the mean, the largest, the scale, the wildcard's.
    ("sums.fetch_moves", with_(_1=lambda b: 0)),
    ("sums.fetch_moves", with_(_2=lambda t0: 0)),
    ("sums.fetch_moves", with_(_3=lambda frames: frames + WIDTH)),
    ("sums.fetch_moves", with_(_4=lambda classes: (*classes[:3], True))),
    ("sums.fetch_moves", with_(_5=lambda still: still + 1)),
    ("sums.fetch_moves", with_(_6=lambda tile: tile.copy())),
    ("sums.without_mean", with_(_1=lambda weights: weights * 0)),
    ("sums.without_mean", with_(_1=lambda weights: weights * 0 + 1)),
    ("sums.without_mean", then(lambda found: (found[0] * 0, found[1]))),
    ("sums.moves_and_weights", then(lambda scale: 2 * scale)),
    ("sums.with_moves", with_(_4=lambda at: 0)),
    # Dual numbers.
    ("sum_recursion.added", dual(lambda d, a, b: a[0] + b[0])),
    ("sum_recursion.added", dual(lambda d, a, b: d - a[0])),
    ("sum_recursion.entered", dual(lambda d, own, *_: d - own[0])),
    ("sum_recursion.token_entered", dual(lambda d, own, *_: d - own[0])),
    ("sum_recursion.times", dual(lambda d, a, x: d - a[1] * x[0])),
    ("sum_recursion.times", dual(lambda d, a, x: 2 * d)),
    ("sum_recursion.times", dual(lambda d, a, x: d / 2)),
    ("sum_recursion.times", with_(_1=without_tangent)),
    ("sum_recursion.times", with_(_0=without_tangent)),
    ("sum_recursion.times", with_(_0=lambda a: (a[0], a[1] * 0 + 1, a[2]))),
    ("sum_recursion.posterior", with_(_0=without_tangent)),
    ("sum_recursion.posterior", with_(_1=without_tangent)),
    ("sum_recursion.posterior", then(lambda found: (found[1], found[1]))),
    ("sum_recursion.posterior", then(lambda found: (found[0], found[1] / 2))),
    # Rows: what is handed over, kept, filled.
    (
        "sum_recursion.put",
        with_(_2=lambda value: without_tangent(value) if isinstance(value, tuple) else value),
    ),
    ("sums.restore", after(lambda row, odd, even, *_: odd[0].fill(0))),
    ("sums.save", after(lambda row, odd, even, saved, number: saved[0].fill(0))),
    ("sums.zero", then(lambda number: (number[0] + np.float32(np.nan), *number[1:]))),
    # Written: the frame's sum, its mass, the scale, where to.
    ("sums.write_tangents", with_(_1=lambda weights: -weights)),
    ("sums.write_tangents", with_(_1=lambda weights: 0 * weights)),
    ("sums.write_tangents", with_(_6=lambda scale: np.float32(1.0))),
    (
        "sums.shares_add_up",
        lambda right: lambda mass, now, total_m: right(mass, now, total_m) and mass.fill(1) is None,
    ),
    ("sums.write_tangents", with_(_8=lambda steps: (steps[0], 1, steps[2]))),
    ("sums.write_tangents", with_(_8=lambda steps: (*steps[:2], 1 + steps[2]))),
    ("sums.write_tangents", with_(_7=lambda first: max(0, first - 1))),
    (
        "sums.write_tangents",
        with_(_2=lambda classes: (classes[0], np.roll(classes[1], 1), *classes[2:])),
    ),
    (
        "sum_recursion.load",
        result(
            lambda found, rows, at: (
                without_tangent(found) if isinstance(rows, tuple) and not at % 2 else found
            )
        ),
    ),
]


@functools.cache
def tiny() -> tuple:
    return tiny_tangents(72)


def first_tiny(backend: str) -> list[str]:
    found = (enumeration_faults(*problem, backend, F64) for problem in tiny())
    return next((lines for lines in found if lines), [])


def interpret_logarithms(
    patch: pytest.MonkeyPatch, operation: str = "", fault: Fault | None = None
) -> None:
    patch.setattr(
        general_kernels,
        "log_sums",
        interpreted(log_sums, faults={operation: fault} if fault else {}),
    )


def interpret_tangents_of_logarithms(
    patch: pytest.MonkeyPatch, operation: str = "", fault: Fault | None = None
) -> None:
    """In small blocks, with directions that are not made ready, moved by what moves nothing:
    float64 bears it."""

    def moves(self: GeneralTangents, b: int) -> tuple[np.ndarray, np.ndarray, float]:
        shift = np.random.default_rng(b).normal(size=int(self.lengths[b]))
        return (
            np.ascontiguousarray(self.direction[b].astype(np.float64) + shift[:, None]),
            shift,
            1.0,
        )

    interpret_logarithms(patch, operation, fault)
    patch.setattr(general_kernels, "ROWS_BYTES", 0)
    patch.setattr(GeneralTangents, "_moves", moves)


def emission(**changes: Any) -> Fault:
    """Emissions of which x, its stride, the wildcard's scores, the direction or the wildcard's are
    others."""
    return with_(
        _0=lambda given: tuple(
            changes.get(f"_{k}", lambda part: part)(part) for k, part in enumerate(given)
        )
    )


def first_only(part: np.ndarray) -> np.ndarray:
    return np.repeat(part[:1], len(part), axis=0) if len(part) else part


def occupancy(
    *of: Any,
    divides: bool = True,
    by_mean: float = 1.0,
    beta_counts: bool = True,
    wildcard_frame: int | None = None,
) -> None:
    """As `log_sums._add_occupancy`, and wrong if asked."""
    alpha, beta, _, emit, out, out_wildcard, t = of
    level = alpha[0][2:] + beta[0]
    share = np.exp(level - level.max())
    share = share / share.sum() if divides else share
    if len(alpha) == 2:
        move = alpha[1][2:] + beta[1]
        mean = (share * (move if beta_counts else alpha[1][2:])).sum()
        share = share * (move - by_mean * mean)
    for s in range(len(emit)):
        if emit[s] >= 0:
            out[t, emit[s]] += share[s]
        elif len(out_wildcard):
            out_wildcard[t if wildcard_frame is None else wildcard_frame] += share[s]


def wrong_occupancy(**wrong: Any) -> Fault:
    return lambda right: functools.partial(occupancy, **wrong)


LOG_FAULTS: list[tuple[str, Fault]] = [
    ("_next_row", with_(_1=lambda skip: skip & False)),
    ("_next_row", with_(_1=lambda flags: flags | True)),
    ("_next_row", with_(_2=lambda flags: flags | True)),
    ("_next_row", with_(_3=lambda sources: sources * 0 - 1)),
    ("_previous_row", with_(_1=lambda flags: flags | True)),
    ("_previous_row", with_(_2=lambda flags: flags | True)),
    ("_previous_row", with_(_3=lambda sources: sources * 0 - 1)),
    (
        "_previous_row",
        with_(_0=lambda scores: tuple(np.full_like(part, part[0]) for part in scores)),
    ),
    ("_first_row", with_(_1=lambda begin: np.arange(len(begin)) < 2)),
    ("_last_row", with_(_0=lambda end: np.arange(len(end)) > len(end) - 3)),
]
"""Seen by sums and by tangents."""
LOG_SUM_FAULTS: list[tuple[str, Fault]] = [
    ("_total", with_(_1=lambda end: end & (np.arange(len(end)) % 2 == 1))),
    ("_add_occupancy", wrong_occupancy(divides=False)),
    ("_add_occupancy", wrong_occupancy(wildcard_frame=0)),
    ("_add_occupancy", with_(_5=lambda out_wildcard: out_wildcard[:0])),
    ("_emit", emission(_2=first_only)),
]
LOG_TANGENT_FAULTS: list[tuple[str, Fault]] = [
    (
        "_add_two",
        lambda right: (
            lambda a, da, b, db: right(a, da, b, db) if min(a, b) > NEVER else (NEVER, 0.0)
        ),
    ),
    ("_add_two", lambda right: lambda a, da, b, db: (right(a, da, b, db)[0], da)),
    ("_add_two", lambda right: lambda a, da, b, db: (right(a, da, b, db)[0], da + db)),
    ("_add", with_(_1=lambda b: (b[0], 0.0) if len(b) == 2 else b)),
    ("_times", lambda right: lambda a, *rest: (right(a, *rest)[0], *a[1:])),
    ("_previous_row", with_(_0=lambda scores: (scores[0], *(0 * part for part in scores[1:])))),
    ("_first_row", with_(_0=lambda scores: (scores[0], *(0 * part for part in scores[1:])))),
    ("_add_occupancy", wrong_occupancy(by_mean=0.0)),
    ("_add_occupancy", wrong_occupancy(by_mean=2.0)),
    ("_add_occupancy", wrong_occupancy(divides=False)),
    ("_add_occupancy", wrong_occupancy(beta_counts=False)),
    ("_emit", emission(_3=first_only)),
    ("_emit", emission(_4=first_only)),
    ("_begin_block", with_(_2=lambda k: max(k - 1, 0) if k else 1)),
    ("_next_row", lambda right: lambda *of: right(*of[:4], of[5], of[5])),
    ("_parts", with_(_1=lambda t: max(t - 1, 0))),
]


SUITES: dict[str, tuple[Callable[..., None], Callable[[], list[str]], list[tuple[str, Fault]]]] = {
    "paths": (interpret_cpu, lambda: first_of(*PATH_CHECKS, *SUM_CHECKS), PATH_FAULTS),
    "sums": (interpret_sums, lambda: first_of(*SUM_CHECKS), [*RECURSION_FAULTS, *SUM_FAULTS]),
    "tangents": (interpret_tangents, first_small, [*RECURSION_FAULTS, *TANGENT_FAULTS]),
    "logarithms": (
        interpret_logarithms,
        lambda: first_fault(mixed(), "cpu"),
        [*LOG_FAULTS, *LOG_SUM_FAULTS],
    ),
    "tangents of logarithms": (
        interpret_tangents_of_logarithms,
        lambda: first_of(lambda: first_tiny("cpu")),
        [*LOG_FAULTS, *LOG_TANGENT_FAULTS],
    ),
}
"""How operations are interpreted, what sees their faults, and these."""


@pytest.mark.parametrize(
    ("suite", "operation", "fault"),
    [
        *((suite, "", None) for suite in SUITES),
        *(
            (suite, "_add_occupancy", wrong_occupancy())
            for suite in ("logarithms", "tangents of logarithms")
        ),
    ],
)
def test_no_fault_without_a_fault(
    suite: str, operation: str, fault: Fault | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpret, first, _ = SUITES[suite]
    interpret(monkeypatch, operation, fault)
    assert first() == []


@pytest.mark.parametrize(
    ("suite", "operation", "fault"),
    [(suite, *row) for suite, (*_, rows) in SUITES.items() for row in rows],
)
def test_planted_faults_are_seen(
    suite: str, operation: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpret, first, _ = SUITES[suite]
    interpret(monkeypatch, operation, fault)
    assert first() != []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("value * (slope - (value * slope).sum(-1, keepdims=True))", "value * slope"),
        ("self.value * other.slope + self.slope * other.value", "self.value * other.slope"),
        ("] = direction", "] = np.abs(direction)"),
        ("(made == 0) | ~inside", "made != 0"),
    ],
)
def test_planted_faults_in_tangents_of_the_reference_are_seen(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, REFERENCE, interpreted(reference, old, new))
    assert (first_tiny("reference") != []) == (old != "")


def test_a_fault_in_ties_of_the_reference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(self: reference.MaxPlus, *alternatives: np.ndarray) -> tuple:
        together = np.stack(alternatives[::-1])
        return together.max(0), len(alternatives) - 1 - together.argmax(0)

    monkeypatch.setattr(reference.MaxPlus, "combine", greedy)
    assert faults(list(tiny_ctc(np.random.default_rng(21), 120)), "reference") != []
