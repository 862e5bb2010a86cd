"""The checkers, seen to fail: a fault planted in an operation of the CPU's kernels must be told, each by the tests' own
comparisons. The kernels run interpreted, on numpy's vectors; without a fault they must pass, so they are tested twice.

A fault takes the place of an operation, which it may call: it says `right` for it.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator
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
from kernel_problems import Batch, faults, target, tiny_any, tiny_ctc, tiny_segments, tiny_simple
from planted import Fault, interpret_cpu, interpreted
from tangent_checks import Tangents, direction_for, enumerated, enumeration_faults, is_small, tangent, tangent_faults

from ctc_align import lattice
from ctc_align.kernels import reference
from ctc_align.kernels.cpu import cpu_backend, general_kernels, log_sums, problem, scaled_numbers
from ctc_align.kernels.cpu.general_kernels import GeneralTangents
from ctc_align.kernels.cpu.simd import WIDTH, put, splat, store
from ctc_align.lattice import WILDCARD

pytestmark = pytest.mark.planted(
    "ctc_align/kernels/cpu", "ctc_align/kernels/reference.py", "ctc_align/kernels/__init__.py", "ctc_align/lattice"
)
PATH_CHECKS = (paths, pruned_paths, against_enumeration, shared_paths(0), shared_paths(32), long_paths)
SUM_CHECKS = (sums_in_blocks, sums, against_enumeration)
REFERENCE = "ctc_align.kernels.reference"
F32, F64 = torch.float32, torch.float64
HUGE = 2.0**90
NEVER = -np.inf
ZERO = scaled_numbers.NEVER


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield from quiet()


@pytest.fixture
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Utterances with a path must be done by the fast kernels themselves."""

    def refused(right: Any) -> Any:
        def method(self: Any, b: int, scores: np.ndarray, out: np.ndarray, *rest: Any) -> None:
            right(self, b, scores, out, *rest)
            if out.dtype == np.float32 and scores[b] > -np.inf:
                raise AssertionError("left to logarithms")

        return method

    for of, name in ((general_kernels.GeneralKernels, "add_up"), (GeneralTangents, "differentiate")):
        monkeypatch.setattr(of, name, refused(getattr(of, name)))


def test_no_fault_without_a_fault(monkeypatch: pytest.MonkeyPatch, nothing_is_left: None) -> None:
    interpret_cpu(monkeypatch)
    assert first_of(*PATH_CHECKS, *SUM_CHECKS) == []


def with_(**changes: Any) -> Fault:
    """An operation called with other arguments: `index=function` of the one that it had; `_3=…` is the fourth."""
    return lambda right: (
        lambda *args: right(*(changes[f"_{k}"](arg) if f"_{k}" in changes else arg for k, arg in enumerate(args)))
    )


def then(change: Any) -> Fault:
    """An operation whose result is changed."""
    return lambda right: lambda *args: change(right(*args))


def after(done: Any) -> Fault:
    """An operation after which `done` does what it should not, with the same arguments."""

    def fault(right: Any) -> Any:
        def operation(*args: Any) -> Any:
            result = right(*args)
            done(*args)
            return result

        return operation

    return fault


def nothing(right: Any) -> Any:
    """The operation is left out."""
    return lambda *args: None


def every_other(parity: int) -> Any:
    """Flags (S,), all set in states of one parity."""
    return lambda flags: flags | (np.arange(len(flags)) % 2 == parity)


def lower_state(right: Any) -> Any:
    def last_state(odd: Any, even: Any, size: int, finals: int) -> tuple[int, float]:
        found = right(odd, even, size, finals)
        other = right(odd, even, size - 1, 1) if finals > 1 else (0, NEVER)
        return other if other[1] >= found[1] else found

    return last_state


def tied_in_ctc(step: bool) -> Fault:
    def fault(right: Any) -> Any:
        def best_of_ctc(silence: Any, token: Any, below: Any, word: Any) -> Any:
            best, other, stepped, enters = right(silence, token, below, word)
            if step:
                return best, other, stepped | (below == silence), enters
            return best, other, stepped, enters | (other == token) & (best == token)

        return best_of_ctc

    return fault


def from_another_row(self: Any, k: int, *rest: Any) -> None:
    cpu_backend.LongPath.__mro__[1]._restore(self, max(k - 1, 0), *rest)


