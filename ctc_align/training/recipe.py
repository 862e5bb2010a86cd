"""The settings of `ctc-align train`.

A TOML file overrides these defaults; values of 0 depend on the amount of speech.

ctc-align train CORPUS --out-dir DIR --config english
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ctc_align.config import setting
from ctc_align.models.convnet import features
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.training.acoustic_training import Training
from ctc_align.training.corpus_data import UNITS
from ctc_align.training.starting import EDGES


@dataclass(frozen=True)
class NetworkSizes:
    """See `ctc_align.models.convnet.network.NetworkShape`; 0: depends on the amount of speech."""

    stem: int = 0
    body: int = 0
    head: int = 0
    dilations: tuple[int, ...] = (1, 2, 1, 4, 1, 8, 2, 4)


@dataclass(frozen=True)
class SegmenterPlan:
    """Rounds of the segmenter as [Gaussians, realignments, utterances].

    Pronunciations are chosen after round `choose_after` (from 1). It is not trained on utterances
    over `longest_s`.
    """

    rounds: tuple[tuple[int, int, int], ...] = (
        (1, 12, 800),
        (2, 3, 1600),
        (4, 3, 2400),
        (4, 3, 2400),
    )
    choose_after: int = 3
    longest_s: float = 15.0


@dataclass(frozen=True)
class Refining:
    """The stage after the network's training.

    With `epochs` of 0 it is skipped, and the model has no mixtures.

    Attributes:
        epochs, learning_rate, warmup_steps: of the network's further training; -1 steps: by the
            number of steps.
        mixtures: Gaussians of a state, a power of 2.
        mixture_weight: of their log-posteriors in the states' scores, here and in the model;
            chosen, as the bonus for silence of `english`, on 80 hand-labelled utterances of eight
            speakers.
        scale: factor of the scores before they are summed over all segmentations.
        utterances: number of utterances, drawn at random, that mixtures are fitted to.
    """

    epochs: int = setting(0, above=-1)
    learning_rate: float = setting(6e-4, above=0.0)
    warmup_steps: int = setting(-1, above=-2)
    mixtures: int = setting(16, choices=(1, 2, 4, 8, 16, 32, 64))
    mixture_weight: float = setting(0.35, above=0.0)
    scale: float = setting(0.2, above=0.0)
    utterances: int = setting(2400, above=0)


@dataclass(frozen=True)
class Recipe:
    """Settings of `ctc-align train`."""

    name: str = setting("", may_be_empty=True)
    """The model's name; "": that of its folder."""
    units: str = setting("letters", choices=UNITS)
    """See `ctc_align.training.corpus_data`."""
    language: str = setting("", may_be_empty=True)
    """The language ("de", "pt-BR") of transcripts whose corpus names none.

    In it digits and signs are read and words pronounced; "": digits are not read, and words are
    pronounced as in most languages.
    """
    start: str = setting("", may_be_empty=True)
    """The model whose weights this one begins with; "": random weights.

    It is `english` or a folder: see `ctc_align.training.starting`.
    """
    fewest: int = setting(5, above=0)
    """A letter that occurs less often is not a token."""
    parts: int = 0
    """States of a token; 0: three of a phone, two of a letter."""
    seed: int = 1
    longest_s: float = setting(36.0, above=0.0)
    """Longer utterances are left out."""
    dev_share: float = setting(0.05, above=0.0)
    """Share of the speech that is held out, unless --dev is given."""
    prior_scale: float = 1.0
    """Factor of the states' log-priors, which are subtracted from their log-posteriors."""
    silence_bonus: float = 0.0
    """Nats added to silence."""
    noise_malus: float = setting(0.0, above=-1.0)
    """Nats of the bonus that silence loses in noise."""
    edges: str = setting("english", choices=EDGES)
    """The edge network that the model gets: see `ctc_align.training.starting`."""
    network: NetworkSizes = field(default_factory=NetworkSizes)
    segmenter: SegmenterPlan = field(default_factory=SegmenterPlan)
    training: Training = field(default_factory=Training)
    refining: Refining = field(default_factory=Refining)

    @property
    def states_per_token(self) -> int:
        """Number of segmentation states of a token."""
        return self.parts or (2 if self.units == "letters" else 3)

    def shape(self, hours: float, tokens: int, start: NetworkShape | None = None) -> NetworkShape:
        """Return the network's sizes for an amount of speech and a number of tokens.

        If there is a `start`, they are its sizes.
        """
        stem, body, head = next(sizes for below, *sizes in _SIZES if hours < below)
        if start is not None:
            stem, body, head = start.stem, start.body, start.head
        sizes = self.network
        states = tokens * self.states_per_token + 1
        channels = (sizes.stem or stem, sizes.body or body, sizes.head or head)
        return NetworkShape(features.MELS, tokens + 1, states, *channels, tuple(sizes.dilations))

    def resolved(self, hours: float) -> Training:
        """Return the network's training with the values that depend on the hours of speech."""
        training = self.training
        epochs = training.epochs or round(
            min(max(TRAINING_HOURS / max(hours, 1e-6), FEWEST_EPOCHS), MOST_EPOCHS)
        )
        batch_s = training.batch_s or (60.0 if hours < _SIZES[0][0] else 150.0)
        steps = epochs * max(1.0, hours * 3600.0 / batch_s)
        if training.warmup_steps >= 0:
            warmup = training.warmup_steps
        else:
            warmup = round(min(300.0, 0.1 * steps))
        return replace(
            training, epochs=epochs, batch_s=batch_s, warmup_steps=warmup, seed=self.seed
        )

    def stages(self, training: Training, steps: float) -> tuple[Training, Training]:
        """Return the network's training before and after the second segmentation.

        Epochs share `training.minutes`.

        Args:
            training: the result of `resolved`.
            steps: of an epoch, roughly.
        """
        refining = self.refining
        most = round(min(60.0, 0.1 * refining.epochs * steps))
        share = training.epochs / max(1, training.epochs + refining.epochs)
        warmup = most
        if refining.warmup_steps >= 0:
            warmup = refining.warmup_steps
        first = replace(training, minutes=training.minutes * share)
        return first, replace(
            training,
            epochs=refining.epochs,
            learning_rate=refining.learning_rate,
            warmup_steps=warmup,
            minutes=training.minutes * (1.0 - share),
        )


_SIZES = ((2.0, 64, 128, 96), (6.0, 96, 192, 128), (float("inf"), 128, 256, 128))
"""(fewer hours of speech than, channels of the stem, the body and the head).

They are networks of 0.6, 1.2 and 2.0 million weights.
"""
TRAINING_HOURS = 32.0
FEWEST_EPOCHS = 12
MOST_EPOCHS = 60
"""Epochs times hours of speech, within limits of the epochs."""
