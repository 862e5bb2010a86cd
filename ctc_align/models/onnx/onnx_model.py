"""`onnx:FILE`: CTC networks in ONNX files, by onnxruntime, described by a TOML file beside them.

See `ctc_align.models.onnx.description` for that file. A network that is loaded is tried on a second of noise:

- *Where do its frames lie?* Unless its layers are known, the number of frames of ever longer noise shows how many
  inputs a frame needs; in a stack of convolutions with equal padding at both ends, the first frame is centred on half
  of the inputs that it needs.
- *Which utterances may go through together?* Those of different lengths if noise gives the same log-probs beside longer
  noise as alone; else those of one length; else one by one (networks exported for one utterance, or quantised by the
  loudest value of the batch).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from ctc_align import units
from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.models.acoustic_model import resolve_device
from ctc_align.models.framewise.frame_times import Convolution, FrameGrid
from ctc_align.models.framewise.framewise_model import FrameModel, NetworkFacts, Signal, standardised
from ctc_align.models.onnx.description import OnnxDescription, describe, vocabulary
from ctc_align.models.onnx.filter_banks import normalisation
from ctc_align.models.onnx.session import CUDA, OnnxNetwork, find_ports, input_bins, open_session, runtime
from ctc_align.types import Audio

PREFIX = "onnx:"
PADDED, EQUAL, ALONE = "padded", "equal", "alone"
"""Utterances that share a pass: of any length, of one length, or only one."""

_NORM_EPSILON = 1e-7
_SAME = 5e-5
"""Log-probs that differ by less are equal but for rounding."""
_LEAST_INPUTS = 100
_NOISE_LEVEL = 0.1
_SEED = 20


def load(name: str, device: str | torch.device, settings: Settings) -> FrameModel:
    """Load the network of `onnx:FILE`; the device "auto" is a CUDA device only if onnxruntime can use it too.

    Raises:
        UsageError: onnxruntime is missing, no such file, a damaged one, faults in the TOML file, no vocabulary or one
            of another size, a network that does not take whole utterances.
        BackendError: onnxruntime cannot run on `device`.
    """
    if device == "auto" and CUDA not in runtime().get_available_providers():
        device = "cpu"
    device = resolve_device(device)
    file = Path(name.removeprefix(PREFIX))
    if settings.precision not in ("auto", "float32"):
        raise UsageError(f"model {name}: an ONNX file has a precision of its own: set precision to auto")
    session = open_session(file, device, name)
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    description = describe(file, metadata, name, input_bins(session))
    ports = find_ports(session, description, name, file.with_suffix(".toml"))
    network = OnnxNetwork(session, ports, description, name)
    trial = Trial(network, description, name)
    vocab, blank = vocabulary(description, file, trial.classes, name)
    sharing = trial.sharing(ports.rows_at_once)
    facts = NetworkFacts(
        name=name,
        vocab=vocab,
        blank=blank,
        sample_rate=description.sample_rate,
        grid=FrameGrid((*trial.front, *trial.layers())),
        front=len(trial.front),
        pads=sharing == PADDED,
    )
    return OnnxModel(facts, network, description, settings, alone=sharing == ALONE)


class OnnxModel(FrameModel):
    """A network in an ONNX file, with its features."""

    def __init__(
        self,
        facts: NetworkFacts,
        network: OnnxNetwork,
        description: OnnxDescription,
        settings: Settings,
        *,
        alone: bool,
    ) -> None:
        # tensors go in and come out on the CPU, wherever onnxruntime works
        super().__init__(facts, network, torch.device("cpu"), settings)
        self.precision = torch.float32
        self._description, self._alone = description, alone
        if not math.isnan(description.first_frame_s):
            self.first_frame_s = description.first_frame_s

    def _signal(self, audio: Audio) -> Signal:
        front, waveform = self._description.front, self._description.waveform
        if front is not None:
            rows = front.rows(audio.samples, self.sample_rate)
            return Signal(rows, *normalisation(rows, front.normalise))
        if waveform.normalise == "utterance":
            return standardised(audio.samples, _NORM_EPSILON)
        return Signal(audio.samples, None if waveform.gain == 1.0 else 0.0, 1.0 / waveform.gain)

    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        if self._alone and len(inputs) > 1:
            return torch.cat([self.network(row[None], None) for row in inputs])
        return self.network(inputs, lengths)


class Trial:
    """A network tried on noise: its number of classes, its frames, which utterances may share a pass."""

    def __init__(self, network: OnnxNetwork, description: OnnxDescription, name: str) -> None:
        self.network, self.description, self.name = network, description, name
        front, rate = description.front, description.sample_rate
        self.front: tuple[Convolution, ...] = () if front is None else (front.layer(rate),)
        self.stride = self._stride(self.front[0].stride if self.front else 1)
        self.shortest = max(_LEAST_INPUTS if self.front else rate, 4 * self.stride)
        self._bins = () if front is None else (front.bins,)
        self.classes = int(self._run(self._noise(1, self.shortest)).shape[2])

    def layers(self) -> tuple[Convolution, ...]:
        """Return the network's convolutions over time: as described, else one that is equal to them all."""
        count = self._frames(self.shortest)
        if not self.description.layers:
            return (self._measured(count),)
        layers = tuple(Convolution(*layer) for layer in self.description.layers)
        grid = FrameGrid(layers)
        lengths = (self.shortest, self.shortest + 1, self.shortest + self.stride - 1)
        counts = [count, *map(self._frames, lengths[1:])]
        if grid.stride == self.stride and [grid.frames(length) for length in lengths] == counts:
            return layers
        raise UsageError(
            f"model {self.name}: layers: they make {[grid.frames(length) for length in lengths]} frames of "
            f"{list(lengths)} inputs, stride {grid.stride}; the network makes {counts}, stride {self.stride}: "
            "correct them, or leave them away to have the place of the frames measured"
        )

    def sharing(self, rows_at_once: int | None) -> str:
        """Return PADDED, EQUAL or ALONE: which utterances may share a pass without changing their log-probs."""
        if rows_at_once is not None:
            return ALONE
        if not self._undisturbed([self.shortest] * 3):
            return ALONE
        if self.network.ports.length is None:
            return EQUAL
        # padding leaks at some lengths and not at others, by their remainders of the strides
        beyond = sorted({0, 1, self.stride // 2, self.stride - 1, 3 * self.stride + 1})
        return PADDED if self._undisturbed([self.shortest + more for more in beyond]) else EQUAL

    def _undisturbed(self, lengths: list[int]) -> bool:
        """Return whether noise of these lengths, the last the longest, gives the same together as alone."""
        noise = self._noise(len(lengths), lengths[-1])
        rows = torch.zeros_like(noise)
        for row, source, length in zip(rows, noise, lengths):
            row[:length] = source[:length]
        try:
            together = self._run(rows, torch.tensor(lengths))
        except CtcAlignError:  # exported for one utterance, whatever its axes are called
            return False
        for row, length, log_probs in zip(rows, lengths, together):
            alone = self._run(row[None, :length])[0]
            if not float((log_probs[: len(alone)] - alone).abs().max()) < _SAME:
                return False
        return True

    def _stride(self, hop: int) -> int:
        inputs = self.description.frame_shift_s * self.description.sample_rate / hop
        if round(inputs) < 1 or abs(inputs - round(inputs)) > 1e-6 * inputs:
            each, got = units.samples_to_seconds(hop, self.description.sample_rate), self.description.frame_shift_s
            raise UsageError(f"model {self.name}: frame_shift_s: expected a multiple of {each:g}, got {got:g}")
        return round(inputs)

    def _measured(self, count: int) -> Convolution:
        """Return a convolution with as many frames as the network for any number of inputs."""
        ten = 10 * self.stride
        more = self._frames(self.shortest + ten) - count
        if more != 10:
            raise UsageError(
                f"model {self.name}: frame_shift_s: {self.description.frame_shift_s:g} s are {self.stride} inputs, but "
                f"{ten} inputs more gave {more} frames in place of 10: correct it"
            )
        below, above = self.shortest, self.shortest + self.stride
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if self._frames(middle) == count else (below, middle)
        needed = above - count * self.stride
        padding = max(0, -(-(self.stride - needed) // 2))
        return Convolution(needed + 2 * padding, self.stride, padding)

    def _frames(self, inputs: int) -> int:
        return int(self._run(self._noise(1, inputs)).shape[1])

    def _noise(self, rows: int, inputs: int) -> torch.Tensor:
        noise = np.random.default_rng(_SEED).standard_normal((rows, inputs, *self._bins))
        return torch.from_numpy((noise * (1.0 if self._bins else _NOISE_LEVEL)).astype(np.float32))

    def _run(self, rows: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        try:
            return self.network(rows, lengths).log_softmax(-1)
        except CtcAlignError as error:
            raise UsageError(str(error)) from error
