"""The work of a run as it passes between the engine and its workers: items, batches, results; the interface of a pool.

How the source is divided depends on the source (and on the shard and the batch's size), never on what remains to do: a
resumed run puts the same utterances together as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ctc_align.corpus.state.journal import Shard
from ctc_align.corpus.utterance import Checksum, Refused, Utterance, UtteranceResult
from ctc_align.errors import CtcAlignError

if TYPE_CHECKING:
    from ctc_align.alignment.scoring import Scored

WINDOW = 1024
"""Utterances that are sorted by length together; memory holds a few windows, never the source."""
_WIDEST = 4
"""A window ends where an assembled file ends, unless that makes it this many times as large."""
OUTSTANDING = 3
"""Maximum number of batches of a worker: one is read, one computed, one written. With more, sending could block."""
GroupOf = Callable[[int, Utterance], str | None]


@dataclass(frozen=True)
class Item:
    """An entry of the source and its index in it; `group` is the assembled file that its outputs go into.

    The planner adds the fingerprint of an utterance, the `status` that an earlier run left it with, and its `length_s`,
    None if nobody needed it so far.
    """

    index: int
    entry: Utterance | Refused
    group: str | None = None
    fingerprint: int = 0
    status: str | None = None
    length_s: float | None = None


@dataclass(frozen=True)
class Job:
    """One utterance in a batch.

    `todo` is False if it is done and only computed again, so that the others are in the same batch as the first
    time; `is_absent` if it is in the plan, but not read again: it failed. `recorded` are its files as an earlier run
    wrote them, None if that is unknown or irrelevant.
    """

    index: int
    utterance: Utterance
    group: str | None
    fingerprint: int
    length_s: float
    todo: bool = True
    is_absent: bool = False
    recorded: Mapping[str, Checksum] | None = None


@dataclass(frozen=True)
class UtteranceBatch:
    """Utterances that go through the model together. `number` is unique in a run."""

    number: int
    jobs: tuple[Job, ...]


def items_of(source: Iterable[Utterance | Refused], group_of: GroupOf, shard: Shard) -> Iterator[Item]:
    """Yield the items of one shard with their indices in the whole source; assembled files are never divided."""
    last, groups = None, -1
    for index, entry in enumerate(source):
        number = index
        group = group_of(index, entry) if isinstance(entry, Utterance) else None
        if group is not None:
            if group != last:
                last, groups = group, groups + 1
            number = groups
        if number % shard.count == shard.index:
            yield Item(index, entry, group)


def windows(items: Iterable[Item], size: int = WINDOW) -> Iterator[list[Item]]:
    """Yield runs of at least `size` consecutive items that end where a group ends, or at `_WIDEST` times `size`.

    >>> [len(window) for window in windows((Item(i, None, str(i // 3)) for i in range(10)), 4)]
    [6, 4]
    """
    window: list[Item] = []
    for item in items:
        full = len(window) >= size and (item.group is None or item.group != window[-1].group)
        if full or len(window) >= _WIDEST * size:
            yield window
            window = []
        window.append(item)
    if window:
        yield window


def batches_by_length(lengths_s: Sequence[float], batch_seconds: float) -> list[list[int]]:
    """Return indices of `lengths_s`, longest first, in batches whose padded length is at most `batch_seconds`.

    A longer one is a batch by itself.

    >>> batches_by_length([1.0, 5.0, 2.0, 2.0, 30.0], 6.0)
    [[4], [1], [2, 3, 0]]
    """
    order = sorted(range(len(lengths_s)), key=lambda i: (-lengths_s[i], i))
    batches: list[list[int]] = []
    for i in order:
        if batches and lengths_s[batches[-1][0]] * (len(batches[-1]) + 1) <= batch_seconds:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


@dataclass(frozen=True)
class Outcome:
    """The outcome of one job.

    `pending` is the part of a file that the parent assembles; `scored` are the ranked transcripts of a job of `score`;
    `moved_aside` are outputs that others had changed, by the names that they have now.
    """

    index: int
    status: Literal["done", "failed"]
    reason: str | None = None
    result: UtteranceResult = field(default_factory=UtteranceResult)
    pending: bytes | None = None
    scored: tuple[Scored, ...] = ()
    moved_aside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ready:
    """A worker has loaded its model."""

    device: str


@dataclass(frozen=True)
class Finished:
    """A worker has done a batch, and its outputs are in place; `seconds` by stage, `warnings` of the library."""

    number: int
    outcomes: tuple[Outcome, ...]
    seconds: dict[str, float]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunFailed:
    """The run cannot go on: the call is wrong, or outputs cannot be written."""

    error: CtcAlignError


@dataclass(frozen=True)
class BatchDone:
    """A batch and what a worker made of it."""

    batch: UtteranceBatch
    finished: Finished


@dataclass(frozen=True)
class WorkerDied:
    """A worker has ended; `batches` are what it had, in order, `how` says what ended it.

    `from_outside`: a signal that other programs send (as the system does where memory is short), or nobody knows what.
    """

    batches: tuple[UtteranceBatch, ...]
    how: str
    was_ready: bool
    from_outside: bool = False


class Pool(Protocol):
    """Workers, wherever they are. At the end of its `with` block they end, after an error they are killed."""

    @property
    def busy(self) -> int:
        """The number of batches that workers have."""

    def offer(self, batch: UtteranceBatch, alone: bool = False) -> bool:
        """Give a batch to a worker; return False if none has room.

        With `alone` to an idle worker, which gets no other batch until this one is reported.
        """

    def events(self, timeout_s: float) -> Iterator[BatchDone | RunFailed | WorkerDied]:
        """Yield what workers have reported, after waiting at most `timeout_s` for it."""

    def kill(self) -> None:
        """End all workers at once."""
