"""Topologies: rows of states and the transitions between them. Integers only, no floats, no device.

From frame to frame, a path remains in its state (if `stay` allows it), steps to the next state, or
skips one (if `skip` allows it). That is enough for CTC (a blank between tokens, which may be
skipped unless the tokens are equal), simple CTC (one frame for each token) and segmentation without
blanks (a few states for each token, optional silence between words). A token may be `WILDCARD`, for
speech that is not in the transcript. Tokens may be optional, for words that may not have been
spoken; then `detours` lists further states from which a state may be entered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from ctc_align.errors import KernelError

MAX_CLASS = 2**31 - 1
WILDCARD = -1
"""The class of states whose score at each frame is passed separately from the log-probs."""
MOST_SOURCES_BYTES = 2**30
"""Larger tables of detours are refused: n optional tokens in a row are up to n detours into each
state after them."""

_KINDS = {
    **dict.fromkeys(("emit", "token"), np.int32),
    **dict.fromkeys(("skip", "stay"), np.bool_),
    **dict.fromkeys(("states", "starts", "finals", "min_frames"), np.int64),
}


@dataclass(frozen=True)
class Detours:
    """Further transitions of a topology, around tokens that may be left out.

    Attributes:
        sources: (B, S, P) int32, further states from which a state may be entered: each below s -
            2, descending,
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

    The arrays lie dense in memory, of the types below.

    Attributes:
        emit: (B, S) int32, the class (column of the log-probs) that each state emits, or
            `WILDCARD`; 0 in the padding.
        skip: (B, S) bool, whether the state may be entered from two states before.
        token: (B, S) int32, index of the token that the state belongs to, -1 for blank, silence and
            padding.
        states: (B,) int64, number of states of each utterance.
        starts: (B,) int64, 1 or 2: how many of the first states a path may begin in.
        finals: (B,) int64, 1 or 2: how many of the last states a path may end in.
        min_frames: (B,) int64, length of the shortest path.
        stay: (B, S) bool, whether a path may remain in the state from frame to frame; None means
            everywhere.
        detours: further transitions, if tokens may be left out.

    Raises:
        KernelError: kernels cannot run on these shapes or values.
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
        low = min(starts.min(), finals.min())
        high = max(starts.max(), finals.max())
        if states.min() < 1 or states.max() > self.emit.shape[1] or low < 1 or high > 2:
            _raise_out_of_range(self)
        if self.emit.min() < WILDCARD or self.emit.max() > MAX_CLASS:
            _raise_out_of_range(self)
        if (starts > states).any() or (finals > states).any():
            _raise_out_of_range(self)
        if self.detours is not None:
            _check_detours(self.detours)
        for name, kind in _KINDS.items():
            object.__setattr__(self, name, np.require(getattr(self, name), kind, ("C", "W")))

    @classmethod
    def trusted(cls, **fields: object) -> Topology:
        """Make a topology of fields that are right by construction, without a check.

        Further keywords preset the cached properties.
        """
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
        """Mark the utterances (B,) bool that alternate blanks and tokens as CTC does.

        True if all even states emit one class and are not skipped into, and every state may be
        stayed in. Kernels need half the work for such utterances.
        """
        real = np.arange(0, self.emit.shape[1], 2) < self.states[:, None]
        even = self.emit[:, ::2]
        return ((even == even[:, :1]) & ~self.skip[:, ::2] | ~real).all(1) & self.stay.all(1)

    @cached_property
    def all_stay(self) -> bool:
        """True if a path may remain in every state."""
        return bool(self.stay.all())


