"""The edge network: the position of the edge between two sounds within a window around it.

One-dimensional convolutions over fine log-mels and the acoustic model's scores, modulated by the sounds on either side,
and a softmax over the positions that the edge may have. The modulation is h ← (1 + γ) h + β for each channel, γ and β
being linear in the embeddings of the sounds (Perez et al. 2018, arXiv 1709.07871: FiLM). The network is in the folder
of a model that was trained with one, and in that of a calibration that learnt one from labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align.models.calibration import KINDS, MOST_SPREAD, SILENCE, SOUND, folder_of, kind_of
from ctc_align.models.convnet.features import mel_filters
from ctc_align.models.network_files import network_bytes, read_network
from ctc_align.reading import as_number, as_whole
from ctc_align.text.phone_sets import IPA_PHONES, NEAREST_ARPABET, is_ipa
from ctc_align.types import Audio

# Fine log-mel features of a recording, for networks that look at edges: a frame every 5 ms, levelled nearby.
#
# An acoustic model's features are too coarse for an edge: 20 ms around every 10 ms. These are 16 ms around every 5 ms,
# and what is loud in the ten seconds around them is 0: neither gain nor a speaker farther away makes a difference.

FINE_SHIFT_S = 0.005
"""Frame f is centred on `f * SHIFT_S`, counted from the audio's first sample."""
FINE_WINDOW_S = 0.016
FINE_MELS = 30
LOW_HZ, HIGH_HZ = 60.0, 8000.0
LEVEL_FRAMES = 200
"""Each second has its level …"""
LEVEL_REACH_FRAMES = 1000
"""… which is the `LOUD_QUANTILE` of the frames within five seconds of it."""
LOUD_QUANTILE = 0.9
LEVEL_STEP = 4
FLOOR, CENTRE, SCALE = -14.0, -5.0, 0.3
"""A channel x, in nats relative to the level, becomes (max(x, FLOOR) − CENTRE) · SCALE."""
FINE_SILENCE = (FLOOR - CENTRE) * SCALE
"""The value of all channels beyond the recording's ends."""
_SMALLEST_POWER = 1e-12
_LEAST_ROWS = 64


