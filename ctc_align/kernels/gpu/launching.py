"""Launches as values, made for a whole call before the first one.

So a first call compiles all its kernels at once.

Arguments are passed by their places: by name, Triton takes a third longer for a launch.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ctc_align.kernels.gpu.triton_import import INTERPRETED, triton

# One stage: kernels load ahead themselves. Fused products round once instead of twice, which loses
# nothing.
OPTIONS = {"num_stages": 1, "enable_fp_fusion": True}


class Launch(NamedTuple):
    """A launch: `arguments` in the order of the kernel's parameters."""

    kernel: Any
    grid: tuple[int, ...]
    warps: int
    arguments: tuple[Any, ...]


_pickers: dict[Any, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {}
"""By kernel: takes its arguments from values by name."""

_compiled: set[Any] = set()
"""The kinds of calls whose kernels have been compiled together."""


def made(kernel: Any, grid: tuple[int, ...], warps: int, values: Mapping[str, Any]) -> Launch:
    """Return a launch of a kernel, with its arguments among the values."""
    picker = _pickers.get(kernel)
    if picker is None:
        picker = _pickers[kernel] = operator.itemgetter(*kernel.arg_names)
    return Launch(kernel, grid, warps, picker(values))


def launch(kernel: Any, grid: tuple[int, ...], warps: int, *arguments: Any) -> None:
    """Launch a kernel on the current stream."""
    kernel[grid](*arguments, num_warps=warps, **OPTIONS)


def compile_together(kind: Any, launches: Sequence[Launch]) -> None:
    """Compile what the launches need, side by side, where calls of this kind are new.

    What fails here fails again, and is raised, when it is launched.
    """
    if INTERPRETED or kind in _compiled:
        return
    _compiled.add(kind)
    mode = getattr(triton, "AsyncCompileMode", None)
    if mode is None or len(launches) < 2:
        return
    with contextlib.suppress(RuntimeError), ThreadPoolExecutor() as executor, mode(executor):
        for one in launches:
            one.kernel.warmup(*one.arguments, grid=one.grid, num_warps=one.warps, **OPTIONS)
