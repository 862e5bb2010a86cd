"""The checkers of tangents, seen to fail: faults planted in the kernels' source, which runs interpreted, must be told
by the tests' own comparisons. Unpatched it must pass, so the source is tested twice."""

from __future__ import annotations

import functools
import math
import sys
import types
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest
import simd_by_numpy
import torch
from kernel_problems import Batch, target, tiny_any, tiny_ctc, tiny_segments, tiny_simple
from planted import SIMD, STRIP, interpreted
from tangent_checks import Tangents, direction_for, enumerated, enumeration_faults, is_small, tangent, tangent_faults

from ctc_align import lattice
from ctc_align.kernels import cpu_log, cpu_problem, cpu_tangent, reference
from ctc_align.lattice import WILDCARD

REFERENCE = "ctc_align.kernels.reference"
KERNELS = (
    "cpu_emissions",
    "cpu_best_path",
    "cpu_scaled",
    "cpu_sum",
    "cpu_direction",
    "cpu_dual",
    "cpu_dual_rows",
    "cpu_dual_sum",
)
"""The fast kernel and what it is made of, in the order in which they import each other."""
F32, F64 = torch.float32, torch.float64
HUGE = 2.0**90


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Interpreted arithmetic warns where compiled code does not."""
    with np.errstate(all="ignore"):
        yield


def interpret(patch: pytest.MonkeyPatch, name: str = "", old: str = "", new: str = "") -> None:
    """Has tangents made by kernels on numpy's vectors, with a fault in the module of this name, in poisoned memory."""
    instead: dict[str, types.ModuleType] = {SIMD: simd_by_numpy}
    for each in KERNELS:
        original = import_module(f"ctc_align.kernels.{each}")
        instead[original.__name__] = interpreted(original, *((old, new) if each == name else ()), instead=instead)
    patch.setattr(cpu_tangent, "cpu_dual_sum", instead["ctc_align.kernels.cpu_dual_sum"])
    patch.setattr(cpu_tangent, "STRIP", STRIP)
    patch.setattr(cpu_tangent, "ROWS_BYTES", 0)
    patch.setattr(cpu_problem, "SMALL_CELLS", 2**62)  # one thread

    def poisoned(*parts: tuple) -> list[np.ndarray]:
        rows = aligned(*parts)
        for row in rows:
            row.view(np.uint8).fill(0xFF)
        return rows

    aligned = cpu_problem.aligned
    patch.setattr(cpu_tangent, "aligned", poisoned)


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


