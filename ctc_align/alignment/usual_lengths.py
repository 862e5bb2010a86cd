"""Edges by how long sounds usually last, where the network is not sure of them.

The posterior of an edge is that of all paths, and paths know nothing of lengths: in noise an edge
may be anywhere along a weak sound. Given the other edges of the two sounds that meet at an edge,
the probability that it is at frame t is in proportion to

    mass(t) ** EVIDENCE · (p(length of the sound before | t) · p(length of the sound after | t)) **
    PRIOR

where p is log-normal (Crystal and House 1988, doi 10.1121/1.396251, measured such lengths). A sound
that a pause parts from the edge has no share in it; beside a sound of unknown length edges stay.
The other edges are where the network's own medians are, and each edge is drawn to its new median.
Where the network is sure its mass is at a frame or two, and lengths change little. Confidence
judges by the network's own edges: words of other texts would look too good with the usual lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

EVIDENCE, PRIOR = 0.5, 1.5
"""Exponents of the network's mass and of the lengths, chosen on four speakers of gold-dev in six
kinds of sound: from 0.5 to 1 and from 1 to 3 all are about as good."""
REACH = 40
"""Frames on either side of the network's median in which an edge may be."""
PAUSE_S = 0.05
"""Sounds this far apart on the best path have a pause between them."""
LEAST_MASS = 1e-9
FARTHEST_SD = 2.5
"""A length farther from the mean than this is no less likely: who sings or drawls is believed."""
SHORTEST = 0.5
"""The least length, in frames, whose logarithm is taken."""


@dataclass(frozen=True, eq=False)
class UsualLengths:
    """How long sounds usually last.

    Attributes:
        mean, sd: (L,) of the logarithm of their lengths in frames; an infinite deviation where
            nothing is known.
        pause_after: (L,) bool, which of them a pause follows.
    """

    mean: np.ndarray
    sd: np.ndarray
    pause_after: np.ndarray

    def part(self, low: int, high: int) -> UsualLengths:
        """Return those of the sounds [low, high)."""
        return UsualLengths(self.mean[low:high], self.sd[low:high], self.pause_after[low:high])

    def log_density(self, frames: np.ndarray) -> np.ndarray:
        """Return the logarithm of p(length), up to a constant, of lengths (L, W)."""
        distance = np.log(np.maximum(frames, SHORTEST)) - self.mean[:, None]
        deviations = np.clip(distance / self.sd[:, None], -FARTHEST_SD, FARTHEST_SD)
        return np.asarray(-0.5 * deviations**2)


@dataclass(frozen=True, eq=False)
class EdgeMass:
    """The network's mass near each edge.

    Attributes:
        at: (L, W) frames near each edge.
        log: (L, W) logarithm of its probability there, floored; minus infinity outside the sound.
    """

    at: np.ndarray
    log: np.ndarray

    @classmethod
    def near(cls, risen: np.ndarray, median: np.ndarray) -> EdgeMass:
        """Return the mass near medians (L,), from distribution functions (T, L) that reach 1."""
        at = np.floor(median + 0.5).astype(np.int64)[:, None] + np.arange(-REACH, REACH + 1)
        row = np.clip(at, 0, len(risen) - 1)
        column = np.arange(len(median))[:, None]
        before = np.where(row > 0, risen[row - 1, column], 0.0)
        mass = np.maximum(risen[row, column] - before, LEAST_MASS)
        return cls(at, np.where(at == row, np.log(mass), -np.inf))

    def median(self, more: np.ndarray) -> np.ndarray:
        """Return the medians (L,) with `more` (L, W) nats, between frames as in `soft_edges`."""
        total = EVIDENCE * self.log + PRIOR * more
        chances = np.exp(total - total.max(1, keepdims=True))
        passed = chances.cumsum(1)
        half = passed[:, -1] / 2
        found = (passed >= half[:, None]).argmax(1)
        line = np.arange(len(found))
        here = chances[line, found]
        share = (half - passed[line, found] + here) / here
        return np.asarray(np.maximum(self.at[line, found] - 0.5 + share, 0.0))


def draw_by_lengths(
    risen: tuple[np.ndarray, np.ndarray],
    start: np.ndarray,
    end: np.ndarray,
    usual: UsualLengths,
) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends (L,) by what the network hears and how long sounds usually last.

    Args:
        risen: P(the edge has passed by frame t) (T, L), rising to 1, of the starts and the ends.
        start, end: (L,) medians of these, in frames.
        usual: lengths of the sounds.
    """
    starts, ends = EdgeMass.near(risen[0], start), EdgeMass.near(risen[1], end)
    last = len(start) - 1
    joined = ~usual.pause_after[:last, None]
    before, after = usual.part(0, last), usual.part(1, last + 1)
    of_starts = usual.log_density(end[:, None] - starts.at)
    of_starts[1:] += joined * before.log_density(starts.at[1:] - start[:-1, None])
    of_ends = usual.log_density(ends.at - start[:, None])
    of_ends[:-1] += joined * after.log_density(end[1:, None] - ends.at[:-1])
    unknown = np.isinf(usual.sd)
    beside_start, beside_end = unknown.copy(), unknown.copy()
    beside_start[1:] |= joined[:, 0] & unknown[:-1]
    beside_end[:-1] |= joined[:, 0] & unknown[1:]
    start = np.where(beside_start, start, starts.median(of_starts))
    end = np.where(beside_end, end, ends.median(of_ends))
    return start, np.maximum(start, end)
