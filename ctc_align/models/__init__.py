"""Acoustic models: audio in, `Emissions` out.

`load_model("english")` loads the model inside the package; a folder that `ctc-align train` wrote is loaded by its path.
A family of models has a prefix in `FAMILIES` and is imported only when one of its models is loaded.
"""

from __future__ import annotations

import difflib
import importlib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ctc_align.config import Settings
from ctc_align.errors import BackendError, UsageError
from ctc_align.types import Audio, Emissions

if TYPE_CHECKING:
    import torch

ENGLISH, UNIVERSAL = EMBEDDED = ("english", "universal")
"""Names of the models inside the package."""
AUTO = "auto"
"""In the place of a model's name: the embedded model for the language of the transcript."""
FOLDER = Path(__file__).resolve().parent
"""The embedded models' folders are in this one."""
FOLDER_FILES = ("model.toml", "model.safetensors")
"""The files of a model's folder."""
FAMILIES = {
    "hf:": "ctc_align.models.huggingface.transformers_model",
    "torchaudio:": "ctc_align.models.torchaudio_bundles",
    "onnx:": "ctc_align.models.onnx.onnx_model",
}
"""The prefix of a family's names, and the module whose `load(name, device, settings)` loads one of its models.

A family that cannot use every device has a `resolve_device` of its own.
"""


@runtime_checkable
class AcousticModel(Protocol):
    """A model that turns audio at `sample_rate` into log-probs (T, C) over `vocab`.

    `token_kind` names the token tier of the outputs ("phones" or "tokens"). A model with an attribute `reads_slices`
    that is true takes samples of which there are slices only: those of a recording of hours lie on disk.
    """

    name: str
    sample_rate: int
    vocab: tuple[str, ...]
    blank: int
    frame_shift_s: float
    token_kind: str

    @property
    def receptive_field_s(self) -> float:
        """Seconds of sound that a frame is computed from, not counting attention."""
        ...

    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Return the log-probs of `audio`, on the model's device.

        `progress` is called with the share done, in [0, 1].
        """
        ...

    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Return the emissions of each audio, to the bit as `emissions` where the device allows it.

        An error of one audio is raised for all.
        """
        ...


def load_model(name: str, *, device: str | torch.device = "auto", settings: Settings | None = None) -> AcousticModel:
    """Load a model by name: one inside the package, one of a family (`hf:ORG/NAME`), or a model's folder.

    A folder holds a model that `ctc-align train` wrote, or one of transformers. A name comes before a folder of the
    same name: write `./english` for a folder `english`.

    Raises:
        UsageError: no such model, a folder without a model in it, or a family whose extra is not installed.
        BackendError: a device asked for by name that is not available.
    """
    settings = settings or Settings()
    check_model(name)
    for prefix, module in FAMILIES.items():
        if name.startswith(prefix):
            family = importlib.import_module(module)
            resolve = getattr(family, "resolve_device", resolve_device)
            return family.load(name, resolve(device), settings)
    folder = Path(name)
    if name not in EMBEDDED and _is_transformers(folder):
        from ctc_align.models.huggingface.transformers_model import load

        return load(name, resolve_device(device), settings, folder=True)
    from ctc_align.models.convnet.model_folder import load_folder

    return load_folder(embedded_folder(name) if name in EMBEDDED else folder, resolve_device(device), settings)


def embedded_folder(name: str) -> Path:
    """Return the folder of a model inside the package."""
    return FOLDER / name


def check_model(name: str) -> None:
    """Raise UsageError where no model can have this name, before anything is loaded; families know their own names."""
    folder = Path(name)
    if name in EMBEDDED or name.startswith(tuple(FAMILIES)):
        return
    if not folder.is_dir():
        raise UsageError(_unknown(name, folder))
    missing = [file for file in FOLDER_FILES if not (folder / file).is_file()]
    if missing and not _is_transformers(folder):
        raise UsageError(
            f"model {name}: expected a folder with {' and '.join(FOLDER_FILES)}, lacks {', '.join(missing)}"
        )


def _is_transformers(folder: Path) -> bool:
    return (folder / "config.json").is_file() and not (folder / FOLDER_FILES[0]).is_file()


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """Return the device that `auto`, `cpu`, `cuda`, `cuda:N` or `mps` stands for on this machine.

    `auto` is the first CUDA device if there is one, else the CPU. A `torch.device` is checked like its name.

    >>> resolve_device("cpu")
    device(type='cpu')

    Raises:
        UsageError: not the name of a device.
        BackendError: a device asked for by name that is not available.
    """
    import torch

    with warnings.catch_warnings():  # an old driver warns; the device count is enough
        warnings.simplefilter("ignore")
        cuda_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return torch.device("cuda", 0) if cuda_devices else torch.device("cpu")
    kind, _, index = str(device).partition(":")
    if kind not in ("cpu", "cuda", "mps") or (index and (kind != "cuda" or not index.isdecimal())):
        if str(device) not in ("cpu:0", "mps:0"):
            raise UsageError(f"device: expected auto, cpu, cuda, cuda:N or mps, got {str(device)!r}")
        index = ""
    if kind == "cuda" and int(index or 0) >= cuda_devices:
        here = f"this machine has {cuda_devices}" if cuda_devices else "torch finds no CUDA device here"
        raise BackendError(f"device {device}: {here}: use --device auto or cpu")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise BackendError("device mps: torch finds no Metal device here: use --device auto or cpu")
    return torch.device(kind, int(index or 0)) if kind == "cuda" else torch.device(kind)


def _unknown(name: str, path: Path) -> str:
    if path.suffix == ".onnx" and path.is_file():
        return f"model {name}: write onnx:{name} for an ONNX file; {_available()}"
    if path.exists():
        return f"model {name}: expected the folder of a model, got a file; {_available()}"
    near = difflib.get_close_matches(name.lower(), [*EMBEDDED, *FAMILIES], n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"model {name}: no such model or folder; {hint}{_available()}"


def _available() -> str:
    families = ", ".join(f"{prefix}…" for prefix in FAMILIES)
    return f"there is {', '.join(EMBEDDED)}, {families}, or the folder that `ctc-align train` wrote"
