"""Sound in: rates, channels, formats, exactness over blocks, and every way a file can be wrong."""

from __future__ import annotations

import io
import logging
import os
import struct
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from made_media import Coding, write_media
from made_sounds import babble
from rows import over_rows

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio import recordings
from ctc_align.audio.audio_kinds import MissingAudioError
from ctc_align.audio.loading import (
    CheckedResampler,
    as_audio,
    header_duration_s,
    load_audio,
    load_stdin,
)
from ctc_align.config import Settings, load_settings
from ctc_align.errors import AudioError, ConfigError, UsageError
from ctc_align.types import Audio, SoundChoice

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
    """A smooth pulse whose centre of gravity lies at `at_s`, band-limited so that every codec keeps
    it."""
    t = np.arange(round(length_s * rate)) / rate
    return (0.5 * np.exp(-0.5 * ((t - at_s) / 0.002) ** 2)).astype(np.float32)


def write(path: Path, samples: np.ndarray, rate: int = 16000, **how: str) -> Path:
    soundfile.write(path, samples, rate, **how)
    return path


@over_rows(
    ("rate", "channels"), product([8000, 11025, 16000, 22050, 44100, 48000, 96000], [1, 2, 6])
)
def test_any_rate_and_channel_count_gives_mono_at_the_models_rate(
    tmp_path: Path, rate: int, channels: int
) -> None:
    source = np.stack([burst(rate, 0.7, 1.23)] * channels, axis=1)
    audio = load_audio(write(tmp_path / "a.wav", source, rate))
    assert audio.sample_rate == 16000
    assert audio.samples.dtype == np.float32
    assert audio.samples.ndim == 1
    assert len(audio.samples) == round(len(source) * 16000 / rate)
    assert audio.duration_s == len(source) / rate
    assert abs(int(audio.samples.argmax()) - 11200) <= 1
    assert audio.samples.max() == pytest.approx(0.5, rel=0.02)


@over_rows(("extension", "subtype"), CONTAINERS)
def test_containers_keep_time(tmp_path: Path, extension: str, subtype: str) -> None:
    path = write(tmp_path / f"a.{extension}", burst(48000, 0.7, 1.5), 48000, subtype=subtype)
    audio = load_audio(path)
    assert audio.duration_s == pytest.approx(1.5, abs=0.001)
    assert header_duration_s(path) == pytest.approx(audio.duration_s, abs=0.1)
    assert abs(int(audio.samples.argmax()) - 11200) <= 8


@pytest.mark.parametrize(("extension", "subtype"), CONTAINERS)
def test_blocks_do_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str, subtype: str
) -> None:
    source = np.stack([noise(90_017, 1), noise(90_017, 2)], axis=1)
    path = write(
        tmp_path / f"a.{extension}", source, 44100 if subtype != "OPUS" else 48000, subtype=subtype
    )
    whole = load_audio(path).samples
    for size in (977, 8192):
        monkeypatch.setattr(recordings, "BLOCK_SAMPLES", size)
        np.testing.assert_array_equal(load_audio(path).samples, whole)


def test_memory_and_file_agree_and_are_resampled_once(tmp_path: Path) -> None:
    source = noise(100_003)
    path = write(tmp_path / "a.wav", source, 44100, subtype="FLOAT")
    first = as_audio((source, 44100), 16000)
    np.testing.assert_array_equal(load_audio(path).samples, first.samples)
    assert as_audio(first, 16000) is first
    again = as_audio(first, 8000)
    assert again.sample_rate == 8000
    assert again.duration_s == first.duration_s == 100_003 / 44100
    with pytest.raises(UsageError, match="sample_rate: expected 4000"):
        as_audio((source, 16000), 0)


@over_rows(
    "name", ["with space.wav", "žluťoučký 語.wav", "A.WAV", "odd.raw", "odd.vox", "none", "a.b.c"]
)
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


