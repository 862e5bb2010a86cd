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
from ctc_align.kernels import reference
from ctc_align.kernels.cpu import log_sums, problem, tangents
from ctc_align.lattice import WILDCARD

pytestmark = pytest.mark.planted(
    "ctc_align/kernels/cpu", "ctc_align/kernels/reference.py", "ctc_align/kernels/__init__.py", "ctc_align/lattice"
)
REFERENCE = "ctc_align.kernels.reference"
KERNELS = (
    "emission_tiles",
    "viterbi",
    "scaled_numbers",
    "sums",
    "dual_numbers",
    "tangent_sums",
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
        original = import_module(f"ctc_align.kernels.cpu.{each}")
        instead[original.__name__] = interpreted(original, *((old, new) if each == name else ()), instead=instead)
    patch.setattr(tangents, "tangent_sums", instead["ctc_align.kernels.cpu.tangent_sums"])
    patch.setattr(tangents, "STRIP", STRIP)
    patch.setattr(tangents, "ROWS_BYTES", 0)
    patch.setattr(problem, "SMALL_CELLS", 2**62)  # one thread

    def poisoned(*parts: tuple) -> list[np.ndarray]:
        rows = aligned(*parts)
        for row in rows:
            row.view(np.uint8).fill(0xFF)
        return rows

    aligned = problem.aligned
    patch.setattr(tangents, "aligned", poisoned)


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
    differentiate = tangents.GeneralTangents.differentiate

    def refused(self: tangents.GeneralTangents, b: int, scores: np.ndarray, out: np.ndarray) -> None:
        differentiate(self, b, scores, out)
        if out.dtype == np.float32 and scores[b] > -np.inf:
            raise AssertionError("left to logarithms")

    monkeypatch.setattr(tangents.GeneralTangents, "differentiate", refused)


def test_no_fault_without_a_fault(monkeypatch: pytest.MonkeyPatch, nothing_is_left: None) -> None:
    interpret(monkeypatch)
    assert first_small() == []


FAULTS = [
    # Directions: which frames, the mean, the largest, the scale.
    ("dual_numbers", "b * by_utterance", "0 * by_utterance"),
    ("dual_numbers", "min(WIDTH, frames - t0)", "WIDTH"),
    ("dual_numbers", "dense and aside", "aside"),
    ("dual_numbers", "load(mine, place) - mean", "load(mine, place)"),
    ("dual_numbers", "mean + load(mine, place) * load(own, place)", "mean + load(mine, place)"),
    ("dual_numbers", "splat(np.float32(1.0) / scale)", "splat(np.float32(1.0))"),
    ("dual_numbers", "splat(np.float32(1.0) / scale)", "splat(scale)"),
    ("dual_numbers", "at = t0 // WIDTH * size", "at = 0"),
    ("dual_numbers", "still = np.zeros(1, np.float32)", "still = np.ones(1, np.float32)"),
    # Dual numbers.
    ("dual_numbers", "ad * fa + bd * fb", "ad * fb + bd * fa"),
    ("dual_numbers", "ad * fa + bd * fb", "ad * fa + bd"),
    ("dual_numbers", "d = d * xm + m * xd", "d = d * xm + xd"),
    ("dual_numbers", "d = d * xm + m * xd", "d = d + m * xd"),
    ("dual_numbers", "d = d * xm + m * xd", "d = d * xm"),
    ("dual_numbers", "254 << 23", "253 << 23"),
    ("dual_numbers", "return m, d * from_bits(down)", "return m, d"),
    ("dual_numbers", "e + xe + ", "e + "),
    ("dual_numbers", "(ad * bm + am * bd) * power", "(ad * bm) * power"),
    ("dual_numbers", "(ad * bm + am * bd) * power", "(am * bd) * power"),
    ("dual_numbers", "(ad * bm + am * bd) * power", "ad * bm + am * bd"),
    # Rows of them: where they lie, what is gathered, what is written.
    ("dual_numbers", "return 2 * at + WIDTH * (1 - s % 2)", "return 2 * at + WIDTH * (s % 2)"),
    ("dual_numbers", "4 * at + 2 * WIDTH * (1 - s % 2)", "4 * at + 2 * WIDTH * (s % 2)"),
    ("dual_numbers", "range(0, 4 * row, WIDTH)", "range(0, 2 * row, WIDTH)"),
    ("dual_numbers", "range(0, 2 * row, WIDTH)", "range(0, row, WIDTH)"),
    ("dual_numbers", "tile_d, rows, odd, xd", "tile_d, rows, w * WIDTH, xd"),
    ("dual_numbers", "tile_d, rows, w * WIDTH, even_xd", "tile_d, rows, odd, even_xd"),
    ("dual_numbers", "rows.shape[0] // 2", "rows.shape[0] // 2 + WIDTH"),
    ("dual_numbers", "load(tile, at) * load(mass, 0) - ", "load(tile, at) * load(mass, 0) + "),
    ("dual_numbers", " - load(weights, at) * total", ""),
    ("dual_numbers", "mass[k] = scale / mass[k]", "mass[k] = 1 / mass[k]"),
    ("dual_numbers", "mass[k] = scale / mass[k]", "mass[k] = scale"),
    ("dual_numbers", "place_out + k * steps[1]", "place_out + k"),
    ("dual_numbers", "used[u] * steps[2]", "u * steps[2]"),
    # The walk: hand-over between strips, skips, stays, what is kept.
    ("tangent_sums", "put(hand_r, part * WIDTH, get(state_r, 4 * at", "put(hand_r, part * WIDTH, get(state_r, 0 * at"),
    ("tangent_sums", "1 - hand", "hand"),
    ("tangent_sums", "(4 * hand + part) * WIDTH + k", "(4 * hand + part) * WIDTH"),
    ("tangent_sums", "4 * top + (part + 1) * WIDTH - 1", "4 * top + part * WIDTH"),
    ("tangent_sums", "put(hand_e, 0, np.int32(0))", "pass"),
    ("tangent_sums", "moved_up(od, load(state_r, r - 3 * WIDTH))", "moved_up(od, load(state_r, r - 4 * WIDTH))"),
    ("tangent_sums", "moved_up(ed, load(state_r, r - WIDTH))", "moved_up(ed, load(state_r, r - 3 * WIDTH))"),
    ("tangent_sums", "choose(jump, sd, ed)", "ed"),
    ("tangent_sums", "choose(jump, sd, ed)", "sd"),
    ("tangent_sums", "added(om, od, allowed(flags, w * 4 + 3, oe), em, ed, ee)", "added(om, od, oe, em, ed, ee)"),
    ("tangent_sums", "added(tm, td, te, bm, bd, allowed(flags, w * 4 + 2, be))", "tm, td, te"),
    ("tangent_sums", "times(sm, sd, se, blank_m, blank_d, blank_e)", "times(sm, sd, se, blank_m, nothing, blank_e)"),
    ("tangent_sums", "load(even_xd, j)", "load(xd, j)"),
    ("tangent_sums", "if t0 >= kept_from:", "if t0 > kept_from:"),
    ("tangent_sums", "(t0 + k - kept_from) * width", "(t0 - kept_from) * width"),
    ("tangent_sums", "store(kept_r, 4 * p + WIDTH, td)", "store(kept_r, 4 * p + WIDTH, sd)"),
    # The way back.
    ("tangent_sums", "if t0 + k == last_frame:", "if t0 + k == last_frame - 1:"),
    ("tangent_sums", "choose(jump, moved_down(bd, zd), moved_down(ed, ud))", "moved_down(ed, ud)"),
    ("tangent_sums", "moved_down(bd, zd)", "moved_down(bd, ud)"),
    ("tangent_sums", "zm, zd, ze = bm, bd, be", "zm, ze = bm, be"),
    ("tangent_sums", "get(flags, w * 4 + 2) >> 1", "get(flags, w * 4 + 2)"),
    ("tangent_sums", "get(flags, w * 4 + 6) <<", "get(flags, w * 4 + 2) <<"),
    ("tangent_sums", "moved_down(od, vd)", "moved_down(od, ud)"),
    ("tangent_sums", "added(bm, bd, be, nm, nd, choose(over, ne, never))", "added(bm, bd, be, nm, nd, ne)"),
    ("tangent_sums", "um, ud, ue = em, ed, ee", "um, ue = em, ee"),
    ("tangent_sums", "weight = weight + odd + even", "weight = weight + odd"),
    ("tangent_sums", "blank = blank + even_d", "blank = even_d"),
    ("tangent_sums", "store(gamma, j, odd_d)", "store(gamma, j, odd)"),
    ("tangent_sums", "store(back_r, r + WIDTH, cd)", "store(back_r, r + WIDTH, bd)"),
    ("tangent_sums", "add_transposed(gamma, j, width, rows, odd_rows + w", "add_transposed(gamma, j, width, rows, w"),
    # Stages, blocks, what can be reached, the end.
    ("tangent_sums", "(blocks - 1 - stage) * row, state_r", "(blocks - stage) * row, state_r"),
    ("tangent_sums", "f1 if stage != 0 else f0", "f1 if stage < 0 else f0"),
    ("tangent_sums", "t0 // block * row)", "(t0 // block + 1) * row)"),
    ("tangent_sums", "0, frames, (blocks - 1) * block", "0, frames, blocks * block"),
    ("tangent_sums", "2 * (frames - 1 - t0)", "2 * (frames - 40 - t0)"),
    ("tangent_sums", "(t0 + now + WIDTH - 1) // WIDTH", "(t0 + now - 1) // WIDTH"),
    ("tangent_sums", "at = t0 // WIDTH * area", "at = 0"),
    ("tangent_sums", "range(size - finals[b], size):", "range(size - 1, size):"),
    ("tangent_sums", "b * steps[0] + t0 * steps[1]", "b * steps[0] + t0"),
    ("tangent_sums", "own, at = weights[at : at + area],", "own, at = weights[:area],"),
    ("tangent_sums", "store(state_r, i + WIDTH, nothing)", "pass"),
    ("tangent_sums", "store(back_r, i + WIDTH, nothing)", "pass"),
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

    def moves(self: tangents.GeneralTangents, b: int) -> tuple[np.ndarray, np.ndarray, float]:
        shift = np.random.default_rng(b).normal(size=int(self.lengths[b]))
        return np.ascontiguousarray(self.direction[b].double().numpy() + shift[:, None]), shift, 1.0

    monkeypatch.setattr(tangents, "ROWS_BYTES", 0)
    monkeypatch.setattr(tangents.GeneralTangents, "_moves", moves)


def test_no_fault_without_a_fault_in_logarithms(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> None:
    monkeypatch.setattr(tangents, "log_sums", interpreted(log_sums))
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
    monkeypatch.setattr(tangents, "log_sums", interpreted(log_sums, old, new))
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
