"""The checkers, seen to fail: faults planted in the CPU kernels must be told, each by the tests' own comparisons.

The patched source runs interpreted, on numpy's vectors; unpatched it must pass, so the source is tested twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from interpreted_checks import (
    against_enumeration,
    first_of,
    long_paths,
    paths,
    pruned_paths,
    quiet,
    shared_paths,
    sums,
    sums_in_blocks,
)
from kernel_problems import faults, tiny_ctc
from planted import interpret_cpu

pytestmark = pytest.mark.planted(
    "ctc_align/kernels/cpu", "ctc_align/kernels/reference.py", "ctc_align/kernels/__init__.py", "ctc_align/lattice"
)
PATH_CHECKS = (paths, pruned_paths, against_enumeration, shared_paths(0), shared_paths(32), long_paths)
SUM_CHECKS = (sums_in_blocks, sums, against_enumeration)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield from quiet()


def test_no_fault_without_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    interpret_cpu(monkeypatch)
    assert first_of(*PATH_CHECKS, *SUM_CHECKS) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Ties: step before stay, skip before step, entering before staying, another last state.
        ("step = greater(before, stays)", "step = ~greater(stays, before)"),
        ("enters = greater(into, own)", "enters = ~greater(own, into)"),
        ("step = greater(before, best)", "step = ~greater(best, before)"),
        ("skips = greater(jump, best)", "skips = ~greater(best, jump)"),
        ("step = greater(stays, other)", "step = ~greater(other, stays)"),
        ("s == size - 1 or value > best", "s == size - 1 or value >= best"),
        # Skips: none, everywhere, read wrongly on the way back; staying where it is forbidden.
        ("into = choose(mask_of(get(flags, w * 4 + 2)), best, stays)", "into = stays"),
        ("2 * odd_skip + skip[s]", "2 * odd_skip + 1"),
        ("2 * even_skip + skip[s]", "2 * even_skip + 1"),
        ("state -= 1 + (chosen & (", "state -= 1 + (("),
        ("state -= 2 if chosen >> WIDTH & 1 else chosen & 1", "state -= chosen & 1"),
        ("2 * odd_stay + stay[s]", "2 * odd_stay + 1"),
        ("(size > 1 and starts > 1)", "0"),
        # One off: vectors that can reach the goal, those that can be reached, frames, states, lanes.
        ("low = max(0, goal - 2 * (goal_frame - t0)) // 2", "low = max(0, goal + 64 - 2 * (goal_frame - t0)) // 2"),
        ("high = min(last_of_all // 2 + 1, t0 + now)", "high = min(last_of_all // 2 + 1, t0 + now - 1)"),
        ("for t in range(last, first, -1)", "for t in range(last, first + 1, -1)"),
        ("flags, frames - 1, state, states[b])", "flags, frames - 1, max(state - 1, 0), states[b])"),
        ("before = moved_up(own, load(odd, i - WIDTH))", "before = moved_up(own, own)"),
        # Between strips, groups, blocks and bands.
        ("put(hands, next_hand + k, get(odd, top))", "put(hands, next_hand + k, get(odd, top - 1))"),
        ("put(hands, next_hand + WIDTH + k, get(even, top))", "put(hands, next_hand + WIDTH + k, get(odd, top))"),
        ("store(hands, 0, load(column_in, at))", "store(hands, 0, splat(NEVER))"),
        ("if first > 0 and (not banded", "if first > 99 and (not banded"),
        ("hand, next_hand = next_hand, hand", "pass"),
        ("(from_state + 1) // 2, (to_state + 1) // 2)", "(from_state + 3) // 2, (to_state + 1) // 2)"),
        ("other = _limited(other, w * WIDTH, from_state // 2, to_state // 2)", "pass"),
        ("saved_even[t0 // block, i] = odd[i], even[i]", "saved_even[t0 // block, i] = odd[i], odd[i]"),
        # Dropped: without a proof, without being noted; the range does not grow; a tile ends a frame late.
        ("dropped < score - best_of_all - slack", "True"),
        ("dropped = max(dropped, here - best_of_all)", "pass"),
        ("                                high_v += 1\n", "                                pass\n"),
        ("first = max(tile * WIDTH - 1, 0)", "first = tile * WIDTH"),
    ],
)
def test_planted_faults_in_paths_are_told(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpret_cpu(monkeypatch, "viterbi", old, new)
    assert first_of(*PATH_CHECKS) != []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("emission_tiles", "first = base + t0 * stride", "first = base + (t0 + 1) * stride"),
        ("emission_tiles", "tile[row_of_used[u] * WIDTH + k] = wild[", "tile[row_of_used[u] * WIDTH] = wild["),
        ("emission_tiles", "rows[s % 2 * odd_rows + s // 2] =", "rows[s // 2] ="),
        ("long_viterbi", "self.saved[0][k, begin:end]", "self.saved[0][k - 1, begin:end]"),
        ("long_viterbi", "low * self.words", "low * self.words + 1"),
        ("long_viterbi", "last = f0", "last = f0 + 1"),
    ],
)
def test_planted_faults_beside_paths_are_told(name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpret_cpu(monkeypatch, name, old, new)
    assert first_of(*PATH_CHECKS, *SUM_CHECKS) != []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (
            "sums",
            "tm, te = added(om, oe, choose(jump, sm, em), choose(jump, se, ee))",
            "tm, te = added(om, oe, em, ee)",
        ),
        ("sums", "choose(jump, moved_down(bm, zm), moved_down(em, um))", "moved_down(em, um)"),
        ("sums", "(get(flags, w * 4 + 2) >> 1)", "(get(flags, w * 4 + 2) >> 2)"),
        ("sums", "(get(flags, w * 4 + 6) << (WIDTH - 1))", "0"),
        ("sums", "back_rows[1][s // 2] = 0", "pass"),
        ("sums", "offset + np.log(total_m)", "np.log(total_m)"),
        ("sums", "offset += centres[k]", "offset += centres[0]"),
        ("sums", "vm, ve = om, oe", "pass"),
        (
            "sums",
            "f0 = kept_from = (blocks - 1 - stage) * block",
            "f0 = kept_from = max(blocks - 2 - stage, 0) * block",
        ),
        ("sums", "at = (blocks - 1 - stage) * row", "at = max(blocks - 2 - stage, 0) * row"),
        ("sums", "mass[k] = np.float32(1.0) / mass[k]", "mass[k] = np.float32(1.0)"),
        ("sums", "for i in range(cleared):", "for i in range(0):"),
        ("sums", "gather_transposed(tile, everyone, c, out", "gather_transposed(tile, everyone, 0, out"),
        ("sums", "store(tile, c * WIDTH, load(tile, c * WIDTH) * total)", "pass"),
        ("sums", "if c >= together:", "if c > together:"),
        ("sums", "if t0 + k == last_frame:", "if t0 + k >= last_frame - 1:"),
        ("sums", "allowed(flags, w * 4 + 3, oe)", "oe"),
        ("scaled_numbers", "splat(np.float32(1 / 6))", "splat(np.float32(1 / 7))"),
        ("scaled_numbers", "x = choose(greater(x, least), x, least)", "pass"),
        (
            "scaled_numbers",
            "e = e + shifted_right(bits, 23) - splat(np.int32(127))",
            "e = e + shifted_right(bits, 23) - splat(np.int32(126))",
        ),
    ],
)
def test_planted_faults_in_sums_are_told(name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interpret_cpu(monkeypatch, name, old, new)
    assert first_of(*SUM_CHECKS) != []


def test_a_fault_in_the_reference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from ctc_align.kernels.reference import MaxPlus

    def greedy(self: MaxPlus, *alternatives: torch.Tensor) -> tuple:
        best, choice = torch.stack(alternatives[::-1]).max(0)
        return best, len(alternatives) - 1 - choice

    monkeypatch.setattr(MaxPlus, "combine", greedy)
    assert faults(list(tiny_ctc(np.random.default_rng(21), 120)), "reference") != []
