"""The source read ahead, by a thread: what the journals say of each utterance, and lengths where they are needed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ctc_align.corpus.engine.batch_plan import Item, windows
from ctc_align.corpus.state.fingerprint import Fingerprints
from ctc_align.corpus.state.journal import FAILED, Outcomes, line_key
from ctc_align.corpus.utterance import Refused, Utterance
from ctc_align.errors import AudioError

_WINDOWS_AHEAD = 1
_READERS = 8
"""Threads that read headers."""
_TICK_S = 0.2


@dataclass(frozen=True)
class Policy:
    """What is done of what was done before."""

    batch_seconds: float
    retry_failed: bool = False
    everything: bool = False


@dataclass
class Seen:
    """An item of a window and what the journals say of it; `length_s` None where nobody has looked yet."""

    item: Item
    fingerprint: int = 0
    stands: str | None = None
    length_s: float | None = None


class Planner:
    """A thread that reads the source ahead: what the journals say of each item, and lengths where they are needed."""

    def __init__(self, items: Iterable[Item], policy: Policy, outcomes: Outcomes, prints: Fingerprints) -> None:
        self._items = items
        self._policy = policy
        self._outcomes = outcomes
        self._prints = prints
        self._queue: queue.Queue[list[Seen] | BaseException | None] = queue.Queue(_WINDOWS_AHEAD)
        self._ended = False
        self._given_up = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Planner:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._given_up.set()
        self._thread.join(timeout=1.0)

    @property
    def is_over(self) -> bool:
        return self._ended

    def has_window(self) -> bool:
        return not self._ended and not self._queue.empty()

    def window(self) -> list[Seen]:
        """The next window, [] at the end of the source. What went wrong in reading is raised here."""
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
                    self._put(self._look(window, readers))
                self._put(None)
        except _GivenUp:
            pass
        except BaseException as error:
            self._put_last(error)

    def _put(self, window: list[Seen] | None) -> None:
        while True:
            if self._given_up.is_set():
                raise _GivenUp
            try:
                self._queue.put(window, timeout=_TICK_S)
                return
            except queue.Full:
                continue

    def _put_last(self, error: BaseException) -> None:
        while not self._given_up.is_set():
            try:
                self._queue.put(error, timeout=_TICK_S)
                return
            except queue.Full:
                continue

    def _look(self, window: list[Item], readers: ThreadPoolExecutor) -> list[Seen]:
        found = list(self._known(window))
        spoken = [seen for seen in found if isinstance(seen.item.what, Utterance)]
        if any(seen.stands is None for seen in spoken):
            for seen, length_s in zip(spoken, readers.map(_length_of_seen, spoken)):
                seen.length_s = length_s
        return found

    def _known(self, window: list[Item]) -> Iterator[Seen]:
        policy = self._policy
        for item in window:
            if isinstance(item.what, Refused):
                yield Seen(item)
                continue
            fingerprint = self._prints.of(item.what, item.group)
            known = None if policy.everything else self._outcomes.find(line_key(item.what.id))
            stands = known[0] if known is not None and known[1] == fingerprint else None
            if stands == FAILED and policy.retry_failed:
                stands = None
            yield Seen(item, fingerprint, stands)


def _length_of_seen(seen: Seen) -> float:
    assert isinstance(seen.item.what, Utterance)
    return length_of(seen.item.what)


class _GivenUp(Exception):
    """The engine has ended before the source."""


def length_of(utterance: Utterance) -> float:
    """How long an utterance is, in seconds: as the source says, else the audio's header; 0 where nobody knows.

    Of log-probs it is estimated.
    """
    if utterance.duration_s is not None:
        return utterance.duration_s
    from ctc_align.audio.loading import header_duration_s
    from ctc_align.models.log_probs import estimated_seconds, is_log_probs_path

    try:
        if is_log_probs_path(utterance.audio):
            return max(0.0, estimated_seconds(utterance.audio) - utterance.offset_s)
        return max(0.0, header_duration_s(utterance.audio) - utterance.offset_s)
    except (AudioError, OSError, ValueError):  # the worker that reads it says what is wrong
        return 0.0
