"""Preparation of a call.

The topology becomes tensors on the device, in one transfer, and its states are laid out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctc_align.errors import KernelError
from ctc_align.kernels.gpu import device_tables, triton_import
from ctc_align.lattice import WILDCARD, Topology

LANES = 32
"""Units of a strip: the threads of a warp."""

MAX_STRIPS = 16
"""Strips of a tile. A tile holds MAX_STRIPS * (LANES - halo) units, about 900 states; more take
several tiles."""

MIN_HALO, TILED_HALO, MAX_HALO = 8, 8, 16
"""Units of a halo, hence frames between two exchanges: multiples of four, since frames are computed
by fours."""

INTERPRETED_LANES = 16384
"""Interpreted, a program takes as long for few lanes as for many, so it gets as many utterances as
fit these lanes."""

TABLE_ALIGNMENT = 4
"""Each part of a table of int32 begins at a multiple of so many: 16 bytes."""

SKIP, STAY, BEGIN, END = 1, 2, 4, 8


@dataclass(frozen=True)
class RowShape:
    """How states are assigned to threads.

    `row_layout` defines lanes, strips, rows, halo and tiles.
    """

    lanes: int
    strips: int
    rows: int
    halo: int
    tiles: int

    @property
    def units(self) -> int:
        """Units of a whole row in memory."""
        return self.tiles * self.tile_units

    @property
    def tile_units(self) -> int:
        return self.strips * (self.lanes - self.halo)

    @property
    def tiled(self) -> bool:
        return self.tiles > 1

    @property
    def warps(self) -> int:
        return max(1, self.rows * self.strips * self.lanes // 32)

    def groups(self, batch: int) -> int:
        """Return the number of programs that a batch takes per tile."""
        return -(-batch // self.rows)

    def arguments(self) -> dict[str, int]:
        """Return the arguments of every pass.

        The halo is no constexpr, so that there are few variants to compile.
        """
        return {"LANES": self.lanes, "STRIPS": self.strips, "ROWS": self.rows, "halo": self.halo}


def shape(states: int, batch: int) -> RowShape:
    """Return the layout with the fewest strips that hold all states and a halo.

    If MAX_STRIPS strips do not suffice, tiles of them.
    """
    units = (states + 1) // 2
    strips, halo, tiles = 1, 0, 1
    if units > LANES:
        while strips <= MAX_STRIPS and halo < MIN_HALO:
            strips *= 2
            halo = min(MAX_HALO, LANES // 2, (LANES - -(-units // strips)) // 4 * 4)
        if strips > MAX_STRIPS:
            strips = MAX_STRIPS
            halo = min(TILED_HALO, LANES // 2)
            tiles = -(-units // (strips * (LANES - halo)))
    rows = 1
    while (
        triton_import.INTERPRETED
        and 2 * rows * strips * LANES <= INTERPRETED_LANES
        and rows < batch
    ):
        rows *= 2
    return RowShape(LANES, strips, rows, halo, tiles)


@dataclass(frozen=True)
class DeviceProblem:
    """The arguments of a call, on the device.

    x: log-probs (B, T, C).
    wild: the wildcard's log-probs (B, T); `x` if there is no wildcard.
    emit: the class of each state (B, S) int32; this and the next four lie in one piece of memory,
        one after the other, each in one dimension, perhaps followed by what nobody reads.
    flags: SKIP, STAY, BEGIN and END of each state (B, S) uint8.
    numbers: (4, B) int32: frames to compute (0 if no path is possible), states, 1 if no frames at
        all are a path, and the class that all even states emit (less than WILDCARD if they emit
        several).
    detours: sources (2, B, S, P) int32, forward and mirrored.
    bands: first and last (exclusive) state of each frame (B, T, 2) int32, or empty.
    width: the states of a row, S.
    longest: the most frames of an utterance.
    plain: even states emit one class, are never skipped into and have no detours, and every number
    of states is odd.
    """

    x: torch.Tensor
    wild: torch.Tensor
    emit: torch.Tensor
    flags: torch.Tensor
    numbers: torch.Tensor
    detours: torch.Tensor
    bands: torch.Tensor
    width: int
    longest: int
    max_detours: int
    plain: bool
    all_stay: bool
    has_wildcard: bool
    banded: bool

    @property
    def batch(self) -> int:
        return self.x.shape[0]

    @property
    def frames(self) -> int:
        return self.x.shape[1]

    @property
    def classes_of_states(self) -> torch.Tensor:
        """The class of each state (B, S)."""
        return self.emit[: self.batch * self.width].view(self.batch, self.width)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of every pass."""
        x, wild = self.x, self.wild
        x_b, x_t, x_c = x.stride()
        wild_b, wild_t = wild.stride()[:2]
        return {
            "x": x,
            "wild": wild,
            "emit": self.emit,
            "flags": self.flags,
            "numbers": self.numbers,
            "detours": self.detours,
            "max_detours": self.max_detours,
            "x_b": x_b,
            "x_t": x_t,
            "x_c": x_c,
            "wild_b": wild_b,
            "wild_t": wild_t,
            "batch": x.shape[0],
            "frames": x.shape[1],
            "width": self.width,
        }

    def switches(self) -> dict[str, bool]:
        """Return the constexpr switches of every pass."""
        return {
            "PLAIN": self.plain,
            "ALL_STAY": self.all_stay,
            "WILD": self.has_wildcard,
            "DETOURS": self.max_detours > 0,
        }


