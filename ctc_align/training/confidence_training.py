"""Training of a model's confidence network on recordings and texts that disagree.

    python -m ctc_align.training.confidence_training --model english --speech TRAIN --dev DEV --foreign OTHERS --out DIR

TRAIN and DEV are manifests of transcribed speech in the model's languages, OTHERS one of other languages (of a model
of many languages it may be TRAIN again: a clip is never foreign to its own language). DIR gets
`clips.json` (the words of the clips with their times), `examples/SEED-KIND.npz` (a run that was stopped makes those
that are lacking; runs with other `--seeds` add theirs), and at the end `confidence.safetensors`, for the model's
folder. The limits of `fit` come from DEV.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.confidence import NAMES
from ctc_align.alignment.fit import UNLIKELY
from ctc_align.corpus.sources import open_source
from ctc_align.corpus.utterance import Utterance
from ctc_align.models.confidence_network import ConfidenceNetwork, FitLimits, save_confidence_network
from ctc_align.text.control_characters import printable
from ctc_align.training.confidence_examples import (
    FEWEST_CLIPS,
    WORST_LOSS,
    ClipFile,
    Example,
    Shares,
    Speech,
    examples,
    in_language,
    read_examples,
    timed_clips,
    write_examples,
)
from ctc_align.training.mismatches import KINDS, TimedWord

LATIN = "aeinorst"
"""Letters of which most texts in Latin letters have many."""


@dataclass(frozen=True)
class ConfidenceTraining:
    """How the network is trained.

    Attributes:
        width: channels.
        epochs: passes over all examples.
        batch: examples of similar length that go together.
        learning_rate: the highest.
        right_s: a word is right within so many seconds.
        wrong_s, wrong_weight: words farther off than this count so much more.
        dropout: share of the features of a recording that are hidden while it is learnt from.
        jitter: deviation of noise on normalised features.
        bias: added to the logits at the end: towards confidence where it is above 0.
    """

    width: int = 24
    epochs: int = 30
    batch: int = 12
    learning_rate: float = 4e-3
    right_s: float = 0.2
    wrong_s: float = 0.5
    wrong_weight: float = 3.0
    dropout: float = 0.1
    jitter: float = 0.1
    bias: float = 0.0


def train_network(given: Sequence[Example], settings: ConfidenceTraining, seed: int = 1) -> ConfidenceNetwork:
    """Return a network that has learnt from examples; the same for the same seed, machine and number of threads."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    network = ConfidenceNetwork(NAMES, settings.width)
    every = torch.from_numpy(np.concatenate([each.features for each in given]))
    network.mean.copy_(every.mean(0).half())
    network.deviation.copy_((every.std(0) + 1e-3).half())
    inputs = [network.inputs(each.features) for each in given]
    steps = settings.epochs * -(-len(given) // settings.batch)
    optimizer = torch.optim.AdamW(network.parameters(), settings.learning_rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=steps)
    for epoch in range(settings.epochs):
        losses = []
        for batch in _batches(given, settings.batch, rng):
            loss = _loss(network, [inputs[i] for i in batch], [given[i].off_s for i in batch], settings)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(printable(f"epoch {epoch + 1}: {np.mean(losses):.4f}"), flush=True)
    assert network.output.bias is not None
    with torch.no_grad():
        network.output.bias.add_(settings.bias)
    return network.eval()


def _batches(given: Sequence[Example], size: int, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    by_length = sorted(range(len(given)), key=lambda i: len(given[i].off_s))
    batches = [by_length[first : first + size] for first in range(0, len(by_length), size)]
    yield from (batches[i] for i in rng.permutation(len(batches)))


def _loss(
    network: ConfidenceNetwork,
    inputs: Sequence[torch.Tensor],
    off_s: Sequence[np.ndarray],
    settings: ConfidenceTraining,
) -> torch.Tensor:
    longest = max(each.shape[1] for each in inputs)
    batch = torch.zeros(len(inputs), len(inputs[0]), longest)
    inside = torch.zeros(len(inputs), 1, longest)
    right, weight = torch.zeros(len(inputs), longest), torch.zeros(len(inputs), longest)
    for row, (one, off) in enumerate(zip(inputs, map(torch.from_numpy, off_s))):
        count = one.shape[1]
        batch[row, :, :count], inside[row, :, :count] = one, 1.0
        right[row, :count] = (off <= settings.right_s).float()
        weight[row, :count] = torch.where(off > settings.wrong_s, settings.wrong_weight, 1.0)
    shown = (torch.rand(len(inputs), batch.shape[1], 1) >= settings.dropout).float()
    logits = network((batch + settings.jitter * torch.randn_like(batch)) * shown, inside)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, right, reduction="none")
    return (losses * weight).sum() / weight.sum()


def fit_limits(network: ConfidenceNetwork, clean: Sequence[Example], noisy: Sequence[Example]) -> FitLimits:
    """Return the limits of `fit` from held-out recordings with their own texts.

    A fit is good up to the 99th percentile of the loss of clean speech, and where at least as many words are likely as
    in all but a hundredth of its recordings; it is no more than doubtful up to the 99th percentile in noise.
    """
    losses, in_noise = ([each.loss_per_token for each in some] for some in (clean, noisy))
    shares = [(network.chances(each.features) > UNLIKELY).mean() for each in clean]
    return FitLimits(
        good_loss=round(float(np.quantile(losses, 0.99)), 2),
        doubtful_loss=round(float(np.quantile([*losses, *in_noise], 0.99)), 2),
        good_share=min(round(float(np.quantile(shares, 0.01)), 2), 0.95),
        doubtful_share=0.7,
        none_share=0.1,
    )


def clips_of(aligner: Aligner, manifest: str, most: int, path: Path, worst_loss: float = WORST_LOSS) -> list[ClipFile]:
    """Return the clips of a manifest with the times of their words, kept in a JSON file."""
    if not path.is_file():
        utterances = [row for row in open_source(manifest) if isinstance(row, Utterance)]
        found = timed_clips(aligner, utterances, most, 1, worst_loss)
        rows = [
            (clip.language, clip.speaker, clip.path, [[word.text, *word.places[0]] for word in clip.words])
            for clips in found.values()
            for clip in clips
        ]
        path.write_text(json.dumps(rows), encoding="utf-8", newline="\n")
    return [
        ClipFile(name, tuple(TimedWord(text, ((start, end),)) for text, start, end in words), speaker, language)
        for language, speaker, name, words in json.loads(path.read_text(encoding="utf-8"))
    ]


def speech_by_language(clips: Sequence[ClipFile], foreign: str, part: int) -> dict[str, Speech]:
    """Return what mismatches are made of in each language that has speakers enough.

    Of the recordings and texts in other languages one half is taken, so that parts 0 and 1 share none.
    """
    others = [row for row in open_source(foreign) if isinstance(row, Utterance)][part::2]
    found = {}
    for language in dict.fromkeys(clip.language for clip in clips):
        by_speaker: dict[str, list[ClipFile]] = {}
        for clip in clips:
            if clip.language == language:
                by_speaker.setdefault(clip.speaker, []).append(clip)
        if len(by_speaker) < 2 or all(len(own) < FEWEST_CLIPS for own in by_speaker.values()):
            continue
        rows = [row for row in others if row.language != language or not language]
        latin = [row.text for row in rows if sum(letter in LATIN for letter in row.text) > len(row.text) / 4]
        found[language] = Speech(by_speaker, [row.audio for row in rows], latin)
    return found


def examples_of(
    aligner: Aligner, speech: Mapping[str, Speech], kind: str, cases: int, seed: int, shares: Shares | None = None
) -> list[Example]:
    """Return examples of so many cases of a kind, shared out among the languages."""
    found = []
    for place, (language, own) in enumerate(speech.items()):
        count = cases * (place + 1) // len(speech) - cases * place // len(speech)
        seeds = seed if len(speech) == 1 else 1000 * seed + place
        found += examples(in_language(aligner, language), own, kind, count, seeds, shares)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the training from the command line."""
    parser = argparse.ArgumentParser(description="Train the confidence network of a model.")
    parser.add_argument("--model", default="english")
    for name in ("--speech", "--dev", "--foreign"):
        parser.add_argument(name, required=True, metavar="MANIFEST")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR")
    parser.add_argument("--cases", type=int, default=60, help="cases of each kind and seed")
    parser.add_argument("--clips", type=int, default=28, help="clips of each speaker, at most")
    parser.add_argument("--worst-loss", type=float, default=WORST_LOSS, help="of a clip, in nats per token")
    parser.add_argument("--seeds", default="1,2", metavar="LIST")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="LIST")
    parser.add_argument("--examples-only", action="store_true", help="end when the examples of these seeds are made")
    given = parser.parse_args(arguments)
    (given.out / "examples").mkdir(parents=True, exist_ok=True)
    aligner = Aligner(given.model, device="cpu")
    clips = clips_of(aligner, given.speech, given.clips, given.out / "clips.json", given.worst_loss)
    speech = speech_by_language(clips, given.foreign, 0)
    for seed in given.seeds.split(","):
        for kind in given.kinds.split(","):
            path = given.out / "examples" / f"{seed}-{kind}.npz"
            if not path.is_file():
                write_examples(path, examples_of(aligner, speech, kind, given.cases, int(seed)))
                print(printable(f"made {path}"), flush=True)
    if given.examples_only:
        return 0
    learnt = [each for path in sorted((given.out / "examples").glob("*-*.npz")) for each in read_examples(path)]
    network = train_network(learnt, ConfidenceTraining())
    held_out_clips = clips_of(aligner, given.dev, 1000, given.out / "dev.json", given.worst_loss)
    held_out = speech_by_language(held_out_clips, given.foreign, 1)
    plain = Shares(shortened=0.0, degraded=0.0)
    clean, noisy = (examples_of(aligner, held_out, kind, 200, 1, plain) for kind in ("clean", "speech_in_noise"))
    network.limits = fit_limits(network, clean, noisy)
    save_confidence_network(network, given.out)
    print(printable(f"wrote {given.out}; limits of fit: {network.limits}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
