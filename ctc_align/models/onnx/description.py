"""The description of an ONNX file in a TOML file beside it: features, frame shift, vocabulary, axes.

`model.toml` beside `model.onnx` has the settings below; only those are needed that cannot be found out. The metadata
that sherpa-onnx's exports write into the file (`model_type`, `subsampling_factor`, `normalize_type` …) say the same for
NeMo, icefall (zipformer CTC), WeNet and GigaAM; the TOML file wins.

    tokens = "tokens.txt"         # beside the ONNX file: one token a line, Kaldi's `token id`, or JSON
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
from pathlib import Path
from typing import Any

from ctc_align.config import checked_values, merged, read_toml, setting
from ctc_align.errors import ConfigError, UsageError
from ctc_align.models.onnx.filter_banks import ALL_FEATURES, NONE, PER_FEATURE, KaldiFbank, NemoMel
from ctc_align.models.vocabulary import load_vocab, resolve_blank
from ctc_align.reading import shown

WAVEFORM, NEMO_MEL, KALDI_FBANK = "waveform", "nemo-mel", "kaldi-fbank"
LIKELY_BLANKS = ("<blk>", "<blank>", "<eps>", "<pad>", "[PAD]", "[blank]", "<ctc>")
"""Usual names of the blank; sherpa-onnx looks for the first of these too."""
SEPARATOR = "|"
KNOWN_SEPARATORS = (SEPARATOR, "▁", " ", "<space>", "[SPACE]", "<SPACE>")

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
    """The network's output: its name ("" is the first), the order of its axes, and the kind of its scores."""

    name: str = setting("", may_be_empty=True)
    axes: str = setting("BTC", choices=("BTC", "BCT", "TBC"))
    scores: str = setting("log-probs", choices=("log-probs", "logits", "probabilities"))


