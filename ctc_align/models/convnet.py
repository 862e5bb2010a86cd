"""The project's own models: a folder with `model.toml` (what it is) and `model.safetensors` (its weights).

The embedded model is one of these. A recording of any length goes through in chunks with the network's whole context
on both sides, so the result is that of one pass, in bounded memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ctc_align.errors import AudioError, UsageError
from ctc_align.models import features
from ctc_align.models.network import STRIDE, Network, NetworkShape
from ctc_align.types import Audio, Emissions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = "ctc-align-model/1"
EMBEDDED = Path(__file__).parent / "english"
CHUNK_S = 60.0
PIECE_FRAMES = 1024
"""Frames that go through the network in a row, a multiple of its stride; a chunk is so many pieces side by side."""


@dataclass(frozen=True)
class Description:
    """What `model.toml` says of a model.

    `vocab` has the blank first. `parts` is the number of segmentation states of each token; the states of token k
    (counted without the blank) are k * parts …, the last state is silence. `prior_scale` weighs the log-priors that
    are taken off the state posteriors; `silence_bonus` (nats) is then added to silence, whose share of the training
    data says little about the recording at hand.
    """

    name: str
    vocab: tuple[str, ...]
    shape: NetworkShape
    parts: int = 0
    prior_scale: float = 1.0
    silence_bonus: float = 0.0
    token_kind: str = "tokens"


class ConvNet:
    """An `AcousticModel`: log-mel features, convolutions, two outputs."""

    sample_rate = features.SAMPLE_RATE
    frame_shift_s = features.FRAME_SHIFT_S
    blank = 0

    def __init__(
        self,
        description: Description,
        weights: dict[str, torch.Tensor],
        device: torch.device,
        chunk_s: float = CHUNK_S,
    ) -> None:
        self.description = description
        self.name = description.name
        self.vocab = description.vocab
        self.token_kind = description.token_kind
        self.device = device
        self.pieces_at_once = max(1, round(chunk_s / self.frame_shift_s) // PIECE_FRAMES)
        self._state_offset = _state_offset(description, weights).to(device)
        self._network = _network(description.shape, weights).to(device)

    @property
    def context_s(self) -> float:
        """What an output frame sees on either side, in seconds."""
        return self.description.shape.context_frames * self.frame_shift_s

    @torch.no_grad()
    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Log-probs (T, C) float32 on the CPU, one frame for every begun 10 ms, and the segmentation states (T, K).

        Args:
            audio: mono at 16 kHz.
            progress: called with the share done, in [0, 1].

        Raises:
            AudioError: no samples, or another rate.
        """
        if audio.sample_rate != self.sample_rate or not len(audio.samples):
            raise AudioError(
                f"{audio.name or 'audio'}: expected samples at {self.sample_rate} Hz, "
                f"met {len(audio.samples)} samples at {audio.sample_rate} Hz"
            )
        frames = features.frame_count(len(audio.samples))
        classes, states = self.description.shape.classes, self.description.shape.states
        log_probs = torch.empty(frames, classes)
        scores = torch.empty(frames, states) if states else None
        statistics = features.gather_statistics(self._pieces(audio, frames))
        # A piece has the same shape however many go at once, so floating-point sums come out the same, to the bit.
        length = min(PIECE_FRAMES, frames + frames % STRIDE)
        chunk = length * self.pieces_at_once
        for first in range(0, frames, chunk):
            last = min(frames, first + chunk)
            starts = range(first, last, length)
            inputs = torch.cat([self._inputs(audio, start, length, frames, statistics) for start in starts])
            tokens, segments = self._network(inputs)
            log_probs[first:last] = tokens.flatten(0, 1)[: last - first].log_softmax(-1).cpu()
            if scores is not None and segments is not None:
                posteriors = segments.flatten(0, 1)[: last - first].log_softmax(-1)
                scores[first:last] = (posteriors + self._state_offset).cpu()
            if progress:
                progress(last / frames)
        return Emissions(
            log_probs, self.vocab, self.frame_shift_s, self.blank, audio.offset_s, scores, audio.duration_s, audio.name
        )

    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Of each what `emissions` gives, to the bit on one machine with one number of torch's threads."""
        return [self.emissions(audio) for audio in audios]

    def _pieces(self, audio: Audio, frames: int) -> Callable[[], Iterator[torch.Tensor]]:
        def walk() -> Iterator[torch.Tensor]:
            for first in range(0, frames, PIECE_FRAMES):
                yield features.log_mel(audio.samples, first, min(frames, first + PIECE_FRAMES))

        return walk

    def _inputs(
        self, audio: Audio, first: int, length: int, frames: int, statistics: features.Statistics
    ) -> torch.Tensor:
        """Features of `length` frames from `first` on with their context, silence outside: (1, t, MELS)."""
        context = self.description.shape.context_frames
        inside = max(0, first - context), min(frames, first + length + context)
        middle = features.normalise(features.log_mel(audio.samples, *inside), statistics)
        inputs = features.silence(statistics).repeat(length + 2 * context, 1)
        place = inside[0] - (first - context)
        inputs[place : place + len(middle)] = middle
        return inputs[None].to(self.device)


