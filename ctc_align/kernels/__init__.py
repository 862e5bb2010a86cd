"""The door to the kernels: four functions over a topology, whichever backend runs them.

    best_path(log_probs, topology, lengths) -> BestPaths    states (B, T) int32, -1 padded; scores (B,) natural log
    forward(log_probs, topology, lengths)   -> (B,)         total log-likelihood of all paths
    occupancy(log_probs, topology, lengths) -> Occupancy    posterior of every class at every frame, and the scores
    tangent(log_probs, topology, lengths, direction)        derivatives (B, T, C) of the posteriors along a direction,
        -> ((B, T, C), Occupancy)                           and the posteriors

`log_probs` is (B, T, C), natural log, normalised or not; `lengths` (B,) is the number of frames
that count of each utterance. Frames beyond it are never read. If a topology has a wildcard,
`wildcard` (B, T) is its score at each frame. Scores are float64. An utterance without any path has
score -inf, states -1 and occupancy 0; one whose paths meet NaN or +inf, which are no log-probs, has
score NaN, states -1 and occupancy NaN. Every backend decides ties alike: stay, then step, then
skip, then the detours in their order (so always the highest previous state); at the end the highest
state. `backend` is "auto", "reference", "cpu" or "gpu"; a `BestPaths` and an `Occupancy` name the one
that ran, and `backend_of` the one that "auto" takes.

Arguments are NumPy arrays or tensors, and results are of the kind of `log_probs`. Results of `gpu`
are on the device of `log_probs`, those of the others on the CPU.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np

from ctc_align.errors import BackendError, BackendWarning, KernelError, UsageError
from ctc_align.extras import require_torch
from ctc_align.lattice import Topology
from ctc_align.machine import BACKENDS
from ctc_align.threads import imported_torch

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "np.ndarray | torch.Tensor"
ArrayT = TypeVar("ArrayT", "np.ndarray", "torch.Tensor")

_MODULES = {
    "reference": "ctc_align.kernels.reference",
    "cpu": "ctc_align.kernels.cpu.cpu_backend",
    "gpu": "ctc_align.kernels.gpu.gpu_backend",
}


@dataclass(frozen=True)
class BestPaths(Generic[ArrayT]):
    """Best paths: `states` (B, T) int32, `scores` (B,) float64."""

    states: ArrayT
    scores: ArrayT
    backend: str


@dataclass(frozen=True)
class Occupancy(Generic[ArrayT]):
    """The posteriors of the classes, and the scores.

    `posteriors` (B, T, C) and, if the topology has one, `wildcard` (B, T) are float32, or float64
    for float64 log-probs; `scores` (B,) are float64.
    """

    posteriors: ArrayT
    scores: ArrayT
    backend: str
    wildcard: ArrayT | None = None


def best_path(
    log_probs: ArrayT,
    topology: Topology,
    lengths: Array | Sequence[int] | None = None,
    *,
    wildcard: Array | None = None,
    bands: np.ndarray | None = None,
    backend: str = "auto",
) -> BestPaths[ArrayT]:
    """Find the most likely path of each utterance (Viterbi).

    Args:
        log_probs: (B, T, C) floating point.
        topology: of the same B.
        lengths: (B,) frames of each utterance; None means T for all.
        wildcard: (B, T) floating point, the score of the wildcard at each frame; needed where the
            topology has one.
            It is taken in the precision of `log_probs`, but not below float32.
        bands: None, or (B, T, 2) int: first and last (exclusive) state that a path may be in at
            each frame;
            both must not decrease with the frame.
        backend: as described in the module.

    Raises:
        KernelError: shapes, dtypes or lengths that do not fit together.
        BackendError: the backend cannot run here.
    """
    frames = _check(log_probs, topology, lengths)
    extra = _check_wildcard(wildcard, topology, log_probs)
    name, module = _open(backend, log_probs)
    if bands is None:
        limits = None
    else:
        limits = _check_bands(bands, log_probs, frames)
    states, scores = _call(
        name, module.best_path, log_probs, topology, frames, extra, unchanged=(limits,)
    )
    return BestPaths(states, scores, name)


def best_labels(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: Array | Sequence[int] | None,
    blank: int,
    *,
    backend: str = "auto",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Find the best paths of a topology without wildcards, as the classes that their states emit.

    Args:
        log_probs: (B, T, C) floating point, a tensor.
        topology, lengths, backend: as for `best_path`.
        blank: the class written where there is no state: beyond the lengths, and for utterances
            without a path.

    Returns:
        (B, T) classes, int64; (B, T) their log-probs in the dtype of log_probs, 0 where there is no
        state; and the paths' scores (B,) float64.
    """
    import torch

    frames = _check(log_probs, topology, lengths)
    name, module = _open(backend, log_probs)
    x = log_probs.detach()
    read_off = x.is_cpu and x.dtype in (torch.float32, torch.float64) and topology.detours is None
    if name == "gpu" or (name == "cpu" and read_off):
        return _call(name, module.best_labels, x, topology, frames, unchanged=(blank,))
    states, scores = _call(name, module.best_path, x, topology, frames, None, unchanged=(None,))
    states = states.to(x.device, torch.int64)
    labels = torch.as_tensor(topology.emit, device=x.device).long().gather(1, states.clamp(min=0))
    values = x.gather(2, labels.unsqueeze(2)).squeeze(2)
    return labels.masked_fill(states < 0, blank), values.masked_fill(states < 0, 0.0), scores


