"""What a handful of hand-labelled files tells of a model: constants for its edges and its confidence.

`calibration.toml` beside the model's weights holds them, few and declared; `ctc-align calibrate` estimates them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.config import checked_values, read_toml, setting
from ctc_align.errors import ConfigError
from ctc_align.text.arpabet import CLASSES, broad_class

FILE = "calibration.toml"
FORMAT = "ctc-align-calibration/1"
SILENCE, SOUND = "silence", "sound"
KINDS = (*CLASSES, SOUND, SILENCE)
USUAL_SCALE = 0.4
"""Of the scores of segmentation states, where nobody measured a better one."""
MOST_MS = 500
MOST_SPREAD, MOST_COST, MOST_GAP_S = 1000.0, 100.0, 10.0
WEIGHTS = 5
"""Of a logistic regression: one for each of `ctc_align.alignment.confidence.FEATURES`."""
SHRINKAGE = 5
"""An offset is estimated as if so many more edges had been seen whose error is the usual one of its place."""
WIDER_SHRINKAGE = 20.0
"""… or, where all sounds are labelled, that of such edges inside words too."""


def kind_of(label: str) -> str:
    """The broad class of a phone; "sound" for all that is none of the 39 (letters, phones of other languages).

    >>> kind_of("AH0"), kind_of("ß")
    ('vowel', 'sound')
    """
    return broad_class(label) or SOUND


@dataclass(frozen=True)
class Calibration:
    """What is known of a model's habits.

    Attributes:
        scale: what scores of states are multiplied by before edges are summed over all segmentations.
        blank_cost: nats that a frame of blank costs where edges are CTC's own: blank is what CTC says wherever it may,
            and its share of the training, its prior, is far beyond that of any sound (Huang et al. 2024,
            arXiv 2406.02560).
        spike_gap_s: a shorter gap between two of CTC's spikes is no pause: the edge of both sounds is in its middle.
        spread: what the standard deviations of edges are multiplied by.
        offsets_ms: what is added to an edge between two kinds of sounds, by (before, after).
        word_confidence, token_confidence: weights of logistic regressions: both edges right; see
            `ctc_align.alignment.confidence`.
        word_presence: likewise: the word is what is said there, and not another.
        source: how it came about, for people.
        frame_shift_s: of the frames that `offset_frames` counts.
    """

    scale: float = USUAL_SCALE
    spread: float = 1.0
    offsets_ms: Mapping[tuple[str, str], float] = field(default_factory=dict)
    word_confidence: tuple[float, ...] = ()
    token_confidence: tuple[float, ...] = ()
    source: str = ""
    word_presence: tuple[float, ...] = ()
    frame_shift_s: float = 0.01
    blank_cost: float = 0.0
    spike_gap_s: float = 0.0

    @property
    def draws(self) -> bool:
        """Whether it moves the edges of a model that has no segmentation."""
        return bool(self.offsets_ms or self.blank_cost or self.spike_gap_s)

    def at(self, frame_shift_s: float) -> Calibration:
        """The same for frames of so many seconds."""
        return self if frame_shift_s == self.frame_shift_s else replace(self, frame_shift_s=frame_shift_s)

    def offset_frames(self, before: str, after: str) -> float:
        """What is added to an edge, in frames; 0 for a pair that nobody measured.

        >>> Calibration(offsets_ms={("stop", "vowel"): -5.0}).offset_frames("stop", "vowel")
        -0.5
        """
        return self.offsets_ms.get((before, after), 0.0) / (1000 * self.frame_shift_s)


@dataclass(frozen=True)
class _Constants:
    """The file's plain values."""

    source: str = setting("", may_be_empty=True)
    scale: float = setting(USUAL_SCALE, above=0.0)
    spread: float = setting(1.0, above=0.0)
    blank_cost: float = 0.0
    spike_gap_s: float = 0.0
    word_confidence: tuple[float, ...] = ()
    token_confidence: tuple[float, ...] = ()
    word_presence: tuple[float, ...] = ()


def fit_offsets(
    errors_ms: Iterable[tuple[tuple[str, str], float]], wider: Mapping[tuple[str, str], float] | None = None
) -> dict[tuple[str, str], float]:
    """Minus the median error of the edges between two kinds, drawn towards that of all edges of its place where there
    are few: after a pause, before one, or between sounds; and those towards 0.

    Args:
        errors_ms: of each edge the kinds before and after it, and its error (ours minus the hand label's).
        wider: offsets of more edges than these, of all sounds where these are those of words: a pair that has one is
            drawn towards it, and one that is only there gets it.

    >>> fit_offsets([(("stop", "vowel"), 8.0)] * 5)
    {('stop', 'vowel'): -6.0}
    >>> fit_offsets([(("stop", "vowel"), 8.0)] * 20, {("stop", "vowel"): -4.0, ("vowel", "stop"): 1.0})
    {('stop', 'vowel'): -6.0, ('vowel', 'stop'): 1.0}
    """
    seen: dict[tuple[str, str], list[float]] = {}
    places: dict[tuple[bool, bool], list[float]] = {}
    for pair, error_ms in errors_ms:
        seen.setdefault(pair, []).append(error_ms)
        places.setdefault(_place(pair), []).append(error_ms)
    usual = {place: _drawn(found, 0.0, SHRINKAGE) for place, found in places.items()}
    wider = wider or {}
    offsets = dict(wider)
    for pair, found in seen.items():
        if pair in wider:
            drawn = _drawn(found, -wider[pair], WIDER_SHRINKAGE)
        else:
            drawn = _drawn(found, usual[_place(pair)], SHRINKAGE)
        offsets[pair] = round(-drawn, 2)
    return dict(sorted(offsets.items()))