def stack(topologies: Sequence[Topology]) -> Topology:
    """Return one topology with the utterances of all, in order.

    It is padded to the largest number of states.

    If only some have detours, the others get empty tables. Kernels walk a batch with detours by
    another algorithm, which rounds differently: to get the bits that an utterance gets alone, stack
    those with detours apart.

    Raises:
        KernelError: the detours need more than `MOST_SOURCES_BYTES`.

    >>> from ctc_align.lattice import ctc, simple_ctc
    >>> both = stack([ctc([[3, 4]]), simple_ctc([[5]])])
    >>> both.emit.tolist(), both.states.tolist()
    ([[0, 3, 0, 4, 0], [0, 5, 0, 0, 0]], [5, 3])
    """
    if len(topologies) == 1:
        return topologies[0]
    shape = (
        sum(part.batch for part in topologies),
        max((part.emit.shape[1] for part in topologies), default=0),
    )
    rows = {
        "emit": np.zeros(shape, np.int32),
        "skip": np.zeros(shape, np.bool_),
        "token": np.full(shape, -1, np.int32),
        "stay": np.ones(shape, np.bool_),
    }
    columns = {
        name: np.empty(shape[0], np.int64) for name in ("states", "starts", "finals", "min_frames")
    }
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
    most = max(
        (part.detours.sources.shape[2] for part in topologies if part.detours is not None),
        default=None,
    )
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
            end[here] = (state < part.states[:, None]) & (
                state >= (part.states - part.finals)[:, None]
            )
        else:
            begin[here], end[here] = detours.begin, detours.end
            place = (*here, slice(detours.sources.shape[2]))
            sources[place] = detours.sources
        first += batch
    return Detours(sources, begin, end)


def check_detours_size(batch: int, states: int, most: int) -> None:
    """Raise KernelError if tables of detours need more than `MOST_SOURCES_BYTES`.

    There are up to `most` detours into each state.
    """
    needed = 4 * batch * states * most
    if needed > MOST_SOURCES_BYTES:
        raise KernelError(
            f"optional: {batch} x {states} states with up to {most} detours each need {needed}"
            f" bytes, over the limit of {MOST_SOURCES_BYTES}; make fewer tokens in a row optional"
        )


def _check_shapes(topology: Topology) -> None:
    shape = topology.emit.shape
    ways = topology.detours
    rows = (
        topology.skip.shape == topology.token.shape == topology.stay.shape == shape
        and len(shape) == 2
    )
    column = (
        topology.states.shape
        == topology.starts.shape
        == topology.finals.shape
        == topology.min_frames.shape
    )
    if not rows or not column or topology.states.shape != shape[:1]:
        raise KernelError(
            f"topology: expected emit, skip, token and stay {shape}, the others {shape[:1]}"
        )
    if ways is not None and not (
        ways.begin.shape == ways.end.shape == shape == ways.sources.shape[:-1]
    ):
        raise KernelError(
            f"topology: expected begin and end {shape}, sources {(*shape, 'P')}; got"
            f" {ways.begin.shape}, {ways.end.shape}, {ways.sources.shape}"
        )


def _raise_out_of_range(topology: Topology) -> None:
    ends = np.minimum(topology.states, 2)
    for name, values, low, high in (
        ("states", topology.states, 1, topology.emit.shape[1]),
        ("starts", topology.starts, 1, ends),
        ("finals", topology.finals, 1, ends),
        ("emit", topology.emit.min(1), WILDCARD, MAX_CLASS),
        ("emit", topology.emit.max(1), WILDCARD, MAX_CLASS),
    ):
        bad = (values < low) | (values > high)
        if bad.any():
            b = int(np.argmax(bad))
            raise KernelError(
                f"topology: {name} of utterance {b} is out of range: {int(values[b])}"
            )
    raise AssertionError("something was out of range")


def _check_detours(detours: Detours) -> None:
    sources = detours.sources
    if (
        sources.dtype.kind != "i"
        or detours.begin.dtype != np.bool_
        or detours.end.dtype != np.bool_
    ):
        raise KernelError(
            "topology: expected sources of whole numbers, begin and end of bool; got"
            f" {sources.dtype}, {detours.begin.dtype}, {detours.end.dtype}"
        )
    if not sources.size:
        return
    below = np.arange(sources.shape[1], dtype=np.int32)[:, None] - 2
    bad = (sources < -1) | ((sources >= 0) & (sources >= below))
    bad[..., 1:] |= (sources[..., 1:] >= sources[..., :-1]) & (sources[..., 1:] >= 0)
    if bad.any():
        b, s, _ = np.argwhere(bad)[0].tolist()
        raise KernelError(
            f"topology: sources of state {s} of utterance {b}: expected states below {s - 2},"
            f" descending, then -1; got {sources[b, s].tolist()[:8]}"
        )


