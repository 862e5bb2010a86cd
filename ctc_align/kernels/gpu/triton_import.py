"""Triton, if it is installed; without it the kernels' modules can be imported, but do not run."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

try:
    import triton
    import triton.language as tl
except ImportError:  # the tests and the documentation import every file
    triton = tl = None

OLDEST = (3, 4)
"""The first Triton with all that the kernels use; its interpreter works on today's numpy from 3.9
on."""

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
"""Whether kernels run as Python on the CPU; Triton decides it when a kernel is defined."""


_TritonsConstant: Any = object if tl is None else tl.constexpr


class _Constant(_TritonsConstant):
    """A constant of a module.

    At every launch Triton asks of each whether it has changed, which takes longer than the rest of
    the launch for its own constants.
    """

    def __ne__(self, other: object) -> Any:
        """Return whether the values differ."""
        if isinstance(other, _Constant):
            return self.value != other.value
        return super().__ne__(other)

    __hash__ = _TritonsConstant.__hash__


def jit(kernel: Callable[..., Any]) -> Any:
    """Decorate with `triton.jit`, if there is Triton.

    No argument's value is compiled in: one compilation serves all sizes, strides and addresses.
    """
    if triton is None:
        return kernel
    parameters = inspect.signature(kernel).parameters.values()
    values = [
        parameter.name for parameter in parameters if "constexpr" not in str(parameter.annotation)
    ]
    return triton.jit(do_not_specialize=values)(kernel)


def constant(value: Any) -> Any:
    """Make a number that kernels may read."""
    return value if tl is None else _Constant(value)


def unavailable() -> str | None:
    """Return why kernels cannot run here, or None."""
    if triton is None:
        return "Triton is not installed (it comes with PyTorch for CUDA)"
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version < OLDEST:
        return (
            f"Triton {OLDEST[0]}.{OLDEST[1]} or newer is needed, {triton.__version__} is installed"
        )
    if not INTERPRETED and not torch.cuda.is_available():
        return "PyTorch sees no CUDA device"
    return None


@contextlib.contextmanager
def on(device: torch.device) -> Iterator[None]:
    """Launch on this device and its current stream."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            yield
    else:
        # Interpreted arithmetic warns where compiled code does not.
        with np.errstate(all="ignore"):
            yield