def forward(
    log_probs: ArrayT,
    topology: Topology,
    lengths: Array | Sequence[int] | None = None,
    *,
    wildcard: Array | None = None,
    backend: str = "auto",
) -> ArrayT:
    """Return the log-likelihood (B,) float64 of each utterance over all its paths.

    Graves et al. 2006, eq. 8.

    Arguments as `best_path`.
    """
    frames = _check(log_probs, topology, lengths)
    extra = _check_wildcard(wildcard, topology, log_probs)
    name, module = _open(backend, log_probs)
    return _call(name, module.forward, log_probs, topology, frames, extra)


def occupancy(
    log_probs: ArrayT,
    topology: Topology,
    lengths: Array | Sequence[int] | None = None,
    *,
    wildcard: Array | None = None,
    backend: str = "auto",
) -> Occupancy[ArrayT]:
    """Return the posterior of each class at each frame given the transcript.

    With the wildcard's, a frame sums to 1.

    Arguments as `best_path`.
    """
    frames = _check(log_probs, topology, lengths)
    extra = _check_wildcard(wildcard, topology, log_probs)
    name, module = _open(backend, log_probs)
    posteriors, scores, own = _call(name, module.occupancy, log_probs, topology, frames, extra)
    return Occupancy(
        _real(posteriors, log_probs), scores, name, None if own is None else _real(own, log_probs)
    )


def tangent(
    log_probs: ArrayT,
    topology: Topology,
    lengths: Array | Sequence[int] | None,
    direction: Array,
    *,
    wildcard: Array | None = None,
    posteriors: Array | None = None,
    backend: str = "auto",
) -> tuple[ArrayT, Occupancy[ArrayT]]:
    """Return the derivative of the posteriors along a direction, and the `Occupancy`.

    The direction is one of the log-probs. The derivative is its product with the score's Hessian,
    which is the posteriors' covariance. The `Occupancy` is without the wildcard's posteriors.

        tangents[t, c] = sum over u, d of  d posteriors[t, c] / d log_probs[u, d] * direction[u, d]

    The wildcard's scores do not move. The direction does not matter where the posterior is 0;
    infinities or NaN elsewhere make the utterance's tangents NaN. An utterance without any path has
    tangents of 0. For backends without tangents, `auto` takes the CPU's.

    Args:
        log_probs, topology, lengths, wildcard, backend: as `best_path`.
        direction: (B, T, C) floating point, taken in the precision of `log_probs`, but not below
            float32.
        posteriors: (B, T, C), if known: those of `occupancy` for the same arguments. They save a
            third of the time.

    Raises:
        KernelError: shapes, dtypes or lengths that do not fit together.
        BackendError: the backend cannot run here, or has no tangents.
    """
    frames = _check(log_probs, topology, lengths)
    extra = _check_wildcard(wildcard, topology, log_probs)
    along = _check_like(direction, "direction", log_probs)
    if posteriors is None:
        known = None
    else:
        known = _check_like(posteriors, "posteriors", log_probs)
    name, module = _open(backend, log_probs)
    if not hasattr(module, "tangent"):
        if backend != "auto":
            raise BackendError(
                f"backend {name!r} has no tangents, which second derivatives need; use 'cpu', or"
                " 'auto'"
            )
        name, module = _open("cpu", log_probs)
    made, tangents, scores = _call(
        name, module.tangent, log_probs, topology, frames, extra, along, known
    )
    return _real(tangents, log_probs), Occupancy(_real(made, log_probs), scores, name)