# The states of one utterance with optional tokens, or with silence between words.
#
# Both kinds of rows are tokens with *gaps* before them and after the last: in CTC a blank before
# every token, in segmentations a silence before every word. A gap belongs to what follows it, so
# that every path belongs to one subset of kept tokens: it is left only for tokens of its group, and
# entered from any token that may come last before them.


@dataclass
class StateRow:
    """The states of one utterance.

    Fields are those of `Topology` and `Detours`, but `sources` is by state.
    """

    emit: np.ndarray
    token: np.ndarray
    skip: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    min_frames: int
    optional: bool
    sources: dict[int, list[int]] = field(default_factory=dict)

    def enter(self, state: int, sources: list[int]) -> None:
        """Let `state` be entered from `sources`, descending, besides the state before."""
        self.skip[state] = state - 2 in sources
        if detours := [source for source in sources if source < state - 2]:
            self.sources[state] = detours


@dataclass(frozen=True)
class _Plan:
    """The states of tokens and gaps.

    Each token has the states `first` to `last`; group g's gap is state `gap[g]`, its tokens begin
    with `group_start[g]`; `group` (L,) is that of each token. The last state is the gap at the end.
    """

    first: np.ndarray
    last: np.ndarray
    gap: np.ndarray
    group: np.ndarray
    group_start: np.ndarray
    optional: np.ndarray


def ctc_row(target: np.ndarray, optional: np.ndarray, blank: int) -> StateRow:
    """Return the states of CTC whose `optional` tokens may be left out; see `lattice.ctc`."""
    tokens = len(target)
    size = 2 * tokens + 1
    emit = np.full(size, blank, np.int32)
    token = np.full(size, -1, np.int32)
    emit[1::2] = target
    token[1::2] = np.arange(tokens)
    places = np.arange(tokens)
    plan = _Plan(2 * places + 1, 2 * places + 1, 2 * places, places, places, optional)
    # The shortest path leaves out every optional token; a blank parts the equal tokens that then
    # meet.
    kept = target[~optional]
    shortest = len(kept) + int(np.count_nonzero(kept[1:] == kept[:-1]))
    return _connected(emit, token, plan, target, shortest)


def ctc_passages_row(
    target: np.ndarray, passages: Sequence[tuple[int, int]], blank: int
) -> StateRow:
    """Return the states of CTC whose `passages` may each be left out as a whole.

    See `lattice.ctc_passages`.

    If a passage is left out, the blank before it stands between its neighbours.
    """
    row = ctc_row(target, np.zeros(len(target), np.bool_), blank)
    row.optional = bool(passages)
    left_out = np.zeros(len(target), np.bool_)
    reached: list[int] = []  # where passages begin that end where the next one begins, or later
    for number, (first, last) in enumerate(passages):
        left_out[first:last] = True
        meets = number > 0 and passages[number - 1][1] == first
        reached = [first, *(reached if meets else [])]
        is_end = last == len(target)
        sources = []
        for begin in reached:
            # from the blank before the passage, or from the token before that, if it differs
            if begin == 0 and not is_end:
                row.begin[2 * last + 1] = True
            sources.append(2 * begin)
            if begin and (is_end or target[begin - 1] != target[last]):
                sources.append(2 * begin - 1)
        if is_end:
            row.end[sources] = True
        else:
            state = 2 * last + 1
            row.enter(
                state,
                sorted(
                    {2 * last, *sources, *([2 * last - 1] if row.skip[state] else [])}, reverse=True
                ),
            )
    kept = target[~left_out]
    row.min_frames = len(kept) + int(np.count_nonzero(kept[1:] == kept[:-1]))
    return row


def segmentation_row(
    target: np.ndarray, words: np.ndarray, optional: np.ndarray, states_per_token: int, silence: int
) -> StateRow:
    """Return the states of a segmentation, with silence before words and at the end.

    See `lattice.segmentation`.
    """
    tokens = len(target)
    new_word = np.ones(tokens, np.bool_)
    new_word[1:] = words[1:] != words[:-1]
    parts = np.where(target < 0, 1, states_per_token)
    group = np.cumsum(new_word) - 1
    last = np.cumsum(parts) + group
    first = last - parts + 1
    size = int(last[-1]) + 2 if tokens else 1
    emit = np.full(size, silence, np.int32)
    token = np.full(size, -1, np.int32)
    gap = first[new_word] - 1
    sounding = np.ones(size, np.bool_)
    sounding[gap] = sounding[-1] = False
    token[sounding] = np.repeat(np.arange(tokens), parts)
    part = np.arange(size)[sounding] - np.repeat(first, parts)
    unit = np.repeat(target, parts)
    emit[sounding] = np.where(unit < 0, unit, unit * states_per_token + part)
    plan = _Plan(first, last, gap, group, np.flatnonzero(new_word), optional)
    return _connected(emit, token, plan, None, int(parts[~optional].sum()))


