"""The cases of PyTorch's own tests of `ctc_loss`, written anew from what it documents, and where the
two differ by design.

Each case runs with both functions. Values against enumeration, calling forms and reductions are in
test_functional.py.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ctc_align import functional
from ctc_align.errors import KernelError

FRAMES, UTTERANCES, CLASSES = 50, 3, 15
LOG_PROBS = torch.randn(
    FRAMES,
    UTTERANCES,
    CLASSES,
    generator=torch.Generator().manual_seed(0),
    dtype=torch.float64,
).log_softmax(2)
TOKENS = torch.tensor([30, 25, 20])
TARGETS = torch.randint(1, CLASSES, (UTTERANCES, 30), generator=torch.Generator().manual_seed(1))
WHOLE = torch.full((UTTERANCES,), FRAMES)
CALL = {
    "log_probs": LOG_PROBS,
    "targets": TARGETS,
    "input_lengths": WHOLE,
    "target_lengths": TOKENS,
}
BOTH = {"ctc_align": functional.ctc_loss, "PyTorch": torch.nn.functional.ctc_loss}


@pytest.fixture(params=BOTH)
def package(request: pytest.FixtureRequest) -> Callable[..., torch.Tensor]:
    return BOTH[request.param]


REFUSED: dict[str, dict[str, Any]] = {
    "a target row that is too short": {"targets": TARGETS[:, :29]},
    "concatenated targets that are too short": {"targets": TARGETS.flatten()[:74]},
    "negative target lengths": {"target_lengths": torch.tensor([-1, -1, -1])},
    "negative input lengths": {"input_lengths": torch.tensor([-1, -1, -1])},
    "more frames than there are": {"input_lengths": torch.tensor([50, 51, 50])},
    "float input lengths": {"input_lengths": WHOLE.float()},
    "float target lengths": {"target_lengths": TOKENS.float()},
    "too few lengths": {"input_lengths": torch.tensor([50, 50])},
    "a blank that is no class": {"blank": CLASSES},
    "an unknown reduction": {"reduction": "median"},
    "integer log-probs": {"log_probs": LOG_PROBS.long()},
    "no utterance": {
        "log_probs": LOG_PROBS[:, :0],
        "targets": TARGETS[:0],
        "input_lengths": WHOLE[:0],
        "target_lengths": TOKENS[:0],
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_both_refuse(package: Callable[..., torch.Tensor], name: str) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        package(**(CALL | REFUSED[name]))


def both(**change: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the losses of both and their gradients by the logits."""
    found = []
    for call in BOTH.values():
        arguments = CALL | change
        logits = arguments["log_probs"].clone().requires_grad_()
        arguments["log_probs"] = logits.log_softmax(-1)
        losses = call(**arguments, reduction="none")
        (gradient,) = torch.autograd.grad(losses.sum(), logits)
        found.append((losses.detach(), gradient))
    return found


REPEATS = torch.tensor([1, 2, 1, 1, 2, 2])  # takes two blanks
CASES: dict[str, dict[str, Any]] = {
    "long targets": {"target_lengths": torch.tensor([30, 29, 28])},
    "one frame for each token, and no more": {
        "log_probs": LOG_PROBS[:30],
        "targets": torch.arange(30).remainder(14).add(1).expand(3, 30),
        "input_lengths": torch.tensor([30, 30, 30]),
        "target_lengths": torch.tensor([30, 30, 30]),
    },
    "repeats that just fit": {
        "log_probs": LOG_PROBS[:8, :1],
        "targets": REPEATS[None],
        "input_lengths": [8],
        "target_lengths": [6],
    },
    "no tokens in one": {"target_lengths": torch.tensor([30, 0, 20])},
    "no tokens in any": {"target_lengths": torch.tensor([0, 0, 0])},
    "no tokens, concatenated": {
        "targets": torch.zeros(0, dtype=torch.int64),
        "target_lengths": torch.tensor([0, 0, 0]),
    },
    "fewer frames": {"input_lengths": torch.tensor([50, 45, 40])},
    "without a batch": {
        "log_probs": LOG_PROBS[:, 0],
        "targets": TARGETS[0],
        "input_lengths": torch.tensor(50),
        "target_lengths": torch.tensor(30),
    },
    "one utterance, lengths in tuples": {
        "log_probs": LOG_PROBS[:, :1],
        "targets": TARGETS[:1].int(),
        "input_lengths": (50,),
        "target_lengths": (30,),
    },
    "the last class is the blank": {"targets": TARGETS - 1, "blank": CLASSES - 1},
    "float targets": {"targets": TARGETS.double()},
    "gaps in memory": {"log_probs": LOG_PROBS.transpose(0, 2).contiguous().transpose(0, 2)},
}


@pytest.mark.parametrize("name", CASES)
def test_both_give_the_same(name: str) -> None:
    (loss, gradient), (right, expected) = both(**CASES[name])
    assert loss.shape == right.shape
    torch.testing.assert_close(loss, right)
    torch.testing.assert_close(gradient, expected)


