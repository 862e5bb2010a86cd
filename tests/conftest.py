"""What all tests share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "torchaudio: compares with torchaudio, which has an environment of its own (skipped without it)"
    )


@pytest.fixture(scope="session")
def english() -> Aligner:
    """The aligner with the model that is inside the package."""
    weights = ROOT / "ctc_align" / "models" / "english" / "model.safetensors"
    if not weights.is_file():
        pytest.skip("the weights of the model `english` are not here yet")
    from ctc_align.alignment.aligner import Aligner

    return Aligner("english", device="cpu")


@pytest.fixture(scope="session")
def speech_data() -> Path:
    """The folder of speech beside the checkout; tests that ask for it are marked `data`."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no speech data in {folder.parent.name}/{folder.name} beside the checkout")
    return folder