def _connected(
    emit: np.ndarray, token: np.ndarray, plan: _Plan, apart: np.ndarray | None, shortest: int
) -> StateRow:
    """Return the row with all transitions.

    Equal neighbours in `apart` (L,) must be kept apart by their gap.
    """
    size = len(emit)
    tokens = len(plan.first)
    skip, begin, end = np.zeros((3, size), np.bool_)
    row = StateRow(emit, token, skip, begin, end, shortest, bool(plan.optional.any()))
    if not row.optional:
        _follow(row, plan, apart)
        return row
    # Token k may be the first one kept after j, or the first of all (j = -1), for earliest[k] - 1
    # <= j < k.
    required = np.flatnonzero(~plan.optional)
    earliest = np.zeros(tokens + 1, np.int64)
    earliest[required + 1] = required + 1
    earliest = np.maximum.accumulate(earliest)

    def before(k: int) -> range:
        """Return the tokens, descending, after which token k (or the end) may come next."""
        return range(k - 1, max(int(earliest[k]) - 1, 0) - 1, -1)

    lasts = plan.last.tolist()
    for gap, k in [*zip(plan.gap.tolist(), plan.group_start.tolist()), (size - 1, tokens)]:
        row.enter(gap, [lasts[j] for j in before(k)])
        row.begin[gap] = earliest[k] == 0
    for k, state in enumerate(plan.first.tolist()):
        sources = [lasts[j] for j in before(k) if apart is None or apart[j] != apart[k]]
        if earliest[k] <= plan.group_start[plan.group[k]]:
            sources.append(int(plan.gap[plan.group[k]]))
        row.enter(state, sorted(sources, reverse=True))
        row.begin[state] = earliest[k] == 0
    row.end[[size - 1, *(lasts[j] for j in before(tokens))]] = True
    return row


def _follow(row: StateRow, plan: _Plan, apart: np.ndarray | None) -> None:
    """Set the transitions of a row without optional tokens.

    Each token follows the one before it, or the gap between them.
    """
    row.end[-1] = True
    row.begin[0] = True  # the first gap, which is the last one where there are no tokens
    if not len(plan.first):
        return
    row.begin[plan.first[0]] = row.end[plan.last[-1]] = True
    behind_gap = plan.group_start[1:]
    if apart is not None:
        behind_gap = behind_gap[apart[behind_gap] != apart[behind_gap - 1]]
    row.skip[plan.first[behind_gap]] = True


Rows = Sequence[Sequence[int] | np.ndarray]


def ctc(targets: Rows, blank: int = 0, optional: Rows | None = None) -> Topology:
    """Make CTC topologies (Graves et al. 2006) of S = 2L + 1 states.

    The states are blank, token, blank, …, token, blank.

    With `optional`, the paths are those of every subset of the tokens that keeps all which are not
    optional: the blank before a kept token k is state 2k, the one after the last is state 2L. Two
    subsets that read the same ([a?, a]: one `a` or the other) are two sets of paths, and both
    count.

    Args:
        targets: B sequences of token ids, none of them `blank`. `WILDCARD` stands for any class, or
            none, by a score
            of its own; two in a row are two equal tokens.
        blank: the class of the blank.
        optional: for each token, whether it may be left out.

    Raises:
        KernelError: a target contains the blank, a negative id or a number that is not whole; the
            blank is negative; or rows differ in length.

    >>> ctc([[3, 3, 5]]).emit.tolist(), ctc([[3, 3, 5]]).min_frames.tolist()
    ([[0, 3, 0, 3, 0, 5, 0]], [4])
    >>> ctc([[3, 4, 5]], optional=[[False, True, False]]).detours.sources[0, 4:6].tolist()
    [[1], [1]]
    """
    _check_blank(blank)
    if optional is None:
        rows = _rows(targets)
    else:
        rows = _ids(targets)
    if optional is not None:
        chosen = _optional(optional, rows)
        if any(row.any() for row in chosen):
            for b, row in enumerate(rows):
                _refuse_blank(row[None], np.ones((1, len(row)), np.bool_), blank, b)
            return stack([_one(ctc_row(row, free, blank)) for row, free in zip(rows, chosen)])
    return _blanks_between(*_padded(rows), blank, repeats=True)