@dataclass(frozen=True)
class OnnxDescription:
    """All settings of an ONNX file.

    `layers` are [kernel, stride, padding, padding at the end] of the network's convolutions over time;
    `first_frame_s` is where its first frame begins. Without either, the position is measured: see
    `ctc_align.models.onnx.onnx_model`.
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
        fronts: dict[str, NemoMel | KaldiFbank] = {NEMO_MEL: self.nemo_mel, KALDI_FBANK: self.kaldi_fbank}
        return fronts.get(self.features)


def describe(file: Path, metadata: dict[str, str], name: str, bins: int | None = None) -> OnnxDescription:
    """Return the settings in the TOML file beside `file`, on top of the ONNX file's own `metadata`.

    Args:
        bins: channels that the network's input is declared with, None if unknown.

    Raises:
        ConfigError: faults in the TOML file, all of them; or settings that are needed are missing.
    """
    toml = file.with_suffix(".toml")
    table = read_toml(toml) if toml.is_file() else {}
    values = merged(from_metadata(metadata), {key.replace("-", "_"): value for key, value in table.items()})
    for front in ("nemo_mel", "kaldi_fbank"):
        if bins is not None and isinstance(values.setdefault(front, {}), dict):
            values[front].setdefault("bins", bins)
    faults: list[str] = []
    description = OnnxDescription(**checked_values(OnnxDescription, values, f"{toml}: ", faults))
    faults += [f"{toml}: {fault}" for fault in _faults(description, values)]
    if faults:
        raise ConfigError("\n".join([*faults, _hint(name, toml, metadata)] if not toml.is_file() else faults))
    return description


def from_metadata(metadata: dict[str, str]) -> dict[str, Any]:
    """Return the settings that sherpa-onnx's metadata stand for; {} for a file of unknown kind.

    >>> from_metadata({"model_type": "EncDecCTCModelBPE", "subsampling_factor": "8"})["frame_shift_s"]
    0.08
    """
    kind = metadata.get("model_type", "")
    factor = _number(metadata.get("subsampling_factor", ""))
    values: dict[str, Any] = {}
    if kind.startswith("EncDec") and "CTC" in kind:
        normalise = metadata.get("normalize_type", "") or NONE
        mel: dict[str, Any] = {"normalise": normalise if normalise in (PER_FEATURE, ALL_FEATURES) else NONE}
        if metadata.get("is_giga_am", "0") not in ("", "0"):
            mel |= _GIGAAM | _GIGAAM_GUARD
        bins = _number(metadata.get("feat_dim", "") or metadata.get("feature_dim", ""))
        values = {"features": NEMO_MEL, "nemo_mel": mel | ({"bins": bins} if bins else {})}
    elif kind in ("zipformer2_ctc", "zipformer_ctc"):
        values = {"features": KALDI_FBANK, "layers": [list(layer) for layer in _ZIPFORMER_LAYERS]}
        factor = factor or 4
    elif kind == "wenet_ctc":
        values = {"features": KALDI_FBANK, "kaldi_fbank": {"snip_edges": True, "high_hz": 0.0, "gain": 32768.0}}
        if factor == 4:
            values["layers"] = [list(layer) for layer in _WENET_LAYERS]
    if values and factor:
        values["frame_shift_s"] = round(0.01 * factor, 9)
    return values


def vocabulary(description: OnnxDescription, file: Path, classes: int, name: str) -> tuple[tuple[str, ...], int]:
    """Return the token of each of the network's `classes`, and the index of the blank.

    Raises:
        UsageError: no vocabulary, one of another size, no such blank or word separator.
    """
    path, toml = file.parent / description.tokens, file.with_suffix(".toml")
    if not path.is_file():
        raise UsageError(
            f"model {name}: its vocabulary {path} is missing: put it there (one token a line, or Kaldi's `token id`), "
            f'or say in {toml.name}: tokens = "FILE"'
        )
    vocab = load_vocab(path)
    if len(vocab) != classes:
        hint = ": the blank needs a line of its own" if len(vocab) + 1 == classes else ": it is another model's"
        raise UsageError(
            f"model {name}: expected {classes} tokens in {path}, one for each class, got {len(vocab)}{hint}"
        )
    if description.blank:
        blank = resolve_blank(description.blank, vocab)
    else:
        likely = next((token for token in LIKELY_BLANKS if token in vocab), None)
        if likely is None:
            raise UsageError(
                f'model {name}: {path} has none of {" ".join(LIKELY_BLANKS)}: say in {toml.name}: blank = "…"'
            )
        blank = vocab.index(likely)
    return _separated(vocab, description.word_separator, name, path), blank


def _separated(vocab: tuple[str, ...], separator: str, name: str, path: Path) -> tuple[str, ...]:
    """Return the vocabulary with the token between words as this package writes it."""
    if not separator or (separator in vocab and separator in KNOWN_SEPARATORS):
        return vocab
    if separator not in vocab:
        raise UsageError(f"model {name}: word_separator {separator!r} is no token of {path}")
    return tuple(SEPARATOR if token == separator else token for token in vocab)


def _faults(description: OnnxDescription, values: dict[str, Any]) -> list[str]:
    """Return lines about settings that are missing or wrong; a value that is in `values` only was reported already."""
    faults = []
    if not description.features and "features" not in values:
        faults.append(f'features: expected "{WAVEFORM}", "{NEMO_MEL}" or "{KALDI_FBANK}", got nothing')
    if not description.frame_shift_s and "frame_shift_s" not in values:
        faults.append("frame_shift_s: expected the seconds from frame to frame (0.04, say), got nothing")
    for layer in description.layers:
        whole = isinstance(layer, tuple) and all(type(number) is int for number in layer)
        if not whole or not 2 <= len(layer) <= 4 or min(layer[:2]) < 1:
            faults.append(f"layers: expected lists of kernel, stride and paddings in whole numbers, got {shown(layer)}")
    return faults


def _hint(name: str, toml: Path, metadata: dict[str, str]) -> str:
    kind = metadata.get("model_type")
    said = f"its metadata (model_type {kind}) do not say it" if kind else "it has no metadata of sherpa-onnx's"
    return f"model {name}: {said}: write these settings into {toml}, see configs/onnx-nemo.toml"


def _number(text: str) -> int:
    return int(text) if text.strip().isdecimal() and len(text) < 10 else 0
