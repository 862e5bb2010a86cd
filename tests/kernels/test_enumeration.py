"""Every backend against the enumeration of all paths of tiny problems."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from kernel_problems import batch as random_batch
from kernel_problems import faults, random_bands, tiny_ctc, tiny_segments
from oracles import viterbi

from ctc_align import kernels

CTC = list(tiny_ctc(np.random.default_rng(1), 400))
SEGMENTS = list(tiny_segments(np.random.default_rng(2), 200))


def test_the_problems_are_of_every_sort() -> None:
    answers = [problem.answer for problem in CTC]
    assert sum(answer.path is None for answer in answers) > 30
    assert sum(problem.log_probs.shape[0] == problem.topology.min_frames[0] for problem in CTC) > 30
    assert sum(problem.topology.states[0] == 1 for problem in CTC) > 30
    assert sum(problem.topology.emit[0, 0] != 0 for problem in CTC) > 100
    assert sum(len(problem.log_probs) == 0 for problem in CTC) > 30


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [("reference", torch.float64), ("cpu", torch.float64), ("cpu", torch.float32)],
    ids=lambda value: str(value).removeprefix("torch."),
)
@pytest.mark.parametrize("problems", [CTC, SEGMENTS], ids=["ctc", "segments"])
def test_against_enumeration(problems: list, backend: str, dtype: torch.dtype) -> None:
    assert faults(problems, backend, dtype) == []


@pytest.mark.parametrize("segments", [False, True], ids=["ctc", "segments"])
def test_bands_against_plain_python(segments: bool) -> None:
    rng = np.random.default_rng(3)
    found, without = 0, 0
    for number in range(60):
        kind = ("continuous", "tied", "holes")[number % 3]
        given = random_batch(rng, 3, int(rng.integers(1, 20)), 7, 5, kind, segments=segments)
        bands = random_bands(rng, given) if number % 4 else None
        results = [
            kernels.best_path(given.log_probs, given.topology, given.lengths, bands=bands, backend=backend)
            for backend in ("reference", "cpu")
        ]
        for b, length in enumerate(given.lengths.tolist()):
            size, topology = int(given.topology.states[b]), given.topology
            score, path = viterbi(
                given.log_probs[b, :length].double().numpy(),
                topology.emit[b, :size].tolist(),
                topology.skip[b, :size].tolist(),
                (int(topology.starts[b]), int(topology.finals[b])),
                None if bands is None else bands[b],
            )
            if length == 0:
                score, path = (0.0 if topology.min_frames[b] == 0 else float("-inf")), ()
            expected = [-1] * given.log_probs.shape[1]
            expected[: len(path or ())] = path or ()
            found, without = found + (path is not None), without + (path is None)
            for result in results:
                assert result.states[b].tolist() == expected
                assert float(result.scores[b]) == pytest.approx(score, rel=1e-6, abs=1e-6)
    assert found > 40
    assert without > 20
