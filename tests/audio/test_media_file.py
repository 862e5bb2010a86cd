"""The player's clock: what steps of a file's times become silence, are trimmed, or are only
jitter."""

from __future__ import annotations

import functools
import logging
import socket
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import soxr
from made_media import LFE, Coding, can_encode, with_other_first_frame, write_media
from made_sounds import babble
from rows import over_rows

import ctc_align
from ctc_align.audio.loading import estimated_duration_s, header_duration_s, load_audio
from ctc_align.audio.media_file import ByteRange, DecodedPiece, place_pieces
from ctc_align.errors import AudioError

PIECE_RATE, SIZE = 1000, 20


def pieces(starts_ms: list[float | None]) -> list[DecodedPiece]:
    """Pieces of 20 ms that hold 1, 2, 3 …, at these times."""
    return [
        DecodedPiece(
            np.full((SIZE, 1), number, np.float32),
            PIECE_RATE,
            None if start is None else start / 1000,
        )
        for number, start in enumerate(starts_ms, start=1)
    ]


def placed(starts_ms: list[float | None], **how: bool) -> list[int]:
    """Return where each piece begins in the stream, in ms; -1 where nothing is left of it."""
    at, found = 0, []
    for one in place_pieces(pieces(starts_ms), "a.webm", **how):
        at += one.silence
        found.append(at - one.trimmed if len(one.samples) else -1)
        at += len(one.samples)
    return found


STEADY = [20.0 * i for i in range(40)]


@pytest.mark.parametrize(
    ("starts_ms", "expected"),
    [
        (STEADY, STEADY),
        ([None] * 40, STEADY),
        ([500 + t for t in STEADY], [500 + t for t in STEADY]),  # late sound
        (
            [t - 30 for t in STEADY],
            [-1, *(t - 30 for t in STEADY[1:])],
        ),  # what lies before the start
        ([t + (t >= 400) * 50 for t in STEADY], [t + (t >= 400) * 50 for t in STEADY]),  # a gap
        ([t + (t >= 400) * 7000 for t in STEADY], [t + (t >= 400) * 7000 for t in STEADY]),
        ([t + np.sin(t) * 4 for t in STEADY], STEADY),  # jitter
        ([t + (i % 4 == 1) * 15 for i, t in enumerate(STEADY)], STEADY),  # pieces that are held up
        ([t + (t == 400) * 5000 for t in STEADY], STEADY),  # one wrong time
    ],
)
def test_steps_count_and_jitter_does_not(starts_ms: list[float], expected: list[float]) -> None:
    assert placed(starts_ms) == pytest.approx(expected, abs=1)


def test_overlaps_are_trimmed_and_slow_drift_is_followed() -> None:
    found = placed([t - (t >= 400) * 30 for t in STEADY])
    assert found[:20] == pytest.approx(STEADY[:20])
    assert found[20] == -1
    assert found[21:] == pytest.approx([t - 30 for t in STEADY[21:]])
    starts_ms = [20.2 * i for i in range(2000)]  # a clock that is a hundredth off
    assert np.abs(np.array(placed(starts_ms)) - starts_ms).max() <= 7


def test_a_clock_that_is_set_anew_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        often = [20.0 * i for i in range(60)] * 3
        assert placed(often) == pytest.approx([20.0 * i for i in range(180)])
        assert placed(
            [t + (t >= 400) * 60_000 for t in STEADY], is_broadcast=True
        ) == pytest.approx(STEADY)
    assert [line.partition(" (files")[0] for line in caplog.messages] == [
        "a.webm: the file's clock jumps by -1.20 s at 1.20 s",
        "a.webm: the file's clock jumps by +60.00 s at 0.40 s",
    ]


# Files that are cut, damaged, dangerous or no recordings at all: each is told as what it is.

RATE = 16000
SECONDS = 4.0


def made(path: Path, coding: Coding, rate: int = RATE) -> Path:
    return write_media(
        path, [(0.0, babble(SECONDS * RATE / rate, level=0.5)[:, None])], rate, coding
    )


