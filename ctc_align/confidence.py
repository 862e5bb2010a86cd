"""How sure the model is of each token, from its own log-probs at the token's spike. Not calibrated yet: a number that
orders words, not a frequency."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ctc_align.ctc_path import Spikes


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
    values = np.asarray(tokens, np.float64)
    return float(np.exp(np.log(np.maximum(values, 1e-12)).mean())) if values.min() > 0 else 0.0
