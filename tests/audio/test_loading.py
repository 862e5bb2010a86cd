"""Sound in: rates, channels, formats, exactness over blocks, and every way a file can be wrong."""

from __future__ import annotations

import logging
import os
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from rows import over_rows

from ctc_align.audio import media_reader, soundfile_reader
from ctc_align.audio.audio_kinds import MissingAudioError
from ctc_align.audio.loading import CheckedResampler, as_audio, load_audio
from ctc_align.errors import AudioError, UsageError
from ctc_align.types import Audio

CONTAINERS = [
    ("wav", "PCM_16"),
    ("wav", "PCM_24"),
    ("wav", "FLOAT"),
    ("wav", "ULAW"),
    ("flac", "PCM_16"),
    ("aiff", "PCM_16"),
    ("ogg", "VORBIS"),
    ("ogg", "OPUS"),
    ("mp3", "MPEG_LAYER_III"),
]


def noise(samples: int, seed: int = 0, scale: float = 0.1) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(samples) * scale).astype(np.float32)


def burst(rate: int, at_s: float, length_s: float) -> np.ndarray:
    """A smooth pulse whose centre of gravity lies at `at_s`, band-limited so that every codec keeps it."""
    t = np.arange(round(length_s * rate)) / rate
    return (0.5 * np.exp(-0.5 * ((t - at_s) / 0.002) ** 2)).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = 16000, **how: str) -> Path:
    soundfile.write(path, samples, rate, **how)
    return path


@over_rows(("rate", "channels"), product([8000, 11025, 16000, 22050, 44100, 48000, 96000], [1, 2, 6]))
def test_any_rate_and_channel_count_gives_mono_at_the_models_rate(tmp_path: Path, rate: int, channels: int) -> None:
    source = np.stack([burst(rate, 0.7, 1.23)] * channels, axis=1)
    audio = load_audio(write(tmp_path / "a.wav", source, rate))
    assert audio.sample_rate == 16000
    assert audio.samples.dtype == np.float32
    assert audio.samples.ndim == 1
    assert len(audio.samples) == round(len(source) * 16000 / rate)
    assert audio.duration_s == len(source) / rate
    assert abs(int(audio.samples.argmax()) - 11200) <= 1
    assert audio.samples.max() == pytest.approx(0.5, rel=0.02)


@over_rows("rate", [8000, 44100, 96000])
def test_an_impulse_keeps_its_place(rate: int) -> None:
    source = np.zeros(2 * rate, np.float32)
    source[rate + 1] = 1.0
    audio = as_audio((source, rate))
    assert abs(int(np.abs(audio.samples).argmax()) - (rate + 1) * 16000 / rate) <= 1


@over_rows(("extension", "subtype"), CONTAINERS)
def test_containers_keep_time(tmp_path: Path, extension: str, subtype: str) -> None:
    path = write(tmp_path / f"a.{extension}", burst(48000, 0.7, 1.5), 48000, subtype=subtype)
    audio = load_audio(path)
    assert audio.duration_s == pytest.approx(1.5, abs=0.001)
    assert abs(int(audio.samples.argmax()) - 11200) <= 8


@pytest.mark.parametrize(("extension", "subtype"), CONTAINERS)
def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str, subtype: str) -> None:
    source = np.stack([noise(90_017, 1), noise(90_017, 2)], axis=1)
    path = write(tmp_path / f"a.{extension}", source, 44100 if subtype != "OPUS" else 48000, subtype=subtype)
    whole = load_audio(path).samples
    for size in (977, 8192):
        for module in (soundfile_reader, media_reader):
            monkeypatch.setattr(module, "BLOCK_SAMPLES", size)
        np.testing.assert_array_equal(load_audio(path).samples, whole)


def test_memory_and_file_agree(tmp_path: Path) -> None:
    source = noise(100_003)
    path = write(tmp_path / "a.wav", source, 44100, subtype="FLOAT")
    np.testing.assert_array_equal(load_audio(path).samples, as_audio((source, 44100)).samples)


