"""The GPU backend: best paths, sums and occupancies by Triton kernels.

    launch_plan        the topology as tensors on the device; how states are assigned to threads
    device_tables      what the host makes for the device, from pinned memory, and in CUDA graphs
    launches           the kernels of a call, in order
    launching          launches as values, compiled side by side
    row_layout         how threads share a row of states
    path_kernels       best paths: the forward pass and the trace-back
    sum_kernels        sums: the forward and the backward pass, in the numbers of sum_numbers
    posterior_kernels  before and after these passes: centres, totals, posteriors
    small_kernels      all of that in one launch, for small problems

The host never waits for the device, so that callers go on while it works. Results are on the device
of `log_probs`; log-probs that are not on a GPU are copied to the current one, and their results
back. With TRITON_INTERPRET=1 the same kernels run as Python on the CPU, slowly: so they are tested
where there is no GPU.
"""

from __future__ import annotations

import numpy as np
import torch

from ctc_align.kernels.gpu import launch_plan, triton_import
from ctc_align.kernels.gpu.launches import PathLaunches, SumLaunches
from ctc_align.kernels.gpu.triton_import import unavailable
from ctc_align.lattice import Topology

__all__ = ["best_labels", "best_path", "forward", "occupancy", "unavailable"]


def best_path(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None = None,
    bands: np.ndarray | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run `ctc_align.kernels.best_path`."""
    x, wild = _on_device(log_probs, wildcard)
    if not x.shape[0] or not x.shape[1]:
        return torch.full(x.shape[:2], -1, dtype=torch.int32, device=log_probs.device), _no_frames(
            log_probs, topology
        )
    with triton_import.on(x.device):
        states, scores = PathLaunches(
            launch_plan.device_problem(x, topology, lengths, wild, bands)
        ).run()
    return states.to(log_probs.device), scores.to(log_probs.device)


def best_labels(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, blank: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run `ctc_align.kernels.best_labels`.

    The path and its classes share one transfer of the topology.
    """
    x, _ = _on_device(log_probs, None)
    if not x.shape[0] or not x.shape[1]:
        labels = torch.full(x.shape[:2], blank, dtype=torch.int64, device=log_probs.device)
        return labels, log_probs.new_zeros(x.shape[:2]), _no_frames(log_probs, topology)
    with triton_import.on(x.device):
        problem = launch_plan.device_problem(x, topology, lengths, None)
        states, scores = PathLaunches(problem).run()
        states = states.long()
        labels = problem.classes_of_states.gather(1, states.clamp(min=0)).long()
        values = x.gather(2, labels.unsqueeze(2)).squeeze(2)
        labels = labels.masked_fill(states < 0, blank)
        values = values.masked_fill(states < 0, 0.0)
    device = log_probs.device
    return labels.to(device), values.to(device), scores.to(device)


def forward(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None = None,
) -> torch.Tensor:
    """Run `ctc_align.kernels.forward`."""
    x, wild = _on_device(log_probs, wildcard)
    if not x.shape[0] or not x.shape[1]:
        return _no_frames(log_probs, topology)
    with triton_import.on(x.device):
        scores = SumLaunches(
            launch_plan.device_problem(x, topology, lengths, wild), both=False
        ).totals()
    return scores.to(log_probs.device)


def occupancy(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Run `ctc_align.kernels.occupancy`."""
    x, wild = _on_device(log_probs, wildcard)
    if not x.shape[0] or not x.shape[1]:
        if x.dtype == torch.float64:
            dtype = torch.float64
        else:
            dtype = torch.float32
        zeros = torch.zeros(x.shape, dtype=dtype, device=log_probs.device)
        return zeros, _no_frames(log_probs, topology), None if wild is None else zeros[..., 0]
    with triton_import.on(x.device):
        sums = SumLaunches(
            launch_plan.device_problem(x, topology, lengths, wild, mirrored=True), both=True
        )
        scores, posteriors, wildcard_posteriors = sums.posteriors()
    device = log_probs.device
    return (
        posteriors.to(device),
        scores.to(device),
        None if wildcard_posteriors is None else wildcard_posteriors.to(device),
    )


def _on_device(
    log_probs: torch.Tensor, wildcard: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return log-probs and wildcard on the device that runs the kernels."""
    if log_probs.is_cuda or triton_import.INTERPRETED:
        return log_probs, wildcard
    return log_probs.cuda(), None if wildcard is None else wildcard.cuda()


def _no_frames(log_probs: torch.Tensor, topology: Topology) -> torch.Tensor:
    """Return the scores (B,) of utterances without frames."""
    scores = np.where(topology.min_frames == 0, 0.0, -np.inf)
    return torch.from_numpy(scores).to(log_probs.device)