def ctc_passages(
    target: Sequence[int] | np.ndarray, passages: Sequence[tuple[int, int]], blank: int = 0
) -> Topology:
    """Make the CTC topology of one target whose `passages` are each kept or left out as a whole.

    Args:
        target: token ids, as for `ctc`; the states are those of `ctc`.
        passages: tokens (first, last exclusive), ascending, not empty, not overlapping.
        blank: the class of the blank.

    Raises:
        KernelError: as `ctc`; or the passages are invalid.

    >>> ctc_passages([3, 4, 5], [(1, 2)]).detours.sources[0, 5].tolist()
    [2, 1]
    """
    _check_blank(blank)
    (row,) = _ids([target])
    _refuse_blank(row[None], np.ones((1, len(row)), np.bool_), blank)
    edges = [edge for passage in passages for edge in passage]
    if (
        sorted(edges) != edges
        or any(a >= b for a, b in passages)
        or (edges and not 0 <= edges[0] < edges[-1] <= len(row))
    ):
        raise KernelError(
            f"passages: expected ascending (first, last) of {len(row)} tokens, got"
            f" {list(passages)[:8]}"
        )
    return stack([_one(ctc_passages_row(row, passages, blank))])


def ctc_padded(
    targets: np.ndarray, lengths: np.ndarray, blank: int = 0, *, repeats: bool = True
) -> Topology:
    """Make CTC topologies of targets (B, L), of which the first `lengths` (B,) count.

    The rest is never read. Without `repeats` they are those of `simple_ctc`.

    Raises:
        KernelError: as `ctc`; or shapes and lengths do not match.

    >>> ctc_padded(np.array([[3, 3], [4, -9]]), np.array([2, 1])).emit.tolist()
    [[0, 3, 0, 3, 0], [0, 4, 0, 0, 0]]
    """
    _check_blank(blank)
    targets, lengths = np.asarray(targets), np.asarray(lengths)
    if targets.ndim != 2 or targets.dtype.kind not in "iu":
        raise KernelError(
            f"targets: expected token ids (B, L), got {targets.dtype} of shape {targets.shape}"
        )
    if lengths.shape != targets.shape[:1] or lengths.dtype.kind not in "iu":
        raise KernelError(
            f"target lengths: expected whole numbers of shape {targets.shape[:1]}, got"
            f" {lengths.dtype} of shape {lengths.shape}"
        )
    counts = lengths.tolist() or [0]
    shortest = min(counts)
    longest = max(counts)
    if shortest < 0 or longest > targets.shape[1]:
        raise KernelError(f"target lengths: expected 0 to {targets.shape[1]}, got {counts[:8]}")
    targets = targets[:, :longest]
    if shortest == longest:
        inside = None
    else:
        inside = np.arange(longest) < lengths[:, None]
    return _blanks_between(targets, lengths.astype(np.int64), inside, blank, repeats=repeats)


def simple_ctc(targets: Rows, blank: int = 0) -> Topology:
    """Make simple CTC topologies, in which each token is exactly one frame.

    Otherwise as `ctc`, but equal tokens need no blank between them.

    Args and raises as `ctc`.

    >>> simple_ctc([[3, 3]]).skip.tolist(), simple_ctc([[3, 3]]).stay.tolist()
    ([[False, False, False, True, False]], [[True, False, True, False, True]])
    """
    _check_blank(blank)
    return _blanks_between(*_padded(_rows(targets)), blank, repeats=False)


def states_per_sound(states: int, classes: int) -> int:
    """Return the number of segmentation states of each sound.

    Of `states` the last is silence, and the blank has none.

    >>> states_per_sound(7, 4)
    2
    """
    return (states - 1) // (classes - 1)


