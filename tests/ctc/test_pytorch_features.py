"""PyTorch's own ways: each works, or is refused in one clear line. The table in docs/pytorch.md names these tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from pytorch_steps import (
    CLASSES,
    FRAMES,
    LENGTHS,
    LOSSES,
    PROBLEM,
    REST,
    SCORES,
    TARGETS,
    TOKENS,
    UTTERANCES,
    Step,
    close,
    gradient,
    loss,
)
from rows import over_rows
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from ctc_align import CTCLoss, losses
from ctc_align.ctc import operators
from ctc_align.ctc.autograd import occupancies
from ctc_align.errors import KernelError
from ctc_align.functional import ctc_loss, forced_align, hessian, occupancy
from ctc_align.lattice import segmentation

# PyTorch's own, in its rules of forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.:DeprecationWarning")

OTHERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "occupancy": lambda x: occupancy(x, *REST),
    "forced_align": lambda x: forced_align(x.transpose(0, 1), *REST),
    "hessian": lambda x: hessian(x[:4, :1].transpose(0, 1), TARGETS[:1, :2], LENGTHS[:1].clamp(max=4), TOKENS[2:]),
}


@pytest.mark.long
def test_opcheck() -> None:
    """Schema, fake tensors, autograd and compilation of all operators, on views too."""
    x, y = SCORES.transpose(0, 1), SCORES.transpose(0, 1).contiguous().requires_grad_()
    upstream, direction = torch.tensor([1.0, -2.0, 0.5]).double(), torch.rand(x.shape, dtype=torch.float64)
    posteriors = operators.sums(x, *PROBLEM)[1]
    # Each operator that there is must be in this list.
    calls: dict[str, list[tuple]] = {
        "losses": [(y, *PROBLEM), (x, *PROBLEM), (x.detach().requires_grad_(), *PROBLEM)],
        "occupancies": [(y, *PROBLEM), (x[:, :, ::2], TARGETS % 2 + 1, None, TOKENS, 0, "simple", "cpu")],
        "total": [(x, *PROBLEM)],
        "sums": [(x, *PROBLEM), (x.float()[:, ::2], TARGETS, None, torch.tensor([1, 1, 1]), 0, "ctc", "auto")],
        "gradient": [(x, upstream, posteriors, *PROBLEM)],
        "scale_": [(posteriors.clone(), upstream)],
        "second": [(x, upstream, posteriors, direction, *PROBLEM), (x, None, posteriors, direction, *PROBLEM)],
        "forced_align": [(x.float(), *REST, 0), (x, TARGETS[:, :1].int(), None, None, 0)],
        "hessian": [(x[:1, :4], TARGETS[:1, :2], torch.tensor([4]), torch.tensor([2]), 0, "ctc", "auto")],
        "frame_counts": [(LENGTHS, UTTERANCES, FRAMES)],
        "finite": [(torch.rand(3), "numbers")],
    }
    assert set(operators.defined) == set(calls)
    for name, rows in calls.items():
        for arguments in rows:
            torch.library.opcheck(getattr(torch.ops.ctc_align, name).default, arguments)


def all_losses(x: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    log_probs = x.log_softmax(2)
    return torch.stack([2**n * call(log_probs, TARGETS, frames, TOKENS) for n, call in enumerate(LOSSES.values())])


@pytest.mark.parametrize(
    ("call", "backend"),
    [
        (lambda x, frames: ctc_loss(x.log_softmax(2), TARGETS, frames, TOKENS, reduction="none"), "aot_eager"),
        pytest.param(all_losses, "aot_eager", marks=pytest.mark.long),
        pytest.param(all_losses, "inductor", marks=pytest.mark.long),
    ],
    ids=["the loss", "all losses", "all losses by inductor"],
)
def test_compile_in_one_graph(call: Callable[..., torch.Tensor], backend: str) -> None:
    """Losses and gradients of a compiled step, for another number of frames too."""
    torch.compiler.reset()
    step = torch.compile(call, backend=backend, fullgraph=True, dynamic=True)
    for frames in (FRAMES, FRAMES - 1):
        rest = (LENGTHS.clamp(max=frames),)
        leaf = SCORES[:frames].clone().requires_grad_()
        values = step(leaf, *rest)
        values.sum().backward()
        close(values.detach(), call(SCORES[:frames], *rest))
        close(leaf.grad, gradient(SCORES[:frames], lambda x: call(x, *rest).sum()))  # noqa: B023


@over_rows("name", OTHERS)
def test_compile_of_what_has_no_gradient(name: str) -> None:
    torch.compiler.reset()
    close(torch.compile(OTHERS[name], backend="aot_eager", fullgraph=True)(SCORES), OTHERS[name](SCORES))


def test_compile_of_label_priors() -> None:
    torch.compiler.reset()
    prior, compiled = losses.LabelPrior(CLASSES), losses.LabelPrior(CLASSES)
    close(torch.compile(compiled, backend="eager", fullgraph=True)(SCORES, LENGTHS), prior(SCORES, LENGTHS))
    assert torch.equal(compiled.mean, prior.mean)


def test_compile_with_lists_and_arrays() -> None:
    torch.compiler.reset()
    step = torch.compile(ctc_loss, backend="eager", fullgraph=True)
    for targets, tokens in (
        (TARGETS.tolist(), [3, 2, 1]),
        ([[1, 2], [3], []], (2, 1, 0)),
        (TARGETS.numpy(), [1, 2, 1]),
    ):
        close(step(SCORES, targets, LENGTHS.numpy(), tokens), ctc_loss(SCORES, targets, LENGTHS, tokens))
    with pytest.raises(KernelError, match="input_lengths: utterance 0 has 10 frames"):
        step(SCORES, TARGETS, torch.tensor([10, 8, 6]), TOKENS)


def test_torch_func_in_a_compiled_function_is_refused() -> None:
    torch.compiler.reset()
    with pytest.raises(Exception, match=r"torch\.func cannot differentiate the CTC loss inside torch\.compile"):
        torch.compile(torch.func.grad(loss), backend="eager", fullgraph=True)(SCORES)


def test_export() -> None:
    """Also with a number of frames that changes."""
    step, frames = Step(), torch.export.Dim("frames", min=2, max=99)
    for shapes in (None, ({0: frames}, None, None, None)):
        given = (SCORES, *REST)
        # One of the module's arguments is *rest.
        shapes = None if shapes is None else (shapes[0], shapes[1:])
        made = torch.export.export(step, given, dynamic_shapes=shapes).module()
        close(made(SCORES * 2, *REST), step(SCORES * 2, *REST))
    close(
        made(SCORES[:8], TARGETS, LENGTHS.clamp(max=8), TOKENS), step(SCORES[:8], TARGETS, LENGTHS.clamp(max=8), TOKENS)
    )


def test_torch_func_derivatives() -> None:
    right, second = gradient(SCORES), torch.autograd.functional.hessian(loss, SCORES)
    along = torch.randn_like(SCORES)
    close(torch.func.grad(loss)(SCORES), right)
    close(torch.func.jacrev(loss)(SCORES), right)
    close(torch.func.jacfwd(loss)(SCORES), right)
    close(torch.func.jvp(loss, (SCORES,), (along,))[1], (right * along).sum())
    for made in (torch.func.hessian, lambda f: torch.func.jacrev(torch.func.jacrev(f))):
        close(made(loss)(SCORES), second)
    close(torch.func.jacrev(torch.func.jacfwd(loss))(SCORES), second)
    product = torch.func.jvp(torch.func.grad(loss), (SCORES,), (along,))[1]
    close(product, torch.einsum("abcdef,def->abc", second, along))


@over_rows("kind", LOSSES)
def test_torch_func_gradient_of_all_losses(kind: str) -> None:
    close(torch.func.grad(lambda x: loss(x, kind))(SCORES), gradient(SCORES, lambda x: loss(x, kind)))


def test_torch_func_over_other_paths() -> None:
    """Of any topology, and of the occupancies."""
    topology = segmentation([[0, 1], [1], [0]], [[0, 1], [0], [0]], 1, 4, [[False, True], [False], [True]])

    def soft(x: torch.Tensor) -> torch.Tensor:
        return (occupancies(x.transpose(0, 1), topology, LENGTHS) ** 2).sum()

    right = gradient(SCORES, soft)
    close(torch.func.grad(soft)(SCORES), right)
    close(torch.func.jacfwd(soft)(SCORES), right)
    rows = torch.vmap(lambda x: occupancies(x.transpose(0, 1), topology, LENGTHS))(torch.stack((SCORES, SCORES * 2)))
    close(rows[1], occupancies(2 * SCORES.transpose(0, 1), topology, LENGTHS))


def test_forward_mode() -> None:
    along = torch.randn_like(SCORES)
    with forward_ad.dual_level():
        met = forward_ad.unpack_dual(loss(forward_ad.make_dual(SCORES, along))).tangent
        half = forward_ad.make_dual(SCORES.bfloat16(), along.bfloat16())
        assert forward_ad.unpack_dual(ctc_loss(half, *REST)).tangent.dtype == torch.float32
    close(met, (gradient(SCORES) * along).sum())


def test_vmap_over_the_batch() -> None:
    """Of utterances without a batch; with the gradient inside or outside; of batches of batches; of targets alone."""

    def one(x: torch.Tensor, target: torch.Tensor, frames: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return ctc_loss(x.log_softmax(1), target, frames, tokens, reduction="sum")

    def total(x: torch.Tensor) -> torch.Tensor:
        return ctc_loss(x.log_softmax(2), *REST, reduction="sum")

    by_utterance = torch.vmap(one, (1, 0, 0, 0))
    close(by_utterance(SCORES, *REST), ctc_loss(SCORES.log_softmax(2), *REST, reduction="none"))
    right = gradient(SCORES, total)
    close(torch.vmap(torch.func.grad(one), (1, 0, 0, 0), 1)(SCORES, *REST), right)
    close(torch.func.grad(lambda x: by_utterance(x, *REST).sum())(SCORES), right)
    pairs = torch.stack((SCORES, SCORES * 2))
    close(torch.vmap(by_utterance, (0, None, None, None))(pairs, *REST)[0], by_utterance(SCORES, *REST))
    close(torch.vmap(lambda x: occupancy(x, *REST))(pairs)[1], occupancy(2 * SCORES, *REST))
    paths, scores = torch.vmap(lambda x: forced_align(x.transpose(0, 1), *REST))(pairs)
    close((paths[1], scores[1]), forced_align(2 * SCORES.transpose(0, 1), *REST))
    other = (TARGETS + 1) % CLASSES + (TARGETS == CLASSES - 1)
    close(
        torch.vmap(lambda targets: ctc_loss(SCORES, targets, LENGTHS, TOKENS))(torch.stack((TARGETS, other)))[1],
        ctc_loss(SCORES, other, LENGTHS, TOKENS),
    )


def test_batched_gradients() -> None:
    """By is_grads_batched, and by `vectorize` of torch.autograd.functional."""
    leaf = SCORES.clone().requires_grad_()
    each = ctc_loss(leaf, *REST, reduction="none")
    (rows,) = torch.autograd.grad(each, leaf, torch.eye(UTTERANCES).double(), is_grads_batched=True, retain_graph=True)
    close(rows.sum(0), torch.autograd.grad(each.sum(), leaf)[0])
    right = torch.autograd.functional.hessian(loss, SCORES)
    for outer in ("reverse-mode", "forward-mode"):
        kinds = {"vectorize": True, "outer_jacobian_strategy": outer}
        close(torch.autograd.functional.hessian(loss, SCORES, **kinds), right)


def tiny(x: torch.Tensor) -> torch.Tensor:
    return ctc_loss(x, torch.tensor([[1]]), [2], [1])


@over_rows(
    ("call", "said"),
    [
        (lambda x: torch.func.jacrev(torch.func.jacrev(torch.func.jacrev(tiny)))(x), "differentiable twice, its occu"),
        (lambda x: torch.func.jacfwd(torch.func.jacrev(torch.func.jacrev(tiny)))(x), "differentiable twice, its occu"),
        (lambda x: torch.func.jacfwd(torch.func.jacfwd(tiny))(x), "not differentiable twice in forward mode, as no to"),
        (
            lambda x: torch.vmap(lambda x: ctc_loss(x.repeat(1, 2, 1), torch.tensor([1, 1]), [2, 2], [1, 1]))(x[None]),
            "targets: expected (N, S) under torch.vmap, got the targets of all utterances in a row",
        ),
        (lambda x: torch.jit.script(CTCLoss()), "torch.jit.script does not take CTCLoss, whose kernels are called fro"),
    ],
)
def test_what_is_refused(call: Callable[[torch.Tensor], Any], said: str) -> None:
    with pytest.raises(KernelError) as error:
        call(SCORES[:2, :1])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_meta_and_fake_tensors() -> None:
    """Shapes and types without numbers; lists too."""
    leaf = SCORES.to("meta").requires_grad_()
    value = ctc_loss(leaf, *REST)
    value.backward()
    assert (value.shape, leaf.grad.shape, leaf.grad.device.type) == ((), SCORES.shape, "meta")  # type: ignore[union-attr]
    assert forced_align(SCORES.to("meta").transpose(0, 1), TARGETS)[1].shape == (UTTERANCES, FRAMES)
    half = SCORES.transpose(0, 1).float().contiguous().transpose(0, 1)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(half).requires_grad_()
        for rest in (map(mode.from_tensor, REST), ([[1, 2], [3], [1]], (9, 8, 6), np.array([2, 1, 1]))):
            ctc_loss(fake, *rest).backward()
        assert (fake.grad.shape, fake.grad.stride(), fake.grad.dtype) == (fake.shape, fake.stride(), torch.float32)  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_tracing() -> None:
    """torch.jit.trace and make_fx keep the operators: other numbers, other losses."""
    for made in (make_fx(lambda x: gradient(x))(SCORES), make_fx(torch.func.grad(lambda x: loss(x)))(SCORES)):
        close(made(SCORES * 2), gradient(SCORES * 2))
    traced = torch.jit.trace(loss, (SCORES,))
    close(traced(SCORES * 2), loss(SCORES * 2))


def test_second_derivatives_by_finite_differences() -> None:
    x = SCORES[:4, :2].clone().requires_grad_()
    rest = TARGETS[:2], [4, 3], [2, 2]
    assert torch.autograd.gradcheck(lambda x: ctc_loss(x, *rest), x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda x: ctc_loss(x, *rest), x, check_fwd_over_rev=True, check_rev_over_rev=True, check_batched_grad=True
    )