def device_problem(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None,
    bands: np.ndarray | None = None,
    *,
    mirrored: bool = False,
) -> DeviceProblem:
    """Copy a call's arguments to the device of `log_probs`.

    With `mirrored` also the mirrored topology's detours.
    """
    batch, width = topology.emit.shape
    sources = np.zeros((1, 1, 1, 0), np.int32)
    if topology.detours is not None:
        if mirrored:
            sources = _with_mirrored(topology.detours.sources, topology.states)
        else:
            sources = topology.detours.sources[None]
    # All are one table of int32, in one transfer; the flags are bytes of it.
    sizes = [
        4 * batch,
        batch * width,
        -(-batch * width // 4),
        sources.size,
        0 if bands is None else bands.size,
    ]
    padded = [-(-size // TABLE_ALIGNMENT) * TABLE_ALIGNMENT for size in sizes]
    packed = device_tables.new_table(sum(padded), torch.int32, log_probs.device)
    host = packed.numpy()
    starts = np.cumsum([0, *padded]).tolist()
    for stop in starts[1:]:
        host[max(stop - TABLE_ALIGNMENT, 0) : stop] = 0
    numbers = host[: 4 * batch].reshape(4, batch)
    plain = _write_numbers(numbers, topology, lengths.numpy())
    host[starts[1] : starts[1] + sizes[1]].reshape(batch, width)[:] = topology.emit
    flags = host[starts[2] : starts[3]].view(np.uint8)[: batch * width]
    _write_flags(flags.reshape(batch, width), topology)
    if sources.size:
        host[starts[3] : starts[3] + sizes[3]] = sources.reshape(-1)
    if bands is not None:
        host[starts[4] : starts[4] + sizes[4]] = np.clip(bands, 0, width).reshape(-1)
    parts = device_tables.to_device(packed, log_probs.device).split_with_sizes(padded)
    return DeviceProblem(
        x=log_probs,
        wild=log_probs if wildcard is None else wildcard,
        emit=parts[1],
        flags=parts[2].view(torch.uint8),
        numbers=parts[0],
        detours=parts[3],
        bands=parts[4],
        width=width,
        longest=int(numbers[0].max(initial=0)),
        max_detours=sources.shape[-1],
        plain=plain,
        all_stay=topology.all_stay,
        has_wildcard=wildcard is not None,
        banded=bands is not None,
    )


def _write_numbers(numbers: np.ndarray, topology: Topology, frames: np.ndarray) -> bool:
    """Write the `numbers` (4, B) of a problem; return whether it is plain."""
    min_frames = topology.min_frames
    np.multiply(frames, frames >= min_frames, out=numbers[0], casting="unsafe")
    numbers[1] = topology.states
    numbers[2] = frames + min_frames == 0
    # The topologies of CTC know that they are interleaved.
    interleaved = bool(topology.interleaved.all())
    ends_even = topology.states & 1 == 1
    even = ends_even if interleaved else _even_alike(topology) & ends_even
    numbers[3] = np.where(even, topology.emit[:, 0], WILDCARD - 1)
    if topology.detours is not None or not even.all():
        return False
    return interleaved or not topology.skip[:, ::2].any()


def _write_flags(flags: np.ndarray, topology: Topology) -> None:
    """Write (B, S) uint8: SKIP, STAY, BEGIN and END of each state."""
    np.left_shift(topology.stay.view(np.uint8), 1, out=flags)
    flags |= topology.skip.view(np.uint8)
    if topology.detours is not None:
        flags |= topology.detours.begin.view(np.uint8) << 2
        flags |= topology.detours.end.view(np.uint8) << 3
        return
    rows = np.arange(topology.batch)
    last = topology.states - 1
    flags[:, 0] |= BEGIN
    flags[:, 1:2] |= np.where(topology.starts == 2, BEGIN, 0).astype(np.uint8)[:, None]
    flags[rows, last] |= END
    two = topology.finals == 2
    if two.all():
        flags[rows, last - 1] |= END
    else:
        flags[rows[two], last[two] - 1] |= END


def _even_alike(topology: Topology) -> np.ndarray:
    """Return (B,) bool: whether all even states emit one class."""
    even = topology.emit[:, ::2]
    beyond = np.arange(0, topology.emit.shape[1], 2) >= topology.states[:, None]
    return ((even == even[:, :1]) | beyond).all(1)


def _with_mirrored(sources: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return (2, B, S, P): the detours, and the same reversed, for the mirrored topology.

    A detour from s to d becomes one from S-1-d to S-1-s; those into one state are sorted, the
    highest source first.
    """
    b, s, p = np.nonzero(sources >= 0)
    entered = states[b] - 1 - sources[b, s, p]
    left = states[b] - 1 - s
    order = np.lexsort((-left, entered, b))
    b, entered, left = b[order], entered[order], left[order]
    new = np.ones(len(b), np.bool_)
    new[1:] = (b[1:] != b[:-1]) | (entered[1:] != entered[:-1])
    first = np.flatnonzero(new)
    rank = np.arange(len(b)) - np.repeat(first, np.diff(np.append(first, len(b))))
    max_detours = max(sources.shape[2], int(rank.max(initial=-1)) + 1)
    both = np.full((2, *sources.shape[:2], max_detours), -1, np.int32)
    both[0, :, :, : sources.shape[2]] = sources
    both[1, b, entered, rank] = left
    return both


def allocate(
    size: tuple[int, ...], dtype: torch.dtype, device: torch.device, what: str
) -> torch.Tensor:
    """Return uninitialised memory of the device.

    Raises:
        KernelError: the device does not have enough memory.
    """
    try:
        return torch.empty(size, dtype=dtype, device=device)
    except torch.cuda.OutOfMemoryError as error:
        needed = int(np.prod(size, dtype=np.float64)) * dtype.itemsize
        raise KernelError(
            f"{what} {size}: {needed} bytes ({needed / 2**30:.1f} GiB) are not available on"
            f" {device}; take fewer utterances at a time, or cut long ones"
        ) from error
