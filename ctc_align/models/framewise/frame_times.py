"""The frame grid of a stack of convolutions: its true stride, and the centre of the first frame.

A network with one frame for every 320 samples does not begin at 0 and does not end with the recording: its first frame
sees samples 0 to 399, and the last samples may be too few for one more. The duration divided by the number of frames is
therefore not the stride, and edges that are computed with it drift.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ctc_align import units


@dataclass(frozen=True)
class Convolution:
    """One layer: an output for `kernel` inputs, every `stride` inputs, with `padding` zeros on either side.

    `end_padding` is the number of zeros behind the inputs if it differs; below 0, the last inputs are left out.
    """

    kernel: int
    stride: int = 1
    padding: int = 0
    end_padding: int | None = None

    def outputs(self, inputs: int) -> int:
        """Return the number of outputs of `inputs` inputs; the last inputs may be too few for one more."""
        behind = self.padding if self.end_padding is None else self.end_padding
        return max(0, (inputs + self.padding + behind - self.kernel) // self.stride + 1)


@dataclass(frozen=True)
class FrameGrid:
    """The frames that a stack of convolutions makes of a row of inputs (samples, or features).

    `together` is the number of frames that later layers take as one: a chunk begins at a multiple of it.

    >>> grid = FrameGrid.of([(10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)])
    >>> grid.stride, grid.field, grid.first_centre, grid.frames(16000)
    (320, 400, 200.0, 49)
    >>> grid.first_frame_s(16000)
    0.0025
    """

    layers: tuple[Convolution, ...]
    together: int = 1

    @classmethod
    def of(cls, layers: Iterable[tuple[int, ...]], together: int = 1) -> FrameGrid:
        """Return the grid of layers (kernel, stride, padding, end_padding), the last two optional."""
        return cls(tuple(Convolution(*layer) for layer in layers), together)

    @property
    def stride(self) -> int:
        """Number of inputs from one frame to the next."""
        return math.prod(layer.stride for layer in self.layers)

    @property
    def field(self) -> int:
        """Number of inputs that a frame sees."""
        field, jump = 1, 1
        for layer in self.layers:
            field += (layer.kernel - 1) * jump
            jump *= layer.stride
        return field

    @property
    def start(self) -> int:
        """First input of the first frame; below 0 where layers are padded."""
        start, jump = 0, 1
        for layer in self.layers:
            start -= layer.padding * jump
            jump *= layer.stride
        return start

    @property
    def first_centre(self) -> float:
        """Middle of the inputs that the first frame sees; input n covers [n, n + 1)."""
        return self.start + self.field / 2

    def frames(self, inputs: int) -> int:
        """Return the number of frames of `inputs` inputs."""
        return self.levels(inputs)[-1]

    def levels(self, inputs: int) -> list[int]:
        """Return the length of a row of `inputs` inputs before each layer and after the last."""
        lengths = [inputs]
        for layer in self.layers:
            lengths.append(layer.outputs(lengths[-1]))
        return lengths

    def inputs(self, first: int, last: int) -> tuple[int, int]:
        """Return first and last (exclusive) input of frames [first, last); the last may be beyond the row.

        Frame 0 of a row that is cut at `first` times the stride is frame `first` of the whole row.
        """
        return first * self.stride, (last - 1) * self.stride + self.start + self.field

    def frame_shift_s(self, sample_rate: int) -> float:
        """Return the seconds from frame to frame, if the inputs are samples."""
        return units.samples_to_seconds(self.stride, sample_rate)

    def first_frame_s(self, sample_rate: int) -> float:
        """Return where the first frame begins, in seconds: half a stride before its centre."""
        # in halves of a sample, which are whole numbers
        return units.samples_to_seconds(2 * self.start + self.field - self.stride, 2 * sample_rate)

    def after(self, layers: int) -> FrameGrid:
        """Return the grid of the stack without its first `layers` layers."""
        return FrameGrid(self.layers[layers:], self.together)
