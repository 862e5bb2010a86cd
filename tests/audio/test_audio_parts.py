"""Parts of recordings, one channel of several, and how long a file is without decoding it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made_sounds import babble
from rows import over_rows

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio import soundfile_reader
from ctc_align.audio.loading import as_audio, header_duration_s, load_audio, load_segment
from ctc_align.errors import AudioError, UsageError

CONTAINERS = [
    ("wav", "PCM_16"),
    ("wav", "FLOAT"),
    ("flac", "PCM_16"),
    ("aiff", "PCM_16"),
    ("ogg", "VORBIS"),
    ("ogg", "OPUS"),
    ("mp3", "MPEG_LAYER_III"),
]


def write(path: Path, samples: np.ndarray, rate: int = 16000, subtype: str | None = None) -> Path:
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


@over_rows(("extension", "subtype"), CONTAINERS)
def test_a_part_is_what_the_whole_has_there(tmp_path: Path, extension: str, subtype: str) -> None:
    path = write(tmp_path / f"a.{extension}", babble(10.0, level=0.5), subtype=subtype)
    whole = load_audio(path)
    for offset_s, duration_s in ((0.0, 1.0), (1.2345, 2.0), (5.5, None), (7.999, 0.5), (4.0, 6.0)):
        part = load_segment(path, offset_s=offset_s, duration_s=duration_s)
        first = round(offset_s * 16000)
        last = len(whole.samples) if duration_s is None else round((offset_s + duration_s) * 16000)
        assert len(part.samples) == last - first, offset_s
        # Decoders that begin in the middle need a moment to be as exact as from the start.
        exact = 0 if extension in ("wav", "flac", "aiff") else 1e-3
        np.testing.assert_allclose(part.samples, whole.samples[first:last], atol=exact, rtol=0)
        assert (part.name, part.offset_s, part.duration_s) == (str(path), offset_s, (last - first) / 16000)


@pytest.mark.parametrize("rate", [8000, 44100])
def test_parts_at_other_rates(tmp_path: Path, rate: int) -> None:
    time = np.arange(4 * rate) / rate
    path = write(tmp_path / "a.wav", (0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32), rate, "FLOAT")
    part = load_segment(path, offset_s=1.0, duration_s=2.0)
    assert (len(part.samples), part.duration_s) == (32000, 2.0)
    np.testing.assert_allclose(part.samples[800:-800], load_audio(path).samples[16800:47200], atol=1e-3)


def test_one_channel_or_all(tmp_path: Path) -> None:
    both = np.stack((babble(2.0, 1), babble(2.0, 2)), 1)
    path = write(tmp_path / "a.wav", both, subtype="FLOAT")
    for channel in (1, 2):
        part = load_segment(path, offset_s=0.5, duration_s=1.0, channel=channel)
        assert np.array_equal(part.samples, both[8000:24000, channel - 1])
        assert np.array_equal(load_segment(path, channel=channel).samples, both[:, channel - 1])
    assert np.array_equal(load_segment(path).samples, load_audio(path).samples)
    with pytest.raises(AudioError, match=r"a\.wav: expected channel 3, got a recording of 2"):
        load_segment(path, channel=3)


def test_only_the_part_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "long.flac", np.tile(babble(20.0), 15))
    read: list[int] = []
    real = soundfile.SoundFile.read

    def watched(sound: soundfile.SoundFile, frames: int = -1, **how: object) -> np.ndarray:
        block: np.ndarray = real(sound, frames, **how)
        read.append(len(block))
        return block

    monkeypatch.setattr(soundfile.SoundFile, "read", watched)
    load_segment(path, offset_s=250.0, duration_s=3.0)
    assert sum(read) == 48000


def test_files_that_cannot_seek_are_read_up_to_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.wav", babble(10.0), subtype="FLOAT")
    expected = load_segment(path, offset_s=6.5, duration_s=1.0)
    monkeypatch.setattr(soundfile.SoundFile, "seekable", lambda sound: False)
    assert np.array_equal(load_segment(path, offset_s=6.5, duration_s=1.0).samples, expected.samples)


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
        ({"channel": 0}, "expected a channel from 1 on, got 0"),
        ({"offset_s": 1.0, "duration_s": 0.01}, r"from 1\.00 s on\): expected at least 25 ms of audio, got 10\.00 ms"),
    ],
)
def test_parts_that_there_are_not(tmp_path: Path, how: dict[str, float], message: str) -> None:
    path = write(tmp_path / "a.wav", babble(3.0))
    with pytest.raises(AudioError, match=message) as caught:
        load_segment(path, **how)  # type: ignore[arg-type]
    assert str(path) in str(caught.value)


def test_a_duration_may_be_rounded(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", babble(2.996))
    assert load_segment(path, offset_s=1.0, duration_s=2.0).duration_s == 1.996


def test_a_part_that_is_silent_or_no_number(tmp_path: Path) -> None:
    samples = babble(3.0)
    samples[16000:32000] = 0
    samples[40000] = np.nan
    path = write(tmp_path / "a.wav", samples, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"a\.wav \(from 1\.00 s on\): the audio is silence only"):
        load_segment(path, offset_s=1.0, duration_s=1.0)
    with pytest.raises(AudioError, match=r"sample is nan at 0\.500 s"):
        load_segment(path, offset_s=2.0)
    assert load_segment(path, duration_s=1.0).duration_s == 1.0


def test_a_cut_file_has_the_parts_before_the_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "a.flac", np.tile(babble(10.0), 3))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with caplog.at_level(logging.WARNING):
        assert load_segment(path, offset_s=2.0, duration_s=3.0).duration_s == 3.0
        assert not caplog.records
        assert 8.0 < load_segment(path, offset_s=2.0, duration_s=20.0).duration_s < 13.0
        assert "it is cut or damaged" in caplog.text
    for offset_s in (14.0, 25.0):
        with pytest.raises(AudioError, match=r"a\.flac: the audio cannot be decoded: the file is cut or damaged"):
            load_segment(path, offset_s=offset_s, duration_s=2.0)


def test_the_same_errors_as_for_the_whole(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound at all")
    for path in (tmp_path, tmp_path / "none.wav", tmp_path / "text.wav"):
        for call in (
            lambda path=path: load_segment(path, offset_s=1.0),
            lambda path=path: header_duration_s(path),
            lambda path=path: load_audio(path),
        ):
            with pytest.raises(AudioError, match=str(path.name)):
                call()
    with pytest.raises(UsageError, match="sample_rate"):
        load_segment(tmp_path / "none.wav", 10, offset_s=1.0)


@over_rows(("extension", "subtype"), CONTAINERS)
def test_the_header_says_how_long_it_is(tmp_path: Path, extension: str, subtype: str) -> None:
    path = write(tmp_path / f"a.{extension}", babble(3.25), subtype=subtype)
    assert header_duration_s(path) == pytest.approx(load_audio(path).duration_s, abs=0.1)


def test_a_header_that_does_not_say_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.flac", babble(3.25))
    with monkeypatch.context() as patched:
        patched.setattr(soundfile_reader, "_MOST_SAMPLES", 0)
        assert header_duration_s(path) == 3.25
        assert load_segment(path, offset_s=3.0, duration_s=9.0).duration_s == 0.25
        with pytest.raises(AudioError, match="no samples"):
            load_segment(path, offset_s=9.0)


def test_the_place_in_the_recording_reaches_the_alignment(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", babble(4.5), 22050)
    part = load_segment(path, offset_s=1.5, duration_s=1.0)
    assert as_audio(part).offset_s == as_audio(part, 8000).offset_s == 1.5
    assert as_audio(part, 8000).name == str(path)
    alignment = Aligner("english", device="cpu").align(part, "be", utterance="u-1")
    assert (alignment.utterance, alignment.audio, alignment.offset_s) == ("u-1", str(path), 1.5)
    assert alignment.duration_s == pytest.approx(1.0, abs=1e-4)
