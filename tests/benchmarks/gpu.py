"""How many times as fast as PyTorch's and torchaudio's functions ours are on this machine's CUDA card. Every result is
compared with the CPU kernels' first. Exits 1 where one of ours differs, 2 where there is no card.

    python tests/benchmarks/gpu.py [--rounds N]

The log-probs, float32, lie on the card: noise with a planted path (`ctc_align.kernels.benchmark.planted`). Timed is the
call as users make it, from the arguments to results on the card, waiting for the card included. The rivals are
torch.nn.functional.ctc_loss, with int64 targets, which cuDNN does not take, so that PyTorch's native kernels run; and
torchaudio.functional.forced_align, which takes one utterance, in a loop, where it can be imported. Ours and theirs take
turns; medians.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctc_align import functional, kernels, lattice
from ctc_align.errors import BackendError
from ctc_align.kernels.benchmark import (
    Case,
    import_forced_align,
    in_turns,
    machine,
    planted,
    torchaudios_path,
    torchs_loss,
)

CASES = (Case(64, 1500, 250, 32), Case(256, 128, 30, 32))
FORWARD, GRADIENT, PATHS = "forward", "forward + backward", "best path"
SAME_SCORES, SAME_OCCUPANCIES = 1e-5, 1e-4
"""Largest differences from the CPU kernels: of losses and path scores relative, of occupancies absolute."""


@dataclass(frozen=True)
class Row:
    """A line of the table; `differs` and `theirs_differ`: from the CPU kernels, and by more than they may."""

    task: str
    rival: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    differs: bool
    theirs_differ: bool


def losses(log_probs: torch.Tensor, targets: np.ndarray, device: torch.device) -> Iterator[Row]:
    """The loss, without and with its gradient, whose negative is the occupancy."""
    tokens = np.full(targets.shape[0], targets.shape[1])
    right = kernels.occupancy(log_probs, lattice.ctc_padded(targets, tokens), backend="cpu")
    there, rows = log_probs.to(device), torch.from_numpy(targets).to(device)
    lengths = torch.full((len(rows),), log_probs.shape[1]), torch.from_numpy(tokens)

    def differs(met: tuple[torch.Tensor, ...]) -> bool:
        far = len(met) == 2 and not float((met[1].cpu() - right.posteriors).abs().max()) <= SAME_OCCUPANCIES
        return far or not torch.allclose(met[0].cpu().double(), -right.scores, rtol=SAME_SCORES, atol=0)

    for task in (FORWARD, GRADIENT):
        leaf = there.transpose(0, 1).contiguous().requires_grad_(task == GRADIENT)
        theirs = torchs_loss(there, targets, gradient=task == GRADIENT)

        def ours(leaf: torch.Tensor = leaf) -> torch.Tensor:
            leaf.grad = None
            made = functional.ctc_loss(leaf, rows, *lengths, reduction="none")
            if leaf.requires_grad:
                made.sum().backward()
            return made.detach()

        met = ours(), *(() if leaf.grad is None else (-leaf.grad.transpose(0, 1),))
        yield Row(task, "torch", ours, theirs.call, differs(met), differs(theirs.read(theirs.call())))


def paths(log_probs: torch.Tensor, targets: np.ndarray, device: torch.device) -> Iterator[Row]:
    """The best paths; torchaudio's need only be as good."""
    right, scores = functional.forced_align(log_probs, torch.from_numpy(targets))
    there, rows = log_probs.to(device), torch.from_numpy(targets).to(device)

    def ours() -> tuple[torch.Tensor, torch.Tensor]:
        return functional.forced_align(there, rows)

    met = ours()
    differs = not (torch.equal(met[0].cpu(), right) and torch.equal(met[1].cpu(), scores))
    theirs = torchaudios_path(there, targets)
    best = scores.double().sum(1).numpy()
    worse = not np.allclose(theirs.read(theirs.call())[1], best, rtol=SAME_SCORES, atol=0)
    yield Row(PATHS, "torchaudio, one by one", ours, theirs.call, differs, worse)


def main() -> int:
    parser = argparse.ArgumentParser(description="How many times as fast as its rivals the CUDA kernels are.")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    try:
        kernels.check_backend("gpu")
    except BackendError as error:
        print(f"cannot run here: {error}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("cannot run here: PyTorch sees no CUDA device", file=sys.stderr)
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    here, (align, reason) = machine([device]), import_forced_align()
    print(f"{here['gpu']}; " + ", ".join(f"{name} {version}" for name, version in here["versions"].items()))
    if align is None:
        print(f"torchaudio {reason}; best paths are not measured")
    print("\n| task | case | beside | ours, ms | theirs, ms | times | as the CPU's |")
    print("|---|---|---|---:|---:|---:|---|", flush=True)
    right = True
    for case in CASES:
        log_probs, targets = planted(case)
        rows = [*losses(log_probs, targets, device), *(paths(log_probs, targets, device) if align is not None else ())]
        for row in rows:
            ours_s, theirs_s = in_turns((row.ours, row.theirs), arguments.rounds, device)
            note = "OURS DIFFERS" if row.differs else "theirs differs" if row.theirs_differ else "both"
            print(
                f"| {row.task} | {case} | {row.rival} | {ours_s * 1e3:.3f} | {theirs_s * 1e3:.3f} | "
                f"{theirs_s / ours_s:.1f} x | {note} |",
                flush=True,
            )
            right &= not row.differs
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
