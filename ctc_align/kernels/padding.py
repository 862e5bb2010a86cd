"""Utterances of different lengths side by side, so that a kernel runs once for many.

Padding is never read by the kernels, so each utterance gets what it gets alone. Those of similar length go together,
and no batch holds more than `VALUES_AT_ONCE` values: a long utterance among short ones costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

VALUES_AT_ONCE = 2**22
"""Of one padded batch, 16 MB of float32; an utterance alone may have more."""


def buckets(rows: Sequence[torch.Tensor]) -> Iterator[list[int]]:
    """Places of the rows (T, C) that go together: of one width and dtype, and similar lengths.

    >>> list(buckets([torch.zeros(3, 2), torch.zeros(1, 2), torch.zeros(3, 5)]))
    [[1, 0], [2]]
    """
    kinds: dict[tuple[int, torch.dtype], list[int]] = {}
    for place, row in enumerate(rows):
        kinds.setdefault((row.shape[1], row.dtype), []).append(place)
    for (width, _), places in kinds.items():
        bucket: list[int] = []
        for place in sorted(places, key=lambda place: len(rows[place])):
            if bucket and (len(bucket) + 1) * len(rows[place]) * width > VALUES_AT_ONCE:
                yield bucket
                bucket = []
            bucket.append(place)
        yield bucket


def pad(rows: Sequence[torch.Tensor]) -> tuple[torch.Tensor, list[int]]:
    """Rows (T, C) as one batch (B, the longest T, C), and their lengths; one alone is not copied."""
    lengths = [len(row) for row in rows]
    if len(rows) == 1:
        return rows[0][None], lengths
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True), lengths
