"""`onnx:FILE`: CTC networks in ONNX files, by onnxruntime, described by a TOML file beside them.

See `ctc_align.models.onnx_description` for that file. Loading tries the network on a second of
noise:

- *Where do its frames lie?* Unless its layers are known, noise of increasing length shows how many
  inputs a frame needs; in a stack of convolutions with equal padding at both ends, the first frame
  is centred on half of the inputs that it needs.
  A network that pads its input to a fixed length returns frames beyond the sound; they are cut off.
- *Which utterances may go through together?* Utterances of different lengths, if noise has the same
  log-probs beside longer noise as alone; otherwise those of one length; otherwise none (networks
  exported for one utterance, or quantised by the loudest value of the batch).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align import units
from ctc_align.config import Settings
from ctc_align.errors import BackendError, CtcAlignError, EmissionsError, UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.kernels.log_space import log_softmax
from ctc_align.models.acoustic_model import FEW_FRAMES, ONNX, Device, has_driver, named_device
from ctc_align.models.framewise import Convolution, FrameGrid, FrameModel, NetworkFacts, Signal
from ctc_align.models.onnx_description import (
    KaldiFbank,
    NemoMel,
    OnnxDescription,
    describe,
    normalisation,
    vocabulary,
)
from ctc_align.types import Audio

if TYPE_CHECKING:
    import torch

PADDED, EQUAL, ALONE = "padded", "equal", "alone"
"""Utterances that share a pass: of any length, of one length, or only one."""

_NORM_EPSILON = 1e-7
_SAME = 5e-5
"""Log-probs that differ by less are equal, except for rounding."""
_LEAST_INPUTS = 100
_MORE = (10, 23)
"""Two numbers of strides of noise, each of which must give as many additional frames.

No block of frames divides both.
"""
_FURTHER = 97
"""A number of strides that shows whether a frame shift is wrong by a hundredth.

