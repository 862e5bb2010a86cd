"""Requests: the kernel work that one utterance asks for, and how the requests of many utterances are run together.

A stage of an alignment is written for one utterance, as a generator that yields requests and gets their answers.
`ctc_align.kernels.batching` collects the requests of many utterances, puts those of one `key` into a padded batch, and
runs them by one call of a kernel. Kernels never read padding, so a kernel's answer is the same, to the bit, alone and
in any batch.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.lattice import Topology
from ctc_align.reading.rows_on_disk import TensorOnDisk

Result = TypeVar("Result")


class Request(Protocol):
    """Work that can be done for several utterances at once.

    Attributes:
        stage: the name under which its time is counted: "model", "kernels" or "words".
        key: requests with equal keys may be run together; it holds the device, the dtype, and what else must agree.
        shape: frames, and numbers a frame, of the request in a padded batch; (0, 0) where batches are not limited.
    """

    stage: ClassVar[str]

    @property
    def key(self) -> Hashable: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    @staticmethod
    def run(requests: Sequence[Any]) -> Sequence[Any]:
        """Answer requests of one key, in their order."""
        ...


Steps: TypeAlias = Generator["Request | Sequence[Request]", Any, Result]
"""A stage of one utterance: yields a request and gets its answer, or several and gets a list; returns its result."""


@dataclass(frozen=True)
class CtcTargets:
    """The CTC paths through token ids (L,), `lattice.WILDCARD` among them where a wildcard stands for letters."""

    ids: Sequence[int] | np.ndarray
    blank: int


@dataclass(frozen=True)
class BestStates:
    """The answer to `BestPath`: `states` (T,) int32 on the CPU, -1 throughout where there is no path."""

    states: np.ndarray
    score: float
    backend: str


@dataclass(frozen=True, eq=False)
class _OnEmissions:
    """The common part of requests on the emissions of one utterance.

    Attributes:
        scores: (T, C) floating point, log-probs or scores of segmentation states, on the device of the kernel; what
            lies on disk is read when the request is run.
        paths: CTC targets, or a topology of one utterance.
        wildcard: (T,) its score at each frame, where `paths` have a wildcard.
        backend: see `ctc_align.kernels`.
    """

    scores: torch.Tensor | TensorOnDisk
    paths: CtcTargets | Topology
    wildcard: torch.Tensor | None = None
    backend: str = "auto"

    stage: ClassVar[str] = "kernels"

    @property
    def key(self) -> Hashable:
        x, paths = self.scores, self.paths
        # Topologies with optional tokens go through other kernels, whose rounding others must not get.
        kind = paths.blank if isinstance(paths, CtcTargets) else paths.detours is not None
        return type(self), x.device, x.dtype, x.shape[1], type(paths), kind, self.wildcard is None, self.backend

    @property
    def shape(self) -> tuple[int, int]:
        frames, classes = self.scores.shape
        return frames, classes


@dataclass(frozen=True, eq=False)
class BestPath(_OnEmissions):
    """Ask for the most likely path; the answer is a `BestStates`.

    `bands` are None, or (T, 2) first and last (exclusive) state allowed at each frame.
    """

    bands: np.ndarray | None = None

    @property
    def key(self) -> Hashable:
        return super().key, self.bands is None

    @staticmethod
    def run(requests: Sequence[BestPath]) -> list[BestStates]:
        log_probs, topology, lengths, wildcard = _side_by_side(requests)
        bands = None if requests[0].bands is None else np.zeros((*log_probs.shape[:2], 2), np.int64)
        for b, request in enumerate(requests):
            if bands is not None and request.bands is not None:
                bands[b, : lengths[b]] = request.bands
        path = kernels.best_path(
            log_probs, topology, lengths, wildcard=wildcard, bands=bands, backend=requests[0].backend
        )
        states = path.states.cpu().numpy()
        rows = zip(states, lengths, path.scores.tolist())
        return [BestStates(row[:length], score, path.backend) for row, length, score in rows]


class Forward(_OnEmissions):
    """Ask for the log-likelihood over all paths; the answer is a float, -inf where there is no path."""

    @staticmethod
    def run(requests: Sequence[Forward]) -> list[float]:
        log_probs, topology, lengths, wildcard = _side_by_side(requests)
        scores = kernels.forward(log_probs, topology, lengths, wildcard=wildcard, backend=requests[0].backend).scores
        return scores.tolist()


class Posteriors(_OnEmissions):
    """Ask for the posterior of each class at each frame; the answer is a tensor (T, C), None where there is no path."""

    @staticmethod
    def run(requests: Sequence[Posteriors]) -> list[torch.Tensor | None]:
        log_probs, topology, lengths, wildcard = _side_by_side(requests)
        result = kernels.occupancy(log_probs, topology, lengths, wildcard=wildcard, backend=requests[0].backend)
        rows = zip(result.posteriors, lengths, result.scores.tolist())
        return [row[:length] if score > float("-inf") else None for row, length, score in rows]


def _side_by_side(
    requests: Sequence[_OnEmissions],
) -> tuple[torch.Tensor, Topology, list[int], torch.Tensor | None]:
    """Return scores (B, T, C), the topology of all, lengths (B,), and the wildcards' scores (B, T) if there are any."""
    given = [request.scores for request in requests]
    scores, lengths = pad([each[:] if isinstance(each, TensorOnDisk) else each for each in given])
    targets = [request.paths for request in requests if isinstance(request.paths, CtcTargets)]
    if targets:
        topology = lattice.ctc([np.asarray(target.ids, np.int64) for target in targets], targets[0].blank)
    else:
        topology = lattice.stack([request.paths for request in requests if isinstance(request.paths, Topology)])
    wildcards = [request.wildcard for request in requests if request.wildcard is not None]
    return scores, topology, lengths, pad(wildcards)[0] if wildcards else None


def pad(rows: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[int]]:
    """Stack rows (T, …) of different lengths as one batch (B, the longest T, …), and return it with their lengths.

    One row is not copied, and neither are rows that are the same tensor.

    >>> batch, lengths = pad([torch.ones(2, 3), torch.ones(1, 3)])
    >>> tuple(batch.shape), lengths
    ((2, 2, 3), [2, 1])
    """
    lengths = [len(row) for row in rows]
    if all(row is rows[0] for row in rows):
        return rows[0][None].expand(len(rows), *rows[0].shape), lengths
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True), lengths
