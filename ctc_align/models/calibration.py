"""Constants that correct a model's edges and confidence, fitted to a few hand-labelled files.

`ctc-align calibrate` estimates them; `calibration.toml` beside the model's weights holds them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.config import checked_values, read_toml, setting
from ctc_align.errors import ConfigError
from ctc_align.reading import MOST_NUMBER, shown
from ctc_align.text.phone_sets import (
    ARPABET_CLASSES,
    arpabet_class,
    broad_phones,
    ipa_class,
    is_ipa,
    reads_ipa,
)

FILE = "calibration.toml"
FORMAT = "ctc-align-calibration/1"
NATIVE_FILE = "native-speech.tsv"
DURATIONS_FILE = "durations.tsv"
SILENCE, SOUND = "silence", "sound"
KINDS = (*ARPABET_CLASSES, SOUND, SILENCE)
USUAL_SCALE = 0.4
"""Factor of the scores of segmentation states in an uncalibrated model."""
MOST_MS = 500
MOST_SPREAD, MOST_COST, MOST_GAP_S = 1000.0, 100.0, 10.0
WEIGHTS = 5
"""Number of weights of a logistic regression, one for each of confidence's `FEATURES`.

`FEATURES` are those of `ctc_align.alignment.confidence`.
"""
SHRINKAGE = 5
"""The number of edges with the usual error that are added to those measured.

The usual error is that of their position; an offset is estimated from all of them.
"""
WIDER_SHRINKAGE = 20.0
"""The same, with the error of edges of the same kinds inside words, if all sounds are labelled."""
DOUBT = 0.05
"""A convention moves edges by the least proven shift, up to this doubt on either side."""


def kind_of(label: str, *, ipa: bool = False) -> str:
    """Return the broad class of a phone.

    It is "sound" for any other label, such as a letter or a phone of another set.

    Args:
        label: one of the 39 phones of English, or any other token.
        ipa: the vocabulary is that of `ctc_align.text.phone_sets`, in which "b" is a phone and not
            a letter.

    >>> kind_of("AH0"), kind_of("b"), kind_of("b", ipa=True)
    ('vowel', 'sound', 'stop')
    """
    return (ipa_class(label) if ipa else arpabet_class(label)) or SOUND


@lru_cache(maxsize=2**12)
def kind_of_symbol(label: str) -> str:
    """Return the broad class of an IPA token.

    It is the class of the token's vowel if it has one, otherwise that of its first sound.

    >>> kind_of_symbol("tʰ"), kind_of_symbol("aʊ"), kind_of_symbol("ɫ"), kind_of_symbol("<wb>")
    ('stop', 'vowel', 'liquid', 'sound')
    """
    kinds = [kind_of(phone, ipa=True) for phone in broad_phones(label)]
    if "vowel" in kinds:
        return "vowel"
    return next(iter(kinds), SOUND)


@lru_cache(maxsize=8)
def _has_symbols(vocab: tuple[str, ...]) -> bool:
    return is_ipa(vocab) or reads_ipa(vocab)


_TABLES = ("offsets_ms", "convention_ms")
_SET_APART = {"is_setting": False}
"""Fields that are not lines of `calibration.toml`.