def segmentation(
    targets: Rows, words: Rows, states_per_token: int, silence: int, optional: Rows | None = None
) -> Topology:
    """Make topologies without blanks, with silence at the ends and between words.

    Each token has `states_per_token` states.

    Token k emits the classes k * states_per_token … + states_per_token - 1, one or more frames
    each; a wildcard is one state. An optional token may be left out with all its states; silence
    may stand where the word changes among the tokens that are kept. Every subset of them has its
    own paths, as in `ctc`.

    Args:
        targets: B sequences of token indices, or `WILDCARD`.
        words: for each target, the word that each token belongs to (a run of equal numbers);
            silence may stand where the word changes.
        states_per_token: states of one token.
        silence: the class of the silence.
        optional: for each token, whether it may be left out.

    Raises:
        KernelError: rows differ in length, ids are negative, or numbers are out of range.

    >>> segmentation([[0, 1]], [[0, 1]], 2, 9).emit.tolist()
    [[9, 0, 1, 9, 2, 3, 9]]
    """
    if states_per_token < 1 or not 0 <= silence <= MAX_CLASS:
        raise KernelError(
            "expected at least one state per token and the index of a class as silence, "
            f"got states_per_token {states_per_token}, silence {silence}"
        )
    if len(targets) != len(words):
        raise KernelError(f"words: expected {len(targets)} rows as in targets, got {len(words)}")
    rows = _ids(targets)
    for b, (row, word) in enumerate(zip(rows, words)):
        if len(row) != len(word):
            raise KernelError(
                f"words of target {b}: expected {len(row)}, one for each token, got {len(word)}"
            )
        if row.size and (int(row.max()) + 1) * states_per_token - 1 > MAX_CLASS:
            raise KernelError(f"target {b}: token {int(row.max())} has no classes")
    if optional is None:
        free = [np.zeros(len(row), np.bool_) for row in rows]
    else:
        free = _optional(optional, rows)
    return stack(
        [
            _one(segmentation_row(row, np.asarray(word), may, states_per_token, silence))
            for row, word, may in zip(rows, words, free)
        ]
    )


def _check_blank(blank: int) -> None:
    if not 0 <= blank <= MAX_CLASS:
        raise KernelError(f"blank: expected the index of a class, got {blank}")


def _ids(targets: Rows) -> list[np.ndarray]:
    """Return rows of token ids, each the index of a class or `WILDCARD`."""
    rows = _rows(targets)
    _refuse_no_class(rows)
    return rows


def _rows(targets: Rows) -> list[np.ndarray]:
    rows = [np.asarray(target) for target in targets]
    for b, row in enumerate(rows):
        if row.ndim != 1 or row.dtype.kind not in "iu":
            if row.shape != (0,):
                raise KernelError(
                    f"target {b}: expected a row of token ids (L,), got {row.dtype} of shape"
                    f" {row.shape}"
                )
            rows[b] = row.astype(np.int64)
    return rows


def _refuse_no_class(rows: Iterable[np.ndarray]) -> None:
    for b, row in enumerate(rows):
        bad = (row < WILDCARD) | (row > MAX_CLASS)
        if bad.any():
            place = int(np.argmax(bad))
            if row[place] < 0:
                what = "is negative"
            else:
                what = "is not a class"
            raise KernelError(
                f"target {b}: token {place} ({int(row[place])}) {what}; targets hold token ids"
            )


