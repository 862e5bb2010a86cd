"""The folder of one of the project's own models: `model.toml` (the description), `model.safetensors` (the weights), and
what was measured or learnt with them: `calibration.toml`, `confidence.safetensors`, `edges.safetensors`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch

from ctc_align.config import Settings, read_toml
from ctc_align.errors import ConfigError, UsageError, one_line
from ctc_align.models.calibration import FILE as CALIBRATION
from ctc_align.models.calibration import read_calibration
from ctc_align.models.confidence_network import load_confidence_network
from ctc_align.models.convnet import features
from ctc_align.models.convnet.convnet_model import ConvNet, ModelDescription
from ctc_align.models.convnet.gaussian_mixtures import MIXTURES, Mixtures
from ctc_align.models.convnet.network import AcousticNetwork, NetworkShape
from ctc_align.models.edge_network import load_edge_network
from ctc_align.reading import shown

FORMAT = "ctc-align-model/1"
LARGEST = 1000.0
"""Limit of a model's scales and bonuses."""
WIDEST, DEEPEST = 2**20, 1000
"""Limits of a network's sizes, and of the number of its layers."""
EMBEDDED = Path(__file__).resolve().parents[1] / "english"


def load_folder(folder: Path, device: torch.device, settings: Settings | None = None) -> ConvNet:
    """Load a model from its folder.

    Raises:
        UsageError: `model.toml` is not the description of a model, or the weights do not fit it.
    """
    from safetensors.torch import load_file

    description = _read_description(folder / "model.toml")
    constants = folder / CALIBRATION
    calibration = read_calibration(constants) if constants.is_file() else None
    confidence, edges = load_confidence_network(folder), load_edge_network(folder)
    try:
        weights = load_file(str(folder / "model.safetensors"))
        _check_sizes(description.shape, weights)
        return ConvNet(description, weights, device, settings, calibration, confidence, edges)
    except Exception as error:  # safetensors and torch have their own kinds, and all mean the same here
        raise UsageError(
            f"model {folder}: the weights cannot be loaded as model.toml describes them: {one_line(error, 300)}"
        ) from error


def _read_description(path: Path) -> ModelDescription:
    try:
        data = read_toml(path)
        if data.pop("format") != FORMAT:
            raise ValueError(f"format is not {FORMAT}")
        shape = data.pop("network")
        if not isinstance(shape, dict):
            raise ValueError("network is not a table")
        shape["dilations"] = tuple(shape["dilations"])
        vocab = tuple(data.pop("vocab"))
        description = ModelDescription(shape=NetworkShape(**shape), vocab=vocab, **data)
        _check(description)
        return description
    except KeyError as error:
        raise UsageError(f"{path}: expected the description of a {FORMAT} model, it lacks {one_line(error)}") from error
    except ConfigError as error:
        raise UsageError(str(error)) from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: expected the description of a {FORMAT} model, got: {one_line(error)}") from error


def _check_sizes(shape: NetworkShape, weights: dict[str, torch.Tensor]) -> None:
    """Raise ValueError where a network is not of the sizes of its weights, before any memory is taken for it."""
    with torch.device("meta"):
        network = AcousticNetwork(shape)
    for name, wanted in network.state_dict().items():
        if name in weights and weights[name].shape != wanted.shape:
            raise ValueError(f"{name}: expected the shape {tuple(wanted.shape)}, got {tuple(weights[name].shape)}")
        if name not in weights and wanted.numel() > 1:
            raise ValueError(f"{name} is missing")


def _check(description: ModelDescription) -> None:
    """Raise ValueError where the parts of a description do not fit together."""
    shape, vocab, parts = description.shape, description.vocab, description.parts
    if not all(isinstance(token, str) and token for token in vocab) or len(set(vocab)) != len(vocab) or len(vocab) < 2:
        raise ValueError("vocab is not a list of two or more texts, or has one of them twice")
    for name, value in asdict(shape).items():
        for size in value if isinstance(value, (list, tuple)) else (value,):
            if type(size) is not int or not (0 if name == "states" else 1) <= size <= WIDEST:
                raise ValueError(f"network.{name} is not a whole number from 1 to {WIDEST}: {shown(value)}")
    for name, least in (
        ("prior_scale", -LARGEST),
        ("silence_bonus", -LARGEST),
        ("mixture_weight", 0.0),
        ("noise_malus", 0.0),
    ):
        value = getattr(description, name)
        if type(value) not in (int, float) or not least <= value <= LARGEST:
            raise ValueError(f"{name} is not a number from {least:g} to {LARGEST:g}: {shown(value)}")
    for name in ("name", "token_kind", "language"):
        if not isinstance(getattr(description, name), str):
            raise ValueError(f"{name} is not a text: {shown(getattr(description, name))}")
    if type(parts) is not int or len(shape.dilations) > DEEPEST:
        raise ValueError(f"parts is no whole number, or the network has more than {DEEPEST} layers")
    if shape.inputs != features.MELS:
        raise ValueError(
            f"the network has {shape.inputs} inputs; expected {features.MELS} inputs, one for each mel channel"
        )
    if shape.classes != len(vocab):
        raise ValueError(f"the network has {shape.classes} classes, vocab {len(vocab)} tokens")
    each, odd = divmod(shape.states - 1, len(vocab) - 1)
    if shape.states and (odd or each < 1 or parts not in (0, each)):
        raise ValueError(f"the network has {shape.states} states, not {parts or 'so many'} for each token and silence")


def save_folder(
    folder: Path,
    description: ModelDescription,
    network: AcousticNetwork,
    log_priors: torch.Tensor | None,
    dtype: torch.dtype,
    mixtures: Mixtures | None = None,
) -> None:
    """Write a model's folder: matrices of weights as `dtype`, vectors (biases, statistics of norms) as float32."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: value.to(dtype).contiguous() if value.dim() > 1 else value.float().contiguous()
        for name, value in network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    if log_priors is not None:
        weights["log_priors"] = log_priors.float()
    if mixtures is not None:
        for name in ("weights", "means", "variances"):
            weights[MIXTURES + name] = getattr(mixtures, name).float().contiguous()
    # safetensors' own `save_file` makes files that only their owner can read
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": FORMAT}))
    shape = asdict(description.shape)
    lines = [
        "# A model of ctc-align: what its weights are. README.md beside it says how it was made.",
        f'format = "{FORMAT}"',
        f"name = {_quoted(description.name)}",
        f'token_kind = "{description.token_kind}"',
        *([f"language = {_quoted(description.language)}"] if description.language else []),
        f"parts = {description.parts}",
        f"prior_scale = {description.prior_scale}",
        f"silence_bonus = {description.silence_bonus}",
        *([f"noise_malus = {description.noise_malus}"] if description.noise_malus else []),
        *([f"mixture_weight = {description.mixture_weight}"] if mixtures is not None else []),
        "vocab = [" + ", ".join(_quoted(token) for token in description.vocab) + "]",
        "",
        "[network]",
        *(f"{key} = {list(value) if isinstance(value, tuple) else value}" for key, value in shape.items()),
    ]
    (folder / "model.toml").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _quoted(text: str) -> str:
    """Return a TOML string: JSON's escapes are valid TOML for all but DEL and halves of surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
