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
from ctc_align.models.calibration import FILE as CALIBRATION
from ctc_align.models.calibration import Calibration, read_calibration
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import MIXTURES, REACH, Mixtures, from_weights, share_of_weight
from ctc_align.models.convnet.network import STRIDE, Network, NetworkShape
from ctc_align.types import Audio, Emissions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = "ctc-align-model/1"
MOST = 1000.0
"""No scale and no bonus of a model is larger."""
EMBEDDED = Path(__file__).resolve().parents[1] / "english"
CHUNK_S = 60.0
PIECE_FRAMES = 1024
"""Frames that go through the network in a row, a multiple of its stride; a chunk is so many pieces side by side."""
LAST_PIECES = 4
"""The last piece of several is as long as it must be, in quarters of a piece."""
KEPT_FRAMES = 12_000
"""Two minutes, whose features are 3 MB; those of longer audio are made three times."""
PIECES_ON_DEVICE = 128
"""Pieces that a device other than the CPU takes at once: 2 GB or so while they go through."""


@dataclass(frozen=True)
class Description:
    """What `model.toml` says of a model.

    `vocab` has the blank first. `parts` is the number of segmentation states of each token; the states of token k
    (counted without the blank) are k * parts …, the last state is silence. `prior_scale` weighs the log-priors that
    are taken off the state posteriors; `silence_bonus` (nats) is then added to silence, whose share of the training
    data says little about the recording at hand. `language` is that of the transcripts it learnt from, "" if not known.
    `mixture_weight` is that of the mixtures' log-posteriors among the states' scores, where the model has mixtures (see
    `ctc_align.models.convnet.gaussian_mixtures`).
    """

    name: str
    vocab: tuple[str, ...]
    shape: NetworkShape
    parts: int = 0
    prior_scale: float = 1.0
    silence_bonus: float = 0.0
    token_kind: str = "tokens"
    language: str = ""
    mixture_weight: float = 0.0


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
        calibration: Calibration | None = None,
    ) -> None:
        self.description = description
        self.calibration = calibration
        self.name = description.name
        self.vocab = description.vocab
        self.token_kind = description.token_kind
        self.device = device
        self.pieces_at_once = max(1, round(chunk_s / self.frame_shift_s) // PIECE_FRAMES)
        self._state_offset = _state_offset(description, weights).to(device)
        self._network = _network(description.shape, weights).to(device)
        mixtures = mixtures_of(description, weights)
        self._mixtures = None if mixtures is None else mixtures.to(device)

    @property
    def context_s(self) -> float:
        """What an output frame sees on either side, in seconds."""
        return self.description.shape.context_frames * self.frame_shift_s

    @torch.no_grad()
    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Log-probs (T, C) float32 on the CPU, one frame for every begun 10 ms, and the segmentation states (T, K).

        May be called by several threads at once.

        Args:
            audio: mono at 16 kHz.
            progress: called with the share done, in [0, 1].

        Raises:
            AudioError: no samples, or another rate.
        """
        heard = _Heard(self._checked(audio))
        result = self._empty(heard)
        pieces = heard.pieces()
        for first in range(0, len(pieces), self.pieces_at_once):
            together = pieces[first : first + self.pieces_at_once]
            # The last piece is shorter: alone, so that what is made of it does not depend on how many go at once.
            whole = [piece for piece in together if piece[1] == together[0][1]]
            for same in (whole, together[len(whole) :]):
                if same:
                    self._fill([(heard, piece, result) for piece in same], same[0][1])
            if progress:
                progress(min(1.0, sum(together[-1]) / heard.frames))
        return result

    @torch.no_grad()
    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Of each audio what `emissions` gives: on the CPU to the bit, with one number of torch's threads.

        There one after the other: a piece is large enough to keep a core busy, and convolutions of another shape would
        round differently. On other devices pieces of all audios go together, the long ones first.

        Raises:
            AudioError: an audio has no samples, or another rate.
        """
        if self.device.type == "cpu":
            return [self.emissions(audio) for audio in audios]
        every = [_Heard(self._checked(audio)) for audio in audios]
        results = [self._empty(heard) for heard in every]
        jobs = [(heard, piece, result) for heard, result in zip(every, results) for piece in heard.pieces()]
        jobs.sort(key=lambda job: -job[1][1])
        for first in range(0, len(jobs), PIECES_ON_DEVICE):
            together = jobs[first : first + PIECES_ON_DEVICE]
            self._fill(together, together[0][1][1])
        return results

    def _checked(self, audio: Audio) -> Audio:
        if audio.sample_rate != self.sample_rate or not len(audio.samples):
            raise AudioError(
                f"{audio.name or 'audio'}: expected samples at {self.sample_rate} Hz, "
                f"got {len(audio.samples)} samples at {audio.sample_rate} Hz"
            )
        return audio

    def _empty(self, heard: _Heard) -> Emissions:
        """Emissions whose values are not there yet."""
        audio, shape = heard.audio, self.description.shape
        return Emissions(
            torch.empty(heard.frames, shape.classes),
            self.vocab,
            self.frame_shift_s,
            self.blank,
            audio.offset_s,
            torch.empty(heard.frames, shape.states) if shape.states else None,
            audio.duration_s,
            audio.name,
        )

    def _fill(self, jobs: Sequence[tuple[_Heard, tuple[int, int], Emissions]], length: int) -> None:
        """Run the network over pieces side by side, each as if it had `length` frames, and write what comes out."""
        context = self.description.shape.context_frames
        inputs = torch.cat([heard.inputs(piece[0], length, context) for heard, piece, _ in jobs]).to(self.device)
        tokens, segments = self._network(inputs)
        log_probs = tokens.log_softmax(-1).cpu()
        shares = [heard.mixture_share for heard, _, _ in jobs]
        scores = None if segments is None else self._state_scores(segments, inputs, shares).cpu()
        for row, (heard, (first, _), result) in enumerate(jobs):
            count = min(length, heard.frames - first)
            result.log_probs[first : first + count] = log_probs[row, :count]
            if scores is not None and result.states is not None:
                result.states[first : first + count] = scores[row, :count]

    def _state_scores(self, segments: torch.Tensor, inputs: torch.Tensor, shares: Sequence[float]) -> torch.Tensor:
        """Scores (B, T, K) of the states from the network's output, and from the mixtures where there are any."""
        scores = segments.log_softmax(-1).add_(self._state_offset)
        if self._mixtures is not None:
            context, weight = self.description.shape.context_frames, self.description.mixture_weight
            for row, near, share in zip(scores, inputs, shares):
                if share:
                    seen = near[context - REACH : context + len(row) + REACH]
                    row += weight * share * self._mixtures.log_posteriors(seen)
        return scores


class _Heard:
    """Features of one audio: made once where they are few, else again for each pass."""

    def __init__(self, audio: Audio) -> None:
        self.audio = audio
        self.frames = features.frame_count(len(audio.samples))
        self._kept: torch.Tensor | None = None
        if self.frames <= KEPT_FRAMES:
            self._kept = torch.cat(list(self._walk()))
        self._statistics = features.gather_statistics(self._walk)
        self.mixture_share = share_of_weight(self._statistics)

    def _log_mel(self, first: int, last: int) -> torch.Tensor:
        if self._kept is not None:
            return self._kept[first:last]
        return features.log_mel(self.audio.samples, first, last)

    def _walk(self) -> Iterator[torch.Tensor]:
        for first in range(0, self.frames, PIECE_FRAMES):
            yield self._log_mel(first, min(self.frames, first + PIECE_FRAMES))

    def pieces(self) -> list[tuple[int, int]]:
        """First frame and length of each piece, a multiple of the stride; which ones depends on the audio alone."""
        if self.frames <= PIECE_FRAMES:
            return [(0, self.frames + self.frames % STRIDE)]
        whole, rest = divmod(self.frames, PIECE_FRAMES)
        pieces = [(first * PIECE_FRAMES, PIECE_FRAMES) for first in range(whole)]
        if rest:
            step = max(STRIDE, PIECE_FRAMES // LAST_PIECES // STRIDE * STRIDE)
            pieces.append((whole * PIECE_FRAMES, min(PIECE_FRAMES, -(-rest // step) * step)))
        return pieces

    def inputs(self, first: int, length: int, context: int) -> torch.Tensor:
        """Features of `length` frames from `first` on with their context, silence outside: (1, t, MELS)."""
        inside = max(0, first - context), min(self.frames, first + length + context)
        middle = features.normalise(self._log_mel(*inside), self._statistics)
        inputs = features.silence(self._statistics).repeat(length + 2 * context, 1)
        place = inside[0] - (first - context)
        inputs[place : place + len(middle)] = middle
        return inputs[None]


def _network(shape: NetworkShape, weights: dict[str, torch.Tensor]) -> Network:
    """The network with all its weights; one that is missing must not stay random."""
    network = Network(shape)
    counters = {name: value for name, value in network.state_dict().items() if name.endswith("num_batches_tracked")}
    others = {name for name in weights if name == "log_priors" or name.startswith(MIXTURES)}
    network.load_state_dict(counters | {name: w.float() for name, w in weights.items() if name not in others})
    return network.eval()


def mixtures_of(description: Description, weights: dict[str, torch.Tensor]) -> Mixtures | None:
    """The mixtures among a model's weights, if it has some."""
    return from_weights(weights, description.shape.states) if description.mixture_weight else None


def state_offset(log_priors: torch.Tensor, prior_scale: float, silence_bonus: float) -> torch.Tensor:
    """(K,) what is added to the states' log-posteriors: minus the scaled log-priors (K,), and silence's bonus."""
    offset = -log_priors.float() * prior_scale
    offset[-1:] += silence_bonus
    return offset


def _state_offset(description: Description, weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """`state_offset` of a model; without log-priors all states are equally likely."""
    states = description.shape.states
    log_priors = weights.get("log_priors", torch.zeros(states))
    if log_priors.shape != (description.shape.states,):
        raise ValueError(
            f"log_priors has shape {tuple(log_priors.shape)}, the network {description.shape.states} states"
        )
    return state_offset(log_priors, description.prior_scale, description.silence_bonus)


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
    known = folder / CALIBRATION
    calibration = read_calibration(known) if known.is_file() else None
    try:
        weights = load_file(str(folder / "model.safetensors"))
        return ConvNet(description, weights, device, getattr(settings, "chunk_s", CHUNK_S), calibration)
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
        raise UsageError(f"{path}: expected the description of a {FORMAT} model, got: {error}") from error


def _check(description: Description) -> None:
    """Raises ValueError where the parts of a description do not fit together."""
    shape, vocab, parts = description.shape, description.vocab, description.parts
    if not all(isinstance(token, str) and token for token in vocab) or len(set(vocab)) != len(vocab) or len(vocab) < 2:
        raise ValueError("vocab is not a list of two or more texts, or has one of them twice")
    for name, value in asdict(shape).items():
        for size in value if isinstance(value, (list, tuple)) else (value,):
            if type(size) is not int or size < (0 if name == "states" else 1):
                raise ValueError(f"network.{name} is not a whole number above 0: {value!r}")
    for name, least in (("prior_scale", -MOST), ("silence_bonus", -MOST), ("mixture_weight", 0.0)):
        value = getattr(description, name)
        if type(value) not in (int, float) or not least <= value <= MOST:
            raise ValueError(f"{name} is not a number from {least:g} to {MOST:g}: {value!r}")
    if not isinstance(description.language, str):
        raise ValueError(f"language is not a text: {description.language!r}")
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
    description: Description,
    network: Network,
    log_priors: torch.Tensor | None,
    dtype: torch.dtype,
    mixtures: Mixtures | None = None,
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
    if mixtures is not None:
        for name in ("weights", "means", "variances"):
            weights[MIXTURES + name] = getattr(mixtures, name).float().contiguous()
    # Written by hand: safetensors' own files are readable by their owner alone.
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
        *([f"mixture_weight = {description.mixture_weight}"] if mixtures is not None else []),
        "vocab = [" + ", ".join(_quoted(token) for token in description.vocab) + "]",
        "",
        "[network]",
        *(f"{key} = {list(value) if isinstance(value, tuple) else value}" for key, value in shape.items()),
    ]
    (folder / "model.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's, for all but DEL and halves of surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