@pytest.fixture
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Utterances with a path must be done by the fast kernel itself."""
    differentiate = cpu_tangent.SlowTangents.differentiate

    def refused(self: cpu_tangent.SlowTangents, b: int, scores: np.ndarray, out: np.ndarray) -> None:
        differentiate(self, b, scores, out)
        if out.dtype == np.float32 and scores[b] > -np.inf:
            raise AssertionError("left to logarithms")

    monkeypatch.setattr(cpu_tangent.SlowTangents, "differentiate", refused)


def test_no_fault_without_a_fault(monkeypatch: pytest.MonkeyPatch, nothing_is_left: None) -> None:
    interpret(monkeypatch)
    assert first_small() == []


FAULTS = [
    # Directions: which frames, the mean, the largest, the scale.
    ("cpu_direction", "b * by_utterance", "0 * by_utterance"),
    ("cpu_direction", "min(WIDTH, frames - t0)", "WIDTH"),
    ("cpu_direction", "dense and aside", "aside"),
    ("cpu_direction", "load(mine, place) - mean", "load(mine, place)"),
    ("cpu_direction", "mean + load(mine, place) * load(own, place)", "mean + load(mine, place)"),
    ("cpu_direction", "splat(np.float32(1.0) / scale)", "splat(np.float32(1.0))"),
    ("cpu_direction", "splat(np.float32(1.0) / scale)", "splat(scale)"),
    ("cpu_direction", "at = t0 // WIDTH * size", "at = 0"),
    ("cpu_direction", "still = np.zeros(1, np.float32)", "still = np.ones(1, np.float32)"),
    # Dual numbers.
    ("cpu_dual", "ad * fa + bd * fb", "ad * fb + bd * fa"),
    ("cpu_dual", "ad * fa + bd * fb", "ad * fa + bd"),
    ("cpu_dual", "d = d * xm + m * xd", "d = d * xm + xd"),
    ("cpu_dual", "d = d * xm + m * xd", "d = d + m * xd"),
    ("cpu_dual", "d = d * xm + m * xd", "d = d * xm"),
    ("cpu_dual", "254 << 23", "253 << 23"),
    ("cpu_dual", "return m, d * from_bits(down)", "return m, d"),
    ("cpu_dual", "e + xe + ", "e + "),
    ("cpu_dual", "(ad * bm + am * bd) * power", "(ad * bm) * power"),
    ("cpu_dual", "(ad * bm + am * bd) * power", "(am * bd) * power"),
    ("cpu_dual", "(ad * bm + am * bd) * power", "ad * bm + am * bd"),
    # Rows of them: where they lie, what is gathered, what is written.
    ("cpu_dual_rows", "return 2 * at + WIDTH * (1 - s % 2)", "return 2 * at + WIDTH * (s % 2)"),
    ("cpu_dual_rows", "4 * at + 2 * WIDTH * (1 - s % 2)", "4 * at + 2 * WIDTH * (s % 2)"),
    ("cpu_dual_rows", "range(0, 4 * row, WIDTH)", "range(0, 2 * row, WIDTH)"),
    ("cpu_dual_rows", "range(0, 2 * row, WIDTH)", "range(0, row, WIDTH)"),
    ("cpu_dual_rows", "tile_d, rows, odd, xd", "tile_d, rows, w * WIDTH, xd"),
    ("cpu_dual_rows", "tile_d, rows, w * WIDTH, even_xd", "tile_d, rows, odd, even_xd"),
    ("cpu_dual_rows", "rows.shape[0] // 2", "rows.shape[0] // 2 + WIDTH"),
    ("cpu_dual_rows", "load(tile, at) * load(mass, 0) - ", "load(tile, at) * load(mass, 0) + "),
    ("cpu_dual_rows", " - load(weights, at) * total", ""),
    ("cpu_dual_rows", "mass[k] = scale / mass[k]", "mass[k] = 1 / mass[k]"),
    ("cpu_dual_rows", "mass[k] = scale / mass[k]", "mass[k] = scale"),
    ("cpu_dual_rows", "place_out + k * steps[1]", "place_out + k"),
    ("cpu_dual_rows", "used[u] * steps[2]", "u * steps[2]"),
    # The walk: hand-over between strips, skips, stays, what is kept.
    ("cpu_dual_sum", "put(hand_r, part * WIDTH, get(state_r, 4 * at", "put(hand_r, part * WIDTH, get(state_r, 0 * at"),
    ("cpu_dual_sum", "1 - hand", "hand"),
    ("cpu_dual_sum", "(4 * hand + part) * WIDTH + k", "(4 * hand + part) * WIDTH"),
    ("cpu_dual_sum", "4 * top + (part + 1) * WIDTH - 1", "4 * top + part * WIDTH"),
    ("cpu_dual_sum", "put(hand_e, 0, np.int32(0))", "pass"),
    ("cpu_dual_sum", "moved_up(od, load(state_r, r - 3 * WIDTH))", "moved_up(od, load(state_r, r - 4 * WIDTH))"),
    ("cpu_dual_sum", "moved_up(ed, load(state_r, r - WIDTH))", "moved_up(ed, load(state_r, r - 3 * WIDTH))"),
    ("cpu_dual_sum", "choose(jump, sd, ed)", "ed"),
    ("cpu_dual_sum", "choose(jump, sd, ed)", "sd"),
    ("cpu_dual_sum", "added(om, od, allowed(flags, w * 4 + 3, oe), em, ed, ee)", "added(om, od, oe, em, ed, ee)"),
    ("cpu_dual_sum", "added(tm, td, te, bm, bd, allowed(flags, w * 4 + 2, be))", "tm, td, te"),
    ("cpu_dual_sum", "times(sm, sd, se, blank_m, blank_d, blank_e)", "times(sm, sd, se, blank_m, nothing, blank_e)"),
    ("cpu_dual_sum", "load(even_xd, j)", "load(xd, j)"),
    ("cpu_dual_sum", "if t0 >= kept_from:", "if t0 > kept_from:"),
    ("cpu_dual_sum", "(t0 + k - kept_from) * width", "(t0 - kept_from) * width"),
    ("cpu_dual_sum", "store(kept_r, 4 * p + WIDTH, td)", "store(kept_r, 4 * p + WIDTH, sd)"),
    # The way back.
    ("cpu_dual_sum", "if t0 + k == last_frame:", "if t0 + k == last_frame - 1:"),
    ("cpu_dual_sum", "choose(jump, moved_down(bd, zd), moved_down(ed, ud))", "moved_down(ed, ud)"),
    ("cpu_dual_sum", "moved_down(bd, zd)", "moved_down(bd, ud)"),
    ("cpu_dual_sum", "zm, zd, ze = bm, bd, be", "zm, ze = bm, be"),
    ("cpu_dual_sum", "get(flags, w * 4 + 2) >> 1", "get(flags, w * 4 + 2)"),
    ("cpu_dual_sum", "get(flags, w * 4 + 6) <<", "get(flags, w * 4 + 2) <<"),
    ("cpu_dual_sum", "moved_down(od, vd)", "moved_down(od, ud)"),
    ("cpu_dual_sum", "added(bm, bd, be, nm, nd, choose(over, ne, never))", "added(bm, bd, be, nm, nd, ne)"),
    ("cpu_dual_sum", "um, ud, ue = em, ed, ee", "um, ue = em, ee"),
    ("cpu_dual_sum", "weight = weight + odd + even", "weight = weight + odd"),
    ("cpu_dual_sum", "blank = blank + even_d", "blank = even_d"),
    ("cpu_dual_sum", "store(gamma, j, odd_d)", "store(gamma, j, odd)"),
    ("cpu_dual_sum", "store(back_r, r + WIDTH, cd)", "store(back_r, r + WIDTH, bd)"),
    ("cpu_dual_sum", "add_transposed(gamma, j, width, rows, odd_rows + w", "add_transposed(gamma, j, width, rows, w"),
    # Stages, blocks, what can be reached, the end.
    ("cpu_dual_sum", "(blocks - 1 - stage) * row, state_r", "(blocks - stage) * row, state_r"),
    ("cpu_dual_sum", "f1 if stage != 0 else f0", "f1 if stage < 0 else f0"),
    ("cpu_dual_sum", "t0 // block * row)", "(t0 // block + 1) * row)"),
    ("cpu_dual_sum", "0, frames, (blocks - 1) * block", "0, frames, blocks * block"),
    ("cpu_dual_sum", "2 * (frames - 1 - t0)", "2 * (frames - 40 - t0)"),
    ("cpu_dual_sum", "(t0 + now + WIDTH - 1) // WIDTH", "(t0 + now - 1) // WIDTH"),
    ("cpu_dual_sum", "at = t0 // WIDTH * area", "at = 0"),
    ("cpu_dual_sum", "range(size - finals[b], size):", "range(size - 1, size):"),
    ("cpu_dual_sum", "b * steps[0] + t0 * steps[1]", "b * steps[0] + t0"),
    ("cpu_dual_sum", "own, at = weights[at : at + area],", "own, at = weights[:area],"),
    ("cpu_dual_sum", "store(state_r, i + WIDTH, nothing)", "pass"),
    ("cpu_dual_sum", "store(back_r, i + WIDTH, nothing)", "pass"),
]


@pytest.mark.parametrize(("name", "old", "new"), FAULTS)
def test_planted_faults_are_told(
    name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch, nothing_is_left: None
) -> None:
    interpret(monkeypatch, name, old, new)
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

    def moves(self: cpu_tangent.SlowTangents, b: int) -> tuple[np.ndarray, np.ndarray, float]:
        shift = np.random.default_rng(b).normal(size=int(self.lengths[b]))
        return np.ascontiguousarray(self.direction[b].double().numpy() + shift[:, None]), shift, 1.0

    monkeypatch.setattr(cpu_tangent, "ROWS_BYTES", 0)
    monkeypatch.setattr(cpu_tangent.SlowTangents, "_moves", moves)


def test_no_fault_without_a_fault_in_logarithms(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> None:
    monkeypatch.setattr(cpu_tangent, "cpu_log", interpreted(cpu_log))
    monkeypatch.setitem(sys.modules, REFERENCE, interpreted(reference))
    assert first_tiny("cpu") == first_tiny("reference") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if a < b:", "if a > b:"),
        ("ratio / (1.0 + ratio)", "ratio"),
        ("da + (db - da)", "da + db"),
        ("if stay[s]:\n            a, da = before", "if True:\n            a, da = before"),
        ("if skip[s]:\n            a, da", "if True:\n            a, da"),
        ("a + scores[s], da + moves[s]", "a + scores[s], da"),
        ("before[0, p + 2], before[1, p + 2]", "before[0, p + 2], before[1, s]"),
        ("beta[0, s] + scores[s], beta[1, s] + moves[s]", "beta[0, s] + scores[s], beta[1, s]"),
        ("if stay[s]:\n            a, da = _add", "if True:\n            a, da = _add"),
        ("s + 2 < size and skip[s + 2]:\n            a, da", "s + 2 < size:\n            a, da"),
        ("_add(beta[0, p], beta[1, p], w[0, s], w[1, s])", "beta[0, p], beta[1, p]"),
        ("alpha[1, s + 2] + beta[1, s] - mean", "alpha[1, s + 2] + beta[1, s]"),
        ("mean /= total", "pass"),
        ("gamma[s] / total * (", "gamma[s] * ("),
        ("alpha[1, s + 2] + beta[1, s])\n    mean", "alpha[1, s + 2])\n    mean"),
        ("own_direction[t] if", "own_direction[0] if"),
        ("else direction[t, emit[s]]", "else direction[0, emit[s]]"),
        ("row[1, s + 2] = moves[s] if begin[s] else 0.0", "row[1, s + 2] = 0.0"),
        ("alpha[0] = saved[blocks - 1 - stage]", "alpha[0] = saved[blocks - stage - 2]"),
        ("first if stage < 0 else first + 1", "first"),
        ("_add_tangents(alpha[t % block]", "_add_tangents(alpha[0]"),
        ("alpha[(t - 1) % block]", "alpha[t % block]"),
        ("0.0 if end[s] else -np.inf", "0.0 if s > size - 3 else -np.inf"),
    ],
)
def test_planted_faults_in_logarithms_are_told(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch, small_blocks: None
) -> None:
    monkeypatch.setattr(cpu_tangent, "cpu_log", interpreted(cpu_log, old, new))
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
