"""Jobs, batches and results, which the engine and its workers exchange.

The interface of a worker pool is here, too. The division of the source into batches depends on the
source, the shard and the batch size, never on the remaining work: a resumed run forms the same
batches as an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ctc_align.errors import CtcAlignError
from ctc_align.files.folder_lock import Shard
from ctc_align.sources.utterance import Checksum, Refused, Utterance, UtteranceResult

if TYPE_CHECKING:
    from ctc_align.alignment.scoring import Scored

WINDOW = 1024
"""Utterances that are sorted by length together; memory holds a few windows, never the source."""
_WIDEST = 4
"""A window ends where an assembled file ends, unless that makes it this many times as large."""
OUTSTANDING = 3
"""Maximum number of batches of a worker: one is read, one computed, one written.

With more, sending could block.
"""
GroupOf = Callable[[int, Utterance], str | None]


@dataclass(frozen=True)
class Job:
    """An entry of the source, its index in it, and the work on it.

    `group` is the assembled file that its outputs go into. The planner adds the fingerprint of an
    utterance, its `status` from an earlier run, and its `length_s` (0 if unknown); the engine adds
    `recorded`: its files as an earlier run wrote them, None if that is unknown or irrelevant.
    """

    index: int
    entry: Utterance | Refused
    group: str | None = None
    fingerprint: int = 0
    status: str | None = None
    length_s: float = 0.0
    recorded: Mapping[str, Checksum] | None = None

    @property
    def utterance(self) -> Utterance:
        """The entry, as an utterance; only for entries that are not refused."""
        assert isinstance(self.entry, Utterance), "refused entries are in no batch"
        return self.entry

    @property
    def todo(self) -> bool:
        """True if the utterance is not done, and must be aligned.

        A done utterance is computed again only to keep its batch as it was.
        """
        return self.status is None


@dataclass(frozen=True)
class UtteranceBatch:
    """Utterances that go through the model together. `number` is unique in a run."""

    number: int
    jobs: tuple[Job, ...]


def jobs_of(
    source: Iterable[Utterance | Refused], group_of: GroupOf, shard: Shard
) -> Iterator[Job]:
    """Yield the jobs of one shard with their indices in the whole source.

    Assembled files are never divided between shards.
    """
    last = None
    groups = -1
    for index, entry in enumerate(source):
        number = index
        group = None
        if isinstance(entry, Utterance):
            group = group_of(index, entry)
        if group is not None:
            if group != last:
                last = group
                groups = groups + 1
            number = groups
        if number % shard.count == shard.index:
            yield Job(index, entry, group)


def windows(jobs: Iterable[Job], size: int = WINDOW) -> Iterator[list[Job]]:
    """Yield runs of at least `size` consecutive jobs.

    A run ends where a group ends, or at `_WIDEST` times `size`.

    >>> [len(window) for window in windows((Job(i, None, str(i // 3)) for i in range(10)), 4)]
    [6, 4]
    """
    window: list[Job] = []
    for job in jobs:
        full = len(window) >= size and (job.group is None or job.group != window[-1].group)
        if full or len(window) >= _WIDEST * size:
            yield window
            window = []
        window.append(job)
    if window:
        yield window


def batches_by_length(lengths_s: Sequence[float], batch_seconds: float) -> list[list[int]]:
    """Return indices of `lengths_s` in batches, the longest first.

    The padded length of a batch is at most `batch_seconds`. A longer one is a batch by itself.

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

    `pending` is the part of a file that the parent assembles; `scored` are the ranked transcripts
    of a job of `score`; `moved_aside` are the present names of outputs that others had changed.
    """

    index: int
    status: Literal["done", "failed"]
    reason: str | None = None
    result: UtteranceResult = field(default_factory=UtteranceResult)
    pending: bytes | None = None
    scored: tuple[Scored, ...] = ()
    moved_aside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finished:
    """A worker has finished the batch with this number, and its outputs are in place.

    `seconds` are by stage, `warnings` of the library.
    """

    number: int
    outcomes: tuple[Outcome, ...]
    seconds: dict[str, float]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerDied:
    """A worker has ended; `batches` are its batches, in order, and `how` is the cause.

    `from_outside`: the cause is unknown, or a signal that other programs send (the system does so
    when memory is short).
    """

    batches: tuple[UtteranceBatch, ...]
    how: str
    was_ready: bool
    from_outside: bool = False


Report = Finished | WorkerDied | CtcAlignError
"""A worker's report.

An error means that the run cannot continue: the call is wrong, or outputs cannot be written.
"""


class Pool(Protocol):
    """Workers, local or remote. They end with the `with` block; after an error they are killed."""

    @property
    def busy(self) -> int:
        """The number of batches that are assigned to workers."""

    def offer(self, batch: UtteranceBatch, alone: bool = False) -> bool:
        """Give a batch to a worker; return False if none has room.

        With `alone`, give it to an idle worker, which gets no other batch until this one is
        reported.
        """

    def events(self, timeout_s: float) -> Iterator[Report]:
        """Yield what workers have reported, after waiting at most `timeout_s` for it."""

    def kill(self) -> None:
        """End all workers at once."""
