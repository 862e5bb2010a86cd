"""The project's own models.

Each is a folder with `model.toml` (the description) and `model.safetensors` (the weights). The
folder may also hold what was learnt with the model: `calibration.toml`, `confidence.safetensors`,
`edges.safetensors`. The embedded models are such folders. A recording of any length goes through in
chunks with the network's whole context on both sides, so the result is that of one pass, in bounded
memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align.config import Settings, read_toml
from ctc_align.errors import AudioError, ConfigError, MissingExtraError, UsageError, one_line
from ctc_align.extras import require_torch
from ctc_align.kernels.log_space import log_softmax
from ctc_align.machine.rows_on_disk import ArrayOnDisk, RowsOnDisk
from ctc_align.models.acoustic_model import AcousticModel, Device
from ctc_align.models.calibration import calibration_in, load_durations, load_native_speech
from ctc_align.models.confidence_network import load_confidence_network
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import (
    MIXTURES,
    Mixtures,
    StateScoring,
    from_weights,
    level_range,
)
from ctc_align.models.convnet.inference import STRIDE, InferenceNetwork, NetworkShape, folded_layers
from ctc_align.models.edge_network import load_edge_network
from ctc_align.models.network_files import check_weights
from ctc_align.reading import shown
from ctc_align.threads import side_by_side
from ctc_align.types import Audio, Emissions
from ctc_align.units import samples_to_seconds

if TYPE_CHECKING:
    import torch

    from ctc_align.models.convnet.network import AcousticNetwork, DeviceNetwork

PIECE_FRAMES = 1024
"""Frames of a piece that goes through the network, a multiple of its stride."""
STEP_FRAMES = 32
"""Recordings shorter than a piece are rounded up to these steps, so that they share batches."""
LAST_PIECES = 4
"""The last piece of several is rounded up to quarters of a piece."""
CACHED_FRAMES = 12_000
"""Features of at most two minutes (3 MB) are cached; longer ones are computed three times."""
STATES_BYTES = 2**28
"""Larger segmentation states (an hour and a half) lie on disk, if the device is the CPU."""
PIECES_ON_DEVICE = 128
"""Pieces that a device other than the CPU computes at once: about 2 GB."""


@dataclass(frozen=True)
class ModelDescription:
    """The contents of `model.toml`.

    `vocab` has the blank first. `parts` is the number of segmentation states of each token; the
    states of token k (counted without the blank) are k * parts …, the last state is silence.
    `prior_scale` weighs the log-priors that are subtracted from the state posteriors;
    `silence_bonus` (nats) is then added to silence, whose share of the training data says little
    about the recording at hand. `language` is that of the training transcripts, "" if unknown.
    Noise looks like silence where sounds are weak, so up to `noise_malus` nats are subtracted from
    silence again, the more the less the loud frames are above the quiet ones
    (`ctc_align.models.convnet.gaussian_mixtures.level_range`). `mixture_weight` is that of the
    mixtures' log-posteriors among the states' scores, 0 for a model without mixtures (see
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
    noise_malus: float = 0.0


class ConvNet(AcousticModel):
    """Log-mel features, convolutions, two outputs."""

    sample_rate = features.SAMPLE_RATE
    frame_shift_s = features.FRAME_SHIFT_S
    blank = 0

    def __init__(
        self,
        description: ModelDescription,
        weights: Mapping[str, np.ndarray],
        device: str | Device | torch.device,
        settings: Settings | None = None,
    ) -> None:
        self.description = description
        self.name = description.name
        self.vocab = description.vocab
        self.token_kind = description.token_kind
        settings = settings or Settings()
        self.pieces_at_once = max(1, round(settings.chunk_s / self.frame_shift_s) // PIECE_FRAMES)
        self.scoring = state_scoring(description, weights)
        layers = folded_layers(description.shape, weights)
        self.network = InferenceNetwork(description.shape, layers)
        self.device_network: DeviceNetwork | None = None
        """Computes the emissions with torch, on a GPU or in other precisions than float32."""
        if settings.precision == "auto":
            precision = "float32"
        else:
            precision = settings.precision
        if str(device) != "cpu" or precision != "float32":
            require_torch(f"precision {precision}" if str(device) == "cpu" else f"device {device}")
            import torch

            from ctc_align.models.convnet.network import DeviceNetwork

            made = DeviceNetwork(description.shape, layers, self.scoring, getattr(torch, precision))
            self.device_network = made.to(str(device))
        # a window around each of the frames that an output frame sees
        context_s = description.shape.context_frames * self.frame_shift_s
        self.receptive_field_s = 2 * context_s + samples_to_seconds(
            features.WINDOW_SAMPLES, self.sample_rate
        )
        mixtures = self.scoring.mixtures
        if mixtures is None:
            self.gaussians_per_state = 0
        else:
            self.gaussians_per_state = mixtures.weights.shape[1]

    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Return log-probs (T, C) float32 and the segmentation states (T, K).

        There is one frame for every begun 10 ms. Both lie on the model's device. May be called by
        several threads at once.

        Args:
            audio: mono at 16 kHz.
            progress: called with the completed share, in [0, 1].

        Raises:
            AudioError: there are no samples, or their rate is wrong.
        """
        if self.device_network is not None:
            return self._on_device(self.device_network, [audio], self.pieces_at_once, progress)[0]
        return self._on_processor([audio], progress)[0]

    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Return the emissions of each audio.

        On the CPU, in float32, they have the same bits as those of `emissions`. On the CPU, each
        piece of an audio is computed alone, and several at once: a piece is large enough to keep a
        core busy, and products of a different shape would round differently. On other devices,
        pieces of all audios are batched together, the longest first.

        Raises:
            AudioError: an audio has no samples, or the wrong rate.
        """
        if self.device_network is not None:
            return self._on_device(self.device_network, audios, PIECES_ON_DEVICE)
        return self._on_processor(audios)

    def _on_processor(
        self, audios: Sequence[Audio], progress: Callable[[float], None] | None = None
    ) -> list[Emissions]:
        """Return the emissions of each audio, whose pieces are computed in threads of their own."""
        checked = [self._checked(audio) for audio in audios]
        recordings = list(side_by_side(partial(_Recording, audio) for audio in checked))
        pieces = [(recording, piece) for recording in recordings for piece in recording.pieces()]
        results = side_by_side(partial(self._computed, *piece) for piece in pieces)
        found = []
        for recording in recordings:
            log_probs = np.empty((recording.frames, self.description.shape.classes), np.float32)
            states = self._empty_states(recording)
            for first, length in recording.pieces():
                log_probs[first : first + length], scores = next(results)
                if isinstance(states, RowsOnDisk):
                    states.append(scores)
                elif states is not None:
                    states[first : first + length] = scores
                if progress:
                    progress(min(1.0, (first + length) / recording.frames))
            rows = ArrayOnDisk(states) if isinstance(states, RowsOnDisk) else states
            found.append(self._emissions_of(recording, log_probs, rows))
        return found

    def _computed(
        self, recording: _Recording, piece: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log-probs (t, C) and the states' scores (t, K) of a piece.

        They end where the recording ends.
        """
        first, length = piece
        inputs = recording.inputs(first, length, self.description.shape.context_frames)
        tokens, segments = self.network(inputs)
        count = min(length, recording.frames - first)
        if self.description.shape.states:
            segments = self.scoring.scores(segments, inputs, recording.level_range_nats)
        return log_softmax(tokens)[:count], segments[:count]

    def _empty_states(self, recording: _Recording) -> np.ndarray | RowsOnDisk | None:
        count = self.description.shape.states
        if 4 * recording.frames * count > STATES_BYTES:
            return RowsOnDisk(
                (count,), f"{recording.audio.name or 'audio'}: its segmentation states"
            )
        if count:
            return np.empty((recording.frames, count), np.float32)
        return None

    def _on_device(
        self,
        network: DeviceNetwork,
        audios: Sequence[Audio],
        at_once: int,
        progress: Callable[[float], None] | None = None,
    ) -> list[Emissions]:
        """Return the emissions of each audio from a network of torch, for `at_once` pieces at once.

        Each piece is computed as if it were as long as the longest at once.
        """
        import torch

        shape = self.description.shape
        recordings = [_Recording(self._checked(audio)) for audio in audios]
        tensors = [
            (
                torch.empty(recording.frames, shape.classes, device=network.device),
                (
                    torch.empty(recording.frames, shape.states, device=network.device)
                    if shape.states
                    else None
                ),
            )
            for recording in recordings
        ]
        jobs = [(pair, piece) for pair in zip(recordings, tensors) for piece in pair[0].pieces()]
        jobs.sort(key=lambda job: -job[1][1])
        for begin in range(0, len(jobs), at_once):
            batch = jobs[begin : begin + at_once]
            length = batch[0][1][1]
            inputs = [
                recording.inputs(first, length, shape.context_frames)
                for (recording, _), (first, _) in batch
            ]
            with torch.no_grad():
                results = network(
                    inputs, [recording.level_range_nats for (recording, _), _ in batch]
                )
            for row, ((recording, outputs), (first, own)) in enumerate(batch):
                last = min(first + own, recording.frames)
                for output, result in zip(outputs, results):
                    if output is not None:
                        output[first:last] = result[row, : last - first]
            if progress:
                progress(min(1.0, sum(batch[-1][1]) / batch[-1][0][0].frames))
        return [
            self._emissions_of(recording, *outputs)
            for recording, outputs in zip(recordings, tensors)
        ]

    def _emissions_of(self, recording: _Recording, log_probs: Any, states: Any) -> Emissions:
        audio = recording.audio
        return Emissions(
            log_probs,
            self.vocab,
            self.frame_shift_s,
            self.blank,
            audio.offset_s,
            states,
            audio.duration_s,
            audio.name,
        )

    def _checked(self, audio: Audio) -> Audio:
        if audio.sample_rate != self.sample_rate or not len(audio.samples):
            raise AudioError(
                f"{audio.name or 'audio'}: expected samples at {self.sample_rate} Hz, "
                f"got {len(audio.samples)} samples at {audio.sample_rate} Hz"
            )
        return audio


class _Recording:
    """Features of one audio: cached if they are few, otherwise computed again for each pass."""

    def __init__(self, audio: Audio) -> None:
        self.audio = audio
        self.frames = features.frame_count(len(audio.samples))
        self._cached: np.ndarray | None = None
        if self.frames <= CACHED_FRAMES:
            self._cached = np.concatenate(list(self._blocks()))
        self._statistics = features.gather_statistics(self._blocks)
        self.level_range_nats = level_range(self._statistics)

    def _log_mel(self, first: int, last: int) -> np.ndarray:
        if self._cached is not None:
            return self._cached[first:last]
        return features.log_mel(self.audio.samples, first, last)

    def _blocks(self) -> Iterator[np.ndarray]:
        for first in range(0, self.frames, PIECE_FRAMES):
            yield self._log_mel(first, min(self.frames, first + PIECE_FRAMES))

    def pieces(self) -> list[tuple[int, int]]:
        """Return first frame and length of each piece.

        A length is a multiple of the stride; the pieces depend on the audio alone.
        """
        if self.frames <= PIECE_FRAMES:
            return [(0, min(PIECE_FRAMES, -(-self.frames // STEP_FRAMES) * STEP_FRAMES))]
        whole, rest = divmod(self.frames, PIECE_FRAMES)
        pieces = [(first * PIECE_FRAMES, PIECE_FRAMES) for first in range(whole)]
        if rest:
            step = max(STRIDE, PIECE_FRAMES // LAST_PIECES // STRIDE * STRIDE)
            pieces.append((whole * PIECE_FRAMES, min(PIECE_FRAMES, -(-rest // step) * step)))
        return pieces

    def inputs(self, first: int, length: int, context: int) -> np.ndarray:
        """Return features (t, MELS) of `length` frames from `first` on, with their context.

        Outside the recording they are those of silence.
        """
        inside = max(0, first - context), min(self.frames, first + length + context)
        middle = features.normalise(self._log_mel(*inside), self._statistics)
        before = inside[0] - (first - context)
        after = first + length + context - inside[1]
        silence = features.silence(self._statistics)[None]
        return np.concatenate((silence.repeat(before, 0), middle, silence.repeat(after, 0)))


def mixtures_of(
    description: ModelDescription, weights: Mapping[str, np.ndarray]
) -> Mixtures | None:
    """Return the mixtures among a model's weights, None if it has none."""
    if description.mixture_weight:
        return from_weights(weights, description.shape.states)
    return None


def state_offset(log_priors: np.ndarray, prior_scale: float, silence_bonus: float) -> np.ndarray:
    """Return what is added to the states' log-posteriors (K,).

    It is minus the scaled log-priors, plus the bonus of silence.
    """
    offset = -log_priors.astype(np.float32) * np.float32(prior_scale)
    offset[-1:] += silence_bonus
    return offset


def state_scoring(description: ModelDescription, weights: Mapping[str, np.ndarray]) -> StateScoring:
    """Return how a model scores its segmentation states; without log-priors all are equally likely.

    Raises:
        ValueError: the log-priors or the mixtures have a different number of states.
    """
    states = description.shape.states
    log_priors = np.asarray(weights.get("log_priors", np.zeros(states)))
    if log_priors.shape != (states,):
        raise ValueError(f"log_priors has shape {log_priors.shape}, the network {states} states")
    return StateScoring(
        state_offset(log_priors, description.prior_scale, description.silence_bonus),
        mixtures_of(description, weights),
        description.mixture_weight,
        description.noise_malus,
        description.shape.context_frames,
    )


# The folder of a model: read, checked and written.

FORMAT = "ctc-align-model/1"
LARGEST = 1000.0
"""Limit of a model's scales and bonuses."""
WIDEST = 2**20
DEEPEST = 1000
"""Limits of a network's sizes, and of the number of its layers."""


def load_folder(
    folder: Path, device: str | Device | torch.device, settings: Settings | None = None
) -> ConvNet:
    """Load a model from its folder.

    Raises:
        UsageError: `model.toml` is not the description of a model, or the weights do not fit it.
    """
    from safetensors.numpy import load_file

    description = _read_description(folder / "model.toml")
    calibration = calibration_in(folder)
    confidence_network = load_confidence_network(folder)
    edge_network = load_edge_network(folder)
    native_speech = load_native_speech(folder)
    durations = load_durations(folder)
    try:
        weights = load_file(str(folder / "model.safetensors"))
        own = {
            name: w
            for name, w in weights.items()
            if name != "log_priors" and not name.startswith(MIXTURES)
        }
        check_weights(own, description.shape.weight_shapes)
        model = ConvNet(description, weights, device, settings)
    except MissingExtraError:
        raise
    except (
        Exception
    ) as error:  # safetensors and numpy raise various kinds, and all mean the same here
        raise UsageError(
            f"model {folder}: the weights cannot be loaded as model.toml describes them:"
            f" {one_line(error, 300)}"
        ) from error
    model.calibration = calibration
    model.confidence_network = confidence_network
    model.edge_network = edge_network
    model.native_speech = native_speech
    model.durations = durations
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
        raise UsageError(
            f"{path}: expected the description of a {FORMAT} model, it lacks {one_line(error)}"
        ) from error
    except ConfigError as error:
        raise UsageError(str(error)) from error
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{path}: expected the description of a {FORMAT} model, got: {one_line(error)}"
        ) from error


def _check(description: ModelDescription) -> None:
    """Raise ValueError if the parts of a description do not fit together."""
    shape, vocab, parts = description.shape, description.vocab, description.parts
    if (
        not all(isinstance(token, str) and token for token in vocab)
        or len(set(vocab)) != len(vocab)
        or len(vocab) < 2
    ):
        raise ValueError("vocab is not a list of two or more strings, or has one of them twice")
    for name, value in asdict(shape).items():
        for size in value if isinstance(value, (list, tuple)) else (value,):
            if type(size) is not int or not (0 if name == "states" else 1) <= size <= WIDEST:
                raise ValueError(
                    f"network.{name} is not a whole number from 1 to {WIDEST}: {shown(value)}"
                )
    for name, least in (
        ("prior_scale", -LARGEST),
        ("silence_bonus", -LARGEST),
        ("mixture_weight", 0.0),
        ("noise_malus", 0.0),
    ):
        value = getattr(description, name)
        if type(value) not in (int, float) or not least <= value <= LARGEST:
            raise ValueError(
                f"{name} is not a number from {least:g} to {LARGEST:g}: {shown(value)}"
            )
    for name in ("name", "token_kind", "language"):
        if not isinstance(getattr(description, name), str):
            raise ValueError(f"{name} is not a text: {shown(getattr(description, name))}")
    if type(parts) is not int or len(shape.dilations) > DEEPEST:
        raise ValueError(
            f"parts is not a whole number, or the network has more than {DEEPEST} layers"
        )
    if shape.inputs != features.MELS:
        raise ValueError(
            f"the network has {shape.inputs} inputs; expected {features.MELS} inputs, one for each"
            " mel channel"
        )
    if shape.classes != len(vocab):
        raise ValueError(f"the network has {shape.classes} classes, vocab {len(vocab)} tokens")
    each, odd = divmod(shape.states - 1, len(vocab) - 1)
    if shape.states and (odd or each < 1 or parts not in (0, each)):
        raise ValueError(
            f"the network has {shape.states} states; expected {parts or 'the same number'} for each"
            " token, and silence"
        )


def save_folder(
    folder: Path,
    description: ModelDescription,
    network: AcousticNetwork,
    log_priors: torch.Tensor | None,
    dtype: torch.dtype,
    mixtures: Mixtures | None = None,
) -> None:
    """Write a model's folder.

    Matrices of weights are stored as `dtype`, vectors (biases, statistics of norms) as float32.
    """
    import torch
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
            weights[MIXTURES + name] = (
                torch.from_numpy(getattr(mixtures, name)).float().contiguous()
            )
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
        *(
            f"{key} = {list(value) if isinstance(value, tuple) else value}"
            for key, value in shape.items()
        ),
    ]
    (folder / "model.toml").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _quoted(text: str) -> str:
    """Return a TOML string.

    JSON's escapes are valid TOML, except for DEL and halves of surrogate pairs.
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
