"""Allocations that cannot succeed are refused beforehand, with an error that names the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctc_align.errors import KernelError
from ctc_align.machine.memory import free_memory

if TYPE_CHECKING:
    import torch

UNCHECKED_BYTES = 256 * 2**20
"""Smaller requests are not checked: reading the limits takes longer than small kernels do."""


def require(
    bytes_needed: int, what: str, utterance: int | None = None, device: torch.device | None = None
) -> None:
    """Refuse an allocation that cannot succeed.

    Args:
        bytes_needed: its size; below `UNCHECKED_BYTES` nothing is checked.
        what: the content, for the message: "posteriors (16, 1500, 32)".
        utterance: the index of the utterance, if it belongs to one.
        device: the CUDA device; None or the CPU: main memory.

    Raises:
        KernelError: more is needed than is available.
    """
    if bytes_needed < UNCHECKED_BYTES:
        return
    free, limit = available(device)
    if free is None or bytes_needed <= free:
        return
    if utterance is None:
        whose = ""
    else:
        whose = f" of utterance {utterance}"
    raise KernelError(
        f"{what}{whose}: {bytes_needed} bytes ({bytes_needed / 2**30:.1f} GiB) are needed, {free}"
        f" ({free / 2**30:.1f} GiB) are available ({limit}); pass fewer utterances at a time, or"
        " split long ones"
    )


def available(device: torch.device | None = None) -> tuple[int | None, str]:
    """Return the bytes that can still be allocated, and the limit that says so.

    (None, "") where none is known.
    """
    if device is not None and device.type == "cuda":
        import torch

        return int(torch.cuda.mem_get_info(device)[0]), f"memory of {device}"
    return free_memory()
