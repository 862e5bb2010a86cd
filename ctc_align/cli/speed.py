"""The speed of the kernels on this machine: `ctc-align doctor --speed`.

PyTorch's and torchaudio's are measured beside them where they are installed.

Calls that are compared take turns, so that other load on the machine affects all alike. The
log-probs are noise with a transcript in it (`noise_with_transcripts`), as a network's have one.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align import kernels, lattice
from ctc_align.errors import BackendError, UsageError
from ctc_align.extras import has_torch
from ctc_align.kernels.cpu import cpu_backend
from ctc_align.kernels.log_space import log_softmax

if TYPE_CHECKING:
    import torch

_PAUSE_S = 0.008
_SHORTEST_S = 0.01
_ROUNDS = 3
TOLERANCE = 1e-5
"""Largest relative error of a score of our kernels that counts as right."""


@dataclass(frozen=True)
class Case:
    """One problem size.

    `batch` utterances of `frames` frames, with `tokens` tokens of `classes` - 1.
    """

    batch: int
    frames: int
    tokens: int
    classes: int

    @property
    def cells(self) -> int:
        """Frames times states."""
        return self.batch * self.frames * (2 * self.tokens + 1)

    def __str__(self) -> str:
        return f"{self.batch} x {self.frames} frames, {self.tokens} tokens, {self.classes} classes"


CASES = (Case(1, 1500, 250, 32), Case(4, 1500, 250, 32), Case(256, 128, 30, 32))


@dataclass(frozen=True)
class Speed:
    """The time of one task, and the rival's: 0 where there is none.

    Attributes:
        error: the largest relative distance of our scores from the reference's in float64.
    """

    device: str
    task: str
    case: Case
    ours_ms: float
    error: float
    rival: str = ""
    rival_ms: float = 0.0

    @property
    def is_right(self) -> bool:
        return self.error <= TOLERANCE


def noise_with_transcripts(case: Case, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probs (B, T, C) float32 of random transcripts, and these (B, L) int64.

    Tokens begin at random frames, at least two apart, and last for a random part of the time to the
    next; blanks are between. Logits are normal with variance 1, and 5 more for the right label.

    >>> log_probs, targets = noise_with_transcripts(Case(2, 30, 5, 8))
    >>> log_probs.shape, targets.shape
    ((2, 30, 8), (2, 5))
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((case.batch, case.frames, case.classes), np.float32)
    targets = rng.integers(1, case.classes, (case.batch, case.tokens))
    free = case.frames - 2 * case.tokens
    for b in range(case.batch):
        starts = np.sort(rng.integers(0, free + 1, case.tokens)) + 2 * np.arange(case.tokens)
        spare = np.diff(starts, append=case.frames) - 1
        lengths = 1 + (rng.random(case.tokens) * spare).astype(np.int64)
        first_frames = np.repeat(starts, lengths)
        before = np.repeat(np.cumsum(lengths) - lengths, lengths)
        labels = np.zeros(case.frames, np.int64)
        labels[first_frames + np.arange(lengths.sum()) - before] = np.repeat(targets[b], lengths)
        x[b, np.arange(case.frames), labels] += 5
    return log_softmax(x), targets


def compare_speed(cases: Sequence[Case] = CASES, rounds: int = _ROUNDS) -> Iterator[Speed]:
    """Yield the speed of each task of each case, on the CPU and on a GPU that runs the kernels."""
    cpu_backend.compile_at_once()
    for device in usable_devices():
        for case in cases:
            yield from _compare_case(case, device, rounds)


def usable_devices() -> list[str]:
    """Return the devices that can run the kernels."""
    try:
        kernels.check_backend("gpu")
    except (BackendError, UsageError):
        return ["cpu"]
    import torch

    return ["cpu", f"cuda:{torch.cuda.current_device()}"]


def _compare_case(case: Case, device: str, rounds: int) -> Iterator[Speed]:
    noise, targets = noise_with_transcripts(case)
    tokens = np.full(case.batch, case.tokens)
    exact = noise.astype(np.float64)
    topology = lattice.ctc_padded(targets, tokens)
    best = kernels.best_path(exact, topology, backend="reference").scores
    total = kernels.forward(exact, topology, backend="reference")
    log_probs: np.ndarray | torch.Tensor = noise
    backend = "cpu"
    if device != "cpu":
        import torch

        log_probs = torch.from_numpy(noise).to(device)
        backend = "gpu"
    tasks: tuple[tuple[str, Any, np.ndarray], ...] = (
        ("best path", kernels.best_path, best),
        ("loss", kernels.forward, total),
        ("loss + gradient", kernels.occupancy, total),
    )
    for task, kernel, right in tasks:
        # As for the rivals, everything from the targets to the result is measured.
        def call_kernel(kernel: Any = kernel) -> Any:
            return kernel(log_probs, lattice.ctc_padded(targets, tokens), backend=backend)

        result = call_kernel()
        scores = result if task == "loss" else result.scores
        error = np.abs(_to_float64(scores) - right) / np.abs(right).clip(min=1)
        rival, call_rival = _find_rival(task, log_probs, targets)
        calls = [call_kernel] if call_rival is None else [call_kernel, call_rival]
        times_ms = [1000 * time_s for time_s in time_in_turns(calls, rounds, device)]
        yield Speed(device, task, case, times_ms[0], float(error.max()), rival, sum(times_ms[1:]))


def _find_rival(task: str, log_probs: Any, targets: np.ndarray) -> tuple[str, Any]:
    """Return the name and the call of what does the same task; "" and None where it is missing."""
    if not has_torch():
        return "", None
    if task != "best path":
        return "torch", torch_loss_call(log_probs, targets, gradient=task != "loss")
    align, _ = import_forced_align()
    if align is None:
        return "", None
    return "torchaudio", torchaudio_path_call(log_probs, targets)


def torch_loss_call(
    log_probs: np.ndarray | torch.Tensor, targets: np.ndarray, *, gradient: bool
) -> Callable[[], torch.Tensor]:
    """Return a call of `torch.nn.functional.ctc_loss` with blank 0.

    It gets log-probs (B, T, C), in its own layout, and targets (B, L).
    """
    import torch

    leaf = torch.as_tensor(log_probs).transpose(0, 1).contiguous().requires_grad_(gradient)
    batch, tokens = targets.shape
    rows = torch.from_numpy(targets).to(leaf.device)
    lengths = torch.full((batch,), len(leaf)), torch.full((batch,), tokens)

    def call() -> torch.Tensor:
        leaf.grad = None
        losses = torch.nn.functional.ctc_loss(leaf, rows, *lengths, reduction="none")
        if gradient:
            losses.sum().backward()
        return losses.detach()

    return call


def import_forced_align() -> tuple[Callable[..., tuple[torch.Tensor, torch.Tensor]] | None, str]:
    """Return torchaudio's function and "", or None and why it cannot be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from torchaudio.functional import forced_align
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            return None, f"cannot be imported: {str(error).splitlines()[0]}"
    return forced_align, ""