def test_samples_of_every_kind_however_quiet() -> None:
    source = noise(4000)
    expected = as_audio((source, 16000)).samples
    np.testing.assert_array_equal(expected, source)
    scaled = np.round(source * 32768).astype(np.int16)
    for given in (
        source.tolist(),
        source.astype(np.float64),
        torch.from_numpy(source),
        source[None],
        source[:, None],
    ):
        np.testing.assert_array_equal(as_audio((given, 16000)).samples, expected)
    np.testing.assert_array_equal(as_audio((scaled, 16000)).samples, scaled / np.float32(32768))
    np.testing.assert_array_equal(
        as_audio((torch.from_numpy(scaled), 16000.0)).samples, scaled / np.float32(32768)
    )
    np.testing.assert_array_equal(
        as_audio((scaled.astype(np.int32) << 16, 16000)).samples, scaled / np.float32(32768)
    )
    np.testing.assert_array_equal(as_audio(Audio(source, np.int64(16000), "x")).samples, expected)
    grad = torch.from_numpy(source).double().requires_grad_()
    np.testing.assert_array_equal(as_audio((grad, torch.tensor(16000))).samples, expected)
    quiet = noise(16000, scale=1e-5)
    np.testing.assert_array_equal(as_audio((quiet, 16000)).samples, quiet)