def _call(
    name: str,
    function: Callable[..., Any],
    log_probs: Array,
    topology: Topology,
    frames: np.ndarray,
    *values: Array | None,
    unchanged: tuple[Any, ...] = (),
) -> Any:
    """Return the results of a backend's function, of the kind of `log_probs`.

    Args:
        name: of the backend; "gpu" takes and returns tensors, the others NumPy arrays.
        function: gets the log-probs, topology, frames, values and `unchanged`.
        frames: (B,) int64.
        values: like the log-probs; None stays None.
        unchanged: what every backend takes as it is: bands, a blank.
    """
    given = [log_probs, *values]
    if name != "gpu":
        convert = _to_kernel_bits if name == "cpu" else _to_kernel_array
        arrays = [None if each is None else convert(each) for each in given]
        results = function(arrays[0], topology, frames, *arrays[1:], *unchanged)
    else:
        import torch

        # torch takes neither arrays that cannot be written to nor negative strides
        tensors = [
            (
                torch.from_numpy(np.require(each, requirements=("C", "W")))
                if isinstance(each, np.ndarray)
                else each
            )
            for each in given
        ]
        results = function(tensors[0], topology, torch.from_numpy(frames), *tensors[1:], *unchanged)
    if not isinstance(results, tuple):
        return _like(results, log_probs)
    return tuple(None if each is None else _like(each, log_probs) for each in results)


def _to_kernel_array(values: Array) -> np.ndarray:
    """Return values as floating-point numbers of NumPy."""
    if isinstance(values, np.ndarray):
        return values
    return (values.float() if values.dtype.itemsize < 4 else values).numpy(force=True)


def _to_kernel_bits(values: Array) -> np.ndarray:
    """Return values as the CPU's kernels take them.

    float32, float64, or the bits of half precision, without a copy.
    """
    if not isinstance(values, np.ndarray):
        import torch

        if values.dtype is torch.bfloat16:
            return values.detach().view(torch.int16).numpy(force=True)
        taken = values.dtype in (torch.float32, torch.float64, torch.float16)
        values = (values if taken else values.float()).numpy(force=True)
    if values.dtype == np.float16:
        return values.view(np.uint16)
    if values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float64)


def _like(result: Any, log_probs: Array) -> Any:
    """Return a result as a tensor if the log-probs are one, otherwise as an array."""
    if isinstance(log_probs, np.ndarray):
        if isinstance(result, np.ndarray):
            return result
        return result.cpu().numpy()
    import torch

    if isinstance(result, np.ndarray):
        return torch.from_numpy(result)
    return result


def _real(values: Any, log_probs: Array) -> Any:
    """Return values as float64 for float64 log-probs, otherwise as float32."""
    double = log_probs.dtype.itemsize >= 8
    if values.dtype.itemsize == (8 if double else 4):
        return values
    if isinstance(values, np.ndarray):
        return values.astype(np.float64 if double else np.float32)
    return values.double() if double else values.float()


def _companion(values: Any, log_probs: Array) -> Any:
    """Return values that are given beside the log-probs.

    They get the kind and the device of the log-probs, and at least float32.
    """
    if isinstance(log_probs, np.ndarray):
        if not isinstance(values, np.ndarray):
            values = values.detach().double().numpy(force=True)
    else:
        import torch

        values = torch.as_tensor(values).detach().to(log_probs.device)
    return _real(values, log_probs)


def _check_like(values: Array, name: str, log_probs: Array) -> Array:
    """Return values of the shape of the log-probs on their device, or raise KernelError."""
    _check_floating(values, name, "(B, T, C)")
    if values.shape != log_probs.shape:
        raise KernelError(
            f"{name}: expected shape {tuple(log_probs.shape)} as log_probs, got"
            f" {tuple(values.shape)}"
        )
    return _companion(values, log_probs)


def is_floating(values: object) -> bool:
    """Return whether values are an array or a tensor of floating-point numbers."""
    if isinstance(values, np.ndarray):
        return values.dtype.kind == "f"
    torch = imported_torch()
    return torch is not None and isinstance(values, torch.Tensor) and values.is_floating_point()


def _check_floating(values: object, name: str, shape: str) -> None:
    if is_floating(values):
        return
    got = getattr(values, "dtype", type(values).__name__)
    raise KernelError(
        f"{name}: expected floating-point numbers {shape}, an array or a tensor, got {got}"
    )


def _check(
    log_probs: Array, topology: Topology, lengths: Array | Sequence[int] | None
) -> np.ndarray:
    """Check the arguments of all functions; return the lengths as int64."""
    _check_floating(log_probs, "log_probs", "(B, T, C)")
    if log_probs.ndim != 3:
        raise KernelError(f"log_probs: expected shape (B, T, C), got {tuple(log_probs.shape)}")
    batch, frames, classes = log_probs.shape
    if topology.batch != batch:
        raise KernelError(
            f"topology: expected {batch} utterances as in log_probs, got {topology.batch}"
        )
    if topology.max_class >= classes:
        raise KernelError(
            f"topology: a state emits class {topology.max_class}, log_probs has only {classes}"
            " classes"
        )
    if lengths is None:
        return np.full(batch, frames, np.int64)
    numbers = np.asarray(lengths.detach().cpu() if hasattr(lengths, "detach") else lengths)
    if numbers.size and numbers.dtype.kind not in "iu":
        raise KernelError(f"lengths: expected whole numbers, got {numbers.dtype}")
    result = numbers.astype(np.int64)
    if result.shape != (batch,):
        raise KernelError(f"lengths: expected shape ({batch},), got {result.shape}")
    counts = result.tolist() or [0]
    if min(counts) < 0 or max(counts) > frames:
        raise KernelError(
            f"lengths: expected 0 to {frames} (frames of log_probs), got {counts[:8]}"
        )
    return result