def torchaudio_path_call(
    log_probs: np.ndarray | torch.Tensor, targets: np.ndarray
) -> Callable[[], list[tuple[torch.Tensor, torch.Tensor]]]:
    """Return a call of `torchaudio.functional.forced_align` for each utterance, with blank 0.

    It takes one utterance, so the call loops over (B, T, C) and (B, L).
    """
    align, reason = import_forced_align()
    if align is None:
        raise ImportError(f"torchaudio {reason}")
    import torch

    given = torch.as_tensor(log_probs)
    rows = torch.from_numpy(targets).to(given.device, torch.int32)

    def call() -> list[tuple[torch.Tensor, torch.Tensor]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [align(given[b : b + 1], rows[b : b + 1]) for b in range(len(rows))]

    return call


def time_in_turns(
    calls: Sequence[Callable[[], object]], rounds: int, device: str = "cpu"
) -> list[float]:
    """Return the median seconds of each call.

    A round runs each: once to fill the caches, which does not count, and then as often as takes
    `_SHORTEST_S`, as `timeit` does.
    """
    wait: Callable[[], object] = bool
    if device != "cpu":
        import torch

        wait = torch.cuda.synchronize
    times_s: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times_of_call_s in zip(calls, times_s):
            wait()
            # Threads of the previous call still spin for a while; a sleep would empty the caches.
            until_s = time.perf_counter() + _PAUSE_S
            while time.perf_counter() < until_s:
                pass
            started_s = time.perf_counter()
            call()
            wait()
            number = max(1, int(_SHORTEST_S / (time.perf_counter() - started_s)))
            started_s = time.perf_counter()
            for _ in range(number):
                call()
            wait()
            times_of_call_s.append((time.perf_counter() - started_s) / number)
    return [statistics.median(each) for each in times_s]


def _to_float64(values: np.ndarray | torch.Tensor) -> np.ndarray:
    """Return values in main memory as float64."""
    array = values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()
    return array.astype(np.float64)