def _optional(optional: Rows, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    if len(optional) != len(rows):
        raise KernelError(f"optional: expected {len(rows)} rows as in targets, got {len(optional)}")
    chosen = [np.asarray(row) for row in optional]
    for b, (row, free) in enumerate(zip(rows, chosen)):
        if free.shape != row.shape or (free.size and free.dtype != np.bool_):
            raise KernelError(
                f"optional of target {b}: expected {len(row)} of bool, one for each token; got"
                f" {free.dtype} of shape {free.shape}"
            )
    return [free.astype(np.bool_) for free in chosen]


def _padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return rows of ids as (B, L), their lengths (B,), and which elements count (None: all)."""
    lengths = np.array([len(row) for row in rows], np.int64)
    longest = int(lengths.max()) if len(rows) else 0
    if not len(rows) or lengths.min() == longest:
        return np.array(rows, np.int64).reshape(len(rows), longest), lengths, None
    inside = np.arange(longest) < lengths[:, None]
    targets = np.zeros(inside.shape, np.int64)
    targets[inside] = np.concatenate(rows)
    return targets, lengths, inside


def _refuse_blank(
    targets: np.ndarray, inside: np.ndarray | None, blank: int, first: int = 0
) -> None:
    bad = targets == blank
    if inside is not None:
        bad &= inside
    if bad.any():
        b, place = np.argwhere(bad)[0].tolist()
        raise KernelError(
            f"target {first + b}: token {place} ({blank}) is the blank; targets hold token ids"
            " without blanks"
        )


@lru_cache(maxsize=16)
def _tokens_between(count: int) -> np.ndarray:
    """(2 * count + 1,) int32: -1, 0, -1, 1, … -1."""
    tokens = np.full(2 * count + 1, -1, np.int32)
    tokens[1::2] = np.arange(count)
    tokens.flags.writeable = False
    return tokens


def _blanks_between(
    targets: np.ndarray,
    lengths: np.ndarray,
    inside: np.ndarray | None,
    blank: int,
    *,
    repeats: bool,
) -> Topology:
    """Make CTC topologies of targets (B, L), of which the elements `inside` count (None: all).

    Without `repeats` they are simple CTC.
    """
    counted = targets if inside is None else targets[inside]
    if counted.size:
        low = int(counted.min())
        high = int(counted.max())
    else:
        low, high = 0, -1
    if low < WILDCARD or high > MAX_CLASS:
        _refuse_no_class(row[:length] for row, length in zip(targets, lengths.tolist()))
    if low <= blank <= high:
        _refuse_blank(targets, inside, blank)
    batch, longest = targets.shape
    shape = (batch, 2 * longest + 1)
    emit = np.empty(shape, np.int32)
    skip = np.zeros(shape, np.bool_)
    stay = np.empty(shape, np.bool_)
    token = _tokens_between(longest)[None]
    states = np.empty(batch, np.int64)
    emit[:, ::2] = blank
    emit[:, 1::2] = targets
    stay.fill(True)
    states.fill(shape[1])
    if batch > 1:
        token = np.repeat(token, batch, 0)
    min_frames = lengths
    if not repeats:
        stay[:, 1::2] = False
        skip[:, 3::2] = True
    elif longest > 1:
        differ = targets[:, 1:] != targets[:, :-1]
        skip[:, 3::2] = differ
        within = ~differ if inside is None else inside[:, 1:] > differ
        if np.count_nonzero(within):
            min_frames = lengths + within.sum(1)
    if inside is not None:
        states = 2 * lengths + 1
        beyond = np.arange(shape[1]) >= states[:, None]
        for rows, padding in ((emit, 0), (token, -1), (skip, False), (stay, True)):
            np.copyto(rows, padding, where=beyond)
    # An empty transcript is the blank state alone: one start, one end, and no frame is needed.
    ends = np.minimum(states, 2)
    return Topology.trusted(
        emit=emit,
        skip=skip,
        token=token,
        states=states,
        starts=ends,
        finals=ends,
        min_frames=min_frames,
        stay=stay,
        detours=None,
        # Every kernel asks for these: known here, they need not be computed.
        max_class=max(high, blank) if batch else -1,
        has_wildcard=low < 0,
        **({"interleaved": stay[:, 0], "all_stay": True} if repeats else {}),
    )


def _one(row: StateRow) -> Topology:
    """Return the topology of one row of states."""
    size = len(row.emit)
    ends = np.full(1, min(size, 2), np.int64)
    return Topology.trusted(
        emit=row.emit[None],
        skip=row.skip[None],
        token=row.token[None],
        states=np.full(1, size, np.int64),
        starts=ends,
        finals=ends,
        min_frames=np.full(1, row.min_frames, np.int64),
        stay=np.ones((1, size), np.bool_),
        detours=_detours(row) if row.optional else None,
    )


def _detours(row: StateRow) -> Detours:
    size = len(row.emit)
    most = max(map(len, row.sources.values()), default=0)
    check_detours_size(1, size, most)
    sources = np.full((1, size, most), -1, np.int32)
    for state, entered in row.sources.items():
        sources[0, state, : len(entered)] = entered
    return Detours(sources, row.begin[None], row.end[None])
