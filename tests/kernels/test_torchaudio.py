"""Best paths beside torchaudio's `forced_align`: as good everywhere, and better where ties mislead it.

torchaudio needs an environment of its own (`.ci/run --all` makes it); without it these tests are skipped.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import target
from oracles import collapse

from ctc_align import kernels, lattice

pytestmark = pytest.mark.torchaudio


@pytest.fixture(scope="module")
def theirs() -> Any:
    """(T, C) log-probs, target, blank → labels and score."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from torchaudio.functional import forced_align
        except (ImportError, OSError) as error:
            pytest.skip(f"torchaudio cannot be imported: {str(error).splitlines()[0]}")

    def run(x: torch.Tensor, row: list[int], blank: int) -> tuple[list[int], float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            paths, scores = forced_align(x[None], torch.tensor([row], dtype=torch.int32), blank=blank)
        return paths[0].tolist(), float(scores.double().sum())

    return run


def ours(x: torch.Tensor, row: list[int], blank: int) -> tuple[list[int], float]:
    topology = lattice.ctc([row], blank)
    path = kernels.best_path(x[None], topology, backend="cpu")
    return topology.emit[0][path.states[0].numpy()].tolist(), float(path.scores[0])


def problems(seed: int, count: int, *, tied: bool) -> list[tuple[torch.Tensor, list[int], int]]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        classes = int(rng.integers(2, 9))
        blank = int(rng.integers(classes))
        row = target(rng, int(rng.integers(1, 12)), classes, blank)
        frames = int(lattice.ctc([row], blank).min_frames[0] + rng.integers(0, 40))
        x = -rng.integers(0, 3, (frames, classes)) / 2 if tied else rng.normal(size=(frames, classes))
        made.append((torch.as_tensor(x, dtype=torch.float32), row, blank))
    return made


def test_as_good_on_continuous_scores(theirs: Any) -> None:
    for x, row, blank in problems(1, 400, tied=False):
        x = x.log_softmax(1)
        labels, score = ours(x, row, blank)
        assert score == pytest.approx(theirs(x, row, blank)[1], abs=1e-4)
        assert collapse(labels, blank) == row


def test_never_worse_and_sometimes_better_on_ties(theirs: Any) -> None:
    better = 0
    for x, row, blank in problems(2, 1000, tied=True):
        labels, score = ours(x, row, blank)
        assert collapse(labels, blank) == row
        assert score == sum(float(x[t, label]) for t, label in enumerate(labels))
        other = theirs(x, row, blank)[1]
        assert score >= other
        better += score > other
    assert better > 0


def test_three_frames_that_torchaudio_gets_wrong(theirs: Any) -> None:
    """Blank, then both tokens, is the best: -3. torchaudio 2.11 has the first token at once: -4."""
    x = torch.tensor([[0.0, -2.0, -1.0], [-1.0, -2.0, -2.0], [-2.0, -1.0, -2.0]])
    assert ours(x, [2, 1], 0)[1] == -3.0
    assert theirs(x, [2, 1], 0)[1] == -4.0
