"""Every kind of media file against the WAV: how long it is, and where its landmarks lie, within 10 ms."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import soxr
from made_media import LFE, Coding, can_encode, with_other_first_frame, write_media
from rows import over_rows

import ctc_align
from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import estimated_duration_s, header_duration_s, load_audio, load_segment
from ctc_align.config import Settings
from ctc_align.errors import AudioError

DEMO = Path(ctc_align.__file__).parent / "demo" / "demo.flac"
TOLERANCE_S = 0.010
MP3_DELAY, AAC_DELAY, MP2_DELAY = 1105, 1024, 481
"""Samples before the sound where the file does not say that they are the coder's: every player plays them."""
WITHOUT_HEADER = {"write_xing": "0"}
AMR = Coding("libopencore_amrnb", "amr", bit_rate=12200)
KINDS = [
    # name, coding, rate, channels, samples of delay that nothing in the file takes back
    ("cbr.mp3", Coding("libmp3lame", bit_rate=64000), 44100, 2, 0),
    ("cbr.mp3", Coding("libmp3lame", bit_rate=24000), 8000, 1, 0),
    ("vbr.mp3", Coding("libmp3lame", coder={"q": "5"}), 48000, 1, 0),
    ("no header.mp3", Coding("libmp3lame", options=WITHOUT_HEADER, bit_rate=48000), 44100, 1, MP3_DELAY),
    ("vbr, no header.mp3", Coding("libmp3lame", options=WITHOUT_HEADER, coder={"q": "5"}), 48000, 2, MP3_DELAY),
    ("a.mp2", Coding("mp2"), 44100, 1, MP2_DELAY),
    ("a.m4a", Coding("aac", "ipod"), 44100, 2, 0),
    ("a.m4a", Coding("aac", "ipod"), 8000, 1, 0),
    ("5.1.m4a", Coding("aac", "ipod"), 48000, 6, 0),
    ("lossless.m4a", Coding("alac", "ipod"), 48000, 1, 0),
    ("a.mp4", Coding("aac", video=True), 48000, 2, 0),
    ("a.mov", Coding("aac", video=True), 44100, 1, 0),
    ("pcm.mov", Coding("pcm_s16le"), 44100, 2, 0),
    ("a.3gp", Coding("libopencore_amrnb", "3gp", bit_rate=12200), 8000, 1, 0),
    ("a.3gp", Coding("aac", "3gp"), 44100, 1, 0),
    ("a.amr", AMR, 8000, 1, 40),
    ("a.aac", Coding("aac", "adts"), 44100, 2, AAC_DELAY),
    ("a.aac", Coding("aac", "adts"), 8000, 1, AAC_DELAY),
    ("a.webm", Coding("libopus"), 48000, 2, 0),
    ("a.webm", Coding("vorbis", video=False, coder={"strict": "-2"}), 44100, 2, 0),
    ("a.mkv", Coding("aac", video=True), 44100, 1, 0),
    ("5.1.mkv", Coding("ac3", video=True), 48000, 6, 0),
    ("flac.mkv", Coding("flac"), 48000, 1, 0),
    ("a.opus", Coding("libopus", "opus"), 48000, 1, 0),
    ("a.wma", Coding("wmav2", "asf", bit_rate=96000), 44100, 1, 2048),
    ("a.ts", Coding("aac", "mpegts", video=True), 48000, 2, AAC_DELAY),
    ("a.flv", Coding("aac", "flv"), 44100, 1, AAC_DELAY),
    ("a.avi", Coding("libmp3lame", "avi", video=True), 44100, 2, MP3_DELAY),
    ("a.mpg", Coding("mp2", "mpeg", video=True), 44100, 1, MP2_DELAY),
    ("a.caf", Coding("pcm_s16le", "caf"), 44100, 1, 0),
]


@functools.cache
def sound() -> np.ndarray:
    """Three seconds of speech at 16 kHz."""
    return load_audio(DEMO).samples[16000:64000]


def at_rate(samples: np.ndarray, rate: int, channels: int = 1) -> np.ndarray:
    """Return (n, channels) at another rate: the sound in each channel, and a rumble in the one for effects."""
    wide = np.repeat(soxr.resample(samples, 16000, rate)[:, None], channels, axis=1)
    if channels == 6:
        wide[:, LFE] = 0.9 * np.sin(2 * np.pi * 40 * np.arange(len(wide)) / rate)
    return wide.astype(np.float32)


