"""Training around the losses: graphs, modules, devices, processes. The table in docs/pytorch.md names these tests."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from pytorch_steps import (
    CLASSES,
    FRAMES,
    LENGTHS,
    LOSSES,
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
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ctc_align import CTCLoss, losses
from ctc_align.ctc import operators
from ctc_align.functional import ctc_loss, forced_align, hessian

# PyTorch's own, in its rules of forward mode.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.:DeprecationWarning")


def test_checkpointing_and_saved_tensor_hooks() -> None:
    """Nothing that a graph keeps is hidden from PyTorch: activation checkpointing drops all of it."""
    for reentrant in (False, True):
        leaf = SCORES.clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(loss, leaf, use_reentrant=reentrant).backward()
        close(leaf.grad, gradient(SCORES))
    kept: list[torch.Tensor] = []
    leaf = SCORES.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x.clone(), lambda x: x):  # type: ignore[func-returns-value]
        value = ctc_loss(leaf, *REST)
    assert any(x.shape == (UTTERANCES, FRAMES, CLASSES) and x.data_ptr() != leaf.data_ptr() for x in kept)
    value.backward()
    close(leaf.grad, gradient(SCORES, lambda x: ctc_loss(x, *REST)))


def test_retained_graphs() -> None:
    """Any order of gradients of one graph, with and without create_graph, gives the same bits."""
    leaf = SCORES.clone().requires_grad_()
    value = ctc_loss(leaf, *REST)
    kinds = [False, True, False, False, True]
    made = [torch.autograd.grad(value, leaf, retain_graph=True, create_graph=create)[0] for create in kinds]
    assert all(torch.equal(each, made[0]) for each in made)
    assert len({each.data_ptr() for each in made}) == len(made)
    seconds = [torch.autograd.grad((made[k] ** 2).sum(), leaf, retain_graph=True)[0] for k in (1, 4)]
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
    """Elsewhere than on the CPU, gradients are enqueued without a look at any number: meta tensors have none."""
    posteriors, upstream = torch.rand(UTTERANCES, FRAMES, CLASSES), torch.tensor([1.0, float("inf"), 2.0])
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
    torch.testing.assert_close(met, torch.where(posteriors == 0, 0.0, -posteriors * upstream[:, None, None]))


class Copies(TorchDispatchMode):
    """Keeps the copies to a GPU that wait until it has done all before them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.waiting = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and kwargs.get("device", torch.device("cpu")).type == "cuda":
            self.seen += 1
            self.waiting += not kwargs.get("non_blocking")
        return func(*args, **kwargs)


def test_the_loss_does_not_wait_for_a_gpu() -> None:
    """Lengths on the CPU go there without waiting; on fake tensors of a GPU, which need none."""
    with FakeTensorMode(), torch.no_grad(), Copies() as copies:
        torch.ones(2).to(torch.device("cuda", 0))
        assert (copies.seen, copies.waiting) == (1, 1)
        value = ctc_loss(torch.empty(FRAMES, UTTERANCES, CLASSES, device="cuda"), [[1], [2], [3]], [9, 8, 7], [1, 1, 1])
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
        close(forced_align(SCORES.clone().transpose(0, 1), *REST)[0], forced_align(SCORES.transpose(0, 1), *REST)[0])
    with torch.no_grad():
        assert not loss(SCORES.clone().requires_grad_()).requires_grad


def test_modules_are_copied_saved_and_loaded() -> None:
    made = CTCLoss(blank=2, reduction="sum", zero_infinity=True)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert repr(other) == repr(made)
        close(other(SCORES, TARGETS % 2 + 3, LENGTHS, TOKENS), made(SCORES, TARGETS % 2 + 3, LENGTHS, TOKENS))
    prior, again = losses.LabelPrior(CLASSES), losses.LabelPrior(CLASSES)
    prior(SCORES.log_softmax(2).float(), LENGTHS)
    again.load_state_dict(prior.state_dict())
    assert torch.equal(again.mean, prior.mean)
    assert list(made.state_dict()) == list(prior.parameters()) == []


def test_data_parallel() -> None:
    """DataParallel, without a GPU the module itself; what it does with several: replicas in threads."""
    step = Step()
    close(torch.nn.DataParallel(step)(SCORES, *REST), step(SCORES, *REST))

    def on_a_thread(_: int) -> torch.Tensor:
        return gradient(SCORES)

    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(made, gradient(SCORES)) for made in pool.map(on_a_thread, range(16)))


def test_distributed_data_parallel(tmp_path: Path) -> None:
    step = Step()
    torch.distributed.init_process_group("gloo", f"file://{tmp_path / 'store'}", rank=0, world_size=1)
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
    loader = torch.utils.data.DataLoader(Utterances(), 1, num_workers=2, multiprocessing_context=fork)
    close(torch.cat(list(loader)), right / TOKENS)
