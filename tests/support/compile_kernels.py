"""Compile the CPU's kernels for every dtype, so that no test and no worker waits for them:
compile_kernels.py [DTYPE].

Numba keeps what it compiles on disk, and compiles again only what has changed. PyTorch is needed
for bfloat16 alone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from ctc_align import kernels, lattice
from ctc_align.kernels.cpu.cpu_backend import compile_at_once

DTYPES = "float32", "float64", "bfloat16", "float16"
FRAMES, CLASSES = 40, 9


def random_scores(dtype: str) -> Any:
    """Return (2, FRAMES, CLASSES) of a dtype: an array, or for bfloat16, which NumPy lacks, a
    tensor."""
    values = np.random.default_rng(1).normal(-3, 1, (2, FRAMES, CLASSES))
    if dtype != "bfloat16":
        return values.astype(dtype)
    import torch

    return torch.from_numpy(values).bfloat16()


def compile_kernels(dtype: str) -> None:
    """Call every operation on every kind of topology with scores of one dtype."""
    scores = random_scores(dtype)
    targets = [[1, 2, lattice.WILDCARD], [3, 3]]
    words = [[0] * len(target) for target in targets]
    wildcard = scores[:, :, 0] * 0
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
            kernels.tangent(
                scores, topology, None, scores * 0 + 1, wildcard=wildcard, backend="cpu"
            )
    plain = lattice.ctc([[1, 2], [3, 3]])
    kernels.best_path(scores * np.nan, plain, backend="cpu")
    kernels.forward(scores * 1e3, plain, backend="cpu")


if __name__ == "__main__":
    compile_at_once()
    for name in sys.argv[1:] or DTYPES:
        compile_kernels(name)
