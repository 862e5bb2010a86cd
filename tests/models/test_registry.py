"""The registry: what it finds, what it refuses, and where it says to look."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from ctc_align.config import Settings
from ctc_align.errors import BackendError, UsageError
from ctc_align.models import FAMILIES, FOLDER_FILES, embedded_folder, load_model, resolve_device
from ctc_align.models.acoustic_model import Device
from ctc_align.models.catalogue import FolderSettings, folder_settings

SETTINGS = Settings(language="nl")


def called(*arguments: object, **others: object) -> types.SimpleNamespace:
    """Return a model that records how its family was called."""
    return types.SimpleNamespace(
        arguments=(*arguments, *others.values()), calibration=None, edge_network=None
    )


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace all families by `called`."""
    for family in (
        "convnet.convnet_model",
        *(row.module.removeprefix("ctc_align.models.") for row in FAMILIES.values()),
    ):
        module = types.ModuleType(f"ctc_align.models.{family}")
        module.load = module.load_folder = called  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)


def test_models_go_by_name_path_prefix_or_their_files(
    families: None, tmp_path, monkeypatch
) -> None:
    def arguments(name: str, **options: Any) -> tuple[object, ...]:
        return load_model(name, device="cpu", **options).arguments

    cpu = Device("cpu")
    (tmp_path / "english").mkdir()
    monkeypatch.chdir(tmp_path)
    assert arguments("english", settings=SETTINGS) == (embedded_folder("english"), cpu, SETTINGS)
    with pytest.raises(UsageError, match=r"lacks model\.toml, model\.safetensors"):
        load_model("./english", device="cpu")
    for file in FOLDER_FILES:
        (tmp_path / "english" / file).touch()
    assert arguments("./english") == (Path("english"), cpu, Settings())
    for name in ("torchaudio:MMS_FA", "hf:some/model", "onnx:model.onnx"):
        assert arguments(name, settings=SETTINGS) == (name, "cpu", SETTINGS)
    (tmp_path / "config.json").touch()
    assert arguments(str(tmp_path)) == (str(tmp_path), "cpu", Settings(), True)


def test_unknown_names_are_helped(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"model englsh: no such model or folder; did you mean english\?"
    ):
        load_model("englsh")
    with pytest.raises(UsageError, match=r"no such model or folder; expected english"):
        load_model("klingon")
    assert folder_settings(str(tmp_path)) == FolderSettings()
    (tmp_path / "model.pt").touch()
    with pytest.raises(UsageError, match="got a file"):
        load_model(str(tmp_path / "model.pt"))


def test_devices_that_are_here_and_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {resolve_device(name) for name in ("cpu", torch.device("cpu"), "cpu:0")} == {
        Device("cpu")
    }
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("cuda", "cuda:3", "mps"):
        with pytest.raises(BackendError, match=f"device {name}"):
            resolve_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve_device("auto") == resolve_device("cuda") == Device("cuda", 0)
    assert str(resolve_device("cuda:1")) == str(torch.device("cuda", 1))
    with pytest.raises(BackendError, match="this machine has 2"):
        resolve_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cuda:-1", "cpu:1", "mps:1", "tpu:0", "CPU"])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(UsageError, match="expected auto, cpu, cuda, cuda:N or mps"):
        resolve_device(name)
