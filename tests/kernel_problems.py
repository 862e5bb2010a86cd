"""Random problems for the kernels, what must come out, and how a wrong answer is told: faults as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from oracles import Answer, close, ctc_paths, enumerate_all, segment_paths

from ctc_align import kernels, lattice
from ctc_align.lattice import Topology

KINDS = ("tied", "continuous", "tied", "holes", "tied", "unnormalised")
"""Half of them tied: equal paths are rarer in tiny problems than they are in quantised models."""


@dataclass(frozen=True)
class Problem:
    """One utterance, `log_probs` (T, C) float64, and what an oracle says of it."""

    name: str
    log_probs: np.ndarray
    topology: Topology
    answer: Answer


def scores(rng: np.random.Generator, frames: int, classes: int, kind: str) -> np.ndarray:
    """(T, C) float64 that float32 holds exactly: log-probs, scores in halves that tie, some of -inf, any scale."""
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
        row.append(int(rng.choice(others)) if others and rng.random() < 0.7 else row[-1] if row else ids[0])
    return row


def tiny_ctc(rng: np.random.Generator, count: int) -> Iterator[Problem]:
    """CTC problems small enough to enumerate: empty, fitting exactly, too short, every place of the blank."""
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        classes = int(rng.choice([2, 3, 3, 4]))
        blank = int(rng.integers(classes))
        row = target(rng, int(rng.integers(0, 4)), classes, blank)
        needed = int(lattice.ctc([row], blank).min_frames[0])
        frames = min(max(needed + int(rng.integers(-1, 4)), 0), 6 if classes < 4 else 5)
        x = scores(rng, frames, classes, kind)
        answer = enumerate_all(x, ctc_paths(frames, classes, row, blank))
        yield Problem(f"ctc {number} {kind} T={frames} {row} blank {blank}", x, lattice.ctc([row], blank), answer)


def tiny_segments(rng: np.random.Generator, count: int) -> Iterator[Problem]:
    """As `tiny_ctc` for tokens without blanks, of one or two states, and optional silence between words."""
    for number in range(count):
        kind, parts = KINDS[number % len(KINDS)], int(rng.integers(1, 3))
        frames, tokens = int(rng.integers(0, 8)), int(rng.integers(0, 4))
        row = rng.integers(0, 2, tokens).tolist()
        words = np.cumsum(rng.integers(0, 2, tokens)).tolist()
        silence = 2 * parts
        x = scores(rng, frames, silence + 1, kind)
        answer = enumerate_all(x, segment_paths(frames, row, words, parts, silence))
        topology = lattice.segmentation([row], [words], parts, silence)
        yield Problem(f"segments {number} {kind} T={frames} {row} {words} x {parts}", x, topology, answer)


def faults(problems: Sequence[Problem], backend: str, dtype: torch.dtype = torch.float64) -> list[str]:
    """Where a backend says otherwise than the oracle."""
    relative, absolute = (1e-12, 1e-12) if dtype == torch.float64 else (1e-6, 1e-5)
    found = []
    for problem in problems:
        x, answer, topology = torch.as_tensor(problem.log_probs).to(dtype)[None], problem.answer, problem.topology
        path = kernels.best_path(x, topology, backend=backend)
        forward = kernels.forward(x, topology, backend=backend)
        occupancy = kernels.occupancy(x, topology, backend=backend)
        expected = list(answer.path) if answer.path is not None else [-1] * x.shape[1]
        if path.states[0].tolist() != expected:
            found.append(f"{problem.name}: path {path.states[0].tolist()}, expected {expected}")
        for what, met, right in (
            ("best", path.scores, answer.best),
            ("total", forward.scores, answer.total),
            ("total beside occupancy", occupancy.scores, answer.total),
        ):
            if not close(float(met[0]), right, relative, absolute):
                found.append(f"{problem.name}: {what} {float(met[0])!r}, expected {right!r}")
        wrong = np.abs(occupancy.posteriors[0].numpy() - answer.occupancy)
        if not (wrong <= absolute).all():
            found.append(f"{problem.name}: occupancy is off by {wrong.max()}")
    return found


@dataclass(frozen=True)
class Batch:
    """Utterances of several lengths: `log_probs` (B, T, C) float32 whose padding is NaN, and their topology."""

    log_probs: torch.Tensor
    lengths: torch.Tensor
    topology: Topology


def batch(
    rng: np.random.Generator, utterances: int, frames: int, tokens: int, classes: int, kind: str, *, segments: bool
) -> Batch:
    """A random batch: the first of full length, of the others some are empty, some too short, some fit exactly."""
    blank = int(rng.integers(classes))
    rows = [target(rng, int(rng.integers(0, tokens + 1)), classes, blank) for _ in range(utterances)]
    if segments:
        units = [[k % (classes // 2) for k in row] for row in rows]
        words = [np.cumsum(rng.integers(0, 2, len(row))) for row in rows]
        topology = lattice.segmentation(units, words, 2 if classes > 4 else 1, classes - 1)
    else:
        topology = lattice.ctc(rows, blank)
    lengths = rng.integers(0, frames + 1, utterances)
    exact = rng.random(utterances) < 0.2
    exact[0] = False
    lengths[exact] = np.minimum(topology.min_frames, frames)[exact]
    lengths[0] = frames
    x = np.full((utterances, frames, classes), np.nan)
    for b, length in enumerate(lengths):
        x[b, :length] = scores(rng, int(length), classes, kind)
    return Batch(torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(lengths), topology)


def random_bands(rng: np.random.Generator, given: Batch) -> np.ndarray:
    """(B, T, 2): bands that do not go back, around a straight line, some too narrow for any path."""
    utterances, frames, _ = given.log_probs.shape
    bands = np.zeros((utterances, frames, 2), np.int64)
    for b in range(utterances):
        line = np.linspace(0, int(given.topology.states[b]), frames) if frames else np.zeros(0)
        width = rng.integers(1, 8, 2)
        jitter = rng.integers(-1, 2, (frames, 2))
        bands[b, :, 0] = np.maximum.accumulate(np.floor(line - width[0]).astype(int) + jitter[:, 0])
        bands[b, :, 1] = np.maximum.accumulate(np.ceil(line + width[1]).astype(int) + jitter[:, 1])
    return bands
