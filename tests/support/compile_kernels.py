"""Compile the CPU's kernels for every dtype, so that no test and no worker waits for them: compile_kernels.py [DTYPE].

Numba keeps what it compiles on disk, and compiles again only what has changed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.kernels.cpu.cpu_backend import compile_at_once

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}
FRAMES, CLASSES = 40, 9


def compile_kernels(dtype: torch.dtype) -> None:
    """Call every operation on every kind of topology with scores of one dtype."""
    scores = torch.randn(2, FRAMES, CLASSES, dtype=torch.float64).log_softmax(-1).to(dtype)
    targets = [[1, 2, lattice.WILDCARD], [3, 3]]
    words = [[0] * len(target) for target in targets]
    wildcard = torch.zeros(2, FRAMES, dtype=dtype)
    bands = np.tile(np.array([0, 2**20]), (2, FRAMES, 1))
    for topology in (
        lattice.ctc(targets),
        lattice.simple_ctc(targets),
        lattice.segmentation(targets, words, 2, 0),
        lattice.ctc(targets, optional=[[False, True, False], [False, False]]),
    ):
        kernels.best_path(scores, topology, wildcard=wildcard, backend="cpu")
        kernels.best_path(scores, topology, wildcard=wildcard, bands=bands, backend="cpu")
        kernels.forward(scores, topology, wildcard=wildcard, backend="cpu")
        kernels.occupancy(scores, topology, wildcard=wildcard, backend="cpu")
        if topology.detours is None:
            kernels.tangent(scores, topology, None, torch.ones_like(scores), wildcard=wildcard, backend="cpu")
    plain = lattice.ctc([[1, 2], [3, 3]])
    kernels.best_labels(scores, plain, None, 0, backend="cpu")
    kernels.best_path(torch.full_like(scores, torch.nan), plain, backend="cpu")
    kernels.forward(scores * 1e4, plain, backend="cpu")


if __name__ == "__main__":
    compile_at_once()
    for name in sys.argv[1:] or DTYPES:
        compile_kernels(DTYPES[name])