@over_rows(
    ("name", "coding", "says"),
    [
        ("a.mp3", Coding("libmp3lame", bit_rate=32000), "s before its header says"),
        ("vbr.mp3", Coding("libmp3lame", coder={"q": "4"}), "s before its header says"),
        (
            "bare.mp3",
            Coding("libmp3lame", options={"write_xing": "0"}, bit_rate=32000),
            "in the middle of a frame",
        ),
        ("a.mp2", Coding("mp2", bit_rate=64000), "in the middle of a frame"),
        ("a.aac", Coding("aac", "adts"), "in the middle of a frame"),
        (
            "a.m4a",
            Coding("aac", "ipod", options={"movflags": "faststart"}),
            "s before its header says",
        ),
        ("a.mkv", Coding("aac"), "in the middle of a frame|lacks its last [0-9]+ bytes"),
        ("a.webm", Coding("libopus"), "in the middle of a frame|lacks its last [0-9]+ bytes"),
        (
            "live.webm",
            Coding("libopus", options={"live": "1"}),
            "in the middle of a frame|lacks its last",
        ),
        ("a.wma", Coding("wmav2", "asf", bit_rate=64000), "lacks its last"),
        ("a.avi", Coding("libmp3lame", "avi"), "in the middle of a frame|lacks its last"),
        ("a.flv", Coding("aac", "flv"), "in the middle of a (packet|frame)"),
        ("a.ts", Coding("mp2", "mpegts"), "in the middle of a (packet|frame)"),
        (
            "a.ogg",
            Coding("libopus", "ogg", options={"page_duration": "100000"}),
            "in the middle of a page",
        ),
    ],
)
def test_cut_files_are_told_and_whole_ones_are_not(tmp_path, caplog, name, coding, says) -> None:
    path = made(tmp_path / name, coding, 48000 if coding.codec == "libopus" else RATE)
    whole_s = load_audio(path).duration_s
    path.write_bytes(path.read_bytes() + (b"TAG" + bytes(125) if path.suffix == ".mp3" else b""))
    assert load_audio(path).duration_s == whole_s
    assert not caplog.records
    content = path.read_bytes()
    path.write_bytes(content[: round(len(content) * 0.6) // 188 * 188 + 95])
    assert 0.3 * whole_s < load_audio(path).duration_s < 0.85 * whole_s
    warnings = [record.message for record in caplog.records]
    caplog.clear()
    assert len(warnings) == 1, warnings
    with pytest.raises(AudioError, match=says):
        raise AudioError(warnings[0])
    assert "are used" in warnings[0]


def test_a_wav_that_goes_on_behind_the_end_of_its_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A recorder was stopped, or `cat` put a file behind; chunks and padding are no sound; of
    length 0 all is read."""
    path = tmp_path / "a.wav"
    soundfile.write(path, babble(2.0, level=0.5), RATE)
    whole = path.read_bytes()
    for content, read_s, says in (
        (whole[:40] + struct.pack("<I", 32000) + whole[44:], 1.0, "1.00 s of audio after the end"),
        (whole + whole, 2.0, "2.00 s of audio after the end"),
        (whole[:40] + bytes(4) + whole[44:], 2.0, "ends in the middle of a frame"),
        (whole + b"LIST" + struct.pack("<I", 9000) + b"x" * 9000, 2.0, ""),
        (whole + bytes(9000), 2.0, ""),
    ):
        path.write_bytes(content)
        assert load_audio(path).duration_s == pytest.approx(read_s, abs=0.01)
        told = " ".join(record.message for record in caplog.records)
        caplog.clear()
        assert (says in told, bool(told)) == (True, bool(says))


@over_rows(
    ("name", "coding"),
    [
        ("a.mp3", Coding("libmp3lame", options={"write_xing": "0"}, bit_rate=32000)),
        ("a.m4a", Coding("aac", "ipod", bit_rate=32000)),
    ],
)
def test_damage_in_the_middle_is_silence_and_what_follows_keeps_its_place(
    tmp_path, caplog, name, coding
) -> None:
    path = made(tmp_path / name, coding)
    whole = load_audio(path)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 700] = (
        np.random.default_rng(0).integers(0, 255, 700, np.uint8).tobytes()
    )
    path.write_bytes(content)
    audio = load_audio(path)
    assert audio.duration_s == pytest.approx(whole.duration_s, abs=0.08)
    tail, wanted = audio.samples[-16000:], whole.samples[-16000:]
    lags = np.correlate(np.pad(tail, 1500), wanted, "valid")
    assert abs(int(lags.argmax()) - 1500 + len(whole.samples) - len(audio.samples)) <= 1500
    assert any(
        "the sound is damaged, first at 1." in line or "first at 2." in line
        for line in caplog.messages
    )
    caplog.clear()


PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:4,\n{other}\n#EXT-X-ENDLIST\n"
MANIFEST = (
    '<?xml version="1.0"?><MPD'
    ' xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>{other}</BaseURL></MPD>'
)
SESSION = (
    "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nm=audio 5004 RTP/AVP 0\r\n"
)


@over_rows(
    ("name", "content", "kind"),
    [
        ("a.m3u8", PLAYLIST, "a playlist: it only names recordings"),
        ("a.mp3", PLAYLIST, "a playlist"),
        ("a.wav", "ffconcat version 1.0\nfile {other}\n", "a list of files"),
        ("a.mp4", MANIFEST, "a text file"),
        ("a.sdp", SESSION, "a session description"),
        ("a.txt", "Once upon a time.\n", "a text file"),
        ("a.m4a", "Es war einmal.\n".encode("utf-16"), "a text file"),
        ("a.mp3", b"\x89PNG\r\n\x1a\n" + bytes(500), r"a picture \(PNG\)"),
        ("a.mp4", b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(500), r"a picture \(JPEG\)"),
        ("a.wav", b"%PDF-1.7\n" + bytes(99), "a PDF document"),
        ("a.wav", b"PK\x03\x04" + bytes(99), "a ZIP archive: unpack it first"),
        ("a.mid", b"MThd\0\0\0\x06" + bytes(99), "MIDI"),
        ("a.html", "<!DOCTYPE html><html></html>", "an HTML page"),
        ("a.wav", bytes(5000), "nothing but zeros"),
        ("a.wav", b"", r"an empty file \(0 bytes\)"),
        (
            "a.mp3",
            np.random.default_rng(0).integers(0, 255, 9000, np.uint8).tobytes(),
            "an unknown kind of file",
        ),
    ],
)
def test_files_that_are_no_recordings(
    tmp_path: Path, name: str, content: str | bytes, kind: str
) -> None:
    other = made(tmp_path / "other.mp3", Coding("libmp3lame"))
    path = tmp_path / name
    path.write_bytes(content.format(other=other).encode() if isinstance(content, str) else content)
    with pytest.raises(AudioError, match=rf"{path.name}: expected audio.* got {kind}"):
        load_audio(path)


def test_videos_without_sound_or_index(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as out:
        stream = out.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for packet in (*stream.encode(av.VideoFrame(64, 48, "yuv420p")), *stream.encode(None)):
            out.mux(packet)
    with pytest.raises(AudioError, match="got a video or a picture without a sound track"):
        load_audio(tmp_path / "a.mp4")
    path = made(tmp_path / "a.mp4", Coding("aac"))
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(
        AudioError, match=r"a\.mp4: the file is truncated: its index \(moov\).*is missing"
    ):
        load_audio(path)


def test_names_are_names_and_no_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = made(tmp_path / "a.mp3", Coding("libmp3lame")).read_bytes()
    for name in (
        "concat:a.mp3|a.mp3",
        "file:a.mp3",
        "http://localhost:1/a.mp3",
        "pipe:0",
        "subfile,,start,0,,:a.mp3",
    ):
        with pytest.raises(AudioError, match="no such audio file"):
            load_audio(name)
    Path("concat:x|y").write_bytes(content)
    assert load_audio("concat:x|y").duration_s == pytest.approx(SECONDS, abs=0.01)


def test_a_file_that_refers_to_another_reads_none(tmp_path: Path) -> None:
    made(tmp_path / "a.mov", Coding("pcm_s16le"))
    content = (tmp_path / "a.mov").read_bytes()
    (tmp_path / "other.pcm").write_bytes(np.full(RATE * 8, 7, np.int16).tobytes())
    inner = struct.pack(">I4sI", 12, b"url ", 1)
    assert content.count(inner) == 1
    place = b"other.pcm\0"
    outer = struct.pack(">I4sI", 12 + len(place), b"url ", 0) + place
    grown = bytearray(content.replace(inner, outer))
    for box in (b"dref", b"dinf", b"minf", b"mdia", b"trak", b"moov"):  # each holds the one before
        at = grown.rindex(box, 0, grown.index(outer)) - 4
        struct.pack_into(">I", grown, at, struct.unpack_from(">I", grown, at)[0] + len(place))
    (tmp_path / "b.mov").write_bytes(grown)
    try:
        audio = load_audio(tmp_path / "b.mov")
    except AudioError:
        return
    assert (
        np.abs(audio.samples - load_audio(tmp_path / "a.mov").samples).max() < 1e-3
    )  # its own sound, not the other's


def test_sockets_devices_and_places_that_no_file_has_end_with_an_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.wav"))
        with pytest.raises(AudioError, match="got a socket"):
            load_audio(tmp_path / "s.wav")
    with pytest.raises(AudioError, match=r"got a device.*give - as AUDIO"):
        load_audio("/dev/zero")
    # Damaged files name them; an exception would be printed by PyAV, a traceback in the user's
    # terminal.
    (tmp_path / "a").write_bytes(b"abc")
    file = ByteRange(str(tmp_path / "a"), 1)
    assert [file.seek(-2), file.seek(2**70), file.seek(-9, 2), file.seek(-9, 1), file.seek(1)] == [
        -1,
        -1,
        -1,
        -1,
        1,
    ]


# Every kind of media file against the WAV: how long it is, and where its landmarks lie, within 10
# ms.

DEMO = Path(ctc_align.__file__).parent / "demo" / "demo.flac"
TOLERANCE_S = 0.010
MP3_DELAY, AAC_DELAY, MP2_DELAY = 1105, 1024, 481
"""Samples before the sound where the file does not say that they are the coder's: every player
plays them."""
WITHOUT_HEADER = {"write_xing": "0"}
AMR = Coding("libopencore_amrnb", "amr", bit_rate=12200)
KINDS = [
    # name, coding, rate, channels, samples of delay that nothing in the file takes back
    ("cbr.mp3", Coding("libmp3lame", bit_rate=64000), 44100, 2, 0),
    ("cbr.mp3", Coding("libmp3lame", bit_rate=24000), 8000, 1, 0),
    ("vbr.mp3", Coding("libmp3lame", coder={"q": "5"}), 48000, 1, 0),
    (
        "no header.mp3",
        Coding("libmp3lame", options=WITHOUT_HEADER, bit_rate=48000),
        44100,
        1,
        MP3_DELAY,
    ),
    (
        "vbr, no header.mp3",
        Coding("libmp3lame", options=WITHOUT_HEADER, coder={"q": "5"}),
        48000,
        2,
        MP3_DELAY,
    ),
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
    """Return (n, channels) at another rate: the sound in each channel, and a rumble in the one for
    effects."""
    wide = np.repeat(soxr.resample(samples, 16000, rate)[:, None], channels, axis=1)
    if channels == 6:
        wide[:, LFE] = 0.9 * np.sin(2 * np.pi * 40 * np.arange(len(wide)) / rate)
    return wide.astype(np.float32)


def lags_s(samples: np.ndarray, expected: np.ndarray, window_s: float = 1.0) -> list[float]:
    """Return by how much later each second of the expected sound is found, by the peak of the
    correlation."""
    size, reach = round(window_s * 16000), 3200
    found = []
    for low in range(0, len(expected) - size + 1, size):
        window = expected[low : low + size]
        if not window.any():
            continue
        around = np.pad(samples, (reach, reach + size))[low : low + size + 2 * reach]
        spectrum = np.fft.rfft(around) * np.fft.rfft(window, len(around)).conj()
        found.append(
            (int(np.fft.irfft(spectrum, len(around))[: 2 * reach].argmax()) - reach) / 16000
        )
    return found


def check(
    path: Path, expected: np.ndarray, delay_s: float = 0.0, end_s: float = TOLERANCE_S
) -> None:
    """Check length and landmarks; a coder's padding at the end (`end_s`) may not be marked as
    such."""
    audio = load_audio(path)
    lags = lags_s(audio.samples, expected)
    assert max(abs(lag - delay_s) for lag in lags) <= TOLERANCE_S, lags
    length_s = len(expected) / 16000
    assert -TOLERANCE_S <= audio.duration_s - length_s - delay_s <= end_s, audio.duration_s
    assert header_duration_s(path) == pytest.approx(audio.duration_s, abs=1e-6)
    assert estimated_duration_s(path) == pytest.approx(audio.duration_s, abs=0.15)


@over_rows(
    ("name", "coding", "rate", "channels", "delay"), [row for row in KINDS if can_encode(row[1])]
)
def test_kinds_of_media(tmp_path, caplog, name, coding, rate, channels, delay) -> None:
    path = write_media(
        tmp_path / name, [(0.0, at_rate(sound()[:32000], rate, channels))], rate, coding
    )
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
def test_late_sound_and_gaps_are_silence(tmp_path, caplog, name, coding, rate) -> None:
    first, second = at_rate(sound()[:16000], rate), at_rate(sound()[16000:40000], rate)
    path = write_media(tmp_path / name, [(0.75, first), (3.27, second)], rate, coding)
    expected = np.zeros(round(3.27 * 16000) + 24000, np.float32)
    expected[12000:28000], expected[-24000:] = sound()[:16000], sound()[16000:40000]
    audio = load_audio(path)
    assert max(map(abs, lags_s(audio.samples[12000:], sound()[:16000]))) <= TOLERANCE_S
    assert (
        max(map(abs, lags_s(audio.samples[52320:], sound()[16000:40000])))
        <= TOLERANCE_S + 481 / rate
    )
    assert audio.duration_s == pytest.approx(len(expected) / 16000, abs=0.06)
    assert np.abs(audio.samples[:11000]).max() < 1e-3
    assert np.abs(audio.samples[31000:50000]).max() < 1e-3
    (told,) = (record.message for record in caplog.records)
    assert f"{path}: the file has no sound from 1.7" in told, (
        "what begins late is not told, a gap of a second is"
    )
    caplog.clear()


def mp3(path: Path, samples: np.ndarray, rate: int = 44100, **how: object) -> Path:
    return write_media(path, [(0.0, at_rate(samples, rate))], rate, Coding("libmp3lame", **how))  # type: ignore[arg-type]


def test_an_mp3_behind_a_header_of_another_bit_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bare = mp3(tmp_path / "bare.mp3", sound(), options=WITHOUT_HEADER, bit_rate=96000)
    path = tmp_path / "a.mp3"
    path.write_bytes(with_other_first_frame(bare.read_bytes()))
    check(path, sound(), MP3_DELAY / 44100, 0.06)
    assert not caplog.records


def test_files_put_together_are_read_to_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = sound()[:24000], sound()[24000:]
    a, b = (
        mp3(tmp_path / "1.mp3", first, bit_rate=64000),
        mp3(tmp_path / "2.mp3", second, bit_rate=128000),
    )
    c = mp3(tmp_path / "3.mp3", second, 22050, bit_rate=32000)
    d = write_media(
        tmp_path / "4.mp3", [(0.0, at_rate(second, 44100, 2))], 44100, Coding("libmp3lame")
    )
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
    assert load_audio(path, offset_s=1.2, duration_s=1.0).duration_s == 1.0


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
def test_parts_are_what_the_whole_has_there(
    tmp_path: Path, name: str, coding: Coding, rate: int
) -> None:
    source = at_rate(np.tile(sound(), 3), rate)
    path = write_media(
        tmp_path / name, [(0.0, source[: 5 * rate]), (5.5, source[5 * rate :])], rate, coding
    )
    whole = load_audio(path, rate).samples
    for offset_s, duration_s in (
        (1.0, 2.0),
        (7.123, 1.0),
        (2.5, 0.5),
        (4.6, 1.4),
        (0.0, 1.0),
        (8.2, None),
        (6.0, 0.3),
    ):
        part = load_audio(path, rate, offset_s=offset_s, duration_s=duration_s)
        first = round(offset_s * rate)
        last = len(whole) if duration_s is None else round((offset_s + duration_s) * rate)
        assert len(part.samples) == last - first, offset_s
        # AAC leaves noise to the decoder's dice.
        np.testing.assert_allclose(
            part.samples, whole[first:last], atol=0.05 if "aac" in coding.codec else 2e-3
        )
    with pytest.raises(
        AudioError, match=rf"which is {len(whole) / rate:.3f} s long; got 60.000 s to 61.000 s"
    ):
        load_audio(path, rate, offset_s=60.0, duration_s=1.0)
