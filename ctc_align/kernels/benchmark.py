"""Speed and error of the kernels on this machine, beside PyTorch's and torchaudio's where they are
installed.

All contenders of a case are measured in turns, so that other load on the machine affects all alike.
The log-probs are noise with a planted path (see `planted`), so that, like a network's, they contain
one transcript.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ctc_align import kernels, lattice
from ctc_align._version import __version__
from ctc_align.errors import BackendError, UsageError
from ctc_align.extras import has_torch
from ctc_align.kernels.log_space import log_softmax
from ctc_align.threads import thread_count

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "np.ndarray | torch.Tensor"
BEST_PATH, LOSS, GRADIENT = "best path", "loss", "loss + gradient"
TASKS = (BEST_PATH, LOSS, GRADIENT)
_PAUSE_S = 0.008
_LEAST_S = 0.01
TOLERANCES = {BEST_PATH: 1e-6, LOSS: 1e-5, GRADIENT: 1e-4}
"""Largest error of our own kernels that counts as right: relative for scores and losses, absolute
for occupancies."""


@dataclass(frozen=True)
class Case:
    """One problem size: `batch` utterances of `frames` frames with `tokens` tokens of `classes` -
    1."""

    batch: int
    frames: int
    tokens: int
    classes: int
    tasks: tuple[str, ...] = TASKS
    reference: bool = False  # measured too, slow as it is

    @property
    def cells(self) -> int:
        """Frames times states."""
        return self.batch * self.frames * (2 * self.tokens + 1)

    def __str__(self) -> str:
        return f"{self.batch} x {self.frames} frames, {self.tokens} tokens, {self.classes} classes"


CASES = (
    Case(4, 100, 15, 32, reference=True),
    Case(1, 1500, 250, 32),
    Case(16, 1500, 250, 32),
    Case(4, 1500, 250, 1024),
    Case(256, 128, 30, 32),
    Case(1, 15000, 2500, 32, (BEST_PATH,)),
)
QUICK = (Case(2, 60, 10, 32, reference=True), Case(4, 500, 80, 32), Case(64, 128, 30, 32))


@dataclass(frozen=True)
class Measurement:
    """One row of the table.

    Attributes:
        who: a backend of ours, or "torch", "torchaudio".
        seconds: the median of one call.
        speedup: the rival's time over ours on the same device; None for rivals, and without one.
        error: distance from float64: of the score, its path and the loss relative, of occupancies
            absolute; infinite where a path does not read the target.
        right: whether that is within `TOLERANCES`; None for rivals.
    """

    case: Case
    task: str
    who: str
    device: str
    seconds: float
    error: float
    speedup: float | None = None
    right: bool | None = None

    @property
    def ns_per_cell(self) -> float:
        return self.seconds * 1e9 / self.case.cells

    def to_dict(self) -> dict[str, Any]:
        """For JSON: an error that is no number is null."""
        return {
            "batch": self.case.batch,
            "frames": self.case.frames,
            "tokens": self.case.tokens,
            "classes": self.case.classes,
            "task": self.task,
            "who": self.who,
            "device": self.device,
            "ms": self.seconds * 1e3,
            "ns_per_cell": self.ns_per_cell,
            "speedup": self.speedup,
            "error": self.error if np.isfinite(self.error) else None,
            "right": self.right,
        }


@dataclass(frozen=True)
class Contender:
    """One implementation of a task.

    Attributes:
        who: a backend of ours, or "torch", "torchaudio".
        call: what is timed.
        read: makes its result comparable: labels (B, T) and scores (B,) of best paths as arrays;
            losses (B,) and, with the gradient, occupancies (B, T, C) as float64 arrays.
        ours: whether it is a kernel of this package, whose error must be within `TOLERANCES`.
    """

    who: str
    call: Callable[[], Any]
    read: Callable[[Any], tuple[Any, ...]]
    ours: bool = False


def torchs_loss(log_probs: Array, targets: np.ndarray, *, gradient: bool) -> Contender:
    """Return `torch.nn.functional.ctc_loss` of log-probs (B, T, C), in its own layout, and targets
    (B, L); blank 0."""
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

    def read(losses: torch.Tensor) -> tuple[Any, ...]:
        if leaf.grad is None:
            return (in_float64(losses),)
        # PyTorch's gradient takes for granted that log_softmax stands before it: exp(log_probs) -
        # occupancy.
        posteriors = leaf.detach().double().exp() - leaf.grad.double()
        return in_float64(losses), in_float64(posteriors.transpose(0, 1))

    return Contender("torch", call, read)


def in_float64(values: Array) -> np.ndarray:
    """Return values in main memory as float64."""
    return (values if isinstance(values, np.ndarray) else values.detach().cpu().numpy()).astype(
        np.float64
    )


def import_forced_align() -> tuple[Callable[..., tuple[torch.Tensor, torch.Tensor]] | None, str]:
    """Return torchaudio's function and "", or None and why it cannot be imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from torchaudio.functional import forced_align
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            return None, f"cannot be imported: {str(error).splitlines()[0]}"
    return forced_align, ""


