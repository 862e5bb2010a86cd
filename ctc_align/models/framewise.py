"""Networks of other toolkits that take whole utterances: chunks, batches, precision, frame times.

`FrameModel` is the base of their families. A family says how audio becomes the network's inputs
(`_signal`; samples by default) and calls the network (`_log_probs`). `FrameGrid` says where the
network's frames lie. Arrays are NumPy's; what networks in PyTorch do otherwise is in
`ctc_align.models.torch_networks`.

A long recording goes through in chunks with `context` more frames on both sides, whose outputs are
dropped; the rest is joined on the frame grid. The result equals that of one pass if the network
sees no further than its context; attention over the whole utterance sees less than in one pass, an
effect that fades as the context grows.

Some networks take only short input, such as 30 s: for longer input they return only the frames of
30 s, or fail. The number of frames of each pass is checked. After the first pass with too few
frames, trials find the limit, and chunks keep within it.
"""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ctc_align import units
from ctc_align.config import Settings
from ctc_align.errors import AudioError, EmissionsError, one_line
from ctc_align.models.acoustic_model import FEW_FRAMES, AcousticModel
from ctc_align.threads import on_one_thread, side_by_side
from ctc_align.types import Audio, Emissions

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

# Frame times. A network with one frame for every 320 samples does not begin at 0 and does not end
# with the recording: its first frame sees samples 0 to 399, and the last samples may be too few for
# one more. The duration divided by the number of frames is therefore not the stride, and edges
# computed with it drift.


