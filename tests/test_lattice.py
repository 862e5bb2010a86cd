"""Topologies, against paths found by enumeration, and the arguments they refuse."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from oracles import ctc_paths, segment_paths

from ctc_align import lattice
from ctc_align.errors import KernelError


def walks(topology: lattice.Topology, frames: int) -> set[tuple[int, ...]]:
    """All paths that the first utterance of a topology allows, by its definition."""
    size, starts, finals = (int(getattr(topology, name)[0]) for name in ("states", "starts", "finals"))
    found = {(s,) for s in range(starts)}
    for _ in range(frames - 1):
        found = {
            (*path, s)
            for path in found
            for s in range(path[-1], min(path[-1] + 3, size))
            if s < path[-1] + 2 or topology.skip[0, s]
        }
    return {path for path in found if path[-1] >= size - finals}


@pytest.mark.parametrize("blank", [0, 1, 2])
@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5])
def test_ctc_paths(frames: int, blank: int) -> None:
    ids = [k for k in range(3) if k != blank]
    for length in range(4):
        for row in itertools.product(ids, repeat=length):
            topology = lattice.ctc([row], blank)
            found = walks(topology, frames)
            expected = dict(ctc_paths(frames, 3, row, blank))
            assert found == set(expected)
            assert all(tuple(topology.emit[0][list(path)]) == labels for path, labels in expected.items())
            assert bool(found) == (frames >= topology.min_frames[0])


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("words", [[], [0], [0, 0], [0, 1], [0, 0, 1], [0, 1, 2]])
def test_segment_paths(words: list[int], parts: int) -> None:
    row = [2, 2, 1][: len(words)]
    topology = lattice.segmentation([row], [words], parts, 9)
    for frames in range(1, 9):
        found = walks(topology, frames)
        expected = dict(segment_paths(frames, row, words, parts, 9))
        assert found == set(expected)
        assert all(tuple(topology.emit[0][list(path)]) == labels for path, labels in expected.items())
        assert bool(found) == (frames >= topology.min_frames[0])


def test_tokens_of_states() -> None:
    assert lattice.ctc([[4, 4]]).token.tolist() == [[-1, 0, -1, 1, -1]]
    assert lattice.segmentation([[4, 4]], [[0, 1]], 2, 9).token.tolist() == [[-1, 0, 0, -1, 1, 1, -1]]


def test_rows_are_padded() -> None:
    topology = lattice.ctc([[1, 2], [], [3]], blank=5)
    assert topology.emit.tolist() == [[5, 1, 5, 2, 5], [5, 0, 0, 0, 0], [5, 3, 5, 0, 0]]
    assert topology.states.tolist() == [5, 1, 3]
    assert topology.starts.tolist() == topology.finals.tolist() == [2, 1, 2]
    assert topology.min_frames.tolist() == [2, 0, 1]
    assert not topology.skip[1:, 3:].any()
    assert (topology.token[1, :] == -1).all()
    assert (topology.batch, topology.max_class) == (3, 5)


def test_empty_batch() -> None:
    assert (lattice.ctc([]).batch, lattice.ctc([]).max_class) == (0, -1)


@pytest.mark.parametrize(
    ("target", "blank", "said"),
    [
        ([1, 0, 2], 0, "target 1: token 1 (0) is the blank"),
        ([1, -3], 0, "target 1: token 1 (-3) is negative"),
        ([1, 2**32 + 1], 0, f"target 1: token 1 ({2**32 + 1}) is no class"),
        ([1.5], 0, "target 1: expected a row of token ids (L,), met float64 of shape (1,)"),
        ([[1, 2]], 0, "met int64 of shape (1, 2)"),
        (["a"], 0, "expected a row of token ids"),
        ([1], -1, "blank: expected the index of a class, met -1"),
        ([1], 2**31, "blank: expected the index of a class"),
    ],
)
def test_wrong_targets(target: list, blank: int, said: str) -> None:
    with pytest.raises(KernelError) as error:
        lattice.ctc([[1], target], blank)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("targets", "words", "parts", "silence", "said"),
    [
        ([[1]], [[0]], 0, 9, "met states_per_token 0"),
        ([[1]], [[0]], 1, -1, "silence -1"),
        ([[1]], [], 1, 9, "words: expected 1 rows as in targets, met 0"),
        ([[1, 2]], [[0]], 1, 9, "words of target 0: expected 2, one for each token, met 1"),
        ([[-2]], [[0]], 1, 9, "target 0: token 0 (-2) is negative"),
        ([[2**30]], [[0]], 3, 9, f"target 0: token {2**30} has no classes"),
    ],
)
def test_wrong_segments(targets: list, words: list, parts: int, silence: int, said: str) -> None:
    with pytest.raises(KernelError) as error:
        lattice.segmentation(targets, words, parts, silence)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("skip", np.zeros((1, 4), bool), "expected emit, skip, token and stay (1, 5)"),
        ("states", np.array([5, 5]), "the others (1,)"),
        ("states", np.array([6]), "states of utterance 0 is out of range: 6"),
        ("states", np.array([0]), "states of utterance 0 is out of range: 0"),
        ("starts", np.array([3]), "starts of utterance 0 is out of range: 3"),
        ("finals", np.array([0]), "finals of utterance 0 is out of range: 0"),
        ("emit", np.array([[0, 1, 0, -2, 0]], np.int32), "emit of utterance 0 is out of range: -2"),
    ],
)
def test_a_topology_that_kernels_could_not_walk(field: str, value: np.ndarray, said: str) -> None:
    with pytest.raises(KernelError) as error:
        dataclasses.replace(lattice.ctc([[1, 2]]), **{field: value})
    assert said in str(error.value)


def test_one_state_has_one_end() -> None:
    with pytest.raises(KernelError, match="starts of utterance 0 is out of range: 2"):
        dataclasses.replace(lattice.ctc([[]]), starts=np.array([2]))
