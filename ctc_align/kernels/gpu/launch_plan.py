"""Preparation of a call: the topology as tensors on the device, in one transfer, and how its states
are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctc_align.errors import KernelError
from ctc_align.kernels.gpu import triton_import
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

SKIP, STAY, BEGIN, END = 1, 2, 4, 8


@dataclass(frozen=True)
class RowShape:
    """How states are assigned to threads; `row_layout` defines lanes, strips, rows, halo and
    tiles."""

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
        """Return the arguments of every pass. The halo is no constexpr, so that there are few
        variants to compile."""
        return {"LANES": self.lanes, "STRIPS": self.strips, "ROWS": self.rows, "halo": self.halo}


def shape(states: int, batch: int) -> RowShape:
    """Return the layout with the fewest strips that hold all states and a halo, or else tiles of
    MAX_STRIPS strips."""
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
    emit: the class of each state (B, S) int32.
    flags: SKIP, STAY, BEGIN and END of each state (B, S) uint8.
    numbers: (4, B) int32: frames to compute (0 if no path is possible), states, 1 if no frames at
        all are a path, and the class that all even states emit (less than WILDCARD if they emit
        several).
    detours: sources (2, B, S, P) int32, forward and mirrored.
    bands: first and last (exclusive) state of each frame (B, T, 2) int32, or empty.
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
    def width(self) -> int:
        return self.emit.shape[1]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of every pass."""
        x, wild = self.x, self.wild
        return {
            "x": x,
            "wild": wild,
            "emit": self.emit,
            "flags": self.flags,
            "numbers": self.numbers,
            "x_b": x.stride(0),
            "x_t": x.stride(1),
            "x_c": x.stride(2),
            "wild_b": wild.stride(0),
            "wild_t": wild.stride(1),
            "batch": self.batch,
            "frames": self.frames,
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
    """Copy a call's arguments to the device of `log_probs`; with `mirrored` also the mirrored
    topology's detours."""
    width = topology.emit.shape[1]
    frames = lengths.numpy()
    computed_frames = np.where(frames < topology.min_frames, 0, frames)
    even = np.where(_even_alike(topology), topology.emit[:, 0], WILDCARD - 1)
    numbers = np.stack(
        (computed_frames, topology.states, (frames == 0) & (topology.min_frames == 0), even)
    )
    sources = np.zeros((1, 1, 1, 0), np.int32)
    if topology.detours is not None:
        if mirrored:
            sources = _with_mirrored(topology.detours.sources, topology.states)
        else:
            sources = topology.detours.sources[None]
    tables = [
        np.ascontiguousarray(topology.emit, np.int32),
        _flags(topology),
        numbers.astype(np.int32),
        np.ascontiguousarray(sources, np.int32),
        np.zeros(0, np.int32) if bands is None else np.clip(bands, 0, width).astype(np.int32),
    ]
    emit, flags, device_numbers, detours, limits = _transfer(tables, log_probs.device)
    return DeviceProblem(
        x=log_probs,
        wild=log_probs if wildcard is None else wildcard,
        emit=emit,
        flags=flags,
        numbers=device_numbers,
        detours=detours,
        bands=limits,
        longest=int(computed_frames.max(initial=0)),
        max_detours=sources.shape[-1],
        plain=_is_plain(topology, even),
        all_stay=topology.all_stay,
        has_wildcard=wildcard is not None,
        banded=bands is not None,
    )


def _flags(topology: Topology) -> np.ndarray:
    """Return (B, S) uint8: SKIP, STAY, BEGIN and END of each state."""
    flags = topology.skip.view(np.uint8) | topology.stay.view(np.uint8) << 1
    if topology.detours is not None:
        return (
            flags
            | topology.detours.begin.view(np.uint8) << 2
            | topology.detours.end.view(np.uint8) << 3
        )
    rows = np.arange(topology.batch)
    last = topology.states - 1
    flags[:, 0] |= BEGIN
    flags[topology.starts == 2, 1:2] |= BEGIN
    flags[rows, last] |= END
    two = topology.finals == 2
    flags[rows[two], last[two] - 1] |= END
    return flags


def _even_alike(topology: Topology) -> np.ndarray:
    """Return (B,) bool: whether all even states emit one class, and the first and the last state
    are even."""
    even = topology.emit[:, ::2]
    beyond = np.arange(0, topology.emit.shape[1], 2) >= topology.states[:, None]
    return ((even == even[:, :1]) | beyond).all(1) & (topology.states & 1 == 1)


def _is_plain(topology: Topology, even: np.ndarray) -> bool:
    return (
        topology.detours is None
        and bool((even >= WILDCARD).all())
        and not topology.skip[:, ::2].any()
    )


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


def _transfer(tables: list[np.ndarray], device: torch.device) -> list[torch.Tensor]:
    """Copy all tables to the device in one transfer, from pinned memory, without waiting for it."""
    starts = np.cumsum([0] + [-(-table.nbytes // 16) * 16 for table in tables]).tolist()
    packed = torch.empty(starts[-1], dtype=torch.uint8, pin_memory=device.type == "cuda")
    host = packed.numpy()
    for start, table in zip(starts, tables):
        host[start : start + table.nbytes] = table.reshape(-1).view(np.uint8)
    on_device = packed.to(device, non_blocking=True)
    return [
        on_device[start : start + table.nbytes]
        .view(torch.from_numpy(table[:0].reshape(-1)).dtype)
        .view(table.shape)
        for start, table in zip(starts, tables)
    ]


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
