"""Random problems for the kernels, and comparisons with enumeration and the reference; faults are
lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from oracles import (
    Answer,
    close,
    ctc_paths,
    enumerate_all,
    segment_paths,
    simple_ctc_paths,
    topology_paths,
)

from ctc_align import kernels, lattice
from ctc_align.lattice import WILDCARD, Detours, Topology

BACKENDS = (("reference", torch.float64), ("cpu", torch.float64), ("cpu", torch.float32))
"""What is tested against enumeration."""

KINDS = ("tied", "continuous", "tied", "holes", "tied", "unnormalised")
"""Half of them tied: equal paths are rarer in tiny problems than they are in quantised models."""


@dataclass(frozen=True)
class Problem:
    """One utterance, `log_probs` (T, C) and `wildcard` (T,) float64, and what an oracle says of
    it."""

    name: str
    log_probs: np.ndarray
    wildcard: np.ndarray
    topology: Topology
    answer: Answer


def scores(rng: np.random.Generator, frames: int, classes: int, kind: str) -> np.ndarray:
    """(T, C) float64 that float32 holds exactly: log-probs, scores in halves that tie, some of
    -inf, any scale."""
    x = rng.normal(size=(frames, classes))
    if kind == "tied":
        x = -rng.integers(0, 3, x.shape) / 2
    elif kind == "unnormalised":
        x = 20 * x + 5
    else:
        x -= np.log(np.exp(x).sum(1, keepdims=True))
    if kind == "holes":
        x[rng.random(x.shape) < min(0.3, 4 / max(frames, 1))] = -np.inf
    return x.astype(np.float32).astype(np.float64)


def target(rng: np.random.Generator, tokens: int, classes: int, blank: int) -> list[int]:
    """Token ids with many repeats."""
    ids = [k for k in range(classes) if k != blank]
    row: list[int] = []
    for _ in range(tokens):
        others = [k for k in ids if not row or k != row[-1]]
        row.append(
            int(rng.choice(others)) if others and rng.random() < 0.7 else row[-1] if row else ids[0]
        )
    return row


def wilder(rng: np.random.Generator, row: list[int], wild: bool) -> list[int]:
    """The row with wildcards in some places."""
    return [WILDCARD if wild and rng.random() < 0.4 else token for token in row]


def _made(
    rng: np.random.Generator,
    name: str,
    number: int,
    frames: int,
    classes: int,
    topology: Topology,
    paths: Iterator[tuple[tuple[int, ...], tuple[int, ...]]],
) -> Problem:
    kind = KINDS[number % len(KINDS)]
    x, wildcard = scores(rng, frames, classes, kind), scores(rng, frames, 2, kind)[:, 0]
    name = f"{name}, problem {number} {kind} T={frames}"
    return Problem(name, x, wildcard, topology, enumerate_all(x, paths, wildcard))


def tiny_ctc(
    rng: np.random.Generator, count: int, *, optional: bool = False, wild: bool = False
) -> Iterator[Problem]:
    """CTC problems small enough to enumerate: empty, fitting exactly, too short, every place of the
    blank."""
    for number in range(count):
        classes = int(rng.choice([2, 3, 3, 4]))
        blank = int(rng.integers(classes))
        row = wilder(rng, target(rng, int(rng.integers(0, 4)), classes, blank), wild)
        free = (rng.random(len(row)) < 0.5).tolist() if optional else None
        topology = lattice.ctc([row], blank, None if free is None else [free])
        needed = int(topology.min_frames[0])
        frames = min(max(needed + int(rng.integers(-1, 4)), 0), 6 if classes + wild < 4 else 5)
        name = f"ctc {row} blank {blank} optional {free}"
        paths = ctc_paths(frames, classes, row, blank, free)
        yield _made(rng, name, number, frames, classes, topology, paths)


def tiny_simple(rng: np.random.Generator, count: int, *, wild: bool = False) -> Iterator[Problem]:
    """As `tiny_ctc` where each token is one frame."""
    for number in range(count):
        classes = int(rng.choice([2, 3, 3, 4]))
        blank = int(rng.integers(classes))
        row = wilder(rng, target(rng, int(rng.integers(0, 5)), classes, blank), wild)
        frames = min(max(len(row) + int(rng.integers(-1, 4)), 0), 6 if classes + wild < 4 else 5)
        paths = simple_ctc_paths(frames, classes, row, blank)
        yield _made(
            rng,
            f"simple {row} blank {blank}",
            number,
            frames,
            classes,
            lattice.simple_ctc([row], blank),
            paths,
        )


def tiny_segments(
    rng: np.random.Generator, count: int, *, optional: bool = False, wild: bool = False
) -> Iterator[Problem]:
    """As `tiny_ctc` for tokens without blanks, of one or two states, and optional silence between
    words."""
    for number in range(count):
        parts, frames, tokens = (
            int(rng.integers(1, 3)),
            int(rng.integers(0, 8)),
            int(rng.integers(0, 4)),
        )
        row = wilder(rng, rng.integers(0, 2, tokens).tolist(), wild)
        words = np.cumsum(rng.integers(0, 2, tokens)).tolist()
        free = (rng.random(tokens) < 0.5).tolist() if optional else None
        topology = lattice.segmentation(
            [row], [words], parts, 2 * parts, None if free is None else [free]
        )
        name = f"segments {row} {words} x {parts} optional {free}"
        paths = segment_paths(frames, row, words, parts, 2 * parts, free)
        yield _made(rng, name, number, frames, 2 * parts + 1, topology, paths)


def any_topology(
    rng: np.random.Generator, size: int, classes: int, *, plain: bool = False
) -> Topology:
    """One utterance's topology that no tokens would make: every way there may be, or not, at
    random.

    With `plain` no detours, and every state may be stayed in.
    """
    sources = np.full((1, size, max(size - 3, 0)), -1, np.int32)
    for s in range(3, size):
        chosen = np.flatnonzero(rng.random(s - 2) < 0.4)[::-1]
        sources[0, s, : len(chosen)] = chosen
    ends = min(2, size)
    return Topology(
        emit=rng.integers(-1, classes, (1, size)).astype(np.int32),
        skip=rng.random((1, size)) < 0.5,
        token=np.full((1, size), -1, np.int32),
        states=np.array([size]),
        starts=rng.integers(1, ends + 1, 1),
        finals=rng.integers(1, ends + 1, 1),
        min_frames=np.array([1]),
        stay=np.ones((1, size), np.bool_) if plain else rng.random((1, size)) < 0.6,
        detours=(
            None
            if plain
            else Detours(sources, rng.random((1, size)) < 0.5, rng.random((1, size)) < 0.5)
        ),
    )


Walks = tuple[list[int], list[list[int]], list[int], list[int]]


def walks(topology: Topology, b: int) -> Walks:
    """A topology's definition in plain lists: classes, whence each state is entered, where paths
    begin and end."""
    size = int(topology.states[b])
    entered = []
    for s in range(size):
        ways = (
            [s] * bool(topology.stay[b, s])
            + [s - 1] * (s > 0)
            + [s - 2] * bool(s > 1 and topology.skip[b, s])
        )
        if topology.detours is not None:
            ways += [p for p in topology.detours.sources[b, s].tolist() if p >= 0]
        entered.append(ways)
    begin, end = list(range(topology.starts[b])), list(range(size - topology.finals[b], size))
    if topology.detours is not None:
        begin = np.flatnonzero(topology.detours.begin[b, :size]).tolist()
        end = np.flatnonzero(topology.detours.end[b, :size]).tolist()
    return topology.emit[b, :size].tolist(), entered, begin, end


def tiny_any(rng: np.random.Generator, count: int) -> Iterator[Problem]:
    """As `tiny_ctc` for topologies at random."""
    for number in range(count):
        size = int(rng.integers(1, 7))
        frames = int(rng.integers(1, 6 if size < 5 else 5))
        topology = any_topology(rng, size, 3, plain=number % 4 == 0)
        given = walks(topology, 0)
        yield _made(
            rng, f"any {given}", number, frames, 3, topology, topology_paths(frames, *given)
        )


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""Where the backend `gpu` gets its log-probs; without a card it is interpreted."""