It is tried if the network takes so much sound.
"""
_NOISE_LEVEL = 0.1
_SEED = 20


def load(name: str, device: str | Device | torch.device, settings: Settings) -> FrameModel:
    """Load the network of `onnx:FILE`.

    The device "auto" is a CUDA device only if onnxruntime can use it too.

    Raises:
        UsageError: onnxruntime is missing; the file does not exist or is damaged; the TOML file has
            faults; there is no vocabulary or its size is wrong; or the network does not take whole
            utterances.
        BackendError: onnxruntime cannot run on `device`.
    """
    if device == "auto":
        if CUDA in runtime().get_available_providers() and has_driver():
            device = "cuda"
        else:
            device = "cpu"
    device = named_device(str(device))
    file = Path(name.removeprefix(ONNX))
    if settings.precision not in ("auto", "float32"):
        raise UsageError(
            f"model {name}: the precision of an ONNX file is fixed: set precision to auto"
        )
    session = open_session(file, device, name)
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    description = describe(file, metadata, name, input_bins(session))
    network = OnnxNetwork(session, description, name, file.with_suffix(".toml"))
    trial = Trial(network, description, name)
    vocab, blank = vocabulary(description, file, trial.classes, name)
    sharing = trial.sharing(network.rows_at_once)
    facts = NetworkFacts(
        name=name,
        vocab=vocab,
        blank=blank,
        sample_rate=description.sample_rate,
        grid=FrameGrid((*trial.front, *trial.layers())),
        front=len(trial.front),
        pads=sharing == PADDED,
        overlong=trial.overlong,
        stateless=True,
        norm_epsilon=_NORM_EPSILON if description.waveform.normalise == "utterance" else None,
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
        super().__init__(facts, settings)
        self.network = network
        self._description = description
        self._alone = alone
        if not math.isnan(description.first_frame_s):
            self.first_frame_s = description.first_frame_s

    def _signal(self, audio: Audio) -> Signal:
        front, waveform = self._description.front, self._description.waveform
        if front is not None:
            rows = front.rows(audio.samples, self.sample_rate)
            return Signal(rows, *normalisation(rows, front.normalise))
        if self.facts.norm_epsilon is None and waveform.gain != 1.0:
            return Signal(audio.samples, 0.0, 1.0 / waveform.gain)
        return super()._signal(audio)

    def _scores(self, inputs: np.ndarray, lengths: np.ndarray | None) -> np.ndarray:
        if self._alone and len(inputs) > 1:
            return np.concatenate([log_softmax(self.network(row[None], None)) for row in inputs])
        return log_softmax(self.network(inputs, lengths))


class Trial:
    """The findings from a network that was tried on noise.

    They are the number of its classes, its frames, and which utterances may share a pass.
    """

    def __init__(self, network: OnnxNetwork, description: OnnxDescription, name: str) -> None:
        self.network = network
        self.description = description
        self.name = name
        front, rate = description.front, description.sample_rate
        self.front: tuple[Convolution, ...] = () if front is None else (front.layer(rate),)
        self.stride = self._stride(self.front[0].stride if self.front else 1)
        self.shortest = max(_LEAST_INPUTS if self.front else rate, 4 * self.stride)
        self._bins = () if front is None else (front.bins,)
        self.classes = int(self._run(self._noise(1, self.shortest)).shape[2])
        counts = {more: self._frames(self.shortest + more * self.stride) for more in (0, *_MORE)}
        # a network that pads its input to blocks returns whole blocks, and at least the frames of
        # the sound
        block = math.gcd(*counts.values())
        beyond = [count - self.shortest / self.stride - more for more, count in counts.items()]
        self.overlong = 1 < block >= max(beyond) and min(beyond) >= -FEW_FRAMES

    def layers(self) -> tuple[Convolution, ...]:
        """Return the network's convolutions over time.

        They are as described, otherwise a single one that is equivalent to all.
        """
        count = self._frames(self.shortest)
        if not self.description.layers:
            return (
                Convolution(self.stride, self.stride) if self.overlong else self._measured(count),
            )
        layers = tuple(Convolution(*layer) for layer in self.description.layers)
        grid = FrameGrid(layers)
        lengths = (self.shortest, self.shortest + 1, self.shortest + self.stride - 1)
        counts = [count, *map(self._frames, lengths[1:])]
        described = [grid.frames(length) for length in lengths]
        if grid.stride == self.stride and (described == counts or self.overlong):
            return layers
        raise UsageError(
            f"model {self.name}: layers: they make {described} frames of {list(lengths)} inputs,"
            f" stride {grid.stride}; the network makes {counts}, stride {self.stride}: correct"
            " them, or omit them to have the position of the frames measured"
        )

    def sharing(self, rows_at_once: int | None) -> str:
        """Return PADDED, EQUAL or ALONE.

        It says which utterances may share a pass without changing their log-probs.
        """
        if rows_at_once is not None:
            return ALONE
        if not self._undisturbed([self.shortest] * 3):
            return ALONE
        if self.network.length is None:
            return EQUAL
        # padding leaks at some lengths and not at others, by their remainders of the strides
        beyond = sorted({0, 1, self.stride // 2, self.stride - 1, 3 * self.stride + 1})
        if self._undisturbed([self.shortest + more for more in beyond]):
            return PADDED
        return EQUAL

    def _undisturbed(self, lengths: list[int]) -> bool:
        """Return whether noise of these lengths has the same log-probs together as alone.

        The last length is the longest.
        """
        noise = self._noise(len(lengths), lengths[-1])
        rows = np.zeros_like(noise)
        for row, source, length in zip(rows, noise, lengths):
            row[:length] = source[:length]
        try:
            together = self._run(rows, np.array(lengths))
        except CtcAlignError:  # exported for one utterance, whatever its axes are called
            return False
        for row, length, log_probs in zip(rows, lengths, together):
            alone = self._run(row[None, :length])[0]
            if not float(np.abs(log_probs[: len(alone)] - alone).max()) < _SAME:
                return False
        return True

    def _stride(self, hop: int) -> int:
        inputs = self.description.frame_shift_s * self.description.sample_rate / hop
        if round(inputs) < 1 or abs(inputs - round(inputs)) > 1e-6 * inputs:
            each = units.samples_to_seconds(hop, self.description.sample_rate)
            got = self.description.frame_shift_s
            raise UsageError(
                f"model {self.name}: frame_shift_s: expected a multiple of {each:g}, got {got:g}"
            )
        return round(inputs)

    def _measured(self, count: int) -> Convolution:
        """Return a convolution with as many frames as the network for any number of inputs."""
        more = _MORE[-1] if self._limited(_FURTHER) else _FURTHER
        grown = self._frames(self.shortest + more * self.stride) - count
        if grown != more:
            declared_s = self.description.frame_shift_s
            if grown > 0:
                fits = f"about {declared_s * more / grown:.2g} would fit"
            else:
                fits = "correct it"
            raise UsageError(
                f"model {self.name}: frame_shift_s: {declared_s:g} s are {self.stride} inputs, but "
                f"{more * self.stride} inputs more gave {grown} frames instead of {more}: {fits}"
            )
        below = self.shortest
        above = self.shortest + self.stride
        while above - below > 1:
            middle = (below + above) // 2
            if self._frames(middle) == count:
                below, above = middle, above
            else:
                below, above = below, middle
        needed = above - count * self.stride
        padding = max(0, -(-(self.stride - needed) // 2))
        return Convolution(needed + 2 * padding, self.stride, padding)

    def _limited(self, more: int) -> bool:
        """Return whether the network fails on `more` additional strides.

        It fails, too, if it returns no frames for the last of them.
        """
        try:
            return self._frames(self.shortest + more * self.stride) == self._frames(
                self.shortest + (more - FEW_FRAMES) * self.stride
            )
        except UsageError:
            return True

    def _frames(self, inputs: int) -> int:
        return int(self._run(self._noise(1, inputs)).shape[1])

    def _noise(self, rows: int, inputs: int) -> np.ndarray:
        noise = np.random.default_rng(_SEED).standard_normal((rows, inputs, *self._bins))
        return (noise * (1.0 if self._bins else _NOISE_LEVEL)).astype(np.float32)

    def _run(self, rows: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        try:
            return log_softmax(self.network(rows, lengths))
        except CtcAlignError as error:
            raise UsageError(str(error)) from error


# The ONNX file as a network: opened with onnxruntime, called with arrays, its axes in our order.

CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_FATAL_ONLY = 4


def runtime() -> Any:
    """Return the module onnxruntime.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import onnxruntime
    except (ImportError, OSError) as error:
        raise UsageError(
            f"onnx: networks in ONNX files need an extra: {install_line('onnx')}"
            f" ({one_line(error)})"
        ) from error
    return onnxruntime


