"""Nanoseconds per cell (frame x state) of the kernels, beside torch's ctc_loss: python tests/benchmarks/kernels.py

Medians of five runs; every line is measured in this process, so that the ratios hold on a busy machine too.
The number of threads is torch's (OMP_NUM_THREADS).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from ctc_align import kernels, lattice

RUNS = 5
CASES = (  # utterances, frames, tokens, classes
    (16, 1500, 250, 32),
    (16, 1500, 250, 1024),
    (1, 1500, 250, 32),
    (256, 128, 30, 32),
)


def median_s(call: Callable[[], object]) -> float:
    """Median time of a call in seconds, after one call that is not counted."""
    call()
    times_s = []
    for _ in range(RUNS):
        started_s = time.perf_counter()
        call()
        times_s.append(time.perf_counter() - started_s)
    return statistics.median(times_s)


def measure(batch: int, frames: int, tokens: int, classes: int) -> None:
    rng = np.random.default_rng(0)
    log_probs = torch.randn(batch, frames, classes, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    targets = rng.integers(1, classes, (batch, tokens))
    topology = lattice.ctc(list(targets))
    cells = batch * frames * (2 * tokens + 1)
    transposed = log_probs.transpose(0, 1).contiguous()
    lengths = torch.full((batch,), frames), torch.full((batch,), tokens)

    def torch_loss() -> torch.Tensor:
        return torch.nn.functional.ctc_loss(transposed, torch.as_tensor(targets), *lengths, reduction="none")

    theirs_s = median_s(torch_loss)
    print(f"B={batch} T={frames} L={tokens} C={classes}, {torch.get_num_threads()} threads")
    print(f"  {'torch ctc_loss':16} {theirs_s / cells * 1e9:7.3f} ns/cell {theirs_s * 1e3:9.2f} ms")
    for name in ("best_path", "forward", "occupancy"):
        kernel = getattr(kernels, name)
        ours_s = median_s(lambda kernel=kernel: kernel(log_probs, topology, backend="cpu"))
        print(
            f"  {name:16} {ours_s / cells * 1e9:7.3f} ns/cell {ours_s * 1e3:9.2f} ms   torch x {theirs_s / ours_s:.1f}"
        )


def main() -> None:
    for case in CASES:
        measure(*case)


if __name__ == "__main__":
    main()
