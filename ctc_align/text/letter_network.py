"""The letter-to-phone network, from letters to CTC log-probs over phones, and the beam search over its output.

Every block has attention over the whole word and a convolution over each letter's neighbours. The last layer makes
`SPREAD` output frames for each letter, so that a letter can have several phones ("x" is K S). All words of a batch have
the same length, so there is no padding and no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import nn
from torch.nn import functional

from ctc_align.text.phone_sets import ARPABET_PHONES

EDGE = 0
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
LABELS: tuple[str, ...] = ("<blank>", *ARPABET_PHONES)
SPREAD = 2
MAX_LETTERS = 46
_POSITIONS = MAX_LETTERS + 2
_BEAM_PREFIXES = 8
_LEAST_PROBABILITY = 0.01  # of a class at a frame; the likeliest class is always followed

_LETTER_ID = {letter: index + 1 for index, letter in enumerate(LETTERS)}


def encode(words: Sequence[str]) -> torch.Tensor:
    """Return letter ids (B, letters + 2) int64 of words of equal length, with an edge mark on both sides.

    >>> encode(["ab"]).tolist()
    [[0, 1, 2, 0]]
    """
    return torch.tensor([[EDGE, *(_LETTER_ID[letter] for letter in word), EDGE] for word in words])


@dataclass(frozen=True)
class LetterNetworkShape:
    """Sizes of the network."""

    channels: int = 160
    blocks: int = 4
    heads: int = 4
    dropout: float = 0.1


class _WordDropout(nn.Module):
    """Dropout of a channel in a whole word at once, with a mask (B, 1, D)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        return x * functional.dropout(torch.ones_like(x[:, :1]), self.share)


class _LetterBlock(nn.Module):
    """Attention over the word, then two layers over each letter and its neighbours; both added to the input."""

    def __init__(self, shape: LetterNetworkShape) -> None:
        super().__init__()
        d = shape.channels
        self.heads = shape.heads
        self.norm_attention = nn.LayerNorm(d)
        self.project = nn.Linear(d, 3 * d)
        self.merge = nn.Linear(d, d)
        self.norm_convolution = nn.LayerNorm(d)
        self.wide = nn.Linear(3 * d, 2 * d)
        self.narrow = nn.Linear(2 * d, d)
        self.dropout = _WordDropout(shape.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, d = x.shape
        heads = self.project(self.norm_attention(x)).view(batch, length, 3, self.heads, d // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        # torch's fused attention is several times slower for rows as short as words.
        weights = (query @ key.transpose(2, 3) * (d // self.heads) ** -0.5).softmax(dim=3)
        mixed = (weights.to(value.dtype) @ value).transpose(1, 2).reshape(batch, length, d)
        x = x + self.dropout(self.merge(mixed))
        return x + self.dropout(self.narrow(functional.gelu(self.wide(_neighbours(self.norm_convolution(x))))))


def _neighbours(x: torch.Tensor) -> torch.Tensor:
    """Return each row with the rows before and after it, (B, N, D) -> (B, N, 3 D), for a convolution as one product."""
    padded = functional.pad(x, (0, 0, 1, 1))
    return torch.cat((padded[:, :-2], x, padded[:, 2:]), dim=2)


class LetterNetwork(nn.Module):
    """Letter ids (B, N) to log-probs (B, SPREAD * N, 40), class 0 the blank."""

    def __init__(self, shape: LetterNetworkShape) -> None:
        super().__init__()
        self.shape = shape
        d = shape.channels
        self.letters = nn.Embedding(len(LETTERS) + 1, d)
        self.from_start = nn.Parameter(torch.randn(_POSITIONS, d) * 0.1)
        self.from_end = nn.Parameter(torch.randn(_POSITIONS, d) * 0.1)
        self.dropout = _WordDropout(shape.dropout)
        self.blocks = nn.ModuleList(_LetterBlock(shape) for _ in range(shape.blocks))
        self.spread = nn.Linear(d, SPREAD * d)
        self.norm = nn.LayerNorm(d)
        self.refine = nn.Linear(3 * d, d)
        self.output = nn.Linear(d, len(LABELS))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        batch, length = letters.shape
        position = self.from_start[:length] + self.from_end[:length].flip(0)
        x = self.dropout(self.letters(letters) + position)
        for block in self.blocks:
            x = block(x)
        x = self.norm(self.spread(x).view(batch, SPREAD * length, -1))
        x = x + functional.gelu(self.refine(_neighbours(x)))
        return self.output(x).float().log_softmax(dim=2)


def write_network(network: LetterNetwork, path: Path) -> None:
    """Write the weights as float16 safetensors, with the sizes in the metadata."""
    weights = {name: tensor.detach().to(torch.float16).contiguous() for name, tensor in network.state_dict().items()}
    metadata = {key: str(value) for key, value in asdict(network.shape).items()}
    path.write_bytes(save(weights, metadata=metadata))


def read_network(path: Path) -> LetterNetwork:
    """Read a network of `write_network` for inference in float32 on the CPU."""
    with safe_open(path, framework="pt") as file:
        sizes = file.metadata()
        weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 (not a dict)
    shape = LetterNetworkShape(
        int(sizes["channels"]), int(sizes["blocks"]), int(sizes["heads"]), float(sizes["dropout"])
    )
    network = LetterNetwork(shape)
    network.load_state_dict(weights)
    return network.eval()


def likeliest(probs: np.ndarray, best: int) -> list[tuple[tuple[int, ...], float]]:
    """Return the `best` likeliest label sequences with their probabilities, summed over their CTC paths (blank 0).

    Args:
        probs: (T, C) float, rows sum to 1.
        best: how many sequences at most.

    >>> [(labels, round(p, 6)) for labels, p in likeliest(np.array([[0.1, 0.9, 0.0], [0.2, 0.5, 0.3]]), 2)]
    [((1,), 0.68), ((1, 2), 0.27)]
    """
    # For every prefix, the probability of its paths that end in a blank, and of those that end in its last label.
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    for frame, row in zip(_likely_classes(probs), probs.tolist()):
        beam = _beam_step(beam, frame, row)
        if len(beam) > _BEAM_PREFIXES:
            beam = dict(sorted(beam.items(), key=lambda item: -sum(item[1]))[:_BEAM_PREFIXES])
    ranked = sorted(((prefix, sum(ends)) for prefix, ends in beam.items()), key=lambda item: (-item[1], item[0]))
    return ranked[:best]


def _likely_classes(probs: np.ndarray) -> list[list[int]]:
    """Return for each frame the classes that are likely enough to extend a sequence."""
    worth = probs >= np.minimum(_LEAST_PROBABILITY, probs.max(axis=1, keepdims=True))
    frames: list[list[int]] = [[] for _ in range(len(probs))]
    for frame, label in zip(*(index.tolist() for index in worth.nonzero())):
        frames[frame].append(label)
    return frames


def _beam_step(
    beam: dict[tuple[int, ...], tuple[float, float]], labels: list[int], row: list[float]
) -> dict[tuple[int, ...], tuple[float, float]]:
    """Return the prefixes of `beam`, and these extended by one of `labels`, after a frame with probabilities `row`."""
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
