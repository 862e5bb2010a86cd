"""An ONNX file as a network: opened with onnxruntime, called with tensors, its axes in our order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align.errors import BackendError, EmissionsError, UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.models.onnx.description import OnnxDescription
from ctc_align.models.onnx.filter_banks import KaldiFbank, NemoMel

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
            f"onnx: networks in ONNX files need an extra: {install_line('onnx')} ({one_line(error)})"
        ) from error
    return onnxruntime


def open_session(file: Path, device: torch.device, name: str) -> Any:
    """Return a session of onnxruntime on the CPU or a CUDA device.

    Raises:
        UsageError: no such file, or not a whole ONNX model.
        BackendError: this onnxruntime cannot run on `device`.
    """
    onnxruntime = runtime()
    if not file.is_file():
        raise UsageError(f"model {name}: expected an ONNX file, {'got a folder' if file.is_dir() else 'no such file'}")
    providers: list[Any] = [CPU]
    if device.type == "cuda":
        if CUDA not in onnxruntime.get_available_providers():
            raise BackendError(
                f"device {device}: this onnxruntime has no CUDA: use --device cpu, or pip install onnxruntime-gpu "
                "in place of onnxruntime"
            )
        providers.insert(0, (CUDA, {"device_id": device.index or 0}))
    elif device.type != "cpu":
        raise BackendError(f"device {device}: ONNX files run on cpu and cuda: use --device cpu")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=providers)
    except Exception as error:  # onnxruntime's errors have no common base
        raise UsageError(
            f"model {name}: cannot be read as ONNX (was a download cut, or is its .data file missing? get it again): "
            f"{one_line(error)}"
        ) from error
    if device.type == "cuda" and CUDA not in session.get_providers():
        raise BackendError(f"device {device}: onnxruntime cannot use CUDA here (its libraries?): use --device cpu")
    return session


@dataclass(frozen=True)
class Ports:
    """The inputs and the output in use: `axes` is the input's order, `length` is None if the network takes none."""

    input: Any
    length: Any
    output: Any
    axes: str

    @property
    def rows_at_once(self) -> int | None:
        """Number of utterances that the input takes; None for any number."""
        size = self.input.shape[self.axes.index("B")]
        return size if isinstance(size, int) else None


def input_bins(session: Any) -> int | None:
    """Return the number of channels that an input of three axes is declared with, None if there is none."""
    for port in session.get_inputs():
        fixed = [size for size in port.shape[1:] if isinstance(size, int) and size > 1]
        if len(port.shape) == 3 and len(fixed) == 1 and port.type in _TYPES:
            return int(fixed[0])
    return None


def find_ports(session: Any, description: OnnxDescription, name: str, toml: Path) -> Ports:
    """Choose input, length and output: as the TOML file says, else the only possible ones.

    Raises:
        UsageError: none such, too many, or of another shape.
    """
    inputs, outputs = session.get_inputs(), session.get_outputs()
    floats = [port for port in inputs if "float" in port.type or "double" in port.type]
    wholes = [port for port in inputs if "int" in port.type and len(port.shape) == 1]
    rows = _port(inputs, floats, description.input.name, f"{toml.name}, [input] name", name)
    length = None
    if description.input.length or wholes:
        length = _port(inputs, wholes, description.input.length, f"{toml.name}, [input] length", name)
    extra = [port.name for port in inputs if port not in (rows, length)]
    if extra:
        raise UsageError(
            f"model {name}: expected an input and its length, got {', '.join(port.name for port in inputs)}: "
            "networks with caches (streaming exports) or other inputs are not taken: export it for whole utterances"
        )
    output = _port(outputs, outputs[:1], description.output.name, f"{toml.name}, [output] name", name)
    if len(output.shape) not in (0, 3):
        raise UsageError(
            f"model {name}: expected an output of 3 axes (batch, frames, classes), got {output.name} {_shape(output)}: "
            f"name the right one in {toml.name}, [output] name"
        )
    return Ports(rows, length, output, _axes(rows, description, name, toml))


