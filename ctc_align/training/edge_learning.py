"""Train an edge network on hand-labelled utterances, and measure its errors on held-out speakers.

An example is a window around an aligned edge, with the position of the labelled edge in the window.
Labels of words say nothing about the edges inside words. These edges are examples with a small
weight, too, and their targets are the aligned positions, so that the network learns not to move
them.

For each held-out group of speakers, the constants and the network come from the other speakers
only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from ctc_align.alignment.align_utterance import finish_edges
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import SIGMA, Edges, EdgeScene, edges_of, utterance_sounds
from ctc_align.evaluate import evaluate_intervals
from ctc_align.kernels import batching
from ctc_align.models.calibration import (
    KINDS,
    MOST_SPREAD,
    SILENCE,
    SOUND,
    Calibration,
    offset_between,
)
from ctc_align.models.edge_network import (
    CHANNELS,
    DILATIONS,
    FARTHEST,
    FINE_MELS,
    FINE_SHIFT_S,
    KERNEL,
    POSITIONS,
    ROLES,
    WINDOW,
    EdgeNetwork,
    EdgeNetworkShape,
    EdgeWindows,
)
from ctc_align.training.labelled_speech import (
    LearntEdges,
    PairedEdges,
    Row,
    SpokenUtterance,
    phones_of,
    words_of,
)
from ctc_align.types import Emissions

MARGIN = 4
"""Fine frames by which examples' windows are wider on either side, so that they can be shifted.

Training shifts them.
"""
UNLABELLED_WEIGHT = 0.2
"""Weight of an edge without a label."""
ONE_EDGE_S = 0.011
"""If a phone's labelled end and the next one's start are so close, they are one edge."""
FEWEST_STEPS, MOST_STEPS = 300, 6000
"""Limits of the steps of a training, and so of its epochs."""
MOST_AT_ONCE = 8
"""Networks that are trained at the same time."""
_NO_CONVENTION = Calibration()
DrawnWith = Callable[[np.ndarray], tuple[Calibration, Sequence[Spans]]]
"""From the utterances that are learnt from to their constants, and the edges of all.

The utterances are (U,) bool; the edges are those before any network.
"""


@dataclass(frozen=True, eq=False)
class EdgeExamples:
    """Windows, `MARGIN` wider than the network's, and where the edges are in them.

    Attributes:
        windows: of E edges; values may be float16.
        offset: (E,) float32, of the edges from their windows' centres, in fine frames.
        weight: (E,) float32, of each in the loss.
    """

    windows: EdgeWindows
    offset: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.offset)

    @staticmethod
    def joined(parts: Sequence[EdgeExamples]) -> EdgeExamples:
        """Return the examples of all parts."""
        return EdgeExamples(
            EdgeWindows.joined([part.windows for part in parts]),
            np.concatenate([part.offset for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )


@dataclass(frozen=True)
class EdgeTraining:
    """Settings of an edge network's training.

    Attributes:
        epochs: passes over all examples.
        batch: number of examples.
        learning_rate: the peak of a one-cycle schedule.
        weight_decay: of AdamW.
        dropout: share of the hidden values that are set to 0.
        hidden_sounds: share of the edges whose neighbouring sounds are replaced by unknown ones of
            their kind.
        hidden_kinds: share of the edges whose sounds' kinds are hidden, too, so that the network
            can draw edges between sounds of any language.
        shift_frames: the largest shift of a window, in fine frames.
        level: standard deviation of a random change of level, in units of the features.
        width_frames: standard deviation of the Gaussian target, in fine frames.
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


GOING_ON = EdgeTraining(epochs=10, learning_rate=3e-4)
"""The further training of a model's own network."""
HALFWAY = 0.5
"""The share of the way from the trained weights back to the model's own.

See Wortsman et al. 2022, arXiv 2109.01903. A few labels mostly teach their own habits: without
this, networks taught by 8 files draw other speakers' edges worse.
"""


