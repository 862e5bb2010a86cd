"""The messages between the engine and its workers, and the interface of a pool of workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ctc_align.errors import CtcAlignError

if TYPE_CHECKING:
    from ctc_align.alignment.scoring import Scored
    from ctc_align.corpus.engine.batch_plan import UtteranceBatch
    from ctc_align.corpus.state.journal_lines import Checksum

OUTSTANDING = 3
"""Batches that a worker has at most: one is read, one computed, one written. With more, sending could block."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one job.

    `pending` is the part of a file that the parent assembles; `doubt`, `fit`, `skipped`, `words`, `too_many_skipped`,
    `unexplained_s`, `looks`, `part`, `left_out`, `files` and `row` go into the journal; `scored` are the ranked
    transcripts of a job of `score`; `kept` are outputs that others had changed, by the names that they have now.
    """

    index: int
    status: str
    reason: str | None = None
    loss: float | None = None
    loss_per_token: float | None = None
    duration_s: float | None = None
    seconds: float = 0.0
    pending: bytes | None = None
    doubt: dict[str, float | None] | None = None
    fit: str | None = None
    skipped: int | None = None
    words: int | None = None
    too_many_skipped: bool | None = None
    unexplained_s: float | None = None
    looks: str | None = None
    part: tuple[int, int] | None = None
    left_out: tuple[tuple[int, int], ...] | None = None
    scored: tuple[Scored, ...] = ()
    files: Mapping[str, Checksum] | None = None
    row: Checksum | None = None
    kept: tuple[str, ...] = ()


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

    `from_outside`: by a signal that other programs send, as the system does where memory is short, or nobody knows.
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
        """Give a batch to a worker; return False where none has room.

        With `alone` to an idle worker, which gets no other batch until this one is reported.
        """

    def events(self, timeout_s: float) -> Iterator[BatchDone | RunFailed | WorkerDied]:
        """Yield what workers have reported, after waiting for it at most so long."""

    def kill(self) -> None:
        """End all workers at once."""
