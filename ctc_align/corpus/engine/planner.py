"""The source, read ahead by a thread, with earlier outcomes of its utterances and the lengths of those to be done."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ctc_align.corpus.engine.batch_plan import Item, windows
from ctc_align.corpus.state.fingerprint import Fingerprints
from ctc_align.corpus.state.journal_lines import FAILED, line_key
from ctc_align.corpus.state.outcomes import Outcomes
from ctc_align.corpus.utterance import Refused, Utterance
from ctc_align.errors import AudioError

_WINDOWS_AHEAD = 1
_READERS = 8
"""Threads that read headers."""
_TICK_S = 0.2


@dataclass(frozen=True)
class PlanOptions:
    """How utterances are put together, and which are done again: those that failed, or `everything`."""

    batch_seconds: float
    retry_failed: bool = False
    everything: bool = False


@dataclass
class PlannedItem:
    """An item and the status that an earlier run left it with; `length_s` is None where it was not needed so far."""

    item: Item
    fingerprint: int = 0
    status: str | None = None
    length_s: float | None = None


class Planner:
    """Reads the source ahead in a thread of its own, window by window."""

    def __init__(self, items: Iterable[Item], options: PlanOptions, outcomes: Outcomes, prints: Fingerprints) -> None:
        self._items = items
        self._options = options
        self._outcomes = outcomes
        self._prints = prints
        self._queue: queue.Queue[list[PlannedItem] | BaseException | None] = queue.Queue(_WINDOWS_AHEAD)
        self._ended = False
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Planner:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._abandoned.set()
        self._thread.join(timeout=1.0)

    @property
    def is_over(self) -> bool:
        return self._ended

    def has_window(self) -> bool:
        return not self._ended and not self._queue.empty()

    def window(self) -> list[PlannedItem]:
        """Return the next window, [] at the end of the source; raise what went wrong in reading it."""
        window = self._queue.get()
        if window is None:
            self._ended = True
            return []
        if isinstance(window, BaseException):
            raise window
        return window

    def _read(self) -> None:
        try:
            with ThreadPoolExecutor(_READERS) as readers:
                for window in windows(self._items):
                    self._put(self._planned(window, readers))
                self._put(None)
        except _Abandoned:
            pass
        except BaseException as error:
            with contextlib.suppress(_Abandoned):
                self._put(error)

    def _put(self, window: list[PlannedItem] | BaseException | None) -> None:
        while not self._abandoned.is_set():
            try:
                self._queue.put(window, timeout=_TICK_S)
                return
            except queue.Full:
                continue
        raise _Abandoned

    def _planned(self, window: list[Item], readers: ThreadPoolExecutor) -> list[PlannedItem]:
        window_planned = list(self._with_status(window))
        spoken = [planned for planned in window_planned if isinstance(planned.item.entry, Utterance)]
        if any(planned.status is None for planned in spoken):
            for planned, length_s in zip(spoken, readers.map(_length_of_planned, spoken)):
                planned.length_s = length_s
        return window_planned

    def _with_status(self, window: list[Item]) -> Iterator[PlannedItem]:
        options = self._options
        for item in window:
            if isinstance(item.entry, Refused):
                yield PlannedItem(item)
                continue
            fingerprint = self._prints.of(item.entry, item.group)
            known = None if options.everything else self._outcomes.find(line_key(item.entry.id))
            status = known[0] if known is not None and known[1] == fingerprint else None
            if status == FAILED and options.retry_failed:
                status = None
            yield PlannedItem(item, fingerprint, status)


def _length_of_planned(planned: PlannedItem) -> float:
    assert isinstance(planned.item.entry, Utterance)
    return length_of(planned.item.entry)


class _Abandoned(Exception):
    """The engine has ended before the source."""


def length_of(utterance: Utterance) -> float:
    """Return the length of an utterance in seconds: the source's, else the recording's, about; 0 where it has none.

    Of log-probs it is estimated.
    """
    if utterance.duration_s is not None:
        return utterance.duration_s
    from ctc_align.audio.loading import estimated_duration_s
    from ctc_align.models.log_probs import estimated_seconds, is_log_probs_path

    try:
        if is_log_probs_path(utterance.audio):
            return max(0.0, estimated_seconds(utterance.audio) - utterance.offset_s)
        return max(0.0, estimated_duration_s(utterance.audio) - utterance.offset_s)
    except (AudioError, OSError, ValueError):  # the worker that reads it reports what is wrong
        return 0.0