def lags_s(samples: np.ndarray, expected: np.ndarray, window_s: float = 1.0) -> list[float]:
    """Return by how much later each second of the expected sound is found, by the peak of the correlation."""
    size, reach = round(window_s * 16000), 3200
    found = []
    for low in range(0, len(expected) - size + 1, size):
        window = expected[low : low + size]
        if not window.any():
            continue
        around = np.pad(samples, (reach, reach + size))[low : low + size + 2 * reach]
        spectrum = np.fft.rfft(around) * np.fft.rfft(window, len(around)).conj()
        found.append((int(np.fft.irfft(spectrum, len(around))[: 2 * reach].argmax()) - reach) / 16000)
    return found


def check(path: Path, expected: np.ndarray, delay_s: float = 0.0, end_s: float = TOLERANCE_S) -> None:
    """Check length and landmarks; a coder's padding at the end (`end_s`) may not be marked as such."""
    audio = load_audio(path)
    lags = lags_s(audio.samples, expected)
    assert max(abs(lag - delay_s) for lag in lags) <= TOLERANCE_S, lags
    length_s = len(expected) / 16000
    assert -TOLERANCE_S <= audio.duration_s - length_s - delay_s <= end_s, audio.duration_s
    assert header_duration_s(path) == pytest.approx(audio.duration_s, abs=1e-6)
    assert estimated_duration_s(path) == pytest.approx(audio.duration_s, abs=0.15)


@over_rows(("name", "coding", "rate", "channels", "delay"), [row for row in KINDS if can_encode(row[1])])
def test_kinds_of_media(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, coding: Coding, rate: int, channels: int, delay: int
) -> None:
    path = write_media(tmp_path / name, [(0.0, at_rate(sound()[:32000], rate, channels))], rate, coding)
    knows_its_end = not delay and "amr" not in coding.codec and path.suffix not in (".webm", ".mkv")
    check(path, sound()[:32000], delay / rate, TOLERANCE_S if knows_its_end else 2 * 2304 / rate)
    assert not caplog.records


@over_rows(
    ("name", "coding", "rate"),
    [
        ("a.mp4", Coding("aac", video=True), 44100),
        ("a.mkv", Coding("aac", video=True), 48000),
        ("a.webm", Coding("libopus", container="matroska", video=True), 48000),
        ("a.mov", Coding("alac", video=True), 44100),
        ("a.ts", Coding("mp2", container="mpegts", video=True), 48000),
    ],
)
def test_late_sound_and_gaps_are_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, coding: Coding, rate: int
) -> None:
    first, second = at_rate(sound()[:16000], rate), at_rate(sound()[16000:40000], rate)
    path = write_media(tmp_path / name, [(0.75, first), (3.27, second)], rate, coding)
    expected = np.zeros(round(3.27 * 16000) + 24000, np.float32)
    expected[12000:28000], expected[-24000:] = sound()[:16000], sound()[16000:40000]
    audio = load_audio(path)
    assert max(map(abs, lags_s(audio.samples[12000:], sound()[:16000]))) <= TOLERANCE_S
    assert max(map(abs, lags_s(audio.samples[52320:], sound()[16000:40000]))) <= TOLERANCE_S + 481 / rate
    assert audio.duration_s == pytest.approx(len(expected) / 16000, abs=0.06)
    assert np.abs(audio.samples[:11000]).max() < 1e-3
    assert np.abs(audio.samples[31000:50000]).max() < 1e-3
    (told,) = (record.message for record in caplog.records)
    assert f"{path}: the file has no sound from 1.7" in told, "what begins late is not told, a gap of a second is"
    caplog.clear()


def mp3(path: Path, samples: np.ndarray, rate: int = 44100, **how: object) -> Path:
    return write_media(path, [(0.0, at_rate(samples, rate))], rate, Coding("libmp3lame", **how))  # type: ignore[arg-type]


def test_an_mp3_behind_a_header_of_another_bit_rate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bare = mp3(tmp_path / "bare.mp3", sound(), options=WITHOUT_HEADER, bit_rate=96000)
    path = tmp_path / "a.mp3"
    path.write_bytes(with_other_first_frame(bare.read_bytes()))
    check(path, sound(), MP3_DELAY / 44100, 0.06)
    assert not caplog.records


