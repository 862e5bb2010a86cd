"""Training of a model's confidence network on recordings and texts that disagree.

    python research/confidence_training.py --model english --speech TRAIN --dev DEV --foreign OTHERS
    --out DIR

TRAIN and DEV are manifests of transcribed speech in the model's languages, OTHERS one of other
languages (of a model
of many languages it may be TRAIN again: a clip is never foreign to its own language). DIR gets
`clips.json` (the words of the clips with their times), `examples/SEED-KIND.npz` (a run that was
stopped makes those that are lacking; runs with other `--seeds` add theirs), and at the end
`confidence.safetensors`, for the model's folder. The limits of `fit` come from DEV.

With `--any-model`, MODEL may be several models, separated by commas, and the network is that of
every other model: it sees the log-probs alone, which are varied, and the words that are found in
them. The times of the clips are those of the first of the models.

An example is a mismatch: the features of its words, and how far off each word is. The words of a
clip have the times
of the clip's alignment with its own text, which are some hundredths of a second from a person's
labels; confidence has to tell errors of a fifth of a second and more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from ctc_align.alignment import confidence
from ctc_align.alignment.align_utterance import choose_tokens, place_tokens
from ctc_align.alignment.aligner import Aligner, read_inputs
from ctc_align.alignment.confidence import (
    EMISSION_NAMES,
    NAMES,
    sound_fits,
    spike_confidence,
    word_begins,
    word_features,
)
from ctc_align.alignment.fit import UNLIKELY
from ctc_align.audio.loading import load_audio
from ctc_align.errors import CtcAlignError, TooShortError
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.models.confidence_network import (
    DILATIONS,
    ConfidenceNetwork,
    FitLimits,
    inputs_of,
    save_confidence_network,
)
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Utterance
from ctc_align.text.characters import printable
from ctc_align.types import AlignedWord, Alignment, Emissions
from mismatches import (
    KINDS,
    RATE,
    Clip,
    Mismatch,
    MismatchMaterial,
    TimedWord,
    degraded,
    make,
    shortened,
)

MOST_CLIPS = 18
"""Most clips of a recording."""
FEWEST_CLIPS = 5
"""Speakers with fewer clips are only used as the other speakers of a case."""
WORST_LOSS = 2.2
"""Clips with more loss per token are left out: their own text may be wrong."""
AT_ONCE = 32
SHORTEST_SAMPLES = RATE // 4


@dataclass(frozen=True)
class ClipFile:
    """A clip on disk; `words` with their times in it; `language`, a code, "" where the corpus names
    none."""

    path: str
    words: tuple[TimedWord, ...]
    speaker: str
    language: str = ""

    def read(self) -> Clip:
        return Clip(_samples(self.path), self.words, self.speaker)


@dataclass(frozen=True)
class Speech:
    """The speech that mismatches are made of, recordings and texts of other languages, and music.

    Attributes:
        clips: by speaker, in their order on disk.
        foreign: paths of recordings in other languages.
        foreign_texts: texts of other languages in Latin letters.
        music: recordings (N,) float32 of music; without any, music is made by rules.
    """

    clips: Mapping[str, Sequence[ClipFile]]
    foreign: Sequence[str]
    foreign_texts: Sequence[str]
    music: Sequence[np.ndarray] = ()

    def material(self, rng: np.random.Generator) -> MismatchMaterial:
        """Return some clips of one speaker in a row, from one to `MOST_CLIPS`, and others to go
        with them."""
        speakers = [speaker for speaker, clips in self.clips.items() if len(clips) >= FEWEST_CLIPS]
        speaker = speakers[int(rng.integers(len(speakers)))]
        own = self.clips[speaker]
        count = min(len(own), round(float(np.exp(rng.uniform(0, np.log(MOST_CLIPS))))))
        first = int(rng.integers(0, len(own) - count + 1))
        others = [other for other in self.clips if other != speaker]
        return MismatchMaterial(
            [clip.read() for clip in own[first : first + count]],
            [_any(self.clips[others[i]], rng).read() for i in rng.integers(0, len(others), 6)],
            [_samples(self.foreign[i]) for i in rng.integers(0, len(self.foreign), 8)],
            self.foreign_texts,
            self.music if rng.random() < 0.7 else (),
        )


@dataclass(frozen=True)
class Example:
    """A mismatch as a network sees it.

    Attributes:
        case: its kind, severity, speaker; without its samples.
        features: (W, F) of the words that have tokens.
        off_s: (W,) how far the farther edge of each is from where it is spoken; infinite where that
            is nowhere.
        loss_per_token: of the alignment.
    """

    case: Mismatch
    features: np.ndarray
    off_s: np.ndarray
    loss_per_token: float


@dataclass
class Shares:
    """Shares of cases that are shortened to a few words, and recorded worse."""

    shortened: float = 0.12
    degraded: float = 0.35


@lru_cache(maxsize=2000)
def _samples(path: str) -> np.ndarray:
    return load_audio(path, RATE).samples


def _any(clips: Sequence[ClipFile], rng: np.random.Generator) -> ClipFile:
    return clips[int(rng.integers(len(clips)))]


def in_language(aligner: Aligner, language: str) -> Aligner:
    """Return the aligner for transcripts in a language, "": as it is."""
    return (
        aligner.with_settings(replace(aligner.settings, language=language)) if language else aligner
    )


def timed_clips(
    aligner: Aligner,
    rows: Iterable[Utterance],
    most: int,
    seed: int,
    worst_loss: float = WORST_LOSS,
) -> dict[tuple[str, str], list[ClipFile]]:
    """Return clips by language and speaker, at most `most` of each in a row, timed by their own
    alignment.

    Args:
        aligner: with the model.
        rows: the utterances, each a recording of its own.
        most: clips of a speaker.
        seed: which part of a speaker's clips is taken.
        worst_loss: nats per token; clips with more are left out.
    """
    rng = np.random.default_rng(seed)
    by_speaker: dict[tuple[str, str], list[Utterance]] = {}
    for row in rows:
        by_speaker.setdefault((row.language, row.speaker or ""), []).append(row)
    chosen: dict[str, list[Utterance]] = {}
    for (language, _), own in by_speaker.items():
        first = int(rng.integers(0, max(len(own) - most, 0) + 1))
        chosen.setdefault(language, []).extend(own[first : first + most])
    found: dict[tuple[str, str], list[ClipFile]] = {}
    for language, clips in chosen.items():
        own_aligner = in_language(aligner, language)
        for first in range(0, len(clips), AT_ONCE):
            part = clips[first : first + AT_ONCE]
            pairs = [(row.audio, row.text) for row in part]
            for row, aligned in zip(part, own_aligner.align_batch(pairs, "return")):
                words = (
                    None if isinstance(aligned, CtcAlignError) else _trusted(aligned, worst_loss)
                )
                if words:
                    clip = ClipFile(row.audio, words, row.speaker or "", language)
                    found.setdefault((language, clip.speaker), []).append(clip)
    return found


def _trusted(aligned: Alignment, worst_loss: float) -> tuple[TimedWord, ...] | None:
    """Return the words of a clip with their times; None where its own text may be wrong, or is not
    all aligned."""
    if aligned.unexplained or (aligned.loss_per_token or 0.0) > worst_loss:
        return None
    if any(word.start_s is None for word in aligned.words):
        return None
    return tuple(
        TimedWord(word.text, ((word.start_s or 0.0, word.end_s or 0.0),)) for word in aligned.words
    )


def made_case(kind: str, speech: Speech, rng: np.random.Generator, shares: Shares) -> Mismatch:
    """Return a case of a kind, of a random severity."""
    material, severity = speech.material(rng), float(rng.uniform())
    if rng.random() < shares.shortened:
        material = replace(material, clips=[shortened(material.clips[0], rng)])
    case = make(kind, material, severity, rng)
    return degraded(case, material, rng) if rng.random() < shares.degraded else case


def off_by(
    words: Sequence[TimedWord], start_s: Sequence[float], end_s: Sequence[float]
) -> np.ndarray:
    """Return (W,) seconds from each word's farther edge to where it is spoken, infinite where that
    is nowhere."""
    return np.array(
        [
            min((max(abs(start - a), abs(end - b)) for a, b in word.places), default=np.inf)
            for word, start, end in zip(words, start_s, end_s)
        ]
    )


def example(aligner: Aligner, case: Mismatch) -> Example:
    """Return the example of a case.

    Raises:
        CtcAlignError: the text does not fit into the recording at all.
    """
    inputs = read_inputs(aligner, (case.samples, RATE), case.text)
    assert len(inputs.words.words) == len(case.words), "a word of a clip was parted or joined"
    chosen = batching.run([choose_tokens(inputs)])[0]
    tokens, spikes, edges = batching.run([place_tokens(inputs, chosen)])[0]
    fits = sound_fits(inputs.emissions, tokens, edges.by_sound or edges, inputs.calibration.spread)
    if fits is None:
        raise TooShortError("the text is too long for the recording to be segmented")
    spoken, begins = word_begins(tokens)
    owners = list(dict.fromkeys(word for word in tokens.words if word >= 0))
    shift_s = inputs.emissions.frame_shift_s
    off_s = off_by(
        [case.words[word] for word in owners],
        (fits.edges.start[begins[:-1]] * shift_s).tolist(),
        (fits.edges.end[begins[1:] - 1] * shift_s).tolist(),
    )
    known = Mismatch(case.kind, case.severity, np.empty(0, np.float32), case.words, case.speaker)
    ids = [0 if token == WILDCARD else token for token in tokens.ids]
    at_spikes = spike_confidence(inputs.emissions.array, ids, spikes)[spoken]
    features = word_features(inputs.emissions, tokens, spikes, fits, at_spikes)
    return Example(known, features, off_s, chosen.loss / len(chosen.tokens.ids))


# The network of any model: what it sees are log-probs, changed as those of other models may be, and
# the words that the search has found in them


class _Recorder:
    """In the place of a confidence network: keeps the features, and gives each word a confidence of
    its own."""

    limits = FitLimits(None, None, 0.0, 0.0)

    def __init__(self) -> None:
        self.features: list[np.ndarray] = []

    def chances(self, features: np.ndarray) -> np.ndarray:
        first = sum(map(len, self.features))
        self.features.append(features)
        return 0.5 + 1e-4 * np.arange(first + 1, first + len(features) + 1)

    def place(self, word: AlignedWord) -> int:
        """Return which of all features are the word's, -1 for none."""
        return -1 if word.confidence is None else round(1e4 * (word.confidence - 0.5)) - 1