They are its tables of offsets, and properties of the present model.
"""


UNKNOWN_SD = math.inf
"""The standard deviation of the length of tokens that a table lacks: it says nothing."""


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


@dataclass(frozen=True)
class Calibration:
    """The constants of `calibration.toml`, which correct a model's systematic errors.

    They are for the model's own frames and tokens.

    Attributes:
        model: the name of the model that was measured; "" for a model without a name.
        source: a description of the labels, for people.
        scale: factor of the states' scores before edges are summed over all segmentations.
        spread: factor of the edges' standard deviations.
        blank_cost: cost in nats of a blank frame, if edges come from CTC's output: the prior of
            blank is far above that of any sound (Huang et al. 2024, arXiv 2406.02560).
        spike_gap_s: the shortest pause between two of CTC's spikes; the edge of both sounds is in
            the middle of a shorter gap.
        word_confidence, token_confidence: weights of logistic regressions for "both edges are
            right"; see `ctc_align.alignment.confidence`.
        word_presence: likewise for "this word, and no other, is spoken here".
        offsets_ms: milliseconds that are added to an edge between two kinds of sounds, by (before,
            after).
        convention_ms: the same for edges that a network has refined: where labels differ from the
            model's own habit.
        frame_shift_s: that of the frames in which `offset_frames` counts.
        ipa: the model's tokens are symbols of IPA.
        durations: how long the model's sounds usually last, None if that is not known.
    """

    model: str = setting("", may_be_empty=True)
    source: str = setting("", may_be_empty=True)
    scale: float = setting(USUAL_SCALE, above=0.0)
    spread: float = setting(1.0, above=0.0, within=(0.0, MOST_SPREAD))
    blank_cost: float = setting(0.0, within=(0.0, MOST_COST))
    spike_gap_s: float = setting(0.0, within=(0.0, MOST_GAP_S))
    word_confidence: tuple[float, ...] = ()
    token_confidence: tuple[float, ...] = ()
    word_presence: tuple[float, ...] = ()
    offsets_ms: Mapping[tuple[str, str], float] = field(default_factory=dict, metadata=_SET_APART)
    convention_ms: Mapping[tuple[str, str], float] = field(
        default_factory=dict, metadata=_SET_APART
    )
    frame_shift_s: float = field(default=0.01, metadata=_SET_APART)
    ipa: bool = field(default=False, metadata=_SET_APART)
    durations: SoundDurations | None = field(default=None, metadata=_SET_APART)

    @property
    def draws(self) -> bool:
        """True if these constants move the edges of a model without segmentation states."""
        return bool(self.offsets_ms or self.blank_cost or self.spike_gap_s)

    def at(
        self,
        frame_shift_s: float,
        vocab: Sequence[str] = (),
        durations: SoundDurations | None = None,
    ) -> Calibration:
        """Return this calibration for another frame shift, in seconds, and another `vocab`.

        `durations` are the usual ones of its tokens.
        """
        ipa = _has_symbols(tuple(vocab))
        return replace(self, frame_shift_s=frame_shift_s, ipa=ipa, durations=durations)

    def kinds(self, labels: Sequence[str]) -> list[str]:
        """Return the kind of each token."""
        return [kind_of_symbol(label) if self.ipa else kind_of(label) for label in labels]

    def offset_frames(self, before: str, after: str) -> float:
        """Return the offset of an edge in frames; 0 for a pair without an offset.

        Files of version 0.4.0 distinguish only sounds and silence if a vocabulary has IPA symbols
        that the package's lacks.

        >>> Calibration(offsets_ms={("stop", "vowel"): -5.0}).offset_frames("stop", "vowel")
        -0.5
        """
        pair = before, after
        if self.ipa:
            offset_ms = offset_between(self.offsets_ms, pair)
        else:
            offset_ms = self.offsets_ms.get(pair, 0.0)
        return offset_ms / (1000 * self.frame_shift_s)

    def convention_frames(self, before: str, after: str) -> float:
        """Return what is added to a refined edge, in frames."""
        return offset_between(self.convention_ms, (before, after)) / (1000 * self.frame_shift_s)

    def with_convention(self, more_ms: Mapping[tuple[str, str], float]) -> Calibration:
        """Return the same constants with a convention that is added to their own."""
        both = self.convention_ms, more_ms
        pairs = sorted({pair for table in both for pair in table})
        return replace(
            self,
            convention_ms={
                pair: round(sum(offset_between(t, pair) for t in both), 2) for pair in pairs
            },
        )


def offset_between(offsets_ms: Mapping[tuple[str, str], float], pair: tuple[str, str]) -> float:
    """Return the offset in ms between two kinds.

    If there is none, return the offset between any two sounds, or between a sound and silence, or
    0.

    >>> offset_between({("sound", "silence"): 9.0}, ("stop", "silence"))
    9.0
    """
    found = offsets_ms.get(pair)
    if found is None:
        return offsets_ms.get(_position(pair), 0.0)
    return found


def fit_offsets(
    errors_ms: Iterable[tuple[tuple[str, str], float]],
    wider: Mapping[tuple[str, str], float] | None = None,
) -> dict[tuple[str, str], float]:
    """Return minus the median error of the edges between each pair of kinds of sounds.

    A median of few edges is shrunk towards the median of all edges in the same position (after a
    pause, before one, between sounds), which is shrunk towards 0.

    Args:
        errors_ms: for each edge the kinds before and after it, and its error (our time minus that
            of the hand label).
        wider: offsets from more edges, such as those of all sounds if `errors_ms` are of words:
            medians are shrunk towards these instead, and pairs that only `wider` has are copied.

    >>> fit_offsets([(("stop", "vowel"), 8.0)] * 5)
    {('stop', 'vowel'): -6.0}
    >>> fit_offsets([(("stop", "vowel"), 8.0)] * 20, {("stop", "vowel"): -4.0, ("vowel", "stop"): 1.0})
    {('stop', 'vowel'): -6.0, ('vowel', 'stop'): 1.0}
    """
    by_pair: dict[tuple[str, str], list[float]] = {}
    by_position: dict[tuple[str, str], list[float]] = {}
    for pair, error_ms in errors_ms:
        by_pair.setdefault(pair, []).append(error_ms)
        by_position.setdefault(_position(pair), []).append(error_ms)
    usual_ms = {
        position: _shrunk(errors, 0.0, SHRINKAGE) for position, errors in by_position.items()
    }
    wider = wider or {}
    offsets = dict(wider)
    for pair, errors in by_pair.items():
        if pair in wider:
            shrunk = _shrunk(errors, -wider[pair], WIDER_SHRINKAGE)
        else:
            shrunk = _shrunk(errors, usual_ms[_position(pair)], SHRINKAGE)
        offsets[pair] = round(-shrunk, 2)
    return dict(sorted(offsets.items()))


def _position(pair: tuple[str, str]) -> tuple[str, str]:
    before, after = (kind if kind == SILENCE else SOUND for kind in pair)
    return before, after


def fit_convention(
    errors_ms: Iterable[tuple[tuple[str, str], float]],
) -> dict[tuple[str, str], float]:
    """Return the offsets in ms that hand labels prove: by how much edges should be moved.

    There is one for all edges, one before pauses, one after them, one between sounds, and one for
    each pair of kinds.

    Args:
        errors_ms: as for `fit_offsets`.

    >>> fit_convention([(("stop", "vowel"), 30.0 + k) for k in range(5)])
    {('silence', 'sound'): -30.0, ('sound', 'silence'): -30.0, ('sound', 'sound'): -30.0}
    """
    rows = list(errors_ms)
    everywhere_ms = proven_shift([error for _, error in rows])
    shifts_ms = dict.fromkeys(((SOUND, SOUND), (SOUND, SILENCE), (SILENCE, SOUND)), everywhere_ms)
    for pair in dict.fromkeys(
        [*(_position(pair) for pair, _ in rows), *(pair for pair, _ in rows)]
    ):
        usual_ms = shifts_ms[_position(pair)]
        if own_ms := proven_shift(
            [error - usual_ms for other, error in rows if pair in (other, _position(other))]
        ):
            shifts_ms[pair] = usual_ms + own_ms
    return {
        pair: round(-ms, 2)
        for pair, ms in sorted(shifts_ms.items())
        if ms or pair != _position(pair)
    }


def proven_shift(errors_ms: Sequence[float]) -> float:
    """Return the end that is nearer to 0 of an interval of the median of errors; 0 if it spans 0.

    The k-th smallest of n errors exceeds the median with the probability that fewer than k of n
    tosses are heads; k is the largest for which that is at most `DOUBT` (the sign test's interval).

    >>> proven_shift([3.0, 5.0, 9.0, 7.0, 8.0]), proven_shift([3.0, 5.0, 9.0, 7.0]), proven_shift([-1.0, 5.0, 9.0, 7.0])
    (3.0, 0.0, 0.0)
    """
    ordered = sorted(errors_ms)
    count = len(errors_ms)
    heads = np.arange(1, count + 1)
    logs = np.append(0.0, np.cumsum(np.log((count + 1 - heads) / heads))) - count * np.log(2)
    rank = int((np.exp(logs).cumsum() <= DOUBT).sum())
    if not rank:
        return 0.0
    low = ordered[rank - 1]
    high = ordered[-rank]
    return low if low > 0 else min(high, 0.0)


def _shrunk(errors_ms: list[float], usual_ms: float, shrinkage: float) -> float:
    """Return the median error drawn towards the usual one.

    It is a weighted mean, in which the usual error counts `shrinkage` times. It is (n · median + s
    · usual) / (n + s): few errors hardly move an edge, many move it by their median.
    """
    count = len(errors_ms)
    return (float(np.median(errors_ms)) * count + usual_ms * shrinkage) / (count + shrinkage)


def fit_logistic(
    features: np.ndarray, right: np.ndarray, penalty: float = 1.0
) -> tuple[float, ...]:
    """Return the weights (F,) of P(right) = 1 / (1 + exp(-features @ weights)), by Newton's method.

    The weights w maximise Σ log P − ½ wᵀ R w with the ridge R: the gradient is Xᵀ(y − p) − R w, the
    negative Hessian
    Xᵀ diag(p(1 − p)) X + R.

    Args:
        features: (N, F), the first column 1.
        right: (N,) bool.
        penalty: on the squares of all weights but the first, so that they stay finite with few
            examples.
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
    """Return P(right) (N,) of features (N, F)."""
    return 1 / (1 + np.exp(-np.clip(features @ np.asarray(weights), -30, 30)))


def folder_of(model: str) -> Path | None:
    """Return the folder on disk that `--model` names, None if it names none.

    The name may have a prefix. Models inside the package return None, because their folders are
    loaded with them.

    >>> folder_of("hf:org/name") is None
    True
    """
    if model in ("english", "universal"):
        return None
    folder = Path(model.partition(":")[2] or model)
    if folder.is_file():
        return folder.parent
    return folder if folder.is_dir() else None


def calibration_of(model: str) -> Calibration | None:
    """Return the calibration beside the model that `--model` names, None if there is none."""
    folder = folder_of(model)
    return None if folder is None else calibration_in(folder)


def calibration_in(folder: Path) -> Calibration | None:
    """Return the calibration in a model's folder, None if there is none."""
    if (folder / FILE).is_file():
        return read_calibration(folder / FILE)
    return None


def file_in(path: Path) -> Path:
    """Return the file of a calibration, given the path of the file or of its folder."""
    return path / FILE if path.is_dir() else path


def read_calibration(path: Path) -> Calibration:
    """Read a calibration.

    Raises:
        ConfigError: the file is not a calibration; the message lists all faults.
    """
    table = read_toml(path)
    faults: list[str] = []
    if table.pop("format", None) != FORMAT:
        faults.append(
            f"{path}: expected format = {FORMAT!r}, the first line of what `ctc-align calibrate`"
            " writes"
        )
    offsets, convention = (
        _offsets(table.pop(name, {}), f"{path}: {name}", faults) for name in _TABLES
    )
    values = checked_values(Calibration, table, f"{path}: ", faults)
    for name, weights in values.items():
        if isinstance(weights, tuple) and weights and not _are_weights(weights):
            faults.append(
                f"{path}: {name}: expected {WEIGHTS} finite numbers, got {shown(list(weights))}"
            )
    if faults:
        raise ConfigError("\n".join(faults))
    return Calibration(offsets_ms=offsets, convention_ms=convention, **values)


def _are_weights(weights: tuple[Any, ...]) -> bool:
    return len(weights) == WEIGHTS and all(
        type(weight) in (int, float) and abs(weight) <= MOST_NUMBER for weight in weights
    )


def _offsets(table: Any, where: str, faults: list[str]) -> dict[tuple[str, str], float]:
    if not isinstance(table, dict):
        faults.append(f"{where}: expected a table, got {shown(table)}")
        return {}
    offsets: dict[tuple[str, str], float] = {}
    for name, offset_ms in table.items():
        before, _, after = name.partition(" ")
        if before not in KINDS or after not in KINDS:
            faults.append(f"{where}: expected two kinds of {', '.join(KINDS)}; got {shown(name)}")
        elif type(offset_ms) not in (int, float) or not abs(offset_ms) <= MOST_MS:
            faults.append(
                f"{where}.{name}: expected at most {MOST_MS} milliseconds, got {shown(offset_ms)}"
            )
        else:
            offsets[before, after] = float(offset_ms)
    return offsets


@dataclass(frozen=True)
class NativeSpeech:
    """How native speakers pronounce the phones of a model: a table of quantiles.

    Attributes:
        percents: (Q,) ascending.
        quantiles: of each phone, (Q,): below them are so many per cent of its goodness of
            pronunciation (`ctc_align.alignment.goodness`), in nats.
    """

    percents: tuple[float, ...]
    quantiles: Mapping[str, tuple[float, ...]]

    def percentile(self, phone: str, gop: float) -> float | None:
        """Return the per cent of native speech in which the phone scores lower.

        It is None for a phone that the table lacks.
        """
        quantiles = self.quantiles.get(phone)
        if quantiles is None:
            return None
        return round(float(np.interp(gop, quantiles, self.percents, 0.0, 100.0)), 1)


def load_native_speech(folder: Path) -> NativeSpeech | None:
    """Return the table in a model's folder, or None.

    A line has a phone and its quantiles; the first line has their per cents.
    """
    lines = _read_table(folder / NATIVE_FILE)
    if lines is None:
        return None
    head, *rows = lines
    quantiles = {phone: tuple(map(float, values)) for phone, *values in rows}
    return NativeSpeech(tuple(map(float, head[1:])), quantiles)


def load_durations(folder: Path) -> SoundDurations | None:
    """Return the usual lengths in a model's folder, or None.

    A line has a token and, for sounds inside speech and for those before a pause, the mean and the
    standard deviation of the natural logarithm of their length in seconds.
    """
    lines = _read_table(folder / DURATIONS_FILE)
    if lines is None:
        return None
    table = {}
    for token, *numbers in lines[1:]:
        mean, sd, last_mean, last_sd = map(float, numbers)
        table[token] = mean, sd, last_mean, last_sd
    return SoundDurations(table)


def _read_table(file: Path) -> list[list[str]] | None:
    """Return the fields of each line of a table, separated by tabs; None if there is no file."""
    if not file.exists():
        return None
    return [line.split("\t") for line in file.read_text("utf-8").splitlines()]


def as_toml(calibration: Calibration) -> str:
    """Return the contents of `calibration.toml`; `read_calibration` reads them back."""
    return "\n".join(
        [
            (
                "# Constants that hand-labelled speech gave for this model; `ctc-align calibrate`"
                " writes this file."
            ),
            f'format = "{FORMAT}"',
            *([f"model = {json.dumps(calibration.model)}"] if calibration.model else []),
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
            *_table("offsets_ms", calibration.offsets_ms),
            *(
                ["# What is added to it after the edge network."]
                if calibration.convention_ms
                else []
            ),
            *(
                _table("convention_ms", calibration.convention_ms)
                if calibration.convention_ms
                else []
            ),
        ]
    )


def _table(name: str, offsets_ms: Mapping[tuple[str, str], float]) -> list[str]:
    rows = (
        f'"{before} {after}" = {offset}' for (before, after), offset in sorted(offsets_ms.items())
    )
    return [f"[{name}]", *rows, ""]
