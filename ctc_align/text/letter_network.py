"""The letter-to-phone network, and the beam search over its output.

It maps letters to CTC probabilities of phones.

Every block has attention over the whole word and a convolution over each letter's neighbours. The
last layer makes `SPREAD` output frames for each letter, so that a letter can have several phones
("x" is K S). All words of a batch have the same length, so there is no padding and no mask.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctc_align.text.phone_sets import ARPABET_PHONES

EDGE = 0
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
LABELS: tuple[str, ...] = ("<blank>", *ARPABET_PHONES)
SPREAD = 2
MAX_LETTERS = 46
_NORM_EPSILON = 1e-5
_ERF = (0.3275911, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: the error is below 1.5e-7."""
_BEAM_PREFIXES = 8
_LEAST_PROBABILITY = 0.01  # of a class at a frame; the likeliest class is always followed

_LETTER_ID = {letter: index + 1 for index, letter in enumerate(LETTERS)}


def encode(words: Sequence[str]) -> np.ndarray:
    """Return the ids of the letters of words of equal length.

    (B, letters + 2) int64, with an edge mark on both sides.

    >>> encode(["ab"]).tolist()
    [[0, 1, 2, 0]]
    """
    return np.array(
        [[EDGE, *(_LETTER_ID[letter] for letter in word), EDGE] for word in words], np.int64
    )


@dataclass(frozen=True)
class LetterNetworkShape:
    """Sizes of the network."""

    channels: int = 160
    blocks: int = 4
    heads: int = 4
    dropout: float = 0.1


class LetterNetwork:
    """The network from letters to CTC probabilities of phones.

    Letter ids (B, N) become probabilities (B, SPREAD * N, 40), class 0 the blank.
    `research/g2p_training.py` trains it.
    """

    def __init__(self, shape: LetterNetworkShape, weights: Mapping[str, np.ndarray]) -> None:
        self.shape = shape
        self.weights = weights

    def __call__(self, letters: np.ndarray) -> np.ndarray:
        batch, length = letters.shape
        position = self.weights["from_start"][:length] + self.weights["from_end"][:length][::-1]
        x = self.weights["letters.weight"][letters] + position
        for block in range(self.shape.blocks):
            x = self._block(f"blocks.{block}.", x)
        x = self._normalised("norm", self._mapped("spread", x).reshape(batch, SPREAD * length, -1))
        x = x + _gelu(self._mapped("refine", _neighbours(x)))
        return _softmax(self._mapped("output", x))

    def _block(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return x after a block of attention and convolution.

        Attention over the word, then two layers over each letter and its neighbours, are both added
        to x.
        """
        batch, length, d = x.shape
        heads = self._mapped(name + "project", self._normalised(name + "norm_attention", x))
        size = d // self.shape.heads
        query, key, value = heads.reshape(batch, length, 3, self.shape.heads, size).transpose(
            2, 0, 3, 1, 4
        )
        weights = _softmax(query @ key.swapaxes(2, 3) * np.float32(size**-0.5))
        x = x + self._mapped(
            name + "merge", (weights @ value).swapaxes(1, 2).reshape(batch, length, d)
        )
        near = _neighbours(self._normalised(name + "norm_convolution", x))
        return np.asarray(
            x + self._mapped(name + "narrow", _gelu(self._mapped(name + "wide", near)))
        )

    def _mapped(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return a linear map of the last axis."""
        weight = self.weights[f"{name}.weight"]
        y = x.reshape(-1, x.shape[-1]) @ weight.T
        y += self.weights[f"{name}.bias"]
        return y.reshape(*x.shape[:-1], -1)

    def _normalised(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return x normalized over the last axis to mean 0 and variance 1.

        It is then scaled by a factor and shifted by a constant.
        """
        x = x - x.mean(-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(_NORM_EPSILON))
        return np.asarray(x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])


def _neighbours(x: np.ndarray) -> np.ndarray:
    """Return each row with the rows before and after it, (B, N, D) -> (B, N, 3 D).

    A convolution is then one product.
    """
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)))
    return np.concatenate((padded[:, :-2], x, padded[:, 2:]), 2)


def _gelu(x: np.ndarray) -> np.ndarray:
    """Return x Φ(x) = x (1 + erf(x / √2)) / 2 (Hendrycks and Gimpel 2016)."""
    p, *factors = map(np.float32, _ERF)
    z = np.abs(x) * np.float32(0.5**0.5)
    t = np.float32(1.0) / (np.float32(1.0) + p * z)
    series = np.zeros_like(t)
    for factor in reversed(factors):
        series = (series + factor) * t
    beyond = series * np.exp(-np.square(z))  # 1 - erf(z)
    return np.asarray(np.maximum(x, np.float32(0.0)) - np.float32(0.5) * np.abs(x) * beyond)


def _softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max(-1, keepdims=True))
    x /= x.sum(-1, keepdims=True)
    return x


def read_network(path: Path) -> LetterNetwork:
    """Read the network of a file.

    Weights are float16 safetensors; the sizes are in the metadata.
    """
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        sizes = file.metadata()
        weights = {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118 (not a dict)
    channels, blocks, heads = (int(sizes[name]) for name in ("channels", "blocks", "heads"))
    return LetterNetwork(
        LetterNetworkShape(channels, blocks, heads, float(sizes["dropout"])), weights
    )


def likeliest(probs: np.ndarray, best: int) -> list[tuple[tuple[int, ...], float]]:
    """Return the `best` likeliest label sequences with their probabilities.

    Probabilities are summed over the CTC paths of a sequence; class 0 is the blank.

    Args:
        probs: (T, C) float, rows sum to 1.
        best: how many sequences at most.

    >>> [(labels, round(p, 6)) for labels, p in likeliest(np.array([[0.1, 0.9, 0.0], [0.2, 0.5, 0.3]]), 2)]
    [((1,), 0.68), ((1, 2), 0.27)]
    """
    # For every prefix, the probability of its paths that end in a blank, and of those that end in
    # its last label.
    beam: Mapping[tuple[int, ...], Sequence[float]] = {(): (1.0, 0.0)}
    for frame, row in zip(_likely_classes(probs), probs.tolist()):
        beam = _beam_step(beam, frame, row)
        if len(beam) > _BEAM_PREFIXES:
            beam = dict(sorted(beam.items(), key=lambda item: -sum(item[1]))[:_BEAM_PREFIXES])
    ranked = sorted(
        ((prefix, sum(ends)) for prefix, ends in beam.items()), key=lambda item: (-item[1], item[0])
    )
    return ranked[:best]


def _likely_classes(probs: np.ndarray) -> list[list[int]]:
    """Return for each frame the classes that are likely enough to extend a sequence."""
    worth = probs >= np.minimum(_LEAST_PROBABILITY, probs.max(axis=1, keepdims=True))
    return [np.flatnonzero(frame).tolist() for frame in worth]


def _beam_step(
    beam: Mapping[tuple[int, ...], Sequence[float]], labels: list[int], row: list[float]
) -> Mapping[tuple[int, ...], Sequence[float]]:
    """Return the prefixes of `beam` after a frame with probabilities `row`.

    Each prefix stays as it is, or is extended by one of `labels`.
    """
    grown: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for prefix, (in_blank, in_label) in beam.items():
        for label in labels:
            reach = (in_blank + in_label) * row[label]
            if label == 0:
                grown[prefix][0] += reach
                continue
            if prefix[-1:] == (label,):
                grown[prefix][1] += in_label * row[label]
                reach = in_blank * row[label]
            if reach:
                grown[(*prefix, label)][1] += reach
    return grown
