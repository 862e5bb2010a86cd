"""The trained network of the project's own models in NumPy.

It computes the numbers of torch's `AcousticNetwork`, up to rounding.

The normalisations, which are constant after training, are folded into the convolutions before them.
The channels of a frame are neighbours in memory: a convolution is a product of matrices for each of
its taps, and the two phases of a pair are rows of two frames without a copy.
`ctc_align.models.convnet.network` has the same in torch, for training and for other devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

STRIDE = 2
NORM_EPSILON = 1e-5
"""Added to a variance before the division by its root, as torch does."""
Layer: TypeAlias = "tuple[np.ndarray, np.ndarray]"
"""The weight of a convolution (taps, in, out) and its bias (out,), float32."""


@dataclass(frozen=True)
class NetworkShape:
    """Sizes of a network; all convolutions of the body have three taps.

    `classes` includes the blank. Without `states` (0) there is no second output.
    """

    inputs: int
    classes: int
    states: int
    stem: int = 128
    body: int = 256
    head: int = 128
    dilations: tuple[int, ...] = (1, 2, 1, 4, 1, 8, 2, 4)

    @property
    def context_frames(self) -> int:
        """Frames of 10 ms that an output frame sees on either side (a multiple of the stride)."""
        body = STRIDE * sum(self.dilations)
        # Stem (2) and the strided convolution (2) below the body, two taps of the head (1) above
        # it.
        reach = 2 + 2 + body + 1
        return reach + reach % STRIDE

    @property
    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight by its name in a file; convolutions are (out, in, taps)."""
        body, head = self.body, self.head
        norms = {"stem.1": self.stem, "down.1": body, "mix.0": head}
        norms |= {f"body.{i}.norm": body for i in range(len(self.dilations))}
        convolutions = {"stem.0": (self.stem, self.inputs, 5), "down.0": (body, self.stem, 6)}
        convolutions |= {f"body.{i}.conv": (body, body, 3) for i in range(len(self.dilations))}
        biased = {
            "up": (STRIDE * head, body, 1),
            "local": (head, self.stem, 5),
            "mix.2": (head, head, 3),
        }
        biased |= {"tokens": (self.classes, head, 1)} | (
            {"states": (self.states, head, 1)} if self.states else {}
        )
        return {
            **{f"{name}.weight": shape for name, shape in (convolutions | biased).items()},
            **{f"{name}.bias": shape[:1] for name, shape in biased.items()},
            **{
                f"{name}.{part}": (size,)
                for name, size in norms.items()
                for part in ("weight", "bias", "running_mean", "running_var")
            },
        }


