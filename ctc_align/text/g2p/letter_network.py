"""The letter-to-phone network: letters in, CTC log-probs over phones out, a few per letter, all at once.

Every block looks at the whole word (attention) and at each letter's neighbours (convolution). The last step spreads
each letter over `SPREAD` output frames, so that a letter can stand for several phones ("x" is K S).
Words of one batch have one length, so there is no padding and no mask anywhere.
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

from ctc_align.text.arpabet import PHONES

EDGE = 0
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
LABELS: tuple[str, ...] = ("<blank>", *PHONES)
SPREAD = 2
MAX_LETTERS = 46
_POSITIONS = MAX_LETTERS + 2
_BEAM_PREFIXES = 8
_LEAST_PROBABILITY = 0.01  # of a class at a frame; the likeliest class is always followed

_LETTER_ID = {letter: index + 1 for index, letter in enumerate(LETTERS)}


def encode(words: Sequence[str]) -> torch.Tensor:
    """Letter ids (B, letters + 2) int64 of words of one length, an edge mark on both sides.

    >>> encode(["ab"]).tolist()
    [[0, 1, 2, 0]]
    """
    return torch.tensor([[EDGE, *(_LETTER_ID[letter] for letter in word), EDGE] for word in words])


@dataclass(frozen=True)
class Shape:
    """Sizes of the network."""

    channels: int = 160
    blocks: int = 4
    heads: int = 4
    dropout: float = 0.1


class _WordDropout(nn.Module):
    """Dropout of a channel in a whole word at once, which asks for a mask of (B, 1, D) only."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        return x * functional.dropout(torch.ones_like(x[:, :1]), self.share)


class _Block(nn.Module):
    """Attention over the word, then two layers over each letter and its neighbours; both added to the input."""

    def __init__(self, shape: Shape) -> None:
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
        # Written out: torch's fused attention is several times slower for rows as short as words.
        weights = (query @ key.transpose(2, 3) * (d // self.heads) ** -0.5).softmax(dim=3)
        seen = (weights.to(value.dtype) @ value).transpose(1, 2).reshape(batch, length, d)
        x = x + self.dropout(self.merge(seen))
        return x + self.dropout(self.narrow(functional.gelu(self.wide(_neighbours(self.norm_convolution(x))))))


def _neighbours(x: torch.Tensor) -> torch.Tensor:
    """(B, N, D) -> (B, N, 3 D): each row with the row before and the row after it; a convolution as one product."""
    padded = functional.pad(x, (0, 0, 1, 1))
    return torch.cat((padded[:, :-2], x, padded[:, 2:]), dim=2)


class Network(nn.Module):
    """(B, N) letter ids -> (B, SPREAD * N, 40) log-probs, class 0 the blank."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        d = shape.channels
        self.letters = nn.Embedding(len(LETTERS) + 1, d)
        self.from_start = nn.Parameter(torch.randn(_POSITIONS, d) * 0.1)
        self.from_end = nn.Parameter(torch.randn(_POSITIONS, d) * 0.1)
        self.dropout = _WordDropout(shape.dropout)
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.blocks))
        self.spread = nn.Linear(d, SPREAD * d)
        self.norm = nn.LayerNorm(d)
        self.refine = nn.Linear(3 * d, d)
        self.output = nn.Linear(d, len(LABELS))

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        batch, length = letters.shape
        place = self.from_start[:length] + self.from_end[:length].flip(0)
        x = self.dropout(self.letters(letters) + place)
        for block in self.blocks:
            x = block(x)
        x = self.norm(self.spread(x).view(batch, SPREAD * length, -1))
        x = x + functional.gelu(self.refine(_neighbours(x)))
        return self.output(x).float().log_softmax(dim=2)


def write_network(network: Network, path: Path) -> None:
    """Weights as float16 safetensors; the sizes stand in the metadata."""
    weights = {name: tensor.detach().to(torch.float16).contiguous() for name, tensor in network.state_dict().items()}
    metadata = {key: str(value) for key, value in asdict(network.shape).items()}
    path.write_bytes(save(weights, metadata=metadata))


def read_network(path: Path) -> Network:
    """The network of `write_network`, in float32 on the CPU, ready for inference."""
    with safe_open(path, framework="pt") as file:
        sizes = file.metadata()
        weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 (not a dict)
    shape = Shape(int(sizes["channels"]), int(sizes["blocks"]), int(sizes["heads"]), float(sizes["dropout"]))
    network = Network(shape)
    network.load_state_dict(weights)
    return network.eval()


def likeliest(probs: np.ndarray, best: int) -> list[tuple[tuple[int, ...], float]]:
    """The `best` likeliest label sequences, summed over their CTC paths (blank 0), the likeliest first.

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
    found = sorted(((sum(ends), prefix) for prefix, ends in beam.items()), key=lambda item: (-item[0], item[1]))
    return [(prefix, probability) for probability, prefix in found[:best]]


def _likely_classes(probs: np.ndarray) -> list[list[int]]:
    """Classes worth following, frame by frame."""
    worth = probs >= np.minimum(_LEAST_PROBABILITY, probs.max(axis=1, keepdims=True))
    frames: list[list[int]] = [[] for _ in range(len(probs))]
    for frame, label in zip(*(index.tolist() for index in worth.nonzero())):
        frames[frame].append(label)
    return frames


def _beam_step(
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
