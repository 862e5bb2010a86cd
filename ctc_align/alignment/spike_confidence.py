"""How sure the model is of each token, from its own log-probs at the token's spike. Not calibrated yet: a number that
orders words, not a frequency."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from ctc_align.alignment.ctc_path import Spikes


def token_confidence(log_probs: torch.Tensor, ids: Sequence[int], spikes: Spikes) -> np.ndarray:
    """The highest posterior of each token over the frames of its spike: (L,) in [0, 1].

    Log-probs (T, C) that are not normalised are normalised first.
    """
    owner = np.repeat(np.arange(len(ids)), spikes.last - spikes.first)
    if not len(owner):
        return np.zeros(len(ids))
    start = np.repeat(
        spikes.first - np.concatenate(([0], np.cumsum(spikes.last - spikes.first)[:-1])), spikes.last - spikes.first
    )
    frame = start + np.arange(len(owner))
    rows = log_probs[torch.from_numpy(frame)].float()
    score = rows.gather(1, torch.tensor(np.asarray(ids)[owner])[:, None])[:, 0] - rows.logsumexp(1)
    best = np.full(len(ids), -np.inf)
    np.maximum.at(best, owner, score.numpy().astype(np.float64))
    return np.exp(np.minimum(best, 0.0))


def word_confidence(tokens: Sequence[float]) -> float:
    """Geometric mean of the tokens' confidences.

    >>> round(word_confidence([0.9, 0.4]), 6)
    0.6
    """
    return word_confidences(np.asarray(tokens, np.float64), [0, len(tokens)])[0]


def word_confidences(tokens: np.ndarray, edges: Sequence[int]) -> list[float]:
    """Of each word the geometric mean of its tokens' confidences; word w has the tokens from edges[w] to edges[w + 1].

    >>> word_confidences(np.array([1.0, 0.25, 0.25, 0.0]), [0, 1, 3, 4])
    [1.0, 0.25, 0.0]
    """
    logs = np.log(np.maximum(tokens, 1e-12))
    spans = list(pairwise(edges))
    # Word by word: the sums of ufunc.reduceat are rounded in another order than those of one word alone.
    means = [np.add.reduce(logs[start:end]) / (end - start) for start, end in spans]
    values = tokens.tolist()
    return [mean if min(values[start:end]) > 0 else 0.0 for mean, (start, end) in zip(np.exp(means).tolist(), spans)]
