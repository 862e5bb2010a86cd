"""The registry: what it finds, what it refuses, and where it says to look."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest
import torch

from ctc_align.config import Settings
from ctc_align.errors import BackendError, UsageError
from ctc_align.models import FOLDER_FILES, embedded_folder, load_model, resolve_device

SETTINGS = Settings(language="nl")


@pytest.fixture
def convnet(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in that records how the registry calls the family."""
    module = types.ModuleType("ctc_align.models.convnet.model_folder")
    module.load_folder = lambda path, device, settings: (path, device, settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ctc_align.models.convnet.model_folder", module)
    return module


def test_the_embedded_model_goes_by_name(
    convnet: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "english").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_model("english", device="cpu", settings=SETTINGS) == (
        embedded_folder("english"),
        torch.device("cpu"),
        SETTINGS,
    )
    with pytest.raises(UsageError, match=r"lacks model\.toml, model\.safetensors"):
        load_model("./english", device="cpu")


def test_a_folder_goes_by_path(convnet: types.ModuleType, tmp_path: Path) -> None:
    for file in FOLDER_FILES:
        (tmp_path / file).touch()
    assert load_model(str(tmp_path), device="cpu") == (tmp_path, torch.device("cpu"), Settings())


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("torchaudio:MMS_FA", "torchaudio_bundles"),
        ("hf:some/model", "huggingface.transformers_model"),
        ("onnx:model.onnx", "onnx.onnx_model"),
    ],
)
def test_a_family_goes_by_its_prefix(name: str, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(f"ctc_align.models.{family}")
    module.load = lambda name, device, settings: (name, device, settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert load_model(name, device="cpu", settings=SETTINGS) == (name, torch.device("cpu"), SETTINGS)


def test_a_folder_of_transformers_is_told_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("ctc_align.models.huggingface.transformers_model")
    module.load = lambda name, device, settings, folder: (name, device, settings, folder)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "config.json").touch()
    assert load_model(str(tmp_path), device="cpu") == (str(tmp_path), torch.device("cpu"), Settings(), True)


def test_unknown_names_are_helped(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model englsh: no such model or folder; did you mean english\?"):
        load_model("englsh")
    with pytest.raises(UsageError, match=r"no such model or folder; there is english"):
        load_model("klingon")
    (tmp_path / "model.pt").touch()
    with pytest.raises(UsageError, match="got a file"):
        load_model(str(tmp_path / "model.pt"))


def test_devices_that_are_here() -> None:
    assert (
        resolve_device("cpu") == resolve_device(torch.device("cpu")) == resolve_device("cpu:0") == torch.device("cpu")
    )
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_devices_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("cuda", "cuda:3", "mps"):
        with pytest.raises(BackendError, match=f"device {name}"):
            resolve_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda", 0)
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(BackendError, match="this machine has 2"):
        resolve_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cuda:-1", "cpu:1", "mps:1", "tpu:0", "CPU"])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(UsageError, match="expected auto, cpu, cuda, cuda:N or mps"):
        resolve_device(name)
