"""Where the frames of a stack of convolutions lie: the true stride, and the centre of the first frame.

A network that makes a frame of every 320 samples does not begin at 0 and does not end with the recording: its first
frame looks at samples 0 to 399, and the last samples may be too few for one more. The duration divided by the number
of frames is therefore not the stride, and edges that are computed with it drift.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ctc_align import units


@dataclass(frozen=True)
class Convolution:
    """One layer: `kernel` inputs make an output, every `stride` inputs, after `padding` zeros on either side.

    `end_padding` are those behind the inputs, where they are not as many as before them; below 0, the last inputs are
    left out.
    """

    kernel: int
    stride: int = 1
    padding: int = 0
    end_padding: int | None = None

    def outputs(self, inputs: int) -> int:
        """How many outputs a row of `inputs` has; the last inputs, too few for one more, have none."""
        behind = self.padding if self.end_padding is None else self.end_padding
        return max(0, (inputs + self.padding + behind - self.kernel) // self.stride + 1)


@dataclass(frozen=True)
class FrameGrid:
    """The frames that a stack of convolutions makes of a row of inputs (samples, or features).

    `together` is the number of frames that the network takes as one further on: a chunk begins at a multiple of it.

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
        """A grid of (kernel, stride, padding, end_padding) of each layer, the first first; the ends may be left out."""
        return cls(tuple(Convolution(*layer) for layer in layers), together)

    @property
    def stride(self) -> int:
        """Inputs from one frame to the next."""
        return math.prod(layer.stride for layer in self.layers)

    @property
    def field(self) -> int:
        """Inputs that a frame is made of."""
        field, jump = 1, 1
        for layer in self.layers:
            field += (layer.kernel - 1) * jump
            jump *= layer.stride
        return field

    @property
    def start(self) -> int:
        """The first input of the first frame; below 0 where layers are padded."""
        start, jump = 0, 1
        for layer in self.layers:
            start -= layer.padding * jump
            jump *= layer.stride
        return start

    @property
    def first_centre(self) -> float:
        """The middle of what the first frame is made of; input n covers [n, n + 1)."""
        return self.start + self.field / 2

    def frames(self, inputs: int) -> int:
        """How many frames `inputs` inputs have."""
        return self.levels(inputs)[-1]

    def levels(self, inputs: int) -> list[int]:
        """How long a row of `inputs` inputs is before each layer and after the last."""
        lengths = [inputs]
        for layer in self.layers:
            lengths.append(layer.outputs(lengths[-1]))
        return lengths

    def inputs(self, first: int, last: int) -> tuple[int, int]:
        """First and last (exclusive) input of frames `first` to `last` (exclusive); the last may be beyond the row.

        A row cut from there, `first` times the stride on, has its frame 0 where the whole row has frame `first`.
        """
        return first * self.stride, (last - 1) * self.stride + self.start + self.field

    def frame_shift_s(self, sample_rate: int) -> float:
        """Seconds from frame to frame, if the inputs are samples."""
        return units.samples_to_seconds(self.stride, sample_rate)

    def first_frame_s(self, sample_rate: int) -> float:
        """Where the first frame's share of the time begins, in seconds: half a stride before its centre."""
        # in halves of a sample, which are whole numbers
        return units.samples_to_seconds(2 * self.start + self.field - self.stride, 2 * sample_rate)

    def after(self, layers: int) -> FrameGrid:
        """The grid of what is left of the stack behind its first `layers` layers."""
        return FrameGrid(self.layers[layers:], self.together)