@dataclass(frozen=True)
class Convolution:
    """One layer over time, with an output for every `stride` inputs.

    Each output depends on `kernel` inputs; there are `padding` zeros on either side. `end_padding`
    is the number of zeros after the inputs if it differs; below 0, the last inputs are left out.
    """

    kernel: int
    stride: int = 1
    padding: int = 0
    end_padding: int | None = None

    def outputs(self, inputs: int) -> int:
        """Return the number of outputs for `inputs` inputs.

        The last inputs may be too few for another output.
        """
        if self.end_padding is None:
            behind = self.padding
        else:
            behind = self.end_padding
        return max(0, (inputs + self.padding + behind - self.kernel) // self.stride + 1)


@dataclass(frozen=True)
class FrameGrid:
    """The frames that a stack of convolutions makes of a row of inputs (samples, or features).

    `together` is the number of frames that later layers take as one: a chunk begins at a multiple
    of it.

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
        """Return the grid of layers (kernel, stride, padding, end_padding).

        The last two of each layer are optional.
        """
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
        """First input of the first frame; below 0 if layers are padded."""
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
        """Return first and last (exclusive) input of frames [first, last).

        The last may be beyond the row. If a row is cut at `first` times the stride, its frame 0 is
        frame `first` of the whole row.
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


def by_length(lengths: Sequence[int], *, pads: bool, most: int | None = None) -> list[list[int]]:
    """Group utterances that go through a network in one pass.

    Groups hold indices, those of the longest utterances first.

    Args:
        lengths: of the utterances.
        pads: utterances of different lengths may share a pass; otherwise only those of one length.
        most: the most that a pass may hold, padding included; a longer utterance gets a pass of its
            own. None for no limit.

    >>> by_length([5, 7, 5], pads=True), by_length([5, 7, 5], pads=False), by_length([5, 7, 5], pads=True, most=14)
    ([[1, 0, 2]], [[1], [0, 2]], [[1, 0], [2]])
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        longest = lengths[groups[-1][0]] if groups else 0
        fits = groups and (most is None or longest * (len(groups[-1]) + 1) <= most)
        if fits and (pads or longest == lengths[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


BLOCK = 2**17
"""Statistics are gathered from this many samples at once."""
LEAST_LIMIT_S, USUAL_LIMIT_S = 1.0, 30.0
"""Bounds of a network's limit: one that fails on a second of sound has none.

It fails for a different reason; 30 s is the limit of Whisper.
"""


class OverflowedError(EmissionsError):
    """The numbers of a network overflowed."""


class PassError(EmissionsError):
    """A network failed on sound of `frames` frames, or returned only `got` frames of it."""

    def __init__(self, message: str, frames: int, got: int | None = None) -> None:
        super().__init__(message)
        self.frames = frames
        self.got = got


@dataclass(frozen=True)
class Signal:
    """A network's inputs of one utterance: `rows` (N,) or (N, D) float32.

    They are normalised when they are taken. `mean` and `deviation` are those of the whole
    utterance, so a chunk is normalised like the utterance.
    """

    rows: np.ndarray
    mean: np.ndarray | float | None = None
    deviation: np.ndarray | float = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, first: int, last: int) -> np.ndarray:
        """Return rows [first, last), cut at the end, normalised: float32."""
        rows = self.rows[first:last]
        if self.mean is not None:
            rows = (rows - self.mean) / self.deviation
        return np.ascontiguousarray(rows, np.float32)


def standardised(samples: np.ndarray, epsilon: float) -> Signal:
    """Return samples with mean 0 and variance 1 over the whole utterance.

    Sums are float64, block by block.
    """
    starts = range(0, len(samples), BLOCK)
    count = max(1, len(samples))
    mean = (
        sum(float(samples[first : first + BLOCK].sum(dtype=np.float64)) for first in starts) / count
    )
    squares = (
        np.square(samples[first : first + BLOCK].astype(np.float64) - mean).sum()
        for first in starts
    )
    variance = sum(map(float, squares)) / count
    return Signal(samples, mean, math.sqrt(variance + epsilon))


def plan_chunks(
    frames: int, chunk_frames: int, context_frames: int, together: int = 1
) -> list[tuple[int, int, int, int]]:
    """Return chunks of about equal length that cover `frames` frames in order.

    Each is (begin, first, last, end): its frames [first, last) are computed from the frames [begin,
    end).

    Args:
        frames: of the recording.
        chunk_frames: longest chunk; rounded up to multiples of `together`.
        context_frames: frames that a chunk sees beyond itself on either side; rounded up as well.
        together: frames that the network takes as one: chunks begin at multiples of it.

    >>> plan_chunks(10, 5, 1)
    [(0, 0, 5, 6), (4, 5, 10, 10)]
    >>> plan_chunks(10, 20, 5)
    [(0, 0, 10, 10)]
    """

    def rounded_up(number: int) -> int:
        return -(-number // together) * together

    most = rounded_up(max(1, chunk_frames))
    context = rounded_up(max(0, context_frames))
    count = max(1, -(-frames // most))
    each = min(most, rounded_up(max(1, -(-frames // count))))
    return [
        (
            max(0, first - context),
            first,
            min(frames, first + each),
            min(frames, first + each + context),
        )
        for first in range(0, max(1, frames), each)
    ]


@dataclass(frozen=True)
class NetworkFacts:
    """Properties of a network, found by its family.

    `grid` leads from samples to frames; its first `front` layers make the inputs (features), the
    rest is the network. With `pads`, utterances of different lengths may share a pass; otherwise
    only those with the same number of frames. `stem` is the convolution before the `norms` over
    time, if there are any. If there is a `norm_epsilon`, samples are standardised over the
    utterance, and it is added to their variance. With `overlong`, the network pads its input (to 30
    s, say), and its output is cut to the length of the sound. A `stateless` network may run in
    several threads.
    """

    name: str
    vocab: tuple[str, ...]
    blank: int
    sample_rate: int
    grid: FrameGrid
    front: int = 0
    pads: bool = True
    norms: tuple[tuple[Any, str], ...] = ()
    stem: Any = None
    norm_epsilon: float | None = None
    overlong: bool = False
    stateless: bool = False


class FrameModel(AcousticModel):
    """An `AcousticModel` around a network whose frames lie on a `FrameGrid`.

    Args:
        facts: of the network.
        settings: `chunk_s` and `context_s` are used.
    """

    def __init__(self, facts: NetworkFacts, settings: Settings) -> None:
        self.facts = facts
        self.name, self.vocab, self.blank = facts.name, facts.vocab, facts.blank
        self.sample_rate = facts.sample_rate
        self.grid = facts.grid
        self.frame_shift_s = facts.grid.frame_shift_s(facts.sample_rate)
        self.first_frame_s = facts.grid.first_frame_s(facts.sample_rate)
        self.receptive_field_s = units.samples_to_seconds(facts.grid.field, facts.sample_rate)
        """Seconds of sound that the convolutions compute a frame from.

        Attention may see the whole utterance.
        """
        self.chunk_frames = units.seconds_to_frames(settings.chunk_s, self.frame_shift_s)
        context_frames = units.seconds_to_frames(settings.context_s, self.frame_shift_s)
        self.context_frames = max(facts.grid.together, context_frames)
        window = self.chunk_frames + 2 * self.context_frames
        self._pass_frames = window
        self._inner = facts.grid.after(facts.front)
        self._limit: int | None = None
        """The most frames of one pass; None until a pass had too few."""

    def _signal(self, audio: Audio) -> Signal:
        """Return the network's inputs of an utterance: its samples."""
        epsilon = self.facts.norm_epsilon
        if epsilon is None:
            return Signal(audio.samples)
        return standardised(audio.samples, epsilon)

    @abstractmethod
    def _scores(self, inputs: np.ndarray, lengths: np.ndarray | None) -> Any:
        """Return log-probs (B, T, C) float32 of `inputs` (B, N) or (B, N, D).

        T counts the frames that the network returns. `lengths` (B,) int64 say where rows end; None
        if none is padded.

        Raises:
            EmissionsError: numbers overflow.
            Exception: any other kind, if the network fails.
        """

    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Return log-probs (T, C) float32; see `AcousticModel`.

        Raises:
            AudioError: the audio has a different rate, or is too short for one frame.
            EmissionsError: the network's arithmetic overflowed, the network fails, or its frames do
                not cover the sound.
        """
        signal = on_one_thread(lambda: self._checked_signal(audio))
        log_probs = self._within_limit([signal], lambda: self._in_chunks(signal, progress))
        if progress:
            progress(1.0)
        return self._emissions(audio, log_probs)

    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Return the emissions of each audio, as `emissions` does to within 1e-4.

        An audio longer than a chunk goes alone. Raises as `emissions`.
        """
        signals = list(side_by_side(partial(self._checked_signal, audio) for audio in audios))
        log_probs = self._within_limit(signals, lambda: self._in_batches(signals))
        return [self._emissions(audio, log_probs[index]) for index, audio in enumerate(audios)]

    def _in_batches(self, signals: Sequence[Signal]) -> dict[int, Any]:
        """Return log-probs (T, C) by the index of the utterance.

        Utterances that fit into a chunk share passes.
        """
        frames = [self._inner.frames(len(signal)) for signal in signals]
        log_probs: dict[int, Any] = {}
        most = min(self.chunk_frames, self._limit or self.chunk_frames)
        short = [index for index, count in enumerate(frames) if count <= most]
        counts = [frames[index] for index in short]
        groups = by_length(counts, pads=self.facts.pads, most=self._pass_frames)
        together = [[short[k] for k in group] for group in groups]
        passes = [
            partial(self._in_one_pass, [signals[index] for index in indices])
            for indices in together
        ]
        for indices, rows in zip(together, self._run_passes(passes)):
            log_probs |= zip(indices, rows)
        for index in set(range(len(signals))) - set(short):
            log_probs[index] = self._in_chunks(signals[index], None)
        return log_probs

    def _run_passes(self, passes: Iterable[Callable[[], Result]]) -> Iterator[Result]:
        """Yield the results of passes, each with one thread of torch.

        Several run at once if the network is stateless.
        """
        if self.facts.stateless:
            return side_by_side(passes)
        return map(on_one_thread, passes)

    def _within_limit(self, signals: Sequence[Signal], run: Callable[[], Result]) -> Result:
        """Return the result of `run`.

        If a pass returns too few frames, find the network's limit and run again.
        """
        try:
            return run()
        except PassError as error:
            if self._limit is not None:
                raise
            self._limit = self._found_limit(max(signals, key=len), error)
        chunk, context = self._chunk_within(self._limit)
        limit_s, chunk_s, context_s = (
            math.floor(10 * units.frames_to_seconds(count, self.frame_shift_s)) / 10
            for count in (self._limit, chunk, context)
        )
        if context < self.context_frames:
            with_context = f" --set context_s={context_s:g}"
        else:
            with_context = ""
        logger.warning(
            "model %s: its network takes at most %g s at once (%d frames): longer sound goes"
            " through it in overlapping pieces; --set chunk_s=%g%s saves the trials that found"
            " this",
            *(self.name, limit_s, self._limit, chunk_s, with_context),
        )
        return run()

    def _found_limit(self, signal: Signal, error: PassError) -> int:
        """Return the most frames that the network takes.

        They are found by bisection between one second and the frames of `error`. The limit is
        exact, so chunks do not depend on which recording exceeded the limit first.
        """
        together = (
            self.grid.together
        )  # all counts are of groups of frames that the network takes as one
        below = max(1, units.seconds_to_frames(LEAST_LIMIT_S, self.frame_shift_s) // together)
        above = -(-error.frames // together)
        # a network that always returns a frame less than its grid is not short
        if below < above:
            usual = self._missing(signal, below * together)
        else:
            usual = None
        if usual is None or usual > FEW_FRAMES or self._missing(signal, error.frames) == usual:
            raise error
        if error.got is None:
            most = units.seconds_to_frames(USUAL_LIMIT_S, self.frame_shift_s)
        else:
            most = error.got + usual
        guesses = [most // together, most // together + 1]
        while above - below > 1:
            if guesses:
                middle = guesses.pop(0)
            else:
                middle = (below + above) // 2
            if below < middle < above:
                missing = self._missing(signal, middle * together)
                if missing is not None and missing <= usual:
                    below, above = middle, above
                else:
                    below, above = below, middle
        return below * together

    def _missing(self, signal: Signal, frames: int) -> int | None:
        """Return how many of a signal's first `frames` frames a pass leaves out.

        It is None if the network fails.
        """
        inputs = self._inner.inputs(0, frames)[1] - self._overhang * self._inner.stride
        try:
            return max(
                0,
                frames
                - on_one_thread(lambda: self._log_probs(signal.take(0, inputs)[None], None)).shape[
                    1
                ],
            )
        except PassError:
            return None

    @property
    def _overhang(self) -> int:
        """Extra frames in the inputs of a chunk beyond its end, if layers are padded."""
        return self._inner.frames(self._inner.inputs(0, self.chunk_frames)[1]) - self.chunk_frames

    def _chunk_within(self, limit: int) -> tuple[int, int]:
        """Return the frames of a chunk and of its context that keep a pass within `limit` frames.

        The context is counted on one side.
        """
        together = self.grid.together
        most = (limit - self._overhang) // together
        context = min(-(-self.context_frames // together), most // 4)
        return max(1, most - 2 * context) * together, context * together

    def _plan(self, frames: int) -> list[tuple[int, int, int, int]]:
        """Return the chunks of an utterance (`plan_chunks`).

        The settings decide unless a chunk would exceed the network's limit.
        """
        chunks = plan_chunks(frames, self.chunk_frames, self.context_frames, self.grid.together)
        widest = max(end - begin for begin, _, _, end in chunks) + (
            self._overhang if len(chunks) > 1 else 0
        )
        if self._limit is None or widest <= self._limit:
            return chunks
        return plan_chunks(frames, *self._chunk_within(self._limit), self.grid.together)

    def _checked_signal(self, audio: Audio) -> Signal:
        least = self.grid.together
        if audio.sample_rate == self.sample_rate and self.grid.frames(len(audio.samples)) >= least:
            return self._signal(audio)
        lengths = range(1, self.grid.field + least * self.grid.stride)
        shortest = next(count for count in lengths if self.grid.frames(count) >= least)
        raise AudioError(
            f"{audio.name or 'audio'}: expected samples at {self.sample_rate} Hz, at least"
            f" {shortest} of them for the model {self.name}; got {len(audio.samples)} samples at"
            f" {audio.sample_rate} Hz"
        )

    def _in_chunks(self, signal: Signal, progress: Callable[[float], None] | None) -> Any:
        """Return log-probs (T, C) of an utterance of any length."""
        frames = self._inner.frames(len(signal))
        chunks = self._plan(frames)
        if len(chunks) == 1:
            return on_one_thread(lambda: self._in_one_pass([signal]))[0]
        log_probs = self._empty(frames)

        def fill(begin: int, first: int, last: int, end: int) -> int:
            first_input, last_input = self._inner.inputs(begin, end)
            cut = signal.take(first_input, len(signal) if end == frames else last_input)
            log_probs[first:last] = self._pass(cut[None], None)[0][first - begin : last - begin]
            return last

        with self._within(signal):
            for last in self._run_passes(partial(fill, *chunk) for chunk in chunks):
                if progress:
                    progress(last / frames)
        return log_probs

    def _in_one_pass(self, signals: Sequence[Signal]) -> list[Any]:
        """Return log-probs of several utterances from one pass of the network."""
        lengths = [len(signal) for signal in signals]
        inputs = np.zeros((len(signals), max(lengths), *signals[0].rows.shape[1:]), np.float32)
        for row, signal in zip(inputs, signals):
            row[: len(signal)] = signal.take(0, len(signal))
        levels = [self._inner.levels(length) for length in lengths]
        padded = self.facts.pads and min(lengths) < max(lengths)
        with self._padded(levels):
            outputs = self._pass(inputs, np.array(lengths) if padded else None)
        return [self._copied(output[: level[-1]]) for output, level in zip(outputs, levels)]

    def _pass(self, inputs: np.ndarray, lengths: np.ndarray | None) -> Any:
        """Return log-probs (B, T, C) of one pass, T the frames of the grid.

        Raises:
            PassError: the network fails, or returns fewer frames.
            EmissionsError: it returns more frames.
        """
        outputs = self._log_probs(inputs, lengths)
        frames = self._inner.frames(inputs.shape[1])
        missing = frames - outputs.shape[1]
        if missing > FEW_FRAMES or (missing < -FEW_FRAMES and not self.facts.overlong):
            seconds = units.frames_to_seconds(frames, self.frame_shift_s)
            said = (
                f"model {self.name}: its network returns {outputs.shape[1]} frames of {seconds:.4g}"
                f" s of sound, which are {frames} at {self.frame_shift_s:g} s: "
            )
            if missing < 0:
                shift_s = seconds / outputs.shape[1]
                raise EmissionsError(
                    f"{said}its frame shift is {shift_s:.3g} s, or it pads its input: export it"
                    " again"
                )
            cure = "does it take only short sound? Then set chunk_s to what it takes (20, say)"
            raise PassError(f"{said}{cure}", frames, outputs.shape[1])
        if missing > 0:  # the last one is the best guess of what the few would be
            return self._lengthened(outputs, missing)
        return outputs[:, :frames]

    def _log_probs(self, inputs: np.ndarray, lengths: np.ndarray | None) -> Any:
        """Return `_scores`.

        Raises:
            PassError: the network fails.
            EmissionsError: there is not enough memory, or numbers overflow.
        """
        try:
            return self._scores(inputs, lengths)
        except OverflowedError:
            raise
        except Exception as error:  # of any kind, as networks have no contract
            frames = self._inner.frames(inputs.shape[1])
            seconds = units.frames_to_seconds(frames, self.frame_shift_s)
            reason = one_line(error).removeprefix(f"model {self.name}: ")
            said = (
                f"model {self.name}: its network fails on {seconds:.4g} s of sound ({frames}"
                " frames)"
            )
            if isinstance(error, MemoryError) or "memory" in reason.lower():
                raise EmissionsError(
                    f"{said}: not enough memory: set chunk_s to less (20, say): {reason}"
                ) from error
            cure = "if it takes only short sound, set chunk_s to what it takes (20, say)"
            raise PassError(f"{said}: {reason}; {cure}", frames) from error

    # What PyTorch does otherwise:

    def _within(self, signal: Signal) -> AbstractContextManager[None]:
        """Return the context in which a signal goes through the network in chunks."""
        return nullcontext()

    def _padded(self, levels: Sequence[Sequence[int]]) -> AbstractContextManager[None]:
        """Return the context of a pass whose rows have these lengths at every layer."""
        return nullcontext()

    def _empty(self, frames: int) -> Any:
        return np.empty((frames, len(self.vocab)), np.float32)

    def _copied(self, log_probs: Any) -> Any:
        return log_probs.copy()

    def _lengthened(self, log_probs: Any, frames: int) -> Any:
        """Return log-probs (B, T, C) with their last frame repeated."""
        return np.concatenate([log_probs, np.repeat(log_probs[:, -1:], frames, 1)], 1)

    def _emissions(self, audio: Audio, log_probs: Any) -> Emissions:
        return Emissions(
            log_probs,
            self.vocab,
            self.frame_shift_s,
            self.blank,
            offset_s=audio.offset_s,
            duration_s=audio.duration_s,
            name=audio.name,
            first_frame_s=self.first_frame_s,
        )
