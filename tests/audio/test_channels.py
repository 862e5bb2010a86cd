"""Channels: one of several, their mix, and those that cancel each other in it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made_media import Coding, write_media
from made_sounds import babble
from rows import over_rows

from ctc_align.audio.loading import as_audio, load_audio, load_segment, load_stdin
from ctc_align.config import Settings, load_settings
from ctc_align.errors import AudioError, ConfigError, UsageError


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
    for channel, expected in (("left", left), ("right", right), ("2", right), ("mix", (left + right) / 2)):
        audio = as_audio(path, channel=Settings(channel=channel).channel_number)
        assert len(audio.samples) == 32000
        assert np.corrcoef(audio.samples, expected)[0, 1] > 0.99
    with pytest.raises(AudioError, match=r"expected channel 3, got a recording of 2 channels \(1 is the left one"):
        load_segment(path, channel=3)


def test_a_channel_is_a_setting() -> None:
    assert load_settings(None, ["channel=3"]).channel_number == 3
    for wrong in ("0", "middle", "-1", ""):
        with pytest.raises(ConfigError, match="channel: expected mix, left, right or a number from 1"):
            load_settings(channel=wrong)


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
def test_channels_that_cancel_are_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, right: object, warned: bool | None
) -> None:
    sound = babble(4.0, 1)
    path = stereo(tmp_path / name, sound, right(sound))  # type: ignore[operator]
    caplog.clear()
    if warned is None:
        with pytest.raises(AudioError, match=r"the channels cancel each other .*\(--channel left\)"):
            load_audio(path)
    else:
        load_audio(path)
        assert ["cancel" in record.message for record in caplog.records] == [True] * warned
    caplog.clear()
    load_segment(path, channel=1)
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


def test_a_recording_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
    with pytest.raises(AudioError, match="standard input: the file is cut: its index"):
        load_stdin()
    monkeypatch.setattr(sys, "stdin", Stdin(b""))
    with pytest.raises(AudioError, match=r"standard input: expected audio, got nothing \(0 bytes\)"):
        load_stdin()
    monkeypatch.setattr(Stdin, "isatty", lambda self: True)
    with pytest.raises(UsageError, match="no recording comes by standard input"):
        load_stdin()
