"""PyTorch's own ways: each works, or is refused in one clear line: derivatives, graphs, modules,
devices, processes.

The table in docs/pytorch.md names these tests.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from rows import over_rows
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from ctc_align import CTCLoss, losses
from ctc_align.ctc import operators
from ctc_align.ctc.autograd import occupancies
from ctc_align.errors import KernelError
from ctc_align.functional import ctc_loss, forced_align, hessian, occupancy, simple_ctc_loss
from ctc_align.lattice import segmentation

FRAMES, UTTERANCES, CLASSES = 9, 3, 5
SCORES = torch.randn(
    FRAMES, UTTERANCES, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64
)
TARGETS = torch.tensor([[1, 2, 2], [3, 4, 0], [1, 0, 0]])
LENGTHS, TOKENS = torch.tensor([9, 8, 6]), torch.tensor([3, 2, 1])
REST = TARGETS, LENGTHS, TOKENS
PROBLEM = (*REST, 0, "ctc", "auto")
LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "ctc_loss": ctc_loss,
    "simple_ctc_loss": simple_ctc_loss,
    "label_prior_ctc_loss": lambda *a: losses.label_prior_ctc_loss(
        *a, log_prior=torch.linspace(-3, -1, CLASSES)
    ),
    "reweighted_ctc_loss": lambda *a: losses.reweighted_ctc_loss(*a, focus=1.0),
    **{
        name: getattr(losses, name)
        for name in (
            "soft_target_cross_entropy",
            "focal_ctc_loss",
            "label_smoothed_ctc_loss",
            "alignment_entropy",
        )
    },
}


def loss(x: torch.Tensor, kind: str = "ctc_loss") -> torch.Tensor:
    return LOSSES[kind](x.log_softmax(2), *REST) + x.pow(2).sum()


def gradient(x: torch.Tensor, call: Callable[[torch.Tensor], torch.Tensor] = loss) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(call(leaf), leaf)[0]


def close(met: Any, right: Any) -> None:
    torch.testing.assert_close(met, right, rtol=1e-10, atol=1e-12)


class Step(torch.nn.Module):
    """A network and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(CLASSES, CLASSES).double()
        self.loss = CTCLoss()

    def forward(self, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        return self.loss(self.network(x).log_softmax(2), *rest)


OTHERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "occupancy": lambda x: occupancy(x, *REST),
    "forced_align": lambda x: forced_align(x.transpose(0, 1), *REST),
    "hessian": lambda x: hessian(
        x[:4, :1].transpose(0, 1), TARGETS[:1, :2], LENGTHS[:1].clamp(max=4), TOKENS[2:]
    ),
}


@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)  # PyTorch's own
def test_opcheck() -> None:
    """Schema, fake tensors, autograd and compilation of all operators, on views too."""
    x, y = SCORES.transpose(0, 1), SCORES.transpose(0, 1).contiguous().requires_grad_()
    upstream, direction = (
        torch.tensor([1.0, -2.0, 0.5]).double(),
        torch.rand(x.shape, dtype=torch.float64),
    )
    posteriors = operators.sums(x, *PROBLEM)[1]
    # Each operator that there is must be in this list.
    calls: dict[str, list[tuple]] = {
        "losses": [(y, *PROBLEM), (x, *PROBLEM), (x.detach().requires_grad_(), *PROBLEM)],
        "occupancies": [
            (y, *PROBLEM),
            (x[:, :, ::2], TARGETS % 2 + 1, None, TOKENS, 0, "simple", "cpu"),
        ],
        "total": [(x, *PROBLEM)],
        "sums": [
            (x, *PROBLEM),
            (x.float()[:, ::2], TARGETS, None, torch.tensor([1, 1, 1]), 0, "ctc", "auto"),
        ],
        "gradient": [(x, upstream, posteriors, *PROBLEM)],
        "scale_": [(posteriors.clone(), upstream)],
        "second": [
            (x, upstream, posteriors, direction, *PROBLEM),
            (x, None, posteriors, direction, *PROBLEM),
        ],
        "forced_align": [(x.float(), *REST, 0), (x, TARGETS[:, :1].int(), None, None, 0)],
        "hessian": [
            (x[:1, :4], TARGETS[:1, :2], torch.tensor([4]), torch.tensor([2]), 0, "ctc", "auto")
        ],
        "frame_counts": [(LENGTHS, UTTERANCES, FRAMES)],
        "finite": [(torch.rand(3), "numbers")],
    }
    assert set(operators.defined) == set(calls)
    for name, rows in calls.items():
        for arguments in rows:
            torch.library.opcheck(getattr(torch.ops.ctc_align, name).default, arguments)