def varied(emissions: Emissions, rng: np.random.Generator) -> Emissions:
    """Return log-probs as another model's may be: flatter, sharper, noisy, with confusable classes,
    longer frames."""
    x, blank = emissions.log_probs.float().log_softmax(1), emissions.blank
    way, shift_s = int(rng.integers(7)), emissions.frame_shift_s
    if way == 1:
        x = x / float(rng.uniform(0.5, 2.5))
    elif way == 2:
        x = x.clamp(min=float(rng.uniform(-14, -6)))
        x = (
            x
            + float(rng.uniform(0.5, 3)) * torch.from_numpy(rng.normal(size=tuple(x.shape))).float()
        )
    elif way == 3:
        share = float(rng.uniform(0.05, 0.5))
        x = torch.log(x.exp() * (1 - share) + share / x.shape[1])
    elif way == 4:
        labels = [index for index in rng.permutation(x.shape[1]).tolist() if index != blank]
        pairs = int(rng.integers(3, max(4, len(labels) // 2)))
        for one, other in zip(labels[:pairs], labels[pairs : 2 * pairs]):
            x[:, [one, other]] = torch.logaddexp(x[:, one], x[:, other])[:, None]
    elif way == 5:
        width = 2 * int(rng.integers(1, 4)) + 1
        smeared = torch.nn.functional.avg_pool1d(
            x.exp().T, width, 1, width // 2, count_include_pad=False
        ).T
        x = torch.log(smeared.clamp(min=1e-12)) * float(rng.uniform(1, 2))
    if way != 5 and rng.random() < 0.3:
        even, odd = x[: len(x) // 2 * 2 : 2], x[1::2]
        x = torch.logaddexp(even, odd) if rng.random() < 0.5 else torch.maximum(even, odd)
        shift_s *= 2
    return Emissions(x.log_softmax(1), emissions.vocab, shift_s, blank=blank)


def examples_of_log_probs(
    aligner: Aligner, case: Mismatch, rng: np.random.Generator
) -> list[Example]:
    """Return an example of each island of a case; a word that was not placed is `nan` off.

    Raises:
        CtcAlignError: the text does not fit into the recording at all.
    """
    emissions = varied(aligner.emissions((case.samples, RATE)), rng)
    match = "auto" if rng.random() < 0.6 else "exact"
    recorder = _Recorder()
    with patch.object(confidence, "network_of_any_model", lambda: recorder):
        found = aligner.with_settings(replace(aligner.settings, match=match)).align(
            emissions, case.text
        )
    assert len(found.words) == len(case.words), "a word of a clip was parted or joined"
    off_s = np.full(sum(map(len, recorder.features)), np.nan)
    for word, aligned in zip(case.words, found.words):
        if 0 <= (place := recorder.place(aligned)) < len(off_s):
            off_s[place] = off_by([word], [aligned.start_s or 0.0], [aligned.end_s or 0.0])[0]
    known = Mismatch(case.kind, case.severity, np.empty(0, np.float32), case.words, case.speaker)
    ends = np.cumsum([len(features) for features in recorder.features])
    rows = zip(recorder.features, np.split(off_s, ends[:-1]))
    return [
        Example(known, features, off_s, found.loss_per_token or 0.0)
        for features, off_s in rows
        if not np.isnan(off_s).all()
    ]


def examples(
    aligner: Aligner,
    speech: Speech,
    kind: str,
    cases: int,
    seed: int,
    shares: Shares | None = None,
    of_any_model: bool = False,
) -> list[Example]:
    """Return the examples of a number of cases of a kind; the same for the same seed.

    Texts that do not fit into the recording at all are left out.
    """
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    found = []
    for _ in range(cases):
        case = made_case(kind, speech, rng, shares or Shares())
        if len(case.samples) < SHORTEST_SAMPLES or not case.words:
            continue
        with suppress(CtcAlignError):
            found += (
                examples_of_log_probs(aligner, case, rng)
                if of_any_model
                else [example(aligner, case)]
            )
    return found


def write_examples(path: Path, examples: Sequence[Example]) -> None:
    """Write what a network learns from: features, distances and losses, one after the other."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        features=np.concatenate([each.features for each in examples]),
        off_s=np.concatenate([each.off_s for each in examples]),
        words=np.array([len(each.off_s) for each in examples]),
        loss_per_token=np.array([each.loss_per_token for each in examples]),
        severity=np.array([each.case.severity for each in examples]),
        kind=examples[0].case.kind,
    )
    part.replace(path)


def read_examples(path: Path) -> list[Example]:
    """Read them back; their cases have no words."""
    with np.load(path) as data:
        ends = np.cumsum(data["words"])
        features, off_s = np.split(data["features"], ends[:-1]), np.split(data["off_s"], ends[:-1])
        kind, losses = str(data["kind"]), data["loss_per_token"].tolist()
        cases = [
            Mismatch(kind, severity, np.empty(0, np.float32), (), "")
            for severity in data["severity"].tolist()
        ]
    return [Example(*each) for each in zip(cases, features, off_s, losses)]


LATIN = "aeinorst"
"""Frequent letters of most texts in Latin letters."""


@dataclass(frozen=True)
class ConfidenceTraining:
    """How the network is trained.

    Attributes:
        width: channels.
        epochs: passes over all examples.
        batch: examples of similar length that go together.
        learning_rate: the highest.
        right_s: a word is right within this distance.
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


class TrainableConfidenceNetwork(nn.Module):
    """A `ConfidenceNetwork` in torch, with the same names of weights, of `features` features."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.mean, self.deviation = (
            nn.Buffer(torch.zeros(features)),
            nn.Buffer(torch.ones(features)),
        )
        self.input = nn.Conv1d(2 * features, width, 1)
        self.around = nn.ModuleList(
            nn.Conv1d(width, width, 3, padding=step, dilation=step) for step in DILATIONS
        )
        self.hidden = nn.Conv1d(width, width, 1)
        self.output = nn.Conv1d(width, 1, 1)

    def forward(self, inputs: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
        """Return logits (B, W) of inputs (B, 2 F, W); `inside` (B, 1, W) is 1 for words and 0 for
        padding."""
        hidden = self.input(inputs) * inside
        for convolution in self.around:
            hidden = hidden + torch.relu(convolution(torch.relu(hidden))) * inside
        return self.output(torch.relu(self.hidden(torch.relu(hidden))))[:, 0]

    def trained(self, names: tuple[str, ...], limits: FitLimits | None = None) -> ConfidenceNetwork:
        """Return the network for inference; `names` are those of its features."""
        weights = {name: weight.numpy() for name, weight in self.state_dict().items()}
        return ConfidenceNetwork(names, self.input.out_channels, limits, weights)


def train_network(
    given: Sequence[Example], settings: ConfidenceTraining, seed: int = 1
) -> ConfidenceNetwork:
    """Return a network that has learnt from examples; the same for the same seed, machine and
    number of threads."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    names = next(
        names for names in (NAMES, EMISSION_NAMES) if len(names) == given[0].features.shape[1]
    )
    network = TrainableConfidenceNetwork(len(names), settings.width)
    every = torch.from_numpy(np.concatenate([each.features for each in given]))
    network.mean.copy_(every.mean(0).half())
    network.deviation.copy_((every.std(0) + 1e-3).half())
    normal = network.mean.numpy(), network.deviation.numpy()
    inputs = [torch.from_numpy(inputs_of(each.features, *normal)).T for each in given]
    steps = settings.epochs * -(-len(given) // settings.batch)
    optimizer = torch.optim.AdamW(network.parameters(), settings.learning_rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=steps
    )
    for epoch in range(settings.epochs):
        losses = []
        for batch in _batches(given, settings.batch, rng):
            loss = _loss(
                network, [inputs[i] for i in batch], [given[i].off_s for i in batch], settings
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(printable(f"epoch {epoch + 1}: {np.mean(losses):.4f}"), flush=True)
    assert network.output.bias is not None
    with torch.no_grad():
        network.output.bias.add_(settings.bias)
    return network.trained(names)


def _batches(
    given: Sequence[Example], size: int, rng: np.random.Generator
) -> Iterator[Sequence[int]]:
    by_length = sorted(range(len(given)), key=lambda i: len(given[i].off_s))
    batches = [by_length[first : first + size] for first in range(0, len(by_length), size)]
    yield from (batches[i] for i in rng.permutation(len(batches)))


def _loss(
    network: TrainableConfidenceNetwork,
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
        weight[row, :count] = (
            torch.where(off > settings.wrong_s, settings.wrong_weight, 1.0) * ~off.isnan()
        )
    shown = (torch.rand(len(inputs), batch.shape[1], 1) >= settings.dropout).float()
    logits = network((batch + settings.jitter * torch.randn_like(batch)) * shown, inside)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, right, reduction="none")
    return (losses * weight).sum() / weight.sum()


def fit_limits(
    network: ConfidenceNetwork, clean: Sequence[Example], noisy: Sequence[Example]
) -> FitLimits:
    """Return the limits of `fit` from held-out recordings with their own texts.

    A fit is good up to the 99th percentile of the loss of clean speech, and where at least as many
    words are likely as in all but a hundredth of its recordings; it is no more than doubtful up to
    the 99th percentile in noise and other hard sound.
    """
    losses, in_noise = ([each.loss_per_token for each in some] for some in (clean, noisy))
    shares = [(network.chances(each.features) > UNLIKELY).mean() for each in clean]
    return FitLimits(
        good_loss=round(float(np.quantile(losses, 0.99)), 2),
        doubtful_loss=round(float(np.quantile([*losses, *in_noise], 0.99)), 2),
        good_share=min(round(float(np.quantile(shares, 0.01)), 2), 0.95),
        doubtful_share=0.7,
    )


def clips_of(
    aligner: Aligner, manifest: str, most: int, path: Path, worst_loss: float = WORST_LOSS
) -> list[ClipFile]:
    """Return the clips of a manifest with the times of their words, kept in a JSON file."""
    if not path.is_file():
        utterances = [row for row in open_source(manifest) if isinstance(row, Utterance)]
        found = timed_clips(aligner, utterances, most, 1, worst_loss)
        rows = [
            (
                clip.language,
                clip.speaker,
                clip.path,
                [[word.text, *word.places[0]] for word in clip.words],
            )
            for clips in found.values()
            for clip in clips
        ]
        path.write_text(json.dumps(rows), encoding="utf-8", newline="\n")
    return [
        ClipFile(
            name,
            tuple(TimedWord(text, ((start, end),)) for text, start, end in words),
            speaker,
            language,
        )
        for language, speaker, name, words in json.loads(path.read_text(encoding="utf-8"))
    ]


def speech_by_language(clips: Sequence[ClipFile], foreign: str, part: int) -> dict[str, Speech]:
    """Return what mismatches are made of in each language that has speakers enough.

    Of the recordings and texts in other languages one half is taken, so that parts 0 and 1 share
    none.
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
        latin = [
            row.text
            for row in rows
            if sum(letter in LATIN for letter in row.text) > len(row.text) / 4
        ]
        found[language] = Speech(by_speaker, [row.audio for row in rows], latin)
    return found


def examples_of(
    aligner: Aligner,
    speech: Mapping[str, Speech],
    kind: str,
    cases: int,
    seed: int,
    shares: Shares | None = None,
    of_any_model: bool = False,
) -> list[Example]:
    """Return examples of a number of cases of a kind, divided among the languages."""
    found = []
    for index, (language, own) in enumerate(speech.items()):
        count = cases * (index + 1) // len(speech) - cases * index // len(speech)
        seeds = seed if len(speech) == 1 else 1000 * seed + index
        found += examples(
            in_language(aligner, language), own, kind, count, seeds, shares, of_any_model
        )
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
    parser.add_argument(
        "--worst-loss", type=float, default=WORST_LOSS, help="of a clip, in nats per token"
    )
    parser.add_argument("--seeds", default="1,2", metavar="LIST")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="LIST")
    parser.add_argument(
        "--any-model", action="store_true", help="train the network of models without one"
    )
    parser.add_argument(
        "--examples-only", action="store_true", help="end when the examples of these seeds are made"
    )
    given = parser.parse_args(arguments)
    (given.out / "examples").mkdir(parents=True, exist_ok=True)
    aligners = {name: Aligner(name, device="cpu") for name in given.model.split(",")}
    aligner = next(iter(aligners.values()))
    clips = clips_of(aligner, given.speech, given.clips, given.out / "clips.json", given.worst_loss)
    speech = speech_by_language(clips, given.foreign, 0)
    for seed in given.seeds.split(","):
        for kind in given.kinds.split(","):
            for name, own in aligners.items():
                path = (
                    given.out
                    / "examples"
                    / f"{seed}-{kind}{f'-{name}' if given.any_model else ''}.npz"
                )
                if not path.is_file():
                    write_examples(
                        path,
                        examples_of(
                            own, speech, kind, given.cases, int(seed), None, given.any_model
                        ),
                    )
                    print(printable(f"made {path}"), flush=True)
    if given.examples_only:
        return 0
    learnt = [
        each
        for path in sorted((given.out / "examples").glob("*-*.npz"))
        for each in read_examples(path)
    ]
    # A model that was never seen gets less credit.
    settings = ConfidenceTraining(epochs=18, bias=-0.6) if given.any_model else ConfidenceTraining()
    network = train_network(learnt, settings)
    held_out_clips = clips_of(aligner, given.dev, 1000, given.out / "dev.json", given.worst_loss)
    held_out = speech_by_language(held_out_clips, given.foreign, 1)
    plain = Shares(shortened=0.0, degraded=0.0)
    clean, noisy = (
        examples_of(aligner, held_out, kind, 200, 1, plain, given.any_model)
        for kind in ("clean", "speech_in_noise")
    )
    if not given.any_model:
        hard = Shares(shortened=0.0, degraded=1.0)
        noisy += examples_of(aligner, held_out, "clean", 200, 2, hard)
    limits = fit_limits(network, clean, noisy)
    network.limits = (
        replace(limits, good_loss=None, doubtful_loss=None) if given.any_model else limits
    )
    save_confidence_network(network, given.out)
    print(printable(f"wrote {given.out}; limits of fit: {network.limits}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