@over_rows(
    ("sound", "message"),
    [
        (
            (np.zeros((2, 9000), np.float32), 16000),
            r"one channel of shape \(N,\), got shape \(2, 9000\)",
        ),
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


def test_what_is_no_whole_file(tmp_path: Path) -> None:
    with pytest.raises(MissingAudioError, match=r"nowhere\.wav: no such audio file") as caught:
        load_audio(tmp_path / "nowhere.wav")
    assert isinstance(caught.value, UsageError), "both a wrong call and a bad utterance"
    assert isinstance(caught.value, AudioError)
    with pytest.raises(AudioError, match="got a folder"):
        load_audio(tmp_path)
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(AudioError, match="got a pipe"):
        load_audio(tmp_path / "pipe.wav")
    path = write(tmp_path / "a.wav", noise(16000))
    content = path.read_bytes()
    for size in (8, 20, 36, 44):
        path.write_bytes(content[:size])
        with pytest.raises(AudioError, match=r"a\.wav"):
            load_audio(path)


NOT_AUDIO = [
    *(b"", b"RIFF", b"hello world\n" * 500, b"ID3" + bytes(50)),
    *(b"\xff\xfb\x90\x00" * 3, b"fLaC" + bytes(60), b"OggS" * 9),
]


@over_rows(("content", "name"), product(NOT_AUDIO, ["a.wav", "a.mp3", "a.raw", "a.txt"]))
def test_what_is_not_audio(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(AudioError, match=rf"{name}: "):
        load_audio(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("extension", ["wav", "flac", "mp3"])
def test_a_cut_file_is_used_as_far_as_it_goes_and_said(tmp_path, caplog, capfd, extension) -> None:
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


# Parts of recordings, one channel of several, and how long a file is without decoding it.


@over_rows(("extension", "subtype"), CONTAINERS)
def test_a_part_is_what_the_whole_has_there(tmp_path: Path, extension: str, subtype: str) -> None:
    path = write(tmp_path / f"a.{extension}", babble(10.0, level=0.5), subtype=subtype)
    whole = load_audio(path)
    for offset_s, duration_s in ((0.0, 1.0), (1.2345, 2.0), (5.5, None), (7.999, 0.5), (4.0, 6.0)):
        part = load_audio(path, offset_s=offset_s, duration_s=duration_s)
        first = round(offset_s * 16000)
        last = len(whole.samples) if duration_s is None else round((offset_s + duration_s) * 16000)
        assert len(part.samples) == last - first, offset_s
        # Decoders that begin in the middle need a moment to be as exact as from the start.
        exact = 0 if extension in ("wav", "flac", "aiff") else 1e-3
        np.testing.assert_allclose(part.samples, whole.samples[first:last], atol=exact, rtol=0)
        assert (part.name, part.offset_s, part.duration_s) == (
            str(path),
            offset_s,
            (last - first) / 16000,
        )


@pytest.mark.parametrize("rate", [8000, 44100])
def test_parts_at_other_rates(tmp_path: Path, rate: int) -> None:
    time = np.arange(4 * rate) / rate
    path = write(
        tmp_path / "a.wav",
        (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32),
        rate,
        subtype="FLOAT",
    )
    part = load_audio(path, offset_s=1.0, duration_s=2.0)
    assert (len(part.samples), part.duration_s) == (32000, 2.0)
    np.testing.assert_allclose(
        part.samples[800:-800], load_audio(path).samples[16800:47200], atol=1e-3
    )


def test_one_channel_or_all_of_a_setting(tmp_path: Path) -> None:
    both = np.stack((babble(2.0, 1), babble(2.0, 2)), 1)
    path = write(tmp_path / "a.wav", both, subtype="FLOAT")
    for channel in (1, 2):
        part = load_audio(path, offset_s=0.5, duration_s=1.0, choice=SoundChoice(channel))
        assert np.array_equal(part.samples, both[8000:24000, channel - 1])
        assert np.array_equal(
            load_audio(path, choice=SoundChoice(channel)).samples, both[:, channel - 1]
        )
    np.testing.assert_allclose(load_audio(path).samples, both.mean(1), atol=1e-7)
    assert load_settings(None, ["channel=3"]).channel_number == 3
    for wrong in ("0", "middle", "-1", ""):
        with pytest.raises(
            ConfigError, match="channel: expected mix, left, right or a number from 1"
        ):
            load_settings(channel=wrong)


def test_parts_of_files_that_cannot_seek_or_end_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.wav", babble(10.0), subtype="FLOAT")
    expected = load_audio(path, offset_s=6.5, duration_s=1.0)
    monkeypatch.setattr(soundfile.SoundFile, "seekable", lambda sound: False)
    assert np.array_equal(load_audio(path, offset_s=6.5, duration_s=1.0).samples, expected.samples)
    path = write(tmp_path / "a.wav", babble(2.996))
    assert load_audio(path, offset_s=1.0, duration_s=2.0).duration_s == 1.996


@over_rows(
    ("how", "message"),
    [
        ({"offset_s": 50.0}, r"3\.000 s long; got 50\.000 s to the end"),
        ({"offset_s": 3.0}, r"3\.000 s long; got 3\.000 s to the end"),
        ({"offset_s": 1.0, "duration_s": 50.0}, r"3\.000 s long; got 1\.000 s to 51\.000 s"),
        ({"duration_s": 3.2}, r"3\.000 s long; got 0\.000 s to 3\.200 s"),
        ({"offset_s": -1.0}, r"expected an offset of 0 s or more, got -1\.0"),
        ({"offset_s": float("nan")}, "expected an offset of 0 s or more, got nan"),
        ({"offset_s": float("inf")}, "expected an offset of 0 s or more, got inf"),
        ({"duration_s": 0.0}, r"expected a duration of more than 0 s, got 0\.0"),
        ({"duration_s": float("nan")}, "expected a duration of more than 0 s, got nan"),
        ({"choice": SoundChoice(0)}, "expected a channel from 1 on, got 0"),
        (
            {"offset_s": 1.0, "duration_s": 0.01},
            r"from 1\.00 s on\): expected at least 25 ms of audio, got 10\.00 ms",
        ),
    ],
)
def test_parts_that_there_are_not(tmp_path: Path, how: dict[str, float], message: str) -> None:
    path = write(tmp_path / "a.wav", babble(3.0))
    with pytest.raises(AudioError, match=message) as caught:
        load_audio(path, **how)  # type: ignore[arg-type]
    assert str(path) in str(caught.value)


def test_a_part_that_is_silent_or_no_number(tmp_path: Path) -> None:
    samples = babble(3.0)
    samples[16000:32000] = 0
    samples[40000] = np.nan
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"a\.wav \(from 1\.00 s on\): the audio is silence only"):
        load_audio(path, offset_s=1.0, duration_s=1.0)
    with pytest.raises(AudioError, match=r"sample is nan at 0\.500 s"):
        load_audio(path, offset_s=2.0)
    assert load_audio(path, duration_s=1.0).duration_s == 1.0


def test_a_cut_file_has_the_parts_before_the_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "a.flac", np.tile(babble(10.0), 3))
    whole = load_audio(path).samples
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    heard = load_audio(path).samples
    assert np.array_equal(heard, whole[: len(heard)])
    assert 14.5 < len(heard) / 16000 < 15.0
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert load_audio(path, offset_s=2.0, duration_s=3.0).duration_s == 3.0
        assert not caplog.records
        assert 12.5 < load_audio(path, offset_s=2.0, duration_s=20.0).duration_s < 13.0
        assert "it is truncated or damaged" in caplog.text
    with pytest.raises(
        AudioError, match=r"a\.flac: the audio cannot be decoded: the file is truncated or damaged"
    ):
        load_audio(path, offset_s=25.0, duration_s=2.0)


def test_only_the_part_is_read_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.flac", babble(3.25))
    with monkeypatch.context() as patched:
        patched.setattr(recordings, "_MOST_SAMPLES", 0)
        assert header_duration_s(path) == 3.25
        assert load_audio(path, offset_s=3.0, duration_s=9.0).duration_s == 0.25
        with pytest.raises(AudioError, match="no samples"):
            load_audio(path, offset_s=9.0)
    path = write(tmp_path / "long.flac", np.tile(babble(20.0), 15))
    read: list[int] = []
    real = soundfile.SoundFile.read

    def watched(sound: soundfile.SoundFile, frames: int = -1, **how: object) -> np.ndarray:
        block: np.ndarray = real(sound, frames, **how)
        read.append(len(block))
        return block

    monkeypatch.setattr(soundfile.SoundFile, "read", watched)
    load_audio(path, offset_s=250.0, duration_s=3.0)
    assert sum(read) == 48000


def test_the_place_in_the_recording_reaches_the_alignment(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", babble(4.5), 22050)
    part = load_audio(path, offset_s=1.5, duration_s=1.0)
    assert as_audio(part).offset_s == as_audio(part, 8000).offset_s == 1.5
    assert as_audio(part, 8000).name == str(path)
    alignment = Aligner("english", device="cpu").align(part, "be", utterance="u-1")
    assert (alignment.utterance, alignment.audio, alignment.offset_s) == ("u-1", str(path), 1.5)
    assert alignment.duration_s == pytest.approx(1.0, abs=1e-4)


# Channels: one of several, their mix, and those that cancel each other in it.


def stereo(path: Path, left: np.ndarray, right: np.ndarray) -> Path:
    both = np.stack((left, right), 1).astype(np.float32)
    if path.suffix == ".wav":
        soundfile.write(path, both, 16000)
        return path
    return write_media(path, [(0.0, both)], 16000, Coding("libmp3lame", bit_rate=160000))


@over_rows("name", ["a.wav", "a.mp3"])
def test_one_channel_of_two(tmp_path: Path, name: str) -> None:
    left, right = babble(2.0, 1), babble(2.0, 2)
    path = stereo(tmp_path / name, left, right)
    for channel, expected in (
        ("left", left),
        ("right", right),
        ("2", right),
        ("mix", (left + right) / 2),
    ):
        audio = as_audio(path, choice=Settings(channel=channel).sound_choice())
        assert len(audio.samples) == 32000
        assert np.corrcoef(audio.samples, expected)[0, 1] > 0.99
    with pytest.raises(
        AudioError, match=r"expected channel 3, got a recording of 2 channels \(1 is the left one"
    ):
        load_audio(path, choice=SoundChoice(3))


@over_rows(
    ("name", "right", "warned"),
    [
        ("same.wav", lambda sound: sound, False),
        ("silent.wav", lambda sound: 0 * sound, False),
        ("other.wav", lambda sound: babble(4.0, 9), False),
        ("short.wav", lambda sound: np.where(np.arange(len(sound)) < 16000, -sound, sound), False),
        ("opposite.wav", lambda sound: -sound, None),
        ("opposite.mp3", lambda sound: -sound, None),
        ("nearly.wav", lambda sound: -0.97 * sound + 0.003 * babble(4.0, 9), True),
        ("mostly.wav", lambda sound: np.where(np.arange(len(sound)) < 48000, -sound, sound), True),
    ],
)
def test_channels_that_cancel_are_noticed(tmp_path, caplog, name, right, warned) -> None:
    sound = babble(4.0, 1)
    path = stereo(tmp_path / name, sound, right(sound))  # type: ignore[operator]
    caplog.clear()
    if warned is None:
        with pytest.raises(
            AudioError, match=r"the channels cancel each other .*\(--channel left\)"
        ):
            load_audio(path)
    else:
        load_audio(path)
        assert ["cancel" in record.message for record in caplog.records] == [True] * warned
    caplog.clear()
    load_audio(path, choice=SoundChoice(1))
    assert not caplog.records


class Stdin:
    """Standard input that holds bytes, cannot seek, and is no terminal."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BufferedReader(_Pipe(content))

    def isatty(self) -> bool:
        return False


class _Pipe(io.RawIOBase):
    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return self._content.readinto(buffer)


def test_a_recording_from_standard_input(tmp_path, monkeypatch, caplog) -> None:
    sound = babble(2.0)[:, None]
    soundfile.write(tmp_path / "a.wav", sound, 16000)
    streamed = bytearray((tmp_path / "a.wav").read_bytes())
    place = streamed.index(b"data") + 4
    streamed[place : place + 4] = streamed[4:8] = b"\xff\xff\xff\xff"
    (tmp_path / "streamed.wav").write_bytes(streamed)
    write_media(tmp_path / "a.mp4", [(0.0, sound)], 16000, Coding("aac"))
    for name in ("a.wav", "streamed.wav", "a.mp4"):
        content = (tmp_path / name).read_bytes()
        monkeypatch.setattr(sys, "stdin", Stdin(content))
        audio = load_stdin()
        assert (audio.name, len(audio.samples)) == ("-", 32000)
        np.testing.assert_array_equal(audio.samples, load_audio(tmp_path / name).samples)
    assert not caplog.records
    monkeypatch.setattr(sys, "stdin", Stdin(content[: len(content) // 2]))
    with pytest.raises(AudioError, match="standard input: the file is truncated: its index"):
        load_stdin()
    monkeypatch.setattr(sys, "stdin", Stdin(b""))
    with pytest.raises(
        AudioError, match=r"standard input: expected audio, got nothing \(0 bytes\)"
    ):
        load_stdin()
    monkeypatch.setattr(Stdin, "isatty", lambda self: True)
    with pytest.raises(UsageError, match="no recording comes by standard input"):
        load_stdin()


def test_samples_that_no_recording_has_are_an_error_in_one_line(tmp_path: Path) -> None:
    """A click of 1e19 overflows in the network; FFmpeg decodes 64-bit integers, which PyAV cannot
    hand over."""
    click = babble(1.0).astype(np.float32)
    click[8000] = 1e19
    soundfile.write(tmp_path / "click.wav", click, 16000, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"expected samples in about \[-1, 1\], got .* to 1e\+19"):
        load_audio(tmp_path / "click.wav")
    data = (babble(0.5) * 2**62).astype("<i8").tobytes()
    head = struct.pack("<IHHIIHH", 16, 1, 1, 16000, 16000 * 8, 8, 64)
    chunks = b"WAVEfmt " + head + b"data" + struct.pack("<I", len(data)) + data
    (tmp_path / "wide.wav").write_bytes(b"RIFF" + struct.pack("<I", len(chunks)) + chunks)
    with pytest.raises(AudioError, match=r"wide\.wav: .*s64.*; convert them: ffmpeg"):
        load_audio(tmp_path / "wide.wav")


@pytest.mark.parametrize("name", ["sub\\Größe.wav", "sub/Größe.WAV", "sub/Gro\u0308ße.wav"])
def test_a_file_that_another_system_would_find_is_named(tmp_path: Path, name: str) -> None:
    there = tmp_path / "sub" / "Gr\u00f6ße.wav"
    there.parent.mkdir()
    soundfile.write(there, np.ones(1600), 16000)
    with pytest.raises(AudioError) as error:
        load_audio(tmp_path / name)
    assert str(error.value).endswith(f"; did you mean {there}?")
