"""The project's own models: a folder with `model.toml` (the description) and `model.safetensors` (the weights).

The folder may also hold what was learnt with the model: `calibration.toml`, `confidence.safetensors`,
`edges.safetensors`.
The embedded models are such folders. A recording of any length goes through in chunks with the network's whole context
on both sides, so the result is that of one pass, in bounded memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from ctc_align.config import Settings, read_toml
from ctc_align.errors import AudioError, ConfigError, UsageError, one_line
from ctc_align.models.acoustic_model import AcousticModel
from ctc_align.models.calibration import calibration_in
from ctc_align.models.confidence_network import load_confidence_network
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import MIXTURES, REACH, Mixtures, from_weights, share_of_weight
from ctc_align.models.convnet.network import STRIDE, AcousticNetwork, InferenceNetwork, NetworkShape
from ctc_align.models.edge_network import load_edge_network
from ctc_align.reading import shown
from ctc_align.reading.rows_on_disk import RowsOnDisk, TensorOnDisk
from ctc_align.threads import side_by_side
from ctc_align.types import Audio, Emissions
from ctc_align.units import samples_to_seconds

PIECE_FRAMES = 1024
"""Frames of a piece that goes through the network, a multiple of its stride; a chunk is several pieces side by side."""
STEP_FRAMES = 32
"""A recording shorter than a piece is rounded up to these steps, so that torch can reuse its preparations for a
length."""
LAST_PIECES = 4
"""The last piece of several is rounded up to quarters of a piece."""
CACHED_FRAMES = 12_000
"""Features of at most two minutes (3 MB) are cached; those of longer audio are computed three times."""
STATES_BYTES = 2**28
"""Segmentation states that would take more memory (an hour and a half) lie on disk, if the device is the CPU."""
PIECES_ON_DEVICE = 128
"""Pieces that a device other than the CPU computes at once: about 2 GB."""
Job: TypeAlias = "tuple[_Recording, tuple[int, int], Emissions]"
"""A piece of a recording (first frame and length), and the emissions that it belongs to."""


@dataclass(frozen=True)
class ModelDescription:
    """The contents of `model.toml`.

    `vocab` has the blank first. `parts` is the number of segmentation states of each token; the states of token k
    (counted without the blank) are k * parts …, the last state is silence. `prior_scale` weighs the log-priors that are
    subtracted from the state posteriors; `silence_bonus` (nats) is then added to silence, whose share of the training
    data says little about the recording at hand. `language` is that of the training transcripts, "" if unknown.
    Noise looks like silence where sounds are weak, so up to `noise_malus` nats are subtracted from silence again, all
    of them if the mixtures have no weight (`ctc_align.models.convnet.gaussian_mixtures.share_of_weight`).
    `mixture_weight` is that of the mixtures' log-posteriors among the states' scores, 0 for a model without mixtures
    (see `ctc_align.models.convnet.gaussian_mixtures`).
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
    noise_malus: float = 0.0


