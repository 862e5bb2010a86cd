"""Soft targets and the whole Hessian, against autograd; `test_losses` has the losses made of
them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import target

from ctc_align.errors import KernelError
from ctc_align.functional import ctc_loss, hessian, occupancy

INF, NAN = float("inf"), float("nan")


def ragged(
    seed: int, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, list[list[int]], list[int]]:
    """Scores (5, 4, 3), rows of ids, one empty and one that does not fit, frames that count."""
    rng = np.random.default_rng(seed)
    return (
        torch.as_tensor(rng.normal(size=(5, 4, 3)) * 2 + 1, dtype=dtype),
        [[1, 2], [], [2, 2, 2], [1]],
        [5, 4, 4, 3],
    )


def in_a_row(rows: list[list[int]]) -> tuple[torch.Tensor, list[int]]:
    return torch.tensor([token for row in rows for token in row], dtype=torch.int64), [
        len(row) for row in rows
    ]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
@pytest.mark.parametrize("blank", [0, 1, 2])
def test_occupancy_is_minus_the_gradient(blank: int, dtype: torch.dtype) -> None:
    """Of a batch with an empty target and one that does not fit; padding is not read, and has
    none."""
    scores, rows, frames = ragged(2, dtype)
    for n, count in enumerate(frames):
        scores[count:, n] = NAN
    targets, tokens = in_a_row([[(token + blank) % 3 for token in row] for row in rows])
    leaf = scores.to(torch.float64 if dtype == torch.float64 else torch.float32).requires_grad_()
    ctc_loss(leaf, targets, frames, tokens, blank, "sum").backward()
    met = occupancy(scores.requires_grad_(), targets, frames, tokens, blank)
    assert torch.equal(-leaf.grad, met)
    assert (met.shape, met.dtype, met.requires_grad) == ((5, 4, 3), leaf.dtype, False)
    for n, count in enumerate(frames):
        assert (met[count:, n] == 0).all()
        torch.testing.assert_close(
            met[:count, n].sum(1), torch.full((count,), float(n != 2), dtype=met.dtype)
        )


def by_autograd(
    logits: torch.Tensor, targets: torch.Tensor, frames: Any, tokens: Any, blank: int
) -> torch.Tensor:
    """(N, T, C, T, C): each utterance's loss differentiated twice, one entry at a time."""
    parts = []
    for n in range(len(logits)):

        def alone(x: torch.Tensor, n: int = n) -> torch.Tensor:
            whole = torch.cat((logits[:n], x[None], logits[n + 1 :])).transpose(0, 1).log_softmax(2)
            return ctc_loss(whole, targets, frames, tokens, blank, "none", zero_infinity=True)[n]

        parts.append(torch.autograd.functional.hessian(alone, logits[n]))
    return torch.stack(parts)


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_hessian_is_two_derivatives(seed: int, blank: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [target(rng, count, 4, blank) for count in (2, 0, 3, 1)]
    logits = torch.as_tensor(rng.normal(size=(4, 5, 4)) * 3)
    targets, tokens = in_a_row(rows)
    given = targets, [5, 4, 2 if seed else 5, 3], tokens, blank
    met = hessian(logits, *given)
    assert (met.shape, met.dtype) == ((4, 5, 4, 5, 4), torch.float64)
    torch.testing.assert_close(met, by_autograd(logits, *given), rtol=0, atol=1e-12)
    matrix = met.view(4, 20, 20)
    assert torch.equal(matrix, matrix.mT)
    # One constant more or less at a frame changes nothing.
    torch.testing.assert_close(
        met.sum(4), torch.zeros(4, 5, 4, 5, dtype=torch.float64), rtol=0, atol=1e-12
    )
    torch.testing.assert_close(hessian(logits.float(), *given), met.float(), rtol=0, atol=1e-6)


def test_hessian_of_what_cannot_be_and_of_what_is_certain() -> None:
    logits = torch.zeros(3, 4, 3, dtype=torch.float64)
    logits[1] = 1e10 * torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    logits[2, :, 2] = -INF
    targets = torch.tensor([[1, 1, 1], [1, 2, 0], [1, 2, 0]])
    met = hessian(logits, targets, [4, 4, 4], [3, 2, 2])
    assert (met == 0).all(), "too long; one path is all; a class that cannot be"
    logits[0] = NAN
    met = hessian(logits, targets, [3, 4, 4], [2, 2, 2])
    assert met[0, :3, :, :3].isnan().all()
    assert (met[0, 3] == 0).all()
    assert (met[1:] == 0).all()


def test_padding_is_never_read() -> None:
    logits = torch.as_tensor(np.random.default_rng(2).normal(size=(2, 4, 3)))
    given = torch.tensor([[1, 2], [2, -9]]), [4, 2], [2, 1]
    clean = hessian(logits, *given)
    logits[1, 2:] = NAN
    assert torch.equal(hessian(logits, *given), clean)
    assert (clean[1, 2:] == 0).all()
    assert (clean[1, :, :, 2:] == 0).all()


def test_hessian_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.as_tensor(np.random.default_rng(3).normal(size=(2, 5, 4)))
    given = torch.tensor([[1, 2], [2, 2]]), [5, 4], [2, 2]
    whole = hessian(logits, *given)
    monkeypatch.setattr("ctc_align.ctc.operators.UNITS_CELLS", 70)
    assert torch.equal(hessian(logits, *given), whole)


@pytest.mark.parametrize(
    ("logits", "said"),
    [
        (torch.zeros(4, 3), "logits: expected (N, T, C) with at least one class, got shape (4, 3)"),
        (
            torch.zeros(1, 4, 3).long(),
            "logits: expected a floating-point tensor (N, T, C), got torch.int64",
        ),
        (torch.zeros(2, 4, 3), "target_lengths: expected 2 whole numbers"),
        (torch.zeros(1, 1, 3).expand(1, 10**6, 3), "second derivatives of (1, 1000000, 3)"),
    ],
)
def test_wrong_arguments_of_the_hessian(logits: torch.Tensor, said: str) -> None:
    with pytest.raises(KernelError) as error:
        hessian(logits, torch.tensor([[1, 2]]), [4], [2])
    assert said in str(error.value)


@pytest.mark.parametrize(("frames", "tokens"), [([0], [0]), ([0], [1]), ([2], [0])])
def test_hessian_without_frames_or_tokens(frames: list[int], tokens: list[int]) -> None:
    """Nothing is known of no frames: the loss of no tokens in them is 0, whatever the logits, and
    all derivatives."""
    met = hessian(torch.randn(1, 2, 3), torch.tensor([[1]]), frames, tokens)
    assert met.shape == (1, 2, 3, 2, 3)
    assert bool((met == 0).all()) == (frames == [0])
    assert hessian(torch.randn(1, 0, 3), torch.tensor([[1]]), [0], [0]).shape == (1, 0, 3, 0, 3)