def _check_wildcard(wildcard: Array | None, topology: Topology, log_probs: Array) -> Array | None:
    """Return the wildcard's scores in the dtype of the computation.

    None if the topology has no wildcard.
    """
    if not topology.has_wildcard:
        return None
    if wildcard is None:
        raise KernelError(
            "topology: a state emits the wildcard: expected its scores (B, T) as `wildcard`, got"
            " None; ctc_align.alignment.wildcard makes them"
        )
    _check_floating(wildcard, "wildcard", "(B, T)")
    if wildcard.shape != log_probs.shape[:2]:
        raise KernelError(
            f"wildcard: expected shape {tuple(log_probs.shape[:2])} as log_probs, got"
            f" {tuple(wildcard.shape)}"
        )
    return _companion(wildcard, log_probs)


def _check_bands(bands: np.ndarray, log_probs: Array, lengths: np.ndarray) -> np.ndarray:
    """Return the bands as int64; those beyond the lengths are never read."""
    array = np.asarray(bands)
    expected = (*log_probs.shape[:2], 2)
    if array.shape != expected or array.dtype.kind not in "iu":
        raise KernelError(
            f"bands: expected whole numbers {expected}, got {array.dtype} of shape {array.shape}"
        )
    limits = np.ascontiguousarray(array, np.int64)
    inside = np.arange(1, expected[1])[None, :] < lengths[:, None]
    back = (np.diff(limits, axis=1) < 0).any(2) & inside
    if back.any():
        b, t = np.argwhere(back)[0].tolist()
        raise KernelError(
            f"bands of utterance {b}: from frame {t} to {t + 1} they go back from"
            f" {limits[b, t].tolist()} to {limits[b, t + 1].tolist()}; first and last state must"
            " not decrease"
        )
    return limits


def check_backend(backend: str) -> None:
    """Raise an error unless the backend of this name can be used.

    UsageError for a name that is no backend, or lacks PyTorch; BackendError for one that cannot run
    here.
    """
    if backend not in BACKENDS:
        raise UsageError(f"backend: expected one of {', '.join(BACKENDS)}; got {backend!r}")
    if backend == "gpu":
        require_torch("backend 'gpu'")
    if backend == "gpu" and (reason := _gpu_is_missing()):
        raise BackendError(f"backend 'gpu' cannot run here: {reason}; use 'cpu', or 'auto'")


def backend_of(log_probs: Array) -> str:
    """Return the backend that "auto" takes for log-probs on this device: "gpu" or "cpu".

    It is "gpu" for CUDA tensors where the kernels can run there. Where they cannot, the work is
    done on the CPU, and a `BackendWarning` says so, once for each reason.
    """
    if isinstance(log_probs, np.ndarray) or not log_probs.is_cuda:
        return "cpu"
    if reason := _gpu_is_missing():
        say_that_cuda_is_idle(str(log_probs.device), reason)
        return "cpu"
    return "gpu"


@lru_cache
def say_that_cuda_is_idle(device: str, reason: str) -> None:
    """Warn, once, that kernels for tensors on a CUDA device run on the CPU.

    The function is cached, so it runs once.
    """
    warnings.warn(
        f"log-probs are on {device}, but CTC's kernels run on the CPU: {reason}; install a Triton"
        " that works with this PyTorch, or ask for backend 'cpu' if that is meant",
        BackendWarning,
        stacklevel=3,
    )


def _gpu_is_missing() -> str | None:
    """Return why the GPU backend cannot run here, or None."""
    try:
        return _module("gpu").unavailable()
    except ImportError as error:
        return str(error)


def _open(backend: str, log_probs: Array) -> tuple[str, Any]:
    """Return the backend's name and module, imported late: importing a compiled one takes long."""
    check_backend(backend)
    if backend == "auto":
        backend = backend_of(log_probs)
    return backend, _module(backend)


def _module(backend: str) -> Any:
    """Return the module of a backend, without import_module where it is there.

    Python 3.10 locks all imports even then, and Ctrl-C at that moment leaves them locked for other
    threads for ever.
    """
    module = sys.modules.get(_MODULES[backend])
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        if backend == "gpu":
            from ctc_align.machine.private_folders import use_private_folder

            # Triton loads as code what it has compiled into this folder.
            use_private_folder("TRITON_CACHE_DIR", "triton")
        return import_module(_MODULES[backend])
    return module
