"""The definition: one scan in torch, float64, over a semiring. Slow and obviously right.

    row[0, s]     = x[0, emit[s]]                                  for s < starts, else zero of the semiring
    row[t, s]     = x[t, emit[s]] + sum(row[t-1, s], row[t-1, s-1], row[t-1, s-2] if skip[s])
    score         = sum(row[T-1, S-finals:])

Max-plus gives the best path (choices traced back), log-plus the total; the occupancy is the derivative of the total
by the log-probs, taken by autograd, so that it shares no recursion with the fast kernels.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from ctc_align.kernels.semiring import LogPlus, MaxPlus, Semiring
from ctc_align.lattice import Topology

NEVER = float("-inf")


def _scan(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    semiring: Semiring,
    bands: np.ndarray | None = None,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Last row of every utterance (B, S) and, per frame after the first, which alternative was taken."""
    device = log_probs.device
    emit = torch.as_tensor(topology.emit, device=device).long()
    allowed = torch.as_tensor(topology.skip, device=device)
    batch, size = emit.shape
    state = torch.arange(size, device=device)[None]
    real = state < torch.as_tensor(topology.states, device=device)[:, None]
    banned = _banned(bands, state, log_probs)
    never = torch.full((batch, 2), NEVER, dtype=log_probs.dtype, device=device)
    row = torch.where(
        (state < torch.as_tensor(topology.starts, device=device)[:, None]) & real,
        torch.gather(log_probs[:, 0], 1, emit),
        NEVER,
    ).masked_fill(banned[:, 0], NEVER)
    choices = []
    for t in range(1, log_probs.shape[1]):
        step = torch.cat((never[:, :1], row[:, :-1]), 1)[:, :size]
        skip = torch.where(allowed, torch.cat((never, row[:, :-2]), 1)[:, :size], NEVER)
        total, choice = semiring.combine(row, step, skip)
        inside = (t < lengths).to(device)[:, None] & real
        total = (total + torch.gather(log_probs[:, t], 1, emit)).masked_fill(banned[:, t], NEVER)
        row = torch.where(inside, total, row)
        choices.append(choice)
    return row, choices


def _banned(bands: np.ndarray | None, state: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """(B, T, S) or (1, T, 1): the states outside the band of each frame."""
    if bands is None:
        return torch.zeros(1, log_probs.shape[1], 1, dtype=torch.bool, device=log_probs.device)
    limits = torch.as_tensor(bands, device=log_probs.device)
    return (state[:, None] < limits[:, :, :1]) | (state[:, None] >= limits[:, :, 1:])


def best_path(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, bands: np.ndarray | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """States (B, T) int32, -1 beyond the length and where there is no path; scores (B,) float64."""
    clean = _clean(log_probs, lengths)
    row, choices = _scan(clean, topology, lengths, MaxPlus(), bands) if clean.shape[1] else (clean.new_empty(0), [])
    states = torch.full(log_probs.shape[:2], -1, dtype=torch.int32)
    scores = torch.full((topology.batch,), NEVER, dtype=torch.float64)
    for b in range(topology.batch):
        length, size, finals = int(lengths[b]), int(topology.states[b]), int(topology.finals[b])
        if length == 0:
            scores[b] = 0.0 if topology.min_frames[b] == 0 else NEVER
            continue
        state = size - 1
        if finals == 2 and row[b, size - 2] > row[b, size - 1]:
            state = size - 2
        scores[b] = row[b, state] if row[b, state] < math.inf else math.nan
        if not scores[b] > NEVER:
            continue
        for t in range(length - 1, -1, -1):
            states[b, t] = state
            if t:
                state -= int(choices[t - 1][b, state])
    return states, scores


def forward(log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor) -> torch.Tensor:
    """Total log-likelihood (B,) float64 over all paths; differentiable."""
    clean = _clean(log_probs, lengths)
    row, _ = _scan(clean, topology, lengths, LogPlus()) if clean.shape[1] else (None, None)
    scores = []
    for b in range(topology.batch):
        size, finals = int(topology.states[b]), int(topology.finals[b])
        if row is None or int(lengths[b]) == 0:
            scores.append(clean.new_full((), 0.0 if topology.min_frames[b] == 0 else NEVER))
        else:
            scores.append(_log_sum(row[b, size - finals : size]))
    total = torch.stack(scores) if scores else clean.new_zeros(0)
    return torch.where(total < math.inf, total, math.nan)


def _log_sum(ends: torch.Tensor) -> torch.Tensor:
    reachable = ends[ends != NEVER]
    return torch.logsumexp(reachable, 0) if len(reachable) else ends.new_full((), NEVER)


def occupancy(log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Posterior of each class (B, T, C) float64, zero beyond the length and where there is no path; scores (B,)."""
    leaf = log_probs.detach().to(torch.float64).requires_grad_()
    with torch.enable_grad():
        scores = forward(leaf, topology, lengths)
        possible = scores.detach() > NEVER
        if possible.any() and scores.requires_grad:
            (posterior,) = torch.autograd.grad(scores[possible].sum(), leaf)
        else:
            posterior = torch.zeros_like(leaf)
    wrong = scores.detach().isnan()[:, None, None] & _inside(leaf, lengths)
    return torch.where(wrong, math.nan, posterior), scores.detach()


def _clean(log_probs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """float64, and nothing of the padding: whatever stands there is not read."""
    return torch.where(_inside(log_probs, lengths), log_probs.to(torch.float64), 0.0)


def _inside(log_probs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """(B, T, 1): the frames that count."""
    frames = torch.arange(log_probs.shape[1], device=log_probs.device)
    return (frames < lengths.to(log_probs.device)[:, None])[:, :, None]
