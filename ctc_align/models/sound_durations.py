"""How long the sounds of a model usually last: `durations.tsv` beside its weights.

A line has a token and, for sounds inside speech and for those before a pause, the mean and the
standard deviation of the natural logarithm of their length in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FILE = "durations.tsv"
UNKNOWN_SD = math.inf
"""The standard deviation of tokens that the table lacks: it says nothing about them."""


@dataclass(frozen=True)
class SoundDurations:
    """The usual lengths of tokens.

    Attributes:
        table: of each token, mean and standard deviation of the logarithm of its length in seconds:
            inside speech, then before a pause.
    """

    table: Mapping[str, tuple[float, float, float, float]]

    def of(
        self, labels: Sequence[str], pause_after: np.ndarray, frame_shift_s: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations (L,) of the logarithm of lengths in frames.

        Args:
            labels: L tokens.
            pause_after: (L,) bool, which of them a pause follows.
            frame_shift_s: the length of a frame.

        >>> known = SoundDurations({"AH": (-3.0, 0.5, -2.0, 0.4)})
        >>> known.of(["AH", "?"], np.array([True, False]), 1.0)
        (array([-2.,  0.]), array([0.4, inf]))
        """
        unknown = (math.log(frame_shift_s), UNKNOWN_SD) * 2
        rows = np.array([self.table.get(label, unknown) for label in labels]).reshape(-1, 2, 2)
        chosen = rows[np.arange(len(rows)), pause_after.astype(np.int64)]
        return chosen[:, 0] - math.log(frame_shift_s), chosen[:, 1]


def load_durations(folder: Path) -> SoundDurations | None:
    """Return the table in a model's folder, or None."""
    file = folder / FILE
    if not file.exists():
        return None
    _, *rows = (line.split("\t") for line in file.read_text("utf-8").splitlines())
    table = {}
    for token, *numbers in rows:
        mean, sd, last_mean, last_sd = map(float, numbers)
        table[token] = mean, sd, last_mean, last_sd
    return SoundDurations(table)
