"""Tables of numbers that the host makes and the device reads.

They are copied from pinned memory, so that nobody waits, and known again while a CUDA graph is
captured.

A graph that copied a table would copy from the same host memory whenever it is replayed, and that
memory is somebody else's by then. So a step that is captured copies nothing: it reads the table of
an earlier call with the same numbers, which is still on the device.
"""

from __future__ import annotations

import collections

import torch

from ctc_align.errors import KernelError

RECENT_TABLES, RECENT_BYTES = 16, 2**22
"""Tables that stay on the device for a graph that may come, and the most bytes of one of them."""

_recent: collections.deque[tuple[torch.Tensor, torch.Tensor]] = collections.deque(
    maxlen=RECENT_TABLES
)
"""Tables on the host and on a device; neither is written again."""

_captured: list[torch.Tensor] = []
"""Tables that graphs read: nobody says when a graph is gone, so they stay for good."""


def new_table(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return a table (size,) on the host, to be written once and then given to `to_device`."""
    pinned = device.type == "cuda" and not torch.cuda.is_current_stream_capturing()
    return torch.empty(size, dtype=dtype, device="cpu", pin_memory=pinned)


def to_device(table: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a table of `new_table` on the device, without waiting for it.

    Raises:
        KernelError: a CUDA graph is being captured, and no earlier call had this table.
    """
    if device.type != "cuda":
        return table
    if torch.cuda.is_current_stream_capturing():
        return _known(table, device)
    on_device = table.to(device, non_blocking=True)
    if table.nbytes <= RECENT_BYTES:
        _recent.append((table, on_device))
    return on_device


def copied(numbers: torch.Tensor, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers on the device; those that lie on the CPU as `to_device` does."""
    if not numbers.is_cpu or not has_memory(numbers):
        return numbers.to(device, dtype, non_blocking=True)
    table = new_table(numbers.numel(), dtype, device)
    table.copy_(numbers.reshape(-1))
    return to_device(table, device).view(numbers.shape)


def has_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's values can be read: none of a compiler or of torch.func."""
    if type(tensor) is not torch.Tensor:
        return False
    try:
        tensor.data_ptr()
    except RuntimeError:
        return False
    return True


def _known(table: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the device's copy of an equal table of an earlier call, and keep it for good.

    The copy is complete: PyTorch waits for the device before it captures.
    """
    for earlier, on_device in list(_recent):
        same_kind = earlier.dtype == table.dtype and earlier.shape == table.shape
        if same_kind and on_device.device == device and torch.equal(earlier, table):
            if not any(on_device is kept for kept in _captured):
                _captured.append(on_device)
            return on_device
    raise KernelError(
        "a CUDA graph is being captured, and the targets and lengths are not on the device yet: run"
        " the step with the same ones before, as PyTorch asks; targets of more than"
        f" {RECENT_BYTES} bytes of states cannot be captured"
    )
