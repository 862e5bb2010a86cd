"""Acoustic models: audio in, `Emissions` out.

`load_model("english")` loads the model inside the package; a folder that `ctc-align train` wrote is
loaded by its path. A family of models has a row in `FAMILIES` (`acoustic_model.py`).
"""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from ctc_align.config import Settings
from ctc_align.errors import UsageError
from ctc_align.extras import require_torch
from ctc_align.models.acoustic_model import (
    FAMILIES,
    ONNX,
    AcousticModel,
    Device,
    family_of,
    resolve_device,
)

if TYPE_CHECKING:
    import torch

__all__ = ["AcousticModel", "check_model", "embedded_folder", "load_model", "resolve_device"]

ENGLISH, UNIVERSAL = EMBEDDED = ("english", "universal")
"""Names of the models inside the package."""
AUTO = "auto"
"""The value of `--model` that means the embedded model for the language of the transcript."""
FOLDER = Path(__file__).resolve().parent
"""The folder that holds the folders of the embedded models."""
FOLDER_FILES = ("model.toml", "model.safetensors")
"""The files of a model's folder."""


def load_model(
    name: str, *, device: str | Device | torch.device = "auto", settings: Settings | None = None
) -> AcousticModel:
    """Load a model by its name.

    A name is that of a model inside the package, of one of a family (`hf:ORG/NAME`), or the path of
    a model's folder. A folder holds a model that `ctc-align train` wrote, or one of transformers. A
    name comes before a folder of the same name: write `./english` for a folder `english`.

    Raises:
        UsageError: there is no such model, the folder has no model, or the family's extra is not
            installed.
        BackendError: a requested device is not available.
    """
    settings = settings or Settings()
    check_model(name)
    model = _load(name, device, settings)
    if name not in EMBEDDED:
        from ctc_align.models.calibration import calibration_of
        from ctc_align.models.edge_network import edge_network_of

        model.calibration = model.calibration or calibration_of(name)
        model.edge_network = model.edge_network or edge_network_of(name)
    return model


def _load(name: str, device: str | Device | torch.device, settings: Settings) -> AcousticModel:
    if (family := family_of(name)) is not None:
        model: AcousticModel = importlib.import_module(family.module).load(name, device, settings)
        return model
    if name in EMBEDDED:
        folder = embedded_folder(name)
    else:
        folder = Path(name)
    if name not in EMBEDDED and _is_transformers(folder):
        from ctc_align.models.huggingface import load

        return load(name, device, settings, folder=True)
    from ctc_align.models.convnet.convnet_model import load_folder

    return load_folder(folder, resolve_device(device), settings)


def embedded_folder(name: str) -> Path:
    """Return the folder of a model inside the package."""
    return FOLDER / name


def check_model(name: str) -> None:
    """Raise UsageError if no model can have this name.

    Nothing is loaded; each family checks its own names.
    """
    folder = Path(name)
    family = family_of(name)
    if family is not None and family.needs_torch:
        require_torch(f"model {name}", name.partition(":")[0])
    if name in EMBEDDED or family is not None:
        return
    if not folder.is_dir():
        raise UsageError(_unknown(name, folder))
    if _is_transformers(folder):
        require_torch(f"model {name}", "hf")
        return
    missing = [file for file in FOLDER_FILES if not (folder / file).is_file()]
    if missing:
        raise UsageError(
            f"model {name}: expected a folder with {' and '.join(FOLDER_FILES)}, lacks"
            f" {', '.join(missing)}"
        )


def _is_transformers(folder: Path) -> bool:
    return (folder / "config.json").is_file() and not (folder / FOLDER_FILES[0]).is_file()


def _unknown(name: str, path: Path) -> str:
    if path.suffix == ".onnx" and path.is_file():
        return f"model {name}: write {ONNX}{name} for an ONNX file"
    if path.exists():
        return f"model {name}: expected the folder of a model, got a file; {_available()}"
    near = difflib.get_close_matches(name.lower(), [*EMBEDDED, *FAMILIES], n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else _available()
    return f"model {name}: no such model or folder; {hint}"


def _available() -> str:
    families = ", ".join(f"{prefix}…" for prefix in FAMILIES)
    return f"expected {', '.join(EMBEDDED)}, {families} or a folder that `ctc-align train` wrote"