def on(given: Batch, backend: str, dtype: torch.dtype) -> dict[str, Any]:
    """Return the arguments of a call on a backend: log-probs of a dtype, on its device."""
    device = DEVICE if backend == "gpu" else "cpu"
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    wildcard = None if given.wildcard is None else given.wildcard.to(device, wide)
    scores = {"log_probs": given.log_probs.to(device, dtype), "wildcard": wildcard}
    return {**scores, "topology": given.topology, "lengths": given.lengths, "backend": backend}


def faults(
    problems: Sequence[Problem], backend: str, dtype: torch.dtype = torch.float64, together: int = 1
) -> list[str]:
    """Return the differences of a backend from enumeration, with `together` problems in a batch,
    padded with NaN."""
    chunks = [problems[first : first + together] for first in range(0, len(problems), together)]
    return [
        line
        for chunk in chunks
        for find in (enumerated_path_faults, enumerated_sum_faults)
        for line in find(chunk, backend, dtype)
    ]


def enumerated_path_faults(
    problems: Sequence[Problem], backend: str, dtype: torch.dtype
) -> list[str]:
    """Return the differences of best paths, all problems in one batch."""
    path = kernels.best_path(**on(side_by_side(problems, dtype), backend, dtype))
    found = _score_faults(
        problems, "best", path.scores, [problem.answer.best for problem in problems], dtype
    )
    for problem, states in zip(problems, path.states.tolist()):
        expected = [-1] * len(states)
        expected[: len(problem.answer.path or ())] = problem.answer.path or ()
        if states != expected:
            found.append(f"{problem.name}: path {states}, expected {expected}")
    return found