def open_session(file: Path, device: Device, name: str) -> Any:
    """Return a session of onnxruntime on the CPU or a CUDA device.

    Raises:
        UsageError: there is no such file, or it is not a complete ONNX model.
        BackendError: this onnxruntime cannot run on `device`.
    """
    onnxruntime = runtime()
    if not file.is_file():
        raise UsageError(
            f"model {name}: expected an ONNX file,"
            f" {'got a folder' if file.is_dir() else 'no such file'}"
        )
    providers: list[Any] = [CPU]
    if device.type == "cuda":
        if CUDA not in onnxruntime.get_available_providers():
            raise BackendError(
                f"device {device}: this onnxruntime has no CUDA: use --device cpu, or pip install"
                " onnxruntime-gpu instead of onnxruntime"
            )
        providers.insert(0, (CUDA, {"device_id": device.index or 0}))
    elif device.type != "cpu":
        raise BackendError(f"device {device}: ONNX files run on cpu and cuda: use --device cpu")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    options.intra_op_num_threads = options.inter_op_num_threads = (
        1  # several passes run side by side
    )
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=providers)
    except Exception as error:  # onnxruntime's errors have no common base
        raise UsageError(
            f"model {name}: cannot be read as ONNX (was a download cut off, or is its .data file"
            f" missing? get it again): {one_line(error)}"
        ) from error
    if device.type == "cuda" and CUDA not in session.get_providers():
        raise BackendError(
            f"device {device}: onnxruntime cannot use CUDA here (its libraries?): use --device cpu"
        )
    return session


def input_bins(session: Any) -> int | None:
    """Return the declared number of channels of the input with three axes.

    It is None if there is no such input.
    """
    for port in session.get_inputs():
        fixed = [size for size in port.shape[1:] if isinstance(size, int) and size > 1]
        if len(port.shape) == 3 and len(fixed) == 1 and port.type in _TYPES:
            return int(fixed[0])
    return None


def find_ports(
    session: Any, description: OnnxDescription, name: str, toml: Path
) -> tuple[Any, Any, Any]:
    """Choose input, length and output of a network.

    They are those in the TOML file, else the only ones; the length is None if the network takes
    none.

    Raises:
        UsageError: there is no such input or output, or several, or one has the wrong shape.
    """
    inputs = session.get_inputs()
    outputs = session.get_outputs()
    floats = [port for port in inputs if "float" in port.type or "double" in port.type]
    wholes = [port for port in inputs if "int" in port.type and len(port.shape) == 1]
    rows = _port(inputs, floats, description.input.name, f"{toml.name}, [input] name", name)
    length = None
    if description.input.length or wholes:
        length = _port(
            inputs, wholes, description.input.length, f"{toml.name}, [input] length", name
        )
    extra = [port.name for port in inputs if port not in (rows, length)]
    if extra:
        raise UsageError(
            f"model {name}: expected an input and its length, got"
            f" {', '.join(port.name for port in inputs)}: networks with caches (streaming exports)"
            " or other inputs are not taken: export it for whole utterances"
        )
    output = _port(
        outputs, outputs[:1], description.output.name, f"{toml.name}, [output] name", name
    )
    if len(output.shape) not in (0, 3):
        raise UsageError(
            f"model {name}: expected an output of 3 axes (batch, frames, classes), got"
            f" {output.name} {_shape(output)}: name the right one in {toml.name}, [output] name"
        )
    return rows, length, output


