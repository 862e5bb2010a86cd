"""The description of an ONNX model, in a TOML file beside it.

It gives features, frame shift, vocabulary and axes. `model.toml` beside `model.onnx` has the
settings below; only those that the program cannot detect are required. The metadata that
sherpa-onnx's exports write into the file (`model_type`, `subsampling_factor`, `normalize_type` …)
say the same for NeMo, icefall (zipformer CTC), WeNet and GigaAM; the TOML file wins.

    tokens = "tokens.txt"         # beside the ONNX file: one token per line, Kaldi's `token id`, or JSON
    features = "nemo-mel"         # or "kaldi-fbank" or "waveform"
    frame_shift_s = 0.08

    [input]
    axes = "BDT"                  # batch, channels, time; "BTD", and "BT" for a waveform

    [nemo-mel]
    normalise = "per_feature"
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.config import checked_values, read_toml, setting
from ctc_align.errors import ConfigError, UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.models.convnet.features import mel_filters
from ctc_align.models.framewise import Convolution
from ctc_align.models.vocabulary import load_vocab, resolve_blank
from ctc_align.reading import shown
from ctc_align.text.cue_styles import merged
from ctc_align.tokens.alphabet import SEPARATORS
from ctc_align.units import seconds_to_ms, seconds_to_samples

# Features of networks that do not take samples: NeMo's log-mel spectrogram and Kaldi's filter bank.
# Both take samples in [-1, 1], give the same frames for any blocks, and add no dither. `NemoMel` is
# what NeMo's AudioToMelSpectrogramPreprocessor gives outside training. `KaldiFbank` (Povey et al.,
# "The Kaldi speech recognition toolkit", 2011) is computed by the package kaldi-native-fbank.

NONE, PER_FEATURE, ALL_FEATURES = "none", "per_feature", "all_features"
_NORMALISE = (NONE, PER_FEATURE, ALL_FEATURES)
_DEVIATION_GUARD = 1e-5
"""Added to standard deviations, as in NeMo: a constant channel is not divided by zero."""
_POVEY_POWER = 0.85
_BLOCK_FRAMES = 6000
"""Frames computed at once: a minute."""


@dataclass(frozen=True)
class NemoMel:
    """NeMo's features: frame t is centred on sample t · hop, with zeros outside the recording."""

    bins: int = setting(80, above=0)
    window_s: float = setting(0.025, above=0.0)
    hop_s: float = setting(0.01, above=0.0)
    fft: int = setting(512, above=0)
    window: str = setting("hann", choices=("hann", "hann-periodic", "hamming", "povey"))
    preemphasis: float = setting(0.97)
    low_hz: float = setting(0.0)
    high_hz: float = setting(0.0)
    """0 or less is relative to half the sample rate."""
    scale: str = setting("slaney", choices=("slaney", "htk"))
    """See `ctc_align.models.convnet.features.mel_filters`."""
    guard: str = setting("add", choices=("add", "clamp"))
    guard_value: float = setting(2.0**-24, above=0.0)
    """Keeps the logarithm's argument above 0: it is added, or is the smallest argument."""
    normalise: str = setting(PER_FEATURE, choices=_NORMALISE)

    def layer(self, sample_rate: int) -> Convolution:
        """Return the grid from samples to frames, of which there are samples // hop."""
        hop = seconds_to_samples(self.hop_s, sample_rate)
        half = self.fft // 2
        return Convolution(2 * half, hop, half, half - hop)

    def rows(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Return log-mel features (T, bins) float32 of `samples` (N,), before normalisation."""
        layer = self.layer(sample_rate)
        if self.high_hz > 0:
            high_hz = self.high_hz
        else:
            high_hz = sample_rate / 2 + self.high_hz
        filters = mel_filters(
            self.bins, self.fft, sample_rate, self.low_hz, high_hz, scale=self.scale
        )
        window = _centred_window(
            self.window, seconds_to_samples(self.window_s, sample_rate), self.fft
        )
        count = layer.outputs(len(samples))
        rows = np.empty((count, self.bins), np.float32)
        for first in range(0, count, _BLOCK_FRAMES):
            last = min(count, first + _BLOCK_FRAMES)
            begin = first * layer.stride - layer.padding
            block = self._emphasised(
                samples, begin, begin + (last - first - 1) * layer.stride + layer.kernel
            )
            windows = np.lib.stride_tricks.sliding_window_view(block, layer.kernel)[:: layer.stride]
            channels = _powers(windows * window, self.fft) @ filters
            guard = np.float32(self.guard_value)
            rows[first:last] = np.log(
                channels + guard if self.guard == "add" else np.maximum(channels, guard)
            )
        return rows

    def _emphasised(self, samples: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return samples [first, last) with pre-emphasis, zeros outside the recording."""
        inside = samples[max(0, first - 1) : max(0, last)]
        left = min(last - first + 1, max(0, 1 - first))
        block = np.pad(inside, (left, last - first + 1 - left - len(inside))).astype(np.float32)
        block[1:] -= self.preemphasis * block[:-1].copy()
        # zeros stand behind the recording: nothing is left of the last sample
        block[max(1, len(samples) - first + 1) :] = 0.0
        return block[1:]


@dataclass(frozen=True)
class KaldiFbank:
    """Kaldi's features.

    Each frame separately has its mean removed, and is pre-emphasised and windowed. Without
    `snip_edges` (icefall, Lhotse) frame t is centred on sample (t + 1/2) · hop, and the recording
    is mirrored at its ends; with it (Kaldi, WeNet) frames lie wholly inside.
    """

    bins: int = setting(80, above=0)
    window_s: float = setting(0.025, above=0.0)
    hop_s: float = setting(0.01, above=0.0)
    window: str = setting("povey", choices=("povey", "hann", "hamming"))
    preemphasis: float = setting(0.97)
    remove_dc: bool = setting(True)
    low_hz: float = setting(20.0)
    high_hz: float = setting(-400.0)
    """0 or less is relative to half the sample rate.

    It is -400 in Lhotse and icefall, 0 in Kaldi and WeNet.
    """
    snip_edges: bool = setting(False)
    gain: float = setting(1.0, above=0.0)
    """Factor of the samples: 32768 for networks that were trained on 16-bit numbers (WeNet)."""
    floor: float = setting(float(np.finfo(np.float32).eps), above=0.0)
    """Smallest energy of a channel, before the logarithm."""
    normalise: str = setting(NONE, choices=_NORMALISE)

    def layer(self, sample_rate: int) -> Convolution:
        """Return the grid from samples to frames."""
        length, hop = (
            seconds_to_samples(seconds, sample_rate) for seconds in (self.window_s, self.hop_s)
        )
        if self.snip_edges:
            return Convolution(length, hop)
        left = length // 2 - hop // 2
        return Convolution(length, hop, left, hop // 2 + length - hop - left)

    def rows(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Return log energies (T, bins) float32 of `samples` (N,), before normalisation.

        Raises:
            UsageError: kaldi-native-fbank is not installed.
        """
        layer = self.layer(sample_rate)
        rows = np.empty((layer.outputs(len(samples)), self.bins), np.float32)
        computer = self._computer(sample_rate)
        done = 0
        step = _BLOCK_FRAMES * layer.stride
        for first in range(0, len(samples), step):
            computer.accept_waveform(
                sample_rate, samples[first : first + step] * np.float32(self.gain)
            )
            if first + step >= len(samples):
                computer.input_finished()
            ready = computer.num_frames_ready
            for frame in range(done, ready):
                rows[frame] = computer.get_frame(frame)
            computer.pop(ready - done)
            done = ready
        return rows

    def _computer(self, sample_rate: int) -> Any:
        try:
            import kaldi_native_fbank as native
        except ImportError as error:
            raise UsageError(
                f"onnx: Kaldi's features need an extra: {install_line('onnx')} ({one_line(error)})"
            ) from error
        options = native.FbankOptions()
        options.eps = self.floor
        frames, channels = options.frame_opts, options.mel_opts
        frames.samp_freq = sample_rate
        frames.dither = 0.0
        frames.snip_edges = self.snip_edges
        # the library rounds down to whole samples: a quarter of a sample more gives exactly those
        # of `layer`
        layer = self.layer(sample_rate)
        frames.frame_length_ms, frames.frame_shift_ms = (
            seconds_to_ms((count + 0.25) / sample_rate) for count in (layer.kernel, layer.stride)
        )
        frames.window_type = {"hann": "hanning"}.get(self.window, self.window)
        frames.preemph_coeff, frames.remove_dc_offset = self.preemphasis, self.remove_dc
        channels.num_bins, channels.low_freq, channels.high_freq = (
            self.bins,
            self.low_hz,
            self.high_hz,
        )
        return native.OnlineFbank(options)


def normalisation(
    rows: np.ndarray, kind: str
) -> tuple[np.ndarray | float | None, np.ndarray | float]:
    """Return mean and divisor of features (T, D), as NeMo's normalize_batch.

    Both are (D,) for "per_feature" and numbers for "all_features"; (None, 1) for "none".
    """
    if kind == NONE:
        return None, 1.0
    axis = 0 if kind == PER_FEATURE else None
    count = len(rows) if kind == PER_FEATURE else rows.size
    mean = rows.mean(axis, dtype=np.float64)
    squares = np.zeros_like(mean)
    for first in range(0, len(rows), _BLOCK_FRAMES):
        squares = squares + np.square(rows[first : first + _BLOCK_FRAMES] - mean).sum(axis)
    return mean, np.sqrt(squares / max(1, count - 1)) + _DEVIATION_GUARD


def _powers(windows: np.ndarray, fft: int) -> np.ndarray:
    """Return the power (T, fft // 2 + 1) float32 of each frequency."""
    spectrum = np.fft.rfft(windows, fft).astype(
        np.complex64, copy=False
    )  # numpy 1 computes it in double precision
    return np.square(spectrum.real) + np.square(spectrum.imag)


@lru_cache(maxsize=4)
def _centred_window(kind: str, length: int, fft: int) -> np.ndarray:
    """Return a window of `length` samples in the middle of `fft` of them, zeros outside."""
    if kind == "hamming":
        window = np.hamming(length)
    else:
        if kind == "hann-periodic":
            hann = np.hanning(length + 1)[:-1]
        else:
            hann = np.hanning(length)
        window = hann**_POVEY_POWER if kind == "povey" else hann
    left = (fft - length) // 2
    return np.pad(window.astype(np.float32), (left, fft - length - left))


WAVEFORM, NEMO_MEL, KALDI_FBANK = "waveform", "nemo-mel", "kaldi-fbank"
LIKELY_BLANKS = ("<blk>", "<blank>", "<eps>", "<pad>", "[PAD]", "[blank]", "<ctc>")
"""Usual names of the blank; sherpa-onnx looks for the first of these, too."""

_GIGAAM = {"bins": 64, "fft": 400, "window": "hann-periodic", "preemphasis": 0.0, "scale": "htk"}
_GIGAAM_GUARD = {"guard": "clamp", "guard_value": 1e-9, "normalise": NONE}
_ZIPFORMER_LAYERS = ((7, 2), (2, 2, 0, 1))
"""Two convolutions over time, then pairs of frames; a last one without a partner is repeated."""
_WENET_LAYERS = ((3, 2), (3, 2))


@dataclass(frozen=True)
class Waveform:
    """How samples in [-1, 1] are scaled before a network takes them."""

    gain: float = setting(1.0, above=0.0)
    normalise: str = setting(NONE, choices=(NONE, "utterance"))
    """"utterance": mean 0 and variance 1, as in wav2vec 2.0's feature extractor."""


@dataclass(frozen=True)
class Input:
    """Names of the network's inputs and the order of the axes; "" is found out from the file."""

    name: str = setting("", may_be_empty=True)
    axes: str = setting("", may_be_empty=True, choices=("", "BT", "BTD", "BDT", "B1T"))
    length: str = setting("", may_be_empty=True)


@dataclass(frozen=True)
class Output:
    """The network's output: its name ("" is the first), its axes, and the kind of its scores."""

    name: str = setting("", may_be_empty=True)
    axes: str = setting("BTC", choices=("BTC", "BCT", "TBC"))
    scores: str = setting("log-probs", choices=("log-probs", "logits", "probabilities"))


@dataclass(frozen=True)
class OnnxDescription:
    """All settings of an ONNX file.

    `layers` are [kernel, stride, padding, padding at the end] of the network's convolutions over
    time;
    `first_frame_s` is where its first frame begins. Without either, the position is measured: see
    `ctc_align.models.onnx_model`.
    """

    features: str = setting("", choices=(WAVEFORM, NEMO_MEL, KALDI_FBANK))
    frame_shift_s: float = setting(0.0, above=0.0)
    tokens: str = setting("tokens.txt")
    blank: str = setting("", may_be_empty=True)
    word_separator: str = setting("", may_be_empty=True)
    sample_rate: int = setting(16000, above=0)
    layers: tuple[tuple[int, ...], ...] = setting(())
    first_frame_s: float = setting(math.nan)
    input: Input = field(default_factory=Input)
    output: Output = field(default_factory=Output)
    waveform: Waveform = field(default_factory=Waveform)
    nemo_mel: NemoMel = field(default_factory=NemoMel)
    kaldi_fbank: KaldiFbank = field(default_factory=KaldiFbank)

    @property
    def front(self) -> NemoMel | KaldiFbank | None:
        """The features; None if the network takes samples."""
        fronts: dict[str, NemoMel | KaldiFbank] = {
            NEMO_MEL: self.nemo_mel,
            KALDI_FBANK: self.kaldi_fbank,
        }
        return fronts.get(self.features)


def describe(
    file: Path, metadata: dict[str, str], name: str, bins: int | None = None
) -> OnnxDescription:
    """Return the settings in the TOML file beside `file`.

    They take precedence over the `metadata` in the ONNX file.

    Args:
        bins: channels that the network's input is declared with, None if unknown.

    Raises:
        ConfigError: faults in the TOML file, all of them; or settings that are needed are missing.
    """
    toml = file.with_suffix(".toml")
    table = read_toml(toml) if toml.is_file() else {}
    values = merged(
        from_metadata(metadata), {key.replace("-", "_"): value for key, value in table.items()}
    )
    for front in ("nemo_mel", "kaldi_fbank"):
        if bins is not None and isinstance(values.setdefault(front, {}), dict):
            values[front].setdefault("bins", bins)
    faults: list[str] = []
    description = OnnxDescription(**checked_values(OnnxDescription, values, f"{toml}: ", faults))
    faults += [f"{toml}: {fault}" for fault in _faults(description, values)]
    if faults:
        raise ConfigError(
            "\n".join([*faults, _hint(name, toml, metadata)] if not toml.is_file() else faults)
        )
    return description


def from_metadata(metadata: dict[str, str]) -> dict[str, Any]:
    """Return the settings that sherpa-onnx's metadata imply; {} for a file of unknown kind.

    >>> from_metadata({"model_type": "EncDecCTCModelBPE", "subsampling_factor": "8"})["frame_shift_s"]
    0.08
    """
    kind = metadata.get("model_type", "")
    factor = _number(metadata.get("subsampling_factor", ""))
    values: dict[str, Any] = {}
    if kind.startswith("EncDec") and "CTC" in kind:
        normalise = metadata.get("normalize_type", "") or NONE
        mel: dict[str, Any] = {
            "normalise": normalise if normalise in (PER_FEATURE, ALL_FEATURES) else NONE
        }
        if metadata.get("is_giga_am", "0") not in ("", "0"):
            mel |= _GIGAAM | _GIGAAM_GUARD
        bins = _number(metadata.get("feat_dim", "") or metadata.get("feature_dim", ""))
        values = {"features": NEMO_MEL, "nemo_mel": mel | ({"bins": bins} if bins else {})}
    elif kind in ("zipformer2_ctc", "zipformer_ctc"):
        values = {"features": KALDI_FBANK, "layers": [list(layer) for layer in _ZIPFORMER_LAYERS]}
        factor = factor or 4
    elif kind == "wenet_ctc":
        values = {
            "features": KALDI_FBANK,
            "kaldi_fbank": {"snip_edges": True, "high_hz": 0.0, "gain": 32768.0},
        }
        if factor == 4:
            values["layers"] = [list(layer) for layer in _WENET_LAYERS]
    if values and factor:
        values["frame_shift_s"] = round(0.01 * factor, 9)
    return values


def vocabulary(
    description: OnnxDescription, file: Path, classes: int, name: str
) -> tuple[tuple[str, ...], int]:
    """Return the token of each of the network's `classes`, and the index of the blank.

    Raises:
        UsageError: there is no vocabulary, its size is wrong, or it lacks the blank or the word
            separator.
    """
    path = file.parent / description.tokens
    toml = file.with_suffix(".toml")
    if not path.is_file():
        raise UsageError(
            f"model {name}: its vocabulary {path} is missing: put it there (one token per line, or"
            " Kaldi's `token id`)"
            f', or say in {toml.name}: tokens = "FILE"'
        )
    vocab = load_vocab(path)
    if len(vocab) != classes:
        if len(vocab) + 1 == classes:
            hint = ": the blank needs its own line"
        else:
            hint = ": it belongs to a different model"
        raise UsageError(
            f"model {name}: expected {classes} tokens in {path}, one for each class, got"
            f" {len(vocab)}{hint}"
        )
    if description.blank:
        blank = resolve_blank(description.blank, vocab)
    else:
        likely = next((token for token in LIKELY_BLANKS if token in vocab), None)
        if likely is None:
            raise UsageError(
                f"model {name}: {path} has none of {' '.join(LIKELY_BLANKS)}: say in {toml.name}:"
                ' blank = "…"'
            )
        blank = vocab.index(likely)
    return _separated(vocab, description.word_separator, name, path), blank


def _separated(vocab: tuple[str, ...], separator: str, name: str, path: Path) -> tuple[str, ...]:
    """Return the vocabulary with the token between words as this package writes it."""
    if not separator or separator == next((token for token in SEPARATORS if token in vocab), None):
        return vocab
    if separator not in vocab:
        raise UsageError(f"model {name}: word_separator {separator!r} is not a token of {path}")
    return tuple(SEPARATORS[0] if token == separator else token for token in vocab)


def _faults(description: OnnxDescription, values: dict[str, Any]) -> list[str]:
    """Return lines about settings that are missing or wrong.

    A value that only `values` has was reported already.
    """
    faults = []
    if not description.features and "features" not in values:
        faults.append(
            f'features: expected "{WAVEFORM}", "{NEMO_MEL}" or "{KALDI_FBANK}", got nothing'
        )
    if not description.frame_shift_s and "frame_shift_s" not in values:
        faults.append(
            "frame_shift_s: expected the seconds from frame to frame (0.04, say), got nothing"
        )
    for layer in description.layers:
        whole = isinstance(layer, tuple) and all(type(number) is int for number in layer)
        if not whole or not 2 <= len(layer) <= 4 or min(layer[:2]) < 1:
            faults.append(
                "layers: expected lists of kernel, stride and paddings in whole numbers, got"
                f" {shown(layer)}"
            )
    return faults


def _hint(name: str, toml: Path, metadata: dict[str, str]) -> str:
    kind = metadata.get("model_type")
    if kind:
        said = f"its metadata (model_type {kind}) do not say it"
    else:
        said = "it has no metadata of sherpa-onnx's"
    return f"model {name}: {said}: write these settings into {toml}, see configs/onnx-nemo.toml"


def _number(text: str) -> int:
    if text.strip().isdecimal() and len(text) < 10:
        return int(text)
    return 0
