"""The plan: a source, streamed, in windows of consecutive utterances, each cut into batches of similar length.

The plan is a function of the source (and of the shard and the batch's size), never of what is left to do: a resumed
run puts the same utterances together as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ctc_align.corpus.state.journal import Shard
from ctc_align.corpus.state.journal_lines import Checksum
from ctc_align.corpus.utterance import Refused, Utterance

WINDOW = 1024
"""Utterances that are sorted by length together; memory holds a few windows, never the source."""
_WIDEST = 4
"""A window ends where an assembled file does, unless that would make it so many times as large."""

GroupOf = Callable[[int, Utterance], str | None]


@dataclass(frozen=True)
class Item:
    """An entry of the source and its place in it; `group` is the assembled file that its outputs go into."""

    index: int
    entry: Utterance | Refused
    group: str | None = None


@dataclass(frozen=True)
class Job:
    """One utterance in a batch.

    `todo` is False where it is done and only computed again so that the others are in the same batch as the first time;
    `is_absent` where it has its place in the plan, but is not read again: it failed. `recorded` are its files as an
    earlier run wrote them, None where that is not known, or does not matter.
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
    """Yield the items of one shard with their places in the whole source; assembled files are never divided."""
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
    """Return places of `lengths_s`, longest first, in batches whose padded length is at most `batch_seconds`.

    One that is longer is a batch of its own.

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