def examples_of(scene: EdgeScene, edge_s: np.ndarray, weight: np.ndarray) -> EdgeExamples:
    """Return the examples of one utterance's edges.

    An edge must be known and within reach of its window.

    Args:
        scene: of the utterance.
        edge_s: (E,) labelled edges, in seconds from the audio's start; NaN if unknown.
        weight: (E,) of each in the loss.
    """
    offset = edge_s / FINE_SHIFT_S - scene.centres()
    near = np.flatnonzero(np.abs(offset) <= FARTHEST + 0.5)  # False where NaN
    windows = scene.windows(0, len(scene.edges), MARGIN).part(near)
    windows = replace(windows, values=windows.values.astype(np.float16))
    return EdgeExamples(windows, offset[near].astype(np.float32), weight[near].astype(np.float32))


class TrainableEdgeNetwork(nn.Module):
    """A member of an `EdgeNetwork` in torch, with the same names of weights."""

    def __init__(self, shape: EdgeNetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.kind_of_sound = torch.from_numpy(shape.kinds)
        width, size = shape.width, shape.embedding
        self.sound = nn.Embedding(len(shape.labels) + 1, size)
        self.kind = nn.Embedding(len(KINDS), size)
        self.role = nn.Embedding(len(ROLES), size)
        inputs = (CHANNELS, *[width] * (len(DILATIONS) - 1))
        self.layers = nn.ModuleList(
            nn.Conv1d(count, width, KERNEL, dilation=d) for count, d in zip(inputs, DILATIONS)
        )
        self.modulation = nn.ModuleList(nn.Linear(shape.around, 2 * width) for _ in DILATIONS)
        self.output = nn.Conv1d(width, 1, 1)
        self.habit = nn.Linear(shape.around, POSITIONS)

    def hidden(
        self, index: torch.Tensor, sounds: torch.Tensor, kinds: torch.Tensor
    ) -> torch.Tensor:
        """Return indices (E,) of sounds, some replaced by their kind or by "sound"; silence stays.

        Args:
            index: (E,) of the sounds.
            sounds, kinds: (E,) bool, where the sound is hidden, and where its kind is hidden, too.
        """
        silence = self.shape.silence
        hidden = torch.where(sounds, silence + 1 + self.kind_of_sound[index], index)
        hidden = torch.where(kinds, torch.full_like(index, self.shape.index_of_kind(SOUND)), hidden)
        return torch.where(index == silence, index, hidden)

    def forward(
        self,
        values: torch.Tensor,
        left: torch.Tensor,
        right: torch.Tensor,
        role: torch.Tensor,
        dropout: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return the logits (E, POSITIONS) of windows, whose columns are those of `EdgeWindows`.

        `dropout` is applied to each layer's output (E, width, time).
        """
        around = self._around(left, right, role)
        hidden = values.transpose(1, 2)
        for number, (layer, modulation) in enumerate(zip(self.layers, self.modulation)):
            gain, shift = modulation(around)[:, :, None].chunk(2, 1)
            found = torch.relu(layer(hidden) * (1.0 + gain) + shift)
            if dropout is not None:
                found = dropout(found)
            lost = DILATIONS[number] * (KERNEL // 2)
            if number:
                hidden = found + hidden[:, :, lost:-lost]
            else:
                hidden = found
        return self.output(hidden)[:, 0] + self.habit(around)

    def _around(self, left: torch.Tensor, right: torch.Tensor, role: torch.Tensor) -> torch.Tensor:
        """Return the features of the edges that do not depend on their windows (E, around)."""
        sounds = []
        for index in (left, right):
            named = (index <= self.shape.silence).to(self.sound.weight.dtype)
            sounds.append(self.sound(index.clamp_max(self.shape.silence)) * named[:, None])
        kinds = [self.kind(self.kind_of_sound[index]) for index in (left, right)]
        same = (left == right).to(self.sound.weight.dtype)
        return torch.cat((*sounds, *kinds, self.role(role), same[:, None]), 1)


def train_edge_network(
    examples: EdgeExamples,
    labels: Sequence[str],
    training: EdgeTraining,
    seed: int = 1,
    begin: EdgeNetwork | None = None,
    say: Callable[[str], None] | None = None,
) -> EdgeNetwork:
    """Return a network trained on examples.

    It is the same for the same seed, machine and number of threads.

    Args:
        examples: their sounds are indices into `labels`.
        labels: the tokens that the network knows.
        training: the settings.
        seed: of the weights and the order of the examples.
        begin: a network to train further; None starts a new one.
        say: called with a line after every epoch.
    """
    # all randomness is this generator's: calibration trains several networks in several threads
    generator = torch.Generator().manual_seed(seed)
    network = TrainableEdgeNetwork(EdgeNetworkShape(tuple(labels)))
    if begin is not None:
        network.load_state_dict(
            {name: torch.from_numpy(begin.weights[name]) for name in network.state_dict()}
        )
    else:
        _initialise(network, generator)
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
        order = torch.randperm(count, generator=generator)
        total = 0.0
        for batch in order[: batches * training.batch].split(training.batch):
            loss = _loss(network, examples, batch.numpy(), training, generator)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        if say is not None:
            say(f"epoch {epoch + 1} of {training.epochs}: {total / batches:.4f} nats an edge")
    return EdgeNetwork(
        network.shape, {name: weight.numpy() for name, weight in network.state_dict().items()}
    )


def _initialise(network: TrainableEdgeNetwork, generator: torch.Generator) -> None:
    """Initialise the weights of a network.

    Labels hardly matter at first, and kinds of sounds matter more than single sounds.
    """
    with torch.no_grad():
        for each in (*network.layers, network.output, network.habit):
            assert isinstance(each, (nn.Conv1d, nn.Linear))
            assert each.bias is not None
            bound = each.weight[0].numel() ** -0.5
            each.weight.uniform_(-bound, bound, generator=generator)
            each.bias.uniform_(-bound, bound, generator=generator)
        network.role.weight.normal_(generator=generator)
        network.sound.weight.normal_(0.0, 0.3, generator=generator)
        network.kind.weight.normal_(0.0, 0.7, generator=generator)
        network.habit.weight.normal_(0.0, 0.02, generator=generator)
        for layer in network.modulation:
            assert isinstance(layer, nn.Linear)
            layer.weight.normal_(0.0, 0.1, generator=generator)
            layer.bias.zero_()


def _loss(
    network: TrainableEdgeNetwork,
    examples: EdgeExamples,
    batch: np.ndarray,
    training: EdgeTraining,
    generator: torch.Generator,
) -> torch.Tensor:
    """Return the mean cross-entropy of a batch of examples.

    They have random shifts, levels and hidden sounds.
    """
    windows = examples.windows.part(batch)
    left, right, role = (
        torch.from_numpy(column) for column in (windows.left, windows.right, windows.role)
    )
    offset, weight = (
        torch.from_numpy(examples.offset[batch]),
        torch.from_numpy(examples.weight[batch]),
    )
    count = len(batch)
    most = training.shift_frames
    shift = torch.randint(-most, most + 1, (count,), generator=generator)
    column = MARGIN + shift[:, None] + torch.arange(WINDOW)
    values = torch.from_numpy(windows.values).float()
    values = values.gather(1, column[:, :, None].expand(-1, -1, values.shape[2]))
    values[:, :, :FINE_MELS] += training.level * torch.randn(count, 1, 1, generator=generator)
    sounds, others = (
        torch.rand(count, generator=generator) < training.hidden_sounds for _ in range(2)
    )
    kinds = torch.rand(count, generator=generator) < training.hidden_kinds
    left = network.hidden(left, sounds, kinds)
    right = network.hidden(right, others, kinds)
    logits = network(
        values, left, right, role, partial(_dropout, share=training.dropout, generator=generator)
    )
    # the target is a Gaussian around the edge: an edge that is one fine frame off is nearly as good
    positions = torch.arange(POSITIONS) - FARTHEST
    target = torch.softmax(
        -0.5 * ((positions - (offset - shift)[:, None]) / training.width_frames).square(), 1
    )
    losses = -(target * logits.log_softmax(1)).sum(1)
    return (weight * losses).sum() / weight.sum().clamp_min(1e-6)


def _dropout(hidden: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Return hidden values with a share of them set to 0.

    They are drawn from a generator, which torch's own dropout does not take.
    """
    stays = torch.rand(hidden.shape, generator=generator) >= share
    return hidden * stays / (1.0 - share)


def network_labels(emissions: Emissions, separator: int | None = None) -> tuple[str, ...]:
    """Return the tokens that an edge network knows: all but the blank and the word separator.

    >>> import torch
    >>> network_labels(Emissions(torch.zeros(1, 4), ("-", "|", "a", "b"), 0.01), 1)
    ('a', 'b')
    """
    others = (emissions.blank, separator)
    return tuple(
        label for index, label in enumerate(emissions.vocab) if label and index not in others
    )


def edge_examples(
    utterances: Sequence[SpokenUtterance],
    drawn: Sequence[Spans],
    shape: EdgeNetworkShape,
    convention: Calibration = _NO_CONVENTION,
) -> EdgeExamples:
    """Return the examples of one utterance or more.

    The arguments are those of `utterance_examples`.
    """
    pairs = zip(utterances, drawn)
    return EdgeExamples.joined(
        [utterance_examples(u, edges, shape, convention=convention) for u, edges in pairs]
    )


def utterance_examples(
    utterance: SpokenUtterance,
    drawn: Spans,
    shape: EdgeNetworkShape,
    word_weights: np.ndarray | None = None,
    convention: Calibration = _NO_CONVENTION,
) -> EdgeExamples:
    """Return the examples of one utterance.

    Args:
        utterance: its emissions have their sound.
        drawn: its edges before a network refines them.
        shape: of the network that will learn.
        word_weights: (W, 2) of the start and the end of each labelled word, all other edges
            weighing as unlabelled ones; None: 1 for every labelled edge.
        convention: its convention is taken off the labels, because it will be added to the
            network's edges.
    """
    spoken, ids, words = utterance_sounds(utterance.tokens)
    of_words = drawn.of(spoken)
    edges = edges_of(of_words.start, of_words.end, words)
    edge_s = labelled_edges_s(utterance, drawn, edges)
    unknown = np.isnan(edge_s)
    emissions = utterance.emissions
    edge_s[unknown] = edges.frames[unknown] * emissions.frame_shift_s + emissions.first_frame_s
    if convention.convention_ms:
        kinds = [*utterance.kinds, SILENCE]  # the last one is found by SILENT, -1
        pairs = ((kinds[left], kinds[right]) for left, right in zip(edges.left, edges.right))
        shift_s = [offset_between(convention.convention_ms, pair) / 1000 for pair in pairs]
        edge_s[~unknown] -= np.array(shift_s)[~unknown]
    if word_weights is None:
        weight = np.where(unknown, UNLABELLED_WEIGHT, 1.0)
    else:
        weight = _weights_of_words(utterance, drawn, edges, word_weights)
    return examples_of(EdgeScene(emissions, ids, edges, shape), edge_s, weight)


def _weights_of_words(
    utterance: SpokenUtterance, drawn: Spans, edges: Edges, word_weights: np.ndarray
) -> np.ndarray:
    weight = np.full(len(edges), UNLABELLED_WEIGHT)
    of_label = {id(label): row for label, row in zip(utterance.labelled.words, word_weights)}
    begins, labels = words_of(utterance, drawn)
    for w, label in labels:
        if id(label) in of_label:
            start = edges.begins[begins[w]]
            end = edges.ends[begins[w + 1] - 1]
            weight[start], weight[end] = of_label[id(label)]
    return weight


def labelled_edges_s(utterance: SpokenUtterance, drawn: Spans, edges: Edges) -> np.ndarray:
    """Return the labelled edges (E,), in seconds from the audio's start.

    They are NaN where there is no label. Labelled words give their starts and ends; two labelled
    phones that touch give the edge between them.

    Args:
        utterance: with its labels.
        drawn: the edges of all its tokens.
        edges: of its sounds, from `drawn`.
    """
    edge_s = np.full(len(edges), np.nan)
    start_s, end_s = np.full((2, len(edges.begins)), np.nan)
    for k, phone in phones_of(utterance, drawn)[1]:
        start_s[k], end_s[k] = phone.start_s, phone.end_s
    shared = edges.ends[:-1] == edges.begins[1:]
    agree = shared & (np.abs(start_s[1:] - end_s[:-1]) <= ONE_EDGE_S)  # False where one is NaN
    edge_s[edges.ends[:-1][agree]] = ((start_s[1:] + end_s[:-1]) / 2)[agree]
    begins, labels = words_of(utterance, drawn)
    for w, word in labels:
        edge_s[edges.begins[begins[w]]] = word.start_s
        edge_s[edges.ends[begins[w + 1] - 1]] = word.end_s
    return edge_s


def learn_edges(
    utterances: Sequence[SpokenUtterance],
    folds: np.ndarray,
    drawn_with: DrawnWith,
    present: EdgeNetwork | None = None,
    progress: Callable[[float], None] | None = None,
) -> LearntEdges:
    """Return an edge network trained on labelled utterances of two folds or more.

    As many networks are trained at once as torch would use threads; the result does not depend on
    the number.

    Args:
        utterances: U of them, with their sound.
        folds: (U,) the group of each; the utterances of a group are left out together.
        drawn_with: returns constants from some of the utterances (U,) bool, and the edges of all
            that they give.
        present: a network to train further if it knows the same tokens; None: a new one.
        progress: called with the share of finished trainings, in [0, 1].
    """
    labels = network_labels(utterances[0].emissions, utterances[0].separator)
    begin = None
    if present is not None and present.shape.labels == labels:
        begin = present
    left_out = [folds == fold for fold in range(int(folds.max()) + 1)]
    jobs = [*(~part for part in left_out), np.ones(len(folds), np.bool_)]
    trained = _train_jobs(utterances, jobs, drawn_with, EdgeNetworkShape(labels), begin, progress)
    words = PairedEdges()
    phones = PairedEdges()
    rows = list[Row]()
    for indices in left_out:
        rows += _left_out_edges(utterances, np.flatnonzero(indices), *next(trained), words, phones)
    _, _, network = next(trained)
    ratios = np.abs(words.errors_ms) / np.maximum(words.spreads_ms, 1e-3)
    network.spread = spread_of(ratios)
    within_sd = _within_sd(ratios, folds[words.utterances])
    return LearntEdges(network, words, phones, evaluate_intervals(rows), within_sd)


def spread_of(ratios: np.ndarray) -> float:
    """Return the factor by which standard deviations are multiplied to hold.

    A share `SIGMA` of the edges then lies within them.

    Args:
        ratios: (E,) of errors to standard deviations, both above 0.

    >>> spread_of(np.array([0.5, 1.0, 1.5, 2.0, 2.5]))
    1.865
    """
    return round(min(max(float(np.quantile(ratios, SIGMA)), 1e-3), MOST_SPREAD), 3)


def training_for(examples: int, begin: EdgeNetwork | None = None) -> EdgeTraining:
    """Return the settings of a training on a number of examples.

    >>> training_for(2880).epochs, training_for(320).epochs
    (15, 60)
    """
    if begin is not None:
        return GOING_ON
    usual = EdgeTraining()
    batches = max(1, examples // usual.batch)
    steps = min(max(usual.epochs * batches, FEWEST_STEPS), MOST_STEPS)
    return replace(usual, epochs=max(1, round(steps / batches)))


def _train_jobs(
    utterances: Sequence[SpokenUtterance],
    jobs: Sequence[np.ndarray],
    drawn_with: DrawnWith,
    shape: EdgeNetworkShape,
    begin: EdgeNetwork | None,
    progress: Callable[[float], None] | None,
) -> Iterator[tuple[Calibration, Sequence[Spans], EdgeNetwork]]:
    """Yield, for each job in order, constants, all drawn edges and its network.

    Finished jobs leave no examples in memory. A job says which utterances a network learns from
    (U,) bool.
    """
    workers = min(torch.get_num_threads(), MOST_AT_ONCE)

    def begin_job(job: np.ndarray) -> _Learning:
        known, drawn = drawn_with(job)
        learnt: list[int] = np.flatnonzero(job).tolist()
        examples = edge_examples(
            [utterances[k] for k in learnt], [drawn[k] for k in learnt], shape, known
        )
        return known, drawn, pool.submit(_taught, examples, shape.labels, begin)

    with (
        ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ExitStack() as at_end,
    ):
        at_end.callback(pool.shutdown, wait=False, cancel_futures=True)
        in_order = _ahead(map(begin_job, jobs), workers)
        for done, (known, drawn, learning) in enumerate(in_order, start=1):
            network = learning.result()
            if progress is not None:
                progress(done / len(jobs))
            yield known, drawn, network


_Learning = tuple[Calibration, Sequence[Spans], Future[EdgeNetwork]]


def _ahead(begun: Iterable[_Learning], most: int) -> Iterator[_Learning]:
    """Yield what is begun, in order, each when `most` others after it are begun, too."""
    pending: deque[_Learning] = deque()
    for one in begun:
        pending.append(one)
        if len(pending) > most:
            yield pending.popleft()
    yield from pending


def _taught(
    examples: EdgeExamples, labels: tuple[str, ...], begin: EdgeNetwork | None
) -> EdgeNetwork:
    """Return a new network taught by examples, or one that has gone on learning.

    The members of a network that goes on learning move half the way.
    """
    training = training_for(len(examples), begin)
    if begin is None:
        return train_edge_network(examples, labels, training)
    members = begin.apart()
    taught = [train_edge_network(examples, labels, training, begin=member) for member in members]
    return EdgeNetwork.together([old.towards(new, HALFWAY) for old, new in zip(members, taught)])


def _left_out_edges(
    utterances: Sequence[SpokenUtterance],
    left_out: np.ndarray,
    known: Calibration,
    drawn: Sequence[Spans],
    network: EdgeNetwork,
    words: PairedEdges,
    phones: PairedEdges,
) -> list[Row]:
    """Add the edges of utterances left out to `words` and `phones`.

    A network refines them. Return rows to evaluate.
    """
    chosen = [(utterances[k], drawn[k]) for k in left_out.tolist()]
    final = batching.run(
        [finish_edges(u.emissions, u.tokens, before, known, network) for u, before in chosen]
    )
    rows: list[Row] = []
    for k, (utterance, before), after in zip(left_out.tolist(), chosen, final):
        words.add_words(k, utterance, before, after)
        phones.add_phones(k, utterance, before, after)
        rows.append(
            (
                utterance.labelled.name,
                utterance.labelled_intervals(after),
                list(utterance.labelled.words),
            )
        )
    return rows


def _within_sd(ratios: np.ndarray, folds: np.ndarray) -> float:
    """Return the share of edges within their standard deviation.

    This is scaled by the spread of other folds (E,).
    """
    within = [
        ratios[folds == fold] <= spread_of(ratios[folds != fold]) for fold in np.unique(folds)
    ]
    return float(np.concatenate(within).mean())
