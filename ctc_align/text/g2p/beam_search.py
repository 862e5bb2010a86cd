"""CTC prefix beam search over a few frames: the likeliest label sequences of one word, with their probabilities."""

from __future__ import annotations

import numpy as np

_BEAM = 8
_LEAST_PROBABILITY = 0.01  # of a class at a frame; the likeliest class is always followed

Sequences = list[tuple[tuple[int, ...], float]]


def likeliest(probs: np.ndarray, best: int) -> Sequences:
    """The `best` likeliest label sequences, summed over their CTC paths (blank 0), the likeliest first.

    Args:
        probs: (T, C) float, rows sum to 1.
        best: how many sequences at most.

    >>> [(labels, round(p, 6)) for labels, p in likeliest(np.array([[0.1, 0.9, 0.0], [0.2, 0.5, 0.3]]), 2)]
    [((1,), 0.68), ((1, 2), 0.27)]
    """
    # For every prefix, the probability of its paths that end in a blank, and of those that end in its last label.
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    for frame, row in zip(_classes(probs), probs.tolist()):
        beam = _step(beam, frame, row)
        if len(beam) > _BEAM:
            beam = dict(sorted(beam.items(), key=lambda item: -sum(item[1]))[:_BEAM])
    found = sorted(((sum(ends), prefix) for prefix, ends in beam.items()), key=lambda item: (-item[0], item[1]))
    return [(prefix, probability) for probability, prefix in found[:best]]


def _classes(probs: np.ndarray) -> list[list[int]]:
    """Classes worth following, frame by frame."""
    worth = probs >= np.minimum(_LEAST_PROBABILITY, probs.max(axis=1, keepdims=True))
    frames: list[list[int]] = [[] for _ in range(len(probs))]
    for frame, label in zip(*(index.tolist() for index in worth.nonzero())):
        frames[frame].append(label)
    return frames


def _step(
    beam: dict[tuple[int, ...], tuple[float, float]], labels: list[int], row: list[float]
) -> dict[tuple[int, ...], tuple[float, float]]:
    grown: dict[tuple[int, ...], tuple[float, float]] = {}
    for prefix, (in_blank, in_label) in beam.items():
        total = in_blank + in_label
        for label in labels:
            p = row[label]
            if label == 0:
                before = grown.get(prefix, (0.0, 0.0))
                grown[prefix] = (before[0] + total * p, before[1])
                continue
            if prefix and prefix[-1] == label:
                before = grown.get(prefix, (0.0, 0.0))
                grown[prefix] = (before[0], before[1] + in_label * p)
                reach = in_blank * p
            else:
                reach = total * p
            if reach:
                longer = (*prefix, label)
                before = grown.get(longer, (0.0, 0.0))
                grown[longer] = (before[0], before[1] + reach)
    return grown
