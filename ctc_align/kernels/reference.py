"""The definition of the kernels: one scan in torch, float64, over a semiring. Slow and obviously right.

    row[0, s]     = x[0, emit[s]]                                  where a path may begin, else zero of the semiring
    row[t, s]     = x[t, emit[s]] + sum(row[t-1, p] for the states p from which s may be entered)
    score         = sum(row[T-1, s] for the states s in which a path may end)

State s may be entered from s (if stay[s]), s - 1, s - 2 (if skip[s]) and its detours, in this order, which decides
ties. x has one more column, the wildcard's. Max-plus gives the best path (choices traced back), log-plus the total; the
occupancy is the derivative of the total by x, its tangent the derivative of that, both taken by autograd, so that they
share no recursion with the fast kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from ctc_align.lattice import Topology

NEVER = float("-inf")


class Semiring(Protocol):
    """A sum of alternatives, as the scan needs it (Goodman 1999)."""

    def combine(self, *alternatives: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the sum of alternatives of one shape and, for a maximum, the index of the winner."""
        ...


class MaxPlus:
    """Maximum, for the best path. Of ties the first alternative wins, by contract; NaN always wins, as in sums."""

    def combine(self, *alternatives: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        best, choice = alternatives[0], torch.zeros_like(alternatives[0], dtype=torch.int64)
        for number, other in enumerate(alternatives[1:], start=1):
            better = (other > best) | other.isnan()
            choice = torch.where(better, number, choice)
            best = torch.where(better, other, best)
        return best, choice


class LogPlus:
    """Log of a sum of exponentials, for all paths."""

    def combine(self, *alternatives: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        together = torch.stack(alternatives)
        nothing = (together == NEVER).all(0)
        # The derivative of logsumexp at nothing but -inf is not a number; there it must be zero.
        total = torch.logsumexp(torch.where(nothing, 0.0, together), 0)
        total = torch.where(nothing, NEVER, total)
        return total, torch.zeros_like(alternatives[0], dtype=torch.int64)


@dataclass(frozen=True)
class _Transitions:
    """A topology as tensors: columns of x that states emit (B, S), the states from which each may be entered (B, S, P),
    which of those are allowed (B, S, P), where paths begin and end (B, S), and which states are no padding (B, S)."""

    emit: torch.Tensor
    entered: torch.Tensor
    allowed: torch.Tensor
    begin: torch.Tensor
    end: torch.Tensor
    real: torch.Tensor


def _transitions(topology: Topology, wildcard_column: int, device: torch.device) -> _Transitions:
    emit = torch.as_tensor(topology.emit, device=device).long()
    state = torch.arange(emit.shape[1], device=device).expand(emit.shape)
    size = torch.as_tensor(topology.states, device=device)[:, None]
    if topology.detours is None:
        sources = emit.new_empty((*emit.shape, 0))
        begin = state < torch.as_tensor(topology.starts, device=device)[:, None]
        end = state >= size - torch.as_tensor(topology.finals, device=device)[:, None]
    else:
        sources = torch.as_tensor(topology.detours.sources, device=device).long()
        begin = torch.as_tensor(topology.detours.begin, device=device)
        end = torch.as_tensor(topology.detours.end, device=device)
    stay, skip = (torch.as_tensor(field, device=device) for field in (topology.stay, topology.skip))
    entered = torch.cat((torch.stack((state, state - 1, state - 2), 2), sources), 2)
    allowed = torch.cat((torch.stack((stay, torch.ones_like(stay), skip), 2), torch.ones_like(sources).bool()), 2)
    real = state < size
    column = torch.where(emit < 0, wildcard_column, emit)
    return _Transitions(column, entered.clamp(min=0), allowed & (entered >= 0), begin & real, end & real, real)


def _scan(
    x: torch.Tensor,
    transitions: _Transitions,
    lengths: torch.Tensor,
    semiring: Semiring,
    bands: np.ndarray | None = None,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the last row of every utterance (B, S) and, per frame after the first, which alternative was taken."""
    banned = _banned(bands, x, transitions)
    row = torch.where(transitions.begin & ~banned[:, 0], torch.gather(x[:, 0], 1, transitions.emit), NEVER)
    batch, size, most = transitions.entered.shape
    choices = []
    for t in range(1, x.shape[1]):
        before = torch.gather(row, 1, transitions.entered.flatten(1)).reshape(batch, size, most)
        total, choice = semiring.combine(*torch.where(transitions.allowed, before, NEVER).unbind(2))
        inside = (t < lengths).to(x.device)[:, None] & transitions.real
        # Where no path arrives the emission is not added, even if it is NaN.
        total = torch.where(total == NEVER, NEVER, total + torch.gather(x[:, t], 1, transitions.emit))
        total = total.masked_fill(banned[:, t], NEVER)
        row = torch.where(inside, total, row)
        choices.append(choice)
    return row, choices


def _banned(bands: np.ndarray | None, x: torch.Tensor, transitions: _Transitions) -> torch.Tensor:
    """Return (B, T, S) or (1, T, 1) bool: the states outside the band of each frame."""
    if bands is None:
        return torch.zeros(1, x.shape[1], 1, dtype=torch.bool, device=x.device)
    limits = torch.as_tensor(bands, device=x.device)
    state = torch.arange(transitions.emit.shape[1], device=x.device)
    return (state < limits[:, :, :1]) | (state >= limits[:, :, 1:])


def best_path(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None = None,
    bands: np.ndarray | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return states (B, T) int32, -1 beyond the length and without a path, and scores (B,) float64; both on the CPU."""
    x = _clean(log_probs, wildcard, lengths)
    transitions = _transitions(topology, log_probs.shape[2], x.device)
    row, choices = _scan(x, transitions, lengths, MaxPlus(), bands) if x.shape[1] else (x.new_empty(0), [])
    states = torch.full(log_probs.shape[:2], -1, dtype=torch.int32)
    scores = torch.full((topology.batch,), NEVER, dtype=torch.float64)
    for b in range(topology.batch):
        length = int(lengths[b])
        if length == 0:
            scores[b] = 0.0 if topology.min_frames[b] == 0 else NEVER
            continue
        ends = transitions.end[b].nonzero()[:, 0].tolist()
        if not ends:
            continue
        state = ends[-1]
        for other in reversed(ends):
            if row[b, other] > row[b, state] or row[b, other].isnan():
                state = other
        scores[b] = row[b, state] if row[b, state] < math.inf else math.nan
        if not scores[b] > NEVER:
            continue
        for t in range(length - 1, -1, -1):
            states[b, t] = state
            if t:
                state = int(transitions.entered[b, state, int(choices[t - 1][b, state])])
    return states, scores


def forward(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, wildcard: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the total log-likelihood (B,) float64 over all paths; differentiable."""
    x = _clean(log_probs, wildcard, lengths)
    transitions = _transitions(topology, log_probs.shape[2], x.device)
    row, _ = _scan(x, transitions, lengths, LogPlus()) if x.shape[1] else (None, None)
    scores = []
    for b in range(topology.batch):
        if row is None or int(lengths[b]) == 0:
            scores.append(x.new_full((), 0.0 if topology.min_frames[b] == 0 else NEVER))
        else:
            scores.append(_log_sum(row[b][transitions.end[b]]))
    total = torch.stack(scores) if scores else x.new_zeros(0)
    return torch.where(total < math.inf, total, math.nan)


def _log_sum(ends: torch.Tensor) -> torch.Tensor:
    reachable = ends[ends != NEVER]
    return torch.logsumexp(reachable, 0) if len(reachable) else ends.new_full((), NEVER)


def occupancy(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, wildcard: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Return the posterior of each class (B, T, C) float64, zero beyond the length and without a path; scores (B,); and
    the posterior of the wildcard (B, T), if there is one."""
    wrong = forward(log_probs, topology, lengths, wildcard).isnan()[:, None, None]
    leaf = _unmet_is_impossible(_clean(log_probs, wildcard, lengths)).requires_grad_()
    classes = log_probs.shape[2]
    with torch.enable_grad():
        scores = forward(leaf[..., :classes], topology, lengths, None if wildcard is None else leaf[..., classes])
        possible = scores.detach() > NEVER
        if possible.any() and scores.requires_grad:
            (posterior,) = torch.autograd.grad(scores[possible].sum(), leaf)
        else:
            posterior = torch.zeros_like(leaf)
    posterior = torch.where(wrong & _inside(leaf, lengths), math.nan, posterior)
    scores = torch.where(wrong[:, 0, 0], math.nan, scores.detach())
    return posterior[..., :classes], scores, None if wildcard is None else posterior[..., classes]


def tangent(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None,
    direction: torch.Tensor,
    posteriors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the posteriors (B, T, C) float64, their derivatives along `direction` (B, T, C), and scores (B,).

    By the derivative of sum(posteriors * direction): the second derivatives of a score are symmetric. `posteriors` are
    not needed.
    """
    wrong = forward(log_probs, topology, lengths, wildcard).isnan()[:, None, None]
    leaf = _unmet_is_impossible(_clean(log_probs, None, lengths)).requires_grad_()
    wildcard = None if wildcard is None else _unmet_is_impossible(wildcard)
    inside = _inside(leaf, lengths)
    with torch.enable_grad():
        scores = forward(leaf, topology, lengths, wildcard)
        possible = scores.detach() > NEVER
        made = tangents = torch.zeros_like(leaf)
        if possible.any() and scores.requires_grad:
            (made,) = torch.autograd.grad(scores[possible].sum(), leaf, create_graph=True)
            # Posteriors of 0 stay 0 in any direction.
            along = torch.where((made == 0) | ~inside, 0.0, direction.to(torch.float64))
            endless = ~along.isfinite().flatten(1).all(1)
            along = torch.where(endless[:, None, None], 0.0, along)
            (tangents,) = torch.autograd.grad((made * along).sum(), leaf)
            tangents = torch.where(endless[:, None, None] & inside, math.nan, tangents)
    made, tangents = (torch.where(wrong & inside, math.nan, each.detach()) for each in (made, tangents))
    return made, tangents, torch.where(wrong[:, 0, 0], math.nan, scores.detach())


def _clean(log_probs: torch.Tensor, wildcard: torch.Tensor | None, lengths: torch.Tensor) -> torch.Tensor:
    """Return float64 scores with the wildcard as last column and zeros for the padding, which is never read."""
    x = log_probs.to(torch.float64)
    if wildcard is not None:
        x = torch.cat((x, wildcard.to(torch.float64)[:, :, None]), 2)
    return torch.where(_inside(x, lengths), x, 0.0)


def _unmet_is_impossible(x: torch.Tensor) -> torch.Tensor:
    """Replace NaN and +inf by -inf: in an utterance with a score no path meets them, nor may its derivatives."""
    return torch.where(x < math.inf, x, NEVER)


def _inside(log_probs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Return (B, T, 1) bool: the frames that count."""
    frames = torch.arange(log_probs.shape[1], device=log_probs.device)
    return (frames < lengths.to(log_probs.device)[:, None])[:, :, None]