def torchaudios_path(log_probs: Array, targets: np.ndarray) -> Contender:
    """Return `torchaudio.functional.forced_align`, of one utterance, in a loop over (B, T, C) and
    (B, L); blank 0."""
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

    def read(results: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[Any, ...]:
        labels = torch.cat([paths for paths, _ in results]).cpu().long().numpy()
        return labels, torch.cat([scores for _, scores in results]).double().sum(1).cpu().numpy()

    return Contender("torchaudio", call, read)


def planted(case: Case, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return log-probs (B, T, C) float32 that contain random transcripts, and the transcripts (B,
    L) int64.

    Tokens begin at random frames, at least two apart, and last for a random part of the time to the
    next; blanks are between. Logits are normal with variance 1, and 5 more for the planted label.

    >>> log_probs, targets = planted(Case(2, 30, 5, 8))
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
        labels = np.zeros(case.frames, np.int64)
        inside = (
            np.repeat(starts, lengths)
            + np.arange(lengths.sum())
            - np.repeat(np.cumsum(lengths) - lengths, lengths)
        )
        labels[inside] = np.repeat(targets[b], lengths)
        x[b, np.arange(case.frames), labels] += 5
    return log_softmax(x), targets


def run(
    cases: Sequence[Case], devices: Sequence[str], rounds: int = 5
) -> Iterator[list[Measurement]]:
    """Yield the rows of each case: every task on every device, `rounds` times after one call that
    does not count."""
    import_module("ctc_align.kernels.cpu.cpu_backend").compile_at_once()
    for case in cases:
        log_probs, targets = planted(case)
        truths = {task: _truth(task, log_probs, targets) for task in case.tasks}
        yield [
            row
            for device in devices
            for task in case.tasks
            for row in _compare(
                task, case, on_device(log_probs, device), targets, truths[task], rounds
            )
        ]


def on_device(log_probs: np.ndarray, device: str) -> Array:
    """Return log-probs as an array on the CPU, as a tensor on any other device."""
    if device == "cpu":
        return log_probs
    import torch

    return torch.from_numpy(log_probs).to(device)


def device_of(log_probs: Array) -> str:
    """Return the device that log-probs are on."""
    return "cpu" if isinstance(log_probs, np.ndarray) else str(log_probs.device)


def devices(wanted: str | None = None) -> list[str]:
    """Return the devices to measure: the CPU, and the GPU where there is one; or only the `wanted`
    one.

    Raises:
        BackendError: there are no kernels for the wanted device, or they cannot run.
    """
    kind = (wanted or "").partition(":")[0]
    if kind not in ("", "cpu", "cuda"):
        raise BackendError(f"device: the kernels run on cpu and cuda, got {wanted}")
    if kind == "cuda":
        kernels.check_backend("gpu")
    if wanted is not None:
        return [wanted]
    try:
        kernels.check_backend("gpu")
    except (BackendError, UsageError):
        return ["cpu"]
    import torch

    return ["cpu", f"cuda:{torch.cuda.current_device()}"]


def _compare(
    task: str,
    case: Case,
    log_probs: Array,
    targets: np.ndarray,
    truth: tuple[Any, ...],
    rounds: int,
) -> Iterator[Measurement]:
    """Yield the rows of one task of one case, on the device of the log-probs."""
    contenders = list(_contenders(task, case, log_probs, targets))
    errors = [_error(task, truth, contender.read(contender.call())) for contender in contenders]
    times_s = in_turns([contender.call for contender in contenders], rounds, device_of(log_probs))
    rival_s = next(
        (time_s for contender, time_s in zip(contenders, times_s) if not contender.ours), None
    )
    for contender, time_s, error in zip(contenders, times_s, errors):
        yield Measurement(
            case,
            task,
            contender.who,
            device_of(log_probs),
            time_s,
            error,
            rival_s / time_s if contender.ours and rival_s is not None else None,
            error <= TOLERANCES[task] if contender.ours else None,
        )


def in_turns(
    calls: Sequence[Callable[[], object]], rounds: int, device: str = "cpu"
) -> list[float]:
    """Return the median seconds of each call. A round runs each: once to fill the caches, which
    does not count, and then as often as takes `_LEAST_S`, as `timeit` does."""
    wait: Callable[[], object] = lambda: None  # noqa: E731
    if device != "cpu":
        import torch

        wait = torch.cuda.synchronize
    times_s: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, mine in zip(calls, times_s):
            wait()
            # Threads of the previous call still spin for a while; a sleep would empty the caches.
            until_s = time.perf_counter() + _PAUSE_S
            while time.perf_counter() < until_s:
                pass
            started_s = time.perf_counter()
            call()
            wait()
            number = max(1, int(_LEAST_S / (time.perf_counter() - started_s)))
            started_s = time.perf_counter()
            for _ in range(number):
                call()
            wait()
            mine.append((time.perf_counter() - started_s) / number)
    return [statistics.median(mine) for mine in times_s]


def _contenders(
    task: str, case: Case, log_probs: Array, targets: np.ndarray
) -> Iterator[Contender]:
    tokens = np.full(case.batch, case.tokens)
    kernel: Any = {
        BEST_PATH: kernels.best_path,
        LOSS: kernels.forward,
        GRADIENT: kernels.occupancy,
    }[task]
    backends = (
        ["gpu"]
        if device_of(log_probs) != "cpu"
        else ["cpu", "reference"]
        if case.reference
        else ["cpu"]
    )
    emit = lattice.ctc_padded(targets, tokens).emit

    def read(result: Any) -> tuple[Any, ...]:
        if task == BEST_PATH:
            return np.take_along_axis(
                emit, in_float64(result.states).astype(np.int64), 1
            ), in_float64(result.scores)
        if task == GRADIENT:
            return -in_float64(result.scores), in_float64(result.posteriors)
        return (-in_float64(result),)

    for backend in backends:
        # As for the rivals, everything from the targets to the result is measured.
        def call(backend: str = backend) -> Any:
            return kernel(log_probs, lattice.ctc_padded(targets, tokens), backend=backend)

        yield Contender(backend, call, read, ours=True)
    if not has_torch():
        return
    if task != BEST_PATH:
        yield torchs_loss(log_probs, targets, gradient=task == GRADIENT)
    elif import_forced_align()[0] is not None:
        yield torchaudios_path(log_probs, targets)


def _truth(task: str, log_probs: np.ndarray, targets: np.ndarray) -> tuple[Any, ...]:
    """Return what is right, in float64: log-probs, targets and best scores; or losses and
    occupancies, by PyTorch where it is installed, otherwise by the reference."""
    exact = log_probs.astype(np.float64)
    topology = lattice.ctc_padded(targets, np.full(len(targets), targets.shape[1]))
    if task == BEST_PATH:
        return exact, targets, kernels.best_path(exact, topology, backend="reference").scores
    if not has_torch():
        found = kernels.occupancy(exact, topology, backend="reference")
        return -found.scores, found.posteriors
    torchs = torchs_loss(exact, targets, gradient=task == GRADIENT)
    return torchs.read(torchs.call())


def _error(task: str, truth: tuple[Any, ...], result: tuple[Any, ...]) -> float:
    """Return the largest distance from the truth; NaN stays NaN, which is never right."""
    if task == BEST_PATH:
        exact, targets, best = truth
        labels, reported = result
        scores = np.take_along_axis(exact, labels[:, :, None].astype(np.int64), 2)[:, :, 0].sum(1)
        if not all(np.array_equal(_collapse(row), target) for row, target in zip(labels, targets)):
            return np.inf
        return float(
            np.max(
                np.maximum(np.abs(scores - best), np.abs(reported - best))
                / np.maximum(np.abs(best), 1)
            )
        )
    error = float((np.abs(result[0] - truth[0]) / np.abs(truth[0]).clip(min=1)).max())
    return (
        float(np.maximum(error, np.abs(result[1] - truth[1]).max())) if task == GRADIENT else error
    )


def _collapse(labels: np.ndarray) -> np.ndarray:
    """Return the labels with runs merged and blanks (0) removed."""
    kept = labels[np.flatnonzero(np.diff(labels, prepend=-1))]
    return kept[kept != 0]


def machine(used: Sequence[str]) -> dict[str, Any]:
    """Return what was measured on: processor, cores, threads, versions."""
    gpus = []
    for device in used:
        if device != "cpu":
            import torch

            gpus.append(torch.cuda.get_device_name(device))
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": thread_count(),
        "gpu": ", ".join(gpus) or None,
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "python": platform.python_version(),
            "ctc-align": __version__,
            **{name: _version(name) for name in ("torch", "numba", "numpy")},
            "torchaudio": import_forced_align()[1] or _version("torchaudio"),
        },
    }


def processor() -> str:
    """Return the name of the processor, or its architecture where the system does not tell."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