class ConvNet(AcousticModel):
    """Log-mel features, convolutions, two outputs."""

    sample_rate = features.SAMPLE_RATE
    frame_shift_s = features.FRAME_SHIFT_S
    blank = 0

    def __init__(
        self,
        description: ModelDescription,
        weights: dict[str, torch.Tensor],
        device: torch.device,
        settings: Settings | None = None,
    ) -> None:
        self.description = description
        self.name = description.name
        self.vocab = description.vocab
        self.token_kind = description.token_kind
        self.device = device
        settings = settings or Settings()
        self.pieces_at_once = max(1, round(settings.chunk_s / self.frame_shift_s) // PIECE_FRAMES)
        precision = torch.float32 if settings.precision == "auto" else getattr(torch, settings.precision)
        self.network = InferenceNetwork(network_with(description.shape, weights), precision).to(device)
        self.scoring = state_scoring(description, weights).to(device)
        # a window around each of the frames that an output frame sees
        context_s = description.shape.context_frames * self.frame_shift_s
        self.receptive_field_s = 2 * context_s + samples_to_seconds(features.WINDOW_SAMPLES, self.sample_rate)
        mixtures = self.scoring.mixtures
        self.gaussians_per_state = 0 if mixtures is None else mixtures.weights.shape[1]

    @torch.no_grad()
    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Return log-probs (T, C) float32, one frame for every begun 10 ms, and the segmentation states (T, K).

        Both lie on the model's device. May be called by several threads at once.

        Args:
            audio: mono at 16 kHz.
            progress: called with the completed share, in [0, 1].

        Raises:
            AudioError: there are no samples, or their rate is wrong.
        """
        self._checked(audio)
        if self.device.type == "cpu":
            return self._on_processor([audio], progress)[0]
        recording = _Recording(audio)
        result = self._empty(recording)
        for jobs in self._chunks(recording, result):
            self._fill(jobs)
            if progress:
                progress(_share_done(jobs))
        return result

    @torch.no_grad()
    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Return the emissions of each audio; on the CPU with the same bits as `emissions`.

        On the CPU, each chunk of an audio is computed alone, and several at once: a piece is large enough to keep a
        core busy, and convolutions of a different shape would round differently. On other devices, pieces of all
        audios are batched together, the longest first.

        Raises:
            AudioError: an audio has no samples, or the wrong rate.
        """
        if self.device.type == "cpu":
            return self._on_processor([self._checked(audio) for audio in audios])
        recordings = [_Recording(self._checked(audio)) for audio in audios]
        results = [self._empty(recording) for recording in recordings]
        jobs = [
            (recording, piece, result) for recording, result in zip(recordings, results) for piece in recording.pieces()
        ]
        jobs.sort(key=lambda job: -job[1][1])
        for first in range(0, len(jobs), PIECES_ON_DEVICE):
            self._fill(jobs[first : first + PIECES_ON_DEVICE])
        return results

    def _on_processor(
        self, audios: Sequence[Audio], progress: Callable[[float], None] | None = None
    ) -> list[Emissions]:
        """Return the emissions of each audio, computed in threads of their own."""
        recordings = list(side_by_side(partial(_Recording, audio) for audio in audios))
        results = [self._empty(recording) for recording in recordings]
        chunks = [jobs for pair in zip(recordings, results) for jobs in self._chunks(*pair)]
        for jobs, rows in zip(chunks, side_by_side(partial(self._fill, jobs) for jobs in chunks)):
            on_disk = jobs[0][2].states
            if isinstance(on_disk, TensorOnDisk):
                on_disk.rows.append(rows)
            if progress:
                progress(_share_done(jobs))
        return results

    def _chunks(self, recording: _Recording, result: Emissions) -> Iterator[list[Job]]:
        """Yield the pieces of a recording that go through the network at once."""
        pieces = recording.pieces()
        for first in range(0, len(pieces), self.pieces_at_once):
            together = pieces[first : first + self.pieces_at_once]
            # The last piece is shorter and goes alone: its result must not depend on how many go at once.
            whole = [piece for piece in together if piece[1] == together[0][1]]
            for same in (whole, together[len(whole) :]):
                if same:
                    yield [(recording, piece, result) for piece in same]

    def _checked(self, audio: Audio) -> Audio:
        if audio.sample_rate != self.sample_rate or not len(audio.samples):
            raise AudioError(
                f"{audio.name or 'audio'}: expected samples at {self.sample_rate} Hz, "
                f"got {len(audio.samples)} samples at {audio.sample_rate} Hz"
            )
        return audio

    def _empty(self, recording: _Recording) -> Emissions:
        """Return emissions whose values are not set yet."""
        audio, shape, frames = recording.audio, self.description.shape, recording.frames
        return Emissions(
            torch.empty(frames, shape.classes, device=self.device),
            self.vocab,
            self.frame_shift_s,
            self.blank,
            audio.offset_s,
            self._empty_states(frames, audio.name),
            audio.duration_s,
            audio.name,
        )

    def _empty_states(self, frames: int, name: str) -> torch.Tensor | TensorOnDisk | None:
        count = self.description.shape.states
        if self.device.type == "cpu" and 4 * frames * count > STATES_BYTES:
            return TensorOnDisk(RowsOnDisk((count,), f"{name or 'audio'}: its segmentation states"), 0, frames)
        return torch.empty(frames, count, device=self.device) if count else None

    @torch.no_grad()
    def _fill(self, jobs: Sequence[Job]) -> np.ndarray:
        """Run the network over pieces side by side, each as if it were as long as the first, and store the results.

        Returns the states (T, K) of results that have them on disk.
        """
        context, length = self.description.shape.context_frames, jobs[0][1][1]
        inputs = torch.cat([recording.inputs(piece[0], length, context) for recording, piece, _ in jobs])
        inputs = inputs.to(self.device)
        tokens, segments = self.network(inputs)
        log_probs = tokens.log_softmax(-1)
        shares = [recording.mixture_share for recording, _, _ in jobs]
        scores = None if segments is None else self.scoring.scores(segments, inputs, shares)
        on_disk = [np.empty((0, self.description.shape.states), np.float32)]
        for row, (recording, (first, _), result) in enumerate(jobs):
            count = min(length, recording.frames - first)
            result.log_probs[first : first + count] = log_probs[row, :count]
            if scores is None or result.states is None:
                continue
            if isinstance(result.states, torch.Tensor):
                result.states[first : first + count] = scores[row, :count]
            else:
                on_disk.append(scores[row, :count].numpy())
        return np.concatenate(on_disk)


def _share_done(jobs: Sequence[Job]) -> float:
    """Return the share of the last recording that is done with these pieces."""
    recording, piece, _ = jobs[-1]
    return min(1.0, sum(piece) / recording.frames)


class _Recording:
    """Features of one audio: cached if they are few, otherwise computed again for each pass."""

    def __init__(self, audio: Audio) -> None:
        self.audio = audio
        self.frames = features.frame_count(len(audio.samples))
        self._cached: torch.Tensor | None = None
        if self.frames <= CACHED_FRAMES:
            self._cached = torch.cat(list(self._blocks()))
        self._statistics = features.gather_statistics(self._blocks)
        self.mixture_share = share_of_weight(self._statistics)

    def _log_mel(self, first: int, last: int) -> torch.Tensor:
        if self._cached is not None:
            return self._cached[first:last]
        return features.log_mel(self.audio.samples, first, last)

    def _blocks(self) -> Iterator[torch.Tensor]:
        for first in range(0, self.frames, PIECE_FRAMES):
            yield self._log_mel(first, min(self.frames, first + PIECE_FRAMES))

    def pieces(self) -> list[tuple[int, int]]:
        """Return first frame and length (a multiple of the stride) of each piece; they depend on the audio alone."""
        if self.frames <= PIECE_FRAMES:
            return [(0, min(PIECE_FRAMES, -(-self.frames // STEP_FRAMES) * STEP_FRAMES))]
        whole, rest = divmod(self.frames, PIECE_FRAMES)
        pieces = [(first * PIECE_FRAMES, PIECE_FRAMES) for first in range(whole)]
        if rest:
            step = max(STRIDE, PIECE_FRAMES // LAST_PIECES // STRIDE * STRIDE)
            pieces.append((whole * PIECE_FRAMES, min(PIECE_FRAMES, -(-rest // step) * step)))
        return pieces

    def inputs(self, first: int, length: int, context: int) -> torch.Tensor:
        """Return features (1, t, MELS) of `length` frames from `first` on with their context, silence outside."""
        inside = max(0, first - context), min(self.frames, first + length + context)
        middle = features.normalise(self._log_mel(*inside), self._statistics)
        inputs = features.silence(self._statistics).repeat(length + 2 * context, 1)
        begin = inside[0] - (first - context)
        inputs[begin : begin + len(middle)] = middle
        return inputs[None]


def network_with(shape: NetworkShape, weights: dict[str, torch.Tensor]) -> AcousticNetwork:
    """Return the network in evaluation mode with all its weights, float32.

    Raises:
        RuntimeError: weights are missing, superfluous, or have the wrong shape.
    """
    network = AcousticNetwork(shape)
    counters = {name: value for name, value in network.state_dict().items() if name.endswith("num_batches_tracked")}
    others = {name for name in weights if name == "log_priors" or name.startswith(MIXTURES)}
    network.load_state_dict(counters | {name: w.float() for name, w in weights.items() if name not in others})
    return network.eval()


def mixtures_of(description: ModelDescription, weights: dict[str, torch.Tensor]) -> Mixtures | None:
    """Return the mixtures among a model's weights, None if it has none."""
    return from_weights(weights, description.shape.states) if description.mixture_weight else None


def state_offset(log_priors: torch.Tensor, prior_scale: float, silence_bonus: float) -> torch.Tensor:
    """Return what is added to the states' log-posteriors (K,): minus the scaled log-priors, plus silence's bonus."""
    offset = -log_priors.float() * prior_scale
    offset[-1:] += silence_bonus
    return offset


@dataclass(frozen=True)
class StateScoring:
    """How the network's second output becomes the scores of the segmentation states.

    The score of state k at frame t, for a recording whose share of the mixtures' weight is s, is

        log p(k | t) − prior_scale · log p(k) + bonus(k) + s · mixture_weight · log p_mixtures(k | t)

    where the bonus is silence_bonus − (1 − s) · noise_malus for silence and 0 for all other states.

    Attributes:
        offset: (K,) is added to the log-posteriors.
        mixtures: score the states as well; None: only the network does.
        description: the model's; uses `mixture_weight`, `noise_malus` and the context of its network's `shape`.
    """

    offset: torch.Tensor
    mixtures: Mixtures | None
    description: ModelDescription

    def to(self, device: torch.device) -> StateScoring:
        """Return a copy on another device."""
        mixtures = None if self.mixtures is None else self.mixtures.to(device)
        return replace(self, offset=self.offset.to(device), mixtures=mixtures)

    def scores(self, segments: torch.Tensor, inputs: torch.Tensor, shares: Sequence[float]) -> torch.Tensor:
        """Return the scores (B, T, K) of the states.

        Args:
            segments: (B, T, K), the network's second output.
            inputs: (B, T + 2 * context, MELS), its inputs.
            shares: of the mixtures' weight, for each recording: `gaussian_mixtures.share_of_weight`.
        """
        scores = segments.log_softmax(-1).add_(self.offset)
        if self.description.noise_malus:
            for row, share in zip(scores, shares):
                row[:, -1] -= self.description.noise_malus * (1.0 - share)
        if self.mixtures is not None:
            context = self.description.shape.context_frames
            for row, near, share in zip(scores, inputs, shares):
                if share:
                    frames = near[context - REACH : context + len(row) + REACH]
                    row += self.description.mixture_weight * share * self.mixtures.log_posteriors(frames)
        return scores


def state_scoring(description: ModelDescription, weights: dict[str, torch.Tensor]) -> StateScoring:
    """Return how a model scores its segmentation states; without log-priors all are equally likely.

    Raises:
        ValueError: the log-priors or the mixtures have a different number of states.
    """
    states = description.shape.states
    log_priors = weights.get("log_priors", torch.zeros(states))
    if log_priors.shape != (states,):
        raise ValueError(f"log_priors has shape {tuple(log_priors.shape)}, the network {states} states")
    return StateScoring(
        state_offset(log_priors, description.prior_scale, description.silence_bonus),
        mixtures_of(description, weights),
        description,
    )


# The folder of a model: read, checked and written.

FORMAT = "ctc-align-model/1"
LARGEST = 1000.0
"""Limit of a model's scales and bonuses."""
WIDEST, DEEPEST = 2**20, 1000
"""Limits of a network's sizes, and of the number of its layers."""


def load_folder(folder: Path, device: torch.device, settings: Settings | None = None) -> ConvNet:
    """Load a model from its folder.

    Raises:
        UsageError: `model.toml` is not the description of a model, or the weights do not fit it.
    """
    from safetensors.torch import load_file

    description = _read_description(folder / "model.toml")
    calibration = calibration_in(folder)
    confidence_network, edge_network = load_confidence_network(folder), load_edge_network(folder)
    try:
        weights = load_file(str(folder / "model.safetensors"))
        _check_sizes(description.shape, weights)
        model = ConvNet(description, weights, device, settings)
    except Exception as error:  # safetensors and torch raise various kinds, and all mean the same here
        raise UsageError(
            f"model {folder}: the weights cannot be loaded as model.toml describes them: {one_line(error, 300)}"
        ) from error
    model.calibration, model.confidence_network, model.edge_network = calibration, confidence_network, edge_network
    return model


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
    """Raise ValueError if a network's sizes do not match its weights, before any memory is allocated for it."""
    with torch.device("meta"):
        network = AcousticNetwork(shape)
    for name, wanted in network.state_dict().items():
        if name in weights and weights[name].shape != wanted.shape:
            raise ValueError(f"{name}: expected the shape {tuple(wanted.shape)}, got {tuple(weights[name].shape)}")
        if name not in weights and wanted.numel() > 1:
            raise ValueError(f"{name} is missing")


def _check(description: ModelDescription) -> None:
    """Raise ValueError if the parts of a description do not fit together."""
    shape, vocab, parts = description.shape, description.vocab, description.parts
    if not all(isinstance(token, str) and token for token in vocab) or len(set(vocab)) != len(vocab) or len(vocab) < 2:
        raise ValueError("vocab is not a list of two or more strings, or has one of them twice")
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
        raise ValueError(f"parts is not a whole number, or the network has more than {DEEPEST} layers")
    if shape.inputs != features.MELS:
        raise ValueError(
            f"the network has {shape.inputs} inputs; expected {features.MELS} inputs, one for each mel channel"
        )
    if shape.classes != len(vocab):
        raise ValueError(f"the network has {shape.classes} classes, vocab {len(vocab)} tokens")
    each, odd = divmod(shape.states - 1, len(vocab) - 1)
    if shape.states and (odd or each < 1 or parts not in (0, each)):
        raise ValueError(
            f"the network has {shape.states} states; expected {parts or 'the same number'} for each token, and silence"
        )


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
    """Return a TOML string: JSON's escapes are valid TOML, except for DEL and halves of surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
