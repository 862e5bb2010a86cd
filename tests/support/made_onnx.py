"""ONNX files for tests: small random convolutional networks in the forms that NeMo, icefall and
others export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
onnx = pytest.importorskip("onnx", reason="needs the package onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

LETTERS = ("<blk>", "|", *"abcdefghijklmnopqrstuvwxyz", "'")
METADATA = {
    "nemo": {
        "model_type": "EncDecCTCModelBPE",
        "vocab_size": "29",
        "normalize_type": "per_feature",
        "subsampling_factor": "4",
    },
    "icefall": {"model_type": "zipformer2_ctc", "version": "1", "model_author": "k2-fsa"},
    "wenet": {"model_type": "wenet_ctc", "subsampling_factor": "4", "vocab_size": "29"},
}


@dataclass(frozen=True)
class Made:
    """What a network is made of: (kernel, stride, padding, padding at the end) of its convolutions
    over time.

    `axes` of its input; with `lengths` it has a second input, and with `masks` zeroes what lies
    beyond them. More than `limit` frames are cut off, or make it fail, as `beyond` says ("cut",
    "fail"); with "pad" fewer become as many.
    """

    axes: str = "BTD"
    layers: tuple[tuple[int, int, int, int], ...] = ((3, 2, 1, 1), (3, 2, 1, 1))
    bins: int = 80
    lengths: bool = True
    masks: bool = True
    free_bins: bool = False
    batch: str | int = "N"
    log_softmax: bool = True
    output: str = "BTC"
    classes: int = len(LETTERS)
    width: int = 12
    half: bool = False
    limit: int = 0
    beyond: str = "cut"
    names: tuple[str, str, str] = ("x", "x_lens", "log_probs")


KINDS = {
    "nemo": Made("BDT", names=("audio_signal", "length", "logprobs")),
    "icefall": Made(layers=((7, 2, 0, 0), (2, 2, 0, 1)), names=("x", "x_lens", "log_probs")),
    "wenet": Made(layers=((3, 2, 0, 0), (3, 2, 0, 0)), batch=1),
    "waveform": Made(
        "BT", ((10, 5, 0, 0), (8, 4, 0, 0), (4, 4, 0, 0), (4, 4, 0, 0)), bins=1, lengths=False
    ),
}


def write(path: Path, made: Made, metadata: dict[str, str] | None = None, seed: int = 0) -> Path:
    """The network in a file; its kernels are symmetrical, so that an impulse is heard in their
    middle."""
    random = np.random.default_rng(seed)
    graph = _Graph(made, random)
    model = helper.make_model(
        graph.made(), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.checker.check_model(model)
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def write_tokens(path: Path, tokens: tuple[str, ...] = LETTERS) -> Path:
    """As icefall writes them: token and id."""
    path.write_text(
        "".join(f"{token} {index}\n" for index, token in enumerate(tokens)), encoding="utf-8"
    )
    return path


class _Graph:
    def __init__(self, made: Made, random: np.random.Generator) -> None:
        self.m, self.random = made, random
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def made(self) -> Any:
        made, (heard, ends, out) = self.m, self.m.names
        real = TensorProto.FLOAT16 if made.half else TensorProto.FLOAT
        sizes: dict[str, str | int] = {
            "B": made.batch,
            "T": "T",
            "D": "D" if made.free_bins else made.bins,
            "1": 1,
        }
        inputs = [helper.make_tensor_value_info(heard, real, [sizes[axis] for axis in made.axes])]
        if made.lengths:
            inputs.append(helper.make_tensor_value_info(ends, TensorProto.INT64, [made.batch]))
        shape = [{"B": made.batch, "T": "T_out", "C": made.classes}[axis] for axis in made.output]
        outputs = [helper.make_tensor_value_info(out, real, shape)]
        rows, level = self.channels_first(heard), ends
        channels = made.bins
        for index, layer in enumerate(made.layers):
            if made.lengths and made.masks:
                rows = self.masked(rows, level, real)
            rows = self.convolution(rows, layer, channels, made.width, index)
            rows = self.node("Relu", [rows]) if index else rows
            channels = made.width
            if made.lengths and made.masks:
                level = self.outputs_of(level, layer)
        rows = self.limited(rows, channels) if made.limit else rows
        rows = self.convolution(rows, (1, 1, 0, 0), channels, made.classes, len(made.layers))
        if made.log_softmax:
            rows = self.node("LogSoftmax", [rows], axis=1)
        order = ["BCT".index(axis) for axis in made.output]
        self.nodes.append(helper.make_node("Transpose", [rows], [out], perm=order))
        return helper.make_graph(self.nodes, "made", inputs, outputs, self.constants)

    def channels_first(self, heard: str) -> str:
        if self.m.axes == "BTD":
            return self.node("Transpose", [heard], perm=[0, 2, 1])
        return (
            self.node("Unsqueeze", [heard, self.constant(np.array([1]))])
            if self.m.axes == "BT"
            else heard
        )

    def convolution(
        self, rows: str, layer: tuple[int, int, int, int], channels: int, width: int, index: int
    ) -> str:
        kernel, stride, before, behind = layer
        weights = self.random.normal(
            0.0, 1.0 / np.sqrt(channels * kernel), (width, channels, kernel)
        )
        weights = (weights + weights[..., ::-1]) / 2
        bias = self.random.normal(0.0, 0.1, width)
        kind = np.float16 if self.m.half else np.float32
        given = [rows, self.constant(weights.astype(kind)), self.constant(bias.astype(kind))]
        return self.node(
            "Conv", given, strides=[stride], pads=[before, behind], name=f"conv{index}"
        )

    def masked(self, rows: str, level: str, real: int) -> str:
        count = self.node(
            "Gather", [self.node("Shape", [rows]), self.constant(np.array(2))], axis=0
        )
        places = self.node("Range", [self.constant(np.array(0)), count, self.constant(np.array(1))])
        ends = self.node("Unsqueeze", [level, self.constant(np.array([1, 2]))])
        return self.node(
            "Mul", [rows, self.node("Cast", [self.node("Less", [places, ends])], to=real)]
        )

    def limited(self, rows: str, channels: int) -> str:
        limit, start, axis = (
            self.constant(np.array([self.m.limit])),
            *(self.constant(np.array([n])) for n in (0, 2)),
        )
        if self.m.beyond == "fail":  # positions are added, as many as there are
            count = self.node("Shape", [rows], start=2, end=3)
            positions = self.constant(np.zeros((1, channels, self.m.limit), np.float32))
            return self.node("Add", [rows, self.node("Slice", [positions, start, count, axis])])
        if self.m.beyond == "pad":
            behind = self.constant(np.zeros((1, channels, self.m.limit), np.float32))
            rows = self.node("Concat", [rows, behind], axis=2)
        return self.node("Slice", [rows, start, limit, axis])

    def outputs_of(self, level: str, layer: tuple[int, int, int, int]) -> str:
        kernel, stride, before, behind = layer
        added = self.node("Add", [level, self.constant(np.array(before + behind - kernel))])
        return self.node(
            "Add",
            [
                self.node("Div", [added, self.constant(np.array(stride))]),
                self.constant(np.array(1)),
            ],
        )

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name
