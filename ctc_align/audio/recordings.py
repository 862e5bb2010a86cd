"""`Recording`, the one interface of all readers of recordings, and what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager

import numpy as np

from ctc_align.units import samples_to_seconds

BLOCK_SAMPLES = 65536
MISSING_S = 0.1
"""Headers are often off by an encoder's delay; a file that lacks more than this was cut."""


class Recording(AbstractContextManager["Recording"]):
    """A recording that is open: blocks of samples at its rate and with its channels.

    `samples` is its length, None while that is not known.
    """

    name: str
    rate: int
    channels: int
    samples: int | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if one is open."""

    def mixed_channels(self) -> list[int]:
        """Return the channels, from 0, that are averaged if none is chosen."""
        return list(range(self.channels))

    @abstractmethod
    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        """Yield blocks (n, channels) float32 from sample `first` on, at most `most` samples in all."""

    def faults(self, first: int, most: int | None, received: int) -> list[str]:
        """Return what is wrong with the file as sentences, after `received` samples of a part were read."""
        return []

    def length_s(self) -> float:
        """Return the exact length in seconds; a recording whose header does not say is decoded to its end."""
        samples = sum(map(len, self.read(0, None))) if self.samples is None else self.samples
        return samples_to_seconds(samples, self.rate)

    def estimated_s(self) -> float:
        """Return the length in seconds, right to a few hundredths."""
        return self.length_s()


def no_such_channel(channel: int, channels: int) -> str:
    """Return what to say of a channel, from 1, that a recording does not have."""
    there = "1 channel" if channels == 1 else f"{channels} channels (1 is the left one, 2 the right one)"
    return f"expected channel {channel}, got a recording of {there}; --channel mix averages all channels"


def lies_behind(unread_s: float) -> str:
    """Return a sentence on a WAV file that has audio after its end."""
    return (
        f"{unread_s:.2f} s of audio after the end given in the header are ignored: the header is wrong, or another "
        "file was appended; repair or join it with an audio editor"
    )


def ends_early(missing_s: float, used_s: float) -> list[str]:
    """Return a sentence on a file that lacks `missing_s` of what its header says, [] if that is a delay."""
    if missing_s <= MISSING_S:
        return []
    used = f"the first {used_s:.2f} s are used"
    return [f"the file ends {missing_s:.2f} s before its header says: it is cut or damaged; {used}"]


def within(blocks: Iterator[np.ndarray], first: int, most: int | None) -> Iterator[np.ndarray]:
    """Yield what blocks that begin at sample 0 hold from sample `first` on, at most `most` samples."""
    at, end = 0, None if most is None else first + most
    for block in blocks:
        low = max(0, first - at)
        high = len(block) if end is None else min(len(block), end - at)
        if low < high:
            yield block[low:high]
        at += len(block)
        if end is not None and at >= end:
            return