PATH_FAULTS: list[tuple[str, Fault]] = [
    # Ties: step before stay, skip before step, entering before staying, another last state.
    ("viterbi.best_of_ctc", tied_in_ctc(step=True)),
    ("viterbi.best_of_ctc", tied_in_ctc(step=False)),
    (
        "viterbi.best_of_three",
        lambda right: lambda *of: (lambda best, step, skip: (best, step | (of[1] == of[0]), skip))(*right(*of)),
    ),
    (
        "viterbi.best_of_three",
        lambda right: lambda *of: (lambda best, step, skip: (best, step, skip | (of[2] == best)))(*right(*of)),
    ),
    ("viterbi.last_state", lower_state),
    # Skips: none, everywhere, read wrongly on the way back; staying where it is forbidden.
    ("viterbi.best_of_ctc", with_(_3=lambda word: np.uint16(0))),
    ("viterbi.lay_out", with_(_1=every_other(1))),
    ("viterbi.lay_out", with_(_1=every_other(0))),
    ("viterbi.lay_out", with_(_2=every_other(1))),
    ("viterbi.lay_out", with_(_3=lambda starts: 1)),
    ("viterbi.trace", with_(_4=lambda flags: flags | np.uint16(2**WIDTH - 1))),
    ("viterbi.trace", lambda right: lambda c, *rest: right(c & (2**WIDTH - 1) if rest[2] else c, *rest)),
    # One off: vectors that can reach the goal, those that can be reached, frames, states, lanes.
    ("viterbi.tile_range", with_(_2=lambda goal: (goal[0], goal[1] + 64, goal[2]))),
    ("viterbi.tile_range", lambda right: lambda t, n, *rest: (right(t, n, *rest)[0], right(t, n - 1, *rest)[1])),
    ("viterbi.trace", lambda right: lambda *of: right(*of[:5], min(of[5] + 1, of[6]), *of[6:])),
    ("viterbi.trace_tiles", with_(_5=lambda state: max(state - 1, 0))),
    ("viterbi.moved_up", lambda right: lambda a, below: right(a, a)),
    # Between strips, groups, blocks and bands.
    ("viterbi.hand_over", with_(_9=lambda top: top - 1)),
    ("viterbi.hand_over", with_(_7=lambda even: even.copy())),
    ("viterbi.hand_over", lambda right: lambda h, a, b, *rest: right(h, 0, 2 * WIDTH, *rest)),
    ("viterbi.receive_column", after(lambda hands, *_: store(hands, 0, splat(NEVER)))),
    ("viterbi.receive", with_(_3=lambda first: 0)),
    ("viterbi.limited", with_(_2=lambda low: low + 1)),
    ("viterbi.limited", lambda right: lambda vector, *_: vector),
    ("viterbi.save_row", lambda right: lambda odd, even, *rest: right(odd, odd, *rest)),
    # Dropped: without a proof, without being noted; the range does not grow; a tile ends a frame late.
    ("viterbi.is_proved", lambda right: lambda *_: True),
    ("viterbi.drop", then(lambda found: (found[0], found[1], NEVER))),
    (
        "viterbi.drop",
        lambda right: lambda *of: (lambda low, high, lost: (low, max(low, high - 1), lost))(*right(*of)),
    ),
    ("viterbi.trace", lambda right: lambda *of: right(*of[:5], of[5] + (of[5] % WIDTH == WIDTH - 1), *of[6:])),
    # Beside paths: which frame, the wildcard's, the rows of odd states; saved rows, places of choices, block by block.
    ("emission_tiles.fetch", with_(_0=lambda source: (source[0], source[1] + source[2], *source[2:]))),
    ("emission_tiles.fetch", with_(_0=lambda source: (*source[:7], 0))),
    (
        "emission_tiles.rows_of_classes",
        after(lambda *of: of[6].__setitem__(slice(len(of[6]) // 2), of[6][len(of[6]) // 2 :])),
    ),
    ("long_viterbi.LongPath", lambda right: type("Planted", (right,), {"_restore": from_another_row})),
    ("viterbi.trace", lambda right: lambda c, base, *rest: right(c, base - (base != 0), *rest)),
    ("viterbi.trace", lambda right: lambda *of: right(*of[:6], of[6] + (of[6] % 32 == 0), *of[7:])),
]


@pytest.mark.parametrize(("operation", "fault"), PATH_FAULTS)
def test_planted_faults_in_paths_are_told(operation: str, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    interpret_cpu(monkeypatch, operation, fault)
    assert first_of(*PATH_CHECKS, *SUM_CHECKS) != []


def dropped_beyond(what: str) -> Fault:
    """In `token_entered` or `added`: a term that is left out."""
    return {
        "skip": lambda right: lambda own, blank, both, may: right(own, blank, blank, may),
        "no skip": lambda right: lambda own, blank, both, may: right(own, both, both, may),
        "stay": lambda right: (
            lambda own, step, skip, may_stay, may_skip: right(own, step, skip, True | may_stay, may_skip)
        ),
        "jump": lambda right: (
            lambda own, step, skip, may_stay, may_skip: scaled_numbers.added(scaled_numbers.where(may_stay, own), step)
        ),
        "over": lambda right: (
            lambda own, step, skip, may_stay, may_skip: right(own, step, skip, may_stay, True | may_skip)
        ),
    }[what]


RECURSION_FAULTS: list[tuple[str, Fault]] = [
    # Numbers: sums, products, powers.
    ("scaled_numbers.real_of", then(lambda count: count + np.float32(1e-3))),
    ("scaled_numbers.power_of_2", with_(_0=lambda exponent: exponent + np.int32(1))),
    ("scaled_numbers.token_entered", dropped_beyond("skip")),
    ("scaled_numbers.token_entered", dropped_beyond("no skip")),
    ("scaled_numbers.entered", dropped_beyond("stay")),
    ("scaled_numbers.entered", dropped_beyond("jump")),
    ("scaled_numbers.entered", dropped_beyond("over")),
    ("scaled_numbers.times", then(lambda a: (*a[:-1], a[-1] + np.int32(1)))),
    ("scaled_numbers.times", with_(_1=lambda x: (*x[:-1], x[-1] * 0))),
    # Lanes, strips: flags of the lanes above, the last lane's, the vector above, hand-over.
    ("sum_recursion.may_skip_from", with_(_1=lambda at: at + 4)),
    ("sum_recursion.may_skip_from", with_(_0=lambda flags: flags & np.uint16(2**WIDTH - 2))),
    ("sum_recursion.moved_down", lambda right: lambda a, above: right(a, a)),
    ("sum_recursion.moved_up", lambda right: lambda a, below: right(a, a)),
    ("sum_recursion.hand_over", with_(_8=lambda top: top - 1)),
    ("sum_recursion.hand_over", with_(_3=lambda k: 0)),
    ("sum_recursion.hand_over", lambda right: lambda h, a, b, *rest: right(h, 0, 2 * WIDTH, *rest)),
    ("sum_recursion.receive", after(lambda hands, *_: put(hands[-1], 0, np.int32(ZERO)))),
    ("sum_recursion.receive", with_(_3=lambda first: 0)),
    ("sum_recursion.gather", with_(_0=lambda lattice: (lattice[0], np.roll(lattice[1], WIDTH), lattice[2]))),
    (
        "sum_recursion.gather",
        with_(_0=lambda lattice: (lattice[0], lattice[1][: len(lattice[1]) // 2].repeat(2), lattice[2])),
    ),
    # Stages, blocks, what can be reached, the ends.
    ("sums.begin_back", with_(_4=lambda finals: 1)),
    ("sums.total", with_(_3=lambda finals: 1)),
    ("sums.total", then(lambda found: (found[0], found[1] + 1))),
    (
        "sums.block_of_stage",
        lambda right: (
            lambda stage, blocks, block, frames: right(
                max(stage, -1) + (0 <= stage < blocks - 1), blocks, block, frames
            )
        ),
    ),
    ("sums.restore", with_(_4=lambda number: max(number - 1, 0))),
    ("sums.save", lambda right: lambda row, odd, even, *rest: right(row, odd, odd, *rest)),
    ("sums.save", with_(_0=lambda row: row // 2)),
    ("sums.range_of_vectors", with_(_2=lambda frames: frames - 40)),
    ("sums.range_of_vectors", lambda right: lambda t, n, *rest: (right(t, n, *rest)[0], right(t, n - WIDTH, *rest)[1])),
    ("sums.fill", with_(_1=lambda first: first + WIDTH)),
    ("sum_recursion.advance_alpha", with_(_0=lambda span: (*span[:6], span[6] + WIDTH))),
    ("sum_recursion.advance_beta", with_(_0=lambda span: (*span[:2], span[2] - 1, *span[3:]))),
    ("sum_recursion.posterior", with_(_1=lambda beta: (*beta[:-1], beta[-1] + np.int32(1)))),
    (
        "sum_recursion.add_transposed",
        lambda right: lambda v, first, stride, rows, at, tile: right(v, first, stride, rows, 0, tile),
    ),
]
SUM_FAULTS: list[tuple[str, Fault]] = [
    ("sums.powers", after(lambda *of: of[5].__setitem__(slice(None), of[5][0]))),
    ("sums.powers", after(lambda *of: of[5].__setitem__(slice(None), 0))),
    ("sums.shares_add_up", lambda right: lambda mass, now, total_m: right(mass, now, total_m) and mass.fill(1) is None),
    ("sum_recursion.advance_beta", with_(_9=lambda cleared: 0)),
    ("sums.gather_transposed", with_(_2=lambda first: 0)),
    ("sums.gather_transposed", lambda right: lambda tile, *rest: right(2 * tile, *rest)),
    ("sums.write_posteriors", with_(_7=lambda together: together and together + 1)),
]


@pytest.mark.parametrize(("operation", "fault"), [*RECURSION_FAULTS, *SUM_FAULTS])
def test_planted_faults_in_sums_are_told(
    operation: str, fault: Fault, monkeypatch: pytest.MonkeyPatch, nothing_is_left: None
) -> None:
    interpret_cpu(monkeypatch, operation, fault)
    assert first_of(*SUM_CHECKS) != []


def test_a_fault_in_the_reference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(self: reference.MaxPlus, *alternatives: torch.Tensor) -> tuple:
        best, choice = torch.stack(alternatives[::-1]).max(0)
        return best, len(alternatives) - 1 - choice

    monkeypatch.setattr(reference.MaxPlus, "combine", greedy)
    assert faults(list(tiny_ctc(np.random.default_rng(21), 120)), "reference") != []


def interpret_tangents(patch: pytest.MonkeyPatch, operation: str = "", fault: Fault | None = None) -> None:
    """Has tangents made by interpreted kernels, in poisoned memory, by one thread, in blocks."""
    interpret_cpu(patch, operation, fault)
    patch.setattr(cpu_backend, "ROWS_BYTES", 0)
    patch.setattr(problem, "SMALL_CELLS", 2**62)
    poison(patch)


def late(rng: np.random.Generator) -> Batch:
    """An utterance that most likely waits for 16 frames and hurries then: what can still reach the end comes from what
    could only just."""
    tokens = 1 + np.arange(60) % 5
    x = rng.normal(size=(1, 76, 6))
    x[0, np.arange(76), np.concatenate((np.zeros(16, np.int64), tokens))] += 2.5
    return Batch(torch.as_tensor(x, dtype=F32), torch.tensor([76]), lattice.ctc([tokens]))


def pair(rng: np.random.Generator, topology: str, tokens: int, spare: int, classes: int, wild: bool) -> Batch:
    """Two utterances that fit, the second shorter, with many equal neighbours among their tokens."""
    rows = [target(rng, count, classes - 1, 0) for count in (tokens, max(1, tokens - 7))]
    rows = [[WILDCARD if wild and rng.random() < 0.2 else token for token in row] for row in rows]
    if topology == "segments":
        made = lattice.segmentation(rows, [np.arange(len(row)) // 2 for row in rows], 1, classes - 1)
    else:
        made = lattice.simple_ctc(rows) if topology == "simple" else lattice.ctc(rows)
    lengths = torch.as_tensor(made.min_frames + np.array([spare, spare // 2]))
    x = torch.as_tensor(rng.normal(size=(2, int(lengths.max()), classes)), dtype=F32)
    x[1, lengths[1] :] = math.nan
    return Batch(x, lengths, made, x[:, :, 0] / 2 if wild else None)


@functools.cache
def small() -> tuple[tuple[Batch, torch.Tensor, Tangents], ...]:
    """Up to five vectors of lanes in three strips, 12 to 120 frames in blocks of 16, directions and what is right: huge
    moves, and much of what moves nothing, among them."""
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
    """The faults of the first batch that is not right; whatever ends in an error is one, and so is what is left to
    logarithms though it has a path."""
    for given, direction, right in small():
        try:
            met = tangent(given, direction)
        except (IndexError, AssertionError, ValueError, TypeError, OverflowError) as error:
            return [f"{type(error).__name__}: {error}"]
        scale = HUGE if direction.abs().max() >= HUGE else 1.0
        if found := tangent_faults(given, *((a, b / scale, c) for a, b, c in (right, met))):
            return found
    return []


def test_no_fault_without_a_fault_in_tangents(monkeypatch: pytest.MonkeyPatch, nothing_is_left: None) -> None:
    interpret_tangents(monkeypatch)
    assert first_small() == []


def dual(change: Any) -> Fault:
    """An operation on dual numbers whose result has another tangent, a function of it and the arguments."""

    def fault(right: Any) -> Any:
        def operation(*args: Any) -> Any:
            tangent, *rest = right(*args)
            return np.asarray(change(tangent, *args), np.float32), *rest

        return operation

    return fault


def halved(right: Any) -> Any:
    """A scale that directions are not divided by."""
    return lambda *of: 2 * right(*of)


def without(part: int) -> Any:
    """A number without its tangent."""
    return lambda a: (a[0] * 0, *a[1:])


TANGENT_FAULTS: list[tuple[str, Fault]] = [
    # Directions: whose, which frames, the mean, the largest, the scale, the wildcard's.
    ("sums.fetch_moves", with_(_1=lambda b: 0)),
    ("sums.fetch_moves", with_(_2=lambda t0: 0)),
    ("sums.fetch_moves", with_(_3=lambda frames: frames + WIDTH)),
    ("sums.fetch_moves", with_(_4=lambda classes: (*classes[:3], True))),
    ("sums.fetch_moves", with_(_5=lambda still: still + 1)),
    ("sums.fetch_moves", with_(_6=lambda tile: tile.copy())),
    ("sums.without_mean", lambda right: lambda moves, weights, *rest: right(moves, weights * 0, *rest)),
    ("sums.without_mean", lambda right: lambda moves, weights, *rest: right(moves, weights * 0 + 1, *rest)),
    ("sums.without_mean", then(lambda found: (found[0] * 0, found[1]))),
    ("sums.moves_and_weights", halved),
    ("sums.with_moves", with_(_4=lambda at: 0)),
    # Dual numbers.
    ("sum_recursion.added", dual(lambda d, a, b: a[0] + b[0])),
    ("sum_recursion.added", dual(lambda d, a, b: d - a[0])),
    ("sum_recursion.entered", dual(lambda d, own, *_: d - own[0])),
    ("sum_recursion.token_entered", dual(lambda d, own, *_: d - own[0])),
    ("sum_recursion.times", dual(lambda d, a, x: d - a[1] * x[0])),
    ("sum_recursion.times", dual(lambda d, a, x: 2 * d)),
    ("sum_recursion.times", dual(lambda d, a, x: d / 2)),
    ("sum_recursion.times", with_(_1=lambda x: (x[0] * 0, *x[1:]))),
    ("sum_recursion.times", with_(_0=lambda a: (a[0] * 0, *a[1:]))),
    ("sum_recursion.times", with_(_0=lambda a: (a[0], a[1] * 0 + 1, a[2]))),
    ("sum_recursion.posterior", with_(_0=lambda a: (a[0] * 0, *a[1:]))),
    ("sum_recursion.posterior", with_(_1=lambda a: (a[0] * 0, *a[1:]))),
    ("sum_recursion.posterior", then(lambda found: (found[1], found[1]))),
    ("sum_recursion.posterior", then(lambda found: (found[0], found[1] / 2))),
    # Rows: what is handed over, kept, filled.
    (
        "sum_recursion.put",
        lambda right: (
            lambda array, at, value: right(array, at, without(0)(value) if isinstance(value, tuple) else value)
        ),
    ),
    ("sums.restore", after(lambda row, odd, even, *_: odd[0].fill(0))),
    ("sums.save", after(lambda row, odd, even, saved, number: saved[0].fill(0))),
    ("sums.zero", then(lambda number: (number[0] + np.float32(np.nan), *number[1:]))),
    # Written: the frame's sum, its mass, the scale, where to.
    ("sums.write_tangents", with_(_1=lambda weights: -weights)),
    ("sums.write_tangents", with_(_1=lambda weights: 0 * weights)),
    ("sums.write_tangents", with_(_6=lambda scale: np.float32(1.0))),
    ("sums.shares_add_up", lambda right: lambda mass, now, total_m: right(mass, now, total_m) and mass.fill(1) is None),
    ("sums.write_tangents", with_(_8=lambda steps: (steps[0], 1, steps[2]))),
    ("sums.write_tangents", with_(_8=lambda steps: (*steps[:2], 1 + steps[2]))),
    ("sums.write_tangents", with_(_7=lambda first: max(0, first - 1))),
    ("sums.write_tangents", with_(_2=lambda classes: (classes[0], np.roll(classes[1], 1), *classes[2:]))),
    (
        "sum_recursion.load",
        lambda right: (
            lambda rows, at: right(rows, at) if not isinstance(rows, tuple) or at % 2 else without(0)(right(rows, at))
        ),
    ),
]


@pytest.mark.parametrize(("operation", "fault"), [*RECURSION_FAULTS, *TANGENT_FAULTS])
def test_planted_faults_in_tangents_are_told(
    operation: str, fault: Fault, monkeypatch: pytest.MonkeyPatch, nothing_is_left: None
) -> None:
    interpret_tangents(monkeypatch, operation, fault)
    assert first_small() != []


@functools.cache
def tiny() -> tuple:
    """Problems, directions, and what is right."""
    rng = np.random.default_rng(72)
    kinds = (tiny_ctc(rng, 30, optional=True, wild=True), tiny_simple(rng, 30, wild=True))
    kinds += (tiny_segments(rng, 30, optional=True), tiny_any(rng, 30))
    chosen = [problem for some in zip(*kinds) for problem in some if is_small(problem)]
    moves = [rng.normal(size=problem.log_probs.shape) for problem in chosen]
    return tuple((problem, move, enumerated(problem, move)) for problem, move in zip(chosen, moves))


def first_tiny(backend: str) -> list[str]:
    found = (enumeration_faults(*problem, backend, F64) for problem in tiny())
    return next((lines for lines in found if lines), [])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """And directions that are not made ready, moved by what moves nothing: float64 bears it."""

    def moves(self: GeneralTangents, b: int) -> tuple[np.ndarray, np.ndarray, float]:
        shift = np.random.default_rng(b).normal(size=int(self.lengths[b]))
        return np.ascontiguousarray(self.direction[b].double().numpy() + shift[:, None]), shift, 1.0

    monkeypatch.setattr(general_kernels, "ROWS_BYTES", 0)
    monkeypatch.setattr(GeneralTangents, "_moves", moves)


def set_all(flags: np.ndarray) -> np.ndarray:
    return flags | True


def no_detours(sources: np.ndarray) -> np.ndarray:
    return sources * 0 - 1


def constant(scores: tuple) -> tuple:
    return tuple(np.full_like(part, part[0]) for part in scores)


def unmoved(scores: tuple) -> tuple:
    return scores[0], *(0 * part for part in scores[1:])


def last_two(end: np.ndarray) -> np.ndarray:
    return np.arange(len(end)) > len(end) - 3


def emission(**changes: Any) -> Fault:
    """Emissions of which x, its stride, the wildcard's scores, the direction or the wildcard's are others."""
    return with_(_0=lambda given: tuple(changes.get(f"_{k}", lambda part: part)(part) for k, part in enumerate(given)))


def first_only(part: np.ndarray) -> np.ndarray:
    return np.repeat(part[:1], len(part), axis=0)


def occupancy(
    alpha: Any,
    beta: Any,
    gamma: Any,
    emit: Any,
    out: Any,
    out_wildcard: Any,
    t: int,
    *,
    divides: bool = True,
    by_mean: float = 1.0,
    beta_counts: bool = True,
    wildcard_frame: int | None = None,
) -> None:
    """As `log_sums._add_occupancy`, and wrong if asked."""
    size = len(emit)
    level = alpha[0][2:] + beta[0]
    share = np.exp(level - level.max())
    share = share / share.sum() if divides else share
    if len(alpha) == 2:
        move = alpha[1][2:] + beta[1]
        mean = (share * (move if beta_counts else alpha[1][2:])).sum()
        share = share * (move - by_mean * mean)
    for s in range(size):
        if emit[s] >= 0:
            out[t, emit[s]] += share[s]
        elif len(out_wildcard):
            out_wildcard[t if wildcard_frame is None else wildcard_frame] += share[s]


def wrong_occupancy(**wrong: Any) -> Fault:
    return lambda right: functools.partial(occupancy, **wrong)


LOG_FAULTS: list[tuple[str, Fault]] = [
    ("_next_row", with_(_1=lambda skip: skip & False)),
    ("_next_row", with_(_1=set_all)),
    ("_next_row", with_(_2=set_all)),
    ("_next_row", with_(_3=no_detours)),
    ("_previous_row", with_(_1=set_all)),
    ("_previous_row", with_(_2=set_all)),
    ("_previous_row", with_(_3=no_detours)),
    ("_previous_row", with_(_0=constant)),
    ("_first_row", with_(_1=lambda begin: np.arange(len(begin)) < 2)),
    ("_last_row", with_(_0=last_two)),
]
"""Told by sums and by tangents."""
LOG_SUM_FAULTS: list[tuple[str, Fault]] = [
    ("_total", with_(_1=lambda end: end & (np.arange(len(end)) % 2 == 1))),
    ("_add_occupancy", wrong_occupancy(divides=False)),
    ("_add_occupancy", wrong_occupancy(wildcard_frame=0)),
    ("_add_occupancy", with_(_5=lambda out_wildcard: out_wildcard[:0])),
    ("_emit", emission(_2=first_only)),
]
LOG_TANGENT_FAULTS: list[tuple[str, Fault]] = [
    ("_add_two", lambda right: lambda a, da, b, db: right(a, da, b, db) if min(a, b) > NEVER else (NEVER, 0.0)),
    ("_add_two", lambda right: lambda a, da, b, db: (right(a, da, b, db)[0], da)),
    ("_add_two", lambda right: lambda a, da, b, db: (right(a, da, b, db)[0], da + db)),
    ("_add", with_(_1=lambda b: (b[0], 0.0) if len(b) == 2 else b)),
    ("_times", lambda right: lambda a, *rest: (right(a, *rest)[0], *a[1:])),
    ("_previous_row", with_(_0=unmoved)),
    ("_first_row", with_(_0=unmoved)),
    ("_add_occupancy", wrong_occupancy(by_mean=0.0)),
    ("_add_occupancy", wrong_occupancy(by_mean=2.0)),
    ("_add_occupancy", wrong_occupancy(divides=False)),
    ("_add_occupancy", wrong_occupancy(beta_counts=False)),
    ("_emit", emission(_3=lambda direction: first_only(direction) if len(direction) else direction)),
    ("_emit", emission(_4=lambda own: first_only(own) if len(own) else own)),
    ("_begin_block", with_(_2=lambda k: max(k - 1, 0) if k else 1)),
    ("_next_row", lambda right: lambda *of: right(*of[:4], of[5], of[5])),
    ("_parts", with_(_1=lambda t: max(t - 1, 0))),
]


def test_no_fault_without_a_fault_in_logarithms(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> None:
    for fault in ({}, {"_add_occupancy": wrong_occupancy()}):
        monkeypatch.setattr(general_kernels, "log_sums", interpreted(log_sums, faults=fault))
        assert first_tiny("cpu") == []
        assert first_fault(mixed(), "cpu") == []
    monkeypatch.setitem(sys.modules, REFERENCE, interpreted(reference))
    assert first_tiny("reference") == []


@pytest.mark.parametrize(("operation", "fault"), [*LOG_FAULTS, *LOG_SUM_FAULTS])
def test_planted_faults_in_logarithms_are_told(operation: str, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(general_kernels, "log_sums", interpreted(log_sums, faults={operation: fault}))
    assert first_fault(mixed(), "cpu") != []


@pytest.mark.parametrize(("operation", "fault"), [*LOG_FAULTS, *LOG_TANGENT_FAULTS])
def test_planted_faults_in_tangents_of_logarithms_are_told(
    operation: str, fault: Fault, monkeypatch: pytest.MonkeyPatch, small_blocks: None
) -> None:
    monkeypatch.setattr(general_kernels, "log_sums", interpreted(log_sums, faults={operation: fault}))
    try:
        found = first_tiny("cpu")
    except IndexError as error:
        found = [str(error)]
    assert found != []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.autograd.grad((made * along).sum(), leaf)", "torch.autograd.grad((made * made * along).sum(), leaf)"),
        ("direction.to(torch.float64))", "direction.to(torch.float64).abs())"),
        ("(made == 0) | ~inside", "made != 0"),
    ],
)
def test_planted_faults_in_the_reference_are_told(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, REFERENCE, interpreted(reference, old, new))
    assert first_tiny("reference") != []