def _place(pair: tuple[str, str]) -> tuple[bool, bool]:
    return pair[0] == SILENCE, pair[1] == SILENCE


def _drawn(errors_ms: list[float], usual_ms: float, shrinkage: float) -> float:
    """The median, as if `shrinkage` more errors of the usual size had been seen."""
    count = len(errors_ms)
    return (float(np.median(errors_ms)) * count + usual_ms * shrinkage) / (count + shrinkage)


def fit_logistic(features: np.ndarray, right: np.ndarray, penalty: float = 1.0) -> tuple[float, ...]:
    """Weights (F,) of P(right) = 1 / (1 + exp(-features @ weights)), by Newton's method.

    Args:
        features: (N, F), the first column 1.
        right: (N,) bool.
        penalty: on the squares of all weights but the first, so that few examples cannot make them infinite.
    """
    weights = np.zeros(features.shape[1])
    ridge = penalty * np.eye(len(weights))
    ridge[0, 0] = 1e-6
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        slope = features.T @ (right - p) - ridge @ weights
        curve = (features * (p * (1 - p))[:, None]).T @ features + ridge
        step = np.linalg.solve(curve, slope)
        weights = weights + step
        if np.abs(step).max() < 1e-9:
            break
    return tuple(round(float(weight), 4) for weight in weights)


def probability(features: np.ndarray, weights: Sequence[float]) -> np.ndarray:
    """P(right) (N,) of features (N, F)."""
    return 1 / (1 + np.exp(-np.clip(features @ np.asarray(weights), -30, 30)))


def folder_of(model: str) -> Path | None:
    """The folder on disk that `--model` names, prefix or not; None where there is none.

    >>> folder_of("hf:org/name") is None
    True
    """
    if model == "english":
        return None
    folder = Path(model.partition(":")[2] or model)
    if folder.is_file():
        return folder.parent
    return folder if folder.is_dir() else None


def calibration_of(model: str) -> Calibration | None:
    """The calibration beside the model that `--model` names; None where there is none."""
    folder = folder_of(model)
    if folder is None or not (folder / FILE).is_file():
        return None
    return read_calibration(folder / FILE)


def read_calibration(path: Path) -> Calibration:
    """The calibration in a file.

    Raises:
        ConfigError: a file that is none, all of its faults at once.
    """
    table = read_toml(path)
    faults: list[str] = []
    if table.pop("format", None) != FORMAT:
        faults.append(f"{path}: expected format = {FORMAT!r}, the first line of what `ctc-align calibrate` writes")
    offsets = _offsets(table.pop("offsets_ms", {}), path, faults)
    values = checked_values(_Constants, table, f"{path}: ", faults)
    for name, weights in values.items():
        if isinstance(weights, tuple) and weights and not _are_weights(weights):
            faults.append(f"{path}: {name}: expected {WEIGHTS} finite numbers, got {list(weights)}")
    for name, most in (("blank_cost", MOST_COST), ("spike_gap_s", MOST_GAP_S), ("spread", MOST_SPREAD)):
        if not 0.0 <= values.get(name, 0.0) <= most:
            faults.append(f"{path}: {name}: expected a number from 0 to {most}, got {values[name]}")
    if faults:
        raise ConfigError("\n".join(faults))
    return Calibration(offsets_ms=offsets, **values)


def _are_weights(weights: tuple[Any, ...]) -> bool:
    return len(weights) == WEIGHTS and all(type(one) in (int, float) and math.isfinite(one) for one in weights)


def _offsets(table: Any, path: Path, faults: list[str]) -> dict[tuple[str, str], float]:
    if not isinstance(table, dict):
        faults.append(f"{path}: expected a table [offsets_ms], got {table!r}")
        return {}
    offsets: dict[tuple[str, str], float] = {}
    for name, offset_ms in table.items():
        before, _, after = name.partition(" ")
        if before not in KINDS or after not in KINDS:
            faults.append(f"{path}: offsets_ms: expected two kinds of {', '.join(KINDS)}; got {name!r}")
        elif type(offset_ms) not in (int, float) or not abs(offset_ms) <= MOST_MS:
            faults.append(f"{path}: offsets_ms.{name}: expected at most {MOST_MS} milliseconds, got {offset_ms!r}")
        else:
            offsets[before, after] = float(offset_ms)
    return offsets


def as_toml(calibration: Calibration) -> str:
    """What `calibration.toml` holds; `read_calibration` reads it back."""
    return "\n".join(
        [
            "# Constants that hand-labelled speech gave for this model; `ctc-align calibrate` writes this file.",
            f'format = "{FORMAT}"',
            f"source = {json.dumps(calibration.source)}",
            f"scale = {calibration.scale}",
            f"spread = {calibration.spread}",
            *([f"blank_cost = {calibration.blank_cost}"] if calibration.blank_cost else []),
            *([f"spike_gap_s = {calibration.spike_gap_s}"] if calibration.spike_gap_s else []),
            f"word_confidence = {list(calibration.word_confidence)}",
            f"token_confidence = {list(calibration.token_confidence)}",
            f"word_presence = {list(calibration.word_presence)}",
            "",
            "# What is added to an edge between two kinds of sounds.",
            "[offsets_ms]",
            *(f'"{before} {after}" = {offset}' for (before, after), offset in sorted(calibration.offsets_ms.items())),
            "",
        ]
    )
