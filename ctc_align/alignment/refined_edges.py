"""Edges drawn finely by a model's network of edges, from where the coarse ones are: the last step before seconds.

The network says for each edge how likely it is in which of the places around it. The median of these is the edge, since
no other place has a smaller mean absolute error; the middle two thirds say how sure it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edge_order import among_all_tokens, frames_in, in_order
from ctc_align.alignment.edge_windows import SILENT, Edges, EdgeScene, edges_of, utterance_sounds
from ctc_align.kernels.requests import Steps
from ctc_align.lattice import WILDCARD
from ctc_align.models.edge_network import CHANNELS, FARTHEST, WINDOW, EdgeNetwork, EdgeWindows
from ctc_align.models.fine_features import SHIFT_S
from ctc_align.types import Emissions, Tokens

EDGES_AT_ONCE = 512
"""Edges of an utterance whose windows are in memory together."""
CLOSED_S = 0.015
"""Less than this between two words is nothing: they share an edge …"""
LONG_S = 0.08
"""… but a longer gap, where the segmentation has a silence, is one for certain."""
SIGMA = 0.6827
"""Share of a normal distribution within a standard deviation."""


@dataclass(frozen=True, eq=False)
class LookAtEdges:
    """Ask a network for edges [first, last) of an utterance; the answer is their chances (E, PLACES) float64."""

    scene: EdgeScene
    first: int
    last: int

    stage: ClassVar[str] = "kernels"

    @property
    def shape(self) -> tuple[int, int]:
        return self.last - self.first, CHANNELS * WINDOW

    @property
    def key(self) -> Hashable:
        return LookAtEdges, id(self.scene.network), self.scene.emissions.log_probs.device

    @staticmethod
    def run(requests: Sequence[LookAtEdges]) -> list[np.ndarray]:
        windows = [request.scene.windows(request.first, request.last) for request in requests]
        network = requests[0].scene.network.to(windows[0].values.device)
        chances = network.chances(EdgeWindows.joined(windows)).double().cpu().numpy()
        return np.split(chances, np.cumsum([len(one) for one in windows])[:-1])


def refine_edges(emissions: Emissions, tokens: Tokens, drawn: Spans, network: EdgeNetwork) -> Steps[Spans]:
    """Return the edges of all tokens where a network of edges sees them, with their standard deviations.

    Args:
        emissions: with their sound.
        tokens: what is said, wildcards and separators included.
        drawn: where their edges are, between frames, in order.
        network: the model's, or a calibration's.
    """
    spoken, ids, words = utterance_sounds(tokens.ids, tokens.words)
    if not len(spoken):
        return drawn
    own = drawn.of(spoken)
    edges = edges_of(own.start, own.end, words)
    scene = EdgeScene(emissions, ids, edges, network)
    blocks = range(0, len(edges), EDGES_AT_ONCE)
    answers = yield [LookAtEdges(scene, first, min(first + EDGES_AT_ONCE, len(edges))) for first in blocks]
    chances = np.concatenate(answers)
    fine, fine_sd = medians_of(chances)
    per_frame = SHIFT_S / emissions.frame_shift_s
    frames = (scene.centres() * SHIFT_S - emissions.first_frame_s) / emissions.frame_shift_s + fine * per_frame
    sd = fine_sd * per_frame * network.spread
    # Where a wildcard stands for unknown letters nothing is known of the sound on one side.
    kept = _beside_wildcard(edges, ids)
    frames = np.where(kept, edges.frames, frames)
    start, end = frames[edges.begins], frames[edges.ends]
    start, end = _closed(start, end, own, emissions.frame_shift_s)
    start, end = in_order(start, end, np.append(start[1:] > end[:-1], True), frames_in(emissions))
    return among_all_tokens(drawn, spoken, Spans(start, end, sd[edges.begins], sd[edges.ends]))


def medians_of(chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the median of each edge's place and half the width of its middle `SIGMA` (E,), in fine frames.

    Args:
        chances: (E, PLACES) of the places around the windows' centres; one holds for a fine frame around it.

    >>> medians_of(np.eye(25)[[12, 14]])[0]
    array([0., 2.])
    """
    passed = np.concatenate((np.zeros((len(chances), 1)), chances.cumsum(1)), 1)
    passed /= passed[:, -1:]
    low, median, high = (_quantile(passed, share) for share in ((1 - SIGMA) / 2, 0.5, (1 + SIGMA) / 2))
    return median - FARTHEST - 0.5, (high - low) / 2


def _quantile(passed: np.ndarray, share: float) -> np.ndarray:
    """Return where rising chances (E, P + 1) pass a share, between their places."""
    after = np.maximum((passed >= share).argmax(1), 1)
    row = np.arange(len(passed))
    before = passed[row, after - 1]
    return after - 1 + (share - before) / np.maximum(passed[row, after] - before, 1e-12)


def _beside_wildcard(edges: Edges, ids: np.ndarray) -> np.ndarray:
    wild = np.append(ids == WILDCARD, False)  # SILENT is the last
    assert SILENT == -1
    return wild[edges.left] | wild[edges.right]


def _closed(start: np.ndarray, end: np.ndarray, before: Spans, frame_shift_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends (L,) where words that next to nothing parts share an edge, and none overlap."""
    was_long = (before.start[1:] - before.end[:-1]) * frame_shift_s > LONG_S
    gap_s = (start[1:] - end[:-1]) * frame_shift_s
    shared = np.where(was_long, gap_s < 0, gap_s < CLOSED_S)
    middle = (start[1:] + end[:-1]) / 2
    return (
        np.append(start[:1], np.where(shared, middle, start[1:])),
        np.append(np.where(shared, middle, end[:-1]), end[-1:]),
    )