def _port(ports: list[Any], likely: list[Any], wanted: str, where: str, name: str) -> Any:
    there = ", ".join(f"{port.name} {_shape(port)}" for port in ports)
    if wanted:
        named = next((port for port in ports if port.name == wanted), None)
        if named is None:
            raise UsageError(f"model {name}: {where}: there is no {wanted!r}; there is {there}")
        return named
    if len(likely) != 1:
        raise UsageError(f"model {name}: which is meant? There is {there}: say so in {where}")
    return likely[0]


def _axes(port: Any, description: OnnxDescription, name: str, toml: Path) -> str:
    """Return the order of the input's axes; raise UsageError if it does not fit the features."""
    front, wanted = description.front, description.input.axes
    allowed = ("BTD", "BDT") if front else ("BT", "B1T")
    fitting = [axes for axes in allowed if len(axes) == len(port.shape) and _fits(port.shape, axes, front)]
    fitting = [wanted] if wanted in fitting else [] if wanted else fitting
    # a fixed size tells which axis is the channels'
    fitting = [axes for axes in fitting if front and port.shape[axes.index("D")] == front.bins] or fitting
    free = [axes for axes in fitting if not isinstance(port.shape[axes.index("T")], int)]
    if len(free) == 1:
        return free[0]
    shown = f"model {name}: its input {port.name} {_shape(port)}"
    if free:
        raise UsageError(f'{shown} may be either: say in {toml}: [input] axes = "BTD" or "BDT"')
    if fitting and (not front or port.shape[fitting[0].index("D")] == front.bins):
        raise UsageError(f"{shown} has a fixed number of frames: export it with a free time axis")
    what = f"{front.bins} channels of {description.features}" if front else "a waveform"
    order = f" in the axes {wanted}" if wanted else ""
    raise UsageError(f"{shown} does not take {what}{order}: set features, bins or [input] axes in {toml}")


def _fits(shape: list[Any], axes: str, front: NemoMel | KaldiFbank | None) -> bool:
    fixed = {"D": front.bins if front else None, "1": 1}
    return all(not isinstance(size, int) or size == fixed.get(axis, size) for size, axis in zip(shape, axes))


def _shape(port: Any) -> str:
    return "(" + ", ".join(map(str, port.shape)) + ")"


class OnnxNetwork(nn.Module):
    """A session as a module: rows (B, N) or (B, N, D) and their lengths in, scores (B, T, C) out."""

    def __init__(self, session: Any, ports: Ports, description: OnnxDescription, name: str) -> None:
        super().__init__()
        self.session, self.ports, self.name = session, ports, name
        self._order = description.output.axes
        self._probabilities = description.output.scores == "probabilities"

    def forward(self, rows: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        """Return log-probs or logits (B, T, C) float32.

        Raises:
            EmissionsError: onnxruntime cannot run it, or the output has other axes.
        """
        ports = self.ports
        array = rows.numpy().astype(_TYPES[ports.input.type])
        array = {"BDT": array.swapaxes(1, -1), "B1T": array[:, None]}.get(ports.axes, array)
        feed = {ports.input.name: np.ascontiguousarray(array)}
        if ports.length is not None:
            ends = np.full(len(rows), rows.shape[1]) if lengths is None else lengths.numpy()
            feed[ports.length.name] = ends.astype(_TYPES[ports.length.type])
        try:
            (scores,) = self.session.run([ports.output.name], feed)
        except Exception as error:  # onnxruntime's errors have no common base
            raise EmissionsError(
                f"model {self.name}: onnxruntime cannot run it on {tuple(array.shape)}: {one_line(error)}"
            ) from error
        if scores.ndim != 3:
            raise EmissionsError(f"model {self.name}: expected an output of 3 axes ({self._order}), got {scores.shape}")
        ours = torch.from_numpy(scores).permute(*(self._order.index(axis) for axis in "BTC")).float()
        return ours.clamp_min(torch.finfo(torch.float32).tiny).log() if self._probabilities else ours