def test_a_target_that_does_not_fit_is_infinite_or_zero(
    package: Callable[..., torch.Tensor],
) -> None:
    arguments = CALL | {"input_lengths": torch.tensor([50, 20, 50]), "reduction": "none"}
    assert package(**arguments).isinf().tolist() == [False, True, False]
    leaf = LOG_PROBS.clone().requires_grad_()
    arguments |= {"log_probs": leaf.log_softmax(2), "zero_infinity": True}
    losses = package(**arguments)
    assert losses[1] == 0
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    assert gradient.isfinite().all()
    assert not gradient[:, 1].any()


def test_first_derivatives(package: Callable[..., torch.Tensor]) -> None:
    leaf = torch.randn(6, 2, 4, dtype=torch.float64, requires_grad=True)
    rest = torch.tensor([[1, 2, 2], [3, 1, 0]]), [6, 5], [3, 2]
    for reduction, zero in itertools.product(("none", "mean", "sum"), (False, True)):
        assert torch.autograd.gradcheck(
            lambda x: package(
                x.log_softmax(2),
                *rest,
                reduction=reduction,  # noqa: B023
                zero_infinity=zero,  # noqa: B023
            ),
            leaf,
        )


# ------------------------------------------------------------------ what differs by design


def test_second_derivatives_are_here_alone() -> None:
    leaf = torch.randn(4, 1, 3, dtype=torch.float64, requires_grad=True)
    rest = torch.tensor([[1, 2]]), [4], [2]
    assert torch.autograd.gradgradcheck(
        lambda x: functional.ctc_loss(x.log_softmax(2), *rest), leaf
    )
    theirs = torch.nn.functional.ctc_loss(leaf.log_softmax(2), *rest)
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward"):
        torch.autograd.grad(theirs, leaf, create_graph=True)[0].sum().backward()


def test_unnormalised_scores_have_their_derivative_here_alone() -> None:
    leaf = torch.randn(4, 1, 3, dtype=torch.float64, requires_grad=True)
    rest = torch.tensor([[1, 2]]), [4], [2]
    assert torch.autograd.gradcheck(lambda x: functional.ctc_loss(x, *rest), leaf)
    theirs = [torch.nn.functional.ctc_loss, functional.ctc_loss]
    wrong, right = (
        torch.autograd.grad(call(leaf, *rest, reduction="sum"), leaf)[0] for call in theirs
    )
    torch.testing.assert_close(wrong - right, leaf.detach().exp())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_here_alone(dtype: torch.dtype) -> None:
    arguments = CALL | {"log_probs": LOG_PROBS.to(dtype)}
    assert functional.ctc_loss(**arguments).dtype == torch.float32
    with pytest.raises(RuntimeError, match="not implemented for"):
        torch.nn.functional.ctc_loss(**arguments)


def test_no_frames_are_taken_here_alone() -> None:
    arguments = CALL | {"log_probs": LOG_PROBS[:0], "input_lengths": [0] * 3, "reduction": "none"}
    arguments["target_lengths"] = [0, 1, 0]
    assert functional.ctc_loss(**arguments).tolist() == [0, math.inf, 0]
    with pytest.raises(RuntimeError, match="must not be empty"):
        torch.nn.functional.ctc_loss(**arguments)


def sum_over_states(log_probs: torch.Tensor, target: list[int]) -> float:
    """Return the sum of the probabilities of all paths through the states blank, token, blank, ….

    A token that is the blank is a state like any other, so that one path of labels counts as often
    as paths of states read it.
    """
    labels = [0]
    for token in target:
        labels += [token, 0]
    total = 0.0
    for path in itertools.product(range(len(labels)), repeat=len(log_probs)):
        steps = [(after, after - before) for before, after in itertools.pairwise(path)]
        if path[0] > 1 or path[-1] < len(labels) - 2:
            continue
        if all(
            step in (0, 1) or (step == 2 and after % 2 and labels[after] != labels[after - 2])
            for after, step in steps
        ):
            states = torch.tensor([labels[state] for state in path])
            total += log_probs[torch.arange(len(path)), states].sum().exp().item()
    return total


@pytest.mark.parametrize("target", [[0], [0, 0], [0, 1], [1, 0], [1, 0, 1], [1, 0, 2]], ids=str)
def test_a_blank_in_a_target_is_taken_there_alone(target: list[int]) -> None:
    """PyTorch documents that targets cannot hold the blank, and reads it as a token with the blank's
    log-probs: what it returns is minus the log of no probability, and can be negative."""
    log_probs = torch.tensor([0.9, 0.05, 0.05]).double().log().expand(5, 3)
    arguments = log_probs[:, None], torch.tensor([target]), [5], [len(target)]
    theirs = torch.nn.functional.ctc_loss(*arguments, reduction="sum")
    assert theirs.item() == pytest.approx(-math.log(sum_over_states(log_probs, target)))
    if target == [0]:
        assert theirs < -2
    with pytest.raises(KernelError, match=rf"token {target.index(0)} \(0\) is the blank"):
        functional.ctc_loss(*arguments)