def all_losses(x: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
    log_probs = x.log_softmax(2)
    return torch.stack(
        [2**n * call(log_probs, TARGETS, frames, TOKENS) for n, call in enumerate(LOSSES.values())]
    )


@pytest.mark.parametrize(
    ("call", "backend"),
    [
        (
            lambda x, frames: ctc_loss(x.log_softmax(2), TARGETS, frames, TOKENS, reduction="none"),
            "aot_eager",
        ),
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
    close(
        torch.compile(OTHERS[name], backend="aot_eager", fullgraph=True)(SCORES),
        OTHERS[name](SCORES),
    )


def test_compile_of_label_priors() -> None:
    torch.compiler.reset()
    prior, compiled = losses.LabelPrior(CLASSES), losses.LabelPrior(CLASSES)
    close(
        torch.compile(compiled, backend="eager", fullgraph=True)(SCORES, LENGTHS),
        prior(SCORES, LENGTHS),
    )
    assert torch.equal(compiled.mean, prior.mean)


def test_compile_with_lists_and_arrays() -> None:
    torch.compiler.reset()
    step = torch.compile(ctc_loss, backend="eager", fullgraph=True)
    for targets, tokens in (
        (TARGETS.tolist(), [3, 2, 1]),
        ([[1, 2], [3], []], (2, 1, 0)),
        (TARGETS.numpy(), [1, 2, 1]),
    ):
        close(
            step(SCORES, targets, LENGTHS.numpy(), tokens),
            ctc_loss(SCORES, targets, LENGTHS, tokens),
        )
    with pytest.raises(KernelError, match="input_lengths: utterance 0 has 10 frames"):
        step(SCORES, TARGETS, torch.tensor([10, 8, 6]), TOKENS)


def test_torch_func_in_a_compiled_function_is_refused() -> None:
    torch.compiler.reset()
    with pytest.raises(
        Exception, match=r"torch\.func cannot differentiate the CTC loss inside torch\.compile"
    ):
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
        made(SCORES[:8], TARGETS, LENGTHS.clamp(max=8), TOKENS),
        step(SCORES[:8], TARGETS, LENGTHS.clamp(max=8), TOKENS),
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
    close(
        torch.func.grad(lambda x: loss(x, kind))(SCORES), gradient(SCORES, lambda x: loss(x, kind))
    )


def test_torch_func_over_other_paths() -> None:
    """Of any topology, and of the occupancies."""
    topology = segmentation(
        [[0, 1], [1], [0]], [[0, 1], [0], [0]], 1, 4, [[False, True], [False], [True]]
    )

    def soft(x: torch.Tensor) -> torch.Tensor:
        return (occupancies(x.transpose(0, 1), topology, LENGTHS) ** 2).sum()

    right = gradient(SCORES, soft)
    close(torch.func.grad(soft)(SCORES), right)
    close(torch.func.jacfwd(soft)(SCORES), right)
    rows = torch.vmap(lambda x: occupancies(x.transpose(0, 1), topology, LENGTHS))(
        torch.stack((SCORES, SCORES * 2))
    )
    close(rows[1], occupancies(2 * SCORES.transpose(0, 1), topology, LENGTHS))


def test_forward_mode() -> None:
    along = torch.randn_like(SCORES)
    with forward_ad.dual_level():
        met = forward_ad.unpack_dual(loss(forward_ad.make_dual(SCORES, along))).tangent
        half = forward_ad.make_dual(SCORES.bfloat16(), along.bfloat16())
        assert forward_ad.unpack_dual(ctc_loss(half, *REST)).tangent.dtype == torch.float32
    close(met, (gradient(SCORES) * along).sum())


def test_vmap_over_the_batch() -> None:
    """Of utterances without a batch; with the gradient inside or outside; of batches of batches; of
    targets alone."""

    def one(
        x: torch.Tensor, target: torch.Tensor, frames: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        return ctc_loss(x.log_softmax(1), target, frames, tokens, reduction="sum")

    def total(x: torch.Tensor) -> torch.Tensor:
        return ctc_loss(x.log_softmax(2), *REST, reduction="sum")

    by_utterance = torch.vmap(one, (1, 0, 0, 0))
    close(by_utterance(SCORES, *REST), ctc_loss(SCORES.log_softmax(2), *REST, reduction="none"))
    right = gradient(SCORES, total)
    close(torch.vmap(torch.func.grad(one), (1, 0, 0, 0), 1)(SCORES, *REST), right)
    close(torch.func.grad(lambda x: by_utterance(x, *REST).sum())(SCORES), right)
    pairs = torch.stack((SCORES, SCORES * 2))
    close(
        torch.vmap(by_utterance, (0, None, None, None))(pairs, *REST)[0],
        by_utterance(SCORES, *REST),
    )
    close(torch.vmap(lambda x: occupancy(x, *REST))(pairs)[1], occupancy(2 * SCORES, *REST))
    paths, scores = torch.vmap(lambda x: forced_align(x.transpose(0, 1), *REST))(pairs)
    close((paths[1], scores[1]), forced_align(2 * SCORES.transpose(0, 1), *REST))
    other = (TARGETS + 1) % CLASSES + (TARGETS == CLASSES - 1)
    close(
        torch.vmap(lambda targets: ctc_loss(SCORES, targets, LENGTHS, TOKENS))(
            torch.stack((TARGETS, other))
        )[1],
        ctc_loss(SCORES, other, LENGTHS, TOKENS),
    )


def test_batched_gradients() -> None:
    """By is_grads_batched, and by `vectorize` of torch.autograd.functional."""
    leaf = SCORES.clone().requires_grad_()
    each = ctc_loss(leaf, *REST, reduction="none")
    (rows,) = torch.autograd.grad(
        each, leaf, torch.eye(UTTERANCES).double(), is_grads_batched=True, retain_graph=True
    )
    close(rows.sum(0), torch.autograd.grad(each.sum(), leaf)[0])
    right = torch.autograd.functional.hessian(loss, SCORES)
    for outer in ("reverse-mode", "forward-mode"):
        kinds = {"vectorize": True, "outer_jacobian_strategy": outer}
        close(torch.autograd.functional.hessian(loss, SCORES, **kinds), right)


def tiny(x: torch.Tensor) -> torch.Tensor:
    return ctc_loss(x, torch.tensor([[1]]), [2], [1])


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")  # which is what one row calls
@over_rows(
    ("call", "said"),
    [
        (
            lambda x: torch.func.jacrev(torch.func.jacrev(torch.func.jacrev(tiny)))(x),
            "differentiable twice, its occu",
        ),
        (
            lambda x: torch.func.jacfwd(torch.func.jacrev(torch.func.jacrev(tiny)))(x),
            "differentiable twice, its occu",
        ),
        (
            lambda x: torch.func.jacfwd(torch.func.jacfwd(tiny))(x),
            "not differentiable twice in forward mode, as no to",
        ),
        (
            lambda x: torch.vmap(
                lambda x: ctc_loss(x.repeat(1, 2, 1), torch.tensor([1, 1]), [2, 2], [1, 1])
            )(x[None]),
            "targets: expected (N, S) under torch.vmap, got the targets of all utterances in a row",
        ),
        (
            lambda x: torch.jit.script(CTCLoss()),
            "torch.jit.script does not take CTCLoss, whose kernels are called fro",
        ),
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
        for rest in (
            map(mode.from_tensor, REST),
            ([[1, 2], [3], [1]], (9, 8, 6), np.array([2, 1, 1])),
        ):
            ctc_loss(fake, *rest).backward()
        assert (fake.grad.shape, fake.grad.stride(), fake.grad.dtype) == (
            fake.shape,
            fake.stride(),
            torch.float32,
        )  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_tracing() -> None:
    """torch.jit.trace and make_fx keep the operators: other numbers, other losses."""
    for made in (
        make_fx(lambda x: gradient(x))(SCORES),
        make_fx(torch.func.grad(lambda x: loss(x)))(SCORES),
    ):
        close(made(SCORES * 2), gradient(SCORES * 2))
    traced = torch.jit.trace(loss, (SCORES,))
    close(traced(SCORES * 2), loss(SCORES * 2))


def script(log_probs: torch.Tensor, targets: torch.Tensor, tokens: torch.Tensor):  # type: ignore[no-untyped-def]
    losses = torch.ops.ctc_align.losses(log_probs, targets, None, tokens, 0, "ctc", "auto")
    paths, _ = torch.ops.ctc_align.forced_align(log_probs, targets, None, tokens, 0)
    return losses.sum(), paths


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")
def test_operators_in_a_script() -> None:
    leaf = SCORES.transpose(0, 1).contiguous().requires_grad_()
    value, paths = torch.jit.script(script)(leaf, TARGETS, TOKENS)
    whole = torch.full((UTTERANCES,), FRAMES)
    right = ctc_loss(leaf.transpose(0, 1), TARGETS, whole, TOKENS, reduction="sum")
    assert torch.equal(value, right)
    assert torch.equal(*(torch.autograd.grad(loss, leaf)[0] for loss in (value, right)))
    assert torch.equal(paths, forced_align(leaf, TARGETS, whole, TOKENS)[0])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_second_derivatives_by_finite_differences(reduction: str) -> None:
    """Of an utterance that fits, one that is too short, and one without tokens."""
    x = (SCORES[:4] + 1).clone().requires_grad_()
    rest = [[1, 2], [3, 3], []], [4, 2, 3], [2, 2, 0], 0, reduction, True

    def call(x: torch.Tensor) -> torch.Tensor:
        return ctc_loss(x, *rest)

    assert torch.autograd.gradcheck(call, x, check_forward_ad=True, check_batched_grad=True)
    more = {"check_fwd_over_rev": True, "check_rev_over_rev": True, "check_batched_grad": True}
    assert torch.autograd.gradgradcheck(call, x, **more)


def test_checkpointing_and_saved_tensor_hooks() -> None:
    """Nothing that a graph keeps is hidden from PyTorch: activation checkpointing drops all of
    it."""
    for reentrant in (False, True):
        leaf = SCORES.clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(loss, leaf, use_reentrant=reentrant).backward()
        close(leaf.grad, gradient(SCORES))
    kept: list[torch.Tensor] = []
    leaf = SCORES.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x) or x.clone(), lambda x: x
    ):  # type: ignore[func-returns-value]
        value = ctc_loss(leaf, *REST)
    assert any(
        x.shape == (UTTERANCES, FRAMES, CLASSES) and x.data_ptr() != leaf.data_ptr() for x in kept
    )
    value.backward()
    close(leaf.grad, gradient(SCORES, lambda x: ctc_loss(x, *REST)))


def test_retained_graphs() -> None:
    """Any order of gradients of one graph, with and without create_graph, gives the same bits."""
    leaf = SCORES.clone().requires_grad_()
    value = ctc_loss(leaf, *REST)
    kinds = [False, True, False, False, True]
    made = [
        torch.autograd.grad(value, leaf, retain_graph=True, create_graph=create)[0]
        for create in kinds
    ]
    assert all(torch.equal(each, made[0]) for each in made)
    assert len({each.data_ptr() for each in made}) == len(made)
    seconds = [
        torch.autograd.grad((made[k] ** 2).sum(), leaf, retain_graph=True)[0] for k in (1, 4)
    ]
    assert torch.equal(*seconds)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    """Half-precision log-probs give losses in float32, and gradients in their own type."""
    step = Step().float()
    with torch.autocast("cpu", dtype):
        value = step(SCORES.float(), *REST)
        assert ctc_loss(SCORES.to(dtype), *REST).dtype == torch.float32
    value.backward()
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, step(SCORES.float(), *REST), rtol=2e-2, atol=2e-2)
    # Nothing stands in the way of the operators on any device.
    for key in ("AutocastCPU", "AutocastCUDA"):
        assert not torch._C._dispatch_has_kernel_for_dispatch_key("ctc_align::losses", key)


def test_backward_reads_no_number_from_a_device() -> None:
    """Elsewhere than on the CPU, gradients are enqueued without a look at any number: meta tensors
    have none."""
    posteriors, upstream = (
        torch.rand(UTTERANCES, FRAMES, CLASSES),
        torch.tensor([1.0, float("inf"), 2.0]),
    )
    posteriors[1, :3] = 0
    far = [tensor.to("meta") for tensor in (posteriors, upstream)]
    with pytest.raises(RuntimeError, match="meta"):
        bool(far[1].isfinite().all())  # what a look at a number does
    for x in (far[0], far[0].half(), far[0].transpose(1, 2).contiguous().transpose(1, 2)):
        made = operators.gradient_kernel(x, far[1], far[0])
        assert (made.shape, made.dtype, made.stride()) == (x.shape, x.dtype, x.stride())
    operators.scale_kernel(*far)
    # The values of that branch, on the CPU: 0 times infinity is 0.
    met = operators.gradient_kernel(posteriors, upstream, posteriors)
    torch.testing.assert_close(
        met, torch.where(posteriors == 0, 0.0, -posteriors * upstream[:, None, None])
    )


class Copies(TorchDispatchMode):
    """Keeps the copies to a GPU that wait until it has done all before them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.waiting = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (
            func is torch.ops.aten._to_copy.default
            and kwargs.get("device", torch.device("cpu")).type == "cuda"
        ):
            self.seen += 1
            self.waiting += not kwargs.get("non_blocking")
        return func(*args, **kwargs)


def test_the_loss_does_not_wait_for_a_gpu() -> None:
    """Lengths on the CPU go there without waiting; on fake tensors of a GPU, which need none."""
    with FakeTensorMode(), torch.no_grad(), Copies() as copies:
        torch.ones(2).to(torch.device("cuda", 0))
        assert (copies.seen, copies.waiting) == (1, 1)
        value = ctc_loss(
            torch.empty(FRAMES, UTTERANCES, CLASSES, device="cuda"),
            [[1], [2], [3]],
            [9, 8, 7],
            [1, 1, 1],
        )
    assert value.device.type == "cuda"
    assert (copies.seen, copies.waiting) == (2, 1)


def test_a_default_device() -> None:
    """Where new tensors are made does not matter: numbers of lists stay where they are read."""
    lists = TARGETS.tolist(), LENGTHS.tolist(), TOKENS.tolist()
    prior = torch.linspace(-3, -1, CLASSES)
    with torch.device("meta"):
        for kind, call in LOSSES.items():
            more = {"log_prior": prior} if kind == "label_prior_ctc_loss" else {}
            met = (losses.label_prior_ctc_loss if more else call)(SCORES, *lists, **more)
            assert met.device.type == "cpu"
        assert hessian(SCORES[:4, :1].transpose(0, 1), [[1]], [4], [1]).isfinite().all()
        assert forced_align(SCORES.transpose(0, 1), [[1, 2], [3], [1]])[0].device.type == "cpu"


def test_inference_mode_and_no_grad() -> None:
    with torch.inference_mode():
        close(loss(SCORES.clone()), loss(SCORES))
        close(
            forced_align(SCORES.clone().transpose(0, 1), *REST)[0],
            forced_align(SCORES.transpose(0, 1), *REST)[0],
        )
    with torch.no_grad():
        assert not loss(SCORES.clone().requires_grad_()).requires_grad


def test_modules_are_copied_saved_and_loaded() -> None:
    made = CTCLoss(blank=2, reduction="sum", zero_infinity=True)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert repr(other) == repr(made)
        close(
            other(SCORES, TARGETS % 2 + 3, LENGTHS, TOKENS),
            made(SCORES, TARGETS % 2 + 3, LENGTHS, TOKENS),
        )
    prior, again = losses.LabelPrior(CLASSES), losses.LabelPrior(CLASSES)
    prior(SCORES.log_softmax(2).float(), LENGTHS)
    again.load_state_dict(prior.state_dict())
    assert torch.equal(again.mean, prior.mean)
    assert list(made.state_dict()) == list(prior.parameters()) == []


def test_data_parallel() -> None:
    """DataParallel, without a GPU the module itself; what it does with several: replicas in
    threads."""
    step = Step().to("cuda" if torch.cuda.is_available() else "cpu")
    scores = SCORES.to(step.network.weight.device)
    close(torch.nn.DataParallel(step)(scores, *REST), step(scores, *REST))

    def on_a_thread(_: int) -> torch.Tensor:
        return gradient(SCORES)

    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(made, gradient(SCORES)) for made in pool.map(on_a_thread, range(16)))


def test_distributed_data_parallel(tmp_path: Path) -> None:
    step = Step()
    torch.distributed.init_process_group(
        "gloo", f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        wrapped = torch.nn.parallel.DistributedDataParallel(copy.deepcopy(step))
        wrapped(SCORES, *REST).backward()
    finally:
        torch.distributed.destroy_process_group()
    step(SCORES, *REST).backward()
    close(wrapped.module.network.weight.grad, step.network.weight.grad)


class Utterances(torch.utils.data.Dataset):
    """The loss of each utterance, computed in a worker."""

    def __len__(self) -> int:
        return UTTERANCES

    def __getitem__(self, n: int) -> torch.Tensor:
        return ctc_loss(SCORES[:, n], TARGETS[n, : TOKENS[n]], LENGTHS[n], TOKENS[n])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_workers_of_a_data_loader() -> None:
    """Forked after the kernels were used."""
    right = ctc_loss(SCORES, *REST, reduction="none")
    fork = multiprocessing.get_context("fork")
    loader = torch.utils.data.DataLoader(
        Utterances(), 1, num_workers=2, multiprocessing_context=fork
    )
    close(torch.cat(list(loader)), right / TOKENS)