def _network(shape: NetworkShape, weights: dict[str, torch.Tensor]) -> Network:
    """The network with all its weights; one that is missing must not stay random."""
    network = Network(shape)
    counters = {name: value for name, value in network.state_dict().items() if name.endswith("num_batches_tracked")}
    network.load_state_dict(counters | {name: w.float() for name, w in weights.items() if name != "log_priors"})
    return network.eval()


def _state_offset(description: Description, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """(K,) what is added to the states' log-posteriors: minus the scaled log-priors, and silence's bonus."""
    states = description.shape.states
    log_priors = weights.get("log_priors", torch.zeros(states))
    if log_priors.shape != (description.shape.states,):
        raise ValueError(
            f"log_priors has shape {tuple(log_priors.shape)}, the network {description.shape.states} states"
        )
    offset = -log_priors.float() * description.prior_scale
    offset[-1:] += description.silence_bonus
    return offset


def load_embedded(device: torch.device, settings: Any = None) -> ConvNet:
    """The English model inside the package."""
    return load_folder(EMBEDDED, device, settings)


def load_folder(folder: Path, device: torch.device, settings: Any = None) -> ConvNet:
    """A model from its folder.

    Raises:
        UsageError: `model.toml` is not a description of a model, or the weights do not fit it.
    """
    from safetensors.torch import load_file

    description = _read_description(folder / "model.toml")
    try:
        weights = load_file(str(folder / "model.safetensors"))
        return ConvNet(description, weights, device, getattr(settings, "chunk_s", CHUNK_S))
    except Exception as error:  # safetensors and torch have their own kinds, and all mean the same here
        reason = " ".join(str(error).split())[:300]
        raise UsageError(
            f"model {folder}: the weights cannot be loaded as model.toml describes them: {reason}"
        ) from error


def _read_description(path: Path) -> Description:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") != FORMAT:
            raise ValueError(f"format is not {FORMAT}")
        shape = data.pop("network")
        if not isinstance(shape, dict):
            raise ValueError("network is not a table")
        shape["dilations"] = tuple(shape["dilations"])
        vocab = tuple(data.pop("vocab"))
        description = Description(shape=NetworkShape(**shape), vocab=vocab, **data)
        _check(description)
        return description
    except KeyError as error:
        raise UsageError(f"{path}: expected the description of a {FORMAT} model, it lacks {error}") from error
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: expected the description of a {FORMAT} model, met: {error}") from error


def _check(description: Description) -> None:
    """Raises ValueError where the parts of a description do not fit together."""
    shape, vocab, parts = description.shape, description.vocab, description.parts
    if not all(isinstance(token, str) and token for token in vocab) or len(set(vocab)) != len(vocab) or len(vocab) < 2:
        raise ValueError("vocab is not a list of two or more texts, or has one of them twice")
    for name, value in asdict(shape).items():
        for size in value if isinstance(value, (list, tuple)) else (value,):
            if type(size) is not int or size < (0 if name == "states" else 1):
                raise ValueError(f"network.{name} is not a whole number above 0: {value!r}")
    for name in ("prior_scale", "silence_bonus"):
        if not isinstance(getattr(description, name), (int, float)):
            raise ValueError(f"{name} is not a number: {getattr(description, name)!r}")
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
    folder: Path, description: Description, network: Network, log_priors: torch.Tensor | None, dtype: torch.dtype
) -> None:
    """Write a model's folder; weights are stored as `dtype`, normalisation statistics as float32."""
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: value.to(dtype).contiguous() if value.dim() > 1 else value.float().contiguous()
        for name, value in network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    if log_priors is not None:
        weights["log_priors"] = log_priors.float()
    # Written by hand: safetensors' own files are readable by their owner alone.
    (folder / "model.safetensors").write_bytes(save(weights, metadata={"format": FORMAT}))
    shape = asdict(description.shape)
    lines = [
        "# A model of ctc-align: what its weights are. README.md beside it says how it was made.",
        f'format = "{FORMAT}"',
        f'name = "{description.name}"',
        f'token_kind = "{description.token_kind}"',
        f"parts = {description.parts}",
        f"prior_scale = {description.prior_scale}",
        f"silence_bonus = {description.silence_bonus}",
        "vocab = [" + ", ".join(_quoted(token) for token in description.vocab) + "]",
        "",
        "[network]",
        *(f"{key} = {list(value) if isinstance(value, tuple) else value}" for key, value in shape.items()),
    ]
    (folder / "model.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's, for all but DEL and halves of surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
