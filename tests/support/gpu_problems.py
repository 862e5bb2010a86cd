"""Fixtures of the tests that run on the GPU's backend, and a problem over several tiles."""

from __future__ import annotations

import sys
import types

import gpu_interpreted
import numpy as np
import pytest
import torch
from kernel_problems import DEVICE, Batch, scores, target

from ctc_align import lattice

NEVER = float("-inf")
REASON = None if torch.cuda.is_available() else gpu_interpreted.missing()
needs_gpu = pytest.mark.skipif(
    REASON is not None, reason=f"the GPU's kernels cannot run here: {REASON}"
)
GPU = pytest.param("gpu", marks=needs_gpu)
Modules = dict[str, types.ModuleType]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    return gpu_interpreted.backend(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def modules(loaded: Modules, monkeypatch: pytest.MonkeyPatch) -> Modules:
    """Install the GPU's backend, on the card if there is one, else interpreted, and return its
    modules."""
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", loaded["gpu_backend"])
    return loaded


@pytest.fixture(params=["cpu", GPU])
def backend(request: pytest.FixtureRequest) -> str:
    """Run a test on the backend `cpu`, and on `gpu` where it can run."""
    if request.param == "gpu":
        request.getfixturevalue("modules")
    return request.param


def device_of(backend: str) -> str:
    return DEVICE if backend == "gpu" else "cpu"


def optional_over_tiles() -> Batch:
    """Utterances of which some tokens are optional, over three tiles of four units and four blocks
    of four frames."""
    rng = np.random.default_rng(47)
    rows = [target(rng, tokens, 5, 0) for tokens in (8, 7)]
    topology = lattice.ctc(rows, 0, [[k % 3 == 1 for k in range(len(row))] for row in rows])
    x = torch.as_tensor(np.stack([scores(rng, 14, 5, "continuous") for _ in rows])).float()
    return Batch(x, torch.tensor([14, 11]), topology)
