"""Recordings of hours: what lies on disk, and is looked at in pieces, gives the same alignment to
the bit."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from alignment_checks import check
from made_sounds import babble
from rows import first_row_of

from ctc_align.alignment import confidence, segmentation
from ctc_align.alignment.aligner import Aligner
from ctc_align.audio import loading
from ctc_align.audio.loading import load_audio
from ctc_align.machine.rows_on_disk import RowsOnDisk, TensorOnDisk
from ctc_align.models.convnet import convnet_model
from ctc_align.types import Alignment

DEMO = Path(convnet_model.__file__).parents[2] / "demo"


def joined(folder: Path, times: int = 4) -> tuple[Path, str]:
    """A recording of the demo several times over, and its text."""
    samples, rate = soundfile.read(next(DEMO.glob("*.flac")), dtype="float32")
    path = folder / "long.wav"
    soundfile.write(path, np.tile(samples, times), rate)
    return path, " ".join([next(DEMO.glob("*.txt")).read_text("utf-8")] * times)


@pytest.mark.long
def test_on_disk_and_in_windows_it_is_the_same(english, tmp_path, monkeypatch) -> None:
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
def test_samples_on_disk_are_those_in_memory(
    rate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "made.wav"
    soundfile.write(path, babble(12.0), rate)
    whole = load_audio(path)
    monkeypatch.setattr(loading, "MOST_IN_MEMORY", 50_000)
    audio = load_audio(path, on_disk=True)
    assert isinstance(audio.samples, RowsOnDisk)
    assert np.array_equal(np.asarray(audio.samples), whole.samples)
    assert (audio.duration_s, audio.name) == (whole.duration_s, whole.name)
    assert isinstance(load_audio(path).samples, np.ndarray)


# Recordings that are mostly not speech: words stay where the clip alone has them, and never in what
# lies between.

RATE = 16000
CLIPS = 4

pytestmark = pytest.mark.data

Clip = tuple[np.ndarray, str, list[tuple[float, float]]]


def edges(english: Aligner, samples: np.ndarray, text: str) -> list[tuple[float, float]]:
    alignment = english.align((samples, RATE), text)
    check(alignment)
    return [(word.start_s or 0.0, word.end_s or 0.0) for word in alignment.words]


@pytest.fixture(scope="module")
def clips(english: Aligner, speech_data: Path) -> list[Clip]:
    """Clips of about 4 s at -26 dBFS, their texts, and their words' times."""
    rows = [
        json.loads(row)
        for row in (speech_data / "english" / "manifest.jsonl").read_text("utf-8").splitlines()
    ]
    found = []
    for row in [row for row in rows if row["split"] == "dev" and 3.5 < row["duration_s"] < 5.0][
        :CLIPS
    ]:
        samples = load_audio(speech_data / "english" / row["audio"], RATE).samples
        samples = samples * np.float32(0.05 / np.sqrt(np.mean(samples**2)))
        found.append((samples, row["text"], edges(english, samples, row["text"])))
    return found


def hiss(seconds: float, level_db: float) -> np.ndarray:
    sound = np.random.default_rng(5).standard_normal(round(RATE * seconds)) * 10 ** (level_db / 20)
    return sound.astype(np.float32)


def off_s(found: list[tuple[float, float]], wanted: list[tuple[float, float]]) -> np.ndarray:
    return np.abs(np.array(found) - np.array(wanted)).ravel()


@pytest.mark.parametrize("level_db", first_row_of([-300.0, -75.0, -65.0, -55.0]))
def test_one_clip_in_minutes_of_hiss(english: Aligner, clips: list[Clip], level_db: float) -> None:
    samples, text, wanted = clips[0]
    rare = np.concatenate((hiss(90.0, level_db), samples, hiss(90.0, level_db)))
    found = edges(english, rare, text)
    off = off_s([(start - 90.0, end - 90.0) for start, end in found], wanted)
    assert off.mean() < 0.03
    assert off.max() < 0.3


@pytest.mark.parametrize("level_db", [-300.0, -60.0, -40.0])
def test_long_pauses(english: Aligner, clips: list[Clip], level_db: float) -> None:
    parts: list[np.ndarray] = []
    wanted: list[tuple[float, float]] = []
    at_s = 0.0
    for k, (samples, _, words) in enumerate(clips):
        wanted += [(start + at_s, end + at_s) for start, end in words]
        parts += [samples, hiss(12.0 + 3.0 * k, level_db)]
        at_s = sum(map(len, parts)) / RATE
    found = edges(english, np.concatenate(parts), " ".join(text for _, text, _ in clips))
    off = off_s(found, wanted)
    assert off.mean() < 0.04
    assert off.max() < 1.0


@pytest.mark.parametrize("missing", range(CLIPS))
def test_what_is_not_in_the_transcript_tears_no_word_apart(
    english: Aligner, clips: list[Clip], missing: int
) -> None:
    pause = np.zeros(RATE // 2, np.float32)
    sound = np.concatenate([part for samples, _, _ in clips for part in (samples, pause)])
    found = edges(
        english, sound, " ".join(text for k, (_, text, _) in enumerate(clips) if k != missing)
    )
    assert max(end - start for start, end in found) < 2.0
    assert all(one[1] <= two[0] for one, two in pairwise(found))
