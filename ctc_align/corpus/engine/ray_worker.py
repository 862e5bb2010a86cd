"""What runs on a Ray cluster: the feed, which hands out batches, and the actor, which has the model."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctc_align.corpus.engine.stages import Broken, Finished, Stages, WorkerOptions, limit_threads
from ctc_align.errors import BackendError, CtcAlignError

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner

TRIES = 2
"""Times that an actor begins a batch; who dies of it twice is not asked again."""
_MOST_STARTS = 5
"""Actors, more than twice as many as there should be, that start and are never ready: then it is not chance."""


@dataclass(frozen=True)
class Lost:
    """A batch whose actors died each time."""

    number: int
    how: str


class Feed:
    """Batches on their way to the actors, by place: the first that was put is 0.

    Ray may ask for a place again, after a machine was lost: it gets the same batch, or, where the driver has its
    result already, an empty row. So a job that Ray repeats in part does nothing twice and leaves nothing out.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rows: dict[int, bytes] = {}
        self._end: int | None = None
        self._begun: Counter[int] = Counter()
        self._starting = 0

    def put(self, place: int, row: bytes) -> None:
        """Calls may overtake each other, so each says its place."""
        with self._changed:
            self._rows[place] = row
            self._changed.notify_all()

    def close(self, end: int) -> None:
        """Nothing is put at `end` or behind it."""
        with self._changed:
            self._end = end
            self._changed.notify_all()

    def get(self, place: int) -> bytes | None:
        """The row at a place, as soon as it is there; None behind the last."""
        with self._changed:
            self._changed.wait_for(lambda: place in self._rows or self._is_over(place))
            return None if self._is_over(place) else self._rows[place]

    def _is_over(self, place: int) -> bool:
        return self._end is not None and place >= self._end

    def forget(self, place: int) -> None:
        """The driver has the result."""
        with self._changed:
            self._rows[place] = b""
            self._begun.pop(place, None)

    def begin(self, place: int) -> int:
        """How many times this place has been begun since it was last ended."""
        with self._changed:
            self._begun[place] += 1
            return self._begun[place]

    def end(self, place: int) -> None:
        with self._changed:
            self._begun.pop(place, None)

    def starting(self) -> int:
        """How many actors have started and are not ready."""
        with self._changed:
            self._starting += 1
            return self._starting

    def ready(self) -> None:
        with self._changed:
            self._starting -= 1


@dataclass(frozen=True)
class Site:
    """Where the run is: what every machine must see under the same name, and how many actors there are to be."""

    folder: str
    lock: str
    workers: int

    def enter(self) -> None:
        """Relative paths mean here what they mean to the driver.

        Raises:
            BackendError: this machine does not see the output folder.
        """
        with contextlib.suppress(OSError):
            os.chdir(self.folder)
        if not os.path.exists(self.lock):
            raise BackendError(
                f"{socket.gethostname()}: does not see {os.path.dirname(self.lock)}, or another folder of that name: "
                "with --engine ray all machines need --out-dir and the audio under the same paths"
            )


class Actor:
    """Has the model, and does one batch a call; calls overlap: one reads, one aligns, one writes."""

    def __init__(self, feed: Any, options: WorkerOptions, site: Site) -> None:
        import ray

        limit_threads(options.threads)
        self._feed = feed
        self._room = _Room()
        self._turn = threading.Lock()
        self._broken: Broken | None = None
        try:
            if ray.get(feed.starting.remote()) > 2 * site.workers + _MOST_STARTS:
                raise BackendError("Ray's workers die while they load the model; try fewer --workers")
            site.enter()
            self._stages = Stages(options, self.aligner())
            ray.get(feed.ready.remote())
        except CtcAlignError as error:  # goes to the driver in the place of the first batch
            self._broken = Broken(error)

    def aligner(self) -> Aligner | None:
        """One to use in the place of the one that the options name."""
        return None

    def __call__(self, table: Any) -> Any:
        """From a pyarrow table with the columns `place` and `row` to one with the column `message`."""
        import pyarrow

        messages = [pickle.dumps(self._answer(row["place"], row["row"])) for row in table.to_pylist()]
        return pyarrow.table({"message": pyarrow.array(messages, pyarrow.large_binary())})

    def _answer(self, place: int, row: bytes) -> Finished | Broken | Lost | None:
        import ray

        if self._broken is not None or not row:
            return self._broken
        batch, alone = pickle.loads(row)
        try:
            with self._room.taken(alone):
                if ray.get(self._feed.begin.remote(place)) > TRIES:
                    return Lost(batch.number, f"{TRIES} of Ray's workers ended: out of memory?")
                load = self._stages.read(batch)
                with self._turn:
                    self._stages.align(load)
                message = self._stages.write(load)
                ray.get(self._feed.end.remote(place))
                return message
        except ray.exceptions.RayError:  # the job ends, and is begun anew
            raise
        except Exception as error:
            return Lost(batch.number, f"{type(error).__name__}: {error}")


class _Room:
    """Lets in whoever comes, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_shut = False

    @contextlib.contextmanager
    def taken(self, alone: bool) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_shut)
            if alone:
                self._is_shut = True
                self._changed.wait_for(lambda: not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                if alone:
                    self._is_shut = False
                self._changed.notify_all()
