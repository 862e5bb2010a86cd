"""Training of a network of edges from windows around edges, and from where in them the edges are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from ctc_align.alignment.refined_edges import EdgeScene
from ctc_align.models.edge_network import (
    FARTHEST,
    FINE_MELS,
    FINE_SHIFT_S,
    POSITIONS,
    WINDOW,
    EdgeNetwork,
    EdgeNetworkShape,
    EdgeWindows,
)

MARGIN = 4
"""Fine frames by which the windows of examples are wider on either side, so that they can be shifted."""


@dataclass(frozen=True, eq=False)
class EdgeExamples:
    """Windows (`MARGIN` wider than the network's), and where their edges are.

    Attributes:
        windows: of E edges; values may be float16.
        place: (E,) float32, in fine frames from the window's centre.
        weight: (E,) float32, what each counts.
    """

    windows: EdgeWindows
    place: torch.Tensor
    weight: torch.Tensor

    def __len__(self) -> int:
        return len(self.place)

    @staticmethod
    def joined(parts: Sequence[EdgeExamples]) -> EdgeExamples:
        """Return all examples of several in a row."""
        windows = EdgeWindows.joined([part.windows for part in parts])
        return EdgeExamples(
            windows, torch.cat([part.place for part in parts]), torch.cat([part.weight for part in parts])
        )


@dataclass(frozen=True)
class EdgeTraining:
    """How a network of edges is trained.

    Attributes:
        epochs: passes over all examples.
        batch: examples that go together.
        learning_rate: the highest.
        weight_decay: of AdamW.
        dropout: share of hidden values that are 0 at a time.
        hidden_sounds: share of the edges beside which sounds are taken for unknown ones of their kind.
        hidden_kinds: share of the edges of which the kinds of sounds are hidden, too: so the network will do for
            sounds of any language.
        shift_frames: windows are shifted by up to so many fine frames.
        level: deviation of a change of level, in units of the features.
        width_frames: deviation of the Gaussian that the chances are to be, in fine frames.
    """

    epochs: int = 15
    batch: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 1e-3
    dropout: float = 0.1
    hidden_sounds: float = 0.15
    hidden_kinds: float = 0.0
    shift_frames: int = 2
    level: float = 0.1
    width_frames: float = 1.0


def examples_of(scene: EdgeScene, place_s: np.ndarray, weight: np.ndarray) -> EdgeExamples:
    """Return the examples of one utterance's edges whose places are known and within reach.

    Args:
        scene: of the utterance.
        place_s: (E,) where its edges are, in seconds from the audio's start; NaN where that is not known.
        weight: (E,) what each counts.
    """
    place = place_s / FINE_SHIFT_S - scene.centres()
    near = torch.from_numpy(np.flatnonzero(np.abs(place) <= FARTHEST + 0.5))
    windows = scene.windows(0, len(scene.edges), MARGIN).to("cpu").part(near)
    return EdgeExamples(
        replace(windows, values=windows.values.half()),
        torch.from_numpy(place).float()[near],
        torch.from_numpy(weight).float()[near],
    )


def train_edge_network(
    examples: EdgeExamples,
    labels: Sequence[str],
    training: EdgeTraining,
    seed: int = 1,
    begin: EdgeNetwork | None = None,
    say: Callable[[str], None] | None = None,
) -> EdgeNetwork:
    """Return a network that has learnt from examples; the same for the same seed, machine and number of threads.

    Args:
        examples: whose sounds are counted as by a network of these labels.
        labels: the tokens that it knows.
        training: how it learns.
        seed: of the weights, and of the order of examples.
        begin: the network that goes on learning; None: a new one.
        say: called with a line after every epoch.
    """
    chance = torch.Generator().manual_seed(seed)
    network = EdgeNetwork(EdgeNetworkShape(tuple(labels)))
    if begin is not None:
        network.load_state_dict(begin.members()[0].state_dict())
    else:
        _initialise(network, chance)
    network.train()
    count = len(examples)
    batches = max(1, count // training.batch)
    optimizer = torch.optim.AdamW(
        network.parameters(), training.learning_rate, weight_decay=training.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, training.learning_rate, total_steps=training.epochs * batches + 1, pct_start=0.2
    )
    for epoch in range(training.epochs):
        order = torch.randperm(count, generator=chance)
        total = 0.0
        for batch in order[: batches * training.batch].split(training.batch):
            loss = _loss(network, examples, batch, training, chance)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        if say is not None:
            say(f"epoch {epoch + 1} of {training.epochs}: {total / batches:.4f} nats an edge")
    return network.eval()


def _initialise(network: EdgeNetwork, chance: torch.Generator) -> None:
    """Let the network begin without habits, and with kinds that matter more than single sounds.

    All chance is the generator's own: several networks may be trained in several threads.
    """
    with torch.no_grad():
        for each in (*network.layers, network.output, network.habit):
            assert isinstance(each, (nn.Conv1d, nn.Linear))
            assert each.bias is not None
            bound = each.weight[0].numel() ** -0.5
            each.weight.uniform_(-bound, bound, generator=chance)
            each.bias.uniform_(-bound, bound, generator=chance)
        network.role.weight.normal_(generator=chance)
        network.sound.weight.normal_(0.0, 0.3, generator=chance)
        network.kind.weight.normal_(0.0, 0.7, generator=chance)
        network.habit.weight.normal_(0.0, 0.02, generator=chance)
        for layer in network.modulation:
            assert isinstance(layer, nn.Linear)
            layer.weight.normal_(0.0, 0.1, generator=chance)
            layer.bias.zero_()


def _loss(
    network: EdgeNetwork,
    examples: EdgeExamples,
    batch: torch.Tensor,
    training: EdgeTraining,
    chance: torch.Generator,
) -> torch.Tensor:
    """Return the mean cross-entropy of a batch of examples, each shifted, levelled and hidden at random."""
    windows, place, weight = examples.windows.part(batch), examples.place[batch], examples.weight[batch]
    count, most = len(batch), training.shift_frames
    shift = torch.randint(-most, most + 1, (count,), generator=chance)
    column = MARGIN + shift[:, None] + torch.arange(WINDOW)
    values = windows.values.float()
    values = values.gather(2, column[:, None, :].expand(-1, values.shape[1], -1))
    values[:, :FINE_MELS] += training.level * torch.randn(count, 1, 1, generator=chance)
    sounds, others = (torch.rand(count, generator=chance) < training.hidden_sounds for _ in range(2))
    kinds = torch.rand(count, generator=chance) < training.hidden_kinds
    left, right = network.hidden(windows.left, sounds, kinds), network.hidden(windows.right, others, kinds)
    shifted = EdgeWindows(values, left, right, windows.role)
    logits = network(shifted, _Dropout(training.dropout, chance))
    middle = torch.arange(POSITIONS) - FARTHEST
    wanted = torch.softmax(-0.5 * ((middle - (place - shift)[:, None]) / training.width_frames).square(), 1)
    losses = -(wanted * logits.log_softmax(1)).sum(1)
    return (weight * losses).sum() / weight.sum().clamp_min(1e-6)


@dataclass(frozen=True, eq=False)
class _Dropout:
    """Makes a share of hidden values 0, by a chance of its own."""

    share: float
    chance: torch.Generator

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        kept = torch.rand(hidden.shape, generator=self.chance) >= self.share
        return hidden * kept / (1.0 - self.share)
