"""Topologies: rows of states and the transitions between them. Integers only, no floats, no device.

From frame to frame a path remains in its state where `stay` allows it, steps to the next, or, where `skip` allows it,
skips one. That is enough for CTC, simple CTC and segmentation without blanks. Where tokens may be left out, `detours`
names further states from which a state may be entered. `ctc_align.lattice` makes topologies from tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctc_align.errors import KernelError

MAX_CLASS = 2**31 - 1
WILDCARD = -1
"""The class of states whose score at each frame is passed separately from the log-probs."""
MOST_SOURCES_BYTES = 2**30
"""Larger tables of detours are refused: n optional tokens in a row are up to n detours into each state after them."""


@dataclass(frozen=True)
class Detours:
    """Further transitions of a topology, around tokens that may be left out.

    Attributes:
        sources: (B, S, P) int32, further states from which a state may be entered: each below s - 2, descending,
            padded with -1.
        begin: (B, S) bool, states in which a path may begin; `starts` is then ignored.
        end: (B, S) bool, states in which a path may end; `finals` is then ignored.
    """

    sources: np.ndarray
    begin: np.ndarray
    end: np.ndarray


@dataclass(frozen=True)
class Topology:
    """States of B utterances, padded to S = the longest.

    Attributes:
        emit: (B, S) int32, the class (column of the log-probs) that each state emits, or `WILDCARD`; 0 in the padding.
        skip: (B, S) bool, whether the state may be entered from two states before.
        token: (B, S) int32, index of the token that the state belongs to, -1 for blank, silence and padding.
        states: (B,) int64, number of states of each utterance.
        starts: (B,) int64, 1 or 2: how many of the first states a path may begin in.
        finals: (B,) int64, 1 or 2: how many of the last states a path may end in.
        min_frames: (B,) int64, length of the shortest path.
        stay: (B, S) bool, whether a path may remain in the state from frame to frame; None means everywhere.
        detours: further transitions, if tokens may be left out.

    Raises:
        KernelError: shapes or values that kernels cannot run on.
    """

    emit: np.ndarray
    skip: np.ndarray
    token: np.ndarray
    states: np.ndarray
    starts: np.ndarray
    finals: np.ndarray
    min_frames: np.ndarray
    stay: np.ndarray = None  # type: ignore[assignment]  # an array from __post_init__ on
    detours: Detours | None = None

    def __post_init__(self) -> None:
        # The (B, S) arrays are checked once, for values that would make kernels read out of bounds.
        if self.stay is None:
            object.__setattr__(self, "stay", np.ones(self.emit.shape, np.bool_))
        _check_shapes(self)
        if not len(self.states):
            return
        states, starts, finals = self.states, self.starts, self.finals
        if states.min() < 1 or states.max() > self.emit.shape[1] or self.emit.min() < WILDCARD:
            _raise_out_of_range(self)
        if min(starts.min(), finals.min()) < 1 or max(starts.max(), finals.max()) > 2:
            _raise_out_of_range(self)
        if (starts > states).any() or (finals > states).any():
            _raise_out_of_range(self)
        if self.detours is not None:
            _check_detours(self.detours)

    @classmethod
    def trusted(cls, **fields: object) -> Topology:
        """Make a topology of fields that are right by construction, without a check; further keywords preset the cached
        properties."""
        topology = object.__new__(cls)
        vars(topology).update(fields)
        return topology

    @property
    def batch(self) -> int:
        """The number of utterances."""
        return len(self.states)

    @cached_property
    def max_class(self) -> int:
        """The highest class that any state emits; -1 without states."""
        return int(self.emit.max()) if self.emit.size else -1

    @cached_property
    def has_wildcard(self) -> bool:
        """True if any state emits `WILDCARD`."""
        return bool(self.emit.size and self.emit.min() < 0)

    @cached_property
    def interleaved(self) -> np.ndarray:
        """(B,) bool: true if, as in CTC, all even states emit one class and are not skipped into, and every state may
        be stayed in. Kernels need half the work for such utterances."""
        real = np.arange(0, self.emit.shape[1], 2) < self.states[:, None]
        even = self.emit[:, ::2]
        return ((even == even[:, :1]) & ~self.skip[:, ::2] | ~real).all(1) & self.stay.all(1)

    @cached_property
    def all_stay(self) -> bool:
        """True if a path may remain in every state."""
        return bool(self.stay.all())


def stack(topologies: Sequence[Topology]) -> Topology:
    """Return one topology with the utterances of all, in order, padded to the largest number of states.

    Where only some have detours, the others get tables of none. Kernels walk a batch with detours by another algorithm,
    which rounds differently: to get the bits that an utterance gets alone, stack those with detours apart.

    Raises:
        KernelError: the detours need more than `MOST_SOURCES_BYTES`.

    >>> from ctc_align.lattice import ctc, simple_ctc
    >>> both = stack([ctc([[3, 4]]), simple_ctc([[5]])])
    >>> both.emit.tolist(), both.states.tolist()
    ([[0, 3, 0, 4, 0], [0, 5, 0, 0, 0]], [5, 3])
    """
    if len(topologies) == 1:
        return topologies[0]
    shape = (sum(part.batch for part in topologies), max((part.emit.shape[1] for part in topologies), default=0))
    rows = {
        "emit": np.zeros(shape, np.int32),
        "skip": np.zeros(shape, np.bool_),
        "token": np.full(shape, -1, np.int32),
        "stay": np.ones(shape, np.bool_),
    }
    columns = {name: np.empty(shape[0], np.int64) for name in ("states", "starts", "finals", "min_frames")}
    first = 0
    for part in topologies:
        last = first + part.batch
        for name, padded in rows.items():
            padded[first:last, : part.emit.shape[1]] = getattr(part, name)
        for name, column in columns.items():
            column[first:last] = getattr(part, name)
        first = last
    return Topology.trusted(**rows, **columns, detours=_stack_detours(topologies, shape))


def _stack_detours(topologies: Sequence[Topology], shape: tuple[int, int]) -> Detours | None:
    most = max((part.detours.sources.shape[2] for part in topologies if part.detours is not None), default=None)
    if most is None:
        return None
    check_detours_size(*shape, most)
    sources = np.full((*shape, most), -1, np.int32)
    begin, end = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    first = 0
    for part in topologies:
        batch, size = part.emit.shape
        here = (slice(first, first + batch), slice(size))
        if (detours := part.detours) is None:
            state = np.arange(size)
            begin[here] = state < part.starts[:, None]
            end[here] = (state < part.states[:, None]) & (state >= (part.states - part.finals)[:, None])
        else:
            begin[here], end[here] = detours.begin, detours.end
            place = (*here, slice(detours.sources.shape[2]))
            sources[place] = detours.sources
        first += batch
    return Detours(sources, begin, end)


def check_detours_size(batch: int, states: int, most: int) -> None:
    """Raise KernelError if tables of up to `most` detours into each state need more than `MOST_SOURCES_BYTES`."""
    needed = 4 * batch * states * most
    if needed > MOST_SOURCES_BYTES:
        raise KernelError(
            f"optional: {batch} x {states} states with up to {most} detours each need {needed} bytes, at most "
            f"{MOST_SOURCES_BYTES} are taken; leave fewer tokens in a row optional"
        )


def _check_shapes(topology: Topology) -> None:
    shape, ways = topology.emit.shape, topology.detours
    rows = topology.skip.shape == topology.token.shape == topology.stay.shape == shape and len(shape) == 2
    column = topology.states.shape == topology.starts.shape == topology.finals.shape == topology.min_frames.shape
    if not rows or not column or topology.states.shape != shape[:1]:
        raise KernelError(f"topology: expected emit, skip, token and stay {shape}, the others {shape[:1]}")
    if ways is not None and not (ways.begin.shape == ways.end.shape == shape == ways.sources.shape[:-1]):
        raise KernelError(
            f"topology: expected begin and end {shape}, sources {(*shape, 'P')}; got {ways.begin.shape}, "
            f"{ways.end.shape}, {ways.sources.shape}"
        )


def _raise_out_of_range(topology: Topology) -> None:
    ends = np.minimum(topology.states, 2)
    for name, values, low, high in (
        ("states", topology.states, 1, topology.emit.shape[1]),
        ("starts", topology.starts, 1, ends),
        ("finals", topology.finals, 1, ends),
        ("emit", topology.emit.min(1), WILDCARD, MAX_CLASS),
    ):
        bad = (values < low) | (values > high)
        if bad.any():
            b = int(np.argmax(bad))
            raise KernelError(f"topology: {name} of utterance {b} is out of range: {int(values[b])}")
    raise AssertionError("something was out of range")


def _check_detours(detours: Detours) -> None:
    sources = detours.sources
    if sources.dtype.kind != "i" or detours.begin.dtype != np.bool_ or detours.end.dtype != np.bool_:
        raise KernelError(
            f"topology: expected sources of whole numbers, begin and end of bool; got {sources.dtype}, "
            f"{detours.begin.dtype}, {detours.end.dtype}"
        )
    if not sources.size:
        return
    below = np.arange(sources.shape[1], dtype=np.int32)[:, None] - 2
    bad = (sources < -1) | ((sources >= 0) & (sources >= below))
    bad[..., 1:] |= (sources[..., 1:] >= sources[..., :-1]) & (sources[..., 1:] >= 0)
    if bad.any():
        b, s, _ = np.argwhere(bad)[0].tolist()
        raise KernelError(
            f"topology: sources of state {s} of utterance {b}: expected states below {s - 2}, descending, "
            f"then -1; got {sources[b, s].tolist()[:8]}"
        )