def test_files_put_together_are_read_to_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = sound()[:24000], sound()[24000:]
    a, b = mp3(tmp_path / "1.mp3", first, bit_rate=64000), mp3(tmp_path / "2.mp3", second, bit_rate=128000)
    c = mp3(tmp_path / "3.mp3", second, 22050, bit_rate=32000)
    d = write_media(tmp_path / "4.mp3", [(0.0, at_rate(second, 44100, 2))], 44100, Coding("libmp3lame"))
    for number, other in enumerate((b, c, d)):
        path = tmp_path / f"all {number}.mp3"
        path.write_bytes(a.read_bytes() + other.read_bytes() + b"TAG" + bytes(125))
        audio = load_audio(path)
        assert max(map(abs, lags_s(audio.samples, first, 0.7))) <= TOLERANCE_S
        # The padding of the first and the delay of the second are sound now, as in every player.
        late_s, later_s = lags_s(audio.samples[24000:], second, 0.7)
        assert MP3_DELAY / 44100 <= late_s <= 0.1
        assert later_s == pytest.approx(late_s, abs=0.001)
        assert 3.0 + late_s <= audio.duration_s <= 3.05 + late_s
        assert not caplog.records
    ogg = [
        write_media(tmp_path / f"{n}.ogg", [(0.0, at_rate(s, r))], r, Coding("libopus", "opus"))
        for n, s, r in ((1, first, 48000), (2, second, 16000))
    ]
    path = tmp_path / "chain.ogg"
    path.write_bytes(b"".join(one.read_bytes() for one in ogg))
    check(path, sound())
    assert load_segment(path, offset_s=1.2, duration_s=1.0).duration_s == 1.0


@over_rows(
    ("name", "coding", "rate"),
    [
        ("a.mp3", Coding("libmp3lame", coder={"q": "6"}), 44100),
        ("bare.mp3", Coding("libmp3lame", options=WITHOUT_HEADER, bit_rate=24000), 16000),
        ("a.m4a", Coding("aac", "ipod"), 44100),
        ("a.mkv", Coding("aac", video=True), 44100),
        ("a.webm", Coding("libopus"), 48000),
        ("a.aac", Coding("aac", "adts"), 44100),
        ("a.wma", Coding("wmav2", "asf", bit_rate=96000), 44100),
        *([("a.amr", AMR, 8000)] if can_encode(AMR) else []),
        ("a.ts", Coding("mp2", "mpegts"), 48000),
        ("a.avi", Coding("libmp3lame", "avi"), 44100),
    ],
)
def test_parts_are_what_the_whole_has_there(tmp_path: Path, name: str, coding: Coding, rate: int) -> None:
    source = at_rate(np.tile(sound(), 3), rate)
    path = write_media(tmp_path / name, [(0.0, source[: 5 * rate]), (5.5, source[5 * rate :])], rate, coding)
    whole = load_audio(path, rate).samples
    for offset_s, duration_s in ((1.0, 2.0), (7.123, 1.0), (2.5, 0.5), (4.6, 1.4), (0.0, 1.0), (8.2, None), (6.0, 0.3)):
        part = load_segment(path, rate, offset_s=offset_s, duration_s=duration_s)
        first = round(offset_s * rate)
        last = len(whole) if duration_s is None else round((offset_s + duration_s) * rate)
        assert len(part.samples) == last - first, offset_s
        # AAC leaves noise to the decoder's dice.
        np.testing.assert_allclose(part.samples, whole[first:last], atol=0.05 if "aac" in coding.codec else 2e-3)
    with pytest.raises(AudioError, match=rf"which is {len(whole) / rate:.3f} s long; got 60.000 s to 61.000 s"):
        load_segment(path, rate, offset_s=60.0, duration_s=1.0)


def word_edges(aligner: Aligner, audio: object) -> np.ndarray:
    """Return the edges of the demo's words in seconds, (words, 2)."""
    words = aligner.align(audio, DEMO.with_suffix(".txt").read_text("utf-8")).words  # type: ignore[arg-type]
    return np.array([[word.start_s, word.end_s] for word in words if word.start_s is not None])


@pytest.mark.long
@over_rows(("name", "coding", "rate", "channels", "delay"), [row for row in KINDS if can_encode(row[1])])
def test_word_times_are_those_of_the_wav(
    tmp_path: Path, name: str, coding: Coding, rate: int, channels: int, delay: int
) -> None:
    # The clock is tested: what a coder does to the sound at one edge, at which a network would look, is not.
    english = Aligner("english", settings=Settings(edges="occupancy"))
    samples = load_audio(DEMO).samples
    path = write_media(tmp_path / name, [(0.0, at_rate(samples, rate, channels))], rate, coding)
    off_s = word_edges(english, path) - delay / rate - word_edges(english, (at_rate(samples, rate), rate))
    assert np.abs(off_s).max() <= TOLERANCE_S