@np.errstate(over="ignore", invalid="ignore")  # a damaged file may hold any numbers
def folded_layers(shape: NetworkShape, weights: Mapping[str, np.ndarray]) -> dict[str, Layer]:
    """Return the convolutions of a trained network by name, normalisations included.

    `body0`, `body1` … are the body.

    Args:
        shape: the network's sizes.
        weights: by their names in `NetworkShape.weight_shapes`.
    """

    def norm(name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the factors (C,) and constants (C,) that a trained normalisation amounts to."""
        scale, bias, mean, variance = (
            np.asarray(weights[f"{name}.{part}"], np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / np.sqrt(variance + NORM_EPSILON)
        return factor, bias - mean * factor

    def layer(
        name: str, factor: np.ndarray | float = 1.0, constant: np.ndarray | float = 0.0
    ) -> Layer:
        """Return the convolution whose output is conv(x) * factor + constant."""
        weight = weights[f"{name}.weight"].transpose(2, 1, 0) * factor
        bias = weights.get(f"{name}.bias", np.zeros(weight.shape[2])) * factor + constant
        return np.ascontiguousarray(weight, np.float32), bias.astype(np.float32)

    layers = {"stem": layer("stem.0", *norm("stem.1")), "down": layer("down.0", *norm("down.1"))}
    for i in range(len(shape.dilations)):
        layers[f"body{i}"] = layer(f"body.{i}.conv", *norm(f"body.{i}.norm"))
    # The head normalises the sum of two branches: each takes its factor, one of them its constant.
    factor, constant = norm("mix.0")
    layers["up"] = layer("up", np.tile(factor, STRIDE))
    layers["local"] = layer("local", factor, constant)
    layers["mix"] = layer("mix.2")
    outputs = [layer(name) for name in ("tokens", *(["states"] if shape.states else []))]
    layers["out"] = (
        np.concatenate([w for w, _ in outputs], 2),
        np.concatenate([b for _, b in outputs]),
    )
    return layers


class InferenceNetwork:
    """A trained network that is called with the features of one recording, or of a piece of it.

    Args:
        shape: its sizes.
        layers: of `folded_layers`.
    """

    def __init__(self, shape: NetworkShape, layers: Mapping[str, Layer]) -> None:
        self.shape = shape
        self._layers = dict(layers)
        # The strided convolution is one over pairs of frames, each of its taps two of the other's.
        weight, bias = layers["down"]
        self._layers["down"] = weight.reshape(-1, STRIDE * shape.stem, shape.body), bias
        for i in range(len(shape.dilations)):
            (first, middle, last), bias = layers[f"body{i}"]
            outer = first + last
            self._layers[f"body{i}"] = (
                np.stack((first, (outer + middle) / 2, (outer - middle) / 2, last)),
                bias,
            )

    def __call__(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return logits (T, C) and (T, K) of features.

        The features are (T + 2 * context_frames, inputs) float32; T is even.
        """
        shape = self.shape
        stem = _rectified(self._convolved("stem", features))
        pairs = len(stem) // STRIDE
        x = _rectified(self._convolved("down", stem[: STRIDE * pairs].reshape(pairs, -1)))
        for i, dilation in enumerate(shape.dilations):
            y = _rectified(self._convolved_in_pairs(f"body{i}", x, dilation))
            y += x[dilation : len(x) - dilation]
            x = y
        fine = self._convolved("up", x).reshape(STRIDE * len(x), shape.head)
        taps = len(self._layers["local"][0])
        excess = (len(stem) - taps + 1 - len(fine)) // 2
        fine += self._convolved("local", stem[excess : excess + len(fine) + taps - 1])
        head = _rectified(self._convolved("mix", _rectified(fine)))
        frames = len(features) - 2 * shape.context_frames
        trim = (len(head) - frames) // 2
        logits = self._convolved("out", head[trim : trim + frames])
        return logits[:, : shape.classes], logits[:, shape.classes :]

    def _convolved(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return a layer's convolution of rows (T, in): Σ_k x[t + k] @ weight[k] + bias."""
        weight, bias = self._layers[name]
        count = len(x) - len(weight) + 1
        y = x[:count] @ weight[0]
        for tap in range(1, len(weight)):
            y += x[tap : tap + count] @ weight[tap]
        y += bias
        return np.asarray(y)

    def _convolved_in_pairs(self, name: str, x: np.ndarray, dilation: int) -> np.ndarray:
        """Return a convolution of three taps, by four products for two outputs.

        An output is Σ_k x[t + k * dilation] @ g[k] + bias.

        F(2, 3) of Winograd (Lavin and Gray 2016): of inputs x0 … x3, `dilation` rows apart, the
        outputs are
        m0 + m1 + m2 and m1 - m2 - m3, where m0 = (x0 - x2) g0, m1 = (x1 + x2) (g0 + g1 + g2) / 2,
        m2 = (x2 - x1) (g0 - g1 + g2) / 2, m3 = (x1 - x3) g2.
        """
        weight, bias = self._layers[name]
        count = len(x) - 2 * dilation
        size = x.shape[1]
        blocks = -(-count // (2 * dilation))
        rows = np.zeros(((blocks + 1) * 2 * dilation, size), x.dtype)
        rows[: len(x)] = x
        rows = rows.reshape(blocks + 1, 2, dilation, size)
        x0 = rows[:-1, 0]
        x1 = rows[:-1, 1]
        x2 = rows[1:, 0]
        x3 = rows[1:, 1]
        m0, m1, m2, m3 = (
            inputs.reshape(-1, size) @ factors
            for inputs, factors in zip((x0 - x2, x1 + x2, x2 - x1, x1 - x3), weight)
        )
        m1 += bias
        y = np.empty((blocks, 2, dilation, weight.shape[2]), x.dtype)
        np.add(m0 + m1, m2, out=m0)
        np.subtract(m1 - m2, m3, out=m1)
        y[:, 0], y[:, 1] = m0.reshape(y[:, 0].shape), m1.reshape(y[:, 0].shape)
        return y.reshape(-1, weight.shape[2])[:count]


def _rectified(x: np.ndarray) -> np.ndarray:
    """Return max(x, 0), in place: numpy is twice as fast with a row of zeros as with a number."""
    return np.maximum(x, np.zeros(x.shape[1], x.dtype), out=x)