def test_channels_are_averaged(tmp_path: Path) -> None:
    left, right = noise(16000, 1), noise(16000, 2)
    path = write(tmp_path / "a.wav", np.stack([left, right], axis=1), subtype="FLOAT")
    np.testing.assert_allclose(load_audio(path).samples, (left + right) / 2, atol=1e-7)


@over_rows("name", ["with space.wav", "žluťoučký 語.wav", "A.WAV", "odd.raw", "odd.vox", "none", "a.b.c"])
def test_names_say_nothing_about_the_content(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(write(tmp_path / "x.wav", noise(16000)).read_bytes())
    audio = load_audio(str(tmp_path / name))
    assert len(audio.samples) == 16000
    assert audio.name == str(tmp_path / name)


def test_growing_past_what_the_header_says(monkeypatch: pytest.MonkeyPatch) -> None:
    resampler = CheckedResampler("x", 16000, 16000, expected=0)
    source = noise(300_000)
    for start in range(0, len(source), 1000):
        resampler.add(source[start : start + 1000, None])
    np.testing.assert_array_equal(resampler.finish().samples, source)


def test_samples_of_every_kind() -> None:
    source = noise(4000)
    expected = as_audio((source, 16000)).samples
    np.testing.assert_array_equal(expected, source)
    scaled = np.round(source * 32768).astype(np.int16)
    for given in (source.tolist(), source.astype(np.float64), torch.from_numpy(source), source[None], source[:, None]):
        np.testing.assert_array_equal(as_audio((given, 16000)).samples, expected)
    np.testing.assert_array_equal(as_audio((scaled, 16000)).samples, scaled / np.float32(32768))
    np.testing.assert_array_equal(as_audio((torch.from_numpy(scaled), 16000.0)).samples, scaled / np.float32(32768))
    np.testing.assert_array_equal(as_audio((scaled.astype(np.int32) << 16, 16000)).samples, scaled / np.float32(32768))
    np.testing.assert_array_equal(as_audio(Audio(source, np.int64(16000), "x")).samples, expected)
    grad = torch.from_numpy(source).double().requires_grad_()
    np.testing.assert_array_equal(as_audio((grad, torch.tensor(16000))).samples, expected)


def test_audio_is_resampled_once_and_keeps_the_source_duration() -> None:
    first = as_audio((noise(44101), 44100), 16000)
    assert as_audio(first, 16000) is first
    again = as_audio(first, 8000)
    assert again.sample_rate == 8000
    assert again.duration_s == first.duration_s == 44101 / 44100


@over_rows(
    ("sound", "message"),
    [
        ((np.zeros((2, 9000), np.float32), 16000), r"one channel of shape \(N,\), got shape \(2, 9000\)"),
        ((np.zeros(9000, np.int64), 16000), "got int64"),
        ((np.zeros(9000, np.complex64), 16000), "got complex64"),
        (("a", 16000), "expected numbers, got str"),
        ((16000, np.zeros(9000, np.float32)), r"is it \(rate, samples\)"),
        ((noise(9000), "16000"), "sample rate as a whole number, got str"),
        ((noise(9000), 0), "sample rate from 4000 to 768000 Hz, got 0 Hz"),
        ((noise(9000), 16000.5), "whole number"),
        ((np.zeros(0, np.float32), 16000), "no samples"),
        ((noise(399), 16000), "at least 25 ms of audio, got 24.94 ms"),
        ((np.zeros(9000, np.float32), 16000), "silence only .every sample is zero"),
        ((np.full(9000, 0.25), 16000), r"silence only .every sample is 0\.25"),
        ((np.full(9000, 1e300), 16000), "sample is inf at 0.000 s"),
        ((noise(9000) * np.float32(1e37), 16000), r"in about \[-1, 1\]"),
    ],
)
def test_bad_samples_are_told(sound: tuple, message: str) -> None:
    with pytest.raises(AudioError, match=message) as caught:
        as_audio(sound)
    assert "samples in memory" in str(caught.value)


@over_rows("sound", [None, 3, np.zeros(16000), (noise(9000), 16000, "x"), b"a.wav"])
def test_what_is_no_sound_is_a_wrong_call(sound: object) -> None:
    with pytest.raises(UsageError, match=r"expected a path, \(samples, sample_rate\) or Audio"):
        as_audio(sound)


def test_quiet_speech_is_not_silence() -> None:
    quiet = noise(16000, scale=1e-5)
    np.testing.assert_array_equal(as_audio((quiet, 16000)).samples, quiet)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_sample_that_is_no_number_is_placed(tmp_path: Path, value: float) -> None:
    source = np.stack([noise(100_000, 1), noise(100_000, 2)], axis=1)
    source[80_000, 1] = value
    path = write(tmp_path / "a.wav", source, subtype="FLOAT")
    with pytest.raises(AudioError, match=rf"a\.wav: sample is {value} at 5\.000 s in channel 2"):
        load_audio(path)


@over_rows(("extension", "rate"), product(["wav", "flac", "mp3", "ogg"], [16000, 44100]))
def test_silence_is_told_in_every_container(tmp_path: Path, extension: str, rate: int) -> None:
    path = write(tmp_path / f"a.{extension}", np.zeros((rate, 2), np.float32), rate)
    with pytest.raises(AudioError, match="silence only"):
        load_audio(path)


def test_a_constant_is_silence(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match=r"silence only .every sample is -0\.3"):
        load_audio(write(tmp_path / "a.wav", np.full(48000, -0.3), 48000))


def test_channels_that_cancel(tmp_path: Path) -> None:
    source = noise(16000)
    with pytest.raises(AudioError, match="channels cancel each other"):
        load_audio(write(tmp_path / "a.wav", np.stack([source, -source], axis=1), subtype="FLOAT"))


def test_no_such_file_is_both_a_wrong_call_and_a_bad_utterance(tmp_path: Path) -> None:
    with pytest.raises(MissingAudioError, match=r"nowhere\.wav: no such audio file") as caught:
        load_audio(tmp_path / "nowhere.wav")
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, AudioError)


