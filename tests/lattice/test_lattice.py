"""Topologies, against paths found by enumeration, and the arguments they refuse."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from kernel_problems import walks
from oracles import Path, ctc_paths, segment_paths, simple_ctc_paths

from ctc_align import lattice
from ctc_align.errors import KernelError
from ctc_align.lattice import WILDCARD, topology


def paths(topology: lattice.Topology, frames: int, b: int = 0) -> set[Path]:
    """All paths that an utterance of a topology allows, by its definition."""
    _, entered, begin, end = walks(topology, b)
    found: set[Path] = {(s,) for s in begin}
    for _ in range(frames - 1):
        found = {
            (*path, s) for path in found for s in range(len(entered)) if path[-1] in entered[s]
        }
    return {path for path in found if path[-1] in end}


def agrees(topology: lattice.Topology, frames: int, oracle: Iterable[tuple[Path, Path]]) -> bool:
    """Whether there is any path; the topology must have the oracle's, each one once, with its
    labels."""
    expected = list(oracle)
    labels = dict(expected)
    assert len(labels) == len(expected), "the oracle has a path twice"
    assert paths(topology, frames) == set(labels)
    assert all(tuple(topology.emit[0][list(path)]) == labels[path] for path in labels)
    assert bool(labels) == (frames >= topology.min_frames[0])
    return bool(labels)


def same(got: object, expected: object) -> None:
    """Fields of two topologies or detours must be the same, in shape, type and padding."""
    for field in dataclasses.fields(expected):  # type: ignore[arg-type]
        value, right = getattr(got, field.name), getattr(expected, field.name)
        if right is None or dataclasses.is_dataclass(right):
            assert (value is None) == (right is None), field.name
            if right is not None:
                same(value, right)
        else:
            assert (value.dtype, value.shape, value.tolist()) == (
                right.dtype,
                right.shape,
                right.tolist(),
            ), field.name


def rows(ids: Iterable[int], most: int) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(
        itertools.product(ids, repeat=length) for length in range(most + 1)
    )


@pytest.mark.parametrize("frames", [1, 2, 3, 4])
def test_simple_ctc_paths(frames: int) -> None:
    for row in rows([0, 2, WILDCARD], 4):
        agrees(lattice.simple_ctc([row], 1), frames, simple_ctc_paths(frames, 3, row, 1))


@pytest.mark.parametrize("blank", [0, 1, 2])
def test_ctc_paths_with_and_without_optional_tokens(blank: int) -> None:
    found = 0
    for row in rows([k for k in (0, 1, 2, WILDCARD) if k != blank], 3):
        for optional in itertools.product([False, True], repeat=0 if blank else len(row)):
            topology = lattice.ctc([row], blank, [optional] if optional else None)
            assert (topology.detours is not None) == any(optional)
            for frames in range(1, 5):
                found += agrees(
                    topology, frames, ctc_paths(frames, 3, row, blank, optional or None)
                )
    assert found > 70


def test_long_runs_of_optional_tokens() -> None:
    row, optional = [1, 1, 2, 1, 2], [True, True, False, True, True]
    topology = lattice.ctc([row], 0, [optional])
    assert topology.min_frames[0] == 1
    for frames in range(1, 6):
        agrees(topology, frames, ctc_paths(frames, 3, row, 0, optional))


@pytest.mark.parametrize(
    "passages", [[(0, 2)], [(1, 2)], [(1, 3)], [(0, 1), (1, 3)], [(0, 1), (2, 3)], [(0, 3)], []]
)
def test_passages_are_kept_or_left_out_as_a_whole(passages: list[tuple[int, int]]) -> None:
    for row, frames in itertools.product(rows([1, 2], 3), range(1, 6)):
        inside = [(first, last) for first, last in passages if last <= len(row)]
        topology = lattice.ctc_passages(row, inside)
        expected: Counter[Path] = Counter()
        for chosen in itertools.product([False, True], repeat=len(inside)):
            out = {
                place
                for (first, last), left in zip(inside, chosen)
                if left
                for place in range(first, last)
            }
            kept = [token for place, token in enumerate(row) if place not in out]
            expected.update(labels for _, labels in ctc_paths(frames, 3, kept, 0))
        found = [tuple(topology.emit[0][list(path)].tolist()) for path in paths(topology, frames)]
        assert Counter(found) == expected
        assert bool(expected) == (frames >= topology.min_frames[0])


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("words", [[], [0], [0, 0], [0, 1], [0, 0, 1], [0, 1, 2], [3, 1, 3]])
@pytest.mark.parametrize("row", [[2, 2, 1], [2, WILDCARD, WILDCARD]])
def test_segment_paths(row: list[int], words: list[int], parts: int) -> None:
    row = row[: len(words)]
    topology = lattice.segmentation([row], [words], parts, 9)
    assert topology.detours is None
    for frames in range(1, 9):
        agrees(topology, frames, segment_paths(frames, row, words, parts, 9))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    "words", [[0], [0, 0], [0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 2], [0, 1, 0], [5, 5, 5, 5]]
)
def test_optional_segment_paths(words: list[int], parts: int) -> None:
    row = [2, WILDCARD, 1, 2][: len(words)]
    for optional in itertools.product([False, True], repeat=len(row)):
        topology = lattice.segmentation([row], [words], parts, 9, [optional])
        for frames in range(1, 6):
            agrees(topology, frames, segment_paths(frames, row, words, parts, 9, optional))


@pytest.mark.parametrize("seed", range(20))
def test_padded_targets_are_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, longest, blank = (
        int(rng.integers(0, 7)),
        int(rng.integers(0, 9)),
        int(rng.integers(0, 3)),
    )
    lengths = rng.integers(0, longest + 1, batch) if seed % 3 else np.full(batch, longest)
    ids = [k for k in (WILDCARD, 0, 1, 2, 3) if k != blank]
    given = [rng.choice(ids, length) for length in lengths]
    targets = rng.choice([-(2**40), blank, 2**40, 1], (batch, longest))
    for b, row in enumerate(given):
        targets[b, : len(row)] = row
    same(lattice.ctc_padded(targets, lengths, blank), lattice.ctc(given, blank))


def test_too_many_optional_tokens_in_a_row_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "MOST_SOURCES_BYTES", 10_000)
    lattice.ctc([[1] * 20], 0, [[k % 2 == 0 for k in range(20)]])
    with pytest.raises(
        KernelError,
        match=r"1 x 101 states with up to 49 detours each need 19796 bytes, over the limit of 10000",
    ):
        lattice.ctc([[1] * 50], 0, [[True] * 50])


def test_what_is_known_of_a_topology() -> None:
    plain = lattice.ctc([[1, 2], [3]])
    assert (plain.max_class, plain.has_wildcard, plain.all_stay) == (3, False, True)
    wild = dataclasses.replace(plain, emit=np.where(plain.emit == 3, WILDCARD, plain.emit))
    assert (wild.max_class, wild.has_wildcard, wild.all_stay) == (2, True, True)
    assert not lattice.simple_ctc([[1], []]).all_stay
    assert lattice.simple_ctc([[], []]).all_stay
    bare = lattice.Topology(
        *(getattr(plain, field.name) for field in dataclasses.fields(plain)[:7])
    )
    assert bare.stay.dtype == np.bool_
    assert bare.stay.shape == plain.emit.shape
    assert bare.stay.all()
    assert (lattice.ctc([]).batch, lattice.ctc([]).max_class) == (0, -1)


def test_rows_are_padded() -> None:
    topology = lattice.ctc([[1, 2], [], [3]], blank=5)
    assert topology.emit.tolist() == [[5, 1, 5, 2, 5], [5, 0, 0, 0, 0], [5, 3, 5, 0, 0]]
    assert topology.states.tolist() == [5, 1, 3]
    assert topology.starts.tolist() == topology.finals.tolist() == [2, 1, 2]
    assert topology.min_frames.tolist() == [2, 0, 1]
    assert not topology.skip[1:, 3:].any()
    assert (topology.token[1, :] == -1).all()
    assert (topology.batch, topology.max_class) == (3, 5)
    assert topology.token[0].tolist() == [-1, 0, -1, 1, -1]
    assert lattice.segmentation([[4, 4]], [[0, 1]], 2, 9).token.tolist() == [
        [-1, 0, 0, -1, 1, 1, -1]
    ]


def test_stacked_topologies_are_those_of_one_batch() -> None:
    rows, words = [[1, 2, 2], [], [3, WILDCARD], [1]], [[0, 0, 1], [], [0, 1], [0]]
    may = [[False, True, False], [], [True, True], [False]]
    for make in (
        lambda *of: lattice.ctc([rows[b] for b in of]),
        lambda *of: lattice.simple_ctc([rows[b] for b in of]),
        lambda *of: lattice.ctc([rows[b] for b in of], 0, [may[b] for b in of]),
        lambda *of: lattice.segmentation([rows[b] for b in of], [words[b] for b in of], 2, 9),
        lambda *of: lattice.segmentation(
            [rows[b] for b in of], [words[b] for b in of], 2, 9, [may[b] for b in of]
        ),
    ):
        for parts in ([(0,), (1,), (2,), (3,)], [(1, 0), (3,), (2, 1)], [(3, 1), ()]):
            stacked = lattice.stack([make(*part) for part in parts])
            same(stacked, make(*itertools.chain(*parts)))
            dataclasses.replace(stacked)
    assert lattice.stack([]).batch == 0


def test_a_stack_of_all_kinds_has_the_paths_of_each() -> None:
    kinds = [
        lattice.ctc([[1, 1]]),
        lattice.simple_ctc([[1, 2, 1], [2]]),
        lattice.segmentation([[1, WILDCARD]], [[0, 1]], 2, 9, [[True, False]]),
        lattice.ctc([[]]),
        lattice.ctc([[1, 2, 1, 1]], 0, [[True, True, True, False]]),
    ]
    stacked = lattice.stack(kinds)
    dataclasses.replace(stacked)
    assert (stacked.batch, stacked.has_wildcard, stacked.all_stay) == (6, True, False)
    b = 0
    for kind in kinds:
        for own in range(kind.batch):
            assert stacked.min_frames[b] == kind.min_frames[own]
            assert (
                stacked.token[b].tolist()[: kind.states[own]]
                == kind.token[own].tolist()[: kind.states[own]]
            )
            for frames in range(1, 6):
                assert paths(stacked, frames, b) == paths(kind, frames, own)
            b += 1


TWO = [[1, 2], [3, 4]]
ONES = np.ones((2, 3), int)
PASSAGES = "passages: expected ascending (first, last) of 3 tokens, got ["


@pytest.mark.parametrize(
    ("make", "arguments", "said"),
    [
        ("ctc", ([[1], [1, 0, 2]], 0), "target 1: token 1 (0) is the blank"),
        ("ctc", ([[1], [1, -3]], 0), "target 1: token 1 (-3) is negative"),
        ("ctc", ([[1], [1, 2**32 + 1]], 0), f"target 1: token 1 ({2**32 + 1}) is not a class"),
        (
            "ctc",
            ([[1], [1.5]], 0),
            "target 1: expected a row of token ids (L,), got float64 of shape (1,)",
        ),
        ("ctc", ([[1], [[1, 2]]], 0), "got int64 of shape (1, 2)"),
        ("ctc", ([[1], ["a"]], 0), "expected a row of token ids"),
        ("ctc", ([[1]], -1), "blank: expected the index of a class, got -1"),
        ("ctc", ([[1]], 2**31), "blank: expected the index of a class"),
        ("ctc", ([[1], [5]], 5, [[True], [True]]), "target 1: token 0 (5) is the blank"),
        ("ctc", (TWO, 0, [[True]]), "optional: expected 2 rows as in targets, got 1"),
        (
            "ctc",
            (TWO, 0, [[True, False], [True]]),
            "optional of target 1: expected 2 of bool, one for each token; got",
        ),
        (
            "segmentation",
            (TWO, [[0, 0], [0, 1]], 2, 9, [[1, 0], [True, False]]),
            "2 of bool, one for each token; got int",
        ),
        ("segmentation", ([[1]], [[0]], 0, 9), "got states_per_token 0"),
        ("segmentation", ([[1]], [[0]], 1, -1), "silence -1"),
        ("segmentation", ([[1]], [], 1, 9), "words: expected 1 rows as in targets, got 0"),
        (
            "segmentation",
            ([[1, 2]], [[0]], 1, 9),
            "words of target 0: expected 2, one for each token, got 1",
        ),
        ("segmentation", ([[-2]], [[0]], 1, 9), "target 0: token 0 (-2) is negative"),
        ("segmentation", ([[2**30]], [[0]], 3, 9), f"target 0: token {2**30} has no classes"),
        *[
            ("ctc_passages", ([1, 2, 1], wrong), PASSAGES)
            for wrong in ([(1, 1)], [(0, 4)], [(1, 2), (0, 1)], [(0, 2), (1, 3)], [(-1, 1)])
        ],
        (
            "ctc_padded",
            (np.zeros((2, 3)), [1, 1]),
            "targets: expected token ids (B, L), got float64 of shape (2, 3)",
        ),
        ("ctc_padded", (np.zeros(3, int), [1]), "got int64 of shape (3,)"),
        (
            "ctc_padded",
            (ONES, [1]),
            "target lengths: expected whole numbers of shape (2,), got int64 of shape (1,)",
        ),
        ("ctc_padded", (ONES, [1.0, 2.0]), "got float64 of shape (2,)"),
        ("ctc_padded", (ONES, [1, 4]), "target lengths: expected 0 to 3, got [1, 4]"),
        ("ctc_padded", (ONES, [1, -1]), "target lengths: expected 0 to 3, got [1, -1]"),
        ("ctc_padded", (np.array([[1, 1], [1, 0]]), [2, 2]), "target 1: token 1 (0) is the blank"),
        ("ctc_padded", (np.array([[1, 1], [1, -2]]), [1, 2]), "target 1: token 1 (-2) is negative"),
        (
            "ctc_padded",
            (np.array([[1, 1], [2**31, 5]]), [1, 2]),
            f"target 1: token 0 ({2**31}) is not a class",
        ),
    ],
)
def test_wrong_arguments(make: str, arguments: tuple, said: str) -> None:
    if make == "ctc_padded":
        arguments = arguments[0], np.array(arguments[1])
    with pytest.raises(KernelError) as error:
        getattr(lattice, make)(*arguments)
    assert said in str(error.value)


def _sources(state: int, values: list[int]) -> np.ndarray:
    sources = np.full((1, 5, 2), -1, np.int32)
    sources[0, state, : len(values)] = values
    return sources


def _detours(
    sources: np.ndarray | None = None,
    begin: np.ndarray | None = None,
    end: np.ndarray | None = None,
) -> lattice.Detours:
    """Those of one utterance of five states."""
    every = np.ones((1, 5), bool)
    return lattice.Detours(
        _sources(4, [1, 0]) if sources is None else sources,
        every if begin is None else begin,
        every if end is None else end,
    )


def test_detours_that_kernels_can_walk() -> None:
    assert dataclasses.replace(lattice.ctc([[1, 2]]), detours=_detours()).detours is not None


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
        ("stay", np.zeros((1, 4), bool), "expected emit, skip, token and stay (1, 5)"),
        (
            "detours",
            _detours(end=np.zeros((1, 4), bool)),
            "expected begin and end (1, 5), sources (1, 5, 'P'); got",
        ),
        ("detours", _detours(sources=np.zeros((1, 5), np.int32)), "sources (1, 5, 'P')"),
        ("detours", _detours(sources=np.zeros((1, 4, 1), np.int32)), "sources (1, 5, 'P')"),
        (
            "detours",
            _detours(begin=np.zeros((1, 5), int)),
            "sources of whole numbers, begin and end of bool; got int32",
        ),
        ("detours", _detours(sources=np.zeros((1, 5, 1))), "got float64, bool, bool"),
        (
            "detours",
            _detours(_sources(3, [1])),
            "sources of state 3 of utterance 0: expected states below 1, desc",
        ),
        ("detours", _detours(_sources(4, [-2])), "then -1; got [-2, -1]"),
        ("detours", _detours(_sources(4, [0, 1])), "got [0, 1]"),
        ("detours", _detours(_sources(4, [1, 1])), "got [1, 1]"),
        ("detours", _detours(_sources(4, [-1, 1])), "got [-1, 1]"),
    ],
)
def test_a_topology_that_kernels_could_not_walk(field: str, value: np.ndarray, said: str) -> None:
    with pytest.raises(KernelError) as error:
        dataclasses.replace(lattice.ctc([[1, 2]]), **{field: value})
    assert said in str(error.value)


def test_one_state_has_one_end() -> None:
    with pytest.raises(KernelError, match="starts of utterance 0 is out of range: 2"):
        dataclasses.replace(lattice.ctc([[]]), starts=np.array([2]))
