"""Long recordings in chunks: which frames come from which chunk, and how much each sees beyond them.

A chunk goes through the network with `context` frames more on both sides, whose outputs are dropped; what is left is
laid side by side on the frame grid. Where a network sees no further than its context, the result is that of one pass.
Networks with attention over the whole utterance see less than they would: what that changes fades with the context.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chunk:
    """Frames `first` to `last` of the recording, made from frames `begin` to `end` (ends exclusive)."""

    begin: int
    first: int
    last: int
    end: int


def plan(frames: int, chunk_frames: int, context_frames: int, together: int = 1) -> list[Chunk]:
    """Chunks of at most `chunk_frames` frames, about equally long, that cover `frames` frames in order.

    Args:
        frames: of the recording.
        chunk_frames: the longest that a chunk may be; rounded up to whole multiples of `together`.
        context_frames: what a chunk sees beyond itself on either side; rounded up as well.
        together: frames that the network takes as one: chunks begin at multiples of it.

    >>> plan(10, 5, 1)
    [Chunk(begin=0, first=0, last=5, end=6), Chunk(begin=4, first=5, last=10, end=10)]
    >>> plan(10, 20, 5)
    [Chunk(begin=0, first=0, last=10, end=10)]
    """
    most = _rounded_up(max(1, chunk_frames), together)
    context = _rounded_up(max(0, context_frames), together)
    count = max(1, -(-frames // most))
    each = min(most, _rounded_up(max(1, -(-frames // count)), together))
    return [
        Chunk(max(0, first - context), first, min(frames, first + each), min(frames, first + each + context))
        for first in range(0, max(1, frames), each)
    ]


def _rounded_up(number: int, together: int) -> int:
    return -(-number // together) * together