def _port(ports: list[Any], likely: list[Any], wanted: str, where: str, name: str) -> Any:
    there = ", ".join(f"{port.name} {_shape(port)}" for port in ports)
    if wanted:
        named = next((port for port in ports if port.name == wanted), None)
        if named is None:
            raise UsageError(f"model {name}: {where}: expected one of {there}; got {wanted!r}")
        return named
    if len(likely) != 1:
        raise UsageError(f"model {name}: which of {there} is meant? Say so in {where}")
    return likely[0]


def _axes(port: Any, description: OnnxDescription, name: str, toml: Path) -> str:
    """Return the order of the input's axes; raise UsageError if it does not fit the features."""
    front = description.front
    wanted = description.input.axes
    allowed = ("BTD", "BDT") if front else ("BT", "B1T")
    fitting = [
        axes for axes in allowed if len(axes) == len(port.shape) and _fits(port.shape, axes, front)
    ]
    if wanted in fitting:
        fitting = [wanted]
    elif wanted:
        fitting = []
    # a fixed size tells which axis is the channels'
    fitting = [
        axes for axes in fitting if front and port.shape[axes.index("D")] == front.bins
    ] or fitting
    free = [axes for axes in fitting if not isinstance(port.shape[axes.index("T")], int)]
    if len(free) == 1:
        return free[0]
    shown = f"model {name}: its input {port.name} {_shape(port)}"
    if free:
        raise UsageError(f'{shown} may be either: say in {toml}: [input] axes = "BTD" or "BDT"')
    if fitting and (not front or port.shape[fitting[0].index("D")] == front.bins):
        raise UsageError(f"{shown} has a fixed number of frames: export it with a free time axis")
    if front:
        what = f"{front.bins} channels of {description.features}"
    else:
        what = "a waveform"
    order = f" in the axes {wanted}" if wanted else ""
    raise UsageError(
        f"{shown} does not take {what}{order}: set features, bins or [input] axes in {toml}"
    )


def _fits(shape: list[Any], axes: str, front: NemoMel | KaldiFbank | None) -> bool:
    fixed = {"D": front.bins if front else None, "1": 1}
    return all(
        not isinstance(size, int) or size == fixed.get(axis, size)
        for size, axis in zip(shape, axes)
    )


def _shape(port: Any) -> str:
    return "(" + ", ".join(map(str, port.shape)) + ")"


class OnnxNetwork:
    """A session as a function: rows (B, N) or (B, N, D) and their lengths in, scores (B, T, C) out.

    Raises:
        UsageError: as `find_ports`.
    """

    def __init__(self, session: Any, description: OnnxDescription, name: str, toml: Path) -> None:
        self.session = session
        self.name = name
        self.input, self.length, self.output = find_ports(session, description, name, toml)
        self.axes = _axes(self.input, description, name, toml)
        self._order = description.output.axes
        self._probabilities = description.output.scores == "probabilities"

    @property
    def rows_at_once(self) -> int | None:
        """Number of utterances that the input takes; None for any number."""
        size = self.input.shape[self.axes.index("B")]
        return size if isinstance(size, int) else None

    def __call__(self, rows: np.ndarray, lengths: np.ndarray | None) -> np.ndarray:
        """Return log-probs or logits (B, T, C) float32.

        Raises:
            EmissionsError: onnxruntime cannot run the network, or the output has different axes.
        """
        array = rows.astype(_TYPES[self.input.type])
        array = {"BDT": array.swapaxes(1, -1), "B1T": array[:, None]}.get(self.axes, array)
        feed = {self.input.name: np.ascontiguousarray(array)}
        if self.length is not None:
            if lengths is None:
                ends = np.full(len(rows), rows.shape[1])
            else:
                ends = lengths
            feed[self.length.name] = ends.astype(_TYPES[self.length.type])
        try:
            (scores,) = self.session.run([self.output.name], feed)
        except Exception as error:  # onnxruntime's errors have no common base
            raise EmissionsError(
                f"model {self.name}: onnxruntime cannot run it on {tuple(array.shape)}:"
                f" {one_line(error)}"
            ) from error
        if scores.ndim != 3:
            raise EmissionsError(
                f"model {self.name}: expected an output of 3 axes ({self._order}), got"
                f" {scores.shape}"
            )
        ours = scores.transpose([self._order.index(axis) for axis in "BTC"]).astype(np.float32)
        if self._probabilities:
            return np.log(ours.clip(min=np.finfo(np.float32).tiny))
        return ours
