"""The door to the kernels: three functions over a topology, whichever backend runs them.

    best_path(log_probs, topology, lengths) -> Path         states (B, T) int32, -1 padded; scores (B,) natural log
    forward(log_probs, topology, lengths)   -> Scores       total log-likelihood of all paths
    occupancy(log_probs, topology, lengths) -> Occupancy    posterior of every class at every frame, and the scores

`log_probs` is (B, T, C), natural log, normalised or not; `lengths` (B,) says how many frames of each utterance count.
What lies beyond them is never read. Scores are float64. An utterance without any path has score -inf, states -1 and
occupancy 0; one whose paths meet NaN or +inf, which are no log-probs, has score NaN, states -1 and occupancy NaN. The
same ties in every backend: stay, then step, then skip; at the end the last state before the one before it.
`backend` is "auto", "reference" or "cpu"; the result says which it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctc_align.errors import BackendError, KernelError, UsageError
from ctc_align.lattice import Topology

BACKENDS = ("auto", "reference", "cpu", "gpu")


@dataclass(frozen=True)
class Path:
    """Best path: `states` (B, T) int32, `scores` (B,) float64, both on the CPU."""

    states: torch.Tensor
    scores: torch.Tensor
    backend: str


@dataclass(frozen=True)
class Scores:
    """Total log-likelihoods: `scores` (B,) float64 on the CPU."""

    scores: torch.Tensor
    backend: str


@dataclass(frozen=True)
class Occupancy:
    """`posteriors` (B, T, C) float32 (float64 for float64 log-probs), `scores` (B,) float64."""

    posteriors: torch.Tensor
    scores: torch.Tensor
    backend: str


def best_path(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor | Sequence[int] | None = None,
    *,
    bands: np.ndarray | None = None,
    backend: str = "auto",
) -> Path:
    """The most likely path of each utterance (Viterbi).

    Args:
        log_probs: (B, T, C) floating point.
        topology: of the same B.
        lengths: (B,) frames of each utterance; None means T for all.
        bands: None, or (B, T, 2) int: first and last (exclusive) state that a path may be in at each frame;
            both must not decrease with the frame.
        backend: see the module.

    Raises:
        KernelError: shapes, dtypes or lengths that do not fit together.
        BackendError: the backend cannot run here.
    """
    frames = _check(log_probs, topology, lengths)
    name, module = _open(backend, log_probs)
    limits = None if bands is None else _check_bands(bands, log_probs, frames)
    states, scores = module.best_path(log_probs.detach(), topology, frames, limits)
    return Path(states, scores, name)


def forward(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor | Sequence[int] | None = None,
    *,
    backend: str = "auto",
) -> Scores:
    """Log-likelihood of each utterance over all its paths (Graves et al. 2006, eq. 8). Arguments as `best_path`."""
    frames = _check(log_probs, topology, lengths)
    name, module = _open(backend, log_probs)
    return Scores(module.forward(log_probs.detach(), topology, frames), name)


def occupancy(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor | Sequence[int] | None = None,
    *,
    backend: str = "auto",
) -> Occupancy:
    """Posterior of each class at each frame given the transcript; rows sum to 1. Arguments as `best_path`."""
    frames = _check(log_probs, topology, lengths)
    name, module = _open(backend, log_probs)
    posteriors, scores = module.occupancy(log_probs.detach(), topology, frames)
    dtype = torch.float64 if log_probs.dtype == torch.float64 else torch.float32
    return Occupancy(posteriors.to(dtype), scores, name)


def _check(log_probs: torch.Tensor, topology: Topology, lengths: Any) -> torch.Tensor:
    """Everything that can be wrong, said once here; returns the lengths as int64 on the CPU."""
    if not isinstance(log_probs, torch.Tensor) or not log_probs.is_floating_point():
        met = log_probs.dtype if isinstance(log_probs, torch.Tensor) else type(log_probs).__name__
        raise KernelError(f"log_probs: expected a floating-point tensor (B, T, C), met {met}")
    if log_probs.dim() != 3:
        raise KernelError(f"log_probs: expected shape (B, T, C), met {tuple(log_probs.shape)}")
    batch, frames, classes = log_probs.shape
    if topology.batch != batch:
        raise KernelError(f"topology: expected {batch} utterances as in log_probs, met {topology.batch}")
    if topology.max_class >= classes:
        raise KernelError(f"topology: a state emits class {topology.max_class}, log_probs has only {classes} classes")
    if lengths is None:
        return torch.full((batch,), frames, dtype=torch.int64)
    given = torch.as_tensor(lengths).detach()
    if given.numel() and (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool):
        raise KernelError(f"lengths: expected whole numbers, met {given.dtype}")
    result = given.to("cpu", torch.int64)
    if result.shape != (batch,):
        raise KernelError(f"lengths: expected shape ({batch},), met {tuple(result.shape)}")
    if batch and (int(result.min()) < 0 or int(result.max()) > frames):
        raise KernelError(f"lengths: expected 0 to {frames} (frames of log_probs), met {result.tolist()[:8]}")
    return result


def _check_bands(bands: np.ndarray, log_probs: torch.Tensor, lengths: torch.Tensor) -> np.ndarray:
    """The bands as int64; those beyond the lengths are never read."""
    given = np.asarray(bands)
    expected = (*log_probs.shape[:2], 2)
    if given.shape != expected or given.dtype.kind not in "iu":
        raise KernelError(f"bands: expected whole numbers {expected}, met {given.dtype} of shape {given.shape}")
    limits = np.ascontiguousarray(given, np.int64)
    inside = np.arange(1, expected[1])[None, :] < lengths.numpy()[:, None]
    back = (np.diff(limits, axis=1) < 0).any(2) & inside
    if back.any():
        b, t = np.argwhere(back)[0].tolist()
        raise KernelError(
            f"bands of utterance {b}: from frame {t} to {t + 1} they go back from {limits[b, t].tolist()} "
            f"to {limits[b, t + 1].tolist()}; first and last state must not decrease"
        )
    return limits


def check_backend(backend: str) -> None:
    """Raises UsageError for a name that is no backend, BackendError for one that cannot run here."""
    if backend not in BACKENDS:
        raise UsageError(f"backend: expected one of {', '.join(BACKENDS)}; met {backend!r}")
    if backend == "gpu":
        raise BackendError("backend 'gpu' is not in this version; use 'cpu', or 'auto' (log-probs go to the CPU)")


def _open(backend: str, log_probs: torch.Tensor) -> tuple[str, Any]:
    """The backend's module, imported late: the first use of a compiled one costs its compilation."""
    check_backend(backend)
    if backend == "reference":
        from ctc_align.kernels import reference

        return backend, reference
    from ctc_align.kernels import cpu

    return "cpu", cpu
