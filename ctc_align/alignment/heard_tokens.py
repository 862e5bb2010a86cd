"""The labels of greedy decoding, and how well each token of a text fits in their place.

A search compares a text with what a model hears without it, tokens with tokens: there are a tenth as many as frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

FAINT_NATS = 1.0
"""A label is heard where it is no less likely than the blank by more than so many nats."""
WORST_NATS, BEST_NATS = -4.0, 5.0
"""Limits of the log-odds of a token: greedy decoding errs in one label of five, and more in noise."""
PIECE_FRAMES = 2**16
"""Frames that are looked at together: their copies are all that long recordings take beyond the labels."""
LEAST_SHARE = 1e-4
"""The least mean probability of a class over all labels."""


@dataclass(frozen=True)
class HeardTokens:
    """The H labels that a model hears, in order of time.

    Attributes:
        ids: (H,) int64, classes of the vocabulary.
        frames: (H,) int64, where each is likeliest.
        log_probs: (T, C), natural log, of the recording.
        background: (C,) float32, log of the mean probability of each class over all labels.
    """

    ids: np.ndarray
    frames: np.ndarray
    log_probs: torch.Tensor
    background: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def odds(self, classes: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return (N, last - first) float32: log-odds in nats of N classes at the labels from `first` to `last`.

        They are those of the class there, in the likeliest of three frames, against any label, from `WORST_NATS` to
        `BEST_NATS`.
        """
        best = _best_of_three(self.log_probs, self.frames[first:last])
        own = best[:, torch.from_numpy(classes).to(best.device)].T.cpu().numpy()
        return np.clip(own - self.background[classes][:, None], WORST_NATS, BEST_NATS)

    def odds_at(self, classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return (N,) float32: log-odds of N classes at as many labels, each at its own."""
        found = [np.zeros(0, np.float32)]
        for low in range(0, len(classes), PIECE_FRAMES):
            own, at = classes[low : low + PIECE_FRAMES], labels[low : low + PIECE_FRAMES]
            best = _best_of_three(self.log_probs, self.frames[at])
            rows = torch.from_numpy(own).to(best.device)[:, None]
            found.append(best.gather(1, rows)[:, 0].cpu().numpy() - self.background[own])
        return np.clip(np.concatenate(found), WORST_NATS, BEST_NATS)

    def only(self, places: np.ndarray) -> HeardTokens:
        """Return some of the labels, by their places."""
        return HeardTokens(self.ids[places], self.frames[places], self.log_probs, self.background)


def hear(log_probs: torch.Tensor, blank: int, without: Sequence[int] = ()) -> HeardTokens:
    """Return the labels that a model hears, runs of equal ones as one.

    Args:
        log_probs: (T, C), natural log.
        blank: the class of the blank.
        without: classes that are no sounds: a separator of words, a star.
    """
    ids, frames, best = _labelled_frames(log_probs, blank, list(without))
    begins = np.flatnonzero((np.diff(ids, prepend=-1) != 0) | (np.diff(frames, prepend=-2) > 1))
    owner = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(ids))))
    peaks = np.maximum.reduceat(best, begins) if len(begins) else best
    at_peak = np.flatnonzero(best == peaks[owner])
    _, firsts = np.unique(owner[at_peak], return_index=True)
    centres = frames[at_peak[firsts]]
    total = torch.zeros(log_probs.shape[1], dtype=torch.float64)
    for low in range(0, len(centres), PIECE_FRAMES):
        total += _best_of_three(log_probs, centres[low : low + PIECE_FRAMES]).exp().double().sum(0).cpu()
    mean = total.numpy() / max(len(centres), 1)
    return HeardTokens(ids[begins], centres, log_probs, np.log(np.maximum(mean, LEAST_SHARE)).astype(np.float32))


def _labelled_frames(
    log_probs: torch.Tensor, blank: int, without: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the classes, frames and log-probs of the frames where a label is heard."""
    ids, frames, best = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for low in range(0, len(log_probs), PIECE_FRAMES):
        piece = log_probs[low : low + PIECE_FRAMES].float()
        silent = piece[:, [blank, *without]].amax(1)
        labels = piece.index_fill(1, torch.tensor([blank, *without], device=piece.device), float("-inf"))
        top, label = labels.max(1)
        heard = (top >= silent - FAINT_NATS).cpu().numpy()
        ids.append(label.cpu().numpy()[heard])
        frames.append(low + np.flatnonzero(heard))
        best.append(top.cpu().numpy()[heard])
    return np.concatenate(ids), np.concatenate(frames), np.concatenate(best)


def _best_of_three(log_probs: torch.Tensor, centres: np.ndarray) -> torch.Tensor:
    """Return (N, C) the highest log-probs of each class in three frames around each of N."""
    last = len(log_probs) - 1
    near = np.clip(centres + np.array([[-1], [0], [1]]), 0, last)
    rows = log_probs[torch.from_numpy(near).to(log_probs.device)].float()
    return (rows - rows.logsumexp(2, keepdim=True)).amax(0)