def fine_frame_count(audio: Audio) -> int:
    """Return the number of frames of a recording, one for every begun 5 ms."""
    return -(-len(audio.samples) // _shift_samples(audio.sample_rate))


def fine_features(audio: Audio, first: int, last: int) -> torch.Tensor:
    """Return the features of frames [first, last) of a recording: (last - first, MELS) float32, on the CPU.

    Frames before its beginning and after its end are silent. A frame does not depend on which others are requested.

    Args:
        audio: mono; its samples may lie on disk.
        first, last: frames, `last` exclusive; may lie outside the recording.
    """
    count = fine_frame_count(audio)
    begin, end = min(max(first, 0), count), min(max(last, 0), count)
    features = torch.full((last - first, FINE_MELS), FINE_SILENCE)
    if begin >= end:
        return features
    first_second, last_second = begin // LEVEL_FRAMES, (end - 1) // LEVEL_FRAMES
    near = max(0, first_second * LEVEL_FRAMES - LEVEL_REACH_FRAMES)
    far = min(count, (last_second + 1) * LEVEL_FRAMES + LEVEL_REACH_FRAMES)
    log_mel = _log_mel(audio, near, far)
    loudness = log_mel.logsumexp(1)
    found = log_mel[begin - near : end - near]
    for second in range(first_second, last_second + 1):
        low = max(0, second * LEVEL_FRAMES - LEVEL_REACH_FRAMES) - near
        high = (second + 1) * LEVEL_FRAMES + LEVEL_REACH_FRAMES - near
        within = slice(max(begin, second * LEVEL_FRAMES) - begin, (second + 1) * LEVEL_FRAMES - begin)
        found[within] -= _loud(loudness[low:high])
    features[begin - first : end - first] = found.clamp_min(FLOOR).sub_(CENTRE).mul_(SCALE)
    return features


def _loud(loudness: torch.Tensor) -> float:
    """Return the quantile of loudness (t,), of every `LEVEL_STEP`-th frame."""
    some = loudness[::LEVEL_STEP].numpy()
    rank = round(LOUD_QUANTILE * (len(some) - 1))
    return float(np.partition(some, rank)[rank])


def _shift_samples(sample_rate: int) -> int:
    return round(FINE_SHIFT_S * sample_rate)


@lru_cache(maxsize=4)
def _filters(sample_rate: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the window, the mel filters (fft // 2 + 1, MELS), and the length of the FFT, all for one sample rate."""
    length = round(FINE_WINDOW_S * sample_rate)
    fft = 2 ** (length - 1).bit_length()
    filters = mel_filters(FINE_MELS, fft, sample_rate, LOW_HZ, min(HIGH_HZ, sample_rate / 2))
    return torch.hann_window(length, periodic=False), torch.from_numpy(filters), fft


def _log_mel(audio: Audio, first: int, last: int) -> torch.Tensor:
    """Return frames [first, last) within the recording: (last - first, MELS) float32, natural log of power."""
    window, filters, fft = _filters(audio.sample_rate)
    shift, reach = _shift_samples(audio.sample_rate), len(window) // 2
    begin, end = first * shift - reach, (last - 1) * shift + len(window) - reach
    samples = np.ascontiguousarray(audio.samples[max(0, begin) : max(0, end)], np.float32)
    # Products of a few rows are summed in a different order: a frame must not depend on how many are computed with it.
    lacking = max(0, _LEAST_ROWS - (last - first)) * shift
    right = max(0, end - len(audio.samples)) + lacking
    padded = torch.nn.functional.pad(torch.from_numpy(samples), (max(0, -begin), right))
    spectrum = torch.fft.rfft(padded.unfold(0, len(window), shift) * window, fft)
    power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
    return torch.log((power @ filters).clamp_min_(_SMALLEST_POWER))[: last - first]


FILE = "edges.safetensors"
FORMAT = "ctc-align-edges/1"
FARTHEST = 12
"""The most fine frames by which an edge is moved (60 ms)."""
POSITIONS = 2 * FARTHEST + 1
KERNEL = 5
DILATIONS = (1, 2, 3)
REACH = FARTHEST + sum(DILATIONS) * (KERNEL // 2)
"""Fine frames on either side of a window's centre: 120 ms."""
WINDOW = 2 * REACH + 1
MODEL_CHANNELS = 7
CHANNELS = FINE_MELS + MODEL_CHANNELS
INSIDE, WORD_END, WORD_START = ROLES = range(3)
"""An edge that two sounds share; the end of a word and the start of the next one, which need not be the same."""
BLOCK = 32
"""Windows that are computed together; the last batch is filled up, because results round differently for other
sizes."""
WIDEST = 2**12
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


@dataclass(frozen=True, eq=False)
class EdgeWindows:
    """Windows around edges, and the sounds on either side.

    Attributes:
        values: (E, CHANNELS, W) float32, W fine frames per window: `WINDOW`, or more if training will shift the
            windows.
        left, right: (E,) int64, the sounds before and after, as `EdgeNetwork.index_of` counts them.
        role: (E,) int64, one of `ROLES`.
    """

    values: torch.Tensor
    left: torch.Tensor
    right: torch.Tensor
    role: torch.Tensor

    def __len__(self) -> int:
        return len(self.values)

    @property
    def _columns(self) -> tuple[torch.Tensor, ...]:
        return self.values, self.left, self.right, self.role

    def part(self, which: slice | torch.Tensor) -> EdgeWindows:
        """Return some of the windows."""
        return EdgeWindows(*(column[which] for column in self._columns))

    def to(self, device: str | torch.device) -> EdgeWindows:
        """Return the windows on a device."""
        return EdgeWindows(*(column.to(device) for column in self._columns))

    @staticmethod
    def joined(parts: Sequence[EdgeWindows]) -> EdgeWindows:
        """Return the concatenation of several batches of windows."""
        return EdgeWindows(*(torch.cat(columns) for columns in zip(*(part._columns for part in parts))))


class EdgeNetwork(nn.Module):
    """The network; its companions are networks of the same shape whose chances are averaged with its chances.

    A sound that it does not know counts as its kind (`ctc_align.models.calibration.kind_of`).
    """

    kind_of_sound: torch.Tensor

    def __init__(self, shape: EdgeNetworkShape) -> None:
        super().__init__()
        self.shape = shape
        self.spread = 1.0
        """Factor of standard deviations, so that 68 of 100 edges lie within one of them."""
        self._index = {label: index for index, label in enumerate(shape.labels)}
        width, size = shape.width, shape.embedding
        ipa = is_ipa(shape.labels)
        sounds = [kind_of(label, ipa=ipa) for label in shape.labels] + [SILENCE, *KINDS]
        self.register_buffer("kind_of_sound", torch.tensor([KINDS.index(kind) for kind in sounds]), persistent=False)
        self.sound = nn.Embedding(len(shape.labels) + 1, size)
        self.kind = nn.Embedding(len(KINDS), size)
        self.role = nn.Embedding(len(ROLES), size)
        around = 5 * size + 1
        inputs = (CHANNELS, *[width] * (len(DILATIONS) - 1))
        self.layers = nn.ModuleList(nn.Conv1d(count, width, KERNEL, dilation=d) for count, d in zip(inputs, DILATIONS))
        self.modulation = nn.ModuleList(nn.Linear(around, 2 * width) for _ in DILATIONS)
        self.output = nn.Conv1d(width, 1, 1)
        self.habit = nn.Linear(around, POSITIONS)
        alone = replace(shape, members=1)
        self.companions = nn.ModuleList(EdgeNetwork(alone) for _ in range(shape.members - 1))

    @staticmethod
    def together(networks: Sequence[EdgeNetwork]) -> EdgeNetwork:
        """Return networks of one shape as one, whose chances are the means of theirs."""
        network = EdgeNetwork(replace(networks[0].shape, members=len(networks)))
        weights = dict(networks[0].state_dict())
        for number, other in enumerate(networks[1:]):
            weights |= {f"companions.{number}.{name}": weight for name, weight in other.state_dict().items()}
        network.load_state_dict(weights)
        return network.eval()

    def members(self) -> list[EdgeNetwork]:
        """Return the networks one by one."""
        weights = {name: weight for name, weight in self.state_dict().items() if not name.startswith("companions.")}
        first = EdgeNetwork(replace(self.shape, members=1)).eval()
        first.load_state_dict(weights)
        return [first, *(each for each in self.companions if isinstance(each, EdgeNetwork))]

    @property
    def silence(self) -> int:
        """The index of silence among the sounds."""
        return len(self.shape.labels)

    def index_of(self, label: str) -> int:
        """Return the index of a sound's token; if the network does not know the token, the index of its kind."""
        known = self._index.get(label)
        return self.index_of_kind(kind_of(label)) if known is None else known

    def index_of_kind(self, kind: str) -> int:
        """Return the index of a sound of which only the kind is known."""
        return self.silence + 1 + KINDS.index(kind)

    def hidden(self, index: torch.Tensor, sounds: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """Return indices (E,) of sounds, some replaced by their kind or by "sound"; silence stays.

        Args:
            index: (E,) of the sounds.
            sounds, kinds: (E,) bool, where the sound is hidden, and where its kind is hidden, too.
        """
        silent = index == self.silence
        hidden = torch.where(sounds, self.silence + 1 + self.kind_of_sound[index], index)
        hidden = torch.where(kinds, torch.full_like(index, self.index_of_kind(SOUND)), hidden)
        return torch.where(silent, index, hidden)

    def for_ipa(self) -> EdgeNetwork:
        """Return a network that takes each phone of `ctc_align.text.phone_sets` for the nearest English one."""
        nearest = [self.index_of(NEAREST_ARPABET[phone]) for phone in IPA_PHONES]
        return self._with_sounds(IPA_PHONES, [*nearest, self.silence])

    def without_sounds(self) -> EdgeNetwork:
        """Return the same network for sounds of any language: it knows their kinds, if they have one."""
        return self._with_sounds((), [self.silence])

    def _with_sounds(self, labels: tuple[str, ...], rows: list[int]) -> EdgeNetwork:
        """Return the same network for other tokens; `rows` are their embeddings and that of silence."""
        weights = {
            name: weight[rows] if name.endswith("sound.weight") else weight
            for name, weight in self.state_dict().items()
        }
        network = EdgeNetwork(replace(self.shape, labels=labels))
        network.load_state_dict(weights)
        network.spread = self.spread
        return network.eval()

    def forward(
        self,
        windows: EdgeWindows,
        dropout: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return the logits (E, POSITIONS) of this network alone for windows of `WINDOW` frames.

        Args:
            windows: around the edges.
            dropout: applied to each layer's output (E, width, time), in training.
        """
        around = self._around(windows.left, windows.right, windows.role)
        hidden = windows.values.transpose(1, 2).contiguous()
        for number, (layer, modulation) in enumerate(zip(self.layers, self.modulation)):
            gain, shift = modulation(around)[:, None, :].chunk(2, 2)
            found = _convolved(layer, hidden).mul_(1.0 + gain).add_(shift).relu_()
            if dropout is not None:
                found = dropout(found.transpose(1, 2)).transpose(1, 2)
            lost = DILATIONS[number] * (KERNEL // 2)
            hidden = found + hidden[:, lost:-lost] if number else found
        found = nn.functional.linear(hidden, self.output.weight[:, :, 0], self.output.bias)
        return found[:, :, 0] + self.habit(around)

    def _around(self, left: torch.Tensor, right: torch.Tensor, role: torch.Tensor) -> torch.Tensor:
        """Return the features of the edges that do not depend on their windows (E, 5 * embedding + 1)."""
        sounds = []
        for index in (left, right):
            named = (index <= self.silence).to(self.sound.weight.dtype)
            sounds.append(self.sound(index.clamp_max(self.silence)) * named[:, None])
        kinds = [self.kind(self.kind_of_sound[index]) for index in (left, right)]
        same = (left == right).to(self.sound.weight.dtype)
        return torch.cat((*sounds, *kinds, self.role(role), same[:, None]), 1)

    @torch.no_grad()
    def chances(self, windows: EdgeWindows) -> torch.Tensor:
        """Return the chance (E, POSITIONS) of each position; a window's bits do not depend on the other windows."""
        found = []
        for first in range(0, len(windows), BLOCK):
            some = windows.part(slice(first, first + BLOCK))
            lacking = torch.arange(first, first + BLOCK, device=some.left.device).clamp_max(len(windows) - 1)
            whole = some if len(some) == BLOCK else windows.part(lacking)
            chances = self(whole).softmax(1)
            for other in self.companions:
                chances = chances + other(whole).softmax(1)
            found.append((chances / self.shape.members)[: len(some)])
        return torch.cat(found)


def _convolved(layer: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """Return a layer's convolution of values (E, time, channels): a product of matrices for every tap of its kernel.

    Each window has products of the same size, so that its bits do not depend on the other windows. For rows as short as
    these, the products are faster than a convolution.
    """
    assert isinstance(layer, nn.Conv1d)
    assert layer.bias is not None
    dilation, count = layer.dilation[0], len(hidden)
    time = hidden.shape[1] - dilation * (KERNEL - 1)
    found = layer.bias.repeat(count, time, 1)
    for tap, weight in enumerate(layer.weight.permute(2, 1, 0).contiguous()):
        part = hidden[:, tap * dilation : tap * dilation + time]
        found.baddbmm_(part, weight.expand(count, -1, -1))
    return found


def load_edge_network(folder: Path) -> EdgeNetwork | None:
    """Return the network in a folder, None if there is none.

    Raises:
        ConfigError: the file was not written by training.
    """
    return read_network(folder / FILE, "a network of edges", FORMAT, _built)


def edge_network_of(model: str) -> EdgeNetwork | None:
    """Return the network beside the model that `--model` names, None if it has none; raise as `load_edge_network`."""
    folder = folder_of(model)
    return None if folder is None else load_edge_network(folder)


def _built(about: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> EdgeNetwork:
    network = EdgeNetwork(_checked_shape(about, weights))
    network.spread = as_number(about["spread"])
    if not 0.0 < network.spread <= MOST_SPREAD:
        raise ValueError("the spread is not above 0")
    if not all(bool(weight.isfinite().all()) for weight in weights.values()):
        raise ValueError("weights that are not finite")
    return network


def _checked_shape(about: Mapping[str, object], weights: Mapping[str, torch.Tensor]) -> EdgeNetworkShape:
    """Return the shape, checked against the weights before any memory is taken for a network of its sizes.

    Raises:
        KeyError, TypeError, ValueError: the shape is missing, or does not fit the weights.
    """
    labels = about["labels"]
    if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
        raise ValueError("labels are not strings")
    if len(labels) > MOST_LABELS or len(set(labels)) != len(labels):
        raise ValueError("a label is there twice, or there are too many")
    width, embedding = (min(as_whole(about[name], 1), WIDEST) for name in ("width", "embedding"))
    members = as_whole(about["members"], 1)
    if members > MOST_MEMBERS or any(f"companions.{k}.sound.weight" not in weights for k in range(members - 1)):
        raise ValueError("members do not match the weights")
    if weights["sound.weight"].shape != (len(labels) + 1, embedding):
        raise ValueError("labels do not match the weights")
    if weights["layers.0.weight"].shape != (width, CHANNELS, KERNEL):
        raise ValueError("width does not match the weights")
    return EdgeNetworkShape(tuple(labels), width, embedding, members)


def edge_network_bytes(network: EdgeNetwork) -> bytes:
    """Return the contents of the network's file: weights in half precision."""
    return network_bytes(network, FORMAT, {"spread": network.spread, **asdict(network.shape)})
