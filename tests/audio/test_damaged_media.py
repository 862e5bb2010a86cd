"""Files that are cut, damaged, dangerous or no recordings at all: each is told as what it is."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from made_media import Coding, write_media
from made_sounds import babble
from rows import over_rows

from ctc_align.audio.loading import load_audio
from ctc_align.audio.media_file import ByteRange
from ctc_align.errors import AudioError

RATE = 16000
SECONDS = 4.0


def made(path: Path, coding: Coding, rate: int = RATE) -> Path:
    return write_media(path, [(0.0, babble(SECONDS * RATE / rate, level=0.5)[:, None])], rate, coding)


@over_rows(
    ("name", "coding", "says"),
    [
        ("a.mp3", Coding("libmp3lame", bit_rate=32000), "s before its header says"),
        ("vbr.mp3", Coding("libmp3lame", coder={"q": "4"}), "s before its header says"),
        ("bare.mp3", Coding("libmp3lame", options={"write_xing": "0"}, bit_rate=32000), "in the middle of a frame"),
        ("a.mp2", Coding("mp2", bit_rate=64000), "in the middle of a frame"),
        ("a.aac", Coding("aac", "adts"), "in the middle of a frame"),
        ("a.m4a", Coding("aac", "ipod", options={"movflags": "faststart"}), "s before its header says"),
        ("a.mkv", Coding("aac"), "in the middle of a frame|lacks its last [0-9]+ bytes"),
        ("a.webm", Coding("libopus"), "in the middle of a frame|lacks its last [0-9]+ bytes"),
        ("live.webm", Coding("libopus", options={"live": "1"}), "in the middle of a frame|lacks its last"),
        ("a.wma", Coding("wmav2", "asf", bit_rate=64000), "lacks its last"),
        ("a.avi", Coding("libmp3lame", "avi"), "in the middle of a frame|lacks its last"),
        ("a.flv", Coding("aac", "flv"), "in the middle of a (packet|frame)"),
        ("a.ts", Coding("mp2", "mpegts"), "in the middle of a (packet|frame)"),
        ("a.ogg", Coding("libopus", "ogg", options={"page_duration": "100000"}), "in the middle of a page"),
    ],
)
def test_cut_files_are_told_and_whole_ones_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, coding: Coding, says: str
) -> None:
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


def test_a_wav_that_goes_on_behind_the_end_of_its_header(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A recorder was stopped, or `cat` put a file behind; chunks and padding are no sound; of length 0 all is read."""
    path = tmp_path / "a.wav"
    soundfile.write(path, babble(2.0, level=0.5), RATE)
    whole = path.read_bytes()
    for content, read_s, says in (
        (whole[:40] + struct.pack("<I", 32000) + whole[44:], 1.0, "1.00 s of the file lie behind the end"),
        (whole + whole, 2.0, "2.00 s of the file lie behind the end"),
        (whole[:40] + bytes(4) + whole[44:], 2.0, "ends in the middle of a frame"),
        (whole + b"LIST" + struct.pack("<I", 9000) + b"x" * 9000, 2.0, ""),
        (whole + bytes(9000), 2.0, ""),
    ):
        path.write_bytes(content)
        assert load_audio(path).duration_s == pytest.approx(read_s, abs=0.01)
        told = " ".join(record.message for record in caplog.records)
        caplog.clear()
        assert (says in told, bool(told)) == (True, bool(says))


def test_a_video_without_its_index(tmp_path: Path) -> None:
    path = made(tmp_path / "a.mp4", Coding("aac"))
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(AudioError, match=r"a\.mp4: the file is cut: its index \(moov\).*is missing"):
        load_audio(path)


@over_rows(
    ("name", "coding"),
    [
        ("a.mp3", Coding("libmp3lame", options={"write_xing": "0"}, bit_rate=32000)),
        ("a.m4a", Coding("aac", "ipod", bit_rate=32000)),
    ],
)
def test_damage_in_the_middle_is_silence_and_what_follows_keeps_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, coding: Coding
) -> None:
    path = made(tmp_path / name, coding)
    whole = load_audio(path)
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 700] = np.random.default_rng(0).integers(0, 255, 700, np.uint8).tobytes()
    path.write_bytes(content)
    audio = load_audio(path)
    assert audio.duration_s == pytest.approx(whole.duration_s, abs=0.08)
    tail, wanted = audio.samples[-16000:], whole.samples[-16000:]
    lags = np.correlate(np.pad(tail, 1500), wanted, "valid")
    assert abs(int(lags.argmax()) - 1500 + len(whole.samples) - len(audio.samples)) <= 1500
    assert any("the sound is damaged, first at 1." in line or "first at 2." in line for line in caplog.messages)
    caplog.clear()


PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:4,\n{other}\n#EXT-X-ENDLIST\n"
MANIFEST = '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>{other}</BaseURL></MPD>'
SESSION = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nm=audio 5004 RTP/AVP 0\r\n"


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
        ("a.mp3", np.random.default_rng(0).integers(0, 255, 9000, np.uint8).tobytes(), "no kind of sound"),
    ],
)
def test_files_that_are_no_recordings(tmp_path: Path, name: str, content: str | bytes, kind: str) -> None:
    other = made(tmp_path / "other.mp3", Coding("libmp3lame"))
    path = tmp_path / name
    path.write_bytes(content.format(other=other).encode() if isinstance(content, str) else content)
    with pytest.raises(AudioError, match=rf"{path.name}: expected audio.* got {kind}"):
        load_audio(path)


def test_a_video_without_sound(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as out:
        stream = out.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for packet in (*stream.encode(av.VideoFrame(64, 48, "yuv420p")), *stream.encode(None)):
            out.mux(packet)
    with pytest.raises(AudioError, match="got a video or a picture without a sound track"):
        load_audio(tmp_path / "a.mp4")


def test_names_are_names_and_no_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = made(tmp_path / "a.mp3", Coding("libmp3lame")).read_bytes()
    for name in ("concat:a.mp3|a.mp3", "file:a.mp3", "http://localhost:1/a.mp3", "pipe:0", "subfile,,start,0,,:a.mp3"):
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
    assert np.abs(audio.samples - load_audio(tmp_path / "a.mov").samples).max() < 1e-3  # its own sound, not the other's


def test_sockets_and_devices_end_with_an_error(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.wav"))
        with pytest.raises(AudioError, match="got a socket"):
            load_audio(tmp_path / "s.wav")
    with pytest.raises(AudioError, match=r"got a device.*give - as AUDIO"):
        load_audio("/dev/zero")


def test_places_that_no_file_has(tmp_path: Path) -> None:
    """Damaged files name them; an exception would be printed by PyAV, a traceback in the user's terminal."""
    (tmp_path / "a").write_bytes(b"abc")
    file = ByteRange(str(tmp_path / "a"), 1)
    assert [file.seek(-2), file.seek(2**70), file.seek(-9, 2), file.seek(-9, 1), file.seek(1)] == [-1, -1, -1, -1, 1]
