"""The edge network: the position of the edge between two sounds within a window around it.

One-dimensional convolutions over fine log-mels and the acoustic model's scores, modulated by the
sounds on either side, and a softmax over the positions that the edge may have. The modulation is h
← (1 + γ) h + β for each channel, γ and β being linear in the embeddings of the sounds (Perez et al.
2018, arXiv 1709.07871: FiLM). The network is in the folder of a model that was trained with one,
and in that of a calibration that learnt one from labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.kernels.log_space import log_softmax, log_sum_exp
from ctc_align.models.calibration import KINDS, MOST_SPREAD, SILENCE, folder_of, kind_of
from ctc_align.models.convnet.features import log_channels, mel_filters
from ctc_align.models.network_files import check_weights, network_bytes, read_network
from ctc_align.reading import as_number, as_whole
from ctc_align.text.phone_sets import is_ipa
from ctc_align.types import Audio

# Fine log-mel features of a recording, for networks that look at edges: a frame every 5 ms,
# levelled nearby.
#
# An acoustic model's features are too coarse for an edge: 20 ms around every 10 ms. These are 16 ms
# around every 5 ms, and what is loud in the ten seconds around them is 0: neither gain nor a
# speaker farther away makes a difference.

FINE_SHIFT_S = 0.005
"""Frame f is centred on `f * SHIFT_S`, counted from the audio's first sample."""
FINE_WINDOW_S = 0.016
FINE_MELS = 30
LOW_HZ, HIGH_HZ = 60.0, 8000.0
LEVEL_FRAMES = 200
"""How often the level of the recording is measured (once a second)."""
LEVEL_REACH_FRAMES = 1000
"""The level is the `LOUD_QUANTILE` of the frames within this distance (five seconds)."""
LOUD_QUANTILE = 0.9
LEVEL_STEP = 4
FLOOR, CENTRE, SCALE = -14.0, -5.0, 0.3
"""A channel x, in nats relative to the level, becomes (max(x, FLOOR) − CENTRE) · SCALE."""
FINE_SILENCE = (FLOOR - CENTRE) * SCALE
"""The value of all channels beyond the recording's ends."""
_SMALLEST_POWER = 1e-12


