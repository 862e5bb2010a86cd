"""`AcousticModel`, the base of all families of models, and the devices that they run on."""

from __future__ import annotations

import ctypes
import logging
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ctc_align import units
from ctc_align.errors import NOTE, BackendError, EmissionsError, UsageError
from ctc_align.extras import has_torch, install_line, require_torch
from ctc_align.threads import imported_torch
from ctc_align.types import Audio, Emissions

if TYPE_CHECKING:
    import torch

    from ctc_align.models.calibration import Calibration, NativeSpeech, SoundDurations
    from ctc_align.models.confidence_network import ConfidenceNetwork
    from ctc_align.models.edge_network import EdgeNetwork

logger = logging.getLogger(__name__)

FEW_FRAMES = 3
"""Networks round the number of their frames in different ways; larger differences are faults."""
HF, TORCHAUDIO, ONNX = "hf:", "torchaudio:", "onnx:"
"""The prefixes of the names of models, one for each family."""


@dataclass(frozen=True)
class ModelFamily:
    """Models that one module loads.

    Attributes:
        module: its `load(name, device, settings)` loads one of them.
        is_file: what follows the prefix is the path of the user's file, which other files in its
            folder describe.
        reads_language: loading a model uses the setting `language`.
        needs_torch: its networks run in PyTorch.
    """

    module: str
    is_file: bool = False
    reads_language: bool = False
    needs_torch: bool = False


FAMILIES = {
    HF: ModelFamily("ctc_align.models.huggingface", reads_language=True, needs_torch=True),
    TORCHAUDIO: ModelFamily("ctc_align.models.torchaudio_bundles", needs_torch=True),
    ONNX: ModelFamily("ctc_align.models.onnx_model", is_file=True),
}
"""The families by the prefix of their models' names.

A family is imported when one of its models is loaded.
"""


def family_of(name: str) -> ModelFamily | None:
    """Return the family of a model by its name; None for a model inside the package or a folder.

    >>> family_of("hf:org/name").reads_language, family_of("english")
    (True, None)
    """
    return next((family for prefix, family in FAMILIES.items() if name.startswith(prefix)), None)


class AcousticModel(ABC):
    """A model that turns audio at `sample_rate` into log-probs (T, C) over `vocab`.

    A model slices the samples and never takes them as a whole: those of a long recording lie on
    disk.

    Attributes:
        name: as `--model` takes it.
        sample_rate: of the audio, in Hz.
        vocab: the token of each of the C classes.
        blank: the index of the blank.
        frame_shift_s: seconds from frame to frame.
        first_frame_s: where the first frame begins; below 0 if the network pads its input.
        receptive_field_s: seconds of sound that a frame is computed from, not counting attention.
        token_kind: the name of the token tier of the outputs, "phones" or "tokens".
        gaussians_per_state: Gaussians that score each segmentation state; 0 without mixtures.
        calibration: constants from hand-labelled speech, None if the model was not calibrated.
        confidence_network: None for a model without one.
        edge_network: None for a model without one.
        native_speech: of the same, None for a model that was not compared with native speech.
        durations: how long its sounds usually last, None if that is not known.
    """

    name: str
    sample_rate: int
    vocab: tuple[str, ...]
    blank: int
    frame_shift_s: float
    first_frame_s: float = 0.0
    receptive_field_s: float
    token_kind: str = "tokens"
    gaussians_per_state: int = 0
    calibration: Calibration | None = None
    confidence_network: ConfidenceNetwork | None = None
    edge_network: EdgeNetwork | None = None
    native_speech: NativeSpeech | None = None
    durations: SoundDurations | None = None

    @abstractmethod
    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Return the log-probs of `audio`, on the model's device.

        `progress` is called with the completed share, in [0, 1].
        """

    @abstractmethod
    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Return the emissions of each audio.

        They have the same bits as from `emissions` if the device allows it. An error of one audio
        is raised for all.
        """