def enumerated_sum_faults(
    problems: Sequence[Problem], backend: str, dtype: torch.dtype
) -> list[str]:
    """Return the differences of total scores and occupancies, all problems in one batch."""
    given = side_by_side(problems, dtype)
    arguments, totals = on(given, backend, dtype), [problem.answer.total for problem in problems]
    occupancy = kernels.occupancy(**arguments)
    found = _score_faults(problems, "total", kernels.forward(**arguments), totals, dtype)
    found += _score_faults(problems, "total beside occupancy", occupancy.scores, totals, dtype)
    shape, most = given.log_probs.shape, 1e-12 if dtype == torch.float64 else 1e-5
    right, wild = (
        torch.zeros(shape, dtype=torch.float64),
        torch.zeros(shape[:2], dtype=torch.float64),
    )
    padding = torch.ones(shape, dtype=torch.bool)
    for b, problem in enumerate(problems):
        frames, classes = problem.log_probs.shape
        padding[b, :frames, :classes] = False
        right[b, :frames, :classes] = torch.as_tensor(problem.answer.occupancy)
        wild[b, :frames] = torch.as_tensor(problem.answer.wildcard)
    if (occupancy.posteriors.cpu()[padding] != 0).any():
        found.append(f"{problems[0].name} and others: occupancy in the padding")
    if (occupancy.wildcard is not None) != given.topology.has_wildcard:
        found.append(f"{problems[0].name}: the wildcard's occupancy is there, or missing")
    for what, met, expected in (
        ("occupancy", occupancy.posteriors, right),
        ("wildcard", occupancy.wildcard, wild),
    ):
        if met is not None and given.log_probs.shape[1]:
            worst = (met.cpu().double() - expected).abs().flatten(1).amax(1).tolist()
            found += [
                f"{each.name}: {what} is off by {far}"
                for each, far in zip(problems, worst)
                if not far <= most
            ]
    return found


def _score_faults(
    problems: Sequence[Problem],
    what: str,
    met: torch.Tensor,
    right: Sequence[float],
    dtype: torch.dtype,
) -> list[str]:
    relative, absolute = (1e-12, 1e-12) if dtype == torch.float64 else (1e-6, 1e-5)
    return [
        f"{problem.name}: {what} {one!r}, expected {other!r}"
        for problem, one, other in zip(problems, met.tolist(), right)
        if not close(one, other, relative, absolute)
    ]