def fine_frame_count(audio: Audio) -> int:
    """Return the number of frames of a recording, one for every begun 5 ms."""
    return -(-len(audio.samples) // _shift_samples(audio.sample_rate))


def fine_features(audio: Audio, first: int, last: int) -> np.ndarray:
    """Return the features of frames [first, last) of a recording: (last - first, MELS) float32.

    Frames before its beginning and after its end are silent. A frame does not depend on which
    others are requested.

    Args:
        audio: mono; its samples may lie on disk.
        first, last: frames, `last` exclusive; may lie outside the recording.
    """
    count = fine_frame_count(audio)
    begin, end = min(max(first, 0), count), min(max(last, 0), count)
    features = np.full((last - first, FINE_MELS), FINE_SILENCE, np.float32)
    if begin >= end:
        return features
    first_second = begin // LEVEL_FRAMES
    last_second = (end - 1) // LEVEL_FRAMES
    near = max(0, first_second * LEVEL_FRAMES - LEVEL_REACH_FRAMES)
    far = min(count, (last_second + 1) * LEVEL_FRAMES + LEVEL_REACH_FRAMES)
    log_mel = _log_mel(audio, near, far)
    loudness = log_sum_exp(log_mel)
    found = log_mel[begin - near : end - near]
    for second in range(first_second, last_second + 1):
        low = max(0, second * LEVEL_FRAMES - LEVEL_REACH_FRAMES) - near
        high = (second + 1) * LEVEL_FRAMES + LEVEL_REACH_FRAMES - near
        within = slice(
            max(begin, second * LEVEL_FRAMES) - begin, (second + 1) * LEVEL_FRAMES - begin
        )
        found[within] -= _loud(loudness[low:high])
    features[begin - first : end - first] = (
        np.maximum(found, np.float32(FLOOR)) - np.float32(CENTRE)
    ) * np.float32(SCALE)
    return features


def _loud(loudness: np.ndarray) -> np.float32:
    """Return the quantile of loudness (t,), of every `LEVEL_STEP`-th frame."""
    some = loudness[::LEVEL_STEP]
    rank = round(LOUD_QUANTILE * (len(some) - 1))
    return np.float32(np.partition(some, rank)[rank])


def _shift_samples(sample_rate: int) -> int:
    return round(FINE_SHIFT_S * sample_rate)


@lru_cache(maxsize=4)
def _filters(sample_rate: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the window and the mel filters (fft // 2 + 1, MELS) for one sample rate."""
    length = round(FINE_WINDOW_S * sample_rate)
    fft = 2 ** (length - 1).bit_length()
    filters = mel_filters(FINE_MELS, fft, sample_rate, LOW_HZ, min(HIGH_HZ, sample_rate / 2))
    return np.hanning(length).astype(np.float32), filters


def _log_mel(audio: Audio, first: int, last: int) -> np.ndarray:
    """Return the natural log of the mel power of frames [first, last) within the recording.

    The result is (last - first, MELS) float32.
    """
    window, filters = _filters(audio.sample_rate)
    shift = _shift_samples(audio.sample_rate)
    reach = len(window) // 2
    begin = first * shift - reach
    end = (last - 1) * shift + len(window) - reach
    samples = np.asarray(audio.samples[max(0, begin) : max(0, end)], np.float32)
    padded = np.pad(samples, (max(0, -begin), max(0, end - len(audio.samples))))
    return log_channels(padded, window, filters, shift, first, _SMALLEST_POWER)


FILE = "edges.safetensors"
FORMAT = "ctc-align-edges/1"
FARTHEST = 12
"""The maximum number of fine frames by which an edge is moved (60 ms)."""
POSITIONS = 2 * FARTHEST + 1
KERNEL = 5
DILATIONS = (1, 2, 3)
REACH = FARTHEST + sum(DILATIONS) * (KERNEL // 2)
"""Fine frames on either side of a window's centre: 120 ms."""
WINDOW = 2 * REACH + 1
MODEL_CHANNELS = 7
CHANNELS = FINE_MELS + MODEL_CHANNELS
INSIDE, WORD_END, WORD_START = ROLES = range(3)
"""Kinds of edges: shared by two sounds; the end of a word; the start of the next one.

The end of a word and the start of the next one need not be at the same time.
"""
BLOCK = 16
"""Windows that are computed together, each by products of its own.

In larger products, a window's bits would depend on its place.
"""
MOST_LABELS = 2**16
MOST_MEMBERS = 16


@dataclass(frozen=True)
class EdgeNetworkShape:
    """The sizes of a network.

    Attributes:
        labels: the tokens that the network knows.
        width: the number of channels.
        embedding: the size of the embeddings of sounds, kinds and roles.
        members: the number of networks whose probabilities are averaged.
    """

    labels: tuple[str, ...]
    width: int = 48
    embedding: int = 8
    members: int = 1

    @property
    def silence(self) -> int:
        """The index of silence among the sounds."""
        return len(self.labels)

    @cached_property
    def kinds(self) -> np.ndarray:
        """The index in `KINDS` of each sound.

        The sounds are the labels, silence, and those of which only the kind is known.
        """
        ipa = is_ipa(self.labels)
        return np.array(
            [KINDS.index(kind_of(label, ipa=ipa)) for label in self.labels]
            + [KINDS.index(SILENCE), *range(len(KINDS))]
        )

    @cached_property
    def _index(self) -> dict[str, int]:
        return {label: index for index, label in enumerate(self.labels)}

    def index_of(self, label: str) -> int:
        """Return the index of a sound's token.

        If the network does not know the token, it is the index of the token's kind.
        """
        known = self._index.get(label)
        if known is None:
            return self.index_of_kind(kind_of(label))
        return known

    def index_of_kind(self, kind: str) -> int:
        """Return the index of a sound of which only the kind is known."""
        return self.silence + 1 + KINDS.index(kind)

    @property
    def around(self) -> int:
        """The number of features of an edge that do not depend on its window."""
        return 5 * self.embedding + 1

    @property
    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight of one member, by its name in a file.

        Convolutions are (out, in, taps).
        """
        width, size = self.width, self.embedding
        shapes: dict[str, tuple[int, ...]] = {
            "sound.weight": (len(self.labels) + 1, size),
            "kind.weight": (len(KINDS), size),
            "role.weight": (len(ROLES), size),
            "output.weight": (1, width, 1),
            "output.bias": (1,),
            "habit.weight": (POSITIONS, self.around),
            "habit.bias": (POSITIONS,),
        }
        for number in range(len(DILATIONS)):
            shapes |= {
                f"layers.{number}.weight": (width, width if number else CHANNELS, KERNEL),
                f"layers.{number}.bias": (width,),
                f"modulation.{number}.weight": (2 * width, self.around),
                f"modulation.{number}.bias": (2 * width,),
            }
        return shapes


@dataclass(frozen=True, eq=False)
class EdgeWindows:
    """Windows around edges, and the sounds on either side.

    Attributes:
        values: (E, W, CHANNELS) float32, W fine frames per window: `WINDOW`, or more if training
            will shift the windows.
        left, right: (E,) int64, the sounds before and after, as `EdgeNetworkShape.index_of` counts
            them.
        role: (E,) int64, one of `ROLES`.
    """

    values: np.ndarray
    left: np.ndarray
    right: np.ndarray
    role: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.values, self.left, self.right, self.role

    def part(self, which: slice | np.ndarray) -> EdgeWindows:
        """Return some of the windows."""
        return EdgeWindows(*(column[which] for column in self._columns))

    @staticmethod
    def joined(parts: Sequence[EdgeWindows]) -> EdgeWindows:
        """Return the concatenation of several batches of windows."""
        return EdgeWindows(
            *(np.concatenate(columns) for columns in zip(*(part._columns for part in parts)))
        )


class EdgeNetwork:
    """The network: its members are networks of the same shape, whose chances are averaged.

    A sound that it does not know counts as its kind (`ctc_align.models.calibration.kind_of`).
    `ctc_align.training.edge_learning` trains one member.

    Args:
        shape: the sizes.
        weights: those of the first member by the names in `EdgeNetworkShape.weight_shapes`; those
            of the others have the prefixes `companions.0.`, `companions.1.` …
        spread: factor of standard deviations, so that 68 of 100 edges lie within one of them.
    """

    def __init__(
        self, shape: EdgeNetworkShape, weights: Mapping[str, np.ndarray], spread: float = 1.0
    ) -> None:
        self.shape = shape
        self.weights = weights
        self.spread = spread

        def of_all(name: str) -> np.ndarray:
            return np.stack([weights[prefix + name] for prefix in _prefixes(shape.members)])

        # A sound of which only the kind is known has no embedding of its own.
        sounds = np.pad(of_all("sound.weight"), ((0, 0), (0, len(KINDS)), (0, 0)))
        self._sounds = np.concatenate((sounds, of_all("kind.weight")[:, shape.kinds]), 2)
        self._roles = of_all("role.weight")
        layers = range(len(DILATIONS))
        kernels = [of_all(f"layers.{k}.weight").transpose(0, 3, 2, 1) for k in layers]
        self._kernels = [
            np.ascontiguousarray(kernel.reshape(shape.members, -1, shape.width))
            for kernel in kernels
        ]
        self._biases = [of_all(f"layers.{k}.bias")[:, None] for k in layers]
        # What depends on the sounds alone is one product: gains, shifts, and the habit.
        names = [*(f"modulation.{k}" for k in layers), "habit"]
        self._modulation = np.concatenate(
            [of_all(f"{name}.weight").transpose(0, 2, 1) for name in names], 2
        )
        self._constant = np.concatenate([of_all(f"{name}.bias") for name in names], 1)[:, None]
        self._output = of_all("output.weight").transpose(0, 1, 3, 2)
        self._level = of_all("output.bias")[:, None]

    @staticmethod
    def together(networks: Sequence[EdgeNetwork]) -> EdgeNetwork:
        """Join networks of one shape, with one member each; probabilities are their means."""
        named = zip(_prefixes(len(networks)), networks)
        weights = {
            prefix + name: weight
            for prefix, network in named
            for name, weight in network.weights.items()
        }
        return EdgeNetwork(replace(networks[0].shape, members=len(networks)), weights)

    def apart(self) -> list[EdgeNetwork]:
        """Return the members as networks of their own."""
        one = replace(self.shape, members=1)
        return [
            EdgeNetwork(
                one, {name: self.weights[prefix + name] for name in one.weight_shapes}, self.spread
            )
            for prefix in _prefixes(self.shape.members)
        ]

    def towards(self, other: EdgeNetwork, share: float) -> EdgeNetwork:
        """Return a network whose weights lie a share of the way to those of another.

        Both have the same shape.
        """
        weights = {
            name: weight + np.float32(share) * (other.weights[name] - weight)
            for name, weight in self.weights.items()
        }
        return EdgeNetwork(self.shape, weights, self.spread)

    def with_sounds(self, labels: tuple[str, ...], rows: list[int]) -> EdgeNetwork:
        """Return this network for other tokens.

        `rows` are the embeddings of the tokens and of silence.
        """
        weights = {
            name: w[rows] if name.endswith("sound.weight") else w
            for name, w in self.weights.items()
        }
        return EdgeNetwork(replace(self.shape, labels=labels), weights, self.spread)

    def chances(self, windows: EdgeWindows) -> np.ndarray:
        """Return the chance (E, POSITIONS) float64 of each position.

        A window's bits do not depend on other windows.
        """
        found = []
        for first in range(0, len(windows), BLOCK):
            logits = self.logits(windows.part(slice(first, first + BLOCK)))
            found.append(np.exp(log_softmax(logits)).mean(0, np.float64))
        return np.concatenate(found)

    def logits(self, windows: EdgeWindows) -> np.ndarray:
        """Return the logits (members, E, POSITIONS) of windows of `WINDOW` frames."""
        width = self.shape.width
        around = (self._around(windows)[:, :, None] @ self._modulation[:, None])[:, :, 0]
        around += self._constant
        hidden = windows.values[None]
        for number, (dilation, kernel) in enumerate(zip(DILATIONS, self._kernels)):
            # The taps of a position beside each other: a window's convolution is one product.
            time = hidden.shape[2] - dilation * (KERNEL - 1)
            lost = dilation * (KERNEL // 2)
            taps = [hidden[:, :, tap * dilation : tap * dilation + time] for tap in range(KERNEL)]
            found = np.concatenate(taps, 3) @ kernel[:, None]
            gain, shift = np.split(
                around[:, :, 2 * width * number : 2 * width * (number + 1)], 2, 2
            )
            gain = gain + np.float32(1.0)
            shift = shift + self._biases[number] * gain
            found *= gain[:, :, None]
            found += shift[:, :, None]
            np.maximum(found, np.zeros(width, np.float32), out=found)
            if number:
                found += hidden[:, :, lost : hidden.shape[2] - lost]
            hidden = found
        levels = (hidden * self._output).sum(3)
        return np.asarray(levels + self._level + around[:, :, -POSITIONS:])

    def _around(self, windows: EdgeWindows) -> np.ndarray:
        """Return the features of edges that do not depend on their windows.

        They are (members, E, around).
        """
        left, right = self._sounds[:, windows.left], self._sounds[:, windows.right]
        sounds, kinds = zip(*(np.split(side, 2, 2) for side in (left, right)))
        same = np.broadcast_to(
            (windows.left == windows.right).astype(np.float32)[:, None], (*left.shape[:2], 1)
        )
        return np.concatenate((*sounds, *kinds, self._roles[:, windows.role], same), 2)


def _prefixes(members: int) -> list[str]:
    return ["", *(f"companions.{number}." for number in range(members - 1))]


def load_edge_network(folder: Path) -> EdgeNetwork | None:
    """Return the network in a folder, None if there is none.

    Raises:
        ConfigError: the file was not written by training.
    """
    return read_network(folder / FILE, "an edge network", FORMAT, _built)


def edge_network_of(model: str) -> EdgeNetwork | None:
    """Return the network beside the model that `--model` names, None if there is none.

    It raises as `load_edge_network` does.
    """
    folder = folder_of(model)
    if folder is None:
        return None
    return load_edge_network(folder)


def _built(about: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> EdgeNetwork:
    shape = _checked_shape(about, weights)
    spread = as_number(about["spread"])
    if not 0.0 < spread <= MOST_SPREAD:
        raise ValueError("the spread is not above 0")
    if not all(np.isfinite(weight).all() for weight in weights.values()):
        raise ValueError("weights that are not finite")
    return EdgeNetwork(shape, weights, spread)


def _checked_shape(
    about: Mapping[str, object], weights: Mapping[str, np.ndarray]
) -> EdgeNetworkShape:
    """Return the shape, checked against the weights.

    Raises:
        KeyError, TypeError, ValueError: the shape is missing, or does not fit the weights.
    """
    labels = about["labels"]
    if not isinstance(labels, list) or not all(
        isinstance(label, str) and label for label in labels
    ):
        raise ValueError("labels are not strings")
    if len(labels) > MOST_LABELS or len(set(labels)) != len(labels):
        raise ValueError("a label is there twice, or there are too many")
    width, embedding, members = (
        as_whole(about[name], 1) for name in ("width", "embedding", "members")
    )
    if members > MOST_MEMBERS:
        raise ValueError("too many members")
    shape = EdgeNetworkShape(tuple(labels), width, embedding, members)
    sizes = shape.weight_shapes.items()
    check_weights(
        weights, {prefix + name: size for prefix in _prefixes(members) for name, size in sizes}
    )
    return shape


def edge_network_bytes(network: EdgeNetwork) -> bytes:
    """Return the contents of the network's file: weights in half precision."""
    return network_bytes(
        network.weights, FORMAT, {"spread": network.spread, **asdict(network.shape)}
    )