def test_a_folder_and_a_pipe(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="got a folder"):
        load_audio(tmp_path)
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(AudioError, match="got a pipe"):
        load_audio(tmp_path / "pipe.wav")


NOT_AUDIO = [
    *(b"", b"RIFF", b"hello world\n" * 500, b"ID3" + bytes(50)),
    *(b"\xff\xfb\x90\x00" * 3, b"fLaC" + bytes(60), b"OggS" * 9),
]


@over_rows(("content", "name"), product(NOT_AUDIO, ["a.wav", "a.mp3", "a.raw", "a.txt"]))
def test_what_is_not_audio(tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(AudioError, match=rf"{name}: "):
        load_audio(path)
    assert capfd.readouterr() == ("", "")


def test_a_header_cut_short(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", noise(16000))
    content = path.read_bytes()
    for size in (8, 20, 36, 44):
        path.write_bytes(content[:size])
        with pytest.raises(AudioError, match=r"a\.wav"):
            load_audio(path)


@pytest.mark.parametrize("extension", ["wav", "flac", "mp3"])
def test_a_cut_file_is_used_as_far_as_it_goes_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], extension: str
) -> None:
    path = write(tmp_path / f"a.{extension}", noise(480_000), 48000)
    content = path.read_bytes()
    assert len(load_audio(path).samples) == 160_000
    assert not caplog.records
    path.write_bytes(content[: len(content) // 2])
    audio = load_audio(path)
    assert 2.5 < audio.duration_s < 6
    assert len(audio.samples) == pytest.approx(audio.duration_s * 16000, abs=1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "s before its header says" in caplog.text
    assert capfd.readouterr().err == ""


def test_a_streamed_header_is_not_a_cut_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.wav", noise(16000))
    content = bytearray(path.read_bytes())
    place = content.index(b"data") + 4
    content[place : place + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    assert len(load_audio(path).samples) == 16000
    assert not caplog.records


def test_a_target_rate_that_is_none() -> None:
    with pytest.raises(UsageError, match="sample_rate: expected 4000"):
        as_audio((noise(9000), 16000), 0)