def same_paths(
    given: Batch, backend: str, dtype: torch.dtype = torch.float32, bands: np.ndarray | None = None
) -> int:
    """Compare with the reference, bit by bit; return how many utterances have a path."""
    arguments = {**on(given, backend, dtype), "bands": bands}
    met, right = (
        kernels.best_path(**arguments),
        kernels.best_path(**{**arguments, "backend": "reference"}),
    )
    assert met.scores.tolist() == right.scores.tolist()
    assert met.states.tolist() == right.states.tolist()
    return int((right.scores > -torch.inf).sum())


def same_sums(given: Batch, backend: str, dtype: torch.dtype = torch.float32) -> None:
    """Compare with the reference; posteriors of an utterance with a path add up to 1 in each of its
    frames."""
    relative, absolute = (1e-12, 1e-12) if dtype == torch.float64 else (1e-6, 2e-6)
    arguments = on(given, backend, dtype)
    met, right = (
        kernels.occupancy(**arguments),
        kernels.occupancy(**{**arguments, "backend": "reference"}),
    )
    torch.testing.assert_close(met.scores.cpu(), right.scores.cpu(), rtol=relative, atol=absolute)
    for one, other in ((met.posteriors, right.posteriors), (met.wildcard, right.wildcard)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(
                one.double().cpu(), other.double().cpu(), rtol=relative, atol=10 * absolute
            )
    assert kernels.forward(**arguments).tolist() == met.scores.tolist()
    share = met.posteriors.sum(2).cpu() + (0 if met.wildcard is None else met.wildcard.cpu())
    inside = torch.arange(share.shape[1]) < given.lengths[:, None]
    torch.testing.assert_close(
        share, (inside & (met.scores.cpu() > -torch.inf)[:, None]).to(share), rtol=0, atol=1e-5
    )


TOPOLOGIES = ("ctc", "simple", "optional", "segments", "optional segments")
WALKED = ("ctc", "simple", "segments")
"""Topologies without detours: those of the fast kernels."""


@dataclass(frozen=True)
class Batch:
    """Utterances of several lengths: `log_probs` (B, T, C) and `wildcard` (B, T) float32, whose
    padding is NaN, and their topology."""

    log_probs: torch.Tensor
    lengths: torch.Tensor
    topology: Topology
    wildcard: torch.Tensor | None = None


def batch(
    rng: np.random.Generator,
    utterances: int,
    frames: int,
    tokens: int,
    classes: int,
    kind: str,
    *,
    topology: str = "ctc",
    wild: bool = False,
) -> Batch:
    """A random batch: the first of full length, of the others some are empty, some too short, some
    fit exactly.

    `topology` is one of TOPOLOGIES; with `wild` some tokens are wildcards.
    """
    made = _random_topology(rng, utterances, tokens, classes, topology, wild)
    lengths = rng.integers(0, frames + 1, utterances)
    exact = rng.random(utterances) < 0.2
    exact[0] = False
    lengths[exact] = np.minimum(made.min_frames, frames)[exact]
    lengths[0] = frames
    x, wildcard = (
        np.full((utterances, frames, classes), np.nan),
        np.full((utterances, frames), np.nan),
    )
    for b, length in enumerate(lengths):
        x[b, :length] = scores(rng, int(length), classes, kind)
        if wild:
            wildcard[b, :length] = scores(rng, int(length), classes, kind)[:, 0]
    return Batch(
        torch.as_tensor(x, dtype=torch.float32),
        torch.as_tensor(lengths),
        made,
        torch.as_tensor(wildcard, dtype=torch.float32) if wild else None,
    )


def random_batches(
    seed: int, count: int, topology: str, frames: int = 40, tokens: int = 12, most: int = 8
) -> Iterator[Batch]:
    """Yield batches of up to `most` utterances, of every kind of scores in turn, every other batch
    with wildcards."""
    rng = np.random.default_rng(seed)
    for number, kind in zip(range(count), KINDS * count):
        utterances, longest = int(rng.integers(1, most + 1)), int(rng.integers(1, frames))
        yield batch(
            rng, utterances, longest, tokens, 7, kind, topology=topology, wild=number % 2 == 1
        )


def side_by_side(problems: Sequence[Problem], dtype: torch.dtype) -> Batch:
    """The problems as one batch, NaN beyond their frames and classes."""
    lengths = torch.tensor([len(problem.log_probs) for problem in problems])
    classes = max(problem.log_probs.shape[1] for problem in problems)
    x = torch.full((len(problems), int(lengths.max()), classes), torch.nan, dtype=dtype)
    wildcard = torch.full(x.shape[:2], torch.nan, dtype=dtype)
    for b, problem in enumerate(problems):
        x[b, : lengths[b], : problem.log_probs.shape[1]] = torch.as_tensor(problem.log_probs)
        wildcard[b, : lengths[b]] = torch.as_tensor(problem.wildcard)
    return Batch(x, lengths, lattice.stack([problem.topology for problem in problems]), wildcard)


def _random_topology(
    rng: np.random.Generator, utterances: int, tokens: int, classes: int, topology: str, wild: bool
) -> Topology:
    blank = int(rng.integers(classes))
    rows = [
        target(rng, int(rng.integers(0, tokens + 1)), classes, blank) for _ in range(utterances)
    ]
    free = (
        [rng.random(len(row)) < rng.choice([0.0, 0.3, 0.9]) for row in rows]
        if "optional" in topology
        else None
    )
    if "segments" in topology:
        units = [wilder(rng, [k % (classes // 2) for k in row], wild) for row in rows]
        words = [np.cumsum(rng.integers(0, 2, len(row))) for row in rows]
        return lattice.segmentation(units, words, 2 if classes > 4 else 1, classes - 1, free)
    rows = [wilder(rng, row, wild) for row in rows]
    if topology == "simple":
        return lattice.simple_ctc(rows, blank)
    return lattice.ctc(rows, blank, free)


def random_bands(rng: np.random.Generator, given: Batch) -> np.ndarray:
    """(B, T, 2): bands that do not go back, around a straight line, some too narrow for any
    path."""
    utterances, frames, _ = given.log_probs.shape
    bands = np.zeros((utterances, frames, 2), np.int64)
    for b in range(utterances):
        line = np.linspace(0, int(given.topology.states[b]), frames) if frames else np.zeros(0)
        width = rng.integers(1, 8, 2)
        jitter = rng.integers(-1, 2, (frames, 2))
        bands[b, :, 0] = np.maximum.accumulate(np.floor(line - width[0]).astype(int) + jitter[:, 0])
        bands[b, :, 1] = np.maximum.accumulate(np.ceil(line + width[1]).astype(int) + jitter[:, 1])
    return bands


def alone(given: Batch, b: int, *, padded: bool = False) -> Batch:
    """Return utterance `b` without padding, or with all of it: states of the padding say what must
    not be read."""
    topology, size = given.topology, int(given.topology.states[b])
    frames = given.log_probs.shape[1] if padded else int(given.lengths[b])
    rows = {
        name: getattr(topology, name)[b : b + 1].copy()
        for name in ("emit", "skip", "token", "stay")
    }
    for name, poison in (("emit", 1), ("skip", True), ("token", 9), ("stay", False)):
        rows[name][:, size:] = poison
        rows[name] = rows[name] if padded else rows[name][:, :size]
    made = {
        name: getattr(topology, name)[b : b + 1]
        for name in ("states", "starts", "finals", "min_frames")
    }
    if topology.detours is not None:
        states = slice(None) if padded else slice(size)
        made["detours"] = Detours(
            *(getattr(topology.detours, n)[b : b + 1, states] for n in ("sources", "begin", "end"))
        )
    wildcard = None if given.wildcard is None else given.wildcard[b : b + 1, :frames]
    return Batch(
        given.log_probs[b : b + 1, :frames],
        given.lengths[b : b + 1],
        Topology(**rows, **made),
        wildcard,
    )