def check_coverage(emissions: Emissions, name: str, beyond_s: float) -> None:
    """Raise EmissionsError unless the frames reach the end of the sound.

    A few frames and `beyond_s` seconds may be missing.
    """
    if emissions.duration_s is None:
        return
    frames = len(emissions)
    shift_s = emissions.frame_shift_s
    duration_s = emissions.duration_s
    covered_s = emissions.first_frame_s + units.frames_to_seconds(frames, shift_s)
    if duration_s - covered_s > units.frames_to_seconds(FEW_FRAMES, shift_s) + beyond_s:
        raise EmissionsError(
            f"{name}: {frames} frames of {shift_s:g} s end at {covered_s:.4g} s of {duration_s:.4g}"
            f" s of sound: either frame_shift_s is {duration_s / frames:.3g}, or the model takes"
            " only short sound: give it pieces"
        )


@dataclass(frozen=True)
class Device:
    """The device of a model: "cpu", "cuda" or "mps", and its number on CUDA.

    `str` gives its name in torch.
    """

    type: str
    index: int | None = None

    def __str__(self) -> str:
        if self.index is None:
            return self.type
        return f"{self.type}:{self.index}"


def resolve_device(device: str | Device | torch.device = "auto") -> Device:
    """Return the device that `auto`, `cpu`, `cuda`, `cuda:N` or `mps` means on this machine.

    `auto` is the first CUDA device if there is one, else the CPU; a GPU that only lacks PyTorch is
    noted once. A device is checked like its name. torch is imported only where it may find one.

    >>> str(resolve_device("cpu"))
    'cpu'

    Raises:
        UsageError: this is not the name of a device, or the device needs PyTorch, which is not
            installed.
        BackendError: a requested device is not available.
    """
    name = str(device)
    if name == "auto":
        return Device("cuda", 0) if gpu_count() else Device("cpu")
    named = named_device(name)
    if named.type != "cpu":
        require_torch(f"device {name}")
    if named.type == "cuda" and (named.index or 0) >= (count := gpu_count()):
        if count:
            here = f"this machine has {count}"
        else:
            here = "torch finds no CUDA device here"
        raise BackendError(f"device {name}: {here}: use --device auto or cpu")
    if named.type == "mps":
        import torch

        if not torch.backends.mps.is_available():
            raise BackendError(
                "device mps: torch finds no Metal device here: use --device auto or cpu"
            )
    return named


def named_device(name: str) -> Device:
    """Return the device that `cpu`, `cuda`, `cuda:N` or `mps` names, whether it is there or not.

    >>> str(named_device("cuda"))
    'cuda:0'

    Raises:
        UsageError: this is not the name of a device.
    """
    kind, _, index = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and (kind != "cuda" or not index.isdecimal())):
        if name not in ("cpu:0", "mps:0"):
            raise UsageError(f"device: expected auto, cpu, cuda, cuda:N or mps, got {name!r}")
        index = ""
    if kind == "cuda":
        return Device(kind, int(index or 0))
    return Device(kind)


def torch_device(device: str | Device | torch.device) -> torch.device:
    """Return the device of `resolve_device` as torch's; raise as it does.

    It is for what runs in torch in any case.
    """
    import torch

    return torch.device(str(resolve_device(device)))


def gpu_count() -> int:
    """Return the number of CUDA devices that torch can use.

    torch is imported only if there is a driver.
    """
    if imported_torch() is None and not has_driver():
        return 0
    if not has_torch():
        _note_idle_gpu()
        return 0
    import torch

    with warnings.catch_warnings():  # an old driver warns; the number of devices is enough
        warnings.simplefilter("ignore")
        if torch.cuda.is_available():
            return torch.cuda.device_count()
        return 0


@lru_cache
def _note_idle_gpu() -> None:
    """Log that a GPU is idle because PyTorch is missing.

    The function is cached, so it logs only once.
    """
    logger.log(
        NOTE,
        "this machine has a GPU, but PyTorch, which it needs, is not installed; the CPU is used."
        " To use the GPU: %s; to silence this note: --device cpu",
        install_line("torch"),
    )


@lru_cache
def has_driver() -> bool:
    """Return whether a driver for GPUs of NVIDIA or AMD is installed.

    torch calls both "cuda".
    """
    try:
        ctypes.CDLL("libcuda.so.1" if os.name == "posix" else "nvcuda.dll")
    except OSError:
        return os.path.exists("/dev/kfd")
    return True
