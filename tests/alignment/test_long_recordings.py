"""Recordings of hours: what lies on disk, and is looked at in pieces, gives the same alignment to the bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made_sounds import babble

from ctc_align.alignment import confidence, segmentation
from ctc_align.alignment.aligner import Aligner
from ctc_align.audio import loading
from ctc_align.audio.loading import load_audio, load_segment
from ctc_align.files import Alignment
from ctc_align.models.convnet import convnet_model
from ctc_align.reading.rows_on_disk import RowsOnDisk, TensorOnDisk

DEMO = Path(convnet_model.__file__).parents[2] / "demo"


def joined(folder: Path, times: int = 4) -> tuple[Path, str]:
    """A recording of the demo several times over, and its text."""
    samples, rate = soundfile.read(next(DEMO.glob("*.flac")), dtype="float32")
    path = folder / "long.wav"
    soundfile.write(path, np.tile(samples, times), rate)
    return path, " ".join([next(DEMO.glob("*.txt")).read_text("utf-8")] * times)


@pytest.mark.long
def test_on_disk_and_in_windows_it_is_the_same(
    english: Aligner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, text = joined(tmp_path)
    usual = english.align(path, text)
    monkeypatch.setattr(convnet_model, "STATES_BYTES", 0)
    monkeypatch.setattr(convnet_model, "CACHED_FRAMES", 0)
    monkeypatch.setattr(loading, "MOST_IN_MEMORY", 2**16)
    monkeypatch.setattr(segmentation, "WHOLE_FRAMES", 0)
    monkeypatch.setattr(segmentation, "WINDOW_FRAMES", 300)
    monkeypatch.setattr(segmentation, "OVERLAP_FRAMES", 200)
    monkeypatch.setattr(confidence, "PIECE_FRAMES", 100)
    monkeypatch.setattr(confidence, "SUMMED_FRAMES", 100)
    windows: list[int] = []
    window_from = segmentation.window_from

    def seen(first: int, *arguments: object) -> object:
        windows.append(first)
        return window_from(first, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(segmentation, "window_from", seen)
    assert isinstance(english.emissions(path).states, TensorOnDisk)
    assert same(english.align(path, text), usual)
    assert len(windows) > 3


def same(one: Alignment, other: Alignment) -> bool:
    return json.dumps(one.to_dict()) == json.dumps(other.to_dict())


@pytest.mark.parametrize("rate", [16000, 22050])
def test_samples_on_disk_are_those_in_memory(rate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made.wav"
    soundfile.write(path, babble(12.0), rate)
    whole = load_audio(path)
    monkeypatch.setattr(loading, "MOST_IN_MEMORY", 50_000)
    audio = load_segment(path, on_disk=True)
    assert isinstance(audio.samples, RowsOnDisk)
    assert np.array_equal(np.asarray(audio.samples), whole.samples)
    assert (audio.duration_s, audio.name) == (whole.duration_s, whole.name)
    assert isinstance(load_audio(path).samples, np.ndarray)
